//! Prose of files that are no Rust: C, Markdown, and files whose comments begin with `#`.

use crate::passage::{Passage, Subject};
use crate::rust;

/// Returns the comments of a source in C, C++, CUDA or GLSL. Strings and characters are left out.
pub(crate) fn c(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let bytes = text.as_bytes();
    let mut gap: Option<usize> = None;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest[0] {
            b'/' if rest.starts_with(b"//") => {
                gap.get_or_insert(at);
                rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
            }
            b'/' if rest.starts_with(b"/*") => {
                gap.get_or_insert(at);
                rest.windows(2)
                    .skip(2)
                    .position(|pair| pair == b"*/")
                    .map_or(rest.len(), |end| end + 4)
            }
            byte if byte.is_ascii_whitespace() => 1,
            quote => {
                if let Some(start) = gap.take() {
                    let line = 1 + text[..start].matches('\n').count();
                    rust::add_comments(&text[start..at], line, &mut passages);
                }
                if matches!(quote, b'"' | b'\'') { quoted(rest) } else { 1 }
            }
        };
        at += length;
    }
    if let Some(start) = gap {
        let line = 1 + text[..start].matches('\n').count();
        rust::add_comments(&text[start..], line, &mut passages);
    }
    passages
}

/// Returns the length of the string or character at the start, in bytes, with its quotes.
fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != bytes[0] && bytes[at] != b'\n' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the comments that begin with `#` and have a line to themselves, or follow two spaces or
/// a space.
pub(crate) fn hash(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let mut start = 0;
    for (number, line) in text.lines().enumerate().chain([(usize::MAX, "")]) {
        match line.trim_start().strip_prefix('#') {
            Some(comment) if !comment.starts_with('!') && number != usize::MAX => {
                if run.is_empty() {
                    start = number + 1;
                }
                run.push(comment.strip_prefix(' ').unwrap_or(comment));
            }
            _ => {
                if !run.is_empty() {
                    passages.push(Passage::from_markdown(Subject::Code, start, &run.join("\n")));
                    run.clear();
                }
            }
        }
    }
    passages
}

/// Returns a page.
pub(crate) fn markdown(text: &str) -> Passage {
    Passage::from_markdown(Subject::Page, 1, text)
}
