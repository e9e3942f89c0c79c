//! The declarations of a source in CUDA or HIP, as far as their extent.

use super::scanner::Scanner;

/// Words of declarations that belong to the device.
const OF_DEVICE: [&str; 6] =
    ["__global__", "__device__", "__constant__", "__shared__", "__managed__", "LONGSHORE_"];

/// A declaration of a namespace, or a directive of the preprocessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The bytes of the text.
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// The first and the last line, from 1.
    pub(crate) lines: (usize, usize),
    /// Whether the item, or a part of it, belongs to the device.
    pub(crate) is_of_device: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directive,
    Declaration,
}

/// Returns the words of declarations that belong to the device, with the macros of some texts that
/// stand for such words.
pub(crate) fn device_words<'t>(texts: impl Iterator<Item = &'t String>) -> Vec<String> {
    let mut words = OF_DEVICE.map(str::to_owned).to_vec();
    for line in texts.flat_map(|text| text.lines()) {
        let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
        let Some(rest) = rest.trim_start().strip_prefix("define ") else { continue };
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        if OF_DEVICE.iter().any(|word| value.contains(word)) {
            words.push(name.to_owned());
        }
    }
    words
}

/// Returns the items of a source, in order. Text that is not C++ gives items of any extent.
/// `words` are the ones of the device.
pub(crate) fn items(text: &str, words: &[String]) -> Vec<Item> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0 };
    let mut found = Vec::new();
    while let Some((begin, kind)) = scanner.next_begin() {
        let is_scope = match kind {
            Kind::Directive => {
                scanner.skip_directive();
                false
            }
            Kind::Declaration => scanner.skip_declaration(),
        };
        if !is_scope {
            found.push((begin, scanner.at, kind));
        }
    }
    let line_of = |at: usize| 1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
    found
        .into_iter()
        .map(|(begin, end, kind)| {
            let part = &text[begin..end];
            Item {
                begin,
                end,
                lines: (line_of(begin), line_of(end.saturating_sub(1).max(begin))),
                is_of_device: is_of_device(part, words),
                kind,
            }
        })
        .collect()
}

/// Returns whether a place of a text is in a function of the device, also in one of a class.
pub(crate) fn is_in_device_function(text: &str, words: &[String], at: usize) -> bool {
    let is_there = |item: &Item| (item.begin..item.end).contains(&at);
    let Some(item) = items(text, words).into_iter().find(is_there).filter(|it| it.is_of_device)
    else {
        return false;
    };
    let part = &text[item.begin..item.end];
    let head = part.split('{').next().unwrap_or_default();
    if is_function(head) {
        return true;
    }
    let begin = item.begin + head.len() + 1;
    let members = text.get(begin..item.end.saturating_sub(1)).unwrap_or_default();
    at >= begin && is_in_device_function(members, words, at - begin)
}

/// Returns whether a declaration belongs to the device. A function of the host may contain lambdas
/// of the device.
fn is_of_device(part: &str, words: &[String]) -> bool {
    let head = without_parameters(part).split('{').next().unwrap_or_default();
    let looked = if is_function(head) { head } else { part };
    words.iter().any(|word| looked.contains(word.as_str()))
}

/// Returns whether the text before a brace begins a function.
fn is_function(head: &str) -> bool {
    let of_types = ["struct", "class", "union", "namespace", "enum"];
    let is_type = head.split([' ', '\n', '\t', '>']).any(|word| of_types.contains(&word));
    let is_value = head.split('(').next().is_some_and(|before| before.contains('='));
    head.contains('(') && !is_type && !is_value
}

/// Returns a declaration without `template <...>` before it.
pub(crate) fn without_parameters(part: &str) -> &str {
    let mut scanner = Scanner { text: part.as_bytes(), at: 0 };
    loop {
        scanner.skip_space();
        if !scanner.skip_parameters() {
            return &part[scanner.at..];
        }
    }
}

