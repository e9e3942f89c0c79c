//! Profile counters: the sections that LLVM's instrumentation adds to an image.

use super::HostModule;
use crate::elf::Sections;
use longshore_plugin_api::{ProfileSection, ProfileSectionKind};

const SECTIONS: [(ProfileSectionKind, &str); 4] = [
    (ProfileSectionKind::Counters, "__llvm_prf_cnts"),
    (ProfileSectionKind::Data, "__llvm_prf_data"),
    (ProfileSectionKind::Names, "__llvm_prf_names"),
    (ProfileSectionKind::Bitmap, "__llvm_prf_bits"),
];
const RAW_VERSION: &str = "__llvm_profile_raw_version";
const RAW_VERSION_BYTES: u64 = 8;

/// Copies the sections that the image has. They are found by the section headers; in a stripped
/// image by the symbols `__start_<section>` and `__stop_<section>`, if it exports them.
pub(super) fn read(module: &HostModule) -> Vec<ProfileSection> {
    let headers = Sections::parse(module.bytes.get());
    let places = SECTIONS.iter().filter_map(|&(kind, name)| {
        let section = headers.as_ref().and_then(|headers| headers.in_memory(name));
        let place = section.map(|section| (section.address, section.size));
        let (address, size) = place.or_else(|| between_symbols(module, name))?;
        Some((kind, address, size))
    });
    let version = module
        .symbol(RAW_VERSION)
        .or_else(|| headers.as_ref().and_then(|headers| headers.symbol(RAW_VERSION)))
        .map(|symbol| (ProfileSectionKind::RawVersion, symbol.value, RAW_VERSION_BYTES));
    places
        .chain(version)
        .filter_map(|(kind, address, size)| section(module, kind, address, size))
        .collect()
}

fn between_symbols(module: &HostModule, name: &str) -> Option<(u64, u64)> {
    let start = module.symbol(&format!("__start_{name}"))?.value;
    let stop = module.symbol(&format!("__stop_{name}"))?.value;
    Some((start, stop.checked_sub(start)?))
}

/// Copies a range of the image's memory, if it is the image's.
fn section(
    module: &HostModule,
    kind: ProfileSectionKind,
    address: u64,
    size: u64,
) -> Option<ProfileSection> {
    if size == 0 || !module.image.segments.holds(address, size) {
        return None;
    }
    let start = module.library.pointer::<u8>(address);
    let mut contents = vec![0; usize::try_from(size).ok()?];
    // SAFETY: one segment of the checked image has the range, mapped and readable while the
    // library is open. No kernel runs on it: the host reads profiles after the last one.
    unsafe { start.copy_to_nonoverlapping(contents.as_mut_ptr(), contents.len()) };
    Some(ProfileSection { kind, address: module.library.address(address), contents })
}
