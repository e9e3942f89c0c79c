//! `CUDA_MEMCPY3D`.

use longshore_double_gpu::driver::rect::{End, Extent, Memory, copy};
use longshore_double_gpu::driver::{Code, DriverResult, In, broken};

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3d {
    from: Copy3dEnd,
    to: Copy3dEnd,
    row_bytes: usize,
    rows: usize,
    slices: usize,
}

/// The part of `CUDA_MEMCPY3D` for one end.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy3dEnd {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    memory: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// Copies a rectangle between memory outside of arrays.
pub(crate) fn copy_rect(request: In<Copy3d>, stream: usize) -> DriverResult {
    let Copy3d { from, to, row_bytes, rows, slices } = request.get()?;
    let extent = Extent { row_bytes, rows, slices };
    copy(to.end(extent)?, from.end(extent)?, extent, stream)
}

impl Copy3dEnd {
    /// # Errors
    /// `INVALID_VALUE`, a violation, for arrays, and for values that have to be 0.
    fn end(&self, extent: Extent) -> DriverResult<End> {
        let (memory, address) = match self.memory {
            1 => (Memory::Host, self.host),
            2 => (Memory::Device, self.device),
            4 => (Memory::Any, self.device),
            other => {
                let what = format!("a copy of a rectangle with memory of type {other}");
                return Err(broken(Code::INVALID_VALUE, what));
            }
        };
        if self.reserved != 0 || self.level != 0 {
            let what = "a copy of a rectangle with a reserved field that is not 0";
            return Err(broken(Code::INVALID_VALUE, what));
        }
        let is_within = self.x.saturating_add(extent.row_bytes) <= self.pitch
            && self.y.saturating_add(extent.rows) <= self.height;
        if !is_within && extent.rows * extent.row_bytes != 0 {
            let what = format!(
                "a copy of {} rows of {} bytes from ({}, {}) in {} rows of {} bytes",
                extent.rows, extent.row_bytes, self.x, self.y, self.height, self.pitch
            );
            return Err(broken(Code::INVALID_VALUE, what));
        }
        let first = (self.z * self.height + self.y) * self.pitch + self.x;
        let (pitch, height) = (self.pitch, self.height);
        Ok(End { memory, address: address + first as u64, pitch, height })
    }
}
