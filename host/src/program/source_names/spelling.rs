//! One spelling for names that C++ sources spell in several ways: `unsigned` and `unsigned int`,
//! `const T *` and `T const *`.

/// Words of integer types, and of `long double`.
const OF_NUMBERS: [&str; 7] = ["unsigned", "signed", "long", "short", "int", "char", "double"];
/// Words that do not change a type in a symbol.
const IGNORED: [&str; 7] =
    ["struct", "class", "enum", "typename", "restrict", "__restrict", "__restrict__"];
/// Other names of types, and the words of the names in symbols.
const SYNONYMS: [(&str, &[&str]); 27] = [
    ("int8_t", &["signed", "char"]),
    ("uint8_t", &["unsigned", "char"]),
    ("int16_t", &["short"]),
    ("uint16_t", &["unsigned", "short"]),
    ("int32_t", &["int"]),
    ("uint32_t", &["unsigned"]),
    ("int64_t", &["long"]),
    ("uint64_t", &["unsigned", "long"]),
    ("size_t", &["unsigned", "long"]),
    ("ptrdiff_t", &["long"]),
    ("uintptr_t", &["unsigned", "long"]),
    ("intptr_t", &["long"]),
    ("uint", &["unsigned"]),
    ("ushort", &["unsigned", "short"]),
    ("ulong", &["unsigned", "long"]),
    ("half", &["__half"]),
    ("half2", &["__half2"]),
    ("nv_bfloat16", &["__nv_bfloat16"]),
    ("nv_bfloat162", &["__nv_bfloat162"]),
    ("hip_bfloat16", &["__nv_bfloat16"]),
    ("__hip_bfloat16", &["__nv_bfloat16"]),
    ("__hip_bfloat162", &["__nv_bfloat162"]),
    ("cuComplex", &["float2"]),
    ("cuFloatComplex", &["float2"]),
    ("cuDoubleComplex", &["double2"]),
    ("hipFloatComplex", &["float2"]),
    ("hipDoubleComplex", &["double2"]),
];

/// Returns a name in the form in which names are compared: one word for each type, `const` behind
/// its type, no unnamed namespaces, and no types and suffixes of numbers.
pub(super) fn plain(name: &str) -> String {
    let mut text = name.to_owned();
    for unnamed in ["(anonymous namespace)::", "{anonymous}::"] {
        text = text.replace(unnamed, "");
    }
    let words = with_const_behind(&with_one_name(&words(&text)));
    without_types_of_numbers(&without_outer_const(&words).concat())
}

/// Divides a name at its spaces and signs, and leaves out the suffixes of numbers.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match rest.find(|c| !is_of_word(c)) {
            Some(0) if rest.starts_with("::") => 2,
            Some(0) => first.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        let word = &rest[..length];
        let is_number = first.is_ascii_digit();
        let shown = if is_number { word.trim_end_matches(['u', 'U', 'l', 'L']) } else { word };
        words.extend((!IGNORED.contains(&shown)).then_some(shown));
        rest = rest[length..].trim_start();
    }
    words
}

/// Replaces synonyms, and joins the words of types of numbers.
fn with_one_name<'n>(words: &[&'n str]) -> Vec<&'n str> {
    let mut all: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if *word == "std"
            && words.get(at + 1) == Some(&"::")
            && synonym(words.get(at + 2)).is_some()
        {
            continue;
        }
        if *word == "::" && at > 0 && words[at - 1] == "std" && synonym(words.get(at + 1)).is_some()
        {
            continue;
        }
        match synonym(Some(word)) {
            Some(others) => all.extend(others),
            None => all.push(word),
        }
    }
    let mut joined = Vec::new();
    let mut rest = all.as_slice();
    while let Some(first) = rest.first() {
        let is_of_type = |word: &&&str| OF_NUMBERS.contains(*word) || **word == "const";
        let run = rest.iter().take_while(is_of_type).count();
        let is_number = rest[..run].iter().any(|word| *word != "const");
        if is_number {
            let has_const = rest[..run].contains(&"const");
            joined.extend([number(&rest[..run])].into_iter().chain(has_const.then_some("const")));
        } else {
            joined.push(first);
        }
        rest = &rest[if is_number { run } else { 1 }..];
    }
    joined
}

fn synonym(word: Option<&&str>) -> Option<&'static [&'static str]> {
    let found = SYNONYMS.iter().find(|(name, _)| Some(name) == word)?;
    Some(found.1)
}

