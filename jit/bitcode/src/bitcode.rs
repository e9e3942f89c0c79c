//! A module whose pieces are compiled on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use longshore_compiler::{CompileError, Module as Code, Part};
use longshore_jitlink::lazy::{Defined, Source};
use longshore_jitlink::session::{Generated, Generator, Request};
use longshore_jitlink::{Architecture, Error, Result, Session};
use parking_lot::Mutex;

use crate::compiler::Compiler;
use crate::module::Module;
use crate::partition::{Partition, Piece, REST};
use crate::symbols::{defined, finish};

/// A module of LLVM bitcode. Cheap to clone; clones share the compiled pieces. Any thread may use
/// it.
///
/// Each function is compiled alone, so functions are only inlined by the compiler that made the
/// module. All variables are one piece, with the functions that cannot be separated from them. That
/// piece is compiled when one of the variables is first needed, or when the module's constructors
/// run. Further differences from an object:
///
/// - A function that only its module sees can only be called by the module, but has a symbol of its
///   own.
/// - A definition in a group is weak: each is resolved by itself, and the first of several counts.
/// - The bounds of a section, `__start_x` and `__stop_x`, enclose only the module's variables.
/// - A label whose address one function passes to another one can only be compared there.
#[derive(Clone)]
pub struct Bitcode(Arc<Inner>);

struct Inner {
    name: String,
    compiler: Compiler,
    code: Code,
    target: String,
    partition: Partition,
    /// Compiled pieces. A thread locks a piece while it compiles that piece.
    objects: Box<[Mutex<Option<Object>>]>,
    compiled: AtomicUsize,
}

/// A piece that has been compiled.
#[derive(Clone)]
struct Object {
    bytes: Bytes,
    /// Whether the object is linked together with the rest, as it refers to a symbol there without
    /// an entry.
    needs_rest: bool,
}

impl Bitcode {
    /// Reads the definitions of a module, for the process that executes a session's code. `name` is
    /// for messages. Assembly of the module is compiled at once. If a global has no name, the
    /// compiler makes a copy with names. Otherwise nothing is compiled.
    ///
    /// # Errors
    /// - [`Error::Malformed`] for bytes that are not one module of bitcode.
    /// - [`Error::Unsupported`] for another target, or a newer LLVM than the compiler's.
    /// - [`Error::Piece`] if a compilation fails.
    pub fn for_session(
        session: &Session,
        compiler: &Compiler,
        name: &str,
        bytes: &[u8],
    ) -> Result<Self> {
        let malformed = |problem| Error::Malformed { file: name.to_owned(), problem };
        let mut module = Module::read(bytes).map_err(malformed)?;
        let target = target(session, name, &module.triple)?;
        check_version(compiler, name, &module)?;
        let failed = |error: CompileError| Error::Piece {
            piece: "a copy with names".to_owned(),
            file: name.to_owned(),
            problem: error.to_string(),
        };
        let for_pieces = module.for_pieces(bytes);
        let mut code = Code::new(&*for_pieces);
        if module.renames() {
            module = Module::read(&for_pieces).map_err(malformed)?;
        }
        if module.globals.iter().any(|global| global.is_defined && global.name.is_empty()) {
            let named = compiler.name_globals(&code).map_err(failed)?;
            module = Module::read(&named).map_err(malformed)?;
            code = Code::new(named);
        }
        let partition = Partition::new(&module, name, bytes);
        let objects = partition.pieces.iter().map(|_| Mutex::default()).collect();
        let (name, compiler) = (name.to_owned(), compiler.clone());
        let compiled = AtomicUsize::new(0);
        let mut inner = Inner { name, compiler, code, target, partition, objects, compiled };
        if module.has_assembly {
            inner.assemble()?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the number of compiled pieces.
    pub fn compiled(&self) -> usize {
        self.0.compiled.load(Ordering::Relaxed)
    }
}

impl Source for Bitcode {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn defined(&self, name: &str) -> Result<Option<Defined>> {
        Ok(self.0.partition.defined(name).cloned())
    }

    fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        let all = self.0.partition.all_defined();
        Ok(all.map(|(name, defined)| (name.to_owned(), defined.clone())).collect())
    }

    /// Compiles the pieces that a call of a function needs. Other threads compile other pieces at
    /// the same time.
    fn prepare(&self, name: &str) -> Result<()> {
        let Some(piece) = self.0.partition.piece_of(name) else { return Ok(()) };
        if self.0.object(piece)?.needs_rest {
            self.0.object(REST)?;
        }
        Ok(())
    }

    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
        self.0.objects(names)
    }

    fn initial_objects(&self) -> Result<Vec<(String, Bytes)>> {
        match self.0.partition.has_constructors {
            true => Ok(vec![(self.0.name_of(REST), self.0.object(REST)?.bytes)]),
            false => Ok(Vec::new()),
        }
    }

    fn answers_weak(&self) -> bool {
        true
    }
}

/// Compiles requested functions while the session links. The references of a function are requested
/// in turn.
impl Generator for Bitcode {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let objects = self.0.objects(&mut requests.iter().map(|request| request.name))?;
        let object = |(name, bytes)| Generated::Object { name, bytes };
        Ok(objects.into_iter().map(object).collect())
    }
}

impl Inner {
    /// Compiles the rest, to find the definitions of its assembly.
    fn assemble(&mut self) -> Result<()> {
        let object = self.compile(REST)?;
        let defined = defined(&object).map_err(|problem| self.failure(REST, problem))?;
        self.partition.add_assembled(defined);
        *self.objects[REST].lock() = Some(self.finish(REST, object)?);
        Ok(())
    }

