//! Relocatable objects and archives of which a member is linked when one of its functions is first called.
//!
//! A kernel is called by its entry, which is there when the kernel has been found. Its first launch links it before it is
//! queued, so what is wrong with it is the launch's error. What kernels call in other members has entries too, and is
//! linked when they get there ([`LateCalls`]). Variables are linked when they are asked for, or referred to by what is.
//!
//! Kernels are found, described and listed by what the file says of them. Notes about their code are read when the first
//! kernel of the work-group form is found, as any member may have those of a helper.
//!
//! Constructors of a member run once, before the first of its functions; those of a single object when it is loaded, which links
//! it then. What is checked of an image ([`linked`](super::linked)) is checked of each member as it is linked. A constructor must be
//! code of its own member, or of one that was linked before.

use super::kernels::ImageNotes;
use super::linked::{self, Contents, Kept, NAME};
use super::loaded::{Loaded, Symbol};
use super::{functions, profile, refusal};
use crate::AllowedNames;
use crate::device_library::{self, DeviceLibrary};
use crate::execute::guarded::{self, Broken, Further};
use crate::execute::{LateCalls, LateImage};
use bytes::Bytes;
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{Defined, LazyFiles};
use longshore_jitlink::session::Passes;
use longshore_jitlink::{Library, Session};
use longshore_plugin_api::{Error, ImageBytes, Result, SymbolKind};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// An image that is linked as it is used. Dropping it gives its memory back.
pub(super) struct Lazy {
    file: LazyFiles,
    library: Library,
    noted: Arc<Noted>,
    bytes: Bytes,
    notes: OnceLock<ImageNotes>,
    _calls: LateCalls,
}

/// What a kernel's first launch does.
pub(super) struct LateKernel {
    /// The image is there as long as its kernels are launched. A handle to a kernel does not keep it.
    image: Weak<Lazy>,
    is_ready: AtomicBool,
}

/// What is known of what has been linked.
struct Noted {
    linked: Mutex<Contents>,
    allowed: Arc<AllowedNames>,
}

impl Lazy {
    /// Reads the index of an archive, or the symbols of an object. Blocks.
    pub(super) fn load(image: ImageBytes, allowed: &Arc<AllowedNames>) -> Result<Arc<Lazy>> {
        let noted = Arc::new(Noted { linked: Mutex::default(), allowed: Arc::clone(allowed) });
        let bytes = Bytes::from_owner(Kept(image));
        let lazy = add(bytes, &noted).map_err(|error| refusal::of_link(error, allowed))?;
        Ok(Arc::new(lazy))
    }

    /// What the image says of its kernels' code. Reads the symbols of all members, the first time.
    pub(super) fn notes(&self) -> &ImageNotes {
        self.notes.get_or_init(|| ImageNotes::read(&self.bytes))
    }

    /// Links a function, and runs the constructors of what is linked so.
    fn link(&self, function: &str) -> Result<()> {
        self.guarded(Further::Skipped, || self.file.link(function))?;
        if self.noted.linked.lock().is_unresolved(function) {
            return Err(refusal::of_resolver(function));
        }
        functions::constructor_status(self)
    }

    /// The result of something by which the linker calls code of the image.
    fn guarded<T>(
        &self,
        further: Further,
        body: impl FnOnce() -> longshore_jitlink::Result<T>,
    ) -> Result<T> {
        let (result, broken) = guarded::watched(further, body);
        match broken {
            Some(broken) => Err(self.noted.explain_broken(broken)),
            None => result.map_err(|error| self.noted.explain(error)),
        }
    }
}

fn add(bytes: Bytes, noted: &Arc<Noted>) -> longshore_jitlink::Result<Lazy> {
    let mut passes = Passes::default();
    let into = Arc::clone(noted);
    passes.add_notes(move |graphs| {
        let (contents, into) = (into.take_from(graphs)?, Arc::clone(&into));
        Ok(move || into.linked.lock().add(contents))
    });
    let session = Session::builder()
        .with_passes(passes)
        .with_copied_process_data(device_library::is_constant);
    // SAFETY: an image is code that the program has asked to run in this process; who loads it vouches for that.
    let session = unsafe { session.build() }?;
    let calls = LateCalls::new(Arc::clone(noted))?;
    let library = session.create_library(NAME);
    let file = calls.reexports.add_lazily(&library, NAME, bytes.clone())?;
    // After the image's own definitions, as when it is linked whole.
    library.add_generator(DeviceLibrary::new(Arc::clone(&noted.allowed)));
    let noted = Arc::clone(noted);
    Ok(Lazy { file, library, noted, bytes, notes: OnceLock::new(), _calls: calls })
}

