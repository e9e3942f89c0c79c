//! Page-locked memory of mapped variables (`LIBOMPTARGET_LOCK_MAPPED_HOST_BUFFERS`).

use crate::mapping::Failure;
use crate::settings;
use longshore::Device;
use std::ffi::c_void;

const VARIABLE: &str = "LIBOMPTARGET_LOCK_MAPPED_HOST_BUFFERS";

/// The user's wish to page-lock memory of mapped variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinPolicy {
    Never,
    /// A failure is ignored.
    IfPossible,
    /// A failure ends the program.
    Mandatory,
}

impl PinPolicy {
    /// Reads the variable. LLVM's truth values are 1, on, true and yes.
    pub(super) fn from_user() -> PinPolicy {
        settings::text(VARIABLE).map_or(PinPolicy::Never, |text| PinPolicy::parse(&text))
    }

    fn parse(text: &str) -> PinPolicy {
        let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        match () {
            () if is(&["1", "on", "true", "yes"]) => PinPolicy::IfPossible,
            () if text == "mandatory" => PinPolicy::Mandatory,
            () => PinPolicy::Never,
        }
    }
}

/// Host memory that is page-locked until this value is dropped.
pub(crate) struct Pin {
    device: Device,
    address: u64,
}

impl Pin {
    /// Page-locks memory of the host if the user wants it. Blocks.
    ///
    /// # Errors
    /// Memory that cannot be page-locked, if the user insists.
    ///
    /// # Safety
    /// The memory stays mapped into the process until the result is dropped.
    pub(crate) unsafe fn new(
        device: &Device,
        policy: PinPolicy,
        address: u64,
        bytes: u64,
    ) -> Result<Option<Box<Pin>>, Failure> {
        if policy == PinPolicy::Never || bytes == 0 {
            return Ok(None);
        }
        // SAFETY: promised by the caller.
        match unsafe { device.pin(address as *mut c_void, bytes) } {
            Ok(_) => Ok(Some(Box::new(Pin { device: device.clone(), address }))),
            Err(error) if policy == PinPolicy::Mandatory => Err(Failure::Device(error)),
            Err(error) => {
                log::debug!("{bytes} bytes at {address:#x} are not page-locked: {error}");
                Ok(None)
            }
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: copies use the host's address, and the work of the mapping is done.
        let ended = unsafe { self.device.unpin(self.address as *mut c_void) };
        ended.unwrap_or_else(|error| log::error!("{error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::PinPolicy;

    #[test]
    fn truth_values_lock_if_possible_and_other_words_never() {
        for word in ["1", "on", "TRUE", "Yes"] {
            assert_eq!(PinPolicy::parse(word), PinPolicy::IfPossible, "{word}");
        }
        assert_eq!(PinPolicy::parse("mandatory"), PinPolicy::Mandatory);
        for word in ["0", "off", "maybe"] {
            assert_eq!(PinPolicy::parse(word), PinPolicy::Never, "{word}");
        }
    }
}
