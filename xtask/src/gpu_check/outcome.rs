//! Outcomes read from the output of suites.

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The numbers of passed, failed and skipped tests.
    Counted(Counts),
    /// Printed figures, and the reason why further figures are missing.
    Figures(String, Option<String>),
    /// The reason why the step ended without a result.
    Failed(String),
    /// The reason why the step did not run.
    NotRun(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// Failed tests with their messages.
    pub(super) failures: Vec<String>,
    /// Skipped tests with reasons, also of passed tests that could not try their subject.
    pub(super) skips: Vec<String>,
    /// Measurements, in the words of the tests.
    pub(super) measures: Vec<String>,
}

/// Beginning of a line with a measurement of a test.
const MEASURED: &str = "measured: ";

/// Reads the output of `longshore check`.
pub(super) fn conformance_outcome(text: &str, succeeded: bool) -> Outcome {
    let (mut counts, mut group, mut is_counted) = (Counts::default(), "", false);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(skip) = trimmed.strip_prefix("- ") {
            counts.skips.push(format!("{group}: {skip}"));
        } else if let Some(failure) = trimmed.strip_prefix("✗ ") {
            let said = lines.peek().map(|said| said.trim()).unwrap_or_default();
            counts.failures.push(format!("{group}: {failure}: {said}"));
        } else if let Some(numbers) = numbers(trimmed, ["passed", "failed", "skipped"]) {
            add(&mut counts, numbers);
            is_counted = true;
        } else if line.starts_with("  ") && !line.starts_with("   ") {
            group = trimmed;
        }
    }
    counted(counts, is_counted, succeeded, text)
}

/// Reads the output of `cargo test` with the output of passed tests.
pub(super) fn tests_outcome(text: &str, succeeded: bool) -> Outcome {
    let (mut counts, mut is_counted) = (Counts::default(), false);
    let (mut test, mut failures) = ("", None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("---- ") {
            test = name.trim_end_matches(" ----").trim_end_matches(" stdout");
        } else if line == "failures:" {
            // cargo prints the output of failed tests first, then a list of their names.
            failures = Some(Vec::new());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let result = result.split_once(". ").map_or(result, |(_, numbers)| numbers);
            if let Some(numbers) = numbers(result, ["passed", "failed", "ignored"]) {
                add(&mut counts, numbers);
                is_counted = true;
            }
            counts.failures.extend(failures.take().into_iter().flatten());
            test = "";
        } else if let (Some(failures), Some(name)) = (&mut failures, line.strip_prefix("    ")) {
            failures.push(name.to_owned());
        } else {
            let (speaker, said) = spoken(line, test);
            // Output of a test without capture follows its name, until its result.
            let is_result = matches!(said, "ok" | "FAILED") || said.starts_with("ignored");
            test = if is_result { "" } else { speaker };
            // Many tests may report the same missing program.
            let skip = skip(line, speaker, said).filter(|skip| !counts.skips.contains(skip));
            counts.skips.extend(skip);
            counts
                .measures
                .extend(said.strip_prefix(MEASURED).map(|said| with_test_name(speaker, said)));
        }
    }
    if is_counted && succeeded && counts.passed + counts.skipped == 0 {
        return Outcome::NotRun(match counts.skips.is_empty() {
            true => "there is no such test".to_owned(),
            false => counts.skips.join("; "),
        });
    }
    counted(counts, is_counted, succeeded, text)
}

/// Splits a line into a test's name and its message; `test` is the name for a line without one.
fn spoken<'a>(line: &'a str, test: &'a str) -> (&'a str, &'a str) {
    let named = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
    let (test, said) = named.unwrap_or((test, line));
    (test.trim(), said.trim())
}

fn with_test_name(test: &str, said: &str) -> String {
    if test.is_empty() { said.to_owned() } else { format!("{test}: {said}") }
}

