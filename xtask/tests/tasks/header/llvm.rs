//! Declarations of LLVM's OffloadAPI.h, from llvm-23.1.txt.

use crate::header::Layout;
use crate::header::declared::Variable;

/// A line: `kind name more: item, item`.
pub(crate) struct Fact {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) more: Vec<&'static str>,
    pub(crate) items: Vec<String>,
}

/// Returns the facts of these kinds.
pub(crate) fn facts(kinds: &[&str]) -> Vec<Fact> {
    let text = include_str!("llvm-23.1.txt");
    let mut facts: Vec<Fact> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (head, items) =
            if line.starts_with(' ') { ("", line) } else { line.split_once(':').unwrap() };
        let mut words = head.split(' ');
        if let (Some(kind), Some(name)) = (words.next(), words.next()) {
            facts.push(Fact { kind, name, more: words.collect(), items: Vec::new() });
        }
        let items = items.split(',').map(str::trim).filter(|item| !item.is_empty());
        facts.last_mut().unwrap().items.extend(items.map(str::to_owned));
    }
    facts.retain(|fact| kinds.contains(&fact.kind));
    facts
}

impl Fact {
    /// Returns the layout of the type in memory.
    pub(crate) fn layout(&self) -> Layout {
        let field = |item: &String| {
            let (offset, field) = item.split_once(' ').unwrap();
            (offset.parse().unwrap(), variable(field).0)
        };
        let fields = match self.kind {
            "struct" => self.items.iter().map(field).collect(),
            _ => Vec::new(),
        };
        let whole = [0, 1].map(|i| self.more[i].parse().unwrap());
        Layout { name: self.name.to_owned(), whole, fields }
    }
}

/// Returns the name and the type, in Rust, of a declaration of a variable in C.
pub(crate) fn variable(declaration: &str) -> Variable {
    let (kind, name) = declaration.rsplit_once([' ', '*']).unwrap();
    (name.to_owned(), in_rust(&declaration[..kind.len() + 1]))
}

/// Returns a type of C in Rust: a name and any number of pointers, of which the innermost may point
/// to a constant.
pub(crate) fn in_rust(kind: &str) -> String {
    let (name, pointers) = kind.split_at(kind.find('*').unwrap_or(kind.len()));
    let (is_const, name) = match name.trim().strip_prefix("const ") {
        Some(name) => (true, name),
        None => (false, name.trim()),
    };
    let name = match name.trim_start_matches("struct ") {
        "void" if pointers.is_empty() => "()",
        "void" => "c_void",
        "char" => "c_char",
        "uint32_t" | "unsigned" => "u32",
        "size_t" => "usize",
        "float" => "f32",
        name => name,
    };
    match pointers.len() {
        0 => name.to_owned(),
        count if is_const => format!("{}*const {name}", "*mut ".repeat(count - 1)),
        count => format!("{}{name}", "*mut ".repeat(count)),
    }
}
