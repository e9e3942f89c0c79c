//! Kernels that run constructors and destructors, as HIP is to see them.
//!
//! HIP launches kernels of the kinds `init` and `fini` by itself when it loads and unloads an image: before the
//! image was told where its messages go, after its profile was read, and without a word if they fail. So
//! it is shown a copy of the image in which they are of a kind that it does not know, which is for it a kernel
//! like any other; the backend launches them when it is time.

use longshore_format_amdgpu::{CodeObject, KernelKind};
use longshore_plugin_api::{Error, ErrorCode, Result};

/// The entry of a kernel's kind in the metadata, which is MessagePack: a text of 5 bytes and one of 4.
const KINDS: [(KernelKind, &[u8], &[u8]); 2] = [
    (KernelKind::Init, b"\xa5.kind\xa4init", b"\xa5.kind\xa4INIT"),
    (KernelKind::Fini, b"\xa5.kind\xa4fini", b"\xa5.kind\xa4FINI"),
];

/// The image as HIP is to see it; none if that is as it is.
///
/// # Errors
/// `Unsupported` if its metadata says the kinds in another way than LLVM's compilers do.
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
                "the image has {there} kernels of kind {kind:?}, of which {} can be kept from HIP, which \
                 would run them at the wrong time",
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
