//! The compiler in this process.

use std::path::PathBuf;

use longshore_llvm::Library;
use longshore_llvm::types::{ContextRef, ModuleRef, TargetMachineRef};

use crate::context::{Context, LoadedModule};
use crate::libraries::{Backend, Libraries};
use crate::machine::{Machine, MachineKey, run_passes};
use crate::producer::{Producer, is_bitcode};
use crate::shards::AllShards;
use crate::{
    CompilationFacts, Compile, CompileError, Compiled, LibraryChoice, LibraryVersion, Module,
    Options, Output, Part, Request, code_object, nvptx, parts, targets,
};

/// A function that changes a parsed module before it is optimised, and adds the variants and checks
/// of the options. It returns a report in lines, or the reason why the module cannot be compiled.
pub type PrePass =
    fn(&Library, ContextRef, ModuleRef, &Options) -> Result<Vec<String>, CompileError>;

/// A compiler in this process. Opens each `libLLVM` at the first request for it.
pub struct Compiler {
    libraries: Libraries,
    shards: AllShards,
    pre_pass: Option<PrePass>,
    folders: Vec<PathBuf>,
}

impl Compiler {
    /// Creates a compiler. `folders` are searched for LLD, which links code objects.
    ///
    /// LLVM ends the process on some errors, and may crash on invalid bitcode. The executor's
    /// compiler process turns both into errors.
    ///
    /// # Safety
    /// The libraries that the system's loader finds under `libLLVM`'s names are LLVM's, and so are
    /// the files of requests with [`LibraryChoice::File`]. Every module is valid.
    pub unsafe fn in_process(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders.into_iter().collect();
        Self {
            libraries: Libraries::default(),
            shards: AllShards::default(),
            pre_pass: None,
            folders,
        }
    }

    /// Sets the pass that runs before optimisation.
    #[must_use]
    pub fn with_pre_pass(self, pre_pass: PrePass) -> Self {
        Self { pre_pass: Some(pre_pass), ..self }
    }
}

impl Compile for Compiler {
    fn compile(&self, request: &Request<'_>) -> Result<Compiled, CompileError> {
        let backend = self.libraries.get(&request.options.library)?;
        check_producer(&backend, request.module.bytes())?;
        let shard = self.shards.get(&backend, request)?;
        let bytes = shard.as_ref().unwrap_or(request.module).bytes();
        let context = Context::new(backend.library.functions());
        let is_lazy = matches!(request.part, Part::Only { .. });
        let module = context.parse(bytes, is_lazy)?;
        let mut facts = CompilationFacts { library: backend.version(), ..Default::default() };
        let bytes = self.compile_parsed(&backend, &module, request, &mut facts)?;
        facts.warnings = context.warnings();
        Ok(Compiled { bytes, facts })
    }

    fn version(&self, library: &LibraryChoice) -> Result<LibraryVersion, CompileError> {
        Ok(self.libraries.get(library)?.version())
    }

    fn forget(&self, module: &Module) {
        self.shards.forget(module);
    }
}

impl Compiler {
    fn compile_parsed(
        &self,
        backend: &Backend,
        module: &LoadedModule<'_>,
        request: &Request<'_>,
        facts: &mut CompilationFacts,
    ) -> Result<Vec<u8>, CompileError> {
        let options = request.options;
        parts::reduce(module, request.part)?;
        module.verify("the module is invalid")?;
        if options.names_globals {
            run_passes(module, "name-anon-globals", options.level, TargetMachineRef::NULL)?;
        }
        let pre_pass = self.pre_pass.filter(|_| options.runs_pre_pass);
        if pre_pass.is_none() && !options.variants.is_empty() {
            let problem = "this compiler makes no variants of kernels, as it has no pre-pass";
            return Err(CompileError::Failed(problem.to_owned()));
        }
        let machine = match options.optimizes || options.output == Output::Code {
            true => Some(machine(backend, module, request)?),
            false if pre_pass.is_some() => Some(machine(backend, module, request)?),
            false => None,
        };
        if let Some(pre_pass) = pre_pass {
            let (library, context) = (&backend.library, module.context.context);
            facts.pre_pass = pre_pass(library, context, module.module, options)?;
            module.verify("the pre-pass has made the module invalid")?;
        }
        if options.keeps_text_before {
            facts.text_before = Some(module.to_text());
        }
        if let Some(machine) = machine.as_ref().filter(|_| options.optimizes) {
            let level = options.level.number();
            machine.run(module, &format!("default<O{level}>"), options.level)?;
        }
        if options.keeps_text_after {
            facts.text_after = Some(module.to_text());
        }
        match (options.output, machine) {
            (Output::Bitcode, _) => Ok(module.to_bitcode()),
            (Output::Code, Some(machine)) => self.code(backend, module, &machine),
            (Output::Text | Output::Code, _) => Ok(module.to_text().into_bytes()),
        }
    }

    fn code(
        &self,
        backend: &Backend,
        module: &LoadedModule<'_>,
        machine: &Machine<'_>,
    ) -> Result<Vec<u8>, CompileError> {
        let code = machine.emit(module)?;
        match machine.target().is_amd() {
            true => code_object::link(&code, backend.library.major(), &self.folders),
            false => Ok(code),
        }
    }
}

/// Decides on the module's target, and returns a code generator for it.
fn machine<'a>(
    backend: &'a Backend,
    module: &LoadedModule<'_>,
    request: &Request<'_>,
) -> Result<Machine<'a>, CompileError> {
    let target = targets::settle(module, &nvptx::known(request.target, backend.library.major()))?;
    let Options { level, position_independent, .. } = *request.options;
    let key = MachineKey { target, level, position_independent };
    let machine = backend.machines.take(backend.library.functions(), key)?;
    machine.check_layout(module)?;
    Ok(machine)
}

/// Refuses bitcode of a newer LLVM than the library's.
fn check_producer(backend: &Backend, bytes: &[u8]) -> Result<(), CompileError> {
    if !is_bitcode(bytes) {
        return Ok(());
    }
    let producer = Producer::read(bytes).map_err(CompileError::Malformed)?;
    let version = backend.library.major();
    match producer.version() {
        Some(needed) if needed > version => {
            let path = backend.library.path().display().to_string();
            Err(CompileError::Newer { producer: producer.0, needed, path, version })
        }
        _ => Ok(()),
    }
}