/// Returns the type of a number with these words.
fn number(words: &[&str]) -> &'static str {
    let count = |word: &str| words.iter().filter(|it| **it == word).count();
    let is_unsigned = count("unsigned") > 0;
    match (count("long"), is_unsigned) {
        (0, _) if count("double") > 0 => "double",
        (_, _) if count("double") > 0 => "long double",
        (0, true) if count("char") > 0 => "unsigned char",
        (0, _) if count("char") > 0 && count("signed") > 0 => "signed char",
        (0, _) if count("char") > 0 => "char",
        (0, true) if count("short") > 0 => "unsigned short",
        (0, _) if count("short") > 0 => "short",
        (0, true) => "unsigned",
        (0, false) => "int",
        (1, true) => "unsigned long",
        (1, false) => "long",
        (_, true) => "unsigned long long",
        (_, false) => "long long",
    }
}

/// Moves each `const` that begins a type behind the name of the type.
fn with_const_behind<'n>(words: &[&'n str]) -> Vec<&'n str> {
    let mut moved = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let begins = moved.last().is_none_or(|it| matches!(*it, "<" | "(" | ","));
        if words[at] == "const" && begins {
            let end = end_of_type(words, at + 1);
            moved.extend(with_const_behind(&words[at + 1..end]));
            moved.push("const");
            at = end;
        } else {
            moved.push(words[at]);
            at += 1;
        }
    }
    moved
}

/// Returns the end of the name of a type, with its arguments: `ns::A<int>`.
fn end_of_type(words: &[&str], begin: usize) -> usize {
    let mut depth = 0usize;
    let mut was_name = false;
    for (at, word) in words.iter().enumerate().skip(begin) {
        let is_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        match *word {
            "<" => depth += 1,
            ">" if depth == 0 => return at,
            ">" => depth -= 1,
            _ if depth > 0 => {}
            "::" => {}
            _ if is_name && !was_name => {}
            _ => return at,
        }
        was_name = depth == 0 && *word != "::";
    }
    words.len()
}

/// Leaves out the `const` of parameters themselves, which symbols do not have.
fn without_outer_const<'n>(words: &[&'n str]) -> Vec<&'n str> {
    let mut open = Vec::new();
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" | "<" => open.push(*word),
            ")" | ">" => drop(open.pop()),
            _ => {}
        }
        let is_last = matches!(words.get(at + 1), Some(&("," | ")")));
        if *word != "const" || !is_last || open.last() != Some(&"(") {
            kept.push(*word);
        }
    }
    kept
}

/// Removes casts before numbers: `(unsigned)64` is `64`.
fn without_types_of_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let (before, inside) = rest.split_at(open);
        plain.push_str(before);
        let close = inside.find(')');
        let is_cast = close.is_some_and(|close| {
            let behind = inside[close + 1..].trim_start_matches('-');
            inside[1..close].chars().all(|c| c.is_alphabetic() || c == ' ')
                && close > 1
                && behind.starts_with(|c: char| c.is_ascii_digit())
        });
        let skipped = if is_cast { close.map_or(1, |close| close + 1) } else { 1 };
        if !is_cast {
            plain.push('(');
        }
        rest = &inside[skipped..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one() {
        let cases = [
            ("k<unsigned>", "k<unsigned int>"),
            ("k<long int, int long unsigned>", "k<long, unsigned long>"),
            ("k<uint64_t, std::int8_t>", "k<unsigned long, signed char>"),
            ("k<const float *>", "k<float const*>"),
            ("k<const ns::A<const int, 3> *, 4>", "k<ns::A<int const, 3> const*, 4>"),
            ("k<const unsigned>", "k<unsigned int const>"),
            ("k(const float *__restrict__, const int)", "k(float const*, int)"),
            ("k<half2, nv_bfloat16>", "k<__half2, __nv_bfloat16>"),
            ("k<(short)3, 8ul>", "k<3, 8>"),
            ("k<(unsigned int)3>((anonymous namespace)::A)", "k<3>(A)"),
        ];
        for (left, right) in cases {
            assert_eq!(plain(left), plain(right), "{left}, {right}");
        }
    }

    #[test]
    fn other_types_stay_different() {
        let cases = [
            ("k<unsigned>", "k<int>"),
            ("k<long>", "k<long long>"),
            ("k<char>", "k<signed char>"),
            ("k<const float *>", "k<float *const>"),
            ("k<const float *>", "k<float *>"),
            ("k<const int>", "k<int>"),
            ("k<double>", "k<long double>"),
            ("ns::half", "half"),
        ];
        for (left, right) in cases {
            assert_ne!(plain(left), plain(right), "{left}, {right}");
        }
    }

    #[test]
    fn names_with_digits_keep_them() {
        assert_eq!(plain("fft2l<8ul, true>"), "fft2l<8,true>");
    }
}
