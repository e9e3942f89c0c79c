//! Options for clang: their place on the command line, and their use.

use crate::clang::Dialect;
use crate::failure::{Exit, Failure};
use crate::source::{Language, Source};
use std::ffi::{OsStr, OsString};

/// Prefixes of clang's options that need no `--` before them.
const CLANGS: [&str; 22] = [
    "-O",
    "-g",
    "-I",
    "-D",
    "-U",
    "-W",
    "-w",
    "-f",
    "-m",
    "-std=",
    "--std=",
    "-include",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-imacros",
    "-pedantic",
    "-c",
    "-S",
    "-E",
    "-l",
    "-L",
];
/// Options of clang followed by their value.
const WITH_VALUE: [&str; 11] = [
    "-I",
    "-D",
    "-U",
    "-include",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-imacros",
    "-mllvm",
    "-Xclang",
    "-Xpreprocessor",
];
/// Options of `longshore` that stand before the subcommand and are followed by their value.
const COMMON: [&str; 3] = ["--backend", "--devices", "--plugin"];
/// Options of clang that would change the kind of its output.
const REFUSED: [&str; 8] = ["-c", "-S", "-E", "-M", "-MM", "-emit-llvm", "-fsyntax-only", "-###"];
/// Prefixes of clang's options for its input language, target, libraries, or the place of its
/// output. A value follows or is joined: `-x cuda`, `-xcuda`, `--target=x86_64`.
const REFUSED_WITH_VALUE: [&str; 11] = [
    "-o",
    "--output",
    "-x",
    "--language",
    "-target",
    "--target",
    "-save-temps",
    "--save-temps",
    "-l",
    "--library",
    "-L",
];

/// Option without clang's warnings that it cannot unroll or vectorise a loop as a source asks for.
pub(crate) const NO_FAILED_PASSES: &str = "-Wno-pass-failed";

/// Returns the command line of `longshore` with clang's options moved after `--` if the subcommand
/// is `cc`.
pub fn arguments(all: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut all = all.into_iter();
    let mut ours: Vec<_> = all.next().into_iter().collect();
    while let Some(argument) = all.next() {
        let is_option = starts_with_any(&argument, &["-"]);
        let has_value = is_any(&argument, &COMMON);
        let is_cc = argument == "cc";
        ours.push(argument);
        if is_cc {
            return divide(ours, all);
        }
        if !is_option {
            break;
        }
        if has_value {
            ours.extend(all.next());
        }
    }
    ours.extend(all);
    ours
}

fn divide(mut ours: Vec<OsString>, mut rest: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut clangs = Vec::new();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        let has_value = is_any(&argument, &WITH_VALUE);
        if has_value || starts_with_any(&argument, &CLANGS) {
            clangs.push(argument);
            clangs.extend(has_value.then(|| rest.next()).flatten());
        } else {
            ours.push(argument);
        }
    }
    clangs.extend(rest);
    if !clangs.is_empty() {
        ours.push("--".into());
        ours.extend(clangs);
    }
    ours
}

/// Fails for options that `longshore cc` sets itself or that do not fit a kernel image.
pub(crate) fn check(options: &[OsString]) -> Result<(), Failure> {
    let refuse = |option: &OsStr, hint: &str| {
        let message = format!(
            "'{}' cannot be passed to clang, expected an option that leaves language, target, \
             libraries and output alone",
            option.display()
        );
        Err(Failure::new(Exit::Usage, message).or_hint(hint))
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if is_any(option, &WITH_VALUE) {
            if options.next().is_none() {
                let message = format!(
                    "clang's option '{}' has no value; expected one after it",
                    option.display()
                );
                return Err(Failure::new(Exit::Usage, message));
            }
        } else if starts_with_any(option, &["-march=", "-mcpu="]) {
            return refuse(
                option,
                "name the CPU by --target (with_targets in a build script), such as \
                 x86_64:x86-64-v3 or nvptx64:sm_90",
            );
        } else if is_any(option, &REFUSED)
            || starts_with_any(option, &REFUSED_WITH_VALUE)
            || !starts_with_any(option, &["-"])
        {
            return refuse(
                option,
                "name the sources, the targets and the output before `--`: FILE... --target TARGETS \
                 -o FILE; in a build script by with_source, with_targets and with_language",
            );
        }
    }
    Ok(())
}

/// Returns the options for one source, with `-O3` unless they have an optimisation level. A `-std=`
/// of the other language goes to the sources of that language; CUDA and HIP sources get no standard
/// of C.
pub(crate) fn for_source(
    options: &[OsString],
    source: &Source,
    sources: &[Source],
    dialect: Dialect,
) -> Vec<OsString> {
    let optimised = options.iter().any(|option| starts_with_any(option, &["-O"]));
    let mut chosen: Vec<OsString> = Vec::new();
    chosen.extend((!optimised).then(|| "-O3".into()));
    let fits = |option: &&OsString| {
        let Some(language) = standard(option).map(Language::from_standard) else { return true };
        let is_own = language == source.language.language_of_standards();
        match dialect {
            Dialect::Plain if !source.language.has_kernels() => {
                let mut others =
                    sources.iter().map(|source| source.language.language_of_standards());
                is_own || others.all(|other| other != language)
            }
            _ => is_own && language == Language::Cpp,
        }
    };
    let has_standard = options.iter().any(|option| standard(option).is_some());
    if source.language.has_kernels() && !has_standard {
        // As the vendors' compilers: headers of C have GNU's `typeof` and `_Bool`.
        chosen.push("-std=gnu++17".into());
    }
    chosen.extend(options.iter().filter(fits).cloned());
    chosen
}

