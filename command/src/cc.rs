//! `longshore cc`: compiles kernels for several targets into one file.
//!
//! The crate `longshore-cc` compiles. Function [`arguments`] runs before the command line is
//! parsed, and marks clang's options as such.

mod output;

pub(crate) use longshore_cc::arguments;

use crate::failure::{Exit, Failure};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use longshore::{Environment, OffloadImage, write_offload_binary};
use longshore_cc::{Compilation, ImageKind, Language, Passes, Target, TargetImage};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

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
    #[arg(short = 'x', value_name = "LANGUAGE", value_parser = languages())]
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
        self.check_targets()?;
        let output = self.output()?;
        output::check(&output)?;
        output::write(&output, &self.packed()?)
    }

    /// Compiles, and prints the diagnostics. Blocks.
    fn packed(&self) -> Result<Vec<u8>, Failure> {
        let clang = self.clang.clone().or_else(|| Environment::from_process().clang());
        let compilation = Compilation::new(self.files.clone(), self.target.clone())
            .with_language(self.language)
            .with_kernels(self.kernel.clone())
            .with_options(self.options.clone())
            .with_clang(clang)
            .with_check(self.check)
            .with_cubin(self.cubin)
            .with_color(std::io::stderr().is_terminal())
            .with_passes(passes()?);
        let made = compilation.run();
        // A failed write to standard error cannot be reported anywhere.
        let _ = std::io::stderr().write_all(made.diagnostics.as_bytes());
        let images = made.images?;
        if self.raw {
            return Ok(images.into_iter().flat_map(|image| image.bytes).collect());
        }
        let entries: Vec<OffloadImage<'_>> = images.iter().map(entry).collect();
        Ok(write_offload_binary(&entries))
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
}

/// Returns the parser of languages, which lists all.
fn languages() -> impl TypedValueParser<Value = Language> {
    let all = Language::ALL;
    let parse = move |name: String| all.into_iter().find(|language| language.name() == name);
    let parser = PossibleValuesParser::new(all.map(Language::name));
    parser.map(move |name| parse(name).expect("the parser takes these names alone"))
}

/// Returns the child process of LLVM's passes: this command.
fn passes() -> Result<Passes, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        let message = format!("cannot find the own executable: {error}");
        Failure::new(Exit::Runtime, message)
    })?;
    Ok(Passes::Child { program, arguments: vec!["__passes".into()] })
}

fn entry(image: &TargetImage) -> OffloadImage<'_> {
    let kind = match image.kind {
        ImageKind::Object => longshore::ImageKind::Object,
        ImageKind::Cubin => longshore::ImageKind::Cubin,
        ImageKind::Ptx => longshore::ImageKind::Ptx,
        ImageKind::Spirv => longshore::ImageKind::Spirv,
        _ => longshore::ImageKind::None,
    };
    let entry = OffloadImage::new(&image.bytes).with_image_kind(kind);
    entry.with_triple(&image.triple).with_arch(&image.architecture)
}

/// Writes all headers into a folder.
fn write_headers(folder: &Path) -> Result<(), Failure> {
    for (name, text) in longshore_cc::headers() {
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
