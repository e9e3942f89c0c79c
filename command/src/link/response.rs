//! Response files: `@FILE` among the arguments of `link` stands for the arguments in the file. The
//! option `-rdynamic` of compilers is also translated here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Limit of the nesting of response files.
const MOST_DEPTH: usize = 16;
/// The option after which all arguments are the program's.
const OF_THE_PROGRAM: &str = "--args";

/// Replaces response files by their words, separated and quoted as in a shell, if the subcommand is
/// `link`. As in other compilers and linkers, `@FILE` stays if the file does not exist. It also
/// stays among the program's own arguments.
pub(crate) fn expanded(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    let is_option = |argument: &OsString| argument.as_bytes().starts_with(b"-");
    let subcommand = arguments.iter().skip(1).position(|argument| !is_option(argument));
    let Some(subcommand) = subcommand.map(|place| place + 1).filter(|at| arguments[*at] == "link")
    else {
        return arguments;
    };
    let mut expanded = arguments[..=subcommand].to_vec();
    add(&mut expanded, arguments.into_iter().skip(subcommand + 1), MOST_DEPTH);
    expanded
}

/// Adds arguments, and returns whether the last of them belong to the program.
fn add(
    expanded: &mut Vec<OsString>,
    arguments: impl Iterator<Item = OsString>,
    depth: usize,
) -> bool {
    let mut are_of_the_program = false;
    for argument in arguments {
        are_of_the_program |= argument == OF_THE_PROGRAM;
        let words = match are_of_the_program || depth == 0 {
            true => None,
            false => words_of(&argument),
        };
        match words {
            Some(words) => are_of_the_program = add(expanded, words.into_iter(), depth - 1),
            // Compilers spell this option with one hyphen.
            None if argument == "-rdynamic" && !are_of_the_program => {
                expanded.push("--rdynamic".into());
            }
            None => expanded.push(argument),
        }
    }
    are_of_the_program
}

/// Returns the words of the response file that an argument names.
fn words_of(argument: &OsStr) -> Option<Vec<OsString>> {
    let file = argument.as_bytes().strip_prefix(b"@")?;
    let text = std::fs::read(OsStr::from_bytes(file)).ok()?;
    let words = shlex::bytes::split(&text)?;
    Some(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.iter().map(OsString::from);
        expanded(arguments).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn files_stand_for_their_words_up_to_the_programs_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("@{}", folder.path().join(name).display());
        std::fs::write(folder.path().join("inner"), "'b c.o'\n--alias x=y").unwrap();
        std::fs::write(folder.path().join("outer"), format!("a.o {}", path("inner"))).unwrap();
        std::fs::write(folder.path().join("all"), format!("a.o --args {}", path("inner"))).unwrap();
        let (outer, inner, all) = (path("outer"), path("inner"), path("all"));
        assert_eq!(
            expand(&["longshore", "-v", "link", &outer, "@none", "--args", &inner]),
            [
                "longshore",
                "-v",
                "link",
                "a.o",
                "b c.o",
                "--alias",
                "x=y",
                "@none",
                "--args",
                &inner
            ]
        );
        assert_eq!(
            expand(&["longshore", "link", &all, &inner]),
            ["longshore", "link", "a.o", "--args", &inner, &inner]
        );
        assert_eq!(expand(&["longshore", "run", &inner]), ["longshore", "run", &inner]);
        std::fs::write(folder.path().join("inner"), &inner).unwrap();
        assert_eq!(expand(&["longshore", "link", &inner]), ["longshore", "link", &inner]);
    }
}
