//! Compatibility of code with devices.

use crate::{Feature, Target, processor};
use std::fmt;

/// The quality of the match between code and a device that runs it; the greater, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fit {
    /// Whether the code is for the device's processor rather than a generic one.
    pub is_exact: bool,
    /// Number of features that the code sets: code for one setting may be faster with it.
    pub features: u8,
}

impl Fit {
    /// Returns the match as a number, at least 1.
    #[must_use]
    pub fn score(self) -> u32 {
        1 + u32::from(self.is_exact) * 3 + u32::from(self.features.min(2))
    }
}

/// The reason why a device does not run code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetMismatch {
    /// The code's target.
    pub code: Target,
    /// The device's target.
    pub device: Target,
    why: MismatchReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MismatchReason {
    Processor,
    Feature(&'static str),
    /// A generic version older than the first that covers the device.
    Version {
        found: u8,
        since: u8,
    },
}

impl Target {
    /// Checks whether a device runs code for this target, and returns the quality of the match. The
    /// device must have the same processor, or one that this generic processor covers in its
    /// version. An unknown version of a generic processor counts as new enough. The device must
    /// also have the same settings of the features that the code sets.
    ///
    /// # Errors
    /// The reason why the device does not run the code.
    pub fn runs_on(&self, device: &Target) -> Result<Fit, TargetMismatch> {
        let no = |why| TargetMismatch { code: self.clone(), device: device.clone(), why };
        let is_exact = self.processor == device.processor;
        if !is_exact {
            let since = processor::stands_for_since(&self.processor, &device.processor);
            let since = since.ok_or_else(|| no(MismatchReason::Processor))?;
            if let Some(found) = self.generic_version.filter(|found| *found < since) {
                return Err(no(MismatchReason::Version { found, since }));
            }
        }
        let settings =
            [("sramecc", self.sramecc, device.sramecc), ("xnack", self.xnack, device.xnack)];
        let mut features = 0;
        for (name, asked, there) in settings {
            match asked {
                Feature::Any => {}
                _ if asked == there => features += 1,
                _ => return Err(no(MismatchReason::Feature(name))),
            }
        }
        Ok(Fit { is_exact, features })
    }
}

/// Formats "the code object is for gfx942, which gfx90a:sramecc+:xnack- does not run".
impl fmt::Display for TargetMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TargetMismatch { code, device, why } = self;
        write!(f, "the code object is for {code}, which {device} ")?;
        match why {
            MismatchReason::Processor => f.write_str("does not run"),
            MismatchReason::Feature(name) => {
                write!(f, "does not run: its setting of {name} differs")
            }
            MismatchReason::Version { found, since } => {
                write!(f, "runs since version {since}; this is version {found}")
            }
        }
    }
}

impl std::error::Error for TargetMismatch {}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text).unwrap()
    }

    fn runs(code: &str, device: &str) -> bool {
        target(code).runs_on(&target(device)).is_ok()
    }

    #[test]
    fn processors_are_equal_or_covered_by_a_generic_one() {
        for (code, device) in [
            ("gfx90a", "gfx90a:sramecc+:xnack-"),
            ("gfx9-generic", "gfx906:sramecc+:xnack-"),
            ("gfx9-4-generic", "gfx942"),
            ("gfx9-4-generic:sramecc+", "gfx950:sramecc+:xnack-"),
            ("gfx10-1-generic", "gfx1013:xnack-"),
            ("gfx10-3-generic", "gfx1036"),
            ("gfx11-generic", "gfx1153"),
            ("gfx12-generic", "gfx1201"),
            ("gfx9999", "gfx9999"),
        ] {
            assert!(runs(code, device), "{code} on {device}");
        }
        for (code, device) in [
            ("gfx942", "gfx950"),
            ("gfx90a", "gfx90c"),
            ("gfx9-generic", "gfx908"),
            ("gfx9-generic", "gfx90a"),
            ("gfx9-generic", "gfx942"),
            ("gfx11-generic", "gfx1201"),
            ("gfx12-generic", "gfx1250"),
            ("gfx99-generic", "gfx9900"),
            ("gfx906", "gfx9-generic"),
        ] {
            assert!(!runs(code, device), "{code} on {device}");
        }
    }

    #[test]
    fn features_that_are_named_must_be_the_devices() {
        let settings = ["", ":xnack+", ":xnack-"];
        for code in settings {
            for device in settings {
                let [code_id, device_id] = [code, device].map(|setting| format!("gfx90a{setting}"));
                let expected = code.is_empty() || code == device;
                assert_eq!(runs(&code_id, &device_id), expected, "{code_id} on {device_id}");
            }
        }
        assert!(runs("gfx90a:sramecc+", "gfx90a:sramecc+:xnack-"));
        assert!(!runs("gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack-"));
        assert!(!runs("gfx9-4-generic:xnack+", "gfx942:sramecc+:xnack-"));
    }

    #[test]
    fn a_generic_processor_runs_from_the_version_on_that_covers_the_device() {
        let version = |generic_version| Target { generic_version, ..target("gfx11-generic") };
        let device = target("gfx1100");
        for enough in [None, Some(1), Some(2), Some(255)] {
            assert!(version(enough).runs_on(&device).is_ok());
        }
        let error = version(Some(0)).runs_on(&device).unwrap_err().to_string();
        assert!(
            error.ends_with("which gfx1100 runs since version 1; this is version 0"),
            "{error}"
        );
    }

    #[test]
    fn the_exact_processor_is_better_than_a_generic_one_and_more_features_better_than_fewer() {
        let device = target("gfx942:sramecc+:xnack-");
        let codes = [
            "gfx9-4-generic",
            "gfx9-4-generic:xnack-",
            "gfx9-4-generic:sramecc+:xnack-",
            "gfx942",
            "gfx942:xnack-",
            "gfx942:sramecc+:xnack-",
        ];
        let fits = codes.map(|code| target(code).runs_on(&device).unwrap());
        assert!(fits.is_sorted_by(|a, b| a < b && a.score() < b.score()) && fits[0].score() > 0);
    }

    #[test]
    fn the_error_names_both_targets() {
        let error = |code, device| target(code).runs_on(&target(device)).unwrap_err().to_string();
        assert_eq!(
            error("gfx942", "gfx90a:sramecc+:xnack-"),
            "the code object is for gfx942, which gfx90a:sramecc+:xnack- does not run"
        );
        assert_eq!(
            error("gfx90a:xnack+", "gfx90a:sramecc+:xnack-"),
            "the code object is for gfx90a:xnack+, which gfx90a:sramecc+:xnack- does not run: its \
             setting of xnack differs"
        );
    }
}