impl Scanner<'_> {
    /// Finds the begin of the next item, behind ends of namespaces.
    fn next_begin(&mut self) -> Option<(usize, Kind)> {
        loop {
            self.skip_space();
            match self.text.get(self.at)? {
                b'#' => return Some((self.at, Kind::Directive)),
                b'}' | b';' => self.at += 1,
                _ => return Some((self.at, Kind::Declaration)),
            }
        }
    }

    /// Moves behind a declaration. Returns `true` at the begin of a namespace, which it enters.
    fn skip_declaration(&mut self) -> bool {
        let begin = self.at;
        let mut depth = 0usize;
        let mut is_assigned = false;
        while self.at < self.text.len() {
            let is_skipped = self.skip_comment() || self.skip_literal();
            if is_skipped || depth == 0 && self.skip_parameters() {
                continue;
            }
            match self.peek(0) {
                b'=' if depth == 0 && !self.is_comparison() => is_assigned = true,
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b';' if depth == 0 => {
                    self.at += 1;
                    return false;
                }
                // The end of an unbalanced namespace.
                b'}' if depth == 0 => return false,
                b'{' if depth == 0 => {
                    let head = String::from_utf8_lossy(&self.text[begin..self.at]).into_owned();
                    if is_scope(&head) {
                        self.at += 1;
                        return true;
                    }
                    self.skip_braces();
                    let is_value = is_assigned && !head.contains("operator");
                    if head.contains('(') && !is_value && self.is_end_of_function() {
                        return false;
                    }
                    continue;
                }
                b'{' => {
                    self.skip_braces();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        false
    }

    /// Returns whether the sign at the place belongs to a comparison.
    fn is_comparison(&self) -> bool {
        let before = self.at.checked_sub(1).map_or(0, |at| self.text[at]);
        self.peek(1) == b'=' || matches!(before, b'=' | b'!' | b'<' | b'>')
    }

    /// Returns whether the braces before were a function's body, and not part of its beginning.
    fn is_end_of_function(&self) -> bool {
        let rest = Scanner { text: self.text, at: self.at };
        let mut rest = rest;
        rest.skip_space();
        !matches!(rest.peek(0), b',' | b'{' | b';')
    }
}

/// Returns whether a text before a brace begins a namespace or a block of one language. Macros may
/// stand before it.
fn is_scope(head: &str) -> bool {
    let code = without_comments(head);
    let mut words = code.split_whitespace();
    let is_name = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_language = words.clone().next() == Some("extern") && code.contains('"');
    let is_namespace = words.by_ref().take_while(is_name).any(|word| word == "namespace");
    is_namespace || is_language && !code.contains('(')
}

fn without_comments(text: &str) -> String {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0 };
    let mut code = Vec::new();
    while let Some(byte) = scanner.text.get(scanner.at) {
        if !scanner.skip_comment() {
            code.push(*byte);
            scanner.at += 1;
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(&str, bool)> {
        let found = items(source, &device_words([&source.to_owned()].into_iter())).into_iter();
        found.map(|item| (&source[item.begin..item.end], item.is_of_device)).collect()
    }

    #[test]
    fn a_source_is_divided_at_its_declarations() {
        let source = "#include <x> // {\nnamespace a { int v = {1}; }\n__global__ void k(int *x) { \
                      if (x) { *x = '}'; } }\nstruct S { int x; __device__ void f(); };\n\
                      static int run(const char *a = \"){\") { return 0; }\nint main() { }\n";
        let expected = [
            ("#include <x> // {", false),
            ("int v = {1};", false),
            ("__global__ void k(int *x) { if (x) { *x = '}'; } }", true),
            ("struct S { int x; __device__ void f(); };", true),
            ("static int run(const char *a = \"){\") { return 0; }", false),
            ("int main() { }", false),
        ];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn macros_and_lambdas_of_the_device_are_known() {
        let source = "#define FN __host__ __device__\nFN int f() { }\nint main() { g([] __device__ \
                      (int) { }); }\nint h(FN_t x) { }\n";
        let is_of_device: Vec<bool> = texts(source).into_iter().map(|(_, it)| it).collect();
        assert_eq!(is_of_device, [true, true, false, true]);
    }

    #[test]
    fn functions_of_the_device_are_found_in_classes_too() {
        let source = "__global__ void k(A *a) { }\nstruct S { B b; __device__ C f(D d) { E e; } \
                      F g() { G h; } template <class T> struct N { __device__ H i(); }; };\n";
        let words = device_words([source.to_owned()].iter());
        let found: String = "ABCDEFGH"
            .chars()
            .filter(|name| is_in_device_function(source, &words, source.find(*name).unwrap()))
            .collect();
        assert_eq!(found, "ACDEH");
    }

    #[test]
    fn macros_and_comments_may_stand_before_a_namespace() {
        let source = "/// A namespace {\nPREFIX\n// The namespace\nnamespace a { // b\nint x; }\n\
                      inline namespace c { int y; }\nextern \"C\" { int z; }\nextern \"C\" int f() { \
                      }\nusing namespace d; int g() { }\nA::namespace_() { }\n";
        let found: Vec<&str> = texts(source).into_iter().map(|(text, _)| text).collect();
        let functions = [
            "extern \"C\" int f() { }",
            "using namespace d;",
            "int g() { }",
            "A::namespace_() { }",
        ];
        assert_eq!(found, [["int x;", "int y;", "int z;"].as_slice(), &functions].concat());
    }

    #[test]
    fn constructors_and_raw_texts_keep_their_parts_together() {
        let source = "A::A() : x{1}, y(2) { }\nauto t = R\"q(};\")q\";\nenum E { a, b } e;\n";
        let expected = [
            ("A::A() : x{1}, y(2) { }", false),
            ("auto t = R\"q(};\")q\";", false),
            ("enum E { a, b } e;", false),
        ];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn functions_end_behind_parameters_of_templates_with_defaults() {
        let parts = [
            ("template <class T, class R = float> __device__ T f(T x) { return x; }", true),
            (
                "template<class T=A<B<(1 > 2)>>,int n=1<<3> // <\nint g(int a = 2) { \
              h([] __device__ () { }); }",
                false,
            ),
            ("template <class T> template <class U = T> void A<T>::f(U) { }", false),
            ("template <int n> typename enable_if<n == 4>::type e() { }", false),
            (
                "template <class T, bool b = (sizeof(T) > 4)> struct S { __device__ void f(); };",
                true,
            ),
            ("template <class T = float> auto l = [] __device__ () { };", true),
            ("template __global__ void k<float>(float *);", true),
            ("void last() { }", false),
        ];
        let source: String = parts.iter().map(|(part, _)| format!("{part}\n")).collect();
        assert_eq!(texts(&source), parts);
        assert_eq!(without_parameters(parts[2].0), "void A<T>::f(U) { }");
        assert_eq!(without_parameters(parts[6].0), parts[6].0);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let found = items("int a;\n\nvoid f() {\n}\n", &[]);
        assert_eq!(found.iter().map(|item| item.lines).collect::<Vec<_>>(), [(1, 1), (3, 4)]);
    }

    #[test]
    fn any_text_is_divided() {
        for text in [
            "}}}",
            "{",
            "(",
            "\"",
            "R\"",
            "'",
            "/*",
            "#\\",
            "namespace {",
            "a {{",
            "\\",
            "template <",
            "template",
        ] {
            let _ = items(text, &[]);
        }
    }
}
