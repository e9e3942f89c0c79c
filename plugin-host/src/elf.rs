//! Shared objects, checked before the system's loader sees them.
//!
//! glibc's loader trusts its input: a wrong offset in an image makes it crash, an odd value makes
//! it abort. [`validate`] reads, with bounds, everything that the loader would read. It refuses
//! every image on which the loader would fail. An [`Image`] is the proof. [`patch::edits`] then
//! returns the changes for the copy that is opened.
//!
//! The check also refuses some images that the loader accepts:
//! - relocations of code (`DT_TEXTREL`) and segments that are both writable and executable:
//!   unmodified code is shared, and hardened kernels map no other;
//! - a request for an executable stack, also by omitting `PT_GNU_STACK`: the loader would make the
//!   stacks of the whole process executable;
//! - `DT_AUDIT`, `DT_DEPAUDIT`, `DT_FILTER`, `DT_AUXILIARY`: they load other code;
//! - libraries that are not plain names (`libm.so.6`): the system's search path decides.
//!
//! No check covers the resolvers of `STT_GNU_IFUNC` symbols: they are the image's own code and run
//! during loading. The check only ensures that resolvers lie in executable segments
//! ([`Image::has_resolvers`]). The loader does not call them: the module fills [`Image::slots`]
//! after the loader has returned.

mod dynamic;
mod header;
mod notes;
pub mod patch;
mod read;
mod relocations;
mod sections;
mod segments;
mod slots;
mod symbols;
mod versions;

pub use sections::{Section, Sections};
pub use segments::{Segment, Segments};
pub use slots::{Content, Slot};
pub use symbols::{Symbol, SymbolTable};

use dynamic::Dynamic;
use longshore_plugin_api::{Error, ErrorCode, Result};
use object::elf;
use std::ops::Range;

/// Returns `InvalidBinary` with this message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::elf::malformed(format!($($message)+)));
        }
    };
}
use ensure;

/// A checked shared object. It holds offsets, not bytes: methods that read take the same bytes that
/// were checked.
#[derive(Clone, Debug)]
pub struct Image {
    /// The mapped segments.
    pub segments: Segments,
    /// The dynamic symbols.
    pub symbols: SymbolTable,
    /// The functions that `crate::module` runs instead of the loader.
    pub functions: Functions,
    /// The libraries that the image needs: plain file names and paths.
    pub libraries: Vec<String>,
    /// The subset of `libraries` with symbol versions that the image needs.
    pub versioned_libraries: Vec<String>,
    /// Whether loading the image calls its functions (`STT_GNU_IFUNC`, `IRELATIVE`).
    pub has_resolvers: bool,
    /// Slots that are refilled after the loader has returned.
    pub slots: Vec<Slot>,
    /// Range that the loader makes read-only before it returns; empty if the image has no such
    /// range.
    pub read_only: Range<u64>,
    dynamic: Dynamic,
    /// File offsets of the types of relocations that call resolvers.
    resolved: Vec<usize>,
}

/// Initialisation and termination functions, as addresses relative to the load base.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// `DT_INIT`.
    pub init: Option<u64>,
    /// Address of each entry of `DT_INIT_ARRAY`.
    pub init_array: Vec<u64>,
    /// `DT_FINI`.
    pub fini: Option<u64>,
    /// Address of each entry of `DT_FINI_ARRAY`.
    pub fini_array: Vec<u64>,
}

/// Checks an image. The check is total: any bytes give an answer.
///
/// # Errors
/// `InvalidBinary`, with the part, its value and the expected value.
pub fn validate(bytes: &[u8]) -> Result<Image> {
    let headers = segments::parse(bytes, &header::parse(bytes)?)?;
    let segments = headers.segments;
    notes::check(bytes, &headers.notes)?;
    let dynamic = Dynamic::parse(bytes, &segments, headers.dynamic)?;
    let relocations = relocations::Tables::parse(&dynamic, &segments)?;
    let symbols = SymbolTable::parse(bytes, &dynamic, &segments, relocations.symbols(bytes))?;
    symbols.check(bytes, &segments, headers.tls_bytes)?;
    let libraries = dynamic.libraries(bytes, symbols.strings())?;
    let versions = versions::check(bytes, &dynamic, &segments, &symbols, &libraries)?;

    let fixed = [headers.table, dynamic.addresses()]
        .into_iter()
        .chain(symbols.addresses())
        .chain(relocations.addresses())
        .chain(versions.addresses());
    let target = relocations::Target {
        segments: &segments,
        symbols: &symbols,
        has_tls: headers.tls_bytes > 0,
        fixed: fixed.filter(|range| segments.any_writable(range)).collect(),
    };
    let has_resolvers = relocations.check(bytes, &target)?;
    Ok(Image {
        functions: dynamic.functions(&segments)?,
        has_resolvers: has_resolvers || symbols.has_resolver(bytes),
        slots: slots::from_image(&relocations, bytes, &symbols),
        resolved: relocations.resolved(bytes),
        read_only: headers.read_only,
        versioned_libraries: versions.libraries,
        libraries,
        segments,
        symbols,
        dynamic,
    })
}

/// Checks whether an image is a shared object for this machine, and not a program. Reads the
/// headers and the dynamic section only.
///
/// # Errors
/// `InvalidBinary` with the reason for any other file.
pub fn recognise(bytes: &[u8]) -> Result<()> {
    let headers = segments::parse(bytes, &header::parse(bytes)?)?;
    Dynamic::from_library(bytes, &headers.segments, headers.dynamic).map(drop)
}

/// Returns whether the header is for a relocatable object rather than a shared object, for this
/// machine.
///
/// # Errors
/// `InvalidBinary` with the reason for any other file.
pub fn is_relocatable(bytes: &[u8]) -> Result<bool> {
    match header::file_type(bytes)? {
        elf::ET_REL => Ok(true),
        elf::ET_DYN => Ok(false),
        other => Err(malformed(format!(
            "the image is {}, expected a shared (ET_DYN) or relocatable (ET_REL) object",
            header::name_of(other)
        ))),
    }
}

fn malformed(message: String) -> Error {
    Error::new(ErrorCode::InvalidBinary, message)
}

/// Returns `[start, start + bytes)` unless the end overflows.
fn range(start: u64, bytes: u64) -> Option<Range<u64>> {
    Some(start..start.checked_add(bytes)?)
}
