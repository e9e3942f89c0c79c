//! Units of prose, and their division into paragraphs and sentences.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// The thing that a passage describes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    /// A crate or a module.
    Module,
    /// A struct, an enum, a union, a trait or a type alias.
    Type,
    /// A function or a method.
    Function,
    /// A field, a variant, a constant or a static.
    Value,
    /// A command of a program, whose documentation is its help.
    Command,
    /// Code: a comment that is no documentation.
    Code,
    /// A page in Markdown.
    Page,
    /// A string that a user of the program may read.
    Message,
}

impl Subject {
    /// Returns whether the passage stands in lines that a reader sees as they are.
    pub(crate) fn has_lines(self) -> bool {
        self != Subject::Message
    }
}

/// A comment, a page or a message.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) subject: Subject,
    /// Number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) paragraphs: Vec<Paragraph>,
}

/// A paragraph, an item of a list, a cell of a table or a heading.
#[derive(Debug, Default)]
pub(crate) struct Paragraph {
    /// Text in which code is a placeholder, a link is its text and a line break is a space.
    pub(crate) text: String,
    pub(crate) is_heading: bool,
    /// Whether this is a cell of a table, whose header may have its unit.
    pub(crate) is_cell: bool,
    /// Offsets in `text` at which a line of the file begins, with its number.
    lines: Vec<(usize, usize)>,
}

/// The placeholder of code. It is one word, and starts like a noun.
pub(crate) const CODE: &str = "`_`";

impl Passage {
    /// Returns a passage of Markdown whose first line is line `line` of its file.
    pub(crate) fn from_markdown(subject: Subject, line: usize, text: &str) -> Passage {
        let mut reader = Reader { text, line, paragraphs: Vec::new(), open: None, code: 0 };
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            reader.read(event, range);
        }
        reader.close();
        Passage { subject, line, paragraphs: reader.paragraphs }
    }

    /// Returns a passage of one paragraph without markup.
    pub(crate) fn from_text(subject: Subject, line: usize, text: &str) -> Passage {
        let mut paragraphs = Vec::new();
        for (number, part) in text.split('\n').enumerate() {
            let lines = vec![(0, if subject.has_lines() { line + number } else { line })];
            let text = hide_code(part.trim());
            if !text.is_empty() {
                paragraphs.push(Paragraph { text, lines, ..Paragraph::default() });
            }
        }
        Passage { subject, line, paragraphs }
    }
}

/// Returns a message's text with each argument in braces and each quotation in backticks as a
/// placeholder.
fn hide_code(text: &str) -> String {
    let mut hidden = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '`']) {
        let end = if rest[start..].starts_with('{') { '}' } else { '`' };
        let Some(length) = rest[start + 1..].find(end) else { break };
        hidden.push_str(&rest[..start]);
        hidden.push_str(CODE);
        rest = &rest[start + 1 + length + 1..];
    }
    hidden + rest
}

/// The state of reading Markdown.
struct Reader<'a> {
    text: &'a str,
    line: usize,
    paragraphs: Vec<Paragraph>,
    open: Option<Paragraph>,
    /// Number of open code blocks and blocks of HTML.
    code: usize,
}

impl Reader<'_> {
    fn read(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => {
                self.close();
                self.code += 1;
            }
            Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => self.code -= 1,
            _ if self.code > 0 => {}
            Event::Start(tag) if is_block(&tag) => {
                self.close();
                let is_heading = matches!(tag, Tag::Heading { .. });
                let is_cell = tag == Tag::TableCell;
                self.open = Some(Paragraph { is_heading, is_cell, ..Paragraph::default() });
            }
            Event::End(end) if is_end_of_block(end) => self.close(),
            Event::Text(text) => self.push(&text, range.start),
            Event::Code(_) | Event::InlineHtml(_) => self.push(CODE, range.start),
            Event::SoftBreak | Event::HardBreak => self.push(" ", range.start),
            _ => {}
        }
    }

    fn push(&mut self, text: &str, at: usize) {
        let line = self.line + self.text[..at].matches('\n').count();
        let open = self.open.get_or_insert_default();
        if open.lines.last().is_none_or(|&(_, last)| last != line) && text != " " {
            open.lines.push((open.text.len(), line));
        }
        open.text.push_str(text);
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take()
            && !open.text.trim().is_empty()
        {
            self.paragraphs.push(open);
        }
    }
}

fn is_block(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell | Tag::BlockQuote(_)
    )
}

fn is_end_of_block(end: TagEnd) -> bool {
    matches!(
        end,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::Item
            | TagEnd::TableCell
            | TagEnd::BlockQuote(_)
    )
}

/// A sentence of a paragraph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentence<'a> {
    pub(crate) text: &'a str,
    /// Number of the line in which it begins, from 1.
    pub(crate) line: usize,
}

impl Paragraph {
    /// Returns the number of the line in which the text at an offset stands, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let before = self.lines.partition_point(|&(start, _)| start <= offset);
        self.lines[before.saturating_sub(1)].1
    }

    /// Returns the sentences: parts that end with a full stop, a question mark or an exclamation
    /// mark before a space and a capital letter, a digit or code.
    pub(crate) fn sentences(&self) -> Vec<Sentence<'_>> {
        let mut sentences = Vec::new();
        let mut start = 0;
        for (at, _) in self.text.match_indices(['.', '!', '?']) {
            if self.is_end(at) {
                self.push_sentence(&mut sentences, start..at + 1);
                start = at + 1;
            }
        }
        self.push_sentence(&mut sentences, start..self.text.len());
        sentences
    }

    fn is_end(&self, at: usize) -> bool {
        let after = self.text[at + 1..].trim_start_matches([')', '"', '*']);
        let next = after.trim_start();
        let abbreviated = ["e.g", "i.e", "etc", "cf", "vs", "approx", " no"];
        next.len() < after.len()
            && next
                .starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || "`(\"".contains(c))
            && !abbreviated.iter().any(|short| self.text[..at].ends_with(short))
    }

    fn push_sentence<'a>(&'a self, sentences: &mut Vec<Sentence<'a>>, range: Range<usize>) {
        let text = &self.text[range.clone()];
        let trimmed = text.trim_start_matches(|c: char| c.is_whitespace() || ")\"*".contains(c));
        let start = range.end - trimmed.len();
        if !trimmed.trim().is_empty() {
            sentences.push(Sentence { text: trimmed.trim_end(), line: self.line(start) });
        }
    }
}

/// Returns the words of a text: parts between spaces that have a letter or a digit.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '`' && c != '_'))
        .filter(|word| word.contains(|c: char| c.is_alphanumeric() || c == '_'))
}
