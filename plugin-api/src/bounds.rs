//! Bounds of a plugin's answers.
//!
//! An answer beyond its bound is an error of the call, with the code `BackendFailure`, and a
//! [breach](Error::is_breach). Its message names the plugin, the function and field of the answer,
//! the value, and the bound. The host uses no part of such an answer, and allocates no memory for
//! it. The bounds hold for the tables of a plugin ([`remote`](crate::remote)) and for the messages
//! of a plugin in another process alike. `docs/plugin-interface.md` lists them from P-70 on.

pub(crate) mod limits;
#[cfg(feature = "serde")]
pub(crate) mod received;

pub use limits::*;
#[cfg(feature = "serde")]
pub use received::list;

use crate::abi;
use crate::description::Description;
use crate::error::{Error, ErrorCode, Result};
use crate::image::CodeTarget;
use crate::info::{DeviceInfo, InfoValue};
use crate::request::{GlobalAddress, KernelAttributes, ProfileSection, SymbolKind};
use std::fmt::Display;

/// Creates the error for an answer beyond its bound: "plugin 'toy': longshore.platform,
/// device_count: 4294967295 devices, expected at most 1024".
#[cold]
pub fn breach(
    plugin: &str,
    place: impl Display,
    found: impl Display,
    expected: impl Display,
) -> Error {
    let message = format!("plugin '{plugin}': {place}: {found}, expected {expected}");
    Error::new(ErrorCode::BackendFailure, message).into_breach()
}

/// Checks a count against its bound.
///
/// # Errors
/// A breach above `most`.
pub fn at_most(plugin: &str, place: impl Display, found: u64, unit: &str, most: u64) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    Err(breach(plugin, place, format_args!("{found} {unit}"), format_args!("at most {most}")))
}

/// Checks the length of a list. The reader of a list from another process keeps at most one element
/// above the bound, so the error does not name the length.
///
/// # Errors
/// A breach above `most`.
pub fn few(plugin: &str, place: impl Display, found: usize, unit: &str, most: usize) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    let found = format!("more than {most} {unit}");
    Err(breach(plugin, place, found, format_args!("at most {most}")))
}

/// Checks the length of a text or of other bytes.
///
/// # Errors
/// A breach above `most`.
pub fn text(plugin: &str, place: impl Display, text: impl AsRef<[u8]>, most: usize) -> Result<()> {
    at_most(plugin, place, text.as_ref().len() as u64, "bytes", most as u64)
}

/// Checks the length of an answer to a query.
///
/// # Errors
/// A breach above [`REPLY_BYTES`].
pub fn reply(plugin: &str, place: impl Display, reply: impl AsRef<[u8]>) -> Result<()> {
    text(plugin, place, reply, REPLY_BYTES)
}

/// Checks the answer to a query about a device.
///
/// # Errors
/// A breach above [`REPLY_BYTES`], `BackendFailure` for a value of another type than the query's.
pub fn value(
    plugin: &str,
    place: impl Display,
    query: DeviceInfo,
    value: &InfoValue,
) -> Result<()> {
    let bytes = value.to_bytes();
    reply(plugin, place, &bytes)?;
    InfoValue::from_bytes(query.value_type(), bytes).map(drop)
}

/// Checks the description of a plugin.
///
/// # Errors
/// A breach for a text above [`DESCRIPTION_BYTES`].
pub fn description(plugin: &str, description: &Description<String>) -> Result<()> {
    let Description { backend, name, version, vendor, image_formats, driver, unloadable: _ } =
        description;
    let texts = [
        ("backend", backend),
        ("name", name),
        ("version", version),
        ("vendor", vendor),
        ("image_formats", image_formats),
        ("driver", driver),
    ];
    texts.into_iter().try_for_each(|(field, value)| {
        text(plugin, format_args!("describe, {field}"), value, DESCRIPTION_BYTES)
    })
}

/// Checks the number of a platform's devices.
///
/// # Errors
/// A breach above [`DEVICES`].
pub fn devices(plugin: &str, count: u32) -> Result<()> {
    let place = "longshore.platform, device_count";
    at_most(plugin, place, count.into(), "devices", DEVICES.into())
}

/// Checks a range of a device's memory.
///
/// # Errors
/// A breach for a range that reaches beyond the last address.
pub fn range(plugin: &str, place: impl Display, address: u64, bytes: u64) -> Result<()> {
    if address.checked_add(bytes).is_some() {
        return Ok(());
    }
    let found = format!("{bytes} bytes at {address:#x}");
    Err(breach(plugin, place, found, "an end within 64 bits"))
}

