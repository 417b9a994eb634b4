//! The modules of a crate, read from the source: the names that each imports, and the paths that each uses.
//!
//! A re-export is no import: the file that uses the name imports the file that defines the name. Bodies of macros count, as tokens.
//! Left out: items under `#[cfg(test)]`, calls of methods, and items that a macro makes, which belong to the module of the macro's call.

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Imports of one file: by the number of the imported file, the names.
pub(super) type Imports = BTreeMap<usize, BTreeSet<String>>;

/// The modules of one crate. The first is the root.
#[derive(Debug, Default)]
pub(super) struct Modules {
    list: Vec<Module>,
    /// Files in the order of reading; their places are their numbers.
    pub(super) files: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct Module {
    /// Number of the file.
    file: usize,
    parent: Option<usize>,
    /// A name has several modules where a condition selects the file.
    children: BTreeMap<String, Vec<usize>>,
    /// Names that `use` binds, and the paths that they stand for.
    bound: BTreeMap<String, Bound>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
    /// Paths outside of `use`, single names included.
    paths: BTreeSet<Vec<String>>,
    /// Names of items.
    items: BTreeSet<String>,
}

#[derive(Debug)]
struct Bound {
    path: Vec<String>,
    /// The `use` has a visibility: other modules can take the name from here.
    is_shared: bool,
}

/// The most re-exports that a name is followed through.
const LONGEST_WAY: usize = 16;

/// The place at which a path ends.
#[derive(Clone, Copy)]
enum Place {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

impl Modules {
    /// Reads a crate from the file of its root.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let folder = root.parent().context("the root of a crate has no folder")?;
        modules.read_file(root, folder, None)?;
        Ok(modules)
    }

    /// The imports of each file.
    pub(super) fn imports(&self) -> Vec<Imports> {
        let mut imports = vec![Imports::new(); self.files.len()];
        for (number, module) in self.list.iter().enumerate() {
            let is_used = |name: &String| module.paths.iter().any(|path| path.first() == Some(name));
            let bound = module.bound.iter().filter(|(name, bound)| !bound.is_shared || is_used(name));
            for path in bound.map(|(_, bound)| &bound.path).chain(&module.paths) {
                for place in self.resolve(number, path, 0) {
                    if let (Place::Item(on), Some(name)) = (place, path.last()) {
                        imports[module.file].entry(self.list[on].file).or_default().insert(name.clone());
                    }
                }
            }
        }
        for (file, imported) in imports.iter_mut().enumerate() {
            imported.remove(&file);
        }
        imports
    }

    /// Follows a path from a module, through re-exports. No place is in another crate.
    fn resolve(&self, from: usize, path: &[String], steps: usize) -> Vec<Place> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let start = match first.as_str() {
            "crate" => vec![Place::Module(0)],
            "self" => vec![Place::Module(from)],
            "super" => self.parent(from),
            _ => self.member(from, first, steps).unwrap_or_default(),
        };
        rest.iter().fold(start, |places, name| {
            let next = |place| match place {
                Place::Module(module) if name == "super" => self.parent(module),
                Place::Module(module) => self.member(module, name, steps).unwrap_or_else(|| vec![Place::Item(module)]),
                Place::Item(_) => vec![place],
            };
            places.into_iter().flat_map(next).collect()
        })
    }

    fn parent(&self, of: usize) -> Vec<Place> {
        self.list[of].parent.map(Place::Module).into_iter().collect()
    }

    /// The places of a name in a module, `None` if the module does not have the name.
    fn member(&self, module: usize, name: &str, steps: usize) -> Option<Vec<Place>> {
        if steps > LONGEST_WAY {
            return None;
        }
        let this = &self.list[module];
        if let Some(children) = this.children.get(name) {
            return Some(children.iter().copied().map(Place::Module).collect());
        }
        if this.items.contains(name) {
            return Some(vec![Place::Item(module)]);
        }
        if let Some(bound) = this.bound.get(name) {
            return Some(self.resolve(module, &bound.path, steps + 1));
        }
        let globs = this.globs.iter().flat_map(|glob| self.resolve(module, glob, steps + 1));
        let through = |place| match place {
            Place::Module(of) if of != module => self.member(of, name, steps + 1),
            Place::Module(_) | Place::Item(_) => None,
        };
        globs.into_iter().find_map(through)
    }

