//! Parts of modules.

use super::support::{bitcode, compile, compiler, symbols, versions};
use crate::{Level, LibraryChoice, Options, Part};

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
