//! Messages of a clang that crashed, without the stack dump meant for its authors.

/// Returns the text without the stack and the paths of files for a bug report. The compiler's
/// message about the cause stays.
pub(crate) fn without_stack(text: &str) -> String {
    if !text.contains("PLEASE submit a bug report") && !text.contains("Stack dump:") {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.lines().filter(|line| !is_for_authors(line)).collect();
    kept.join("\n")
}

fn is_for_authors(line: &str) -> bool {
    const BEGINNINGS: [&str; 3] =
        ["PLEASE submit a bug report", "PLEASE ATTACH THE FOLLOWING", "Stack dump"];
    const PARTS: [&str; 2] = ["frontend command failed", "note: diagnostic msg:"];
    let line = line.trim_start();
    let is_numbered = |number: &str, next: &str| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !next.is_empty()
    };
    // Lines such as "1.\t<eof> parser at end of file" and
    // "#12 0x00007f83db595353 (/lib/libLLVM-14.so.1+0x1595353)".
    let is_activity =
        line.split_once(".\t").is_some_and(|(number, rest)| is_numbered(number, rest));
    let frame = line.strip_prefix('#').and_then(|rest| rest.split_once(" 0x"));
    is_activity
        || frame.is_some_and(|(number, rest)| is_numbered(number.trim(), rest))
        || line == "********************"
        || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
        || PARTS.iter().any(|part| line.contains(part))
}

#[cfg(test)]
mod tests {
    use super::without_stack;

    #[test]
    fn the_cause_of_a_crash_is_left() {
        let text = "k.c:3:1: warning: it is odd\n 3.\n\
                    fatal error: error in backend: Undefined external symbol \"expf\"\n\
                    PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/\n\
                    Stack dump:\n0.\tProgram arguments: clang-14\n1.\t<eof> parser at end of file\n \
                    #0 0x00007f83daea5291 llvm::sys::PrintStackTrace (/lib/libLLVM-14.so.1+0xea5291)\n\
                    #10 0x00007f83db595353 (/lib/libLLVM-14.so.1+0x1595353)\n\
                    clang: error: clang frontend command failed with exit code 70 (use -v to see it)";
        let expected = "k.c:3:1: warning: it is odd\n 3.\n\
                        fatal error: error in backend: Undefined external symbol \"expf\"";
        assert_eq!(without_stack(text), expected);
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        let text = "#1 0x12 is no comment\n1.\tnor is this\n";
        assert_eq!(without_stack(text), text);
    }
}
