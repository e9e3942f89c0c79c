//! Tokens of PTX text.

/// Words, strings, and other characters one by one; blanks and comments are skipped.
#[derive(Clone)]
pub(super) struct Tokens<'a>(&'a str);

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Tokens<'a> {
        Tokens(text)
    }

    /// Returns the rest of the text.
    pub(super) fn rest(&self) -> &'a str {
        self.0
    }

    fn skip_blanks(&mut self) {
        loop {
            self.0 = self.0.trim_ascii_start();
            let end = if self.0.starts_with("//") {
                self.0.find('\n')
            } else if let Some(comment) = self.0.strip_prefix("/*") {
                comment.find("*/").map(|at| at + 4)
            } else {
                return;
            };
            self.0 = &self.0[end.unwrap_or(self.0.len())..];
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let first = self.0.chars().next()?;
        let end = match first {
            '"' => self.0[1..].find('"').map_or(self.0.len(), |at| at + 2),
            '0'..='9' | '.' => number_end(self.0.as_bytes()),
            _ => word_end(self.0.as_bytes(), 0),
        };
        let (token, rest) = self.0.split_at(end.max(first.len_utf8()));
        self.0 = rest;
        Some(token)
    }
}

fn word_end(text: &[u8], start: usize) -> usize {
    let is_word =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.');
    text[start..].iter().position(|byte| !is_word(byte)).map_or(text.len(), |at| start + at)
}

/// Returns the end of a number or a directive. Only the exponent of a decimal number may contain a
/// sign.
fn number_end(text: &[u8]) -> usize {
    let end = word_end(text, 0);
    let is_decimal = !matches!(text, [b'0', b'x' | b'X' | b'f' | b'F' | b'd' | b'D', ..])
        && text[..end].iter().any(u8::is_ascii_digit)
        && text[..end].iter().all(|byte| byte.is_ascii_digit() || b".eE".contains(byte));
    let has_sign =
        matches!(text[..end], [.., b'e' | b'E']) && matches!(text.get(end), Some(b'-' | b'+'));
    if is_decimal && has_sign { word_end(text, end + 1) } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_signs_are_tokens_and_comments_are_skipped() {
        let text = "a.b%c$_ /* x */ 1e-3 .5E+2 0x1e-3 -7U // y\n\"s;{\" [t+-4] \u{f6} .e-1 /* z";
        let tokens: Vec<_> = Tokens::new(text).collect();
        let expected = [
            "a.b%c$_", "1e-3", ".5E+2", "0x1e", "-", "3", "-", "7U", "\"s;{\"", "[", "t", "+", "-",
            "4", "]", "\u{f6}", ".e", "-", "1",
        ];
        assert_eq!(tokens, expected);
    }
}
