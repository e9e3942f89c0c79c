//! Limits of nesting in a source, checked before naga reads it.
//!
//! naga walks expressions, blocks and dependencies of declarations recursively, and limits only
//! brackets. This module limits everything that naga recurses on: brackets, chains of operators, of
//! members and indices, and of `else`, and the number of declarations.

use crate::fault::Fault;

/// Most levels of brackets, operators and `else` together.
const DEEPEST: usize = 1000;
/// Most declarations of a module.
const MOST_DECLARATIONS: usize = 1 << 13;

/// Returns the source with spaces in place of comments, if naga's stack suffices for it. Places in
/// the source stay the same.
pub(super) fn checked(source: &str) -> Result<String, Fault> {
    let source = without_comments(source);
    let mut nesting = Nesting { levels: vec![Level::default()], open: 0, declarations: 0 };
    let mut rest = source.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        nesting.take(byte, rest);
        if nesting.open + nesting.levels.len() > DEEPEST {
            let before = &source.as_bytes()[..source.len() - rest.len()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            return Err(Fault::source(format!(
                "{line}:1: brackets and operators are nested more than {DEEPEST} deep"
            )));
        }
    }
    if nesting.declarations > MOST_DECLARATIONS {
        return Err(Fault::source(format!(
            "the source has {} declarations, more than {MOST_DECLARATIONS}",
            nesting.declarations
        )));
    }
    Ok(source)
}

struct Nesting {
    levels: Vec<Level>,
    /// Length of the chains of all levels together.
    open: usize,
    declarations: usize,
}

/// The text between two brackets.
#[derive(Default)]
struct Level {
    /// Present depth of the text between two commas or semicolons.
    chain: usize,
    /// Longest chain so far.
    longest: usize,
}

impl Nesting {
    fn take(&mut self, byte: u8, rest: &[u8]) {
        match byte {
            b'(' | b'[' | b'{' => self.levels.push(Level::default()),
            b')' | b']' | b'}' => self.close(byte, rest),
            b',' | b';' => self.set_chain(0),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'~' | b'!' | b'<' | b'>'
            | b'=' | b'.' => {
                let chain = self.level().chain;
                self.set_chain(chain + 1);
            }
            _ => {}
        }
        if self.levels.len() == 1 && matches!(byte, b';' | b'}') {
            self.declarations += 1;
        }
    }

    fn close(&mut self, byte: u8, rest: &[u8]) {
        self.set_chain(0);
        if self.levels.len() < 2 {
            return;
        }
        let inner = self.levels.pop().expect("there are two levels").longest + 1;
        let chain = self.level().chain;
        // Text in parentheses or an index is below the operators that follow it. Statements are at
        // the same level, except `else`, whose block is below the block before it.
        self.set_chain(chain + inner);
        if byte == b'}' {
            let is_else = rest.trim_ascii_start().starts_with(b"else");
            self.set_chain(if is_else { chain + 1 } else { 0 });
        }
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("the outermost level is never closed")
    }

    fn set_chain(&mut self, chain: usize) {
        let level = self.level();
        level.longest = level.longest.max(chain);
        let before = std::mem::replace(&mut level.chain, chain);
        self.open = self.open + chain - before;
    }
}

/// Replaces comments by spaces, byte for byte.
fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("/") {
        let (code, from) = rest.split_at(at);
        out.push_str(code);
        let length = match from.as_bytes().get(1) {
            Some(b'/') => from.find(is_line_break).unwrap_or(from.len()),
            Some(b'*') => block_comment(from),
            _ => 0,
        };
        let (comment, after) = from.split_at(length);
        out.extend(comment.chars().flat_map(blank));
        rest = after;
        if length == 0 {
            out.push('/');
            rest = &after[1..];
        }
    }
    out.push_str(rest);
    out
}

/// Returns the length in bytes of a comment that begins with `/*`, including nested comments.
fn block_comment(from: &str) -> usize {
    let bytes = from.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    // naga reports a comment without an end.
    0
}

fn blank(letter: char) -> impl Iterator<Item = char> {
    let (kept, count) = if is_line_break(letter) { (letter, 1) } else { (' ', letter.len_utf8()) };
    std::iter::repeat_n(kept, count)
}

/// Returns whether WGSL ends a line at this letter.
fn is_line_break(letter: char) -> bool {
    matches!(letter, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
