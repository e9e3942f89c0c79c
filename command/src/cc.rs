//! `longshore cc`: compiles kernels for several targets into one file.
//!
//! The steps are the body of [`Cc::execute`]. Module [`build`] makes one image, and [`flags`] holds
//! the options that each version of clang needs for it. Function [`arguments`] runs before the
//! command line is parsed, and marks clang's options as such.

mod build;
mod checks;
mod clang;
mod crash;
mod cuda;
mod flags;
mod headers;
mod loops;
mod options;
mod output;
mod profile;
mod source;
mod step;
mod target;
mod undefined;
mod workspace;

pub(crate) use options::arguments;

use crate::failure::{Exit, Failure};
use crate::path;
use build::{Build, Job};
use clang::Compilers;
use clap::Args;
use cuda::{Keywords, Reduced};
use longshore::{Environment, OffloadImage, write_offload_binary};
use source::{Language, Source};
use std::cell::RefCell;
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
  spirv                   A SPIR-V module for any device of the Vulkan backend, made by libLLVM of
                          clang's version

Options of clang that need no `--` before them: -O -g -I -D -U -W -w -f -m -std= -include -isystem
-iquote -idirafter -imacros -pedantic. The default of -O is -O3. Kernels include
<longshore_device.h>, which clang finds without -I.

Examples:
  longshore cc saxpy.c
  longshore cc saxpy.c --target x86_64:x86-64-v3,x86_64,nvptx64:sm_90,amdgcn:gfx942 -o saxpy.img
  longshore cc main.cpp parts.c --target nvptx64:sm_80 --raw -o main.ptx -std=c++20 -DN=4
  longshore run saxpy.img --list";

/// Compile kernels in C, C++, CUDA or HIP with clang, for several targets into one file
#[derive(Args)]
#[command(after_help = AFTER_CC_HELP)]
pub(crate) struct Cc {
    /// Sources in C (.c), C++ (.cc, .cpp, .cxx), CUDA (.cu) or HIP (.hip); the sources of one image
    /// see each other's functions
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
    /// Add checks of memory accesses, for `longshore run --check`; only for CPUs
    #[arg(long)]
    check: bool,
    /// A kernel to make of a template in CUDA or HIP, such as 'k<float, 256>'; may be repeated
    #[arg(long, value_name = "NAME")]
    kernel: Vec<String>,
    /// The language of all sources
    #[arg(short = 'x', value_name = "LANGUAGE")]
    language: Option<Language>,
    /// The compiler [default: LONGSHORE_CLANG, else the newest clang or clang-NN on PATH]
    #[arg(long, value_name = "PATH")]
    clang: Option<PathBuf>,
    /// Write the headers for kernels into a folder, for editors and for direct calls of clang
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "output", "raw", "cubin"])]
    header: Option<PathBuf>,
    /// Options of clang
    #[arg(last = true, value_name = "CLANG OPTIONS")]
    options: Vec<OsString>,
}

