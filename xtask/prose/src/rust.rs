//! Prose of Rust sources: documentation, other comments and string literals.

use crate::passage::{Passage, Subject};
use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::Range;

/// The prose of a file, and the names of its functions and types.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) passages: Vec<Passage>,
    pub(crate) names: Vec<Name>,
}

/// The name of a function or a type where it is declared.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) subject: Subject,
    pub(crate) name: String,
    /// Number of its line, from 1.
    pub(crate) line: usize,
}

/// A token without the tokens of a group, and its place.
struct Leaf {
    text: String,
    range: Range<usize>,
    inside: Inside,
}

/// The groups around a token.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// Whether one is a `#[cfg(test)]` module.
    tests: bool,
    /// Whether one is an enum of a program's commands.
    commands: bool,
}

/// Reads a source. String literals count as messages only if `has_messages` is set, and outside
/// `#[cfg(test)]` modules.
///
/// # Errors
/// Text that is no Rust.
pub(crate) fn read(text: &str, has_messages: bool) -> Result<Source> {
    let stream: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut leaves = Vec::new();
    flatten(stream, Inside::default(), &mut leaves);
    let mut source = Source::default();
    let starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut reader = Reader { text, starts, leaves: &leaves, source: &mut source };
    reader.documentation();
    reader.comments();
    reader.names();
    if has_messages {
        reader.messages();
    }
    source.passages.sort_by_key(|passage| passage.line);
    Ok(source)
}

fn flatten(stream: TokenStream, inside: Inside, leaves: &mut Vec<Leaf>) {
    // Tokens since the start of the item, without spaces, until a test module's body shows.
    let mut recent = String::new();
    for token in stream {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group.delimiter());
                let mut inner = inside;
                if group.delimiter() == Delimiter::Brace {
                    inner.tests |= recent.contains("#[cfg(test)]");
                    inner.commands = recent.contains("Subcommand");
                    recent.clear();
                } else {
                    recent.push_str(&group.to_string().replace(' ', ""));
                }
                let (start, end) =
                    (group.span_open().byte_range(), group.span_close().byte_range());
                leaves.push(Leaf { text: open.into(), range: start, inside });
                flatten(group.stream(), inner, leaves);
                leaves.push(Leaf { text: close.into(), range: end, inside });
            }
            token => {
                let text = token.to_string();
                if text == ";" {
                    recent.clear();
                } else {
                    recent.push_str(&text);
                }
                leaves.push(Leaf { text, range: token.span().byte_range(), inside });
            }
        }
    }
}

