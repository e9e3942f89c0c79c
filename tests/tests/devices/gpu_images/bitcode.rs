//! LLVM bitcode that the host compiles for the device.

use super::{SOURCE, Setting};
use longshore::{Device, Environment, ErrorCode, ImageKind, OffloadImage, write_offload_binary};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::{self, Doubled};
use longshore_tests::world::executor;

/// A backend whose device compiles bitcode.
pub(crate) struct Target<'a> {
    pub(crate) of: &'a Doubled,
    pub(crate) triple: &'static str,
    /// Options of the compiler for the device's processor.
    pub(crate) options: &'a [&'a str],
}

impl Target<'_> {
    /// Returns bitcode of a source, or `None` without the compiler.
    pub(crate) fn bitcode(&self, setting: &Setting<'_>, text: &str) -> Option<Vec<u8>> {
        let target = format!("--target={}", self.triple);
        let options = [&[target.as_str()], self.options].concat();
        doubled::bitcode(&setting.source(text), &options)
    }

    /// Opens the device with an empty cache of compiled images in the setting's folder.
    fn device(&self, setting: &Setting<'_>) -> Device {
        let environment = Environment::from_process()
            .with("LONGSHORE_JIT_CACHE", setting.folder.join("jit"))
            .with("LONGSHORE_EXECUTOR", executor());
        let host = self.of.host_with(environment).unwrap();
        host.device(&format!("{}:{}", setting.device.backend(), setting.device.index())).unwrap()
    }

    /// Compiles bitcode of a source by loading it, with a twin, and returns the code.
    fn compiled(&self, setting: &Setting<'_>, device: &Device, text: &str) -> Option<Vec<u8>> {
        let folder = setting.folder.join("jit");
        let _ = std::fs::remove_dir_all(&folder);
        let image = self.bitcode(setting, text)?;
        // The double has no twin yet, and refuses only the launches.
        let first = device.load_trusted(&image).map(drop);
        let stored: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("nothing was compiled ({error}): {first:?}"))
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(stored.len(), 1, "{first:?}");
        let code = std::fs::read(&stored[0]).unwrap().split_off(HEADER_BYTES);
        doubled::twin(&code, &setting.source(text), &[]);
        Some(code)
    }

    /// Checks that bitcode runs on the device, and returns the code that the host has made.
    pub(crate) fn runs(&self, setting: &Setting<'_>) -> Option<Vec<u8>> {
        let device = self.device(setting);
        let code = self.compiled(setting, &device, SOURCE)?;
        let on = Setting { device: &device, arch: setting.arch.clone(), ..*setting };
        let bitcode = self.bitcode(setting, SOURCE)?;
        on.runs(&bitcode, 5);
        // Code for the device precedes bitcode for it.
        let other = SOURCE.replace("= 5", "= 100");
        let own = setting.image(&other)?;
        let entry = |bytes, kind| {
            OffloadImage::new(bytes)
                .with_image_kind(kind)
                .with_triple(self.triple)
                .with_arch(&setting.arch)
        };
        let (bitcode_entry, own) =
            (entry(&bitcode, ImageKind::Bitcode), entry(&own, ImageKind::None));
        on.runs(&write_offload_binary(&[bitcode_entry]), 5);
        on.runs(&write_offload_binary(&[bitcode_entry, own]), 100);
        device.close().unwrap();
        Some(code)
    }

    /// Checks that bitcode for another target is refused.
    pub(crate) fn refuses_others(&self, setting: &Setting<'_>) {
        let host = format!("--target={}-unknown-linux-gnu", std::env::consts::ARCH);
        let Some(image) = doubled::bitcode(&setting.source(""), &[&host]) else { return };
        let error = setting.device.load_trusted(&image).err().unwrap();
        assert_eq!(error.code(), ErrorCode::InvalidBinary, "{error}");
        assert!(error.message().contains(self.triple), "{error}");
    }
}

/// Bytes before the code in a cached file: magic number, key, length and checksum.
const HEADER_BYTES: usize = 16 + 32 + 12;
