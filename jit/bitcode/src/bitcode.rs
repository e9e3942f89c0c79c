//! A module whose pieces are compiled when they are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use longshore_jitlink::lazy::{Defined, Source};
use longshore_jitlink::session::{Generated, Generator, Request};
use longshore_jitlink::{Architecture, Error, Result, Session};
use parking_lot::Mutex;

use crate::compiler::{Compiler, Input, Part};
use crate::module::Module;
use crate::partition::{Partition, Piece, REST};
use crate::symbols::{defined, finish};

/// A module of LLVM bitcode. Cheap to clone; clones share what has been compiled. Any thread may use it.
///
/// Each function is compiled alone, so nothing of one is inlined into another, but by who made the module. All variables are one piece,
/// with what cannot be apart from them: it is compiled when one of them is first needed, or the module's constructors are run. The rest
/// of what differs from an object:
///
/// - A function that nobody else sees can be called by its module alone, as ever, but has a symbol of its own.
/// - What is in a group is weak: of several definitions the first one counts, each for itself.
/// - The bounds of a section, `__start_x` and `__stop_x`, are those of the module's variables.
/// - A label whose address one function passes to another one can only be compared there.
#[derive(Clone)]
pub struct Bitcode(Arc<Inner>);

struct Inner {
    name: String,
    compiler: Compiler,
    input: Input,
    target: String,
    partition: Partition,
    /// What the pieces are once they have been compiled. Who compiles one has it locked.
    objects: Box<[Mutex<Option<Object>>]>,
    compiled: AtomicUsize,
}

/// A piece that has been compiled.
#[derive(Clone)]
struct Object {
    bytes: Bytes,
    /// Whether it is linked together with the rest, as it uses something there that has no entry.
    needs_rest: bool,
}

impl Bitcode {
    /// Reads what a module defines, for the process that executes a session's code. Its name is for messages. Of a module with
    /// assembly of its own that is compiled, of one with globals without a name the compiler makes one with; otherwise nothing is
    /// compiled and no process is run.
    ///
    /// # Errors
    /// [`Error::Malformed`] for bytes that are not one module of bitcode, [`Error::Unsupported`] for another target or a newer LLVM than
    /// the compiler's. If something is compiled, [`Error::Piece`].
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
        let failed = |problem| Error::Piece {
            piece: "a copy with names".to_owned(),
            file: name.to_owned(),
            problem,
        };
        let for_pieces = module.for_pieces(bytes);
        let mut input = Input::new(&for_pieces).map_err(failed)?;
        if module.renames() {
            module = Module::read(&for_pieces).map_err(malformed)?;
        }
        if module.globals.iter().any(|global| global.is_defined && global.name.is_empty()) {
            let named = compiler.name_globals(&input).map_err(failed)?;
            module = Module::read(&named).map_err(malformed)?;
            input = Input::new(&named).map_err(failed)?;
        }
        let partition = Partition::of(&module, name, bytes);
        let objects = partition.pieces.iter().map(|_| Mutex::default()).collect();
        let (name, compiler) = (name.to_owned(), compiler.clone());
        let compiled = AtomicUsize::new(0);
        let mut inner = Inner { name, compiler, input, target, partition, objects, compiled };
        if module.has_assembly {
            inner.assemble()?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// How many pieces have been compiled.
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

    /// Compiles what a call of a function needs, while others compile what theirs do.
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

/// Compiles what is asked for while the session links. The functions that this refers to are asked for in turn, and so on.
impl Generator for Bitcode {
    fn generate(&self, requests: &[Request<'_>]) -> Result<Vec<Generated>> {
        let objects = self.0.objects(&mut requests.iter().map(|request| request.name))?;
        let object = |(name, bytes)| Generated::Object { name, bytes };
        Ok(objects.into_iter().map(object).collect())
    }
}

impl Inner {
    /// Compiles the rest, to see what its assembly defines.
    fn assemble(&mut self) -> Result<()> {
        let object = self.compile(REST)?;
        let defined = defined(&object).map_err(|problem| self.failure(REST, problem))?;
        self.partition.add_assembled(defined);
        *self.objects[REST].lock() = Some(self.finish(REST, object)?);
        Ok(())
    }

    /// The objects that define these names, of which those that are not there yet are compiled at once.
    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
        let mut pieces: Vec<usize> =
            names.filter_map(|name| self.partition.piece_of(name)).collect();
        pieces.sort_unstable();
        pieces.dedup();
        let missing =
            |piece: &&usize| self.objects[**piece].try_lock().is_none_or(|it| it.is_none());
        let missing: Vec<usize> = pieces.iter().filter(missing).copied().collect();
        std::thread::scope(|scope| {
            // One of them is compiled here.
            for piece in missing.get(1..).unwrap_or_default() {
                scope.spawn(|| self.object(*piece));
            }
            pieces
                .iter()
                .map(|piece| Ok((self.name_of(*piece), self.object(*piece)?.bytes)))
                .collect()
        })
    }

    /// A piece, compiled once. Blocks while another thread compiles it.
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
            Piece::Rest { functions, aliases } => Part::Without { functions, aliases },
            Piece::Function { name, aliases } => {
                let resolvers = self.partition.resolvers.values().map(Vec::as_slice);
                let functions = [name.as_slice()].into_iter().chain(resolvers).collect();
                Part::Only { functions, aliases: aliases.iter().map(Vec::as_slice).collect() }
            }
        };
        let begin = Instant::now();
        let compiled = self.compiler.compile(&self.input, part, &self.target);
        let compiled = compiled.map_err(|problem| self.failure(piece, problem))?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        log::debug!("{} was compiled in {:?}", self.name_of(piece), begin.elapsed());
        Ok(compiled)
    }

