//! A compilation: its sources, targets and options, and its steps.

mod instances;

use crate::build::{Build, Job};
use crate::clang::Compilers;
use crate::cuda::{self, Keywords, Reduced};
use crate::failure::{Exit, Failure};
use crate::passes::Passes;
use crate::source::{Language, Source};
use crate::step::{Diagnostics, in_parallel};
use crate::target::{ImageKind, Target};
use crate::workspace::Workspace;
use crate::{options, path, profile, system};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The compilation of sources for several targets. The sources of one image see each other's
/// functions.
///
/// ```no_run
/// use longshore_cc::{Compilation, Target};
///
/// let target = Target::parse("host")?;
/// let compilation = Compilation::new(vec!["saxpy.c".into()], vec![target]);
/// let images = compilation.run().images?;
/// println!("{} bytes for {}", images[0].bytes.len(), images[0].triple);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compilation {
    files: Vec<PathBuf>,
    targets: Vec<Target>,
    language: Option<Language>,
    kernels: Vec<String>,
    options: Vec<OsString>,
    clang: Option<PathBuf>,
    check: bool,
    cubin: bool,
    color: bool,
    passes: Passes,
}

/// The result of a compilation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Output {
    /// The images, in the order of the targets, or the failure.
    pub images: Result<Vec<TargetImage>, Failure>,
    /// The messages of the compiler and of other tools, in lines.
    pub diagnostics: String,
}

/// The image for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetImage {
    /// The image.
    pub bytes: Vec<u8>,
    /// The kind of the image.
    pub kind: ImageKind,
    /// The target's triple.
    pub triple: String,
    /// The target's architecture.
    pub architecture: String,
}

impl Compilation {
    /// Creates a compilation of `files` for `targets`, without options for clang.
    pub fn new(files: Vec<PathBuf>, targets: Vec<Target>) -> Compilation {
        Compilation {
            files,
            targets,
            language: None,
            kernels: Vec::new(),
            options: Vec::new(),
            clang: None,
            check: false,
            cubin: false,
            color: false,
            passes: Passes::Here,
        }
    }

    /// Sets the language of all sources. By default the extension of each file sets it.
    #[must_use]
    pub fn with_language(mut self, language: Option<Language>) -> Compilation {
        self.language = language;
        self
    }

    /// Sets the kernels to make of templates in CUDA or HIP, such as "k<float, 256>".
    #[must_use]
    pub fn with_kernels(mut self, kernels: Vec<String>) -> Compilation {
        self.kernels = kernels;
        self
    }

    /// Sets the options of clang.
    #[must_use]
    pub fn with_options(mut self, options: Vec<OsString>) -> Compilation {
        self.options = options;
        self
    }

    /// Sets the compiler. By default it is the newest clang on PATH that supports the target.
    #[must_use]
    pub fn with_clang(mut self, clang: Option<PathBuf>) -> Compilation {
        self.clang = clang;
        self
    }

    /// Sets whether memory accesses get checks; only for CPUs.
    #[must_use]
    pub fn with_check(mut self, check: bool) -> Compilation {
        self.check = check;
        self
    }

    /// Sets whether `ptxas` makes machine code for NVIDIA GPUs, in place of PTX.
    #[must_use]
    pub fn with_cubin(mut self, cubin: bool) -> Compilation {
        self.cubin = cubin;
        self
    }

    /// Sets whether the diagnostics have colours.
    #[must_use]
    pub fn with_color(mut self, color: bool) -> Compilation {
        self.color = color;
        self
    }

    /// Sets the process of LLVM's passes.
    #[must_use]
    pub fn with_passes(mut self, passes: Passes) -> Compilation {
        self.passes = passes;
        self
    }

    /// Compiles for all targets. Logs warnings. Blocks.
    pub fn run(&self) -> Output {
        let made = self.sources().and_then(|sources| self.images(&sources));
        made.unwrap_or_else(|failure| Output { images: Err(failure), diagnostics: String::new() })
    }

