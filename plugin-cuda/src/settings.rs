//! What the user set.

use longshore_plugin_api::Result;
use longshore_plugin_streams::Read;

/// The user's settings, `LONGSHORE_CUDA_<NAME>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `DRIVER`: a library in the driver's place.
    pub(crate) driver: Option<String>,
    /// How the driver compiles PTX.
    pub(crate) jit: JitSettings,
    /// What every context gets.
    pub(crate) limits: LimitSettings,
}

/// How the driver compiles PTX and links objects; what is not set is the driver's to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JitSettings {
    /// `JIT_OPTIMIZATION`: 0 to 4.
    pub(crate) optimization: Option<u32>,
    /// `JIT_LINE_INFO`: whether code gets the lines of its source.
    pub(crate) line_info: bool,
    /// `JIT_MAX_REGISTERS`: most registers of an item.
    pub(crate) max_registers: Option<u32>,
}

/// Memory that the driver sets aside for kernels, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitSettings {
    /// `STACK_BYTES`, of each item.
    pub(crate) stack_bytes: Option<usize>,
    /// `HEAP_BYTES`, for `malloc` in kernels.
    pub(crate) heap_bytes: Option<usize>,
    /// `PRINTF_BYTES`, of the ring of messages.
    pub(crate) printf_bytes: Option<usize>,
}

impl Settings {
    /// # Errors
    /// `InvalidValue` for a setting that cannot be understood.
    pub(crate) fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let read = Read { prefix: "LONGSHORE_CUDA_", setting };
        Ok(Settings {
            driver: (read.setting)("DRIVER"),
            jit: JitSettings {
                optimization: read.number("JIT_OPTIMIZATION", 0..=4)?.map(|level| level as u32),
                line_info: read.number("JIT_LINE_INFO", 0..=1)? == Some(1),
                max_registers: read.number("JIT_MAX_REGISTERS", 1..=255)?.map(|most| most as u32),
            },
            limits: LimitSettings {
                stack_bytes: read.number("STACK_BYTES", 1..=usize::MAX)?,
                heap_bytes: read.number("HEAP_BYTES", 1..=usize::MAX)?,
                printf_bytes: read.number("PRINTF_BYTES", 1..=usize::MAX)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::ErrorCode;

    fn read(name: &str, value: &str) -> Result<Settings> {
        Settings::read(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn settings_are_numbers_in_their_ranges() {
        assert_eq!(read("JIT_OPTIMIZATION", " 3 ").unwrap().jit.optimization, Some(3));
        assert!(read("JIT_LINE_INFO", "1").unwrap().jit.line_info);
        assert_eq!(read("HEAP_BYTES", "1048576").unwrap().limits.heap_bytes, Some(1 << 20));
        assert_eq!(Settings::read(|_| None).unwrap(), Settings::default());
        for (name, value) in
            [("JIT_OPTIMIZATION", "5"), ("JIT_LINE_INFO", "yes"), ("STACK_BYTES", "")]
        {
            let error = read(name, value).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(name), "{error}");
        }
    }
}
