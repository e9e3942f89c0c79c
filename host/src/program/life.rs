//! The life of an image: the steps of loading and unloading, in the same order for every backend.

use super::core::{ProgramCore, unloaded};
use super::options::LoadOptions;
use super::suitable;
use super::variant::Variants;
use crate::device::Device;
use crate::device::core::DeviceCore;
use crate::image::{Format, Image};
use crate::profile::{self, FunctionCounters, ImageFacts};
use crate::rundown::Rundown;
use longshore_plugin_api::{
    Device as _, Error, ErrorCode, ImageBytes, Module as _, PoolTracker, ProfileSection, Result,
};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The report of [`Program::unload`](crate::Program::unload): the image's memory-pool tracker and
/// profile.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UnloadReport {
    /// The image's memory-pool tracker, if it has one.
    pub tracker: Option<PoolTracker>,
    /// The image's profile sections, read after its destructors ran. Empty for an image without
    /// instrumentation.
    pub profile: Vec<ProfileSection>,
    /// The file of the profile; `None` if no profile was written.
    pub profile_file: Option<PathBuf>,
}

impl UnloadReport {
    /// Returns the functions of the image with their counters, decoded from
    /// [`UnloadReport::profile`]. The list is empty for an image without instrumentation.
    ///
    /// # Errors
    /// `Unsupported` for an unknown raw version or variant, `InvalidBinary` for sections that do
    /// not match each other.
    pub fn counters(&self) -> Result<Vec<FunctionCounters>> {
        profile::functions(&self.profile)
    }
}

impl ProgramCore {
    /// Chooses the image, opening containers, loads it, calls `prepare` and runs the image's
    /// constructors. The core owns the image, and the device lists the program only afterwards.
    ///
    /// # Errors
    /// `InvalidBinary` if the device accepts neither the image nor an entry of the container;
    /// errors of [`Image::entries`], of the plugin and of `prepare`. After an error nothing stays
    /// loaded.
    pub(crate) fn load(
        device: &Device,
        image: Image,
        options: &LoadOptions,
        prepare: impl FnOnce(&Arc<ProgramCore>) -> Result<()>,
    ) -> Result<Arc<ProgramCore>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let owner = device.core();
        let mut variants = options.variants()?;
        let remote = owner.remote.enter(0).ok_or_else(|| device.closed())?;
        let chosen = suitable::choose(device, &remote, image)?;
        if options.must_be_verified() {
            suitable::check_verified(device, &remote, &chosen.image)?;
        }
        let image = match &chosen.compile_for {
            None => {
                variants = Variants::default();
                chosen.image
            }
            Some(target) => {
                let load = options.jit(&variants, owner.checks_accesses());
                let plugin = owner.plugin.path();
                let code = owner.host.jit.compile(&chosen.image, target, load, plugin);
                code.map_err(|error| {
                    error.context(format_args!("compiling bitcode for device {}", device.name()))
                })?
            }
        };
        let load = || {
            // SAFETY: the core, below, keeps `image` until the module is unloaded; the bytes lie on
            // the heap or in a file mapping, and moving `image` does not move them.
            let bytes = unsafe { ImageBytes::new(image.bytes()) };
            remote.load(bytes, options.loading())
        };
        let module = load().or_else(|error| match error.code() {
            ErrorCode::OutOfResources => {
                device.reclaim()?;
                load()
            }
            _ => Err(error),
        })?;
        let core = Arc::new(ProgramCore {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            module: Rundown::new(module),
            image: Mutex::new(Some(image)),
            variants,
        });
        if let Err(error) = core.begin(prepare) {
            owner.host.table.remove_globals_of(core.id);
            return Err(error);
        }
        owner.programs.lock().push(Arc::clone(&core));
        Ok(core)
    }
}

