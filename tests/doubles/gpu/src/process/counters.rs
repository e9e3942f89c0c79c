//! Counters of profiles in twins. The counters have no symbols, so the profile's records lead to
//! them.

use longshore_double_gpu::protocol::Symbol;
use longshore_plugin_api::profile::RawVersion;
use longshore_plugin_api::{Module, ProfileSection, ProfileSectionKind};
use longshore_plugin_host::HostModule;

/// Returns the counters of a function. `function` is the first field of the function's record, a
/// hash of its name, which is the same for all targets.
pub(super) fn find(module: &HostModule, function: u64) -> Option<Symbol> {
    let sections = module.profile().ok()?;
    let section = |kind| sections.iter().find(|section: &&ProfileSection| section.kind == kind);
    let version = section(ProfileSectionKind::RawVersion)?.contents.first_chunk()?;
    let layout = RawVersion(u64::from_le_bytes(*version)).layout().ok()?;
    let data = section(ProfileSectionKind::Data)?;
    let mut records = data.contents.chunks_exact(layout.bytes).enumerate();
    let is_of_function = |record: &[u8]| record.first_chunk() == Some(&function.to_le_bytes());
    let (index, record) = records.find(|(_, record)| is_of_function(record))?;
    let at = data.address + (index * layout.bytes) as u64;
    let bytes = u64::from(layout.counters_of(record)) * layout.counter_bytes as u64;
    Some(Symbol { address: layout.counters_at(record, at)?, bytes, is_function: false })
}
