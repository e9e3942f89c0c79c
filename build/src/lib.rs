//! # Kernels in build scripts
//!
//! This crate compiles kernels when a program is built, and writes a typed Rust function for each
//! kernel. The build needs clang, and for some targets lld and `libLLVM` of clang's version; the
//! program needs nothing beside the crate `longshore`.
//!
//! A kernel, `kernels/saxpy.c`:
//!
//! ```c
//! #include <longshore_device.h>
//!
//! LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
//!   uint64_t i = longshore_global_id(0);
//!   if (i < n) y[i] += a * x[i];
//! }
//! ```
//!
//! The build script, `build.rs`, with `longshore-build` among the `[build-dependencies]`:
//!
//! ```no_run
//! fn main() -> Result<(), longshore_build::Error> {
//!     longshore_build::Kernels::new("saxpy").with_source("kernels/saxpy.c").compile()
//! }
//! ```
//!
//! The program, with `longshore` and its feature `host` among the `[dependencies]`:
//!
//! ```ignore
//! use longshore::{Grid, Host};
//!
//! mod kernels {
//!     longshore::include_kernels!("saxpy");
//! }
//!
//! fn main() -> longshore::Result<()> {
//!     let device = Host::new()?.device_for(&kernels::Kernels::image())?;
//!     let queue = device.queue()?;
//!     let x = device.buffer_of(&queue, &[1.0f32; 1024])?;
//!     let y = device.buffer_of(&queue, &[2.0f32; 1024])?;
//!     // SAFETY: saxpy.c contains the kernel alone, which stays within 1024 elements.
//!     unsafe {
//!         let kernels = kernels::Kernels::load(&device)?;
//!         kernels.saxpy(&queue, Grid::linear(8, 128), 1024, 2.5, &x, &y)?;
//!     }
//!     println!("{}", y.to_vec(&queue)?[0]);
//!     Ok(())
//! }
//! ```
//!
//! # Types of arguments
//!
//! The functions take their arguments as the images describe them:
//!
//! | parameter | argument |
//! | --- | --- |
//! | integer or floating-point number | the Rust number of that size and kind |
//! | pointer to numbers | [`PointerTo`] of the number: a buffer of numbers or of arrays of them |
//! | pointer to other types | any buffer |
//! | structure, or a number that Rust lacks | any [`Argument`], whose size the launch checks |
//!
//! Kernels that have a description get a function: kernels of `LONGSHORE_KERNEL`, and of CUDA and
//! HIP. Kernels of more than 16 arguments get none, with a warning.
//!
//! Images for CPUs and AMD GPUs have descriptions. If PTX and SPIR-V are the only targets, the
//! sources are also compiled for a CPU, and must compile there: for CUDA and HIP with `libLLVM` of
//! clang's version. It is the CPU that the program is built for, or the build machine's if that is
//! neither x86-64 nor AArch64. The program does not contain this image.
//!
//! [`PointerTo`]: https://docs.rs/longshore/latest/longshore/trait.PointerTo.html
//! [`Argument`]: https://docs.rs/longshore/latest/longshore/trait.Argument.html

mod descriptions;
mod error;
mod generate;
mod names;
mod warnings;

pub use error::Error;
pub use longshore_cc::Language;

use descriptions::Described;
use longshore_cc::{Compilation, Target, TargetImage};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The kernels of some sources, to be compiled by a build script. The crate's page has an example.
#[derive(Clone, Debug)]
pub struct Kernels {
    name: String,
    sources: Vec<PathBuf>,
    targets: String,
    language: Option<Language>,
    instances: Vec<String>,
    options: Vec<OsString>,
    clang: Option<PathBuf>,
}

impl Kernels {
    /// Creates kernels under the name for `longshore::include_kernels!`, for the CPU that the
    /// program is built for.
    pub fn new(name: impl Into<String>) -> Kernels {
        Kernels {
            name: name.into(),
            sources: Vec::new(),
            targets: "host".to_owned(),
            language: None,
            instances: Vec::new(),
            options: Vec::new(),
            clang: None,
        }
    }

    /// Adds a source in C, C++, CUDA or HIP, below the package's folder. The sources see each
    /// other's functions.
    #[must_use]
    pub fn with_source(mut self, file: impl Into<PathBuf>) -> Kernels {
        self.sources.push(file.into());
        self
    }

    /// Sets the targets, separated by commas, in place of "host": "host,nvptx64:sm_80,spirv".
    /// `longshore cc --help` has the grammar. "host" is the CPU that the program is built for.
    #[must_use]
    pub fn with_targets(mut self, targets: impl Into<String>) -> Kernels {
        self.targets = targets.into();
        self
    }

    /// Sets the language of all sources. By default the extension of each file sets it.
    #[must_use]
    pub fn with_language(mut self, language: Language) -> Kernels {
        self.language = Some(language);
        self
    }

    /// Adds a kernel to make of a template in CUDA or HIP: "scale<float, 256>".
    #[must_use]
    pub fn with_instance(mut self, kernel: impl Into<String>) -> Kernels {
        self.instances.push(kernel.into());
        self
    }

