//! `longshore cc`: compiles kernels for several targets into one file.
//!
//! The steps are the body of [`Cc::execute`]. Module [`build`] makes one image, and [`flags`] holds
//! the options that each version of clang needs for it. Function [`arguments`] runs before the
//! command line is parsed, and marks clang's options as such.

mod build;
mod clang;
mod crash;
mod flags;
mod loops;
mod options;
mod output;
mod profile;
mod source;
mod step;
mod target;
mod workspace;

pub(crate) use options::arguments;

use crate::failure::{Exit, Failure};
use crate::path;
use build::{Build, Job};
use clang::Compilers;
use clap::Args;
use longshore::{Environment, OffloadImage, write_offload_binary};
use source::{Language, Source};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use step::{Diagnostics, in_parallel};
use target::Target;
use workspace::Workspace;

const AFTER_CC_HELP: &str = "\
Targets:
  host, x86_64, aarch64   All CPUs of this machine's kind, or of the named kind. With :CPU a level
                          or a CPU that clang's -march or -mcpu knows, such as x86_64:x86-64-v3,
                          or :native for this machine's own CPU
  nvptx64:sm_90           An NVIDIA GPU. The image is PTX, compiled by the driver for this GPU or a
                          later one
  amdgcn:gfx942           An AMD GPU, with features such as amdgcn:gfx90a:sramecc+:xnack-

Options of clang that need no `--` before them: -O -g -I -D -U -W -w -f -m -std= -include -isystem
-iquote -idirafter -imacros -pedantic. The default of -O is -O3. Kernels include
<longshore_device.h>, which clang finds without -I.

Examples:
  longshore cc saxpy.c
  longshore cc saxpy.c --target x86_64:x86-64-v3,x86_64,nvptx64:sm_90,amdgcn:gfx942 -o saxpy.img
  longshore cc main.cpp parts.c --target nvptx64:sm_80 --raw -o main.ptx -std=c++20 -DN=4
  longshore run saxpy.img --list";

/// Compile kernels in C or C++ with clang, for several targets into one file
#[derive(Args)]
#[command(after_help = AFTER_CC_HELP)]
pub(crate) struct Cc {
    /// Sources in C (.c) or C++ (.cc, .cpp, .cxx); the sources of one image see each other's
    /// functions
    #[arg(value_name = "FILE", required_unless_present = "header")]
    files: Vec<PathBuf>,
    /// Targets to compile for, separated by commas; may be repeated
    #[arg(long, short, value_name = "TARGETS", value_delimiter = ',', default_value = "host",
          value_parser = Target::parse)]
    target: Vec<Target>,
    /// The file to write [default: the first FILE's name with .img]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the image itself, not a container of images; only for a single target
    #[arg(long)]
    raw: bool,
    /// Make machine code for NVIDIA GPUs with ptxas, instead of PTX
    #[arg(long)]
    cubin: bool,
    /// The language of all sources
    #[arg(short = 'x', value_name = "LANGUAGE")]
    language: Option<Language>,
    /// The compiler [default: LONGSHORE_CLANG, else the newest clang or clang-NN on PATH]
    #[arg(long, value_name = "PATH")]
    clang: Option<PathBuf>,
    /// Write the header for kernels into a folder, for editors and for direct calls of clang
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "output", "raw", "cubin"])]
    header: Option<PathBuf>,
    /// Options of clang
    #[arg(last = true, value_name = "CLANG OPTIONS")]
    options: Vec<OsString>,
}

