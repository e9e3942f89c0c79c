//! Data of the C and C++ libraries that never changes.
//!
//! Code that is not position-independent gets copies of the data that it refers to. The libraries go on
//! using their own, so a copy is right only for what never changes: a copy of `std::cout` would be a
//! second stream, and one of `environ` the environment of an hour ago.

/// Streams of C, which nobody replaces; the number by which functions check their stacks; an empty
/// object; the length that stands for the end of a string.
const NAMES: [&str; 5] = ["__stack_chk_guard", "_ZSt7nothrow", "stderr", "stdin", "stdout"];

/// What the compiler makes of classes: what `typeid` gives, its name, virtual functions, and those
/// while virtual bases are constructed. Types are compared by their names, which copies share.
/// Behind these are the constants of namespace `std`.
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

/// Whether data of this name is the same as long as the process runs.
pub(crate) fn is_constant(name: &str) -> bool {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    NAMES.contains(&name) || starts(&STARTS) || starts(&["_ZNS"]) && name.ends_with(END)
}
