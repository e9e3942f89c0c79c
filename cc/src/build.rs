//! The tools that make an image, and their options, for each target.
//!
//! A source becomes an object, PTX or bitcode. `ld.lld -r` joins the objects for a CPU, and
//! `ld.lld` links the object for AMD into a code object. Several sources for a GPU are joined as
//! bitcode, because calls between objects are slow or impossible on a GPU.

use crate::checks::{self, Checks};
use crate::clang::{Clang, Dialect};
use crate::failure::{Exit, Failure};
use crate::loops::{FROM_BITCODE, Loops, Made, TO_BITCODE, TO_BITCODE_OF_CUDA};
use crate::passes::Passes;
use crate::source::{Language, Source};
use crate::step::{Diagnostics, Step, in_parallel};
use crate::target::Target;
use crate::{cuda, flags, headers, options, profile, undefined};
use longshore_work_items::Part;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An option by which clang leaves no files for a bug report when it crashes.
const NO_REPORT: &str = "-fno-crash-diagnostics";

/// The step of clang that compiles kernels in CUDA and HIP for a CPU.
const COMPILING_KERNELS: &str = "compiling the kernels";
/// Warning about kernels that compile in many parts.
const MANY_KERNELS: &str = "the sources have much code of kernels, whose compilation takes minutes, \
     and leaves out the unrolling of loops. Kernels with operations on warps are slower in blocks \
     of several dimensions whose first one is not a multiple of 32: their threads keep stacks. \
     Images of fewer kernels have no such limits";
/// Option of clang for kernels that compile in many parts: unrolled loops take a quarter of the
/// time.
const NO_UNROLLING: &str = "-fno-unroll-loops";

/// The inputs and settings that all targets share.
pub(crate) struct Job<'a> {
    pub(crate) sources: &'a [Source],
    /// The user's options for clang.
    pub(crate) options: &'a [OsString],
    /// Whether memory accesses get checks.
    pub(crate) check: bool,
    /// Assembler that makes machine code from PTX, with `--cubin`.
    pub(crate) ptxas: Option<&'a Path>,
    /// The process of LLVM's passes.
    pub(crate) passes: &'a Passes,
    /// The folder for temporary files.
    pub(crate) folder: &'a Path,
    /// The folder with the header for kernels.
    pub(crate) include: &'a Path,
    pub(crate) diagnostics: &'a Diagnostics,
}

