//! The user's settings.

use longshore_plugin_api::Result;
use longshore_plugin_streams::SettingReader;

/// Default size of the ring of messages, in bytes.
const PRINTF_BYTES: usize = 1 << 20;
/// Most bytes of a ring, as its positions are 32-bit numbers.
const MOST_PRINTF_BYTES: usize = 1 << 30;

/// The user's settings, `LONGSHORE_AMDGPU_<NAME>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `DRIVER`: a library to load in place of HIP's.
    pub(crate) driver: Option<String>,
    /// `LINKER`: a program to run in place of `ld.lld`.
    pub(crate) linker: Option<String>,
    /// `POOLS`: whether device memory comes from a pool of HIP's.
    pub(crate) pools: bool,
    /// `STACK_BYTES`: the stack of each work-item.
    pub(crate) stack_bytes: Option<usize>,
    /// `HEAP_BYTES`: the heap for `malloc` in kernels.
    pub(crate) heap_bytes: Option<usize>,
    /// `PRINTF_BYTES`: the ring of messages of each device.
    pub(crate) printf_bytes: usize,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidValue` for a value that does not fit its setting.
    pub(crate) fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let read = SettingReader { prefix: "LONGSHORE_AMDGPU_", setting };
        let printf_bytes = read.number("PRINTF_BYTES", 64..=MOST_PRINTF_BYTES)?;
        Ok(Settings {
            driver: (read.setting)("DRIVER"),
            linker: (read.setting)("LINKER"),
            pools: read.number("POOLS", 0..=1)? == Some(1),
            stack_bytes: read.number("STACK_BYTES", 1..=usize::MAX)?,
            heap_bytes: read.number("HEAP_BYTES", 1..=usize::MAX)?,
            printf_bytes: printf_bytes.unwrap_or(PRINTF_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::ErrorCode;

    #[test]
    fn settings_are_numbers_in_their_ranges() {
        let read = |name: &str, value: &str| {
            Settings::read(|asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(read("HEAP_BYTES", " 1048576").unwrap().heap_bytes, Some(1 << 20));
        assert_eq!(read("PRINTF_BYTES", "4096").unwrap().printf_bytes, 4096);
        assert_eq!(read("LINKER", "lld").unwrap().linker.as_deref(), Some("lld"));
        for (name, value) in [("PRINTF_BYTES", "1"), ("STACK_BYTES", "0"), ("HEAP_BYTES", "much")] {
            let error = read(name, value).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(name), "{error}");
        }
    }
}
