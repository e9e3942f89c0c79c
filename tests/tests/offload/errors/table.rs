//! The table of `docs/c-api-errors.md`, and the declarations of `capi/src/functions.rs`.

use longshore_capi::{OL_ERRC_SUCCESS, ol_errc_t};
use longshore_tests::world::root;
use std::ffi::CStr;
use std::fs;

/// The way of making calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    /// The function's twin, with a location in the program.
    Twin,
    /// The function with `OFFLOAD_DISABLE_VALIDATION`.
    Unchecked,
    /// The function with `OFFLOAD_TRACE`.
    Traced,
}

impl Mode {
    pub(crate) const ALL: [Mode; 4] = [Mode::Plain, Mode::Twin, Mode::Unchecked, Mode::Traced];
}

/// A row: a function, the invalid argument, and the result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) function: String,
    /// The argument; `None` for a row about several arguments or none.
    pub(crate) argument: Option<String>,
    pub(crate) made: String,
    pub(crate) result: ol_errc_t,
    /// Whether another device may return a different code.
    is_of_cpu: bool,
}

impl Row {
    /// Returns whether the row is about objects of two platforms.
    pub(crate) fn is_of_platforms(&self) -> bool {
        self.made.contains("of another platform")
    }

    /// Returns whether the row is also about a Vulkan device, with one device or several.
    pub(crate) fn is_of_vulkan(&self) -> bool {
        let is_of_two =
            ["of another device", "another one"].iter().any(|two| self.made.contains(two));
        !self.is_of_cpu && !is_of_two && self.clang_row().is_none()
    }

    /// Returns the row without the end of its text, and the kernel from clang, if the row is about
    /// one.
    pub(crate) fn clang_row(&self) -> Option<(Row, &'static CStr)> {
        OF_CLANG.into_iter().find_map(|(end, kernel)| {
            let made = self.made.strip_suffix(end)?.to_owned();
            Some((Row { made, ..self.clone() }, kernel))
        })
    }
}

/// Ends of texts in rows about kernels that only clang can compile, with the kernels.
const OF_CLANG: [(&str, &CStr); 2] = [
    (", for a work-group kernel", c"meet"),
    (", for a kernel with a barrier of the grid", c"meet_all"),
];

/// Returns the rows of the documentation page.
pub(crate) fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/c-api-errors.md")).unwrap();
    page.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches(['|', ' ']).split(" | ").map(str::trim).collect();
    let [function, argument, made, result] = cells[..] else {
        panic!("not four cells: {line}");
    };
    let (result, is_of_cpu) = match result.strip_suffix(" on the CPU") {
        Some(result) => (result, true),
        None => (result, false),
    };
    let name = |cell: &str| cell.trim_matches('`').to_owned();
    let known = ol_errc_t::ALL.iter().find(|(known, _)| *known == name(result));
    let result = match (result, known) {
        ("success", _) => OL_ERRC_SUCCESS,
        (_, Some((_, code))) => *code,
        _ => panic!("'{result}' is no result: {line}"),
    };
    let argument = (argument != "—").then(|| name(argument));
    Row { function: name(function), argument, made: made.to_owned(), result, is_of_cpu }
}

/// A declared function.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// Names and types of the parameters.
    pub(crate) parameters: Vec<(String, String)>,
}

/// Returns the functions that `capi` declares.
pub(crate) fn declared() -> Vec<Declared> {
    let text = fs::read_to_string(root().join("capi/src/functions.rs")).unwrap();
    let (_, text) = text.split_once("functions! {").unwrap();
    let heads = text.match_indices("\n    ol").map(|(at, _)| &text[at..]);
    heads
        .map(|head| {
            let (names, rest) = head.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            let parameters = parameters.split(',').filter_map(|one| one.split_once(':'));
            let (name, _) = names.split_once(',').unwrap();
            Declared {
                name: name.trim().to_owned(),
                parameters: parameters
                    .map(|(name, kind)| (name.trim().to_owned(), kind.trim().to_owned()))
                    .collect(),
            }
        })
        .collect()
}

/// The class of an argument, which determines how it can be invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A handle of this type.
    Handle(&'static str),
    Pointer,
    Callback,
    Enumeration,
    Flags,
    Size,
}

const HANDLES: [&str; 6] = [
    "ol_platform_handle_t",
    "ol_device_handle_t",
    "ol_queue_handle_t",
    "ol_event_handle_t",
    "ol_program_handle_t",
    "ol_symbol_handle_t",
];

impl Class {
    /// Returns the class of a declared type.
    pub(crate) fn from_kind(kind: &str) -> Class {
        if let Some(handle) = HANDLES.into_iter().find(|handle| *handle == kind) {
            return Class::Handle(handle);
        }
        match kind {
            _ if kind.starts_with('*') => Class::Pointer,
            _ if kind.ends_with("_cb_t") => Class::Callback,
            "ol_memory_register_flags_t" | "ol_mem_migration_flags_t" | "ol_event_flags_t" => {
                Class::Flags
            }
            "u32" | "usize" => Class::Size,
            _ => Class::Enumeration,
        }
    }

    /// Returns all ways in which an argument of this class can be invalid.
    pub(crate) fn ways(self) -> &'static [&'static str] {
        match self {
            Class::Handle("ol_platform_handle_t" | "ol_device_handle_t") => {
                &["null", "another kind of handle", "no handle", "of an earlier olInit"]
            }
            Class::Handle(_) => &[
                "null",
                "another kind of handle",
                "no handle",
                "of an earlier olInit",
                "destroyed",
            ],
            Class::Pointer | Class::Callback => &["null"],
            Class::Enumeration => &["no enumerator"],
            Class::Flags => &["an unknown bit"],
            Class::Size => &["0"],
        }
    }
}