/// Returns the options that affect the compilation of bitcode to machine code.
pub(crate) fn for_bitcode(options: &[OsString]) -> Vec<OsString> {
    let mut chosen: Vec<OsString> = vec!["-O3".into(), NO_FAILED_PASSES.into()];
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if starts_with_any(option, &["-O", "-ffp-contract", "-ffast-math", "-mcode-object"]) {
            chosen.push(option.clone());
        } else if option == "-mllvm" {
            chosen.extend([Some(option), options.next()].into_iter().flatten().cloned());
        } else if is_any(option, &WITH_VALUE) {
            options.next();
        }
    }
    chosen
}

/// Returns the options of code generation, for the bitcode of a source for a CPU.
pub(crate) fn for_loops(options: &[OsString]) -> Vec<OsString> {
    let mut chosen: Vec<OsString> =
        vec!["-O3".into(), "-Wno-unused-command-line-argument".into(), NO_FAILED_PASSES.into()];
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if starts_with_any(option, &["-O", "-f", "-m", "-g", "-R"]) && option != "-mllvm" {
            chosen.push(option.clone());
        } else if option == "-mllvm" {
            chosen.extend([Some(option), options.next()].into_iter().flatten().cloned());
        } else if is_any(option, &WITH_VALUE) {
            options.next();
        }
    }
    chosen
}

fn standard(option: &OsStr) -> Option<&str> {
    let option = option.to_str()?;
    option.strip_prefix("-std=").or_else(|| option.strip_prefix("--std="))
}

fn is_any(option: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|name| option == *name)
}

fn starts_with_any(option: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|name| option.as_encoded_bytes().starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &str) -> Vec<OsString> {
        words.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_of_clang_need_no_dashes_before_them() {
        let divided = |words| arguments(strings(words));
        let cases = [
            ("l cc k.c -O2 -I a -o k -g -- -mllvm x", "l cc k.c -o k -- -O2 -I a -g -mllvm x"),
            ("l --backend cc cc k.c -fno-x --raw", "l --backend cc cc k.c --raw -- -fno-x"),
            ("l -v cc k.c -x c++ -v", "l -v cc k.c -x c++ -v"),
            ("l run cc -O2", "l run cc -O2"),
            ("l", "l"),
        ];
        for (given, expected) in cases {
            assert_eq!(divided(given), strings(expected), "{given}");
        }
    }

    #[test]
    fn standards_go_to_sources_of_their_language() {
        let source = |language| Source {
            file: "k".into(),
            shown: "k".into(),
            language,
            options: Vec::new(),
            kernels: Vec::new(),
        };
        let sources = [source(Language::C), source(Language::Cpp)];
        let options = strings("-std=c11 -std=c++17 -O1");
        let chosen =
            |index: usize, dialect| for_source(&options, &sources[index], &sources, dialect);
        assert_eq!(chosen(0, Dialect::Plain), strings("-std=c11 -O1"));
        assert_eq!(chosen(1, Dialect::Plain), strings("-std=c++17 -O1"));
        assert_eq!(chosen(0, Dialect::Cuda), strings("-O1"));
        assert_eq!(chosen(1, Dialect::Hip), strings("-std=c++17 -O1"));
        let alone = for_source(&strings("-std=c++17"), &sources[0], &sources[..1], Dialect::Plain);
        assert_eq!(alone, strings("-O3 -std=c++17"));
    }

    #[test]
    fn options_that_would_make_something_else_are_refused() {
        for refused in [
            "-c",
            "-I a -E",
            "k.c",
            "-march=native",
            "-mllvm -x -S",
            "-x cuda",
            "-xcuda",
            "-ofile",
            "--target=x86_64",
            "-target x86_64",
            "-save-temps=obj",
            "-lm",
        ] {
            let error = check(&strings(refused)).expect_err(refused).to_string();
            let has_both = error.contains("--target") && error.contains("in a build script");
            assert!(has_both, "{refused}: {error}");
        }
        assert!(check(&strings("-I -c -mllvm -S -mavx2 -D x -Xclang -xc -fno-common")).is_ok());
    }

    #[test]
    fn an_option_without_its_value_is_refused_before_it_takes_another_for_it() {
        for cut_off in ["-O2 -I", "-D", "-mllvm", "-include a -include"] {
            let error = check(&strings(cut_off)).unwrap_err().to_string();
            assert!(error.contains("has no value"), "{cut_off}: {error}");
        }
    }

    #[test]
    fn bitcode_is_compiled_with_what_concerns_machine_code() {
        let options = strings("-O1 -D -O0 -fprofile-generate -mllvm -x -ffp-contract=off -g");
        assert_eq!(
            for_bitcode(&options),
            strings("-O3 -Wno-pass-failed -O1 -mllvm -x -ffp-contract=off")
        );
    }
}
