//! Syntax errors in PTX, in the words of NVIDIA's assembler.
//!
//! The check separates statements and looks at their first words. The twin shows errors in their
//! meaning.

/// Returns the assembler's message, if the text is visibly not PTX.
pub(crate) fn complaint(text: &str) -> Option<String> {
    let mut scan = Scan { text: text.as_bytes(), at: 0, line: 1 };
    let first = scan.peek_word();
    if first != ".version" {
        return Some(fatal(1, "Missing .version directive at start of file"));
    }
    scan.module().err()
}

fn fatal(line: u32, what: &str) -> String {
    format!(
        "ptxas application ptx input, line {line}; fatal   : {what}\n\
         ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
}

/// The end of a statement.
#[derive(PartialEq, Eq)]
enum End {
    Semicolon,
    Open,
    Close,
    Text,
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

impl Scan<'_> {
    /// Reads directives, one after the other, some with bodies.
    fn module(&mut self) -> Result<(), String> {
        loop {
            self.skip_space();
            let (line, start) = (self.line, self.peek_word());
            if start.is_empty() && self.at >= self.text.len() {
                return Ok(());
            }
            if !start.starts_with('.') && start != ";" && start != "{" {
                return Err(self.syntax(line, &start));
            }
            match self.directive(&start) {
                End::Open => self.body(start == ".section")?,
                End::Close => return Err(self.syntax(self.line, "}")),
                End::Semicolon => {}
                End::Text => return Ok(()),
            }
        }
    }

    /// Reads the rest of a directive at the level of the module. Some directives end with their
    /// line.
    fn directive(&mut self, start: &str) -> End {
        if matches!(start, ".version" | ".target" | ".address_size" | ".file" | ".loc") {
            while self.at < self.text.len() && self.text[self.at] != b'\n' {
                self.at += 1;
            }
            return End::Semicolon;
        }
        self.statement(true)
    }

    /// Reads a body after its opening brace.
    fn body(&mut self, is_data: bool) -> Result<(), String> {
        let mut depth = 1;
        while depth > 0 {
            self.skip_space();
            let (line, start) = (self.line, self.peek_word());
            match start.as_str() {
                "" => return Err(self.syntax(line, "")),
                "{" | "}" => {
                    self.at += 1;
                    depth = if start == "{" { depth + 1 } else { depth - 1 };
                    continue;
                }
                ".loc" => {
                    self.directive(".loc");
                    continue;
                }
                _ => {}
            }
            if self.take_label(&start) {
                continue;
            }
            if !is_data {
                self.check_start(line, &start)?;
            }
            match self.statement(false) {
                End::Close => depth -= 1,
                End::Text => return Err(self.syntax(self.line, "")),
                End::Open | End::Semicolon => {}
            }
        }
        Ok(())
    }

    /// Checks the start of a statement: an instruction, perhaps after a predicate, or a directive.
    fn check_start(&mut self, line: u32, start: &str) -> Result<(), String> {
        if start.starts_with('.') || start == ";" {
            return Ok(());
        }
        let mut word = start.to_owned();
        if start == "@" {
            self.at += 1;
            if self.peek_word() == "!" {
                self.at += 1;
            }
            self.at += self.peek_word().len();
            self.skip_space();
            word = self.peek_word();
        }
        let root = word.split('.').next().unwrap_or_default();
        if INSTRUCTIONS.contains(&root) {
            return Ok(());
        }
        if root.is_empty() || !root.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.syntax(line, &word));
        }
        Err(format!(
            "ptxas application ptx input, line {line}; error   : Not a name of any known \
             instruction: '{root}'\nptxas fatal   : Ptx assembly aborted due to errors\n"
        ))
    }

    /// Reads to the end of a statement. At the level of the module, a brace opens a body unless it
    /// follows `=`.
    fn statement(&mut self, of_module: bool) -> End {
        let (mut depth, mut has_value) = (0, false);
        while self.at < self.text.len() {
            self.skip_space();
            let Some(byte) = self.text.get(self.at).copied() else { return End::Text };
            self.at += 1;
            match byte {
                b';' if depth == 0 => return End::Semicolon,
                b'{' if of_module && depth == 0 && !has_value => return End::Open,
                b'{' => depth += 1,
                b'}' if depth == 0 => return End::Close,
                b'}' => depth -= 1,
                b'=' => has_value = true,
                b'"' => self.skip_text(),
                _ => {}
            }
        }
        End::Text
    }

    /// Skips a label, `name:`.
    fn take_label(&mut self, name: &str) -> bool {
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_$%".contains(c));
        let (before, line) = (self.at, self.line);
        self.at += name.len();
        self.skip_space();
        let is_label = is_name
            && self.text.get(self.at) == Some(&b':')
            && self.text.get(self.at + 1) != Some(&b':');
        if is_label {
            self.at += 1;
        } else {
            (self.at, self.line) = (before, line);
        }
        is_label
    }

    /// Returns the next name with its dots, or the next other character.
    fn peek_word(&mut self) -> String {
        self.skip_space();
        let rest = &self.text[self.at.min(self.text.len())..];
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$%.".contains(byte);
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        let length = length.max(usize::from(!rest.is_empty()));
        String::from_utf8_lossy(&rest[..length]).into_owned()
    }

    fn skip_space(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'\n' => self.line += 1,
                b'/' if self.text[self.at..].starts_with(b"//") => {
                    while self.text.get(self.at + 1).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                b'/' if self.text[self.at..].starts_with(b"/*") => self.skip_comment(),
                byte if byte.is_ascii_whitespace() => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Moves to the last character of a comment.
    fn skip_comment(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest.windows(2).position(|two| two == b"*/").unwrap_or(rest.len());
        self.line += rest[..length].iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at += length + 1;
    }

    fn skip_text(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| *byte != b'"') {
            self.at += 1 + usize::from(self.text[self.at] == b'\\');
        }
        self.at += 1;
    }

    fn syntax(&self, line: u32, near: &str) -> String {
        fatal(line, &format!("Parsing error near '{near}': syntax error"))
    }
}

