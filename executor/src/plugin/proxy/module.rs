//! Images that another process has loaded.

use std::sync::Arc;

use longshore_plugin_api::{
    GlobalAddress, KernelAttributes, Module, PoolTracker, ProfileSection, Result, SymbolKind,
    bounds,
};
use parking_lot::Mutex;

use super::Isolated;
use super::device::given_up;
use super::link::Link;
use crate::arena::Piece;
use crate::plugin::protocol::{Attributes, Id, Request, Sections, Symbols, Tracker, from_tracker};

/// A loaded image. If its process is gone, so are its destructors and what it has counted.
pub struct IsolatedModule {
    link: Arc<Link>,
    id: Id,
    kernels: Mutex<Vec<Id>>,
    /// The image, if it lies in memory that both have.
    image: Option<Arc<Piece>>,
}

/// A kernel of one.
pub struct IsolatedKernel(Id);

impl IsolatedModule {
    pub(super) fn new(link: Arc<Link>, id: Id, image: Option<Arc<Piece>>) -> Self {
        Self { link, id, kernels: Mutex::default(), image }
    }

    fn is_gone(&self) -> bool {
        !self.link.is_here() || !self.link.is_alive()
    }
}

impl IsolatedKernel {
    pub(super) fn id(&self) -> Id {
        self.0
    }
}

impl Module<Isolated> for IsolatedModule {
    fn kernel(&self, name: &str) -> Result<(Arc<IsolatedKernel>, KernelAttributes)> {
        let request = Request::Kernel { module: self.id, name };
        let (id, attributes) = self.link.ask::<(Id, Attributes)>(&request)?;
        let attributes = attributes.checked(self.link.backend(), name)?;
        self.link.registry.name(id, name);
        self.kernels.lock().push(id);
        Ok((Arc::new(IsolatedKernel(id)), attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let request = Request::Global { module: self.id, name };
        let (address, bytes) = self.link.ask(&request)?;
        let global = GlobalAddress { address, bytes };
        bounds::global(self.link.backend(), name, &global).map(|()| global)
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        let symbols: Symbols = self.link.ask(&Request::Symbols { module: self.id })?;
        symbols.known(self.link.backend())
    }

    fn run_constructors(&self) -> Result<()> {
        self.link.ask(&Request::RunConstructors { module: self.id })
    }

    fn run_destructors(&self) -> Result<()> {
        given_up(&self.link, self.link.ask(&Request::RunDestructors { module: self.id }))
    }

    fn unload(self) -> Result<()> {
        if self.link.is_here() {
            self.link.registry.forget(&self.kernels.lock());
        }
        let unloaded = self.link.ask(&Request::Unload { module: self.id });
        if let (Err(_), Some(image)) = (&unloaded, &self.image) {
            // The plugin may use it still.
            image.leave();
        }
        given_up(&self.link, unloaded)
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        if self.is_gone() {
            return Ok(None);
        }
        let tracker =
            self.link.ask::<Option<Tracker>>(&Request::PoolTracker { module: self.id })?;
        Ok(tracker.map(from_tracker))
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        if self.is_gone() {
            return Ok(Vec::new());
        }
        let sections: Sections = self.link.ask(&Request::Profile { module: self.id })?;
        sections.known(self.link.backend())
    }
}
