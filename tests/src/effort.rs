//! How much tests try: a choice of what is alike, or all of it.

/// The variable by which all is tried; `cargo xtask test --all` sets it to 1.
const ALL: &str = "LONGSHORE_TEST_ALL";

/// Whether tests try every compiler, program and device, and not a choice of those that are alike.
pub fn is_all() -> bool {
    std::env::var_os(ALL).is_some_and(|value| value == "1")
}