    /// Adds an option of clang: "-DN=4". The default of `-O` is `-O3`.
    #[must_use]
    pub fn with_option(mut self, option: impl Into<OsString>) -> Kernels {
        self.options.push(option.into());
        self
    }

    /// Sets the compiler. By default it is `LONGSHORE_CLANG`, or the newest clang on PATH.
    #[must_use]
    pub fn with_clang(mut self, clang: impl Into<PathBuf>) -> Kernels {
        self.clang = Some(clang.into());
        self
    }

    /// Compiles the kernels, and writes their functions into the build script's `OUT_DIR`. Prints
    /// the compiler's warnings, and the files that cause another run of the script. Blocks.
    ///
    /// A header that a source in CUDA or HIP includes may be missing. Until it exists, Cargo runs
    /// the script in every build.
    ///
    /// # Errors
    /// A missing variable of Cargo, an invalid name or target, a missing compiler, a failed
    /// compilation, or kernels without descriptions.
    pub fn compile(&self) -> Result<(), Error> {
        let folder = PathBuf::from(variable("OUT_DIR")?);
        let architecture = variable("CARGO_CFG_TARGET_ARCH")?;
        warnings::log();
        println!("cargo::rerun-if-env-changed=LONGSHORE_CLANG");
        println!("cargo::rerun-if-env-changed=PATH");
        self.compile_into(&folder, &architecture)
    }

    fn compile_into(&self, folder: &Path, architecture: &str) -> Result<(), Error> {
        names::check(&self.name)?;
        let targets = self.parsed_targets(architecture)?;
        let has_cpu = targets.iter().any(|target| !target.is_gpu());
        let compilation = self.compilation(targets);
        for file in compilation.dependencies()? {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        let (images, diagnostics) = run(&compilation)?;
        // Cargo shows the diagnostics of success as warnings.
        warnings::print(&diagnostics);
        let described = match descriptions::image_descriptions(&images)? {
            found if has_cpu || !found.is_empty() => found,
            // PTX and SPIR-V are described by the image for a CPU.
            _ => self.described_for_cpu(architecture)?,
        };
        if described.is_empty() {
            return Err(Error::new(format!(
                "'{}' has no kernel with a description of its arguments; expected kernels of \
                 LONGSHORE_KERNEL, CUDA or HIP",
                self.name
            )));
        }
        let text = generate::module(&self.name, &images, &described);
        for (index, image) in images.iter().enumerate() {
            write(&folder.join(generate::image_file(&self.name, index)), &image.bytes)?;
        }
        write(&folder.join(format!("{}.kernels.rs", self.name)), text.as_bytes())
    }

    /// Compiles for a CPU, and returns the descriptions of its kernels. The images have caused the
    /// same warnings already. Blocks.
    fn described_for_cpu(&self, architecture: &str) -> Result<Vec<Described>, Error> {
        // The program may be for another kind of CPU: numbers have the same sizes there.
        let cpu = Target::parse(architecture).or_else(|_| Target::parse("host"));
        let cpu = cpu.map_err(Error::new)?;
        let about = format!("describing the arguments for the CPU '{cpu}'");
        let made = warnings::without(|| run(&self.compilation(vec![cpu])));
        made.and_then(|(images, _)| descriptions::image_descriptions(&images))
            .map_err(|error| Error::new(format!("{about}: {error}")))
    }

    fn parsed_targets(&self, architecture: &str) -> Result<Vec<Target>, Error> {
        let own = |target: &str| match target.split_once(':') {
            None if target == "host" => architecture.to_owned(),
            Some(("host", cpu)) => format!("{architecture}:{cpu}"),
            _ => target.to_owned(),
        };
        let targets = self.targets.split(',').map(|target| {
            let target = target.trim();
            let parsed = Target::parse(&own(target));
            parsed.map_err(|why| Error::new(format!("the target '{target}' is not valid: {why}")))
        });
        targets.collect()
    }

    fn compilation(&self, targets: Vec<Target>) -> Compilation {
        let named = std::env::var_os("LONGSHORE_CLANG").filter(|path| !path.is_empty());
        Compilation::new(self.sources.clone(), targets)
            .with_language(self.language)
            .with_kernels(self.instances.clone())
            .with_options(self.options.clone())
            .with_clang(self.clang.clone().or_else(|| named.map(PathBuf::from)))
    }
}

/// Compiles, and returns the images with the compiler's diagnostics.
fn run(compilation: &Compilation) -> Result<(Vec<TargetImage>, String), Error> {
    let made = compilation.run();
    match made.images {
        Ok(images) => Ok((images, made.diagnostics)),
        Err(failure) => Err(Error::new(format!("{}{failure}", made.diagnostics))),
    }
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).map_err(|_| {
        let why = "Cargo sets it for build scripts, and only they can call this function";
        Error::new(format!("the variable {name} is not set: {why}"))
    })
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(file, bytes)
        .map_err(|error| Error::new(format!("cannot write '{}': {error}", file.display())))
}

#[cfg(test)]
mod tests;
