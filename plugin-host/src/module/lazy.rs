//! Relocatable objects and archives whose members are linked at the first call of one of their
//! functions.
//!
//! A kernel is called through its entry, which exists once the kernel has been found. Its first
//! launch links it before it is queued, so a failed link is the launch's error. Functions that
//! kernels call in other members also have entries, and are linked at their first call
//! ([`LateCalls`]). Variables are linked when they are looked up, or when linked code refers to
//! them.
//!
//! The file's symbols suffice to find, describe and list kernels. Notes about their code are read
//! when the first kernel of the work-group form is found, because any member may hold a helper's
//! notes.
//!
//! Constructors of a member run once, before the first of its functions. Constructors of a single
//! object run when it is loaded, which links it then. The checks of an image
//! ([`linked`]) apply to each member as it is linked. A constructor must be code of
//! its own member, or of an earlier linked member.

use super::kernels::ImageNotes;
use super::linked::{self, Contents, NAME, RetainedImage};
use super::loaded::{LoadedImage, Symbol};
use super::{functions, profile, refusal};
use crate::LinkSettings;
use crate::device_library::DeviceLibrary;
use crate::execute::guarded::{self, FailedCall, FailurePolicy};
use crate::execute::{LateCalls, LateImage};
use crate::lines::Lines;
use bytes::Bytes;
use longshore_jitlink::Library;
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{Defined, LazyFiles};
use longshore_jitlink::session::Passes;
use longshore_plugin_api::{Error, ImageBytes, Result, SymbolKind};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// An image that is linked on use. Dropping it frees its memory.
pub(super) struct LazyImage {
    file: LazyFiles,
    library: Library,
    record: Arc<LinkRecord>,
    bytes: Bytes,
    notes: OnceLock<ImageNotes>,
    _calls: LateCalls,
}

/// The link before a kernel's first launch.
pub(super) struct LateKernel {
    /// The image, which lives while its kernels are launched. A handle to a kernel does not keep
    /// it.
    image: Weak<LazyImage>,
    is_ready: AtomicBool,
}

/// The record of linked members.
struct LinkRecord {
    linked: Mutex<Contents>,
    lines: Arc<Lines>,
    links: LinkSettings,
}

impl LazyImage {
    /// Reads the index of an archive, or the symbols of an object. Blocks.
    pub(super) fn load(image: ImageBytes, links: &LinkSettings) -> Result<Arc<LazyImage>> {
        let (linked, lines, links_of_image) = (Mutex::default(), Arc::default(), links.clone());
        let record = Arc::new(LinkRecord { linked, lines, links: links_of_image });
        let bytes = Bytes::from_owner(RetainedImage(image));
        let lazy =
            add(bytes, &record).map_err(|error| refusal::link_error(error, &links.allowed))?;
        Ok(Arc::new(lazy))
    }

    /// Returns the notes about the code of kernels. The first call reads the symbols of all
    /// members.
    pub(super) fn notes(&self) -> &ImageNotes {
        self.notes.get_or_init(|| ImageNotes::read(&self.bytes))
    }

    /// Links a function, and runs the constructors of the linked members.
    fn link(&self, function: &str) -> Result<()> {
        self.guarded(FailurePolicy::Skipped, || self.file.link(function))?;
        if self.record.linked.lock().is_unresolved(function) {
            return Err(refusal::resolver_error(function));
        }
        functions::constructor_status(self)
    }

    /// Runs `body`, in which the linker calls code of the image.
    fn guarded<T>(
        &self,
        policy: FailurePolicy,
        body: impl FnOnce() -> longshore_jitlink::Result<T>,
    ) -> Result<T> {
        let (result, broken) = guarded::watched(policy, body);
        match broken {
            Some(broken) => Err(self.record.explain_broken(broken)),
            None => result.map_err(|error| self.record.explain(error)),
        }
    }
}