impl ProgramCore {
    /// Prepares the image and runs its constructors. After an error the image is unloaded.
    fn begin(
        self: &Arc<ProgramCore>,
        prepare: impl FnOnce(&Arc<ProgramCore>) -> Result<()>,
    ) -> Result<()> {
        let mut has_begun = false;
        let begun = prepare(self).and_then(|()| {
            has_begun = true;
            let module = self.module.enter(0).ok_or_else(unloaded)?;
            let ran = module.run_constructors();
            ran.map_err(|error| error.context("running the image's constructors"))
        });
        if begun.is_err()
            && let Some(module) = self.module.take()
        {
            // Constructors that ran may have registered state that only the destructors undo.
            if has_begun {
                note("destructors after failed constructors", module.run_destructors());
            }
            note("unloading after failed constructors", module.unload());
        }
        begun
    }
}

impl DeviceCore {
    /// Unloads a program. An error does not stop the remaining steps.
    ///
    /// # Errors
    /// The first error; `Uninitialized` if the program was unloaded before.
    pub(crate) fn unload(&self, program: &ProgramCore) -> Result<UnloadReport> {
        // Closing the device waits for this guard. A close that has begun unloads the program
        // itself.
        let _open = self.remote.enter(program.id as usize).ok_or_else(unloaded)?;
        self.take_apart(program)
    }

    /// Unloads a program while the device is being closed, when no other call can unload it.
    pub(crate) fn unload_at_close(&self, program: &ProgramCore) -> Result<()> {
        self.take_apart(program).map(drop)
    }

    fn take_apart(&self, program: &ProgramCore) -> Result<UnloadReport> {
        let module = program.module.take().ok_or_else(unloaded)?;
        let mut errors = Errors::default();
        let mut report = UnloadReport::default();

        errors.add("waiting for its queues", self.wait_for_users(program.id));
        self.forget_users(program.id);
        errors.add("running its destructors", module.run_destructors());
        if let Some(tracker) = errors.add("reading its memory-pool tracker", module.pool_tracker())
        {
            self.totals.lock().merge(tracker);
            report.tracker = tracker;
        }
        if let Some(sections) = errors.add("reading its profile", module.profile()) {
            report.profile_file = self.write_profile(program, &sections, &mut errors);
            report.profile = sections;
        }
        self.programs.lock().retain(|core| core.id != program.id);
        self.host.table.remove_globals_of(program.id);
        errors.add("unloading it", module.unload());
        drop(program.image.lock().take());

        errors.first.map_or(Ok(report), Err)
    }

    /// Prints the profile of an instrumented image if the environment requests it, and writes the
    /// profile's file.
    fn write_profile(
        &self,
        program: &ProgramCore,
        sections: &[ProfileSection],
        errors: &mut Errors,
    ) -> Option<PathBuf> {
        if sections.is_empty() {
            return None;
        }
        let image = program.image_facts();
        let environment = &self.host.environment;
        if environment.profile_dump() {
            let what = format!("{}: profile of image {:016x}", self.facts(), image.hash);
            errors.add("printing its profile", profile::print(what, sections));
        }
        let written = profile::write(environment, &image, sections);
        errors.add("writing its profile", written).flatten()
    }
}

impl ProgramCore {
    /// Returns the facts for the name of the image's profile. Reads every byte of the image.
    fn image_facts(&self) -> ImageFacts {
        let image = self.image.lock();
        let bytes = image.as_ref().map_or(&[][..], Image::bytes);
        ImageFacts { hash: profile::hash(bytes), triple: Format::target_triple(bytes) }
    }
}

/// The first of several errors; the later ones are logged.
#[derive(Default)]
struct Errors {
    first: Option<Error>,
}

impl Errors {
    fn add<T>(&mut self, step: &str, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error.context(format_args!("unloading a program, {step}")),
        };
        match &self.first {
            Some(_) => log::error!("{error}"),
            None => self.first = Some(error),
        }
        None
    }
}

fn note(step: &str, result: Result<()>) {
    if let Err(error) = result {
        log::error!("{step}: {error}");
    }
}
