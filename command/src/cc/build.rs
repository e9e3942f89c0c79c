//! The tools that make an image, and their options, for each target.
//!
//! A source becomes an object, PTX or bitcode. `ld.lld -r` joins the objects for a CPU, and
//! `ld.lld` links the object for AMD into a code object. Several sources for a GPU are joined as
//! bitcode, because calls between objects are slow or impossible on a GPU.

use crate::cc::clang::{Clang, Dialect};
use crate::cc::loops::{FROM_BITCODE, Loops, TO_BITCODE};
use crate::cc::source::Source;
use crate::cc::step::{Diagnostics, Step};
use crate::cc::target::Target;
use crate::cc::{flags, options, profile};
use crate::failure::{Exit, Failure};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// An option by which clang leaves no files for a bug report when it crashes.
const NO_REPORT: &str = "-fno-crash-diagnostics";

/// The inputs and settings that all targets share.
pub(super) struct Job<'a> {
    pub(super) sources: &'a [Source],
    /// The user's options for clang.
    pub(super) options: &'a [OsString],
    /// Assembler that makes machine code from PTX, with `--cubin`.
    pub(super) ptxas: Option<&'a Path>,
    /// The folder for temporary files.
    pub(super) folder: &'a Path,
    /// The folder with the header for kernels.
    pub(super) include: &'a Path,
    pub(super) diagnostics: &'a Diagnostics,
}

/// The tools and options that make the image of one target.
pub(super) struct Build<'a> {
    job: &'a Job<'a>,
    pub(super) target: &'a Target,
    clang: PathBuf,
    /// Options of clang for the target, for sources and for their bitcode.
    for_sources: Vec<String>,
    for_bitcode: Vec<String>,
    /// The user's options for clang, adapted to the target.
    user_options: Vec<OsString>,
    dialect: Dialect,
    product: Product,
    /// The linker, for AMD, and for several sources for a CPU.
    lld: Option<PathBuf>,
    /// The linker of bitcode, for several sources for a GPU.
    llvm_link: Option<PathBuf>,
    /// The pass that makes loops of work-items, for a CPU.
    loops: Option<Loops>,
    /// Path prefix of the target's temporary files.
    stem: PathBuf,
}

/// The kind of file that clang makes from a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    Object,
    Bitcode,
    Ptx,
}