    /// Reads a file and the files of its modules, which stand in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> Result<usize> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let tokens = text.parse().map_err(|error| anyhow!("{} is no Rust: {error}", file.display()))?;
        self.files.push(file.to_owned());
        self.read_module(self.files.len() - 1, parent, tokens, folder)
    }

    fn read_module(&mut self, file: usize, parent: Option<usize>, tokens: TokenStream, folder: &Path) -> Result<usize> {
        let number = self.list.len();
        self.list.push(Module { file, parent, ..Module::default() });
        self.read_items(number, tokens, folder)?;
        Ok(number)
    }

    /// Reads the items of a module.
    fn read_items(&mut self, module: usize, tokens: TokenStream, folder: &Path) -> Result<()> {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            let (item, next) = rest.split_at(length_of_item(rest));
            rest = next;
            let item = Item::of(item);
            if item.is_test {
                continue;
            }
            match item.tokens {
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body)] if word == "mod" => {
                    let file = self.list[module].file;
                    let child = self.read_module(file, Some(module), body.stream(), &folder.join(name.to_string()))?;
                    self.list[module].children.entry(name.to_string()).or_default().push(child);
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "mod" => {
                    for child in self.read_named(module, &name.to_string(), folder, &item.paths)? {
                        self.list[module].children.entry(name.to_string()).or_default().push(child);
                    }
                }
                [TokenTree::Ident(word), tree @ ..] if word == "use" => {
                    self.read_use(module, &[], tree, item.is_shared);
                }
                tokens => {
                    self.list[module].items.extend(defined(tokens));
                    self.read_body(module, tokens);
                }
            }
        }
        Ok(())
    }

    /// Reads `mod name;`: one file, or one for each path that an attribute gives.
    fn read_named(&mut self, parent: usize, name: &str, folder: &Path, paths: &[String]) -> Result<Vec<usize>> {
        if paths.is_empty() {
            let below = folder.join(name);
            let beside = folder.join(format!("{name}.rs"));
            let file = if beside.exists() { beside } else { below.join("mod.rs") };
            return Ok(vec![self.read_file(&file, &below, Some(parent))?]);
        }
        let beside = self.files[self.list[parent].file].parent().unwrap_or(folder).to_owned();
        let read = |path: &String| {
            let file = beside.join(path);
            self.read_file(&file, file.parent().unwrap_or(&beside), Some(parent))
        };
        paths.iter().map(read).collect()
    }

    /// Reads the paths in an item, and the `use` declarations in it, as if the module had them.
    fn read_body(&mut self, module: usize, tokens: &[TokenTree]) {
        let mut rest = tokens;
        while let Some((token, next)) = rest.split_first() {
            rest = next;
            match token {
                TokenTree::Ident(word) if word == "use" && !is_punct(rest.first(), '<') => {
                    let (tree, next) = rest.split_at(length_of_item(rest));
                    self.read_use(module, &[], tree, false);
                    rest = next;
                }
                TokenTree::Ident(word) => {
                    let mut path = vec![word.to_string()];
                    while let [one, two, TokenTree::Ident(name), next @ ..] = rest
                        && is_punct(Some(one), ':')
                        && is_punct(Some(two), ':')
                    {
                        path.push(name.to_string());
                        rest = next;
                    }
                    self.list[module].paths.insert(path);
                }
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    self.read_body(module, &inner);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads a tree of `use` behind `prefix`.
    fn read_use(&mut self, module: usize, prefix: &[String], tree: &[TokenTree], is_shared: bool) {
        let this = &mut self.list[module];
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut is_renamed = false;
        for token in tree {
            match token {
                TokenTree::Ident(word) if word == "as" => is_renamed = true,
                TokenTree::Ident(word) if is_renamed => name = Some(word.to_string()),
                // `a::{self, b}`
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is_punct(Some(token), ',')) {
                        self.read_use(module, &path, tree, is_shared);
                    }
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => return this.globs.push(path),
                _ => {}
            }
        }
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            this.bound.insert(name, Bound { path, is_shared });
        }
    }
}

