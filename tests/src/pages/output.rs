//! Comparison of a command's output with the lines on the page.

/// The mark for any text in a line, or, alone in a line, for any number of lines.
const ANYTHING: &str = "...";

/// Returns whether the output matches the lines on the page.
pub(super) fn is_as_shown(shown: &[&str], output: &[&str]) -> bool {
    match (shown.split_first(), output.split_first()) {
        (None, _) => output.is_empty(),
        (Some((first, rest)), _) if first.trim() == ANYTHING => {
            (0..=output.len()).any(|skipped| is_as_shown(rest, &output[skipped..]))
        }
        (Some((first, rest)), Some((line, others))) => {
            is_line_as_shown(first, line) && is_as_shown(rest, others)
        }
        (Some(_), None) => false,
    }
}

fn is_line_as_shown(shown: &str, line: &str) -> bool {
    let (shown, line) = (with_single_blanks(shown), with_single_blanks(line));
    let Some((start, rest)) = shown.split_once(ANYTHING) else { return shown == line };
    let Some(mut line) = line.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split(ANYTHING).collect();
    let end = parts.pop().expect("a split has a part");
    for part in parts {
        let Some((_, behind)) = line.split_once(part) else { return false };
        line = behind;
    }
    line.ends_with(end)
}

fn with_single_blanks(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_text_and_any_lines() {
        let output = ["DEVICE  NAME", "host:0  CPU of 2 cores", "", "done in 3 ms"];
        let shown: [&[&str]; 4] = [
            &["DEVICE NAME", "host:0 ...", "...", "done in ... ms"],
            &["...", "done in ..."],
            &["..."],
            &["DEVICE ...", "...of ... cores", "", "done in 3 ms"],
        ];
        for shown in shown {
            assert!(is_as_shown(shown, &output), "{shown:?}");
        }
        let different: [&[&str]; 4] =
            [&[], &["DEVICE NAME"], &["...", "done in ... s"], &["...", "failed", "..."]];
        for shown in different {
            assert!(!is_as_shown(shown, &output), "{shown:?}");
        }
    }
}
