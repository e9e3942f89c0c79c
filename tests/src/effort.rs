//! The amount of work in tests: a choice among similar cases, or all of them.

/// Variable that selects all cases; `cargo xtask test --all` sets it to 1.
const ALL: &str = "LONGSHORE_TEST_ALL";

/// Returns whether tests try every compiler, program and device, rather than a choice among similar
/// ones.
pub fn is_all() -> bool {
    std::env::var_os(ALL).is_some_and(|value| value == "1")
}
