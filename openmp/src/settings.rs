//! Settings from environment variables, read once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Kinds of information that `LIBOMPTARGET_INFO` selects, by their bits.
pub(crate) mod info {
    /// The arguments of constructs.
    pub(crate) const ARGUMENTS: u32 = 0x01;
    /// Look-ups of mapped ranges.
    pub(crate) const MAPPING_EXISTS: u32 = 0x02;
    /// The mapping table after a failure.
    pub(crate) const TABLE: u32 = 0x04;
    /// New and removed mapped ranges.
    pub(crate) const MAPPING_CHANGED: u32 = 0x08;
    /// Launches of kernels.
    pub(crate) const LAUNCHES: u32 = 0x10;
    /// Copies.
    pub(crate) const TRANSFERS: u32 = 0x20;
    /// Mapped variables without a device counterpart.
    pub(crate) const EMPTY_MAPPING: u32 = 0x40;
    /// The arguments of constructs, and their debug lines.
    pub(crate) const DESCRIPTION: u32 = ARGUMENTS | super::DEBUG;
    /// Copies, and their debug lines.
    pub(crate) const COPIES: u32 = TRANSFERS | super::DEBUG;
}

/// The kinds of wanted information, and the switches below; [`UNREAD`] before the first use.
static FLAGS: AtomicU32 = AtomicU32::new(UNREAD);
/// All kinds of information.
const KINDS: u32 = (1 << 28) - 1;
/// `LIBOMPTARGET_DEBUG` is on.
const DEBUG: u32 = 1 << 28;
/// `LIBOMPTARGET_PROFILE` is on.
const PROFILE: u32 = 1 << 29;
const UNREAD: u32 = 1 << 31;

#[inline]
fn flags() -> u32 {
    match FLAGS.load(Ordering::Relaxed) {
        UNREAD => read_flags(),
        flags => flags,
    }
}

/// Returns whether a kind of information is wanted.
#[inline]
pub(crate) fn wants(kind: u32) -> bool {
    flags() & kind != 0
}

/// Returns whether debug lines are wanted.
#[inline]
pub(crate) fn debugs() -> bool {
    flags() & DEBUG != 0
}

/// Returns whether times are recorded.
#[inline]
pub(crate) fn profiles() -> bool {
    flags() & PROFILE != 0
}

/// Returns whether users or tools see the single steps of constructs.
#[inline]
pub(crate) fn is_observed() -> bool {
    wants(!UNREAD) || crate::ompt::is_active()
}

/// Sets the kinds of wanted information. LLVM: `__tgt_set_info_flag`.
pub(crate) fn set_info(level: u32) {
    let switches = flags() & !KINDS;
    FLAGS.store(switches | level & KINDS, Ordering::Relaxed);
}

/// Returns whether `OMP_TARGET_OFFLOAD` rules out all devices. libomp knows this as well, but asks
/// for the number of devices while it starts, when it cannot be called.
pub(crate) fn disables_devices() -> bool {
    sets_policy("disabled")
}

/// Returns whether `OMP_TARGET_OFFLOAD` rules out the host. The search for devices may not ask
/// libomp: a thread that starts libomp may be waiting for the search.
pub(crate) fn demands_devices() -> bool {
    sets_policy("mandatory")
}

fn sets_policy(name: &str) -> bool {
    text("OMP_TARGET_OFFLOAD").is_some_and(|value| value.trim().eq_ignore_ascii_case(name))
}

#[cold]
fn read_flags() -> u32 {
    let mut flags = number("LIBOMPTARGET_INFO").unwrap_or(0) as u32 & KINDS;
    if text("LIBOMPTARGET_DEBUG").is_some_and(|value| value != "0") {
        flags |= DEBUG | info::MAPPING_EXISTS | info::MAPPING_CHANGED | info::LAUNCHES;
    }
    if text("LIBOMPTARGET_PROFILE").is_some() {
        flags |= PROFILE;
    }
    FLAGS.store(flags, Ordering::Relaxed);
    flags
}

/// Returns the value of a variable; `None` if it is not set, or if the process has more rights than
/// its caller.
pub(crate) fn text(name: &str) -> Option<String> {
    if longshore::Environment::is_ignored() {
        return None;
    }
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the number in a variable: decimal, octal after `0` or hexadecimal after `0x`, as
/// `strtol` reads it.
pub(crate) fn number(name: &str) -> Option<i64> {
    parse_number(text(name)?.trim())
}

fn parse_number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let number = match hexadecimal {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    number.ok().map(|number| sign * number)
}

/// Settings that are read at the first use of a device.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD`: most bytes of an allocation from the pool; 0 turns
    /// the pool off.
    pub(crate) pool_threshold: u64,
    /// `OMPTARGET_DUMP_OFFLOAD_ENTRIES`: the number of the device whose entries are printed.
    pub(crate) dump_entries: Option<i64>,
    /// `LIBOMPTARGET_TREAT_ATTACH_AUTO_AS_ALWAYS`: pointers are attached even if neither the
    /// pointer nor its pointee is new.
    pub(crate) attach_always: bool,
}

/// Returns the settings.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        pool_threshold: number("LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD")
            .map_or(8 << 10, |bytes| bytes.max(0) as u64),
        dump_entries: number("OMPTARGET_DUMP_OFFLOAD_ENTRIES"),
        attach_always: text("LIBOMPTARGET_TREAT_ATTACH_AUTO_AS_ALWAYS").is_some_and(|text| {
            ["1", "on", "true", "yes"].iter().any(|word| text.eq_ignore_ascii_case(word))
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::parse_number;

    #[test]
    fn numbers_have_the_bases_of_strtol() {
        assert_eq!(parse_number("-1"), Some(-1));
        assert_eq!(parse_number("0x20"), Some(32));
        assert_eq!(parse_number("010"), Some(8));
        assert_eq!(parse_number("0"), Some(0));
        assert_eq!(parse_number("all"), None);
    }
}
