//! Undefined symbols, and hints about their definitions.

use super::names::readable;
use crate::failure::{Exit, Failure};
use longshore_jitlink::Undefined;
use std::collections::HashMap;

/// Limit of the printed symbols.
const MOST_NAMES: usize = 20;
/// Limit of the printed files for each symbol.
const MOST_FILES: usize = 3;

pub(super) fn failure(missing: &[Undefined]) -> Failure {
    let mut symbols = by_symbol(missing);
    // Symbols with their own hint come last, since the hint covers them.
    symbols.sort_by_key(|(symbol, _)| PARTS.iter().any(|part| part.has(symbol)));
    let mut message = "undefined symbols:".to_owned();
    for (symbol, files) in symbols.iter().take(MOST_NAMES) {
        message += &format!("\n  {}{}", readable(symbol), users(files));
    }
    if symbols.len() > MOST_NAMES {
        message += &format!("\n  ... and {} more", symbols.len() - MOST_NAMES);
    }
    let names: Vec<&str> = symbols.iter().map(|(symbol, _)| *symbol).collect();
    Failure::new(Exit::Runtime, message).or_hint(hint(&names))
}

/// Returns each symbol once, with the files that use it, in the order of their discovery.
fn by_symbol(missing: &[Undefined]) -> Vec<(&str, Vec<&str>)> {
    let mut symbols: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut indices = HashMap::new();
    for Undefined { symbol, file } in missing {
        let index = *indices.entry(symbol).or_insert(symbols.len());
        if index == symbols.len() {
            symbols.push((symbol, Vec::new()));
        }
        let files = &mut symbols[index].1;
        if !file.is_empty() && !files.contains(&file.as_str()) {
            files.push(file);
        }
    }
    symbols
}

fn users(files: &[&str]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let named = files[..files.len().min(MOST_FILES)].join(", ");
    match files.len() - files.len().min(MOST_FILES) {
        0 => format!(" (used by {named})"),
        more => format!(" (used by {named} and {more} more)"),
    }
}

fn hint(names: &[&str]) -> String {
    let parts = PARTS.iter().filter(|part| names.iter().any(|name| part.has(name)));
    let mut hints: Vec<&str> = parts.map(|part| part.hint).collect();
    if names.iter().any(|name| !PARTS.iter().any(|part| part.has(name))) {
        hints.push(if hints.is_empty() { ELSEWHERE } else { OTHERS });
    }
    hints.join("; ")
}

const ELSEWHERE: &str = "add the file that defines them: an object, an --archive or a --dylib; or give them an \
                         address with --abs, or ignore them with --phony-externals";
const OTHERS: &str =
    "add the file that defines the other symbols: an object, an --archive or a --dylib";

/// A library that a compiler expects in a link.
struct Part {
    /// Prefixes of its symbols.
    prefixes: &'static [&'static str],
    hint: &'static str,
}

