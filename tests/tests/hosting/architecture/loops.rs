//! The invariant of `ARCHITECTURE.md` that at most three files import each other in a loop.
//!
//! A file imports another one if its product code names an item by the other one's module. The name
//! is in a `use`, or in a path that begins with `crate`, `self`, `super` or a module of its own.
//! The test does not count imports of
//!
//! - a crate's root, which is the face of the crate and re-exports items of other files;
//! - a module by a module below it: a file and its folder are one unit;
//! - an item by a module that only re-exports it, by `pub use` of a module of its own: such code
//!   imports the re-exporting module, not the defining one.

use longshore_tests::world::root;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

/// Greatest number of files in a loop.
const MOST_FILES: usize = 3;

/// A module: its names from the crate's root; the root has none.
type Module = Vec<String>;
/// Imported modules of each module, with the imported names.
type Imports = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

#[test]
fn no_more_than_three_files_import_each_other_in_a_loop() {
    let mut found = String::new();
    for (name, crate_root) in crate_roots() {
        let source = Source::read(&crate_root);
        let long = loops(&source.imports()).into_iter().filter(|files| files.len() > MOST_FILES);
        found.extend(long.map(|files| source.shown(&name, &files)));
    }
    assert!(found.is_empty(), "too many files import each other:\n{found}");
}

/// Returns the roots of all libraries and programs, with the folders of their packages, without
/// test binaries.
fn crate_roots() -> Vec<(String, PathBuf)> {
    let mut roots = Vec::new();
    // The doubles of drivers and the shared code of tests are libraries and programs too.
    for folder in [root().to_owned(), root().join("tests")] {
        collect_roots(&folder, &mut roots);
    }
    assert!(roots.len() > 20, "{roots:?}");
    roots
}

fn collect_roots(folder: &Path, roots: &mut Vec<(String, PathBuf)>) {
    let is_apart =
        |name: &str| name.starts_with('.') || ["target", "fuzz", "tests"].contains(&name);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.is_dir()) {
        match path.file_name().unwrap().to_str().unwrap() {
            name if is_apart(name) => {}
            "src" => {
                let package = folder.strip_prefix(root()).unwrap().display().to_string();
                let programs = std::fs::read_dir(path.join("bin")).into_iter().flatten();
                let programs = programs.map(|entry| entry.unwrap().path());
                let own = ["lib.rs", "main.rs"].map(|file| path.join(file));
                let files = own.into_iter().chain(programs).filter(|file| file.is_file());
                roots.extend(files.map(|file| (package.clone(), file)));
            }
            _ => collect_roots(&path, roots),
        }
    }
}

/// The product code of a crate.
struct Source {
    files: BTreeMap<Module, (PathBuf, TokenStream)>,
}

impl Source {
    /// Reads the root of a crate, and the files of all its modules.
    fn read(crate_root: &Path) -> Source {
        let mut source = Source { files: BTreeMap::new() };
        source.add(Vec::new(), crate_root.to_owned(), crate_root.parent().unwrap());
        source
    }

    /// Adds a module and its submodules, whose files are in `folder`.
    fn add(&mut self, module: Module, file: PathBuf, folder: &Path) {
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens = without_tests(tokens);
        for (name, attribute) in declared(&tokens) {
            let own = folder.join(&name);
            let file = match attribute {
                Some(path) => file.parent().unwrap().join(path),
                None => own.with_extension("rs"),
            };
            let file = if file.is_file() { file } else { own.join("mod.rs") };
            self.add([&module[..], &[name]].concat(), file, &own);
        }
        self.files.insert(module, (file, tokens));
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, (_, tokens)) in &self.files {
            let mut scan = Scan { source: self, module, found: BTreeMap::new() };
            scan.tokens(tokens.clone(), &mut module.clone());
            imports.insert(module.clone(), scan.found);
        }
        imports
    }

    /// Returns the imports of a loop as readable text.
    fn shown(&self, package: &str, files: &[Module]) -> String {
        let imports = self.imports();
        let file = |module: &Module| self.files[module].0.strip_prefix(root()).unwrap().display();
        let mut text = format!("{} files of {package}:\n", files.len());
        for module in files {
            for (other, names) in imports[module].iter().filter(|(other, _)| files.contains(other))
            {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                writeln!(text, "  {} -> {}: {}", file(module), file(other), names.join(", "))
                    .unwrap();
            }
        }
        text
    }
}

/// Returns the names of the modules with files of their own, and the paths in their attributes.
fn declared(tokens: &TokenStream) -> Vec<(String, Option<String>)> {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (index, triple) in tokens.windows(3).enumerate() {
        if let [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(end)] = triple
            && word == "mod"
            && end.as_char() == ';'
        {
            let before = index.checked_sub(1).map(|at| tokens[at].to_string());
            let path =
                before.filter(|text| text.starts_with("[path") || text.starts_with("[ path"));
            let path = path.and_then(|text| Some(text.split('"').nth(1)?.to_owned()));
            found.push((name.to_string(), path));
        }
    }
    found
}

