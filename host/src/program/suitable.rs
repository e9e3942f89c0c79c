//! The choice of the image to load: the given image, or the best entry of a container.

use crate::backend::AnyDevice;
use crate::device::Device;
use crate::image::{ContainerEntry, Image, OffloadKind};
use longshore_plugin_api::{
    Acceptance, Device as _, DeviceInfo, Error, ErrorCode, ImageBytes, ImageEntry, Loading, Result,
};

impl Device {
    /// Returns whether [`Device::load`] would load this image, or an entry of it as a container, or
    /// the reason for the refusal. An image that the backend does not accept as it is is copied.
    /// LLVM: `olIsValidBinary`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the plugin. A bad image is a refusal,
    /// not an error.
    pub fn suits(&self, image: &[u8]) -> Result<Acceptance> {
        acceptance(self, &**self.remote()?, image)
    }

    /// Checks that the device can load an image, or an entry of a container.
    ///
    /// # Errors
    /// The reason for the refusal; `Uninitialized` if the device was closed; errors of the plugin.
    pub(crate) fn check_suits(&self, image: &Image) -> Result<()> {
        choose(self, &**self.remote()?, image.clone()).map(drop)
    }
}

/// Returns the image itself if the device accepts it, else the entry with the highest score, the
/// first among equals. The bytes of an entry are aligned for the structures in them. LLVM:
/// `isELFCompatible` for each image of the linker's wrapper.
///
/// # Errors
/// `InvalidBinary` if the device accepts no entry, with the reason for each entry. For an image
/// that is no container, the code of the plugin's `load`. Errors of [`Image::entries`] and of the
/// plugin.
pub(super) fn choose(device: &Device, remote: &AnyDevice, image: Image) -> Result<Image> {
    let Acceptance::Refused(why) = remote.accepts(image.bytes())? else { return Ok(image) };
    let entries = image.entries().map_err(|error| {
        error.context(format_args!("opening the image for device {}", device.name()))
    })?;
    match entries {
        None => Err(refused(device, remote, &image, &why)),
        Some(entries) => best(device, remote, entries),
    }
}

/// Checks that the plugin verifies an accepted image, so that loading needs no promise of the
/// caller.
///
/// # Errors
/// `Unsupported` if the plugin does not verify the image; errors of the plugin.
pub(super) fn check_verified(device: &Device, remote: &AnyDevice, image: &Image) -> Result<()> {
    if remote.accepts(image.bytes())? == Acceptance::Verified {
        return Ok(());
    }
    let message = format!(
        "device {} does not verify this image ({} bytes, format {}), so its code could run \
         unchecked: load it by `Device::load`, which is unsafe, if you trust its source",
        device.name(),
        image.bytes().len(),
        image.format()
    );
    Err(Error::new(ErrorCode::Unsupported, message))
}

/// Returns whether [`choose`] would find an image to load, or the reason for the refusal.
///
/// # Errors
/// Errors of the plugin.
fn acceptance(device: &Device, remote: &AnyDevice, image: &[u8]) -> Result<Acceptance> {
    let why = match remote.accepts(image)? {
        Acceptance::Refused(why) => why,
        accepted => return Ok(accepted),
    };
    let entries = match Image::from(image).entries() {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(Acceptance::Refused(why)),
        Err(error) => return Ok(Acceptance::Refused(error.to_string())),
    };
    match best(device, remote, entries) {
        Ok(_) => Ok(Acceptance::Accepted),
        Err(error) if error.code() == ErrorCode::InvalidBinary => {
            Ok(Acceptance::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

fn best(device: &Device, remote: &AnyDevice, entries: Vec<ContainerEntry>) -> Result<Image> {
    let architecture = device.info(DeviceInfo::Architecture).ok();
    let architecture = architecture.as_ref().and_then(|info| info.as_text()).unwrap_or_default();
    let mut best: Option<(u32, Image)> = None;
    let mut refusals = Vec::new();
    for entry in entries {
        let name = describe(&entry);
        let entry = ContainerEntry { image: entry.image.aligned(), ..entry };
        match suitability(remote, &entry, architecture)? {
            Suitability::Refused(why) => refusals.push(format!("{name}: {why}")),
            Suitability::Score(score) if best.as_ref().is_none_or(|(best, _)| score > *best) => {
                log::debug!("{name}: score {score} on {}", device.name());
                best = Some((score, entry.image));
            }
            Suitability::Score(_) => {}
        }
    }
    best.map(|(_, image)| image).ok_or_else(|| none_of(device, architecture, &refusals))
}

enum Suitability {
    /// The score; higher is better.
    Score(u32),
    /// The reason for the refusal.
    Refused(String),
}

/// Returns the plugin's score of the entry. If the plugin does not score, an accepted entry has a
/// score of `2` for the device's own architecture and of `1` for others.
fn suitability(
    remote: &AnyDevice,
    entry: &ContainerEntry,
    architecture: &str,
) -> Result<Suitability> {
    if entry.offload_kind == OffloadKind::Host {
        return Ok(Suitability::Refused("it is code for the host, not for a device".to_owned()));
    }
    let bytes = entry.image.bytes();
    let asked = ImageEntry::new(bytes, &entry.triple, &entry.arch);
    let score = match remote.score(&asked) {
        Ok(score) => Some(score),
        Err(error) if error.code() == ErrorCode::Unsupported => None,
        Err(error) => return Err(error),
    };
    if let Some(score @ 1..) = score {
        return Ok(Suitability::Score(score));
    }
    Ok(match (remote.accepts(bytes)?, score) {
        (Acceptance::Refused(why), _) => Suitability::Refused(why),
        (_, Some(_)) => Suitability::Refused("it is for another architecture".to_owned()),
        (_, None) => {
            let is_own = !entry.arch.is_empty() && entry.arch == architecture;
            Suitability::Score(if is_own { 2 } else { 1 })
        }
    })
}

/// Returns an entry's description for messages: "openmp, x86_64-unknown-linux-gnu, x86-64-v3, 15224
/// bytes, elf-so".
fn describe(entry: &ContainerEntry) -> String {
    let kind = entry.offload_kind.to_string();
    let parts = [kind.as_str(), &entry.triple, &entry.arch];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let bytes = entry.image.bytes().len();
    format!("{}, {bytes} bytes, {}", parts.join(", "), entry.image.format())
}

fn none_of(device: &Device, architecture: &str, refusals: &[String]) -> Error {
    const SHOWN: usize = 32;
    let count = refusals.len();
    let mut message = format!(
        "device {} ({architecture}) accepts none of the {count} images of this container",
        device.name()
    );
    for refusal in refusals.iter().take(SHOWN) {
        message.push_str("\n  ");
        message.push_str(refusal);
    }
    if count > SHOWN {
        message.push_str(&format!("\n  and {} more", count - SHOWN));
    }
    Error::new(ErrorCode::InvalidBinary, message)
}

/// Returns the error for a refused image, with the error code of the plugin's `load`.
fn refused(device: &Device, remote: &AnyDevice, image: &Image, why: &str) -> Error {
    // SAFETY: the bytes stay while `image` is borrowed, and a module loaded from them is dropped in
    // this function.
    let loaded = remote.load(unsafe { ImageBytes::new(image.bytes()) }, Loading::AtOnce);
    let code = loaded.err().map_or(ErrorCode::InvalidBinary, |error| error.code());
    let bytes = image.bytes().len();
    let message = match bytes {
        0 => format!("device {} cannot load an empty image", device.name()),
        _ => format!(
            "device {} does not accept this image ({bytes} bytes, format {}): {why}",
            device.name(),
            image.format()
        ),
    };
    Error::new(code, message)
}
