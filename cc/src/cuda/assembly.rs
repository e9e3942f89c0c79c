//! Assembly statements in a source: `asm volatile("add.u32 %0, %1, 1;" : "=r"(x) : "r"(y));`.

use super::ptx;

/// An operand of a statement.
pub(crate) struct Operand<'t> {
    /// The name in brackets.
    pub(crate) name: Option<&'t str>,
    pub(crate) constraint: String,
    /// The expression in C++.
    pub(crate) value: &'t str,
}

/// A statement.
pub(crate) struct Statement<'t> {
    pub(crate) code: String,
    pub(crate) outputs: Vec<Operand<'t>>,
    pub(crate) inputs: Vec<Operand<'t>>,
}

/// Returns a source in which devices other than NVIDIA's run a translation of the PTX in assembly
/// statements; `None` without a translation. Lines stay where they are.
pub(crate) fn translated(text: &str) -> Option<String> {
    let mut result = String::new();
    let (mut done, mut from) = (0, 0);
    while let Some((begin, open)) = next_statement(text, from) {
        from = open;
        let mut reader = Reader { text, at: open };
        let Some(statement) = reader.statement() else { continue };
        from = reader.at;
        // A statement of an earlier translation is the first argument of the macro.
        let is_done = text[..begin].trim_end().ends_with("LONGSHORE_PTX_(");
        let Some(code) = ptx::translate(&statement).filter(|_| !is_done) else { continue };
        result.push_str(&text[done..begin]);
        result.push_str("LONGSHORE_PTX_(");
        result.push_str(&text[begin..reader.at]);
        result.push_str(", (");
        result.push_str(&code);
        result.push_str("))");
        done = reader.at;
    }
    if done == 0 {
        return None;
    }
    result.push_str(&text[done..]);
    Some(result)
}

/// Returns the instruction for which a statement, from behind its keyword, has no translation.
pub(crate) fn obstacle(text: &str) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_qualifiers();
    ptx::obstacle(&reader.statement()?)
}

/// Finds the next assembly statement. Returns the beginning of its keyword, and of its parenthesis.
fn next_statement(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut reader = Reader { text, at: from };
    loop {
        let rest = reader.rest();
        let first = *rest.as_bytes().first()?;
        if first == b'"' || first == b'\'' {
            reader.skip_literal();
        } else if rest.starts_with("//") || rest.starts_with("/*") {
            reader.skip_space();
        } else if let Some(word) = reader.word() {
            let begin = reader.at;
            reader.at += word.len();
            if !matches!(word, "asm" | "__asm__" | "__asm") {
                continue;
            }
            let end = reader.at;
            reader.skip_qualifiers();
            if reader.rest().starts_with('(') {
                return Some((begin, reader.at));
            }
            reader.at = end;
        } else {
            reader.at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the word here, which begins with a letter. Numbers are words too.
    fn word(&self) -> Option<&'t str> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        (end > 0).then_some(&rest[..end])
    }

    /// Skips space, comments, and the ends of a macro's lines.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let next = rest.trim_start();
            let next = next.strip_prefix("\\\n").or(next.strip_prefix("\\\r\n")).unwrap_or(next);
            let after = |end: &str, comment: &'t str| {
                comment.find(end).map_or("", |at| &comment[at + end.len()..])
            };
            let next = match (next.strip_prefix("//"), next.strip_prefix("/*")) {
                (Some(comment), _) => after("\n", comment),
                (_, Some(comment)) => after("*/", comment),
                _ => next,
            };
            if next.len() == rest.len() {
                return;
            }
            self.at = self.text.len() - next.len();
        }
    }

    /// Skips the words between the keyword and the parenthesis of a statement.
    fn skip_qualifiers(&mut self) {
        self.skip_space();
        while let Some(word) = self.word() {
            if !matches!(word, "volatile" | "__volatile__" | "__volatile" | "inline") {
                break;
            }
            self.at += word.len();
            self.skip_space();
        }
    }

    /// Skips a literal of a string or character.
    fn skip_literal(&mut self) {
        let bytes = self.rest().as_bytes();
        let mut at = 1;
        while at < bytes.len() && bytes[at] != bytes[0] && bytes[at] != b'\n' {
            // The line of a macro ends behind a backslash too.
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + at + 1).min(self.text.len());
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
    }

    /// Skips a character with space behind it. Returns whether it is here.
    fn take(&mut self, character: char) -> bool {
        let is_here = self.rest().starts_with(character);
        if is_here {
            self.at += character.len_utf8();
            self.skip_space();
        }
        is_here
    }

    /// Reads a statement from its parenthesis on.
    fn statement(&mut self) -> Option<Statement<'t>> {
        self.take('(');
        let code = self.strings()?;
        let mut parts = [Vec::new(), Vec::new()];
        for part in &mut parts {
            if !self.take(':') {
                break;
            }
            *part = self.operands()?;
        }
        if self.take(':') {
            while !self.rest().starts_with(')') {
                self.strings()?;
                self.take(',');
            }
        }
        let is_whole = self.rest().starts_with(')');
        self.at += 1;
        let [outputs, inputs] = parts;
        is_whole.then_some(Statement { code, outputs, inputs })
    }

    fn operands(&mut self) -> Option<Vec<Operand<'t>>> {
        let mut operands = Vec::new();
        while !self.rest().starts_with([':', ')']) {
            let mut name = None;
            if self.take('[') {
                let word = self.word()?;
                name = Some(word);
                self.at += word.len();
                self.skip_space();
                self.take(']').then_some(())?;
            }
            let constraint = self.strings()?;
            let value = self.parenthesis()?;
            operands.push(Operand { name, constraint, value });
            self.take(',');
        }
        Some(operands)
    }

    /// Reads string literals that follow each other. Other words make strings that are not known
    /// here.
    fn strings(&mut self) -> Option<String> {
        let mut whole = String::new();
        let mut is_any = false;
        while self.rest().starts_with('"') {
            let begin = self.at + 1;
            self.skip_literal();
            unescape(self.text.get(begin..self.at - 1)?, &mut whole)?;
            is_any = true;
            self.skip_space();
        }
        is_any.then_some(whole)
    }

    /// Reads the contents of a parenthesis.
    fn parenthesis(&mut self) -> Option<&'t str> {
        let begin = self.at + 1;
        let mut depth = 0;
        loop {
            match self.rest().as_bytes().first()? {
                b'"' | b'\'' => {
                    self.skip_literal();
                    continue;
                }
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ if depth == 0 => return None,
                _ => {}
            }
            self.at += self.rest().chars().next().map_or(1, char::len_utf8);
            if depth == 0 {
                let contents = &self.text[begin..self.at - 1];
                self.skip_space();
                return Some(contents);
            }
        }
    }
}