impl Cc {
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        if let Some(folder) = &self.header {
            let file = folder.join(workspace::HEADER_NAME);
            output::check(&file)?;
            return output::write(&file, workspace::HEADER.as_bytes());
        }
        options::check(&self.options)?;
        self.check_targets()?;
        let sources = self.files.iter().map(|file| Source::new(file, self.language));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let output = self.output()?;
        output::check(&output)?;
        let bytes = self.images(&sources)?;
        output::write(&output, &bytes)
    }

    fn check_targets(&self) -> Result<(), Failure> {
        let usage = |message: String| Err(Failure::new(Exit::Usage, message));
        let mut seen: Vec<&Target> = Vec::new();
        for target in &self.target {
            if seen.contains(&target) {
                return usage(format!("--target names {target} twice; expected each target once"));
            }
            seen.push(target);
        }
        if self.raw && seen.len() > 1 {
            return usage(format!("--raw expects one target, but --target names {}", seen.len()));
        }
        if self.cubin && !seen.iter().any(|target| matches!(target, Target::Nvptx(_))) {
            return usage(
                "--cubin expects a target nvptx64:sm_NN, such as nvptx64:sm_90".to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the file to write; fails if one of the sources is this file.
    fn output(&self) -> Result<PathBuf, Failure> {
        let extension = match self.raw {
            true => self.target[0].extension(self.cubin),
            false => "img",
        };
        let named = || self.files[0].with_extension(extension).file_name().map(PathBuf::from);
        let output = self.output.clone().or_else(named).unwrap_or_else(|| "a.img".into());
        let real = std::fs::canonicalize(&output).ok();
        let is_output =
            |file: &&PathBuf| real.is_some() && std::fs::canonicalize(file).ok() == real;
        if let Some(source) = self.files.iter().find(is_output) {
            let message = format!("the output '{}' would replace a source", source.display());
            return Err(Failure::new(Exit::Usage, message).or_hint("name another file with -o"));
        }
        Ok(output)
    }

    /// Compiles for all targets, and prints clang's diagnostics. Blocks.
    fn images(&self, sources: &[Source]) -> Result<Vec<u8>, Failure> {
        let workspace = Workspace::new()?;
        let diagnostics = Diagnostics::default();
        let ptxas = self.cubin.then(ptxas).transpose()?;
        let options = self.clang_options();
        let job = Job {
            sources,
            options: &options,
            ptxas: ptxas.as_deref(),
            folder: workspace.path(),
            include: &workspace.include(),
            diagnostics: &diagnostics,
        };
        let builds = self.builds(&job)?;
        let images = run(&builds, sources.len());
        let printed = diagnostics.shown(&self.target);
        // A failed write to standard error cannot be reported anywhere.
        let _ = std::io::stderr().write_all(printed.as_bytes());
        self.pack(&builds, images).map_err(|failure| explain(failure, &printed, &self.target))
    }

    fn clang_options(&self) -> Vec<OsString> {
        let mut options = self.options.clone();
        if profile::adds_atomic_counters(&options) {
            log::info!(
                "adding -fprofile-update=atomic, because kernels run in parallel; another \
                 -fprofile-update replaces it"
            );
        }
        if std::io::stderr().is_terminal() {
            options.insert(0, "-fcolor-diagnostics".into());
        }
        options
    }

    fn builds<'a>(&'a self, job: &'a Job<'a>) -> Result<Vec<Build<'a>>, Failure> {
        let given = self.clang.clone().or_else(|| Environment::from_process().clang());
        let mut compilers = Compilers::new(given);
        let build = |(index, target)| Build::new(job, target, &*compilers.choose(target)?, index);
        self.target.iter().enumerate().map(build).collect()
    }

    fn pack(
        &self,
        builds: &[Build<'_>],
        images: Vec<Result<Vec<u8>, String>>,
    ) -> Result<Vec<u8>, Failure> {
        let named = builds.iter().zip(&images);
        let failed = named.filter_map(|(build, image)| Some((build.target, image.as_ref().err()?)));
        let failed = grouped(failed);
        if !failed.is_empty() {
            return Err(Failure::new(Exit::Runtime, failed));
        }
        let images: Vec<Vec<u8>> = images.into_iter().flatten().collect();
        if self.raw {
            return Ok(images.concat());
        }
        let entries = builds.iter().zip(&images).map(|(build, bytes)| {
            OffloadImage::new(bytes)
                .with_image_kind(build.target.image_kind(self.cubin))
                .with_triple(build.target.triple())
                .with_arch(build.target.architecture())
        });
        Ok(write_offload_binary(&entries.collect::<Vec<_>>()))
    }
}

/// Compiles all sources for all targets, then makes one image for each target. Blocks.
fn run(builds: &[Build<'_>], sources: usize) -> Vec<Result<Vec<u8>, String>> {
    let pairs: Vec<_> =
        builds.iter().flat_map(|build| (0..sources).map(move |source| (build, source))).collect();
    let compiled = in_parallel(&pairs, |(build, source)| build.compile(*source));
    let per_target: Vec<_> = builds.iter().zip(compiled.chunks(sources)).collect();
    in_parallel(&per_target, |(build, compiled)| {
        let errors: Vec<&str> =
            compiled.iter().filter_map(|file| file.as_ref().err()).map(String::as_str).collect();
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        build.finish(&compiled.iter().flatten().cloned().collect::<Vec<_>>())
    })
}

/// Adds a hint if clang did not find a header or a function, and a target is a GPU, which has no C
/// library.
fn explain(failure: Failure, printed: &str, targets: &[Target]) -> Failure {
    const NO_FUNCTION: [&str; 4] = [
        "no libcall available",
        "Undefined external symbol",
        "error: undefined symbol",
        "error: undefined hidden symbol",
    ];
    if !targets.iter().any(Target::is_gpu) {
        return failure;
    }
    if printed.contains("file not found") {
        return failure.or_hint(
            "for GPUs there is no C library: use only clang's own headers, such as stdint.h, and \
             headers in -I folders; exclude other headers by #if defined(__NVPTX__) || \
             defined(__AMDGCN__)",
        );
    }
    if NO_FUNCTION.iter().any(|text| printed.contains(text)) {
        return failure.or_hint(
            "for GPUs there is no C library: define exp, log, sin and similar functions in the \
             sources, or use operations of the GPU, such as __nvvm_ex2_approx_f(x) for exp2f(x) on \
             NVIDIA, and __builtin_expf(x) on AMD; docs/device-code.md lists them",
        );
    }
    failure
}

/// Returns one line for each reason: "x86_64, aarch64: compiling 'k.c' failed".
fn grouped<'a>(failed: impl Iterator<Item = (&'a Target, &'a String)>) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (target, why) in failed {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, targets)) => targets.push(target.to_string()),
            None => groups.push((why, vec![target.to_string()])),
        }
    }
    let lines = groups.iter().map(|(why, targets)| format!("{}: {why}", targets.join(", ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the path of NVIDIA's assembler, on PATH or in its toolkit's folder.
fn ptxas() -> Result<PathBuf, Failure> {
    let installed = Path::new("/usr/local/cuda/bin/ptxas");
    let found = path::find("ptxas").or_else(|| installed.is_file().then(|| installed.to_owned()));
    found.ok_or_else(|| {
        let message = "ptxas, which --cubin needs, is neither on PATH nor in /usr/local/cuda/bin";
        Failure::new(Exit::NothingFound, message)
            .or_hint("install NVIDIA's CUDA toolkit, or leave out --cubin: the driver compiles PTX")
    })
}