    /// Returns the files on which the images depend: the sources, and the headers that they include
    /// for any of the targets, without the system's. A header that is not found is among them as a
    /// file beside its source. Without a compiler, these are the sources alone. Blocks.
    ///
    /// # Errors
    /// Sources that cannot be read, or options that are refused.
    pub fn dependencies(&self) -> Result<Vec<PathBuf>, Failure> {
        let sources = self.sources()?;
        let workspace = Workspace::new()?;
        let mut found = Vec::new();
        for source in &sources {
            let files = self.with_builds(source, &workspace, |builds| {
                in_parallel(builds, |build| build.files(0)).concat()
            });
            // Clang names the files that it found by paths, and missing ones as the source does.
            let beside = |file: String| match Path::new(&file).exists() {
                true => PathBuf::from(file),
                false => source.shown.with_file_name(file),
            };
            found.extend(files.unwrap_or_default().into_iter().map(beside));
        }
        found.retain(|file| !system::has(file) && !file.starts_with(workspace.path()));
        found.extend(self.files.iter().cloned());
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn sources(&self) -> Result<Vec<Source>, Failure> {
        options::check(&self.options)?;
        let sources = self.files.iter().map(|file| Source::new(file, self.language));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        if sources.is_empty() || self.targets.is_empty() {
            let message = "a compilation expects at least one source and one target";
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(sources)
    }

    fn images(&self, sources: &[Source]) -> Result<Output, Failure> {
        let workspace = Workspace::new()?;
        let named = self.with_instances(sources, &workspace)?;
        let first = self.attempt(&named, &workspace)?;
        let has_kernels = sources.iter().any(|source| source.language.has_kernels());
        let (images, diagnostics) = match first {
            (Err(_), _) if has_kernels => match self.without_host(&named, &workspace)? {
                Some(reduced) => self.attempt(&reduced, &workspace)?,
                None => first,
            },
            first => first,
        };
        let misnamed = || sources.iter().find(|source| cuda::is_misnamed(source));
        let images = images.map_err(|failure| match misnamed() {
            Some(source) => failure.or_hint(format!(
                "'{}' has kernels of CUDA or HIP: set the language with -x cuda or -x hip \
                 (with_language in a build script)",
                source.shown.display()
            )),
            None => explain(failure, &diagnostics, &self.targets),
        });
        Ok(Output { images, diagnostics })
    }

    /// Compiles for all targets. Returns the result, and clang's diagnostics. Blocks.
    fn attempt(
        &self,
        sources: &[Source],
        workspace: &Workspace,
    ) -> Result<(Result<Vec<TargetImage>, Failure>, String), Failure> {
        let diagnostics = Diagnostics::default();
        let ptxas = self.cubin.then(ptxas).transpose()?;
        let options = self.clang_options();
        let job = Job {
            sources,
            options: &options,
            check: self.check,
            ptxas: ptxas.as_deref(),
            passes: &self.passes,
            folder: workspace.path(),
            include: &workspace.include(),
            diagnostics: &diagnostics,
        };
        let builds = self.builds(&job)?;
        let images = run(&builds, sources.len());
        Ok((self.pack(&builds, images), diagnostics.shown(&self.targets)))
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
        let is_of_user = |file: &Path| !system::has(file) && !file.starts_with(workspace.path());
        for (index, source) in sources.iter().enumerate() {
            let Ok(text) = std::fs::read(&source.shown) else { continue };
            let text = String::from_utf8_lossy(&text);
            let names: &[String] = &source.kernels;
            let name = source.shown.to_string_lossy();
            let keywords = RefCell::new(Keywords::default());
            let copy = |reduced: &Reduced, names: &[String]| {
                let keywords = keywords.borrow();
                cuda::rewritten(source, index, Some((reduced, &keywords)), names, workspace.path())
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
                         --kernel '(void (*)(PARAMETERS)){kernel}' (with_instance in a build \
                         script) makes one of them"
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
            passes: &self.passes,
            check: false,
            folder: workspace.path(),
            include: &workspace.include(),
            diagnostics: &diagnostics,
        };
        self.builds(&job).ok().map(|builds| body(&builds))
    }

    fn clang_options(&self) -> Vec<OsString> {
        let mut options = self.options.clone();
        if profile::adds_atomic_counters(&options) {
            log::info!(
                "adding -fprofile-update=atomic, because kernels run in parallel; another \
                 -fprofile-update replaces it"
            );
        }
        if self.color {
            options.insert(0, "-fcolor-diagnostics".into());
        }
        options
    }

    fn builds<'a>(&'a self, job: &'a Job<'a>) -> Result<Vec<Build<'a>>, Failure> {
        let mut compilers = Compilers::new(self.clang.clone());
        let build = |(index, target)| Build::new(job, target, compilers.choose(target)?, index);
        self.targets.iter().enumerate().map(build).collect()
    }

    fn pack(
        &self,
        builds: &[Build<'_>],
        images: Vec<Result<Vec<u8>, String>>,
    ) -> Result<Vec<TargetImage>, Failure> {
        let named = builds.iter().zip(&images);
        let failed = named.filter_map(|(build, image)| Some((build.target, image.as_ref().err()?)));
        let failed = grouped(failed);
        if !failed.is_empty() {
            return Err(Failure::new(Exit::Runtime, failed));
        }
        let images = builds.iter().zip(images.into_iter().flatten());
        let image = |(build, bytes): (&Build<'_>, Vec<u8>)| TargetImage {
            bytes,
            kind: build.target.image_kind(self.cubin),
            triple: build.target.triple().to_owned(),
            architecture: build.target.architecture().to_owned(),
        };
        Ok(images.map(image).collect())
    }
}

/// Warns of what a source's image lacks.
fn warn_of(reduced: &Reduced, name: &str) {
    if !reduced.missing.is_empty() {
        let missing: Vec<&str> = reduced.missing.iter().map(String::as_str).collect();
        log::warn!(
            "'{name}': these headers were not found, and count as empty: {}. Clang's option -I \
             (by with_option in a build script) names the folder of a header",
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