fn delimiters(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::None => ("", ""),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Offsets of the starts of the lines, ascending.
    starts: Vec<usize>,
    leaves: &'a [Leaf],
    source: &'a mut Source,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// Returns the doc comment that a leaf begins: the tokens of a doc comment have ranges within
    /// the comment.
    fn doc_comment(&self, leaf: &Leaf) -> Option<&str> {
        let comment = self.text.get(leaf.range.clone())?;
        (leaf.text == "#" && (comment.starts_with("//") || comment.starts_with("/*")))
            .then_some(comment)
    }

    /// Adds the documentation: runs of doc comments, with the following item as their subject.
    fn documentation(&mut self) {
        let mut at = 0;
        while at < self.leaves.len() {
            let Some(first) = self.doc_comment(&self.leaves[at]) else {
                at += 1;
                continue;
            };
            let inner = first.starts_with("//!") || first.starts_with("/*!");
            let line = self.line(self.leaves[at].range.start);
            let commands = self.leaves[at].inside.commands;
            let mut lines: Vec<String> = Vec::new();
            while let Some(leaf) = self.leaves.get(at)
                && let Some(comment) = self.doc_comment(leaf)
            {
                // Code between two comments would be another run; an attribute between them is an
                // empty line.
                let number = self.line(leaf.range.start) - line;
                lines.resize_with(number.max(lines.len()), String::new);
                lines.extend(stripped(comment));
                let range = leaf.range.clone();
                while self.leaves.get(at).is_some_and(|leaf| leaf.range.start < range.end) {
                    at += 1;
                }
            }
            let (subject, tested) = if inner { (Subject::Module, false) } else { self.subject(at) };
            let subject = match subject {
                _ if tested => Subject::Code,
                Subject::Value if commands => Subject::Command,
                subject => subject,
            };
            self.source.passages.push(Passage::from_markdown(subject, line, &lines.join("\n")));
        }
    }

    /// Returns the subject of the documentation before a leaf, and whether it is a test.
    fn subject(&self, mut at: usize) -> (Subject, bool) {
        let mut tested = false;
        let text = |at: usize| self.leaves.get(at).map_or("", |leaf| leaf.text.as_str());
        loop {
            match text(at) {
                "#" if text(at + 1) == "[" => {
                    let end = self.group_end(at + 1);
                    tested |= text(at + 2) == "test";
                    at = end + 1;
                }
                "pub" if text(at + 1) == "(" => at = self.group_end(at + 1) + 1,
                "const" if !matches!(text(at + 1), "fn" | "unsafe" | "extern" | "async") => {
                    return (Subject::Value, tested);
                }
                "pub" | "unsafe" | "async" | "const" | "default" | "extern" | "auto" => at += 1,
                text if text.starts_with('"') => at += 1,
                "fn" => return (Subject::Function, tested),
                "struct" | "enum" | "union" | "trait" | "type" => return (Subject::Type, tested),
                "mod" => return (Subject::Module, tested),
                "static" => return (Subject::Value, tested),
                // A function in a macro, with its second name if it has one. A variant would begin
                // with a capital.
                word if word.starts_with(char::is_lowercase)
                    && (text(at + 1) == "(" || text(at + 1) == "," && text(at + 3) == "(") =>
                {
                    return (Subject::Function, tested);
                }
                word if is_identifier(word)
                    && matches!(text(at + 1), ":" | "," | "=" | "(" | "{" | "}" | "") =>
                {
                    return (Subject::Value, tested);
                }
                _ => return (Subject::Code, tested),
            }
        }
    }

    /// Returns the leaf that closes the group which a leaf opens.
    fn group_end(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, leaf) in self.leaves.iter().enumerate().skip(open) {
            match leaf.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.leaves.len()
    }

    /// Adds the comments that are no documentation: the text between tokens.
    fn comments(&mut self) {
        let mut end = 0;
        let mut gaps = Vec::new();
        for leaf in self.leaves {
            if leaf.range.start > end {
                gaps.push(end..leaf.range.start);
            }
            end = end.max(leaf.range.end);
        }
        gaps.push(end..self.text.len());
        for gap in gaps {
            let start = self.line(gap.start);
            add_comments(&self.text[gap], start, &mut self.source.passages);
        }
    }

    /// Adds the string literals of at least three words that do not look like code.
    fn messages(&mut self) {
        for leaf in self.leaves {
            if leaf.inside.tests
                || !(leaf.text.starts_with('"')
                    || leaf.text.starts_with("r\"")
                    || leaf.text.starts_with("r#"))
            {
                continue;
            }
            if self.text[leaf.range.clone()].starts_with('/') {
                continue;
            }
            let Ok(literal) = syn::parse_str::<syn::LitStr>(&leaf.text) else { continue };
            let value = literal.value();
            if is_message(&value) {
                let line = self.line(leaf.range.start);
                self.source.passages.push(Passage::from_text(Subject::Message, line, &value));
            }
        }
    }

    /// Adds the names of functions and types.
    fn names(&mut self) {
        for pair in self.leaves.windows(2) {
            let subject = match pair[0].text.as_str() {
                "fn" => Subject::Function,
                "struct" | "enum" | "union" | "trait" | "type" => Subject::Type,
                _ => continue,
            };
            if is_identifier(&pair[1].text) {
                let line = self.line(pair[1].range.start);
                self.source.names.push(Name { subject, name: pair[1].text.clone(), line });
            }
        }
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns whether a string literal is prose: at least three words of letters, and nothing that
/// only code has.
fn is_message(value: &str) -> bool {
    let words = value.split_whitespace().filter(|word| {
        let word = word.trim_matches(|c: char| ".,;:()'\"!?".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic() || c == '-' || c == '\'')
    });
    let code = [
        ";\n", "#include", "{\n", "fn ", "->", "=>", "::", "\t", " = ", "define ", "%", "OpE", "Op",
    ];
    // A directive of an assembler begins with a full stop.
    words.count() >= 3
        && !value.trim_start().starts_with('.')
        && !code.iter().any(|code| value.contains(code))
}

/// Returns the lines of a doc comment without its marks.
fn stripped(comment: &str) -> Vec<String> {
    let line = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
    if let Some(line) = line {
        return vec![line.strip_prefix(' ').unwrap_or(line).to_owned()];
    }
    block_lines(comment)
}

/// Returns the lines of a comment in `/* */` without its marks.
fn block_lines(comment: &str) -> Vec<String> {
    let inner = comment.strip_prefix("/*").unwrap_or(comment);
    let inner = inner.strip_suffix("*/").unwrap_or(inner);
    let inner = inner.trim_start_matches(['*', '!']);
    // The space behind the mark is no indentation; further ones may be a code block's.
    let line = |line: &str| {
        let line = line.trim_start().trim_start_matches(['*', '<']);
        line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
    };
    inner.lines().map(line).collect()
}

/// Adds the comments in a text that has nothing but comments and spaces.
pub(crate) fn add_comments(text: &str, first: usize, passages: &mut Vec<Passage>) {
    let mut run: Option<(usize, Vec<String>)> = None;
    let mut close = |run: &mut Option<(usize, Vec<String>)>| {
        if let Some((line, lines)) = run.take() {
            let text = lines.join("\n");
            passages.push(Passage::from_markdown(Subject::Code, line, without_label(&text)));
        }
    };
    let mut block: Option<(usize, String)> = None;
    for (number, line) in text.split('\n').enumerate() {
        let trimmed = line.trim();
        if let Some((start, mut comment)) = block.take() {
            comment.push('\n');
            comment.push_str(trimmed);
            if trimmed.ends_with("*/") {
                run = Some((start, block_lines(&comment)));
                close(&mut run);
            } else {
                block = Some((start, comment));
            }
        } else if let Some(comment) = trimmed.strip_prefix("//") {
            let comment = comment.trim_start_matches(['/', '!']);
            let comment = comment.strip_prefix(' ').unwrap_or(comment).to_owned();
            run.get_or_insert_with(|| (first + number, Vec::new())).1.push(comment);
        } else if trimmed.starts_with("/*") {
            close(&mut run);
            if trimmed.ends_with("*/") {
                run = Some((first + number, block_lines(trimmed)));
                close(&mut run);
            } else {
                block = Some((first + number, trimmed.to_owned()));
            }
        } else {
            close(&mut run);
        }
    }
    close(&mut run);
}

/// Returns a comment without a label such as `SAFETY:` before its first sentence.
fn without_label(text: &str) -> &str {
    match text.split_once(':') {
        Some((label, rest))
            if !label.is_empty() && label.chars().all(|c| c.is_ascii_uppercase()) =>
        {
            rest.trim_start_matches(' ')
        }
        _ => text,
    }
}
