//! A reader of text in C++, as far as comments, literals and brackets.

/// A place in a text.
pub(crate) struct Scanner<'t> {
    pub(crate) text: &'t [u8],
    pub(crate) at: usize,
}

impl Scanner<'_> {
    pub(crate) fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(crate) fn skip_space(&mut self) {
        while self.at < self.text.len() {
            if self.peek(0).is_ascii_whitespace() {
                self.at += 1;
            } else if !self.skip_comment() {
                return;
            }
        }
    }

    pub(crate) fn skip_comment(&mut self) -> bool {
        let end = match (self.peek(0), self.peek(1)) {
            (b'/', b'/') => b"\n".as_slice(),
            (b'/', b'*') => b"*/",
            _ => return false,
        };
        self.at += 2;
        self.skip_to(end);
        true
    }

    /// Moves behind the next `end`, or to the end of the text.
    fn skip_to(&mut self, end: &[u8]) {
        let rest = &self.text[self.at.min(self.text.len())..];
        let found = rest.windows(end.len()).position(|part| part == end);
        self.at = found.map_or(self.text.len(), |found| self.at + found + end.len());
    }

    pub(crate) fn skip_directive(&mut self) {
        while self.at < self.text.len() {
            match self.peek(0) {
                b'\n' => return,
                b'\\' => self.at += 2,
                b'/' if self.peek(1) == b'*' => {
                    self.skip_comment();
                }
                _ => self.at += 1,
            }
        }
        self.at = self.text.len();
    }

    /// Moves behind the parameters of a template. An instantiation has none.
    pub(crate) fn skip_parameters(&mut self) -> bool {
        const WORD: &[u8] = b"template";
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_behind_name = self.text[..self.at].last().is_some_and(is_name);
        if is_behind_name || !self.text[self.at..].starts_with(WORD) {
            return false;
        }
        let mut inside = Scanner { text: self.text, at: self.at + WORD.len() };
        inside.skip_space();
        if inside.peek(0) != b'<' || !inside.skip_brackets() {
            return false;
        }
        self.at = inside.at;
        true
    }

    /// Moves behind the bracket that closes the one at the place. Returns `false` if none does.
    fn skip_brackets(&mut self) -> bool {
        let (mut brackets, mut others) = (0usize, 0usize);
        while self.at < self.text.len() {
            if self.skip_comment() || self.skip_literal() {
                continue;
            }
            match (self.peek(0), self.peek(1)) {
                (b'(' | b'[' | b'{', _) => others += 1,
                (b')' | b']' | b'}', _) if others == 0 => return false,
                (b')' | b']' | b'}', _) => others -= 1,
                _ if others > 0 => {}
                (b';', _) => return false,
                (b'<' | b'>', b'=') | (b'<', b'<') | (b'-', b'>') => self.at += 1,
                (b'<', _) => brackets += 1,
                (b'>', _) if brackets == 1 => {
                    self.at += 1;
                    return true;
                }
                (b'>', _) => brackets -= 1,
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    /// Moves behind the brace that closes the one at the place.
    pub(crate) fn skip_braces(&mut self) {
        let mut depth = 0usize;
        while self.at < self.text.len() {
            if self.skip_comment() || self.skip_literal() {
                continue;
            }
            match self.peek(0) {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Moves behind a text or a character.
    pub(crate) fn skip_literal(&mut self) -> bool {
        let quote = self.peek(0);
        let before = self.at.checked_sub(1).map_or(0, |at| self.text[at]);
        if quote == b'"' && before == b'R' {
            let open = self.text[self.at..].iter().position(|byte| *byte == b'(');
            let Some(open) = open else { return false };
            let mark = &self.text[self.at + 1..self.at + open];
            let end = [b")", mark, b"\""].concat();
            self.skip_to(&end);
            return true;
        }
        // A quote behind a digit separates groups of digits.
        if quote != b'"' && (quote != b'\'' || before.is_ascii_hexdigit()) {
            return false;
        }
        self.at += 1;
        while self.at < self.text.len() {
            match self.peek(0) {
                b'\\' => self.at += 2,
                b'\n' => return true,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return true;
                    }
                }
            }
        }
        self.at = self.at.min(self.text.len());
        true
    }
}
