//! The mirror of Debian: the one that the machine's own apt uses, so that one reachable from here is found.
//!
//! apt's sources are lines or stanzas. Sources of other projects are left out, although they may have Debian's names of suites: they
//! name a key of their own.

use std::fs;
use std::path::{Path, PathBuf};

/// Mirror for a machine whose apt has none of Debian.
const FALLBACK: &str = "http://deb.debian.org/debian";
/// Debian's suites; those of security updates and backports have longer names.
const SUITES: &[&str] =
    &["bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable", "testing", "unstable"];

/// Address of the mirror.
pub(super) fn of_this_machine() -> String {
    of(Path::new("/etc/apt"))
}

/// The first mirror in the files of `folder`, in apt's order.
fn of(folder: &Path) -> String {
    let found = files(folder).iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        let sources = if file.extension()? == "sources" { stanzas(&text) } else { lines(&text) };
        sources.into_iter().find_map(Source::debian)
    });
    found.unwrap_or_else(|| FALLBACK.to_owned())
}

/// The files of sources; some may be missing.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("sources.list.d")).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "list" || extension == "sources"));
    files.sort();
    files.insert(0, folder.join("sources.list"));
    files
}

/// A source of packages, as far as it tells whether it is Debian's.
#[derive(Default)]
struct Source {
    address: String,
    suites: Vec<String>,
    components: Vec<String>,
    key: Option<String>,
}

impl Source {
    /// The address, if the source is Debian's main archive.
    fn debian(self) -> Option<String> {
        let Self { address, suites, components, key } = self;
        let is_debians = suites.iter().any(|suite| SUITES.contains(&suite.as_str()))
            && components.iter().any(|component| component == "main")
            && key.is_none_or(|key| key.contains("debian-archive"));
        let address = address.trim_end_matches('/');
        (is_debians && !address.is_empty()).then(|| address.to_owned())
    }
}

/// Sources of binary packages in the format of one line each.
fn lines(text: &str) -> Vec<Source> {
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<Source> {
    let rest = text.split('#').next()?.trim().strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let key = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Source {
        address: words.next()?,
        suites: vec![words.next()?],
        components: words.collect(),
        key: key.map(str::to_owned),
    })
}

/// Sources of binary packages in the format of stanzas.
fn stanzas(text: &str) -> Vec<Source> {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).filter_map(stanza).collect()
}

fn stanza(lines: &[&str]) -> Option<Source> {
    let words = |name: &str| field(lines, name).unwrap_or_default();
    let is_disabled = words("Enabled").iter().any(|word| word == "no");
    if is_disabled || !words("Types").iter().any(|word| word == "deb") {
        return None;
    }
    Some(Source {
        address: words("URIs").into_iter().next()?,
        suites: words("Suites"),
        components: words("Components"),
        key: field(lines, "Signed-By").map(|words| words.join(" ")),
    })
}

/// The words of a field, on its line and on the indented ones after it.
fn field(lines: &[&str], name: &str) -> Option<Vec<String>> {
    let of_line = |line: &str| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.to_owned())
    };
    let at = lines.iter().position(|line| of_line(line).is_some())?;
    let (first, rest) = lines.get(at..)?.split_first()?;
    let more = rest.iter().take_while(|line| line.starts_with([' ', '\t']));
    let value = more.fold(of_line(first)?, |value, line| value + line);
    Some(value.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: Vec<Source>) -> Vec<String> {
        sources.into_iter().filter_map(Source::debian).collect()
    }

    #[test]
    fn a_line_may_have_options() {
        let text = "# deb http://a/debian bookworm main\n\
                    deb-src http://b/debian bookworm main\n\
                    deb http://c/security bookworm-security main\n\
                    deb cdrom:[Debian GNU/Linux 12 _Bookworm_]/ bookworm main\n\
                    deb [arch=amd64 signed-by=/k/other.gpg] http://d/debian bookworm main\n\
                    deb http://e/linux bookworm stable\n\
                    deb [ signed-by=/k/debian-archive-keyring.gpg arch=amd64 ] http://f/debian/ bookworm contrib main # f\n\
                    deb http://g/debian stable main\n\
                    deb\n";
        assert_eq!(found(lines(text)), ["http://f/debian", "http://g/debian"]);
    }

    #[test]
    fn a_stanza_may_have_comments_and_continued_lines() {
        let text = "Types: deb deb-src\n\
                    # http://a/snapshot\n\
                    uris: http://b/debian\n\
                    Suites: bookworm bookworm-updates\n\
                    Components:\n main\n contrib\n\
                    Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\
                    \n\
                    Types: deb\nURIs: http://c/security\nSuites: bookworm-security\nComponents: main\n\
                    \n\
                    Types: deb\nURIs: http://d/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n\
                    \n\
                    Types: deb\nURIs: http://e/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n\
                    \n\
                    Types: deb-src\nURIs: http://f/debian\nSuites: bookworm\nComponents: main\n\
                    \n\n\
                    Types: deb\nURIs: http://g/debian/\nSuites: trixie\nComponents: main\n";
        assert_eq!(found(stanzas(text)), ["http://b/debian", "http://g/debian"]);
    }

    #[test]
    fn the_first_files_mirror_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(folder.path()), FALLBACK);
        let more = folder.path().join("sources.list.d");
        fs::create_dir(&more).unwrap();
        fs::write(more.join("z.sources"), "Types: deb\nURIs: http://z/debian\nSuites: sid\nComponents: main\n")
            .unwrap();
        fs::write(more.join("a.disabled"), "deb http://a/debian sid main\n").unwrap();
        assert_eq!(of(folder.path()), "http://z/debian");
        fs::write(more.join("b.list"), "deb http://b/debian sid main\n").unwrap();
        assert_eq!(of(folder.path()), "http://b/debian");
        fs::write(folder.path().join("sources.list"), "deb http://first/debian sid main\n").unwrap();
        assert_eq!(of(folder.path()), "http://first/debian");
    }
}
