//! Names of Rust for kernels and their parameters.

use crate::error::Error;
use cpp_demangle::{DemangleOptions, Symbol};
use std::collections::HashSet;

/// Keywords of Rust in any edition.
const KEYWORDS: &str = "as async await become box break const continue do dyn else enum extern false \
     final fn for gen if impl in let loop macro match mod move mut override priv pub ref return \
     static struct trait true try type typeof unsafe unsized use virtual where while yield abstract \
     crate self super Self _";

/// Names that a parameter of a function cannot have: names of the other parameters, and of Rust's
/// values, for which a parameter would be a pattern.
const NO_PARAMETERS: [&str; 7] = ["self", "queue", "grid", "None", "Some", "Ok", "Err"];

/// Checks a name of kernels, which is part of file names.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        false => Ok(()),
        true => Err(Error::new(format!(
            "the name of the kernels is '{name}', expected ASCII letters, digits, '_', '-' and '.'"
        ))),
    }
}

/// Names that are used so far in one scope.
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// Creates a scope with these names.
    pub(crate) fn new(used: &[&str]) -> Names {
        Names(used.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Returns an unused identifier for a text: its letters and digits, with `_` for the others. It
    /// ends with `_` if it would be a keyword, or is used already.
    pub(crate) fn identifier(&mut self, text: &str) -> String {
        let mut name = String::new();
        for c in text.chars() {
            match c.is_ascii_alphanumeric() {
                true => name.push(c),
                false if name.ends_with('_') && c != '_' => {}
                false => name.push('_'),
            }
        }
        if !text.ends_with('_') {
            name.truncate(name.trim_end_matches('_').len());
        }
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        while KEYWORDS.split_whitespace().any(|word| word == name) || self.0.contains(&name) {
            name.push('_');
        }
        self.0.insert(name.clone());
        name
    }
}

/// Returns the name that a source gives a kernel: `scale<float, 4>` for `_Z5scaleIfLi4EEvPT_`.
pub(crate) fn source_name(symbol: &str) -> String {
    let options = DemangleOptions::new().no_return_type().no_params();
    let mangled = Some(symbol).filter(|symbol| symbol.starts_with("_Z"));
    let name = mangled.and_then(|symbol| Symbol::new(symbol).ok()?.demangle(&options).ok());
    name.unwrap_or_else(|| symbol.to_owned())
}

/// Returns the names of `count` parameters of a declaration such as "(uint64_t n, float *x)". A
/// parameter whose name is not found is `argument_0`, by its index.
pub(crate) fn parameter_names(declaration: &str, count: usize) -> Vec<String> {
    let list = declaration.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let mut depth = 0i32;
    let separates = |c: char| {
        depth += i32::from(matches!(c, '(' | '[' | '{' | '<'));
        depth -= i32::from(matches!(c, ')' | ']' | '}' | '>'));
        c == ',' && depth == 0
    };
    let parameters: Vec<&str> = list.unwrap_or_default().split(separates).collect();
    let is_complete = parameters.len() == count;
    let mut names = Names::new(&NO_PARAMETERS);
    let name = |index: usize| {
        let named = parameters.get(index).filter(|_| is_complete).and_then(|text| last_name(text));
        names.identifier(&named.unwrap_or_else(|| format!("argument_{index}")))
    };
    (0..count).map(name).collect()
}

/// Returns the last name of a declaration, if a type precedes it: "x" of "const float *x[4]".
fn last_name(parameter: &str) -> Option<String> {
    let text = parameter.split(['[', '=']).next().unwrap_or_default().trim_end();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start = text.rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1);
    let (before, name) = text.split_at(start);
    let is_name = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
    (is_name && !before.trim().is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_keep_their_names_unless_rust_takes_them() {
        let names = |declaration: &str, count| parameter_names(declaration, count).join(" ");
        assert_eq!(names("(uint64_t n, float a, const float *x)", 3), "n a x");
        assert_eq!(names("(int queue, int type, float (&in)[4])", 3), "queue_ type_ argument_2");
        assert_eq!(names("(pair<int, float> p, float *__restrict__ y[2])", 2), "p y");
        assert_eq!(names("(int None, int Some, int Ok, int Err)", 4), "None_ Some_ Ok_ Err_");
        assert_eq!(names("(int, float *)", 2), "argument_0 argument_1");
        assert_eq!(names("(int x, int x)", 2), "x x_");
        assert_eq!(names("", 1), "argument_0");
        assert_eq!(names("(int a)", 2), "argument_0 argument_1");
    }

    #[test]
    fn kernels_of_templates_have_names_of_rust() {
        let mut names = Names::new(&["load"]);
        for (symbol, expected) in [
            ("saxpy", "saxpy"),
            ("_Z5scaleifPf", "scale"),
            ("_Z3sumILi256EEvPKfPf", "sum_256"),
            ("load", "load_"),
            ("match", "match_"),
            ("saxpy", "saxpy_"),
        ] {
            assert_eq!(names.identifier(&source_name(symbol)), expected, "{symbol}");
        }
    }

    #[test]
    fn a_name_that_could_leave_the_folder_is_refused() {
        for wrong in ["", "../x", "a/b", ".x", "a b"] {
            assert!(check(wrong).unwrap_err().to_string().contains("expected ASCII"), "{wrong}");
        }
        assert_eq!(check("saxpy-2.b_c"), Ok(()));
    }
}
