//! Architectures, and the devices that run code for them.

use std::fmt;

/// An architecture: "sm_90a", "compute_90".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// Ten times the major compute capability plus the minor one: 90, 103, 120.
    pub number: u32,
    /// The part of the architecture that an image uses, which limits the devices that run it.
    pub variant: Variant,
}

/// The part of an architecture that an image uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Features that later architectures have too.
    Any,
    /// Features of its family: "sm_100f".
    Family,
    /// Features of this architecture alone: "sm_90a".
    Specific,
}

impl Arch {
    /// Creates the architecture of a device with this compute capability.
    #[must_use]
    pub fn new(major: u32, minor: u32) -> Arch {
        Arch { number: major.saturating_mul(10).saturating_add(minor), variant: Variant::Any }
    }

    /// Parses a name: "sm_90a", "compute_90" or "sm_103f".
    #[must_use]
    pub fn parse(text: &str) -> Option<Arch> {
        let rest = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_"))?;
        let digits = rest.trim_end_matches(|c: char| !c.is_ascii_digit());
        let variant = match &rest[digits.len()..] {
            "" => Variant::Any,
            "f" => Variant::Family,
            "a" => Variant::Specific,
            _ => return None,
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten().map(|number| Arch { number, variant })
    }

    /// Returns the major part of the compute capability: `12` of sm_120.
    #[must_use]
    pub fn major(self) -> u32 {
        self.number / 10
    }

    /// Returns the minor part of the compute capability: `3` of sm_103.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.number % 10
    }

    /// Returns whether a device runs machine code for this architecture: the device has the same
    /// major part, and the same or a higher minor part.
    #[must_use]
    pub fn cubin_runs_on(self, device: Arch) -> bool {
        let is_near = self.major() == device.major() && self.minor() <= device.minor();
        is_near && (self.variant != Variant::Specific || self.number == device.number)
    }

    /// Returns whether the driver compiles PTX for this architecture for a device. The device must
    /// not be older, and, depending on the variant, must be of the same family or architecture.
    #[must_use]
    pub fn ptx_runs_on(self, device: Arch) -> bool {
        match self.variant {
            Variant::Any => self.number <= device.number,
            Variant::Family | Variant::Specific => self.cubin_runs_on(device),
        }
    }
}

/// Formats the name of machine code's architecture: "sm_90a".
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            Variant::Any => "",
            Variant::Family => "f",
            Variant::Specific => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(text: &str) -> Arch {
        Arch::parse(text).unwrap()
    }

    #[test]
    fn names_are_read_and_written() {
        for name in ["sm_90", "sm_90a", "sm_103f", "sm_120"] {
            assert_eq!(arch(name).to_string(), name);
        }
        assert_eq!(arch("compute_90a"), arch("sm_90a"));
        assert_eq!(Arch::new(12, 1), arch("sm_121"));
        assert_eq!((arch("sm_121").major(), arch("sm_121").minor()), (12, 1));
        for name in
            ["", "sm_", "sm_a", "sm_+9", "sm_90b", "sm_90aa", "90", "sm_99999999999", "sm_9\u{f6}"]
        {
            assert_eq!(Arch::parse(name), None, "{name}");
        }
    }

    #[test]
    fn machine_code_runs_on_later_devices_of_its_major_architecture() {
        let runs = |on: &str, device: &str| arch(on).cubin_runs_on(arch(device));
        assert!(runs("sm_80", "sm_80") && runs("sm_80", "sm_89") && runs("sm_100f", "sm_103"));
        assert!(!runs("sm_86", "sm_80") && !runs("sm_80", "sm_90") && !runs("sm_100", "sm_120"));
        assert!(
            runs("sm_90a", "sm_90") && !runs("sm_100a", "sm_103") && !runs("sm_103f", "sm_100")
        );
    }

    #[test]
    fn ptx_is_compiled_for_later_devices_unless_it_names_a_variant() {
        let runs = |on: &str, device: &str| arch(on).ptx_runs_on(arch(device));
        assert!(runs("sm_52", "sm_120") && runs("sm_90", "sm_90") && !runs("sm_100", "sm_90"));
        assert!(runs("sm_90a", "sm_90") && !runs("sm_90a", "sm_100"));
        assert!(runs("sm_100f", "sm_103") && !runs("sm_100f", "sm_120"));
    }
}