/// Checks the address of an allocation of at least 1 byte. An `alignment` of 0 permits any address.
///
/// # Errors
/// A breach for address 0, a range that reaches beyond the last address, and an address that is not
/// a multiple of `alignment`.
pub fn allocation(
    plugin: &str,
    place: impl Display,
    address: u64,
    bytes: u64,
    alignment: u64,
) -> Result<()> {
    if address == 0 {
        return Err(breach(plugin, place, "address 0", "a nonzero address"));
    }
    range(plugin, &place, address, bytes)?;
    if alignment == 0 || address % alignment == 0 {
        return Ok(());
    }
    let expected = format!("a multiple of {alignment}");
    Err(breach(plugin, place, format_args!("address {address:#x}"), expected))
}

/// Checks a global variable.
///
/// # Errors
/// A breach above [`MEMORY_BYTES`] and for a range that reaches beyond the last address.
pub fn global(plugin: &str, name: &str, global: &GlobalAddress) -> Result<()> {
    let place = format!("longshore.module, global '{name}'");
    at_most(plugin, &place, global.bytes, "bytes", MEMORY_BYTES)?;
    range(plugin, &place, global.address, global.bytes)
}

/// Checks a kernel.
///
/// # Errors
/// A breach for more than [`ARGUMENTS`], [`ARGUMENT_BYTES`], [`DECLARATION_BYTES`] or
/// [`MEMORY_BYTES`], and for code that reaches beyond the last address.
pub fn kernel(plugin: &str, name: &str, kernel: &KernelAttributes) -> Result<()> {
    let place = |field: &str| format!("longshore.module, kernel '{name}', {field}");
    let sizes = kernel.argument_sizes.as_deref().unwrap_or_default();
    for count in [sizes.len(), kernel.argument_types.len()] {
        if count > ARGUMENTS {
            few(plugin, place("argument_count"), count, "arguments", ARGUMENTS)?;
        }
    }
    if let Some(index) = sizes.iter().position(|bytes| *bytes > ARGUMENT_BYTES) {
        let place = place(&format!("size of argument {index}"));
        at_most(plugin, place, sizes[index].into(), "bytes", ARGUMENT_BYTES.into())?;
    }
    let declaration = kernel.declaration.len() as u64;
    if declaration > DECLARATION_BYTES as u64 {
        at_most(plugin, place("declaration"), declaration, "bytes", DECLARATION_BYTES as u64)?;
    }
    for (field, bytes) in [
        ("code_bytes", kernel.code_bytes),
        ("static_shared_bytes", kernel.static_shared_bytes),
        ("private_bytes", kernel.private_bytes),
    ] {
        if bytes > MEMORY_BYTES {
            at_most(plugin, place(field), bytes, "bytes", MEMORY_BYTES)?;
        }
    }
    range(
        plugin,
        format_args!("longshore.module, kernel '{name}', address"),
        kernel.address,
        kernel.code_bytes,
    )
}

/// Checks the number of a kernel's arguments.
pub(crate) fn argument_count(plugin: &str, name: &str, count: usize) -> Result<()> {
    let place = format!("longshore.module, kernel '{name}', argument_count");
    at_most(plugin, place, count as u64, "arguments", ARGUMENTS as u64)
}

/// Checks the optimal group size of a kernel.
///
/// # Errors
/// A breach for 0.
pub fn group_items(plugin: &str, items: u32) -> Result<()> {
    if items > 0 {
        return Ok(());
    }
    let place = "longshore.occupancy, optimal_group_items";
    Err(breach(plugin, place, "0 items", "at least 1"))
}

/// Checks the target of a device's code.
///
/// # Errors
/// A breach for a text of more than [`REPLY_BYTES`], for one with another character than LLVM's
/// names have, and for an empty triple.
pub fn code_target(plugin: &str, target: &CodeTarget) -> Result<()> {
    const ALLOWED: &str = "letters, digits and .,_+-";
    let place = "longshore.code_target, code_target";
    let parts = [
        ("triple", &target.triple),
        ("processor", &target.processor),
        ("features", &target.features),
    ];
    for (name, part) in parts {
        let place = format!("{place}, {name}");
        at_most(plugin, &place, part.len() as u64, "bytes", REPLY_BYTES as u64)?;
        let is_foreign =
            |letter: char| !letter.is_ascii_alphanumeric() && !".,_+-".contains(letter);
        if let Some(letter) = part.chars().find(|letter| is_foreign(*letter)) {
            return Err(breach(plugin, place, format_args!("{letter:?}"), ALLOWED));
        }
    }
    match target.triple.is_empty() {
        true => Err(breach(plugin, format_args!("{place}, triple"), "no text", "a triple")),
        false => Ok(()),
    }
}

