//! The memory behind arrays.

use crate::errors::Raise;
use crate::foreign::Foreign;
use crate::open_device::OpenDevice;
use crate::process::Held;
use crate::wait::Users;
use longshore::{Allocation, DevicePointer, Global, MemoryKind};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;

/// Alignment of arrays in bytes: that of DLPack's recommendation.
const ALIGNMENT: u64 = 256;
/// Foreign memory whose arrays are gone and that queued work may still use.
static LEAVING: Mutex<Vec<(Foreign, Users)>> = Mutex::new(Vec::new());

/// The memory of one or more arrays.
pub(crate) struct Storage {
    /// Taken by `drop` alone.
    owner: Option<Owner>,
    address: u64,
    pub(crate) device: Arc<OpenDevice>,
    /// The queues whose work uses the memory.
    pub(crate) users: Users,
}

enum Owner {
    /// Memory that the library allocated. Its drop frees the memory behind queued work.
    Own(#[expect(dead_code, reason = "held for its drop")] Held<Allocation>),
    /// A variable of a program.
    Global(#[expect(dead_code, reason = "held for its drop")] Held<Global>),
    /// Memory of another library.
    Foreign(Foreign),
}

impl Storage {
    /// Allocates device memory, without the interpreter's lock.
    ///
    /// # Errors
    /// `OutOfResources` if the device has not enough memory; errors of the driver.
    pub(crate) fn allocate(
        py: Python<'_>,
        device: &Arc<OpenDevice>,
        bytes: i64,
    ) -> PyResult<Arc<Storage>> {
        // An array without elements has an address, too.
        let bytes = u64::try_from(bytes).expect("a layout's size is not negative").max(1);
        let allocate = || device.device().allocate(MemoryKind::Device, bytes, ALIGNMENT);
        let memory = py.detach(allocate).raise(py)?;
        let address = memory.pointer().address();
        Ok(Storage::new(Owner::Own(Held::new(memory)), address, Arc::clone(device)))
    }

    pub(crate) fn global(variable: Global, device: Arc<OpenDevice>) -> Arc<Storage> {
        let address = variable.pointer().address();
        Storage::new(Owner::Global(Held::new(variable)), address, device)
    }

    pub(crate) fn foreign(memory: Foreign, address: u64, device: Arc<OpenDevice>) -> Arc<Storage> {
        release_unused();
        Storage::new(Owner::Foreign(memory), address, device)
    }

    fn new(owner: Owner, address: u64, device: Arc<OpenDevice>) -> Arc<Storage> {
        Arc::new(Storage { owner: Some(owner), address, device, users: Users::default() })
    }

    /// Returns the address at a distance in bytes.
    pub(crate) fn pointer(&self, offset: i64) -> DevicePointer {
        DevicePointer(self.address).offset(offset)
    }

    /// Returns whether other libraries may view the memory: not that of a variable, which ends with
    /// its program.
    pub(crate) fn is_exportable(&self) -> bool {
        !matches!(self.owner, Some(Owner::Global(_)))
    }

    /// Returns whether this library itself may read and write the memory at its addresses.
    pub(crate) fn is_host_accessible(&self) -> bool {
        self.device.is_host_accessible && self.is_exportable()
    }

    /// Returns whether the memory must not be written.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(&self.owner, Some(Owner::Foreign(memory)) if memory.is_read_only())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let Some(Owner::Foreign(memory)) = self.owner.take() else { return };
        let users = std::mem::take(&mut self.users);
        if users.are_busy() {
            LEAVING.lock().push((memory, users));
        } else {
            drop(memory);
        }
        release_unused();
    }
}

/// Releases foreign memory whose work is done.
fn release_unused() {
    let mut unused = Vec::new();
    {
        let mut leaving = LEAVING.lock();
        let (busy, done) = leaving.drain(..).partition(|(_, users)| users.are_busy());
        *leaving = busy;
        unused.extend::<Vec<_>>(done);
    }
    // The other library's release may take the interpreter's lock, so no lock is held here.
    drop(unused);
}