/// Removes items, statements and fields for tests only.
fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_attribute = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '#');
        match (token, tokens.peek()) {
            (_, Some(TokenTree::Group(attribute)))
                if is_attribute && is_of_tests(attribute.stream()) =>
            {
                tokens.next();
                skip(&mut tokens);
            }
            (TokenTree::Group(group), _) => {
                let inner = without_tests(group.stream());
                kept.push(TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner)));
            }
            (token, _) => kept.push(token),
        }
    }
    kept.into_iter().collect()
}

/// Returns whether an attribute is `cfg(test)`, or `cfg(all(..))` with `test` in it.
fn is_of_tests(attribute: TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)"
        || (text.starts_with("cfg(all(") && !text.contains("not(test") && {
            text.split(['(', ')', ',']).any(|word| word == "test")
        })
}

/// Skips an item, a statement or a field.
fn skip(tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) {
    const WITH_SEMICOLON: [&str; 5] = ["use", "let", "const", "static", "type"];
    const WITH_BODY: [&str; 7] = ["fn", "impl", "struct", "enum", "trait", "mod", "union"];
    let (mut ends_with_semicolon, mut has_body) = (false, false);
    for token in tokens.by_ref() {
        match &token {
            TokenTree::Ident(word) if !has_body => {
                ends_with_semicolon |= WITH_SEMICOLON.iter().any(|known| word == known);
                has_body |= WITH_BODY.iter().any(|known| word == known);
                // A function may be `const`.
                ends_with_semicolon &= !has_body;
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            TokenTree::Punct(mark)
                if mark.as_char() == ',' && !has_body && !ends_with_semicolon =>
            {
                return;
            }
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Brace && !ends_with_semicolon =>
            {
                return;
            }
            _ => {}
        }
    }
}

/// A scan of a file for the modules that it names.
struct Scan<'a> {
    source: &'a Source,
    /// The file's module.
    module: &'a Module,
    found: BTreeMap<Module, BTreeSet<String>>,
}

/// The place of a path.
struct Place<'a> {
    /// The module of the path, which may be inline.
    at: &'a Module,
    /// Whether the path is in a `use` that makes names public.
    is_handed_on: bool,
}

impl Scan<'_> {
    /// Scans the tokens of a module, which is the module of the file or inside the file.
    fn tokens(&mut self, tokens: TokenStream, at: &mut Module) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            match &tokens[index..] {
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                    if word == "mod" =>
                {
                    at.push(name.to_string());
                    self.tokens(body.stream(), at);
                    at.pop();
                    index += 3;
                }
                [TokenTree::Ident(word), ..] if word == "use" => {
                    let length = tokens[index..].iter().position(|token| is_mark(token, ';'));
                    let end = length.map_or(tokens.len(), |length| index + length);
                    let is_handed_on = is_public(&tokens[..index]);
                    self.tree(&tokens[index + 1..end], &[], &Place { at, is_handed_on });
                    index = end;
                }
                [TokenTree::Ident(_), ..] => {
                    let (path, length) = path(&tokens[index..]);
                    let is_whole = index.checked_sub(1).is_none_or(|before| {
                        !is_mark(&tokens[before], ':') && !is_mark(&tokens[before], '.')
                    });
                    if is_whole && path.len() > 1 {
                        self.note(&path, &Place { at, is_handed_on: false });
                    }
                    index += length;
                }
                [TokenTree::Group(group), ..] => {
                    self.tokens(group.stream(), at);
                    index += 1;
                }
                _ => index += 1,
            }
        }
    }

    /// Scans the tokens of a `use`, or in braces after a path in a `use`.
    fn tree(&mut self, tokens: &[TokenTree], before: &[String], place: &Place<'_>) {
        let (mut segments, length) = path(tokens);
        segments.splice(0..0, before.iter().cloned());
        match tokens.get(length) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                for part in inner.split(|token| is_mark(token, ',')) {
                    self.tree(part, &segments, place);
                }
            }
            _ => self.note(&segments, place),
        }
    }

    /// Records the file of a path, if it is another file of the crate.
    fn note(&mut self, path: &[String], place: &Place<'_>) {
        let at = place.at;
        let files = &self.source.files;
        let Some(first) = path.first() else { return };
        let mut target = match first.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => at.clone(),
            name if files.contains_key(&[&at[..], &[name.to_owned()]].concat()) => at.clone(),
            _ => return,
        };
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(target.pop()),
                name if files.contains_key(&[&target[..], &[name.to_owned()]].concat()) => {
                    target.push(name.to_owned())
                }
                _ => break,
            }
            rest = others;
        }
        // The file of an inline module is that of a module above.
        while !files.contains_key(&target) {
            target.pop();
        }
        let is_above = self.module.starts_with(&target);
        let is_handed_on = place.is_handed_on && target.starts_with(self.module);
        if !is_above && !is_handed_on {
            let name = rest.first().or(target.last()).cloned().unwrap_or_default();
            self.found.entry(target).or_default().insert(name);
        }
    }
}