/// Appends the characters that a literal stands for.
fn unescape(literal: &str, to: &mut String) -> Option<()> {
    let mut characters = literal.chars();
    while let Some(character) = characters.next() {
        to.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '\n' => continue,
                same @ ('"' | '\\' | '\'') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Option<Statement<'_>> {
        let (_, open) = next_statement(text, 0)?;
        Reader { text, at: open }.statement()
    }

    #[test]
    fn statements_have_operands_with_constraints_and_names() {
        let text = "// asm(1)\n\"asm(\" asm volatile /* x */ (\"add.u32 %0, %1, \"\n  \"%[c];\\n\" : \
                    \"=r\"(f(a, \")\")) : \"r\"(b[(1)]), [c] \"n\"(3) : \"memory\", \"cc\");";
        let found = only(text).expect("there is a statement");
        assert_eq!(found.code, "add.u32 %0, %1, %[c];\n");
        let shown: Vec<_> = (found.outputs.iter().chain(&found.inputs))
            .map(|it| (it.name, it.constraint.as_str(), it.value))
            .collect();
        let expected = [(None, "=r", "f(a, \")\")"), (None, "r", "b[(1)]"), (Some("c"), "n", "3")];
        assert_eq!(shown, expected);
        assert!(only("asm(\"trap;\");").is_some_and(|it| it.outputs.is_empty()));
        assert!(only("asm volatile(\"membar.gl;\" ::: \"memory\");").is_some());
    }

    #[test]
    fn statements_that_are_not_whole_are_not_read() {
        for text in ["asm(\"a.\" #x)", "asm(", "asm(\"a;\" : \"=r\"(x", "asm(\"a;\" : X(x))", "asm"]
        {
            assert!(only(text).is_none(), "{text}");
        }
        assert!(next_statement("plasma(\"x\"); asm_(1); \"asm(\"", 0).is_none());
    }

    #[test]
    fn all_other_text_stays() {
        let text = "#define ID(x) \\\n  asm(\"mov.u32 %0, %%laneid;\" \\\n : \"=r\"(x));\nint é;\n\
                    asm(\"pause\");\n";
        let changed = translated(text).expect("there is PTX");
        assert_eq!(changed.lines().count(), text.lines().count());
        assert!(
            changed.starts_with("#define ID(x) \\\n  LONGSHORE_PTX_(asm(\"mov.u32"),
            "{changed}"
        );
        assert!(changed.ends_with(");\nint é;\nasm(\"pause\");\n"), "{changed}");
        assert!(translated(&changed).is_none(), "{changed}");
    }
}
