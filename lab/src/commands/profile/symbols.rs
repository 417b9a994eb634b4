//! The functions and source lines of a program's addresses, from its debug information.
//!
//! Neighbours: `profile` asks for the addresses that a run executed. Left out: line numbers of programs without debug
//! information; for those the symbol table gives the function.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::{Context as _, Result};
use object::read::{SymbolMap, SymbolMapName};
use object::{File, Object as _, ObjectSection as _};
use std::path::Path;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// A function that an address belongs to, among others where some are inlined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    /// The function's name, with its modules.
    pub(super) function: String,
    /// File and line in it, if known.
    pub(super) place: Option<String>,
}

/// The debug information and symbol table of a program.
pub(super) struct Symbols<'a> {
    lines: Context<Reader<'a>>,
    table: SymbolMap<SymbolMapName<'a>>,
    project: &'a Path,
}

impl<'a> Symbols<'a> {
    /// Symbols of an ELF file, whose places in the project's folder are shown relative to it.
    ///
    /// # Errors
    /// A file that is not ELF, or debug information that cannot be read.
    pub(super) fn of(elf: &'a [u8], project: &'a Path) -> Result<Self> {
        let file = File::parse(elf).context("the program is not an ELF file")?;
        let section = |id: SectionId| -> Result<Reader<'a>> {
            let data = file.section_by_name(id.name()).map_or(Ok(&[][..]), |section| section.data())?;
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let lines = Context::from_dwarf(Dwarf::load(section)?).context("the debug information cannot be read")?;
        Ok(Self { lines, table: file.symbol_map(), project })
    }

    /// The functions an address belongs to: the innermost inlined one first, the one that the compiler generated last. At least
    /// one.
    ///
    /// # Errors
    /// Debug information of this address that cannot be read.
    pub(super) fn frames(&self, address: u64) -> Result<Vec<Frame>> {
        let mut found = Vec::new();
        let mut frames = self.lines.find_frames(address).skip_all_loads()?;
        while let Some(frame) = frames.next()? {
            let function = match &frame.function {
                Some(name) => name.demangle()?.into_owned(),
                None => self.symbol(address),
            };
            let place = frame
                .location
                .as_ref()
                .and_then(|at| Some(format!("{}:{}", shortened(at.file?, self.project), at.line?)));
            found.push(Frame { function, place });
        }
        if found.is_empty() {
            found.push(Frame { function: self.symbol(address), place: None });
        }
        Ok(found)
    }

    fn symbol(&self, address: u64) -> String {
        self.table.get(address).map_or_else(|| "(no symbol)".to_owned(), |symbol| symbol.name().to_owned())
    }
}

/// A source file's path from the folder on that the reader knows: the kernel's, the library's, the package's, or the project's.
fn shortened<'p>(path: &'p str, project: &Path) -> &'p str {
    if let Some((_, package)) = path.split_once("/registry/src/") {
        return package.split_once('/').map_or(package, |(_registry, package)| package);
    }
    if let Some((_, kernel)) = path.split_once("../source/") {
        return kernel;
    }
    if let Some(at) = path.find("/library/") {
        return path.get(at + 1..).unwrap_or(path);
    }
    Path::new(path).strip_prefix(project).ok().and_then(Path::to_str).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::ObjectSymbol as _;
    use std::process::Command;

    /// A library, which the test compiles: its own program has no debug information.
    const LIBRARY: &str = "
        use std::hint::black_box;
        #[inline(always)]
        fn an_inlined_piece(number: u64) -> u64 {
            black_box(number).rotate_left(7) ^ black_box(0x5eed)
        }
        #[unsafe(no_mangle)]
        pub extern \"C\" fn a_function_to_be_looked_up(number: u64) -> u64 {
            an_inlined_piece(black_box(number)).wrapping_add(black_box(3))
        }
    ";

    #[test]
    fn inlined_function_is_found_inside_its_caller() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("library.rs"), LIBRARY).unwrap();
        let mut rustc = Command::new("rustc");
        rustc.args(["--crate-type=cdylib", "--edition=2024", "-Copt-level=1", "-Cdebuginfo=line-tables-only"]);
        assert!(rustc.args(["-o", "library", "library.rs"]).current_dir(&folder).status().unwrap().success());
        let elf = std::fs::read(folder.path().join("library")).unwrap();
        let symbols = Symbols::of(&elf, folder.path()).unwrap();
        let file = File::parse(&*elf).unwrap();
        let is_looked_up = |name: &str| name == "a_function_to_be_looked_up";
        let symbol = file.symbols().find(|symbol| symbol.name().is_ok_and(is_looked_up)).unwrap();
        let frames: Vec<_> = (symbol.address()..symbol.address() + symbol.size())
            .map(|address| symbols.frames(address).unwrap())
            .collect();
        assert!(!frames.is_empty());
        for frames in &frames {
            assert!(frames.last().unwrap().function.ends_with("a_function_to_be_looked_up"), "{frames:?}");
        }
        let of_piece = |frames: &&Vec<Frame>| frames.iter().any(|frame| frame.function.ends_with("an_inlined_piece"));
        let inlined = frames.iter().find(of_piece).unwrap();
        assert!(inlined.len() > 1, "{inlined:?}");
        let place = inlined.last().unwrap().place.as_deref().unwrap();
        assert!(place.starts_with("library.rs:"), "{place}");
    }

    #[test]
    fn address_without_debug_info_gets_a_frame_without_place() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let nowhere = Path::new("/");
        let frames = Symbols::of(&elf, nowhere).unwrap().frames(1 << 62).unwrap();
        assert_eq!(frames.iter().map(|frame| &frame.place).collect::<Vec<_>>(), [&None]);
        assert!(Symbols::of(b"no ELF file", nowhere).is_err());
    }

    #[test]
    fn a_path_begins_where_the_reader_knows_it() {
        let shown = |path| shortened(path, Path::new("/project"));
        assert_eq!(shown("/rustc/0123/library/core/src/option.rs"), "library/core/src/option.rs");
        assert_eq!(shown("/somewhere/registry/src/index-1/heapless-0.9.1/src/lib.rs"), "heapless-0.9.1/src/lib.rs");
        assert_eq!(shown("/project/xtask/src/lib.rs"), "xtask/src/lib.rs");
        assert_eq!(shown("./../source/src/object/tcb.c"), "src/object/tcb.c");
        assert_eq!(shown("elsewhere.c"), "elsewhere.c");
    }
}