/// Checks the symbols of a module.
///
/// # Errors
/// A breach for more than [`SYMBOLS`], [`SYMBOL_BYTES`] or [`SYMBOLS_BYTES`].
pub fn symbols(plugin: &str, symbols: &[(String, SymbolKind)]) -> Result<()> {
    let place = "longshore.module, symbols";
    few(plugin, place, symbols.len(), "symbols", SYMBOLS)?;
    let lengths = symbols.iter().map(|(name, _)| name.len() as u64);
    let longest = lengths.clone().max().unwrap_or_default();
    at_most(plugin, format_args!("{place}, name"), longest, "bytes", SYMBOL_BYTES as u64)?;
    at_most(
        plugin,
        format_args!("{place}, all names"),
        lengths.sum(),
        "bytes",
        SYMBOLS_BYTES as u64,
    )
}

/// Checks the profile sections of a module.
///
/// # Errors
/// A breach for more than [`PROFILE_SECTIONS`] or [`PROFILE_BYTES`], and for contents that reach
/// beyond the last address.
pub fn sections(plugin: &str, sections: &[ProfileSection]) -> Result<()> {
    let place = "longshore.instrumentation, profile";
    few(plugin, place, sections.len(), "sections", PROFILE_SECTIONS)?;
    let bytes = sections.iter().map(|section| section.contents.len() as u64).sum();
    let all = format!("{place}, all contents");
    at_most(plugin, all, bytes, "bytes", PROFILE_BYTES as u64)?;
    let mut sections = sections.iter();
    sections.try_for_each(|one| section(plugin, one.address, one.contents.len() as u64))
}

/// Checks a profile section.
///
/// # Errors
/// A breach for contents that reach beyond the last address.
pub fn section(plugin: &str, address: u64, bytes: u64) -> Result<()> {
    range(plugin, "longshore.instrumentation, profile, section", address, bytes)
}

/// Copies a text of a plugin. Bytes that are not UTF-8 become replacement characters.
///
/// # Errors
/// A breach for more than `most` bytes, which the function does not read, and for a null pointer
/// with a length other than 0.
///
/// # Safety
/// Unless it is null, empty or longer than `most` bytes, `text` is readable as its comment says.
pub unsafe fn copy_text(
    plugin: &str,
    place: impl Display,
    text: abi::Text,
    most: usize,
) -> Result<String> {
    let bytes = abi::Bytes { data: text.data, bytes: text.bytes };
    // SAFETY: promised by the caller.
    let bytes = unsafe { borrow(plugin, place, bytes, most) }?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Borrows bytes of a plugin.
///
/// # Errors
/// As for [`copy_text`].
///
/// # Safety
/// As for [`copy_text`], for the lifetime `'a`.
pub(crate) unsafe fn borrow<'a>(
    plugin: &str,
    place: impl Display,
    bytes: abi::Bytes,
    most: usize,
) -> Result<&'a [u8]> {
    if bytes.bytes == 0 {
        return Ok(&[]);
    }
    at_most(plugin, &place, bytes.bytes as u64, "bytes", most as u64)?;
    if bytes.data.is_null() {
        return Err(null(plugin, place, bytes.bytes));
    }
    // SAFETY: promised by the caller; not null, and `most` is within the largest size of a slice.
    Ok(unsafe { std::slice::from_raw_parts(bytes.data, bytes.bytes) })
}

/// Creates the error for a null pointer with a length.
#[cold]
pub(crate) fn null(plugin: &str, place: impl Display, bytes: usize) -> Error {
    breach(plugin, place, format_args!("null with {bytes} bytes"), "a pointer to them")
}

