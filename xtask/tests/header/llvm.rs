//! What LLVM's OffloadAPI.h declares, as llvm-23.1.txt says it.

use crate::Layout;

/// A line: `kind name more: item, item`.
pub(crate) struct Fact {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) more: Vec<&'static str>,
    pub(crate) items: Vec<String>,
}

/// The facts of these kinds.
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
    /// How the type lies in memory.
    pub(crate) fn layout(&self) -> Layout {
        let field = |item: &String| {
            let (offset, field) = item.split_once(' ').unwrap();
            (offset.parse().unwrap(), split(field).1)
        };
        let fields = match self.kind {
            "struct" => self.items.iter().map(field).collect(),
            _ => Vec::new(),
        };
        let whole = [0, 1].map(|i| self.more[i].parse().unwrap());
        Layout { name: self.name.to_owned(), whole, fields }
    }
}

/// The type and the name of a declaration of a variable.
pub(crate) fn split(declaration: &str) -> (&str, String) {
    let (kind, name) = declaration.rsplit_once([' ', '*']).unwrap();
    (&declaration[..kind.len() + 1], name.to_owned())
}