/// Returns whether some tokens end with a visibility.
fn is_public(before: &[TokenTree]) -> bool {
    let before = match before {
        [before @ .., TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
            before
        }
        before => before,
    };
    matches!(before.last(), Some(TokenTree::Ident(word)) if word == "pub")
}

/// Returns the path at the beginning of some tokens, and the number of its tokens. It ends with
/// `::` if a group or a star follows.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut segments, mut length) = (Vec::new(), 0);
    // The path begins at the root of all crates.
    if let [first, second, ..] = tokens
        && is_mark(first, ':')
        && is_mark(second, ':')
    {
        length = 2;
    }
    while let Some(TokenTree::Ident(segment)) = tokens.get(length) {
        segments.push(segment.to_string());
        length += 1;
        match tokens.get(length..length + 2) {
            Some([first, second]) if is_mark(first, ':') && is_mark(second, ':') => length += 2,
            _ => break,
        }
    }
    (segments, length.max(1))
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

/// Returns the sets of modules that all reach each other.
fn loops(imports: &Imports) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached_from(module, imports))).collect();
    let mut found: Vec<Vec<Module>> = Vec::new();
    for (module, others) in &reached {
        if others.contains(module) && !found.iter().any(|files| files.contains(module)) {
            let together = others.iter().filter(|other| reached[**other].contains(module));
            found.push(together.map(|other| (*other).clone()).collect());
        }
    }
    found
}

/// Returns the modules that a module imports, directly or through others.
fn reached_from<'a>(module: &Module, imports: &'a Imports) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module.clone()];
    while let Some(module) = next.pop() {
        for other in imports[&module].keys() {
            if reached.insert(other) {
                next.push(other.clone());
            }
        }
    }
    reached
}

/// Returns the loops of a crate with these files.
fn made(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let source = Source::read(&folder.path().join("lib.rs"));
    loops(&source.imports())
        .into_iter()
        .map(|files| files.iter().map(|module| module.join("::")).collect())
        .collect()
}

#[test]
fn imports_of_every_form_close_a_loop() {
    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c;");
    for import in [
        "use crate::b;",
        "use crate::b::Item;",
        "use crate::{c, b::{self, Item}};",
        "use super::b::*;",
        "fn f() { crate::b::item(); }",
        "fn f() -> Vec<super::b::Item> { vec![] }",
        "fn f() { println!(\"{}\", crate::b::item()); }",
        "mod inner { use super::super::b; }",
        "#[cfg(not(test))] use crate::b;",
    ] {
        let found = made(&[
            ROOT,
            ("a.rs", import),
            ("b.rs", "use crate::c::Item;"),
            ("c.rs", "use super::a::Item;"),
        ]);
        assert_eq!(found, [["a", "b", "c"]], "{import}");
    }
}

#[test]
fn names_of_tests_of_roots_and_of_modules_above_close_none() {
    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; pub use a::Item;");
    for import in [
        "#[cfg(test)] use crate::b::Item;",
        "#[cfg(test)] mod tests { use crate::b::Item; fn f() {} }",
        "fn f() { #[cfg(test)] let x = crate::b::item(); }",
        "struct S { #[cfg(test)] field: crate::b::Item, other: u8 }",
        "#[cfg(all(test, unix))] fn f<A, B>() { crate::b::item() }",
        "use crate::Item;",
        "use other::b::Item;",
        "fn f() { other::crate_b::b::item(); x.b::<u8>(); }",
        "// use crate::b::Item;\n/* crate::b::item() */ const TEXT: &str = \"crate::b::item()\";",
        "mod c; use c::Item;",
        "mod c; pub(crate) use c::Item; pub use self::c::{Item as Other};",
    ] {
        let found = made(&[
            ROOT,
            ("a.rs", import),
            ("a/c.rs", "use super::Item;"),
            ("b.rs", "use crate::a::Item;"),
        ]);
        assert_eq!(found, [[""; 0]; 0], "{import}");
    }
}

#[test]
fn doubles_of_drivers_and_what_tests_share_are_looked_at_and_no_test_binary() {
    let roots = crate_roots();
    for package in ["host", "tests", "tests/doubles/cuda", "tests/doubles/gpu"] {
        assert!(roots.iter().any(|(known, _)| known == package), "{package}: {roots:?}");
    }
    for (_, file) in &roots {
        let path = file.strip_prefix(root()).unwrap();
        let tests = path.iter().skip(1).find(|folder| *folder == "tests");
        assert_eq!(tests, None, "{}", path.display());
    }
}