    /// Returns the objects that define these names. Missing objects are compiled in parallel.
    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
        let mut pieces: Vec<usize> =
            names.filter_map(|name| self.partition.piece_of(name)).collect();
        pieces.sort_unstable();
        pieces.dedup();
        let missing =
            |piece: &&usize| self.objects[**piece].try_lock().is_none_or(|it| it.is_none());
        let missing: Vec<usize> = pieces.iter().filter(missing).copied().collect();
        std::thread::scope(|scope| {
            // This thread compiles the first missing piece.
            for piece in missing.get(1..).unwrap_or_default() {
                scope.spawn(|| self.object(*piece));
            }
            pieces
                .iter()
                .map(|piece| Ok((self.name_of(*piece), self.object(*piece)?.bytes)))
                .collect()
        })
    }

    /// Returns a piece, which is compiled once. Blocks while another thread compiles it.
    fn object(&self, piece: usize) -> Result<Object> {
        let mut object = self.objects[piece].lock();
        if let Some(object) = &*object {
            return Ok(object.clone());
        }
        let made = self.finish(piece, self.compile(piece)?)?;
        Ok(object.insert(made).clone())
    }

    fn compile(&self, piece: usize) -> Result<Vec<u8>> {
        let part = match &self.partition.pieces[piece] {
            Piece::Rest { functions, aliases } => {
                Part::Without { functions: names(functions), aliases: names(aliases) }
            }
            Piece::Function { name, aliases } => {
                let resolvers = self.partition.resolvers.values().map(Vec::as_slice);
                let functions = [name.as_slice()].into_iter().chain(resolvers).collect();
                Part::Only { functions, aliases: names(aliases) }
            }
        };
        let begin = Instant::now();
        let compiled = self.compiler.compile(&self.code, &part, &self.target);
        let compiled = compiled.map_err(|error| self.failure(piece, error.to_string()))?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        log::debug!("{} was compiled in {:?}", self.name_of(piece), begin.elapsed());
        Ok(compiled)
    }

    fn finish(&self, piece: usize, object: Vec<u8>) -> Result<Object> {
        let finished = finish(object, &self.partition, piece).map_err(|problem| {
            let problem = format!("output of {}: {problem}", self.compiler.name());
            self.failure(piece, problem)
        })?;
        let has_entry = |name: &String| self.partition.defined(name).is_some_and(|it| it.callable);
        let is_direct =
            |name: &String| self.partition.piece_of(name) == Some(REST) && !has_entry(name);
        let needs_rest = piece != REST && finished.references.iter().any(is_direct);
        Ok(Object { bytes: finished.bytes.into(), needs_rest })
    }

    /// Returns the name of a piece's object, which is unique in the module.
    fn name_of(&self, piece: usize) -> String {
        match &self.partition.pieces[piece] {
            Piece::Rest { .. } => self.name.clone(),
            Piece::Function { name, .. } => {
                format!("{}({})", self.name, String::from_utf8_lossy(name))
            }
        }
    }

    fn failure(&self, piece: usize, problem: String) -> Error {
        let piece = match &self.partition.pieces[piece] {
            Piece::Rest { .. } => "all but the functions".to_owned(),
            Piece::Function { name, .. } => String::from_utf8_lossy(name).into_owned(),
        };
        Error::Piece { piece, file: self.name.clone(), problem }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.compiler.forget(&self.code);
    }
}

fn names(names: &[Vec<u8>]) -> Vec<&[u8]> {
    names.iter().map(Vec::as_slice).collect()
}

/// Returns the instruction set of a module of bitcode; `None` for other bytes, or an instruction
/// set without a linker.
pub fn architecture(bytes: &[u8]) -> Option<Architecture> {
    architecture_of(&Module::read(bytes).ok()?.triple)
}

fn architecture_of(triple: &str) -> Option<Architecture> {
    match triple.split('-').next() {
        Some("x86_64" | "amd64") => Some(Architecture::X86_64),
        Some("aarch64" | "arm64") => Some(Architecture::Aarch64),
        _ => None,
    }
}

/// Returns the target for the compilation of a module: the module's own, if its code can run in the
/// session's process.
fn target(session: &Session, name: &str, triple: &str) -> Result<String> {
    let process = session.process().map(|process| process.facts().triple.clone());
    let architecture = architecture_of(triple);
    let own = match (process, session.architecture()) {
        (Some(triple), _) => triple,
        (None, Architecture::X86_64) => "x86_64-unknown-linux-gnu".to_owned(),
        (None, Architecture::Aarch64) => "aarch64-unknown-linux-gnu".to_owned(),
        (None, other) => {
            let problem = format!(
                "it cannot be compiled for {other:?}: bitcode is for x86-64 and AArch64 only"
            );
            return Err(Error::Unsupported { file: name.to_owned(), problem });
        }
    };
    if triple.is_empty() {
        return Ok(own);
    }
    // Other formats of object files, and other sizes of pointers.
    let is_elf = triple.contains("-linux") || triple.ends_with("-elf") || triple.ends_with("-none");
    let is_narrow = triple.ends_with("x32") || triple.ends_with("ilp32");
    if architecture == Some(session.architecture()) && is_elf && !is_narrow {
        return Ok(triple.to_owned());
    }
    let problem = format!(
        "it is for {triple}, and the code is executed by {own}: compile it with --target={own}"
    );
    Err(Error::Unsupported { file: name.to_owned(), problem })
}

/// Refuses modules of a newer LLVM than the compiler's.
fn check_version(compiler: &Compiler, name: &str, module: &Module) -> Result<()> {
    let known = compiler.version();
    match module.producer.version() {
        Some(version) if version > known => {
            let error = CompileError::Newer {
                producer: module.producer.0.clone(),
                needed: version,
                path: compiler.name(),
                version: known,
            };
            Err(Error::Unsupported { file: name.to_owned(), problem: error.to_string() })
        }
        _ => Ok(()),
    }
}
