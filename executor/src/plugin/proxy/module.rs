//! Images loaded by another process.

use std::sync::Arc;

use longshore_plugin_api::{KernelAttributes, Result, bounds};
use parking_lot::Mutex;

use super::device::given_up;
use super::link::Link;
use crate::arena::Piece;
use crate::plugin::interface::messages::ModuleCall;
use crate::plugin::protocol::{Id, Request};

/// A loaded image. When its process ends, its destructors do not run and its profile counters are
/// lost.
pub struct IsolatedModule {
    link: Arc<Link>,
    id: Id,
    kernels: Mutex<Vec<Id>>,
    /// The image's bytes, if they lie in shared memory.
    image: Option<Arc<Piece>>,
}

/// A kernel of an [`IsolatedModule`].
pub struct IsolatedKernel(Id);

impl IsolatedModule {
    pub(super) fn new(link: Arc<Link>, id: Id, image: Option<Arc<Piece>>) -> Self {
        Self { link, id, kernels: Mutex::default(), image }
    }

    pub(in crate::plugin) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(in crate::plugin) fn request<'a>(&self, call: ModuleCall<'a>) -> Request<'a> {
        Request::Module(self.id, call)
    }
}

impl IsolatedKernel {
    pub(super) fn id(&self) -> Id {
        self.0
    }

    /// Returns the kernel's number. The host checks the kernel's device.
    pub(in crate::plugin) fn id_for(&self, _: &Arc<Link>) -> Result<Id> {
        Ok(self.0)
    }
}

/// Methods written by hand.
impl IsolatedModule {
    pub(in crate::plugin) fn kernel_there(
        &self,
        name: &str,
    ) -> Result<(Arc<IsolatedKernel>, KernelAttributes)> {
        let request = Request::Kernel { module: self.id, name };
        let (id, attributes) = self.link.ask::<(Id, KernelAttributes)>(&request)?;
        bounds::kernel(self.link.backend(), name, &attributes)?;
        self.link.registry.name(id, name);
        self.kernels.lock().push(id);
        Ok((Arc::new(IsolatedKernel(id)), attributes))
    }

    pub(in crate::plugin) fn unload_there(self) -> Result<()> {
        if self.link.is_here() {
            self.link.registry.forget(&self.kernels.lock());
        }
        let unloaded = self.link.ask(&Request::Unload { module: self.id });
        if let (Err(_), Some(image)) = (&unloaded, &self.image) {
            // After an error the plugin may still use the image.
            image.leave();
        }
        given_up(&self.link, unloaded)
    }
}