/// Returns the message of a test that was skipped or tried nothing; `None` for other lines.
fn skip(line: &str, test: &str, said: &str) -> Option<String> {
    let is_skip = line.starts_with("test ") && said.starts_with("ignored")
        || ["skipped", "nothing was tried", "nothing is tried", "not tried"]
            .iter()
            .any(|words| said.contains(words));
    is_skip.then(|| with_test_name(test, said))
}

/// Reads the report of NVIDIA's checker, which contains the report of the suite.
pub(super) fn sanitizer_outcome(text: &str, succeeded: bool) -> Outcome {
    const CHECKER_PREFIX: &str = "=========";
    let (checker, suite): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with(CHECKER_PREFIX));
    let said: Vec<_> = checker.iter().map(|line| line[CHECKER_PREFIX.len()..].trim()).collect();
    let mut counts = said.iter().filter_map(|line| line.strip_prefix("ERROR SUMMARY: "));
    match counts.find(|count| !count.starts_with("0 errors")) {
        Some(count) => {
            let first = said.iter().find(|line| !line.is_empty() && **line != "COMPUTE-SANITIZER");
            Outcome::Failed(format!("{count}, the first: {}", first.expect("that was one")))
        }
        None if said.iter().any(|line| line.starts_with("ERROR SUMMARY")) => {
            conformance_outcome(&suite.join("\n"), succeeded)
        }
        None => {
            let last = last_line(text);
            Outcome::Failed(format!("the checker ended without a result, after: {last}"))
        }
    }
}

/// Reads the figures of a benchmark.
pub(super) fn benchmark_outcome(text: &str, succeeded: bool) -> Outcome {
    let figures = text.trim_end().to_owned();
    match (succeeded, figures.trim().is_empty()) {
        (true, false) => Outcome::Figures(figures, None),
        (true, true) => Outcome::NotRun("it printed nothing".to_owned()),
        (false, false) => Outcome::Figures(figures, Some(last_line(text))),
        (false, true) => Outcome::Failed(last_line(text)),
    }
}

/// Returns the outcome for these counts. A failed suite without a counted failure was cut short.
fn counted(counts: Counts, is_counted: bool, succeeded: bool, text: &str) -> Outcome {
    match is_counted {
        true if succeeded || counts.failed > 0 => Outcome::Counted(counts),
        true => {
            Outcome::Failed(format!("a part did not run, the others: {} passed", counts.passed))
        }
        false => Outcome::Failed(format!("it ended without a result, after: {}", last_line(text))),
    }
}

fn add(counts: &mut Counts, [passed, failed, skipped]: [usize; 3]) {
    counts.passed += passed;
    counts.failed += failed;
    counts.skipped += skipped;
}

/// Returns the numbers in "12 passed, 0 failed, 3 skipped", also between semicolons. Ignores the
/// rest.
fn numbers(text: &str, words: [&str; 3]) -> Option<[usize; 3]> {
    let mut parts = text.split([',', ';']).map(str::trim);
    let mut numbers = [0; 3];
    for (number, word) in numbers.iter_mut().zip(words) {
        let (digits, found) = parts.next()?.split_once(' ')?;
        *number = digits.parse().ok().filter(|_| found == word)?;
    }
    Some(numbers)
}