fn add(bytes: Bytes, record: &Arc<LinkRecord>) -> longshore_jitlink::Result<LazyImage> {
    let mut passes = Passes::default();
    let into = Arc::clone(record);
    passes.add_notes(move |graphs| {
        let (mut contents, into) = (into.take_from(graphs)?, Arc::clone(&into));
        Ok(move || {
            into.lines.add(contents.take_parts());
            into.linked.lock().add(contents);
        })
    });
    let session = linked::new_session(passes, &record.links)?;
    let calls = LateCalls::new(Arc::clone(record))?;
    let library = session.create_library(NAME);
    let file = calls.reexports.add_lazily(&library, NAME, bytes.clone())?;
    // The generator comes after the image's own definitions, as for an image that is linked at
    // once.
    library.add_generator(DeviceLibrary::new(Arc::clone(&record.links.allowed)));
    let record = Arc::clone(record);
    Ok(LazyImage { file, library, record, bytes, notes: OnceLock::new(), _calls: calls })
}

impl LateKernel {
    pub(super) fn new(image: &Arc<LazyImage>) -> LateKernel {
        LateKernel { image: Arc::downgrade(image), is_ready: AtomicBool::new(false) }
    }

    /// Links the kernel, the first time. Blocks then.
    ///
    /// # Errors
    /// The errors of a load. The next call tries again.
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

impl LoadedImage for LazyImage {
    fn symbol(&self, name: &str) -> Result<Option<Symbol>> {
        let defined = self.file.defined(name).map_err(refusal::load_error)?;
        let Some((kind, defined)) = defined.and_then(|defined| Some((kind_of(&defined)?, defined)))
        else {
            return Ok(None);
        };
        let address = self.guarded(FailurePolicy::Skipped, || self.library.lookup(name))?;
        let bytes = if defined.indirect { 0 } else { defined.size };
        Ok(Some(Symbol { kind, address, bytes }))
    }

    fn symbol_in_memory(&self, name: &str) -> Result<Option<Symbol>> {
        Ok(self.record.linked.lock().symbol(name))
    }

    fn constant(&self, name: &str) -> Option<Vec<u8>> {
        let defined = self.file.defined(name).ok()??;
        Some(defined.content?.to_vec())
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let all = self.file.all_defined().map_err(refusal::load_error)?;
        Ok(all.into_iter().filter_map(|(name, defined)| Some((name, kind_of(&defined)?))).collect())
    }

    fn construct(&self) -> Result<()> {
        // SAFETY: the constructors are checked code of the image, and the program that loads an
        // image wants them to run. The arguments live as long as the process.
        let initialize = || unsafe { self.file.initialize(linked::main_arguments()) };
        self.guarded(FailurePolicy::Skipped, initialize)?;
        functions::constructor_status(self)
    }

    fn destruct(&self) -> Result<()> {
        // SAFETY: as for the constructors.
        let deinitialize = || unsafe { self.file.implementations().deinitialize() };
        let ended = self.guarded(FailurePolicy::Made, deinitialize);
        let failed = functions::destructor_status(self);
        ended.and(failed)
    }

    fn lines(&self) -> &Arc<Lines> {
        &self.record.lines
    }

    fn profile_parts(&self) -> Vec<profile::Part> {
        self.record.linked.lock().profile().0.to_vec()
    }

    fn compiler(&self) -> Option<u32> {
        self.record.linked.lock().profile().1
    }

    fn unload(self: Box<Self>) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl LinkRecord {
    /// Checks graphs that are linked together and returns their contents.
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

impl LateImage for Arc<LinkRecord> {
    fn explain(&self, error: longshore_jitlink::Error) -> Error {
        refusal::link_error(error, &self.links.allowed)
    }

    fn explain_broken(&self, broken: FailedCall) -> Error {
        self.linked.lock().name_broken(broken)
    }
}

/// Returns the kind of an exported symbol, by the same rules as for images that are linked at once.
fn kind_of(defined: &Defined) -> Option<SymbolKind> {
    match defined.callable {
        true => Some(SymbolKind::Kernel),
        false => (defined.size > 0 && !defined.thread_local).then_some(SymbolKind::Global),
    }
}