#[rustfmt::skip]
const INSTRUCTIONS: &[&str] = &[
    "abs", "activemask", "add", "addc", "alloca", "and", "applypriority", "atom", "bar", "barrier", "bfe", "bfi",
    "bfind", "bmsk", "bra", "brev", "brkpt", "brx", "call", "clusterlaunchcontrol", "clz", "cnot", "copysign", "cos",
    "cp", "createpolicy", "cvt", "cvta", "discard", "div", "dp2a", "dp4a", "elect", "ex2", "exit", "fence", "fma",
    "fns", "getctarank", "griddepcontrol", "isspacep", "istypep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad",
    "mad24", "madc", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24",
    "multimem", "nanosleep", "neg", "not", "or", "pmevent", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red",
    "redux", "rem", "ret", "rsqrt", "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl", "shl", "shr", "sin",
    "slct", "sqrt", "st", "stackrestore", "stacksave", "stmatrix", "sub", "subc", "suld", "suq", "sured", "sust",
    "szext", "tanh", "tcgen05", "tensormap", "testp", "tex", "tld4", "trap", "txq", "vabsdiff", "vabsdiff2",
    "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2",
    "vmin4", "vote", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma", "xor",
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 7.8\n.target sm_90\n.address_size 64\n";

    fn complaint_of(rest: &str) -> Option<String> {
        complaint(&format!("{HEAD}{rest}"))
    }

    #[test]
    fn output_of_compilers_is_accepted() {
        let text = r#"
            .func (.param .b32 r) f ( .param .b64 a ) ;
            .visible .global .align 4 .b8 x[4] = {1, 2, 3, 4};
            .visible .entry k(.param .u64 p) .maxntid 1, 1, 1 // a comment
            {
                .reg .pred %p<2>;
                .pragma "nounroll;{";
                .loc 1 2 3
                $L__BB0: ld.v2.f32 {%f1, %f2}, [%rd1];
                @!%p1 bra $L__BB0;
                { // callseq 0
                  prototype_0 : .callprototype ()_ ();
                  call (r), f, (a);
                }
                /* two
                   lines */ ret;
            }
            .section .debug_info { .b8 1, 2
              .b32 .debug_line }
        "#;
        assert_eq!(complaint_of(text), None);
    }

    #[test]
    fn malformed_text_is_reported_with_its_line() {
        let cases = [
            ("foo bar;", "line 4; fatal   : Parsing error near 'foo'"),
            (
                ".entry k() {\n foo.u32 a;\n}",
                "line 5; error   : Not a name of any known instruction: 'foo'",
            ),
            (".entry k() {\n ret;\n", "Parsing error near ''"),
            (".entry k() {\n ret;\n}\n}", "Parsing error near '}'"),
        ];
        for (text, expected) in cases {
            let said = complaint_of(text).expect("it is broken");
            assert!(said.contains(expected), "{text}: {said}");
        }
        assert!(complaint("hello").is_some_and(|said| said.contains(".version")));
        assert!(complaint("").is_some());
    }
}
