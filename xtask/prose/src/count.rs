//! Counts of the words by which the project's prose is compared with others'.

use crate::passage::{Passage, Subject};
use regex::Regex;
use std::fmt;

/// Counts over the comments of Rust sources.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lines: usize,
    openings: usize,
    nouns: usize,
    those: usize,
    who: usize,
}

impl Counts {
    /// Adds the comments of a file.
    pub(crate) fn add(&mut self, text: &str, passages: &[Passage]) {
        self.lines += text.lines().filter(|line| line.trim_start().starts_with("//")).count();
        let opening = regex(r"^What\b");
        let noun = regex(r"(?i)\bwhat\b");
        let those = regex(
            r"(?i)\bthose\b(?:$|[.,;:)]| (?:of|that|which|who|whose|in|on|at|with|for|from|by|to|and|or|are|is|were|have|do|not|the|a|it|they)\b)",
        );
        let who = regex(r"(?i)\b(?:who|whoever)\b");
        for passage in passages.iter().filter(|passage| passage.subject != Subject::Message) {
            for sentence in passage.paragraphs.iter().flat_map(|paragraph| paragraph.sentences()) {
                self.openings += usize::from(opening.is_match(sentence.text));
                self.nouns += noun.find_iter(sentence.text).count();
                self.those += those.find_iter(sentence.text).count();
                self.who += who.find_iter(sentence.text).count();
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} lines of comments in Rust; per 1,000 of them:", self.lines)?;
        let counts = [
            ("sentences that open with \"What\"", self.openings),
            ("\"what\"", self.nouns),
            ("\"those\" without its noun", self.those),
            ("\"who\" and \"whoever\"", self.who),
        ];
        for (name, count) in counts {
            writeln!(f, "{:7.1} {name}", count as f64 * 1000.0 / self.lines.max(1) as f64)?;
        }
        Ok(())
    }
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a regular expression")
}
