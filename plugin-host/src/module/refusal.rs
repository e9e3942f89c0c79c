//! Errors of refused links, for the image's author.

use crate::AllowedNames;
use crate::device_library::{Absence, DeviceLibrary, is_constant};
use longshore_jitlink::Error as Cause;
use longshore_jitlink::arch::Fault;
use longshore_jitlink::{RelocationError, Undefined};
use longshore_plugin_api::{Error, ErrorCode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most undefined names of a kind in a message.
const SHOWN: usize = 8;

/// Returns the error of a link whose objects may use the `allowed` names of the process.
pub(super) fn link_error(cause: Cause, allowed: &Arc<AllowedNames>) -> Error {
    let library = DeviceLibrary::new(Arc::clone(allowed));
    match &cause {
        Cause::Undefined(missing) => {
            Error::new(ErrorCode::LinkFailure, undefined(missing, &library))
        }
        Cause::Relocation(error) if is_of_process(error, &library) => load_error(cause.clone())
            .context(format!(
                "'{}' is data of the process that may change, of which code that is not \
                 position-independent cannot have a copy; compile with -fPIC",
                error.symbol
            )),
        _ => load_error(cause),
    }
}

/// Returns the error of any other operation of the linker.
pub(super) fn load_error(cause: Cause) -> Error {
    let code = match &cause {
        // Actions of a link register frames and call resolvers: they fail for damaged ones.
        Cause::Action(_) | Cause::Malformed { .. } | Cause::UnsupportedRelocation { .. } => {
            ErrorCode::InvalidBinary
        }
        Cause::Unsupported { .. } => ErrorCode::Unsupported,
        Cause::Relocation { .. } | Cause::Duplicate { .. } | Cause::Undefined(_) => {
            ErrorCode::LinkFailure
        }
        Cause::Memory { .. } => ErrorCode::OutOfResources,
        Cause::Open { .. } => ErrorCode::NotFound,
        _ => ErrorCode::BackendFailure,
    };
    Error::new(code, cause.to_string())
}

/// Returns the error of a kernel whose resolver returned null.
pub(super) fn resolver_error(kernel: &str) -> Error {
    let message = format!("the resolver of '{kernel}' chose no function");
    Error::new(ErrorCode::InvalidBinary, message)
}

/// Returns whether a relocation failed because data of the process was not copied.
fn is_of_process(error: &RelocationError, library: &DeviceLibrary) -> bool {
    let is_far = matches!(error.fault, Fault::OutOfRange { .. });
    is_far && !is_constant(&error.symbol) && library.has(&error.symbol)
}

/// Lists the undefined names, grouped by the reason and its remedy.
fn undefined(missing: &[Undefined], library: &DeviceLibrary) -> String {
    let mut by_absence: BTreeMap<Absence, Vec<&Undefined>> = BTreeMap::new();
    for undefined in missing {
        by_absence.entry(library.absence(&undefined.symbol)).or_default().push(undefined);
    }
    let explained = by_absence
        .iter()
        .map(|(absence, names)| format!("{}: {}", listed(names), absence.explanation()));
    format!("undefined symbols: {}", explained.collect::<Vec<_>>().join("; "))
}

fn listed(missing: &[&Undefined]) -> String {
    let name =
        |undefined: &&Undefined| format!("{} (used by {})", undefined.symbol, undefined.file);
    let names: Vec<_> = missing.iter().take(SHOWN).map(name).collect();
    match missing.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{}, and {more} more", names.join(", ")),
    }
}
