//! An open device: its memory, and the maker of modules, queues and events.

use crate::AcmePlugin;
use crate::memory::Memory;
use crate::module::{AcmeModule, refusal};
use longshore_plugin_api::software::{SoftwareEvent, SoftwareQueue};
use longshore_plugin_api::{
    Acceptance, Device, Error, ErrorCode, ImageBytes, Loading, MemoryKind, Result,
};

/// An open device. Your driver: put its context here.
pub struct AcmeDevice {
    index: u32,
    memory: Memory,
}

impl AcmeDevice {
    pub(crate) fn new(index: u32, memory_bytes: u64) -> AcmeDevice {
        AcmeDevice {
            index,
            memory: Memory::new(index, memory_bytes),
        }
    }
}

// Optional methods of the trait, such as `score`, `pin` and `can_access`, answer `Unsupported`
// unless they are written here; the host works without them.
impl Device<AcmePlugin> for AcmeDevice {
    // A bad image is a refusal with a reason, and no error (P-37).
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(match refusal(image) {
            None => Acceptance::Accepted,
            Some(reason) => Acceptance::Refused(reason),
        })
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        self.memory.allocate(kind, bytes, alignment)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.memory.free(kind, address)
    }

    // Your driver: load the image, without running its constructors. Malformed bytes do no harm,
    // and leave nothing behind (P-38). The bytes stay in place as long as `ImageBytes` lives.
    fn load(&self, image: ImageBytes, _: Loading) -> Result<AcmeModule> {
        match refusal(image.get()) {
            None => Ok(AcmeModule),
            Some(reason) => Err(Error::new(ErrorCode::InvalidBinary, reason)),
        }
    }

    fn create_queue(&self) -> Result<SoftwareQueue> {
        SoftwareQueue::new()
    }

    fn create_event(&self, timing: bool) -> Result<SoftwareEvent> {
        Ok(SoftwareEvent::new(self.index, timing))
    }
}
