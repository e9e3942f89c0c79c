//! Text from images, plugins and drivers, made safe for a terminal.

use std::borrow::Cow;

/// Returns the text with its control characters as escapes, such as `\u{1b}`. Such characters could
/// move a terminal's cursor, or change its colours or its title. Characters that change the
/// direction of text are escaped too; newlines and tabs stay.
///
/// An image's author chooses the names in the image. [`Error`](crate::Error) escapes its messages
/// with this function.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_unprintable(letter) {
            true => escaped.extend(letter.escape_unicode()),
            false => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

fn is_unprintable(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // Line and paragraph separators; marks, embeddings, overrides and isolates of direction.
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes_and_other_text_stays() {
        for plain in ["", "a\tb\n", "größer ≥ 3 \u{1f980}", r"\u{1b}"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain), "{plain:?}");
        }
        assert_eq!(printable("a\u{1b}[31mred\u{7}\r\n"), "a\\u{1b}[31mred\\u{7}\\u{d}\n");
        assert_eq!(printable("\u{9b}2J\u{7f}\u{0}"), "\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(printable("exe\u{202e}gpj"), "exe\\u{202e}gpj");
    }
}