fn last_line(text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("nothing printed").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFORMANCE: &str = "vulkan:0 (A GPU)
  info
    ✓ a device has a name
    - memory is told (skipped: the device does not say it)
  queues
    ✗ work is done in order [P-30]
        7 before 6
  41 passed, 1 failed, 1 skipped

";

    #[test]
    fn a_conformance_report_has_counts_skips_with_reasons_and_failures() {
        let expected = Counts {
            passed: 41,
            failed: 1,
            skipped: 1,
            failures: vec!["queues: work is done in order [P-30]: 7 before 6".to_owned()],
            skips: vec!["info: memory is told (skipped: the device does not say it)".to_owned()],
            measures: Vec::new(),
        };
        assert_eq!(conformance_outcome(CONFORMANCE, false), Outcome::Counted(expected));
    }

    #[test]
    fn a_suite_that_is_cut_short_has_failed() {
        for cut in ["", "vulkan:0 (A GPU)\n  info\n    ✓ a device has a name\n"] {
            for succeeded in [false, true] {
                assert!(matches!(conformance_outcome(cut, succeeded), Outcome::Failed(_)), "{cut}");
                assert!(matches!(tests_outcome(cut, succeeded), Outcome::Failed(_)), "{cut}");
            }
        }
        let one = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert!(
            matches!(tests_outcome(one, false), Outcome::Failed(_)),
            "the next did not compile"
        );
        let none = "  3 passed, 0 failed, 0 skipped\n";
        assert!(matches!(conformance_outcome(none, false), Outcome::Failed(_)));
    }

    const TESTS: &str = "
running 3 tests
test a::works ... ok
test b   ... ignored, needs two GPUs
test c ... FAILED

glslang is not installed: nothing is tried

successes:

---- a::works stdout ----
measured: 7 rounds
glslangValidator is not installed; nothing was tried
elsewhere
not tried: clang-19 is not installed
not tried: clang-19 is not installed

failures:

---- c stdout ----
    what it said

failures:
    c

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.1s
running 1 test
test d ... measured: 8 rounds
measured: 3 MiB
ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
";

    #[test]
    fn tests_are_added_up_and_empty_ones_are_reported() {
        let expected = Counts {
            passed: 2,
            failed: 1,
            skipped: 1,
            failures: vec!["c".to_owned()],
            skips: vec![
                "b: ignored, needs two GPUs".to_owned(),
                "glslang is not installed: nothing is tried".to_owned(),
                "a::works: glslangValidator is not installed; nothing was tried".to_owned(),
                "a::works: not tried: clang-19 is not installed".to_owned(),
            ],
            measures: ["a::works: 7 rounds", "d: 8 rounds", "d: 3 MiB"].map(str::to_owned).into(),
        };
        assert_eq!(tests_outcome(TESTS, false), Outcome::Counted(expected));
    }

    #[test]
    fn no_test_is_not_a_success() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n";
        assert!(matches!(tests_outcome(none, true), Outcome::NotRun(_)));
        let why = "nothing is tried: glslang is not installed";
        let said = format!("{why}\n{none}");
        assert_eq!(tests_outcome(&said, true), Outcome::NotRun(why.to_owned()));
    }

    #[test]
    fn findings_of_the_checker_are_a_failure_whatever_the_suites_result() {
        let found = |errors: &str| {
            let text = CONFORMANCE.replace("1 failed", "0 failed");
            format!("========= COMPUTE-SANITIZER\n{text}========= ERROR SUMMARY: {errors}\n")
        };
        let Outcome::Counted(counts) = sanitizer_outcome(&found("0 errors"), true) else {
            panic!()
        };
        assert_eq!((counts.passed, counts.skipped), (41, 1));
        let invalid = "========= Invalid __global__ write of size 4 bytes\n";
        let text = found("2 errors").replacen('\n', &format!("\n{invalid}"), 1);
        assert_eq!(
            sanitizer_outcome(&text, false),
            Outcome::Failed(
                "2 errors, the first: Invalid __global__ write of size 4 bytes".to_owned()
            )
        );
        for text in [CONFORMANCE, "========= COMPUTE-SANITIZER\n========= Error: no process\n"] {
            assert!(matches!(sanitizer_outcome(text, true), Outcome::Failed(_)), "{text}");
        }
    }

    #[test]
    fn a_benchmark_has_figures_or_failed() {
        assert_eq!(
            benchmark_outcome("a 1 ns\n", true),
            Outcome::Figures("a 1 ns".to_owned(), None)
        );
        assert_eq!(
            benchmark_outcome("a\nno device\n\n", false),
            Outcome::Figures("a\nno device".to_owned(), Some("no device".to_owned()))
        );
        assert!(matches!(benchmark_outcome("", false), Outcome::Failed(_)));
        assert!(matches!(benchmark_outcome(" ", true), Outcome::NotRun(_)));
    }
}