// The first entry is Rust's standard library, with both forms of symbols.
const PARTS: [Part; 14] = [
    Part {
        prefixes: &[
            "_ZN3std",
            "_ZN4core",
            "_ZN5alloc",
            "__rust_",
            "__rustc",
            "_RNvC",
            "_RNvN",
            "_RNvM",
            "_RINv",
        ],
        hint: "a program in Rust needs its standard library: compile it with --crate-type staticlib, and give the archive",
    },
    Part { prefixes: &["_gfortran_"], hint: "a program in Fortran needs -lgfortran" },
    Part {
        prefixes: &["GOMP_", "omp_"],
        hint: "OpenMP needs -lgomp if gcc compiled it, -lomp if clang did",
    },
    Part { prefixes: &["__kmpc_"], hint: "OpenMP of clang needs -lomp" },
    Part { prefixes: &["__gcov_"], hint: "--coverage of gcc needs -lgcov" },
    Part {
        prefixes: &["llvm_gcov_", "llvm_gcda_", "__llvm_profile_"],
        hint: "profiles of clang need --archive \"$(clang -print-file-name=libclang_rt.profile.a)\", or libclang_rt.profile-x86_64.a \
               if that does not exist",
    },
    Part {
        prefixes: &["__tsan_"],
        hint: "-fsanitize=thread needs LD_PRELOAD=\"$(gcc -print-file-name=libtsan.so)\" in the environment",
    },
    Part { prefixes: &["__ubsan_"], hint: "-fsanitize=undefined needs -lubsan" },
    Part {
        prefixes: &["__msan_", "__dfsan_", "__hwasan_"],
        hint: "this sanitizer works only with the system's linker: compile without it",
    },
    Part { prefixes: &["__atomic_"], hint: "atomic operations on large values need -latomic" },
    Part {
        // Symbols of namespace std, operators new and delete, type information, and functions
        // called by compilers.
        prefixes: &[
            "_ZNS",
            "_ZNKS",
            "_ZSt",
            "_ZTIS",
            "_ZTVS",
            "_ZTTS",
            "_ZTIN10__cxxabiv1",
            "_ZTVN10__cxxabiv1",
            "_ZN9__gnu_cxx",
            "_Znw",
            "_Zna",
            "_Zdl",
            "_Zda",
            "__cxa_",
            "__gxx_",
        ],
        hint: "a program in C++ needs --dylib libstdc++.so.6",
    },
    Part {
        prefixes: &["__cpu_model", "__cpu_indicator_init", "__cpu_features2"],
        hint: "gcc's own functions and variables are in --archive \"$(gcc -print-libgcc-file-name)\"",
    },
    Part {
        prefixes: &["__start_", "__stop_"],
        hint: "sections between __start_NAME and __stop_NAME may be in a FILE that nothing refers to: link every FILE with --link-all",
    },
    Part {
        prefixes: &["__asan_"],
        hint: "-fsanitize=address needs LD_PRELOAD=\"$(gcc -print-file-name=libasan.so)\" in the environment",
    },
];

impl Part {
    fn has(&self, name: &str) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(missing: impl IntoIterator<Item = (String, String)>) -> String {
        let missing = missing.into_iter().map(|(symbol, file)| Undefined { symbol, file });
        failure(&missing.collect::<Vec<_>>()).to_string()
    }

    fn missing(symbol: &str, file: &str) -> (String, String) {
        (symbol.to_owned(), file.to_owned())
    }

    #[test]
    fn each_symbol_has_a_line_with_the_files_that_use_it() {
        let uses = ["a.o", "b.o", "b.o", "c.o", "d.o", "e.o"].map(|file| missing("f", file));
        let message = describe(uses.into_iter().chain([missing("g", "b.o"), missing("h", "")]));
        let expected = "error: undefined symbols:\n  f (used by a.o, b.o, c.o and 2 more)\n  \
                        g (used by b.o)\n  h\nhint: ";
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn symbols_are_reported_as_they_stand_in_the_source() {
        let message = describe([missing("_ZN5outer5innerEi", "a.o")]);
        assert!(
            message.contains("\n  outer::inner(int) [_ZN5outer5innerEi] (used by a.o)\n"),
            "{message}"
        );
    }

    #[test]
    fn symbols_beyond_the_listed_ones_are_counted() {
        let names = (0..22).map(|number| format!("f{number}"));
        let names = ["__cxa_throw".to_owned()].into_iter().chain(names);
        let message = describe(names.map(|name| missing(&name, "a.o")));
        assert!(message.contains("\n  f19 (used by a.o)\n  ... and 3 more\nhint: "), "{message}");
        assert!(!message.contains("f20") && !message.contains("__cxa_throw"), "{message}");
    }

    #[test]
    fn the_hint_names_the_library_of_the_language() {
        let cpp = "a program in C++ needs --dylib libstdc++.so.6";
        for name in
            ["_ZNSt6thread4joinEv", "_ZSt4cout", "__cxa_throw", "__gxx_personality_v0", "_Znwm"]
        {
            assert_eq!(hint(&[name]), cpp, "{name}");
        }
        assert!(hint(&["__cpu_model"]).contains("-print-libgcc-file-name"));
        assert!(hint(&["__asan_init"]).contains("LD_PRELOAD"));
        assert!(hint(&["__gcov_init"]).contains("-lgcov"));
        assert!(hint(&["_gfortran_st_write"]).contains("-lgfortran"));
        assert!(hint(&["GOMP_parallel"]).contains("-lgomp"));
        assert!(hint(&["__tsan_init"]).contains("libtsan"));
        assert_eq!(hint(&["_ZdlPv", "mine"]), format!("{cpp}; {OTHERS}"));
        assert_eq!(hint(&["mine"]), ELSEWHERE);
    }
}
