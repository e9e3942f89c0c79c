//! The architectures of packages.

use super::toolchain::GLIBC;
use clap::ValueEnum;
use std::path::PathBuf;

/// An architecture, with the names that others give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Architecture {
    /// Returns the architecture of this machine.
    pub fn native() -> Architecture {
        if cfg!(target_arch = "aarch64") { Architecture::Arm64 } else { Architecture::Amd64 }
    }

    /// Returns Debian's name.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// Returns RPM's name.
    pub(crate) fn rpm(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// Returns the target of the Rust compiler.
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-linux-gnu",
            Architecture::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the prefix of GNU's tools, also Debian's folder of libraries.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-linux-gnu",
            Architecture::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Returns the folder of libraries on Debian, below the prefix.
    pub(crate) fn debian_libraries(self) -> &'static str {
        match self {
            Architecture::Amd64 => "lib/x86_64-linux-gnu",
            Architecture::Arm64 => "lib/aarch64-linux-gnu",
        }
    }

    /// Returns zig's target, which includes the version of glibc.
    pub(crate) fn zig(self) -> String {
        format!("{}.{GLIBC}", self.triplet())
    }

    /// Returns the name of a variable that cargo or the crate `cc` reads for this target.
    pub(crate) fn variable(self, before: &str, after: &str) -> String {
        let target = self.rust().replace('-', "_");
        format!(
            "{before}{}{after}",
            if before == "CARGO_TARGET_" { target.to_uppercase() } else { target }
        )
    }

    /// Returns the folder below cargo's target folder with an optimized build.
    pub(crate) fn release(self) -> PathBuf {
        PathBuf::from(self.rust()).join("release")
    }
}
