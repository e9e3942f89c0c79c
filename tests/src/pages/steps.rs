//! The files and commands of a page.

/// A file to write, or a command to enter. The first line of a page has number 1.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    File {
        line: usize,
        path: &'a str,
        contents: String,
    },
    Command {
        line: usize,
        typed: String,
        /// Lines of output. Without any, the output is not compared.
        shown: Vec<&'a str>,
        /// Whether the next command prints the exit status.
        may_fail: bool,
    },
}

impl Step<'_> {
    pub(super) fn line(&self) -> usize {
        match self {
            Step::File { line, .. } | Step::Command { line, .. } => *line,
        }
    }
}

/// Returns whether a page has files or sessions.
pub fn is_followed(page: &str) -> bool {
    !matches!(steps(page).as_deref(), Ok([]))
}

/// Reads a page.
///
/// # Errors
/// A block that does not end, or output without a command, with its line.
pub(super) fn steps(page: &str) -> Result<Vec<Step<'_>>, String> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((opening, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut block = Vec::new();
        loop {
            match lines.next() {
                Some((_, "```")) => break,
                Some(line) => block.push(line),
                None => return Err(format!("{opening}: the block does not end")),
            }
        }
        let words = info.split([',', ' ']);
        let path = words.clone().find_map(|word| word.strip_prefix("file="));
        if let Some(path) = path {
            let contents = block.iter().map(|(_, line)| format!("{line}\n")).collect();
            steps.push(Step::File { line: opening, path, contents });
        } else if words.clone().next() == Some("console") {
            steps.extend(session(&block)?);
        }
    }
    Ok(steps)
}

/// Reads the commands of a session.
fn session<'a>(block: &[(usize, &'a str)]) -> Result<Vec<Step<'a>>, String> {
    let mut commands = Vec::<Step<'a>>::new();
    let mut lines = block.iter().copied();
    while let Some((line, text)) = lines.next() {
        if let Some(first) = text.strip_prefix("$ ") {
            let mut typed = first.to_owned();
            while typed.ends_with('\\') {
                let Some((_, next)) = lines.next() else {
                    return Err(format!("{line}: the command does not end"));
                };
                typed.push('\n');
                typed.push_str(next);
            }
            if typed == "echo $?"
                && let Some(Step::Command { may_fail, .. }) = commands.last_mut()
            {
                *may_fail = true;
            }
            commands.push(Step::Command { line, typed, shown: Vec::new(), may_fail: false });
        } else {
            let Some(Step::Command { shown, .. }) = commands.last_mut() else {
                return Err(format!("{line}: output without a command"));
            };
            shown.push(text);
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_commands_are_found_in_their_order() {
        let page = "Text.\n```rust,no_run file=src/main.rs\nfn main() {}\n```\n```console\n\
                    $ one \\\n    two\nout\n$ echo $?\n1\n```\n```sh\nnot run\n```\n";
        let expected = [
            Step::File { line: 2, path: "src/main.rs", contents: "fn main() {}\n".to_owned() },
            Step::Command {
                line: 6,
                typed: "one \\\n    two".to_owned(),
                shown: vec!["out"],
                may_fail: true,
            },
            Step::Command {
                line: 9,
                typed: "echo $?".to_owned(),
                shown: vec!["1"],
                may_fail: false,
            },
        ];
        assert_eq!(steps(page).unwrap(), expected);
    }

    #[test]
    fn a_page_that_cannot_be_followed_is_refused_with_the_line() {
        assert_eq!(steps("\n```c file=a.c\nint a;\n").unwrap_err(), "2: the block does not end");
        assert_eq!(steps("```console\nout\n```\n").unwrap_err(), "2: output without a command");
        assert_eq!(steps("```console\n$ a \\\n```\n").unwrap_err(), "2: the command does not end");
    }
}
