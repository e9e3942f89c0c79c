//! Parts of modules.

use object::{Object, ObjectSection};

use super::support::{bitcode, compile, compiler, symbols, versions};
use crate::{Compile, Level, LibraryChoice, Options, Part};

const SOURCE: &str = "
    static int table[4] = { 1, 2, 3, 4 };
    __attribute__((noinline)) static int inner(int n) { return table[n & 3]++; }
    int outer(int n) { return inner(n) + inner(n + 1); }
    int aliased(int n) __attribute__((alias(\"outer\")));
    int user(int n) { return aliased(n); }
    int unused(int n) { return n; }";

#[test]
fn a_part_has_its_functions_and_refers_to_the_others() {
    let compiler = compiler();
    for version in versions() {
        for flags in ["-O1", "-O1 -g", "-O0", "-O0 -g"] {
            let module =
                bitcode(version, &format!("{flags} -fPIC --target=x86_64-linux-gnu"), SOURCE);
            let names = |part: &Part<'_>| {
                let options = Options {
                    level: Level::None,
                    library: LibraryChoice::Major(version),
                    ..Options::default()
                };
                symbols(&compile(&compiler, &module, part, &options).unwrap().bytes)
            };
            let only = |functions: &[&'static str], aliases: &[&'static str]| {
                let bytes =
                    |names: &[&'static str]| names.iter().map(|name| name.as_bytes()).collect();
                names(&Part::Only { functions: bytes(functions), aliases: bytes(aliases) })
            };
            assert_eq!(only(&["inner"], &[]), ["inner", "table?"], "{version} {flags}");
            assert_eq!(only(&["outer"], &["aliased"]), ["aliased", "inner?", "outer"]);
            assert_eq!(only(&["unused"], &[]), ["unused"]);
            let user = only(&["user"], &[]);
            assert!(user == ["aliased?", "user"] || user == ["outer?", "user"], "{user:?}");
            let functions = vec![&b"inner"[..], b"outer", b"user", b"unused"];
            let rest = names(&Part::Without { functions, aliases: vec![b"aliased"] });
            assert_eq!(rest, ["table"]);
        }
    }
}

#[test]
fn a_function_of_a_large_module_is_compiled_as_one_of_a_small_module() {
    let compiler = compiler();
    let one = |number: usize| {
        format!(
            "static int table{number}[4]; __attribute__((noinline)) static int inner{number}(int n)
             {{ return table{number}[n & 3]++ + {number}; }}
             int outer{number}(int n) {{ return inner{number}(n) * inner{number}(n + 1); }}
             int also{number}(int) __attribute__((alias(\"outer{number}\")));"
        )
    };
    let small = one(150);
    let large: String = (0..300).map(one).collect();
    for version in versions() {
        let options = Options { library: LibraryChoice::Major(version), ..Options::default() };
        let compile = |source: &str, function: &str, alias: &str| {
            let flags = "-O1 -fPIC --target=x86_64-linux-gnu";
            let module = bitcode(version, flags, source);
            assert!(source.len() < 1000 || module.bytes().len() > 100_000);
            let aliases = if alias.is_empty() { vec![] } else { vec![alias.as_bytes()] };
            let part = Part::Only { functions: vec![function.as_bytes()], aliases };
            let object = compile(&compiler, &module, &part, &options).unwrap().bytes;
            compiler.forget(&module);
            object
        };
        for (function, alias) in [("inner150", ""), ("outer150", "also150"), ("outer150", "")] {
            let [small, large] = [&small, &large].map(|source| compile(source, function, alias));
            assert_eq!(symbols(&small), symbols(&large), "{version}");
            assert_eq!(text(&small), text(&large), "{version}");
        }
    }
}

/// Returns the machine code of an object.
fn text(object: &[u8]) -> Vec<u8> {
    let file = object::File::parse(object).unwrap();
    file.section_by_name(".text").unwrap().data().unwrap().to_owned()
}
