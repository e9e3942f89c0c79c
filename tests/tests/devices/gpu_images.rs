//! Statements that the documents of all GPU backends share, on the first device of a backend: one
//! trial for each statement.

pub(crate) mod bitcode;
pub(crate) mod launches;
pub(crate) mod life;
pub(crate) mod messages;
pub(crate) mod profiles;

use libtest_mimic::Trial;
use longshore::{Device, DeviceInfo, Environment, Grid};
use longshore_conformance::DeviceName;
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::Doubled;
use std::path::{Path, PathBuf};

/// A statement, and the function that checks it.
pub(crate) type Check = (&'static str, fn(&Setting<'_>));

/// The arguments of a check.
pub(crate) struct Setting<'a> {
    pub(crate) device: &'a Device,
    /// Architecture of the device's code, such as "sm_90" or "gfx90a".
    pub(crate) arch: String,
    /// An empty temporary folder. Profiles are written to it.
    pub(crate) folder: &'a Path,
    compiler: Compiler,
}

/// Functions that make images for a backend.
#[derive(Clone, Copy)]
pub(crate) struct Compiler {
    /// A function that compiles a source for an architecture, with its twin for the double. It
    /// returns `None` without the tool.
    pub(crate) compile: fn(&Path, &str, &[&str]) -> Option<Vec<u8>>,
    /// A function that returns the other forms of an image for an architecture, as far as their
    /// tools are installed.
    pub(crate) forms: fn(&Setting<'_>, &str) -> Vec<Vec<u8>>,
}

/// The source of a program for [`Setting::runs`].
pub(crate) const SOURCE: &str = "
LONGSHORE_GLOBAL uint64_t counter = 5;
LONGSHORE_CONSTANT float weights[3] = {0.25f, 0.5f, 0.25f};
LONGSHORE_KERNEL(add, (uint64_t more)) { (void)longshore_self; longshore_atomic_add(&counter, more); }
LONGSHORE_KERNEL(weigh, (float *out)) { *out = weights[1]; }
";

/// Lists these checks and the common checks of all backends, for the first device of a backend.
pub(crate) fn trials(of: &'static Doubled, compiler: Compiler, checks: &[Check]) -> Vec<Trial> {
    let devices = of.devices().unwrap_or_else(|error| panic!("{error:?}"));
    let own = [life::CHECKS, launches::CHECKS, messages::CHECKS].concat();
    let checks = [checks, &own].concat();
    let trials = devices
        .first()
        .into_iter()
        .flat_map(|device| checks.iter().map(|check| trial(of, device, compiler, *check)));
    trials.collect()
}

fn trial(
    of: &'static Doubled,
    device: &DeviceName,
    compiler: Compiler,
    (name, check): Check,
) -> Trial {
    let selector = format!("{}:{}", device.backend, device.index);
    Trial::test(format!("{selector}: {name}"), move || {
        let folder = tempfile::tempdir()?;
        let environment = Environment::from_process()
            .with("LONGSHORE_PROFILE_FILE", folder.path().join("profile.profraw"));
        let host = of.host_with(environment)?;
        let device = host.device(&selector)?;
        let arch = device.info(DeviceInfo::Architecture)?;
        let arch = arch.as_text().expect("it is text").to_owned();
        check(&Setting { device: &device, arch, folder: folder.path(), compiler });
        let report = device.close()?;
        assert!(report.leaks.is_empty(), "{:?}", report.leaks);
        Ok(())
    })
}

impl Setting<'_> {
    /// Writes a C source into a file, and returns the file.
    pub(crate) fn source(&self, text: &str) -> PathBuf {
        let path = self.folder.join("source.c");
        std::fs::write(&path, format!("#include \"longshore_device.h\"\n{text}")).unwrap();
        path
    }

    /// Returns the usual image of a source for the device, with its twin, or `None` without the
    /// compiler.
    pub(crate) fn image(&self, text: &str) -> Option<Vec<u8>> {
        (self.compiler.compile)(&self.source(text), &self.arch, &[])
    }

    /// Returns all forms of a source for the device, with their twins, as far as their tools are
    /// installed.
    pub(crate) fn forms(&self, text: &str) -> Vec<Vec<u8>> {
        (self.compiler.forms)(self, text)
    }

    /// Loads an image of [`SOURCE`], launches its kernels, and checks their results.
    pub(crate) fn runs(&self, image: &[u8], start: u64) {
        let device = self.device;
        let queue = device.queue().unwrap();
        let program = device.load_trusted(image).unwrap();
        let (add, weigh) = (program.kernel("add").unwrap(), program.kernel("weigh").unwrap());
        let out = device.buffer::<f32>(&queue, 1).unwrap();
        // SAFETY: `add` takes a number, `weigh` a pointer to a number.
        unsafe {
            queue.launch(&add, Grid::default(), (7u64,)).unwrap();
            queue.launch(&weigh, Grid::default(), (&out,)).unwrap();
        }
        assert_eq!(out.to_vec(&queue).unwrap(), [0.5]);
        assert_eq!(program.global("counter").unwrap().read::<u64>(&queue).unwrap(), start + 7);
        drop((add, weigh));
        program.unload().unwrap();
    }
}
