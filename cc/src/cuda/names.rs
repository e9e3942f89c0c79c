//! The names that a declaration of a source in CUDA or HIP declares.

use super::items::without_parameters;

/// Words before the name of a type.
const TYPES: [&str; 4] = ["struct", "class", "union", "using"];

/// Returns the functions and types that a part of a source declares.
pub(crate) fn declared(part: &str) -> impl Iterator<Item = &str> {
    let is_alias = starts_with(part, "typedef");
    let alias = is_alias.then(|| alias(part)).flatten();
    let head = without_parameters(part).split('{').next().unwrap_or_default();
    let words = head.split(|c| !is_of_name(c));
    let of_type = words.filter(|word| TYPES.contains(word)).map(move |word| {
        let behind = word.as_ptr().addr() - head.as_ptr().addr() + word.len();
        name_of_type(&head[behind..])
    });
    let is_type = is_type(part);
    let of_function = head.match_indices('(').filter_map(move |(at, _)| {
        let name = last_name(&head[..at]);
        (!is_type && !name.is_empty() && !name.starts_with("__")).then_some(name)
    });
    of_type.take(1).chain(of_function.take(1)).chain(alias)
}

/// Returns whether a part of a source declares a type.
pub(crate) fn is_type(part: &str) -> bool {
    let is_alias = starts_with(part, "using") && part.contains('=');
    let has_members = TYPES[..3].iter().any(|word| starts_with(part, word));
    // Functions with such a result end otherwise.
    is_alias || starts_with(part, "typedef") || has_members && part.trim_end().ends_with(';')
}

/// Returns the name of a type, behind its attributes.
fn name_of_type(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let is_attribute = behind.trim_start().starts_with('(') || rest.starts_with('[');
        let Some(close) = is_attribute.then(|| behind.rfind([')', ']'])).flatten() else {
            return name;
        };
        rest = behind[close + 1..].trim_start();
    }
}

/// Returns the name at the end of a `typedef`, which may be one of a function or an array.
fn alias(part: &str) -> Option<&str> {
    let end = part.trim_end().strip_suffix(';')?;
    let end = match end.rfind("(*") {
        Some(at) => &end[at..at + end[at..].find(')')?],
        None => &end[..end.rfind('[').unwrap_or(end.len())],
    };
    Some(last_name(end))
}

fn starts_with(part: &str, word: &str) -> bool {
    let rest = without_parameters(part).strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(is_of_name))
}

fn last_name(text: &str) -> &str {
    let text = text.trim_end();
    &text[text.rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1)..]
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_have_names() {
        for (part, expected) in [
            ("using A = cub::B<int>;", "A"),
            ("template <class T, class U = f(T)> using A = B<T>;", "A"),
            ("typedef cub::B<int, (3 > 2)> A;", "A"),
            ("typedef int (*A)(B, C);", "A"),
            ("typedef B A[3];", "A"),
            ("typedef struct B { int x; } A;", "B A"),
            ("template <class T> struct A : B<T> { void f(); };", "A"),
            ("union A { int x; };", "A"),
            ("struct __attribute__((aligned(16))) A { int x; };", "A"),
            ("struct [[b]] __align__(16) A { int x; };", "A"),
            ("__global__ void __launch_bounds__(3) f(A x) { g(); }", "f"),
            ("template <class T> __device__ T f() { }", "f"),
        ] {
            let found: Vec<&str> = declared(part).collect();
            assert_eq!(found.join(" "), expected, "{part}");
            assert_eq!(is_type(part), expected != "f", "{part}");
        }
        assert!(!is_type("int x = 3;") && !is_type("struct A f(int x) { }"));
    }
}
