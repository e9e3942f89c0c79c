//! Names of C++ and Rust, as in their sources.

/// Returns the source name of a symbol of C++ or Rust; `None` for other symbols.
pub(super) fn demangled(symbol: &str) -> Option<String> {
    // Rust comes first, because its legacy symbols are also valid symbols of C++.
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return Some(format!("{name:#}"));
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    let name = cpp_demangle::Symbol::new(symbol).ok()?;
    name.demangle(&cpp_demangle::DemangleOptions::default()).ok().filter(|name| name != symbol)
}

/// Returns "f(int) [_Z1fi]" for a symbol of C++ or Rust, else the symbol.
pub(super) fn readable(symbol: &str) -> String {
    demangled(symbol).map_or_else(|| symbol.to_owned(), |name| format!("{name} [{symbol}]"))
}

/// Replaces all symbols in a text by their [`readable`] form.
pub(super) fn explained(text: &str) -> String {
    let is_of_symbol = |c: char| c.is_ascii_alphanumeric() || "_$.@".contains(c);
    let mut explained = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_symbol) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_of_symbol(c)).unwrap_or(word.len());
        let (word, behind) = word.split_at(end);
        explained.push_str(before);
        match word.starts_with("_Z") || word.starts_with("_R") {
            true => explained.push_str(&readable(word)),
            false => explained.push_str(word),
        }
        rest = behind;
    }
    explained + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_as_in_the_source() {
        for (symbol, name) in [
            ("_ZN5outer5innerEi", Some("outer::inner(int)")),
            ("_ZN4demo3run17h0123456789abcdefE", Some("demo::run")),
            ("_RNvC6_123foo3bar", Some("123foo::bar")),
            ("main", None),
            ("_Zwrong", None),
        ] {
            assert_eq!(demangled(symbol).as_deref(), name, "{symbol}");
        }
    }

    #[test]
    fn only_symbols_in_a_text_are_explained() {
        let text = "_Z3runv is defined in a.o and again in _Zebra.o (über)";
        let expected = "run() [_Z3runv] is defined in a.o and again in _Zebra.o (über)";
        assert_eq!(explained(text), expected);
        assert_eq!(explained(""), "");
    }
}
