//! Data of the C and C++ libraries that never changes.
//!
//! Code that is not position-independent gets copies of the data that it refers to, while the
//! libraries go on using their own. So a copy is right only for data that never changes. A copy of
//! `std::cout` would be a second stream, and a copy of `environ` the environment of an hour ago.

/// The C streams, which are never replaced; the stack protector's guard value; an empty object.
const NAMES: [&str; 5] = ["__stack_chk_guard", "_ZSt7nothrow", "stderr", "stdin", "stdout"];

/// Prefixes of compiler-generated class data: type information, type names, virtual tables and
/// tables for virtual bases. Types are compared by name, which copies share. The other prefixes are
/// constants of namespace `std`.
const STARTS: [&str; 10] = [
    "_ZTI",
    "_ZTS",
    "_ZTT",
    "_ZTV",
    "_ZNSt10ctype_base",
    "_ZNSt12placeholders",
    "_ZNSt14numeric_limits",
    "_ZNSt21__numeric_limits_base",
    "_ZNSt6chrono3_V2",
    "_ZNSt8ios_base",
];

/// `npos` of strings.
const END: &str = "4nposE";

/// Returns whether data of this name is constant for the life of the process.
pub(crate) fn is_constant(name: &str) -> bool {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    NAMES.contains(&name) || starts(&STARTS) || starts(&["_ZNS"]) && name.ends_with(END)
}