/// An item, without the attributes and the visibility.
struct Item<'a> {
    tokens: &'a [TokenTree],
    is_test: bool,
    is_shared: bool,
    /// Paths that attributes give to the module's file.
    paths: Vec<String>,
}

impl<'a> Item<'a> {
    fn of(mut tokens: &'a [TokenTree]) -> Self {
        let (mut is_test, mut is_shared, mut paths) = (false, false, Vec::new());
        loop {
            tokens = match tokens {
                [hash, bang, TokenTree::Group(_), rest @ ..]
                    if is_punct(Some(hash), '#') && is_punct(Some(bang), '!') =>
                {
                    rest
                }
                [hash, TokenTree::Group(attribute), rest @ ..] if is_punct(Some(hash), '#') => {
                    let words: Vec<_> = attribute.stream().into_iter().collect();
                    is_test |= is_of_tests(&words);
                    paths.extend(path_in(&words));
                    rest
                }
                [TokenTree::Ident(word), TokenTree::Group(scope), rest @ ..]
                    if word == "pub" && scope.delimiter() == Delimiter::Parenthesis =>
                {
                    is_shared = true;
                    rest
                }
                [TokenTree::Ident(word), rest @ ..] if word == "pub" => {
                    is_shared = true;
                    rest
                }
                _ => return Self { tokens, is_test, is_shared, paths },
            };
        }
    }
}

/// Whether an attribute is `cfg(test)`, or `cfg(all(test, …))`.
fn is_of_tests(attribute: &[TokenTree]) -> bool {
    let [TokenTree::Ident(name), TokenTree::Group(condition)] = attribute else { return false };
    let condition = condition.stream().to_string();
    let first = condition.strip_prefix("all").map_or(condition.as_str(), |all| all.trim_start_matches([' ', '(']));
    name == "cfg" && first.split(|c: char| !c.is_alphanumeric()).next() == Some("test")
}

/// The path of a module's file, in `path = "…"` or in `cfg_attr(…, path = "…")`.
fn path_in(attribute: &[TokenTree]) -> Option<String> {
    match attribute {
        [TokenTree::Ident(name), TokenTree::Group(inner)] if name == "cfg_attr" => {
            let inner: Vec<_> = inner.stream().into_iter().collect();
            path_in(inner.get(inner.len().saturating_sub(3)..)?)
        }
        [TokenTree::Ident(name), _, TokenTree::Literal(path)] if name == "path" => {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// Number of tokens of the first item: up to a semicolon or the body in braces.
fn length_of_item(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(Some(token), ';'),
    };
    tokens.iter().position(ends).map_or(tokens.len(), |end| end + 1)
}

/// The name that an item defines.
fn defined(item: &[TokenTree]) -> Option<String> {
    let defines = |word: &TokenTree| {
        let word = word.to_string();
        ["fn", "struct", "enum", "trait", "type", "static", "union", "const", "macro_rules"].contains(&word.as_str())
    };
    let mut words = item.iter().skip_while(|word| !defines(word)).skip_while(|word| defines(word));
    let name = words.find(|word| matches!(word, TokenTree::Ident(_)))?;
    (!matches!(item.first(), Some(TokenTree::Ident(word)) if word == "impl")).then(|| name.to_string())
}

fn is_punct(token: Option<&TokenTree>, is: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == is)
}