impl Cc {
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        if let Some(folder) = &self.header {
            return write_headers(folder);
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
        if self.check
            && let Some(target) = seen.iter().find(|target| target.is_gpu())
        {
            return usage(format!("--check expects targets that are CPUs, not {target}"));
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
        let named = self.with_kernels(sources, workspace.path())?;
        let first = self.attempt(&named, &workspace)?;
        let has_kernels = sources.iter().any(|source| source.language.has_kernels());
        let (result, printed) = match first {
            (Err(_), _) if has_kernels => match self.without_host(&named, &workspace)? {
                Some(reduced) => self.attempt(&reduced, &workspace)?,
                None => first,
            },
            first => first,
        };
        // A failed write to standard error cannot be reported anywhere.
        let _ = std::io::stderr().write_all(printed.as_bytes());
        result.map_err(|failure| match sources.iter().find(|source| cuda::is_misnamed(source)) {
            Some(source) => failure.or_hint(format!(
                "'{}' has kernels of CUDA or HIP: set the language with -x cuda or -x hip",
                source.shown.display()
            )),
            None => explain(failure, &printed, &self.target),
        })
    }

    /// Compiles for all targets. Returns the result, and clang's diagnostics. Blocks.
    fn attempt(
        &self,
        sources: &[Source],
        workspace: &Workspace,
    ) -> Result<(Result<Vec<u8>, Failure>, String), Failure> {
        let diagnostics = Diagnostics::default();
        let ptxas = self.cubin.then(ptxas).transpose()?;
        let options = self.clang_options();
        let job = Job {
            sources,
            options: &options,
            check: self.check,
            ptxas: ptxas.as_deref(),
            folder: workspace.path(),
            include: &workspace.include(),
            diagnostics: &diagnostics,
        };
        let builds = self.builds(&job)?;
        let images = run(&builds, sources.len());
        Ok((self.pack(&builds, images), diagnostics.shown(&self.target)))
    }

    /// Returns the sources without the parts of the host that clang refuses; `None` if that does
    /// not help. Blocks.
    fn without_host(
        &self,
        sources: &[Source],
        workspace: &Workspace,
    ) -> Result<Option<Vec<Source>>, Failure> {
        let mut result = sources.to_vec();
        let mut helps = false;
        let is_of_user =
            |file: &Path| !file.starts_with("/usr") && !file.starts_with(workspace.path());
        for (index, source) in sources.iter().enumerate() {
            let Ok(text) = std::fs::read(&source.shown) else { continue };
            let text = String::from_utf8_lossy(&text);
            let is_named = source.file != source.shown;
            let names: &[String] = if is_named { &self.kernel } else { &[] };
            let name = source.shown.to_string_lossy();
            let keywords = RefCell::new(Keywords::default());
            let copy = |reduced: &Reduced, names: &[String]| {
                let keywords = keywords.borrow();
                cuda::rewritten(source, Some((reduced, &keywords)), names, workspace.path())
            };
            let errors = |reduced: &Reduced| loop {
                let errors = self.errors(&copy(reduced, names).ok()?, workspace)?;
                if !keywords.borrow_mut().add(&errors, is_of_user) {
                    break Some(errors);
                }
            };
            let missing_headers = |reduced: &Reduced| {
                let copied = copy(reduced, names).ok();
                copied.map_or_else(Vec::new, |it| self.missing_headers(&it, workspace))
            };
            let reduced = cuda::reduce(&text, &name, is_of_user, errors, missing_headers);
            let whole = || {
                let mut whole = Reduced::default();
                whole.texts.insert(name.to_string(), text.to_string());
                whole
            };
            let lacks_keywords = !keywords.borrow().is_empty();
            let reduced = reduced.or_else(|| lacks_keywords.then(whole));
            let Some(reduced) = reduced else { continue };
            warn_of(&reduced, &name);
            let launched = reduced.launched.iter().filter(|it| !names.contains(it)).cloned();
            let wanted = [names, &launched.collect::<Vec<_>>()].concat();
            result[index] = copy(&reduced, &wanted)?;
            if wanted.len() > names.len()
                && let Some(refused) = self.errors(&result[index], workspace)
            {
                for kernel in cuda::overloaded(&wanted, &refused) {
                    log::warn!(
                        "'{name}': left out, because several kernels have its name: {kernel}. \
                         --kernel '(void (*)(PARAMETERS)){kernel}' makes one of them"
                    );
                }
                let accepted = cuda::accepted(&wanted, &refused).into_iter();
                let launched: Vec<String> = accepted.filter(|it| !names.contains(it)).collect();
                result[index] = copy(&reduced, &[names, &launched].concat())?;
            }
            helps = true;
        }
        Ok(helps.then_some(result))
    }

    /// Returns clang's errors in a source, for the first target that has any. Blocks.
    fn errors(&self, source: &Source, workspace: &Workspace) -> Option<String> {
        self.with_builds(source, workspace, |builds| {
            builds.iter().find_map(|build| build.errors(0))
        })?
    }

    /// Returns the headers that do not exist for some target. Blocks.
    fn missing_headers(&self, source: &Source, workspace: &Workspace) -> Vec<String> {
        let all = self.with_builds(source, workspace, |builds| {
            builds.iter().flat_map(|build| build.missing_headers(0)).collect()
        });
        all.unwrap_or_default()
    }

    /// Calls `body` with the builds of one source for all targets. Returns `None` if a target
    /// cannot be built for.
    fn with_builds<T>(
        &self,
        source: &Source,
        workspace: &Workspace,
        body: impl FnOnce(&[Build<'_>]) -> T,
    ) -> Option<T> {
        let diagnostics = Diagnostics::default();
        let job = Job {
            sources: std::slice::from_ref(source),
            options: &self.options,
            ptxas: None,
            check: false,
            folder: workspace.path(),
            include: &workspace.include(),
            diagnostics: &diagnostics,
        };
        self.builds(&job).ok().map(|builds| body(&builds))
    }

    /// Returns the sources, of which one makes the kernels that the command line names.
    fn with_kernels(&self, sources: &[Source], folder: &Path) -> Result<Vec<Source>, Failure> {
        let mut sources = sources.to_vec();
        for source in sources.iter().filter(|source| cuda::has_host_code(source)) {
            log::warn!(
                "'{}': the code of the host is ignored: an image has kernels and device functions \
                 alone",
                source.shown.display()
            );
        }
        if self.kernel.is_empty() {
            return Ok(sources);
        }
        let source = sources.iter_mut().find(|source| source.language.has_kernels());
        let source = source.ok_or_else(|| {
            let message = "--kernel expects a source in CUDA (.cu) or HIP (.hip)";
            Failure::new(Exit::Usage, message)
        })?;
        *source = cuda::rewritten(source, None, &self.kernel, folder)?;
        Ok(sources)
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
        let build = |(index, target)| Build::new(job, target, compilers.choose(target)?, index);
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

/// Warns of what a source's image lacks.
fn warn_of(reduced: &Reduced, name: &str) {
    if !reduced.missing.is_empty() {
        let missing: Vec<&str> = reduced.missing.iter().map(String::as_str).collect();
        log::warn!(
            "'{name}': these headers were not found, and count as empty: {}. The option -I names \
             the folder of a header",
            missing.join(", ")
        );
    }
    if !reduced.left_out.is_empty() {
        log::warn!(
            "'{name}': clang cannot compile these parts of the host's code, which are left out: {}",
            reduced.left_out.join("; ")
        );
    }
    for (part, library) in &reduced.needing {
        log::warn!("'{name}': left out, because Longshore does not have {library}: {part}");
    }
}

/// Writes all headers into a folder.
fn write_headers(folder: &Path) -> Result<(), Failure> {
    for (name, text) in headers::all() {
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(folder);
        if parent != folder {
            std::fs::create_dir_all(parent).map_err(|error| {
                let message = format!("cannot create '{}': {error}", parent.display());
                Failure::new(Exit::Runtime, message)
            })?;
        }
        output::check(&file)?;
        output::write(&file, text.as_bytes())?;
    }
    Ok(())
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
    if printed.contains("cannot compile inline asm") {
        return failure.or_hint(
            "inline assembly is for one kind of GPU: exclude it on other targets, by #if \
             defined(__NVPTX__) or #if defined(__AMDGCN__)",
        );
    }
    if !targets.iter().any(Target::is_gpu) {
        return failure;
    }
    if printed.contains("undefined hidden symbol: malloc") {
        return failure.or_hint("AMD GPUs have no heap: kernels cannot use malloc and new there");
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
            "for GPUs there is no C library: use longshore_exp(x) for exp(x) or expf(x), \
             longshore_sin(x) for sin(x), and so on; docs/mathematics.md lists the functions",
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