/// The tools and options that make the image of one target.
pub(crate) struct Build<'a> {
    job: &'a Job<'a>,
    pub(crate) target: &'a Target,
    clang: Arc<Clang>,
    /// Options of clang for the target, for each source and for their bitcode.
    for_sources: Vec<Vec<String>>,
    for_bitcode: Vec<String>,
    /// The user's options for clang, adapted to the target.
    user_options: Vec<OsString>,
    /// The dialect of each source.
    dialects: Vec<Dialect>,
    product: Product,
    /// The linker, for AMD, and for several sources for a CPU.
    lld: Option<PathBuf>,
    /// The linker of bitcode, for several sources for a GPU.
    llvm_link: Option<PathBuf>,
    /// The pass that makes loops of work-items, for a CPU.
    loops: Option<Loops>,
    /// The pass that adds checks; there are no loops then.
    checks: Option<Checks>,
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
    pub(crate) fn new(
        job: &'a Job<'a>,
        target: &'a Target,
        clang: Arc<Clang>,
        index: usize,
    ) -> Result<Build<'a>, Failure> {
        let several = job.sources.len() > 1;
        let dialects: Vec<Dialect> =
            job.sources.iter().map(|source| clang.dialect(target, source.language)).collect();
        let has_kernels = job.sources.iter().any(|source| source.language.has_kernels());
        let needs_lld = matches!(target, Target::Amdgcn(_)) || several && !target.is_gpu();
        let is_spirv = *target == Target::Spirv;
        let needs_llvm_link = several && target.is_gpu() && !is_spirv;
        if has_kernels && is_spirv {
            let message = "spirv: sources in CUDA and HIP do not become SPIR-V; write the kernels with \
                           longshore_device.h, or leave out the target";
            return Err(Failure::new(Exit::Usage, message));
        }
        let user_options = profile::prepared(job.options, target, &clang, several)
            .map_err(|message| Failure::new(Exit::Usage, message))?;
        Ok(Build {
            job,
            target,
            for_sources: (job.sources.iter())
                .map(|it| flags::for_source(target, &clang, it.language, job.options, several))
                .collect(),
            for_bitcode: flags::for_machine(target, &clang),
            user_options,
            product: product(target, &dialects, several || has_kernels),
            dialects,
            lld: needs_lld.then(|| clang.lld()).transpose()?,
            loops: Loops::new(target, &clang, job.options, job.passes).filter(|_| !job.check),
            checks: job.check.then(|| Checks::new(&clang, job.options, job.passes)),
            llvm_link: needs_llvm_link.then(|| clang.llvm_link()).transpose()?,
            stem: job.folder.join(format!("{index}")),
            clang,
        })
    }

    /// Compiles one source to a file. Blocks.
    pub(crate) fn compile(&self, index: usize) -> Result<PathBuf, String> {
        let source = &self.job.sources[index];
        let what = format!("compiling '{}'", source.shown.display());
        if *self.target == Target::Spirv {
            let bitcode = self.file(&format!("{index}.bc"));
            self.run(self.step(index, &TO_BITCODE, &bitcode), &what)?;
            return Ok(bitcode);
        }
        if self.is_kernels_for_cpu(index) {
            let bitcode = self.file(&format!("{index}.bc"));
            let defines = self.checks.iter().flat_map(|_| checks::DEFINES);
            let step = self.step(index, &TO_BITCODE_OF_CUDA, &bitcode).args(defines);
            self.run(step, &what)?;
            return Ok(bitcode);
        }
        let made = self.file(&format!("{index}.{}", self.product.extension()));
        if let Some(checks) = &self.checks {
            let early = self.file(&format!("{index}.bc"));
            let late = self.file(&format!("{index}.checks.bc"));
            let step = self.step(index, &TO_BITCODE, &early).args(checks::DEFINES);
            self.run(step, &what)?;
            checks.add(&early, &late).map_err(|problem| format!("{what}: {problem}"))?;
            self.run(self.object_of(index, &late, &made, None), &what)?;
            return Ok(made);
        }
        if let Some(loops) = &self.loops {
            let early = self.file(&format!("{index}.bc"));
            let late = self.file(&format!("{index}.loops.bc"));
            self.run(self.step(index, &TO_BITCODE, &early), &what)?;
            let mut outcome = loops.make(&early, &late);
            if outcome == Made::Undescribed {
                let step = self.step(index, &TO_BITCODE_OF_CUDA, &early);
                self.run(step.args(cuda::DESCRIBED), &what)?;
                loops.make_kernels(&[&early], &late)?;
                outcome = Made::Loops;
            }
            if outcome == Made::Loops {
                self.run(self.object_of(index, &late, &made, None), &what)?;
                return Ok(made);
            }
        }
        self.run(self.step(index, self.product.options(), &made), &what)?;
        Ok(made)
    }

    /// Returns whether a source is CUDA or HIP, and the target a CPU.
    fn is_kernels_for_cpu(&self, index: usize) -> bool {
        self.job.sources[index].language.has_kernels() && !self.target.is_gpu()
    }

    /// Returns the run of clang that makes an object of the bitcode of a source. The user's options
    /// come after `option`.
    fn object_of(
        &self,
        index: usize,
        bitcode: &Path,
        made: &Path,
        option: Option<&str>,
    ) -> Step<'_> {
        let options = match self.is_kernels_for_cpu(index) {
            true => flags::for_source(self.target, &self.clang, Language::Cpp, &[], false),
            false => self.for_sources[index].clone(),
        };
        Step::new(&self.clang.path)
            .arg(NO_REPORT)
            .args(&options)
            .args(option)
            .args(options::for_loops(&self.user_options))
            .args(FROM_BITCODE)
            .arg(bitcode)
            .arg("-o")
            .arg(made)
    }

    /// Returns the run of clang that makes a product of a source.
    fn step(&self, index: usize, product: &[&str], made: &Path) -> Step<'_> {
        let (source, dialect) = (&self.job.sources[index], self.dialects[index]);
        let include = self.job.include;
        // The image is the same for every temporary folder of the header.
        let mut no_folder = OsString::from("-ffile-prefix-map=");
        no_folder.push(include);
        no_folder.push("=longshore");
        let of_vendors = include.join(headers::VENDORS_FOLDER);
        let of_clang = include.join(headers::CLANGS_FOLDER);
        let of_clang = [OsStr::new("-isystem"), of_clang.as_os_str()];
        let of_kernels = [
            OsStr::new("-isystem"),
            of_vendors.as_os_str(),
            OsStr::new("-include"),
            OsStr::new(headers::CUDA_HEADER),
        ];
        let of_kernels = of_kernels.into_iter().filter(|_| source.language.has_kernels());
        // A copy of the source finds the headers beside the source.
        let folder = source.shown.parent().filter(|_| source.file != source.shown);
        let folder =
            folder.map(|folder| if folder.as_os_str().is_empty() { ".".as_ref() } else { folder });
        let beside = folder.into_iter().flat_map(|it| [OsStr::new("-iquote"), it.as_os_str()]);
        Step::new(&self.clang.path)
            .arg(NO_REPORT)
            .args(&self.for_sources[index])
            .args([OsStr::new("-isystem"), include.as_os_str(), &no_folder])
            .args(of_clang)
            .args(of_kernels)
            .args(beside)
            .args(&source.options)
            .args(product)
            .args(options::for_source(&self.user_options, source, self.job.sources, dialect))
            .args(["-x", language(source, dialect)])
            .arg(&source.file)
            .arg("-o")
            .arg(made)
    }

    /// Returns clang's diagnostics of a source with an error; `None` if it has none. For targets
    /// other than NVIDIA's, inline assembly counts as an error. Blocks.
    pub(crate) fn errors(&self, index: usize) -> Option<String> {
        let nothing = Path::new("/dev/null");
        let step = self.step(index, &["-fsyntax-only", "-ferror-limit=0"], nothing);
        let is_nvidia = matches!(self.target, Target::Nvptx(_));
        let step = step.args((!is_nvidia).then_some("-fno-gnu-inline-asm"));
        let (success, printed) = step.arg("-fno-color-diagnostics").output()?;
        (!success).then_some(printed)
    }

    /// Returns the headers of a source that do not exist. Blocks.
    pub(crate) fn missing_headers(&self, index: usize) -> Vec<String> {
        // Clang names the files that it found by paths.
        self.files(index).into_iter().filter(|file| !Path::new(file).exists()).collect()
    }

    /// Returns the source and the headers that it includes. Blocks.
    pub(crate) fn files(&self, index: usize) -> Vec<String> {
        let rule = self.file("dependencies");
        let step = self.step(index, &["-M", "-MG"], &rule);
        let text = step.output().and_then(|_| std::fs::read_to_string(&rule).ok());
        text.as_deref().map(dependencies).unwrap_or_default()
    }

    /// Makes the image from the compiled sources. Blocks.
    pub(crate) fn finish(&self, compiled: &[PathBuf]) -> Result<Vec<u8>, String> {
        if *self.target == Target::Spirv {
            let made = self.file("spv");
            let loops = Loops::for_kernels(&self.clang, self.job.options, self.job.passes);
            loops.translate(compiled, &made)?;
            return read(&made);
        }
        let objects = self.objects(compiled)?;
        let compiled = objects.as_slice();
        let mut made = compiled.first().expect("the command line has sources").clone();
        if let Some(llvm_link) = &self.llvm_link {
            made = self.file("bc");
            let step = Step::new(llvm_link).args(compiled).arg("-o").arg(&made);
            self.run(step, "joining the sources")?;
        }
        if self.product == Product::Bitcode {
            let described = self.file("described.bc");
            let has_kernels = self.job.sources.iter().any(|source| source.language.has_kernels());
            let loops = || Loops::for_kernels(&self.clang, self.job.options, self.job.passes);
            if has_kernels && loops().describe(&made, &described) {
                made = described;
            }
            made = self.machine_code(&made)?;
        }
        if let Some(lld) = &self.lld {
            let object = std::slice::from_ref(&made);
            made = self.link(lld, if self.target.is_gpu() { object } else { compiled })?;
        }
        self.warn_of_undefined(&made);
        if let Some(ptxas) = self.job.ptxas.filter(|_| matches!(self.target, Target::Nvptx(_))) {
            made = self.assemble(ptxas, &made)?;
        }
        read(&made)
    }

    /// Warns of device functions that no source in CUDA or HIP defines. The linker refuses them for
    /// AMD GPUs.
    fn warn_of_undefined(&self, made: &Path) {
        let has_kernels = self.job.sources.iter().any(|source| source.language.has_kernels());
        let image = has_kernels.then(|| std::fs::read(made).ok()).flatten();
        let functions = undefined::functions(&image.unwrap_or_default());
        if !functions.is_empty() {
            log::warn!(
                "{}: the image cannot be loaded, because no source defines these functions: {}. \
                 Name the sources that define them too",
                self.target,
                functions.join(", ")
            );
        }
    }

    /// Makes objects for a CPU of the sources in CUDA and HIP, whose functions call each other.
    fn objects(&self, compiled: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
        let is_own = |index: &usize| self.is_kernels_for_cpu(*index);
        let Some(first) = (0..compiled.len()).find(is_own) else { return Ok(compiled.to_vec()) };
        let (own, mut others): (Vec<usize>, Vec<usize>) = (0..compiled.len()).partition(is_own);
        let bitcode: Vec<&Path> = own.iter().map(|index| compiled[*index].as_path()).collect();
        let made = self.object_of_kernels(&bitcode, first)?;
        others.retain(|index| !is_own(index));
        let others = others.into_iter().map(|index| compiled[index].clone());
        Ok([made].into_iter().chain(others).collect())
    }

    /// Makes the object of the kernels in bitcode, with the options of the source `first`.
    fn object_of_kernels(&self, bitcode: &[&Path], first: usize) -> Result<PathBuf, String> {
        let (mut late, made) = (self.file("cuda.bc"), self.file("cuda.o"));
        let loops = Loops::for_kernels(&self.clang, self.job.options, self.job.passes)
            .for_sources(self.job.sources);
        match (&self.checks, self.clang.lld()) {
            (Some(checks), _) => {
                let checked = self.file("cuda.checks.bc");
                loops.for_checks().make_kernels(bitcode, &late)?;
                checks.add(&late, &checked)?;
                late = checked;
            }
            (None, Err(_)) => loops.make_kernels(bitcode, &late)?,
            (None, Ok(lld)) => {
                if let Some(parts) = loops.make_if_few(bitcode, &late)? {
                    self.compile_parts(&loops, bitcode, first, parts, &lld, &made)?;
                    return Ok(made);
                }
            }
        }
        self.run(self.object_of(first, &late, &made, None), COMPILING_KERNELS)?;
        Ok(made)
    }

    /// Makes the object of many kernels, in parts that compile on all cores.
    fn compile_parts(
        &self,
        loops: &Loops,
        bitcode: &[&Path],
        first: usize,
        parts: u32,
        lld: &Path,
        made: &Path,
    ) -> Result<(), String> {
        log::info!("{}: the kernels compile in {parts} parts", self.target);
        let parts: Vec<Part> = (0..parts).map(|number| Part { number, of: parts }).collect();
        let is_large = parts.iter().any(|part| part.is_large());
        if is_large {
            log::warn!("{}: {MANY_KERNELS}", self.target);
        }
        let fewer = is_large.then_some(NO_UNROLLING);
        let objects = in_parallel(&parts, |part| {
            let file = |extension: &str| self.file(&format!("cuda.{}.{extension}", part.number));
            let (late, object) = (file("bc"), file("o"));
            loops.make_part(bitcode, &late, *part)?;
            self.run(self.object_of(first, &late, &object, fewer), COMPILING_KERNELS)?;
            Ok(object)
        });
        let objects = objects.into_iter().collect::<Result<Vec<_>, String>>()?;
        let step = Step::new(lld).arg("-r").args(objects).arg("-o").arg(made);
        self.run(step, "linking the kernels")
    }

    /// Compiles bitcode to an object or to PTX.
    fn machine_code(&self, bitcode: &Path) -> Result<PathBuf, String> {
        let product = product(self.target, &[Dialect::Plain], false);
        let made = self.file(product.extension());
        let step = Step::new(&self.clang.path)
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

/// Returns the files in a rule for make: `target: file file \`.
fn dependencies(rule: &str) -> Vec<String> {
    let (_, files) = rule.split_once(": ").unwrap_or_default();
    let joined = files.replace("\\\n", " ").replace("\\ ", "\0").replace("$$", "$");
    joined.split_whitespace().map(|file| file.replace('\0', " ").replace("\\#", "#")).collect()
}

fn product(target: &Target, dialects: &[Dialect], needs_bitcode: bool) -> Product {
    match target {
        Target::Cpu(..) => Product::Object,
        Target::Spirv => Product::Bitcode,
        _ if needs_bitcode || dialects.contains(&Dialect::Hip) => Product::Bitcode,
        Target::Nvptx(_) => Product::Ptx,
        Target::Amdgcn(_) => Product::Object,
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read '{}': {error}", file.display()))
}

fn language(source: &Source, dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Plain => source.language.name(),
        Dialect::Cuda => "cuda",
        Dialect::Hip => "hip",
    }
}