impl<'a> Build<'a> {
    /// Finds the tools that the target needs.
    pub(super) fn new(
        job: &'a Job<'a>,
        target: &'a Target,
        clang: &Clang,
        index: usize,
    ) -> Result<Build<'a>, Failure> {
        let several = job.sources.len() > 1;
        let dialect = clang.dialect(target);
        let needs_lld = matches!(target, Target::Amdgcn(_)) || several && !target.is_gpu();
        let needs_llvm_link = several && target.is_gpu();
        let user_options = profile::prepared(job.options, target, clang, several)
            .map_err(|message| Failure::new(Exit::Usage, message))?;
        Ok(Build {
            job,
            target,
            clang: clang.path.clone(),
            for_sources: flags::for_sources(target, clang, job.options, several),
            for_bitcode: flags::for_machine(target, clang),
            user_options,
            dialect,
            product: product(target, dialect, several),
            lld: needs_lld.then(|| clang.lld()).transpose()?,
            loops: Loops::new(target, clang, job.options),
            llvm_link: needs_llvm_link.then(|| clang.llvm_link()).transpose()?,
            stem: job.folder.join(format!("{index}")),
        })
    }

    /// Compiles one source to a file. Blocks.
    pub(super) fn compile(&self, index: usize) -> Result<PathBuf, String> {
        let source = &self.job.sources[index];
        let what = format!("compiling '{}'", source.file.display());
        let made = self.file(&format!("{index}.{}", self.product.extension()));
        if let Some(loops) = &self.loops {
            let early = self.file(&format!("{index}.bc"));
            let late = self.file(&format!("{index}.loops.bc"));
            self.run(self.step(source, &TO_BITCODE, &early), &what)?;
            if loops.make(&early, &late) {
                let step = Step::new(&self.clang)
                    .arg(NO_REPORT)
                    .args(&self.for_sources)
                    .args(options::for_loops(&self.user_options))
                    .args(FROM_BITCODE)
                    .arg(&late)
                    .arg("-o")
                    .arg(&made);
                self.run(step, &what)?;
                return Ok(made);
            }
        }
        self.run(self.step(source, self.product.options(), &made), &what)?;
        Ok(made)
    }

    /// Returns the run of clang that makes a product of a source.
    fn step(&self, source: &Source, product: &[&str], made: &Path) -> Step<'_> {
        let include = self.job.include;
        // The image is the same for every temporary folder of the header.
        let mut no_folder = OsString::from("-ffile-prefix-map=");
        no_folder.push(include);
        no_folder.push("=longshore");
        Step::new(&self.clang)
            .arg(NO_REPORT)
            .args(&self.for_sources)
            .args([OsStr::new("-isystem"), include.as_os_str(), &no_folder])
            .args(product)
            .args(options::for_source(&self.user_options, source, self.job.sources, self.dialect))
            .args(["-x", language(source, self.dialect)])
            .arg(&source.file)
            .arg("-o")
            .arg(made)
    }

    /// Makes the image from the compiled sources. Blocks.
    pub(super) fn finish(&self, compiled: &[PathBuf]) -> Result<Vec<u8>, String> {
        let mut made = compiled.first().expect("the command line has sources").clone();
        if let Some(llvm_link) = &self.llvm_link {
            made = self.file("bc");
            let step = Step::new(llvm_link).args(compiled).arg("-o").arg(&made);
            self.run(step, "joining the sources")?;
        }
        if self.product == Product::Bitcode {
            made = self.machine_code(&made)?;
        }
        if let Some(lld) = &self.lld {
            let object = std::slice::from_ref(&made);
            made = self.link(lld, if self.target.is_gpu() { object } else { compiled })?;
        }
        if let Some(ptxas) = self.job.ptxas.filter(|_| matches!(self.target, Target::Nvptx(_))) {
            made = self.assemble(ptxas, &made)?;
        }
        std::fs::read(&made).map_err(|error| format!("cannot read '{}': {error}", made.display()))
    }

    /// Compiles bitcode to an object or to PTX.
    fn machine_code(&self, bitcode: &Path) -> Result<PathBuf, String> {
        let product = product(self.target, Dialect::Plain, false);
        let made = self.file(product.extension());
        let step = Step::new(&self.clang)
            .arg(NO_REPORT)
            .args(&self.for_bitcode)
            .args(options::for_bitcode(&self.user_options))
            .args(product.options())
            .args([OsStr::new("-x"), OsStr::new("ir"), bitcode.as_os_str()])
            .arg("-o")
            .arg(&made);
        self.run(step, "compiling the bitcode of the sources")?;
        Ok(made)
    }

    fn link(&self, lld: &Path, objects: &[PathBuf]) -> Result<PathBuf, String> {
        let made = self.file("linked");
        let how: &[&str] = match self.target.is_gpu() {
            true => &["-shared", "--no-undefined"],
            false => &["-r"],
        };
        let step = Step::new(lld).args(how).args(objects).arg("-o").arg(&made);
        self.run(step, "linking")?;
        Ok(made)
    }

    fn assemble(&self, ptxas: &Path, ptx: &Path) -> Result<PathBuf, String> {
        let made = self.file("cubin");
        let architecture = format!("-arch={}", self.target.architecture());
        let step = Step::new(ptxas).arg(architecture).arg(ptx).arg("-o").arg(&made);
        self.run(step, "assembling the PTX")?;
        Ok(made)
    }

    fn run(&self, step: Step<'_>, what: &str) -> Result<(), String> {
        step.run(what, &self.target.to_string(), self.job.diagnostics)
    }

    fn file(&self, extension: &str) -> PathBuf {
        let mut file = self.stem.clone().into_os_string();
        file.push(".");
        file.push(extension);
        file.into()
    }
}

impl Product {
    fn options(self) -> &'static [&'static str] {
        match self {
            Product::Object => &["-c"],
            Product::Bitcode => &["-c", "-emit-llvm"],
            Product::Ptx => &["-S"],
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Product::Object => "o",
            Product::Bitcode => "bc",
            Product::Ptx => "ptx",
        }
    }
}

fn product(target: &Target, dialect: Dialect, several: bool) -> Product {
    match target {
        Target::Cpu(..) => Product::Object,
        _ if several || dialect == Dialect::Hip => Product::Bitcode,
        Target::Nvptx(_) => Product::Ptx,
        Target::Amdgcn(_) => Product::Object,
    }
}

fn language(source: &Source, dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Plain => source.language.name(),
        Dialect::Cuda => "cuda",
        Dialect::Hip => "hip",
    }
}
