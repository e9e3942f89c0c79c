//! Kernels that run constructors and destructors, and how they are hidden from HIP.
//!
//! HIP itself launches kernels of the kinds `init` and `fini` when it loads and unloads an image.
//! That is before the image has the address of the ring of messages, after its profile was read,
//! and without a report of failures. Therefore HIP gets a copy of the image in which these kernels
//! have an unknown kind. HIP treats them like any other kernel, and the backend launches them at
//! the right time.

use longshore_format_amdgpu::{CodeObject, KernelKind};
use longshore_plugin_api::{Error, ErrorCode, Result};

/// The entry of a kernel's kind in the metadata, in MessagePack: a text of 5 bytes and one of 4
/// bytes.
const KINDS: [(KernelKind, &[u8], &[u8]); 2] = [
    (KernelKind::Init, b"\xa5.kind\xa4init", b"\xa5.kind\xa4INIT"),
    (KernelKind::Fini, b"\xa5.kind\xa4fini", b"\xa5.kind\xa4FINI"),
];

/// Returns the image with these kernels hidden from HIP; `None` if it has none.
///
/// # Errors
/// `Unsupported` if its metadata encodes the kinds in another way than LLVM's compilers do.
pub(super) fn hidden(image: &[u8], contents: &CodeObject) -> Result<Option<Vec<u8>>> {
    let mut changed = None;
    for (kind, shown, hidden) in KINDS {
        let there = contents.kernels.iter().filter(|kernel| kernel.kind == kind).count();
        if there == 0 {
            continue;
        }
        let places: Vec<usize> = memchr::memmem::find_iter(image, shown).collect();
        if places.len() != there {
            let message = format!(
                "the image has {there} kernels of kind {kind:?}, of which only {} can be hidden \
                 from HIP; it would run the others at the wrong time",
                places.len()
            );
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let copy: &mut Vec<u8> = changed.get_or_insert_with(|| image.to_vec());
        for place in places {
            copy[place..place + hidden.len()].copy_from_slice(hidden);
        }
    }
    Ok(changed)
}