    fn finish(&self, piece: usize, object: Vec<u8>) -> Result<Object> {
        let finished = finish(object, &self.partition, piece).map_err(|problem| {
            let problem = format!("what {} made of it: {problem}", self.compiler.name());
            self.failure(piece, problem)
        })?;
        let has_entry = |name: &String| self.partition.defined(name).is_some_and(|it| it.callable);
        let is_direct =
            |name: &String| self.partition.piece_of(name) == Some(REST) && !has_entry(name);
        let needs_rest = piece != REST && finished.references.iter().any(is_direct);
        Ok(Object { bytes: finished.bytes.into(), needs_rest })
    }

    /// The name of a piece's object: each has its own.
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

/// The instruction set that a module of bitcode is for, if its bytes are one and there is a linker for it.
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

/// The target for which a module is compiled: its own, if the code can run where the session's does.
fn target(session: &Session, name: &str, triple: &str) -> Result<String> {
    let process = session.process().map(|process| process.facts().triple.clone());
    let architecture = architecture_of(triple);
    let own = match (process, session.architecture()) {
        (Some(triple), _) => triple,
        (None, Architecture::X86_64) => "x86_64-unknown-linux-gnu".to_owned(),
        (None, Architecture::Aarch64) => "aarch64-unknown-linux-gnu".to_owned(),
        (None, other) => {
            let problem = format!("is to be compiled for {other:?}, which has no bitcode");
            return Err(Error::Unsupported { file: name.to_owned(), problem });
        }
    };
    if triple.is_empty() {
        return Ok(own);
    }
    // Other object files, and other sizes of pointers.
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

/// Refuses what the compiler cannot be expected to read.
fn check_version(compiler: &Compiler, name: &str, module: &Module) -> Result<()> {
    let known = compiler.version();
    match module.producer_version() {
        Some(version) if version > known => {
            let (producer, clang) = (&module.producer, compiler.name());
            let problem = format!(
                "it was written by {producer}, and {clang} reads what LLVM {known} and earlier write: \
                 install clang and llvm-extract of LLVM {version} (on Debian and Ubuntu the packages \
                 clang-{version} and llvm-{version}), or compile it with an earlier compiler"
            );
            Err(Error::Unsupported { file: name.to_owned(), problem })
        }
        _ => Ok(()),
    }
}