impl LateKernel {
    pub(super) fn new(image: &Arc<Lazy>) -> LateKernel {
        LateKernel { image: Arc::downgrade(image), is_ready: AtomicBool::new(false) }
    }

    /// Links the kernel, the first time. Blocks then.
    ///
    /// # Errors
    /// Those of a load. The next call tries again.
    #[inline]
    pub(super) fn prepare(&self, kernel: &str) -> Result<()> {
        if self.is_ready.load(Ordering::Acquire) { Ok(()) } else { self.link(kernel) }
    }

    #[cold]
    fn link(&self, kernel: &str) -> Result<()> {
        let image = self.image.upgrade().expect("a kernel is launched while its image is loaded");
        image.link(kernel).map_err(|error| {
            error.context(format_args!("linking kernel '{kernel}' for its first launch"))
        })?;
        self.is_ready.store(true, Ordering::Release);
        Ok(())
    }
}

impl Loaded for Lazy {
    fn symbol(&self, name: &str) -> Result<Option<Symbol>> {
        let defined = self.file.defined(name).map_err(refusal::of)?;
        let Some((kind, defined)) = defined.and_then(|defined| Some((kind_of(&defined)?, defined)))
        else {
            return Ok(None);
        };
        let address = self.guarded(Further::Skipped, || self.library.lookup(name))?;
        let bytes = if defined.indirect { 0 } else { defined.size };
        Ok(Some(Symbol { kind, address, bytes }))
    }

    fn symbol_in_memory(&self, name: &str) -> Result<Option<Symbol>> {
        Ok(self.noted.linked.lock().symbol(name))
    }

    fn constant(&self, name: &str) -> Option<Vec<u8>> {
        let defined = self.file.defined(name).ok()??;
        Some(defined.content?.to_vec())
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let all = self.file.all_defined().map_err(refusal::of)?;
        Ok(all.into_iter().filter_map(|(name, defined)| Some((name, kind_of(&defined)?))).collect())
    }

    fn construct(&self) -> Result<()> {
        // SAFETY: the constructors are code of the image, as is checked; running it is what a program asks for that
        // loads it. The arguments live as long as the process.
        let initialize = || unsafe { self.file.initialize(linked::main_arguments()) };
        self.guarded(Further::Skipped, initialize)?;
        functions::constructor_status(self)
    }

    fn destruct(&self) -> Result<()> {
        // SAFETY: as for the constructors.
        let deinitialize = || unsafe { self.file.implementations().deinitialize() };
        let ended = self.guarded(Further::Made, deinitialize);
        let failed = functions::destructor_status(self);
        ended.and(failed)
    }

    fn profile_parts(&self) -> Vec<profile::Part> {
        self.noted.linked.lock().profile().0.to_vec()
    }

    fn compiler(&self) -> Option<u32> {
        self.noted.linked.lock().profile().1
    }

    fn unload(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Noted {
    /// Returns the contents of graphs that are linked together, which it checks.
    fn take_from(
        &self,
        graphs: &mut dyn Iterator<Item = &mut LinkGraph>,
    ) -> longshore_jitlink::Result<Contents> {
        let mut contents = Contents::default();
        for graph in graphs {
            contents.take_from(graph)?;
            let was_linked_before = |address| self.linked.lock().has_code(address);
            if let Some(problem) = contents.wrong_function(was_linked_before) {
                let file = graph.name().to_string();
                return Err(longshore_jitlink::Error::Malformed { file, problem });
            }
        }
        Ok(contents)
    }
}

impl LateImage for Arc<Noted> {
    fn explain(&self, error: longshore_jitlink::Error) -> Error {
        refusal::of_link(error, &self.allowed)
    }

    fn explain_broken(&self, broken: Broken) -> Error {
        self.linked.lock().name_broken(broken)
    }
}

/// What an exported symbol is, as for images that are linked whole.
fn kind_of(defined: &Defined) -> Option<SymbolKind> {
    match defined.callable {
        true => Some(SymbolKind::Kernel),
        false => (defined.size > 0 && !defined.thread_local).then_some(SymbolKind::Global),
    }
}
