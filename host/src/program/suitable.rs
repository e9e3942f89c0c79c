//! The choice of the image to load: the given image, or the best entry of a container. Bitcode for
//! the device counts as an image that is to be compiled.

use crate::backend::AnyDevice;
use crate::device::Device;
use crate::image::{BitcodeHeader, ContainerEntry, Format, Image, OffloadKind};
use longshore_plugin_api::{
    Acceptance, CodeTarget, Device as _, DeviceInfo, Error, ErrorCode, ImageBytes, ImageEntry,
    Loading, Result,
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

/// A chosen image.
pub(super) struct Chosen {
    /// The image, or bitcode.
    pub(super) image: Image,
    /// The target for which bitcode is to be compiled; `None` for an image to load as it is.
    pub(super) compile_for: Option<CodeTarget>,
}

/// Returns the image itself if the device accepts it or it is bitcode for the device. Else returns
/// the entry with the highest score; among equals, code of the device precedes bitcode, and the
/// first entry wins. The bytes of an entry are aligned for the structures in them. LLVM:
/// `isELFCompatible` for each image of the linker's wrapper.
///
/// # Errors
/// `InvalidBinary` if the device accepts no entry, with the reason for each entry. For an image
/// that is no container, the code of the plugin's `load`. Errors of [`Image::entries`] and of the
/// plugin.
pub(super) fn choose(device: &Device, remote: &AnyDevice, image: Image) -> Result<Chosen> {
    let Acceptance::Refused(why) = remote.accepts(image.bytes())? else {
        return Ok(Chosen { image, compile_for: None });
    };
    if image.format() == Format::Bitcode {
        return bitcode(device, remote, image);
    }
    let entries = image.entries().map_err(|error| {
        error.context(format_args!("opening the image for device {}", device.name()))
    })?;
    match entries {
        None => Err(refused(device, remote, &image, &why)),
        Some(entries) => best(device, remote, entries),
    }
}

/// Returns bitcode with the device's target, after a check of the module's triple.
///
/// # Errors
/// `Unsupported` for a device that LLVM does not compile for, `InvalidBinary` for malformed bitcode
/// and for bitcode of another target; errors of the plugin.
fn bitcode(device: &Device, remote: &AnyDevice, image: Image) -> Result<Chosen> {
    let (bytes, name) = (image.bytes().len(), device.name());
    let refused = |code, why: &str| {
        let message = format!(
            "device {name} does not accept this image ({bytes} bytes, format {}): {why}",
            Format::Bitcode
        );
        Error::new(code, message)
    };
    let target = match device.core().code_target(remote) {
        Ok(target) => target,
        Err(error) if error.code() == ErrorCode::Unsupported => {
            return Err(refused(ErrorCode::Unsupported, error.message()));
        }
        Err(error) => return Err(error),
    };
    if device.core().host.jit.knows(&image, &target) {
        return Ok(Chosen { image, compile_for: Some(target) });
    }
    let header = BitcodeHeader::read(image.bytes());
    let header = header.map_err(|why| refused(ErrorCode::InvalidBinary, &why))?;
    match target.fits_triple(&header.triple) {
        true => Ok(Chosen { image, compile_for: Some(target) }),
        false => {
            let (theirs, ours) = (&header.triple, &target.triple);
            let why = format!("it is bitcode for {theirs}, expected {ours}");
            Err(refused(ErrorCode::InvalidBinary, &why))
        }
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
    let image = Image::from(image);
    if image.format() == Format::Bitcode {
        return match bitcode(device, remote, image) {
            Ok(_) => Ok(Acceptance::Accepted),
            Err(error)
                if matches!(error.code(), ErrorCode::InvalidBinary | ErrorCode::Unsupported) =>
            {
                Ok(Acceptance::Refused(error.to_string()))
            }
            Err(error) => Err(error),
        };
    }
    let entries = match image.entries() {
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

fn best(device: &Device, remote: &AnyDevice, entries: Vec<ContainerEntry>) -> Result<Chosen> {
    let architecture = device.info(DeviceInfo::Architecture).ok();
    let architecture = architecture.as_ref().and_then(|info| info.as_text()).unwrap_or_default();
    // Among equal scores, code of the device precedes bitcode.
    let mut best: Option<((u32, bool), Chosen)> = None;
    let mut refusals = Vec::new();
    for entry in entries {
        let name = describe(&entry);
        let entry = ContainerEntry { image: entry.image.aligned(), ..entry };
        let target = match entry.image.format() {
            Format::Bitcode => Some(device.core().code_target(remote)),
            _ => None,
        };
        let suitability = match &target {
            Some(target) => bitcode_suitability(remote, &entry, target, architecture)?,
            None => suitability(remote, &entry, architecture)?,
        };
        let score = match suitability {
            Suitability::Refused(why) => {
                refusals.push(format!("{name}: {why}"));
                continue;
            }
            Suitability::Score(score) => (score, target.is_none()),
        };
        if best.as_ref().is_none_or(|(best, _)| score > *best) {
            log::debug!("{name}: score {} on {}", score.0, device.name());
            best = Some((score, Chosen { image: entry.image, compile_for: target.transpose()? }));
        }
    }
    best.map(|(_, chosen)| chosen).ok_or_else(|| none_of(device, architecture, &refusals))
}

const FOR_HOST: &str = "it is code for the host, not for a device";

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
        return Ok(Suitability::Refused(FOR_HOST.to_owned()));
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
        (_, Some(_)) => Suitability::Refused(OTHER_ARCHITECTURE.to_owned()),
        (_, None) => score_by_name(entry, architecture),
    })
}

const OTHER_ARCHITECTURE: &str = "it is for another architecture";

fn score_by_name(entry: &ContainerEntry, architecture: &str) -> Suitability {
    let is_own = !entry.arch.is_empty() && entry.arch == architecture;
    Suitability::Score(if is_own { 2 } else { 1 })
}

/// Returns the plugin's score of an entry of bitcode, as [`suitability`] does. The module's triple
/// takes the place of a missing one.
fn bitcode_suitability(
    remote: &AnyDevice,
    entry: &ContainerEntry,
    target: &Result<CodeTarget>,
    architecture: &str,
) -> Result<Suitability> {
    if entry.offload_kind == OffloadKind::Host {
        return Ok(Suitability::Refused(FOR_HOST.to_owned()));
    }
    let target = match target {
        Ok(target) => target,
        Err(error) if error.code() == ErrorCode::Unsupported => {
            return Ok(Suitability::Refused(error.message().to_owned()));
        }
        Err(error) => return Err(error.clone()),
    };
    let header = match BitcodeHeader::read(entry.image.bytes()) {
        Ok(header) => header,
        Err(why) => return Ok(Suitability::Refused(why)),
    };
    let triple = if entry.triple.is_empty() { &header.triple } else { &entry.triple };
    if !target.fits_triple(triple) || !target.fits_triple(&header.triple) {
        let why = format!("it is bitcode for {triple}, expected {}", target.triple);
        return Ok(Suitability::Refused(why));
    }
    let asked = ImageEntry::new(entry.image.bytes(), triple, &entry.arch);
    match remote.score(&asked) {
        Ok(0) => Ok(Suitability::Refused(OTHER_ARCHITECTURE.to_owned())),
        Ok(score) => Ok(Suitability::Score(score)),
        Err(error) if error.code() == ErrorCode::Unsupported => {
            Ok(score_by_name(entry, architecture))
        }
        Err(error) => Err(error),
    }
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
