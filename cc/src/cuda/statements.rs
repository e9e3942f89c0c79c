//! The statements of a function in C++, as far as their extent.

use super::items::without_parameters;
use super::scanner::Scanner;
use std::ops::Range;

/// Statements of a block, or of an open bracket in one.
struct Frame {
    /// The place behind the last whole statement.
    begin: usize,
    /// Number of open brackets.
    depth: usize,
}

/// Returns the innermost statement around a place of a function. It is the head alone for a
/// statement with a block. `None` if the place is outside of the function's body.
pub(crate) fn statement(function: &str, at: usize) -> Option<Range<usize>> {
    let mut scanner = body(function)?;
    let mut frames = vec![Frame { begin: scanner.at + 1, depth: 0 }];
    scanner.at += 1;
    let mut last = scanner.at;
    while let Some(frame) = frames.last_mut()
        && scanner.at < scanner.text.len()
    {
        if scanner.skip_comment() {
            continue;
        }
        if scanner.skip_literal() {
            last = scanner.at;
            continue;
        }
        let here = scanner.at;
        let statement = frame.begin..here;
        match scanner.peek(0) {
            b'#' => {
                scanner.skip_directive();
                continue;
            }
            b'(' | b'[' => frame.depth += 1,
            b')' | b']' => frame.depth = frame.depth.saturating_sub(1),
            b';' if frame.depth == 0 => {
                if (frame.begin..=here).contains(&at) {
                    return Some(frame.begin..here + 1);
                }
                frame.begin = here + 1;
            }
            b'{' if !is_block(&function[..last]) => {
                scanner.skip_braces();
                last = scanner.at;
                continue;
            }
            b'{' if frame.depth == 0 && statement.contains(&at) => return Some(statement),
            b'{' => frames.push(Frame { begin: here + 1, depth: 0 }),
            b'}' if statement.contains(&at) => return Some(statement),
            b'}' => {
                frames.pop();
                if let Some(outer) = frames.last_mut().filter(|outer| outer.depth == 0) {
                    outer.begin = here + 1;
                }
            }
            _ => {}
        }
        scanner.at += 1;
        if !function.as_bytes()[here].is_ascii_whitespace() {
            last = scanner.at;
        }
    }
    None
}

/// Returns whether a function has no statements, or is no function with a body.
pub(crate) fn is_empty(function: &str) -> bool {
    let Some(mut scanner) = body(function) else { return true };
    while scanner.at < scanner.text.len() {
        if scanner.skip_comment() {
            continue;
        }
        match scanner.peek(0) {
            b'#' => scanner.skip_directive(),
            b'{' | b'}' | b';' => scanner.at += 1,
            byte if byte.is_ascii_whitespace() => scanner.at += 1,
            _ => return false,
        }
    }
    true
}

/// Returns the begin of a function's body, which is at its end.
fn body(function: &str) -> Option<Scanner<'_>> {
    let before = function.len() - without_parameters(function).len();
    let mut scanner = Scanner { text: function.as_bytes(), at: before };
    let mut has_parameters = false;
    while scanner.at < scanner.text.len() {
        if scanner.skip_comment() || scanner.skip_literal() {
            continue;
        }
        let begin = scanner.at;
        match scanner.peek(0) {
            b'(' => has_parameters = true,
            b'{' => {
                scanner.skip_braces();
                if function[scanner.at..].trim_ascii().is_empty() {
                    return has_parameters.then_some(Scanner { at: begin, ..scanner });
                }
                continue;
            }
            _ => {}
        }
        scanner.at += 1;
    }
    None
}

/// Returns whether a brace behind a text begins a block, and not a list of values.
fn is_block(before: &str) -> bool {
    const WORDS: [&str; 5] = ["else", "do", "try", "mutable", "noexcept"];
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let word = before.rfind(|c| !is_of_name(c)).map_or(before, |at| &before[at + 1..]);
    before.ends_with([')', ';', '{', '}', ':']) || WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statement around `X`.
    fn around(function: &str) -> Option<&str> {
        let found = statement(function, function.find('X').expect("the place is marked"))?;
        Some(function[found].trim())
    }

    #[test]
    fn a_statement_ends_at_its_semicolon_or_block() {
        for (function, expected) in [
            ("void f() { a(); X(b, \";\"); c(); }", "X(b, \";\");"),
            (
                "int f(int x = 1) { for (int i = 0; i < X; ++i) { a(); } }",
                "for (int i = 0; i < X; ++i)",
            ),
            ("void f() { if (a) { b(); } else { X(); } }", "X();"),
            ("void f() { if (a) b(); else X(); c(); }", "else X();"),
            ("void f() { int a[] = {1, X, 2}; b(); }", "int a[] = {1, X, 2};"),
            ("void f() { std::sort(a, [](int b) { return X; }); }", "return X;"),
            (
                "void f() { sort(X, [](int b) { return c; }, 3); d(); }",
                "sort(X, [](int b) { return c; }, 3);",
            ),
            ("void f() { auto a = [](int b) { c; }; X(); }", "X();"),
            (
                "template <class T> A::A() : b{1}, c(2) {\n#pragma omp {\n{ a(); }\n// ;\nX(); }",
                "// ;\nX();",
            ),
        ] {
            assert_eq!(around(function), Some(expected), "{function}");
        }
    }

    #[test]
    fn places_outside_of_statements_have_none() {
        for function in ["void f(X a) { a(); }", "int a[] = { X };", "struct A { X f(); };", "X"] {
            assert_eq!(around(function), None, "{function}");
        }
        assert_eq!(statement("void f() { a(); }", 16), None);
    }

    #[test]
    fn a_function_of_comments_and_brackets_is_empty() {
        assert!(is_empty("void f(int x = 3) { // a\n  { ; }\n#if B\n#endif\n}"));
        assert!(!is_empty("void f() { a; }") && is_empty("int a;"));
    }
}