/// Checks an answer written to a sink: its total size, and the size of a piece at null, if there is
/// one.
pub(crate) fn written(
    plugin: &str,
    place: impl Display,
    total: u64,
    null_bytes: Option<usize>,
    most: usize,
) -> Result<()> {
    if let Some(bytes) = null_bytes {
        return Err(null(plugin, place, bytes));
    }
    at_most(plugin, place, total, "bytes", most as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument_type::ArgumentType;

    fn refused(result: Result<impl std::fmt::Debug>, message: &str) {
        let error = result.unwrap_err();
        assert!(error.is_breach() && error.code() == ErrorCode::BackendFailure, "{error:?}");
        assert_eq!(error.message(), message);
    }

    #[test]
    fn a_bound_is_the_last_number_that_is_allowed() {
        assert_eq!(devices("toy", DEVICES), Ok(()));
        refused(
            devices("toy", u32::MAX),
            "plugin 'toy': longshore.platform, device_count: 4294967295 devices, expected at most \
             1024",
        );
        assert!(devices("toy", DEVICES + 1).is_err());
        let global = |address, bytes| global("toy", "g", &GlobalAddress { address, bytes });
        assert_eq!(global(1 << 63, MEMORY_BYTES), Ok(()));
        let place = "plugin 'toy': longshore.module, global 'g'";
        assert_eq!(section("toy", u64::MAX, 0), Ok(()));
        assert!(section("toy", u64::MAX, 1).is_err());
        refused(
            global(0, u64::MAX),
            &format!("{place}: {} bytes, expected at most {MEMORY_BYTES}", u64::MAX),
        );
        refused(
            global(u64::MAX, 2),
            &format!("{place}: 2 bytes at {:#x}, expected an end within 64 bits", u64::MAX),
        );
    }

    #[test]
    fn a_target_of_code_consists_of_names() {
        let target = |triple: &str, features: &str| CodeTarget {
            triple: triple.to_owned(),
            processor: "x86-64-v3".to_owned(),
            features: features.to_owned(),
        };
        let triple = "x86_64-unknown-linux-gnu";
        assert_eq!(code_target("toy", &target(triple, "+avx2,-sse4.1")), Ok(()));
        let place = "plugin 'toy': longshore.code_target, code_target";
        refused(
            code_target("toy", &target("", "")),
            &format!("{place}, triple: no text, expected a triple"),
        );
        refused(
            code_target("toy", &target(triple, "+a\0")),
            &format!("{place}, features: '\\0', expected letters, digits and .,_+-"),
        );
        assert!(code_target("toy", &target(&"x".repeat(REPLY_BYTES + 1), "")).is_err());
    }

    #[test]
    fn an_allocation_has_an_address_that_is_aligned_and_ends() {
        let check = |address, bytes, alignment| allocation("toy", "x", address, bytes, alignment);
        assert_eq!(check(256, 1, 256), Ok(()));
        assert_eq!(check(1, 1, 0), Ok(()));
        refused(check(0, 1, 1), "plugin 'toy': x: address 0, expected a nonzero address");
        refused(check(128, 1, 256), "plugin 'toy': x: address 0x80, expected a multiple of 256");
        assert!(check(u64::MAX - 255, 256, 256).unwrap_err().is_breach());
    }

    #[test]
    fn a_group_that_suits_a_kernel_has_an_item() {
        assert_eq!(group_items("toy", 1), Ok(()));
        refused(
            group_items("toy", 0),
            "plugin 'toy': longshore.occupancy, optimal_group_items: 0 items, expected at least 1",
        );
    }

    #[test]
    fn each_number_of_a_kernel_is_checked() {
        let most = KernelAttributes {
            argument_sizes: Some(vec![ARGUMENT_BYTES; ARGUMENTS]),
            code_bytes: MEMORY_BYTES,
            address: 1 << 63,
            ..KernelAttributes::default()
        };
        assert_eq!(kernel("toy", "k", &most), Ok(()));
        let with = |change: fn(&mut KernelAttributes)| {
            let mut attributes = most.clone();
            change(&mut attributes);
            kernel("toy", "k", &attributes).unwrap_err()
        };
        for (error, field) in [
            (with(|kernel| kernel.argument_sizes = Some(vec![0; ARGUMENTS + 1])), "argument_count"),
            (
                with(|kernel| kernel.argument_types = vec![ArgumentType::UNKNOWN; ARGUMENTS + 1]),
                "argument_count",
            ),
            (
                with(|kernel| kernel.argument_sizes = Some(vec![4, u32::MAX])),
                "size of argument 1: 4294967295 bytes, expected at most 16777216",
            ),
            (with(|kernel| kernel.static_shared_bytes = u64::MAX), "static_shared_bytes"),
            (with(|kernel| kernel.private_bytes = u64::MAX), "private_bytes"),
            (with(|kernel| kernel.code_bytes = u64::MAX), "code_bytes"),
            (with(|kernel| kernel.address = u64::MAX), "address"),
            (
                with(|kernel| kernel.declaration = "x".repeat(DECLARATION_BYTES + 1)),
                "longshore.module, kernel 'k', declaration",
            ),
        ] {
            assert!(error.is_breach() && error.message().contains(field), "{error}: {field}");
        }
    }

    #[test]
    fn a_text_beyond_its_bound_is_not_read() {
        let text = |data, bytes| abi::Text { data, bytes };
        // SAFETY: the first text is readable; the other texts are not read.
        let copy = |text| unsafe { copy_text("toy", "describe, name", text, 4) };
        assert_eq!(copy(text(b"abcd".as_ptr(), 4)).as_deref(), Ok("abcd"));
        assert_eq!(copy(text(b"a\xff".as_ptr(), 2)).as_deref(), Ok("a\u{fffd}"));
        assert_eq!(copy(text(std::ptr::null(), 0)).as_deref(), Ok(""));
        for bytes in [5, isize::MAX as usize, isize::MAX as usize + 1, usize::MAX] {
            refused(
                copy(text(std::ptr::dangling(), bytes)),
                &format!("plugin 'toy': describe, name: {bytes} bytes, expected at most 4"),
            );
        }
        refused(
            copy(text(std::ptr::null(), 4)),
            "plugin 'toy': describe, name: null with 4 bytes, expected a pointer to them",
        );
    }
}
