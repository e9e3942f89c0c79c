use super::*;
use rules::Rule;

/// Returns the rules that a text breaks.
fn broken(file: &str, text: &str) -> Vec<Rule> {
    let kind = file.rsplit('.').next().expect("a file has an extension");
    let findings = check_text(Path::new(file), kind, text).expect("the text can be read");
    let mut rules: Vec<_> = findings.into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

fn broken_by_commit(subject: &str) -> bool {
    let mut findings = Vec::new();
    rules::check_commit(subject, &mut findings);
    assert!(findings.iter().all(|finding| finding.rule == Rule::Commits));
    !findings.is_empty()
}

#[test]
fn documentation_opens_as_its_subject_asks() {
    let function = |opening: &str| {
        broken("a.rs", &format!("/// {opening}\n#[must_use]\npub(crate) unsafe fn f() {{}}"))
    };
    assert_eq!(function("The name of the device."), [Rule::Opening]);
    assert_eq!(function("`None` for an empty file."), [Rule::Opening]);
    assert_eq!(function("Return the name of the device."), [Rule::Opening]);
    assert!(function("Returns the name of the device.").is_empty());
    assert!(function("Queues a launch.").is_empty());
    assert_eq!(function("Queues of the device."), [Rule::Opening]);

    let kind = |opening: &str| broken("a.rs", &format!("/// {opening}\npub struct S;"));
    assert_eq!(kind("Holds the bytes of an image."), [Rule::Opening]);
    assert_eq!(kind("How the bytes are held."), [Rule::Opening]);
    assert!(kind("A queue of work for one device.").is_empty());
    assert!(kind("Bytes of an image.").is_empty());

    let field = |opening: &str| {
        broken("a.rs", &format!("struct S {{\n/// {opening}\npub(crate) f: bool,\n}}"))
    };
    assert_eq!(field("Where the bytes begin."), [Rule::Opening]);
    assert_eq!(field("Names the file."), [Rule::Opening]);
    assert!(field("Offset of the first byte.").is_empty());
    assert!(field("Whether the file is open.").is_empty());

    let constant = |opening: &str| broken("a.rs", &format!("/// {opening}\npub const C: u32 = 1;"));
    assert_eq!(constant("How long a thread spins."), [Rule::Opening]);
    assert!(constant("Longest time of a thread's spinning, in microseconds.").is_empty());
}

#[test]
fn documentation_in_macros_is_read_and_help_is_free_in_its_opening() {
    assert_eq!(broken("a.rs", "m! { /// The name.\nfn f() -> u32; }"), [Rule::Opening]);
    assert_eq!(
        broken("a.rs", "m! { /// The name.\nolName, olNameWithPlace(a: u32) => name; }"),
        [Rule::Opening]
    );
    assert!(
        broken("a.rs", "m! { /// Writes the name.\nolName, olNameWithPlace(a: u32) => name; }")
            .is_empty()
    );
    let help = "#[derive(Subcommand)]\nenum Task {\n/// Runs all tests.\nTest,\n}";
    assert!(broken("a.rs", help).is_empty());
}

#[test]
fn relative_clauses_and_persons_are_found_in_every_kind_of_text() {
    for text in [
        "What the plugin returned is kept.",
        "Those of the plugin are kept.",
        "The thread keeps those of the plugin.",
        "The file is closed by whoever opened it.",
        "The lock wakes somebody.",
        "The result is none.",
        "The table has what the plugin needs.",
    ] {
        assert_eq!(broken("a.rs", &format!("// {text}\n")), [Rule::Nouns], "{text}");
        assert_eq!(broken("a.md", text), [Rule::Nouns], "{text}");
        assert_eq!(broken("a.h", &format!("/* {text} */\n")), [Rule::Nouns], "{text}");
        assert_eq!(broken("a.rs", &format!("fn f() {{ g({text:?}); }}")), [Rule::Nouns], "{text}");
        assert!(
            broken("a.rs", &format!("#[cfg(test)]\nmod tests {{ const T: &str = {text:?}; }}"))
                .is_empty()
        );
    }
    for text in [
        "The error says what the plugin expected.",
        "The table keeps those handles.",
        "Run `who` to list users.",
    ] {
        assert!(broken("a.md", text).is_empty(), "{text}");
    }
}

#[test]
fn the_acting_party_is_named() {
    for text in
        ["The table can be read by anyone.", "Others wait for the lock.", "One calls it twice."]
    {
        assert_eq!(broken("a.md", text), [Rule::Actors], "{text}");
    }
    assert!(broken("a.md", "Other threads wait for the lock.").is_empty());
}

#[test]
fn pronouns_have_nouns_and_numbers_have_units() {
    for text in [
        "It is large.",
        "They are large.",
        "This is large.",
        "The table has 64.",
        "The limit of 64 is fixed.",
    ] {
        assert_eq!(broken("a.md", text), [Rule::References], "{text}");
    }
    for text in [
        "This table is large.",
        "The table is large. It moves.",
        "The table has 64 rows.",
        "The compilers are clang 14, 16 and 19.",
        "The symbol has section 7.",
        "The file is in version 4 to 6 of the format.",
    ] {
        assert!(broken("a.md", text).is_empty(), "{text}");
    }
}

#[test]
fn terms_and_names_are_of_the_field() {
    assert_eq!(broken("a.md", "The host is told of the error."), [Rule::Terms]);
    assert_eq!(broken("a.md", "The host adopts the memory."), [Rule::Terms]);
    assert_eq!(broken("a.rs", "fn of(a: u32) {}"), [Rule::Terms]);
    assert_eq!(broken("a.rs", "fn of_bytes(a: u32) {}"), [Rule::Terms]);
    assert_eq!(broken("a.rs", "struct Patience;"), [Rule::Terms]);
    assert_eq!(broken("a.rs", "fn what_is_lost_is_an_error() {}"), [Rule::Nouns]);
    assert_eq!(broken("a.rs", "fn a_lost_file_is_told_to_the_user() {}"), [Rule::Terms]);
    assert!(broken("a.rs", "fn a_lost_file_is_an_error() {}").is_empty());
    assert!(broken("a.rs", "fn offset() {}\nstruct AdaptiveSpin;").is_empty());
    let header = "| term | meaning | elsewhere |\n| --- | --- | --- |\n";
    assert!(
        broken(
            "docs/glossary.md",
            &format!("{header}| queue | A list of commands. | CUDA: stream |\n")
        )
        .is_empty()
    );
    assert_eq!(
        broken("docs/glossary.md", &format!("{header}| queue | A list of commands. | |\n")),
        [Rule::Terms]
    );
}

#[test]
fn lines_and_sentences_are_short() {
    let long = "word ".repeat(31);
    assert_eq!(
        broken("a.md", &long.replacen(" word word word", "\nword word word", 3)),
        [Rule::Length]
    );
    assert!(broken("a.md", &"word ".repeat(15)).is_empty());
    let wide = format!("{}.", "longer-word ".repeat(9));
    assert_eq!(broken("a.md", &wide), [Rule::Length]);
    assert_eq!(broken("a.rs", &format!("// {wide}")), [Rule::Length]);
    assert!(broken("a.md", &format!("```\n{wide}\n```")).is_empty());
    assert!(broken("a.md", &format!("[link]({})", "a".repeat(120))).is_empty());
    assert!(broken("a.md", &format!("- A name: `{}`", "a | ".repeat(30))).is_empty());
}

#[test]
fn commit_subjects_are_imperative_and_short() {
    for subject in
        ["Reject plugins that are world-writable", "Pass errors on", "Bring CI to two cores"]
    {
        assert!(!broken_by_commit(subject), "{subject}");
    }
    let long = format!("Reject {}", "plugins ".repeat(10));
    for subject in [
        "What a review found",
        "Rejected plugins",
        "Rejects plugins",
        "The plugins",
        "fix: plugins",
        &long,
    ] {
        assert!(broken_by_commit(subject), "{subject}");
    }
}

#[test]
fn lines_of_findings_are_lines_of_the_file() {
    let text = "//! A crate.\n\n/// Returns a name.\n///\n/// # Errors\n/// The file\n/// is missing. Those\n/// files too.\nfn f() {}\n";
    let findings = check_text(Path::new("a.rs"), "rs", text).expect("the text is Rust");
    assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [7]);
    assert_eq!(broken("a.rs", "fn f() {\n    g(); // Those of the file.\n}"), [Rule::Nouns]);
}
