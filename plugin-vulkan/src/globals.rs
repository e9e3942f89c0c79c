//! The globals of a module: a block that outlives launches.

use crate::device_core::DeviceCore;
use crate::memory::{Region, RegionPosition};
use crate::transfer::{CopyJob, End};
use longshore_plugin_api::Result;
use std::sync::Arc;

/// The block of a module's globals.
pub(crate) struct Globals {
    pub(crate) region: Arc<Region>,
    device: Arc<DeviceCore>,
}

/// Number of bytes of globals that are zeroed at a time.
const ZEROS_BYTES: u32 = 1 << 20;

impl Globals {
    /// Allocates zeroed memory; `None` without globals. Blocks.
    pub(crate) fn allocate(device: &Arc<DeviceCore>, bytes: u32) -> Result<Option<Globals>> {
        if bytes == 0 {
            return Ok(None);
        }
        let region = device.memory.internal_found(bytes.into())?;
        let globals = Globals { region, device: Arc::clone(device) };
        // The image states the number of bytes, which may be too large for one buffer of zeros.
        let zeros = vec![0u8; bytes.min(ZEROS_BYTES) as usize];
        for start in (0..bytes).step_by(ZEROS_BYTES as usize) {
            let to = End::Device(globals.found(start.into()));
            let part = (bytes - start).min(ZEROS_BYTES);
            globals.copy(to, End::Host(zeros.as_ptr() as u64), part.into())?;
        }
        Ok(Some(globals))
    }

    /// Returns the current contents. Blocks.
    pub(crate) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut contents = vec![0u8; bytes as usize];
        if bytes > 0 {
            let from = End::Device(self.found(offset));
            self.copy(End::Host(contents.as_mut_ptr() as u64), from, bytes)?;
        }
        Ok(contents)
    }

    fn found(&self, offset: u64) -> RegionPosition {
        RegionPosition { region: Arc::clone(&self.region), offset }
    }

    fn copy(&self, to: End, from: End, bytes: u64) -> Result<()> {
        CopyJob { device: Arc::clone(&self.device), to, from, bytes }.run()
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        self.device.memory.withdraw(&self.region);
    }
}
