//! Look-up of the twins of images.

use super::image::{Image, Refusal};
use super::machine;
use crate::image_hash;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The objects that make up the twin of an image.
pub type Twin = Vec<Vec<u8>>;

/// Twins of images linked in this process, by the hashes of the images.
static LINKED: Mutex<Option<HashMap<String, Twin>>> = Mutex::new(None);

/// Returns the twin of an image.
///
/// # Errors
/// The file that is missing.
pub(crate) fn for_image(image: &Image) -> Result<Twin, Refusal> {
    from_bytes(&image.bytes).map_err(|log| Refusal::new(image.refused, log))
}

/// Returns the twin of an image, or of an input to a link.
///
/// # Errors
/// The file that is missing.
pub fn from_bytes(bytes: &[u8]) -> Result<Twin, String> {
    let hash = image_hash(bytes);
    if let Some(twin) = LINKED.lock().as_ref().and_then(|linked| linked.get(&hash)) {
        return Ok(twin.clone());
    }
    let folder = machine().ok().and_then(|machine| machine.twins.as_ref());
    let Some(folder) = folder else {
        return Err(format!(
            "the double has no twins: the setting 'twins' is missing ({hash}.o)\n"
        ));
    };
    let path = folder.join(format!("{hash}.o"));
    let object = std::fs::read(&path).map_err(|error| {
        format!("the double has no twin of this image: {}: {error}\n", path.display())
    })?;
    Ok(vec![object])
}

/// Records the twin of a linked image.
pub fn remember(linked: &[u8], twin: Twin) {
    let mut table = LINKED.lock();
    table.get_or_insert_default().insert(image_hash(linked), twin);
}

/// Returns a twin in the format of the GPU process: an object, or an archive of several objects.
pub(crate) fn as_object(mut twin: Twin) -> Vec<u8> {
    if twin.len() == 1 {
        return twin.remove(0);
    }
    let mut archive = b"!<arch>\n".to_vec();
    for (index, object) in twin.iter().enumerate() {
        let name = format!("{index}.o/");
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, object.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(object);
        if object.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
