//! A copy of a miniature that a test changes, and the parts of its bindings.

use sel4_bindings::{Bindings, generate};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const OPTIONS: &str = "kernel/gen_config.h";

/// A copy of a miniature.
pub(crate) struct Prefix {
    folder: TempDir,
    arch: &'static str,
}

impl Prefix {
    pub(crate) fn x86_64() -> Self {
        Self::copy("x86_64-16", "x86_64")
    }

    pub(crate) fn aarch64() -> Self {
        Self::copy("aarch64-13", "aarch64")
    }

    fn copy(miniature: &str, arch: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("miniatures").join(miniature);
        copy_folder(&from, folder.path());
        Self { folder, arch }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("libsel4/include").join(name)
    }

    /// Replaces the one place of `old` in a file.
    pub(crate) fn with(self, name: &str, old: &str, new: &str) -> Self {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert_eq!(text.matches(old).count(), 1, "{old} in {name}");
        fs::write(self.path(name), text.replace(old, new)).unwrap();
        self
    }

    /// Adds options to the configuration.
    pub(crate) fn with_options(self, options: &[&str]) -> Self {
        let mut text = fs::read_to_string(self.path(OPTIONS)).unwrap();
        text.extend(options.iter().map(|option| format!("#define {option} 1\n")));
        fs::write(self.path(OPTIONS), text).unwrap();
        self
    }

    pub(crate) fn without_option(self, option: &str) -> Self {
        self.with(OPTIONS, &format!("#define {option} 1\n"), "")
    }

    pub(crate) fn without_file(self, name: &str) -> Self {
        fs::remove_file(self.path(name)).unwrap();
        self
    }

    pub(crate) fn generate(&self, reads: &mut dyn FnMut(&Path)) -> Result<Bindings, String> {
        generate(self.folder.path(), self.arch, reads)
    }

    pub(crate) fn bindings(&self) -> Parts {
        Parts(self.generate(&mut |_| {}).unwrap())
    }

    /// The error, with paths relative to the prefix.
    pub(crate) fn error(&self) -> String {
        let error = self.generate(&mut |_| {}).map(drop).unwrap_err();
        error.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The parts of bindings, taken from their code.
pub(crate) struct Parts(Bindings);

impl Parts {
    pub(crate) fn features(&self) -> &[&str] {
        &self.0.features
    }

    /// The value of a constant; `None` without it.
    pub(crate) fn constant(&self, name: &str) -> Option<u64> {
        constant(self.module("constant"), name)?.parse().ok()
    }

    /// The number of a system call, counted down from -1; `None` without it.
    pub(crate) fn syscall(&self, name: &str) -> Option<i64> {
        constant(self.module("syscall_number"), name)?.strip_suffix("i64 as u64")?.parse().ok()
    }

    /// Offset of a field, in bytes; `SIZE` names the size of the whole.
    pub(crate) fn offset(&self, of: &str, field: &str) -> Option<u64> {
        constant(inner(self.module("layout"), of), field)?.parse().ok()
    }

    /// Place of a register in a thread's context, in words.
    pub(crate) fn register(&self, name: &str) -> Option<u64> {
        constant(inner(self.module("invoke"), "seL4_UserContext"), name)?.parse().ok()
    }

    /// Number of a tag.
    pub(crate) fn tag(&self, union: &str, name: &str) -> Option<u64> {
        constant(inner(self.module("bitfield"), union), name)?.parse().ok()
    }

    /// The fields of a word, as written: mask and shift of each.
    pub(crate) fn word(&self, block: &str) -> Vec<String> {
        let lines = inner(self.module("bitfield"), block).lines();
        lines.filter_map(|line| line.trim().strip_prefix("| ")).map(|line| line.replace("r#", "")).collect()
    }

    /// Label, capabilities, and words of a method's message, as written; `None` without the method.
    pub(crate) fn message(&self, method: &str) -> Option<String> {
        let (_, after) = self.module("invoke").split_once(&format!("fn {method}("))?;
        let (_, call) = after.split_once("kernel.invoke(")?;
        let (arguments, _) = call.split_once(")\n")?;
        Some(arguments.replace("service, ", "").replace("r#", ""))
    }

    pub(crate) fn label(&self, method: &str) -> Option<u64> {
        self.message(method)?.split_once(',')?.0.parse().ok()
    }

    fn module(&self, name: &str) -> &str {
        let (_, after) = self.0.code.split_once(&format!("\npub(crate) mod {name} {{\n")).unwrap();
        after.split("\n/// ").next().unwrap_or(after)
    }
}

fn inner<'a>(module: &'a str, name: &str) -> &'a str {
    let after = module.split_once(&format!("mod {name} {{\n")).map_or("", |(_, after)| after);
    after.split("mod ").next().unwrap_or(after)
}

fn constant<'a>(module: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = module.split_once(&format!("const {name}: "))?;
    Some(after.split_once(" = ")?.1.split_once(';')?.0)
}
