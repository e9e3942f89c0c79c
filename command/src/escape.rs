//! Names and texts from files and plugins, escaped for a terminal.

use longshore_plugin_api::printable;

/// Number of characters after which a name is cut in text output.
const LONGEST_NAME: usize = 256;

/// Returns a name in one line, with control characters, newlines and tabs as escapes. The end of a
/// long name is left out.
pub(crate) fn name(text: &str) -> String {
    let shown = text.char_indices().nth(LONGEST_NAME).map_or(text, |(end, _)| &text[..end]);
    match text.len() - shown.len() {
        0 => line(shown),
        left => format!("{}… ({left} more bytes)", line(shown)),
    }
}

/// Returns a text in one line, with control characters, newlines and tabs as escapes.
pub(crate) fn line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns a JSON text in which the control characters allowed by JSON are escapes too.
pub(crate) fn json(text: &str) -> String {
    let escaped = printable(text);
    // JSON writes Rust's escape `\u{9b}` as `\u009b`. A backslash of the text itself is doubled in
    // JSON.
    let mut parts = escaped.split("\\u{");
    let mut json = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((digits, rest)) if is_escape(&json, digits) => {
                json.push_str(&format!("\\u{digits:0>4}{rest}"));
            }
            _ => json.extend(["\\u{", part]),
        }
    }
    json
}

/// Returns whether `\u{digits}` is an escape made by `printable`. An odd number of backslashes
/// before it means that its own backslash is the second of a pair, which is a backslash of the
/// text.
fn is_escape(before: &str, digits: &str) -> bool {
    let backslashes = before.len() - before.trim_end_matches('\\').len();
    backslashes.is_multiple_of(2)
        && digits.len() <= 4
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_short_line_without_control_characters() {
        assert_eq!(name("saxpy<float>"), "saxpy<float>");
        assert_eq!(name("a\nb\t\u{1b}[2J"), "a\\nb\\t\\u{1b}[2J");
        let long = name(&"ß".repeat(1000));
        assert_eq!(long, format!("{}… (1488 more bytes)", "ß".repeat(256)));
    }

    #[test]
    fn json_stays_json_of_the_same_text() {
        for text in ["\u{9b}2J\u{7f}", "\u{1b}[0m", "\\u{9b}", "\\\u{9b}", "plain", "\u{202e}\n"] {
            let json = json(&serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            assert!(json.chars().all(|letter| !letter.is_control()), "{json}");
        }
    }
}
