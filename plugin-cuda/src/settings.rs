//! The user's settings.

use longshore_plugin_api::Result;
use longshore_plugin_streams::SettingReader;

/// The user's settings, `LONGSHORE_CUDA_<NAME>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `DRIVER`: a library to load in place of the driver's.
    pub(crate) driver: Option<String>,
    /// Options of the driver's compiler.
    pub(crate) jit: JitSettings,
    /// Limits of every context.
    pub(crate) limits: LimitSettings,
}

/// Options of the driver's compiler and linker. The driver chooses the value of an option that is
/// not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JitSettings {
    /// `JIT_OPTIMIZATION`: 0 to 4.
    pub(crate) optimization: Option<u32>,
    /// `JIT_LINE_INFO`: whether code gets the line numbers of its source.
    pub(crate) line_info: bool,
    /// `JIT_MAX_REGISTERS`: most registers of a work-item.
    pub(crate) max_registers: Option<u32>,
}

/// Sizes in bytes of memory that the driver reserves for kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitSettings {
    /// `STACK_BYTES`: the stack of each work-item.
    pub(crate) stack_bytes: Option<usize>,
    /// `HEAP_BYTES`: the heap for `malloc` in kernels.
    pub(crate) heap_bytes: Option<usize>,
    /// `PRINTF_BYTES`: the ring of messages.
    pub(crate) printf_bytes: Option<usize>,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidValue` for a value that does not fit its setting.
    pub(crate) fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let read = SettingReader { prefix: "LONGSHORE_CUDA_", setting };
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
