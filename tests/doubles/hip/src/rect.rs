//! `hipMemcpy3DParms`.

use crate::code::INVALID_MEMCPY_DIRECTION;
use longshore_double_gpu::driver::rect::{End, Extent, Memory, copy};
use longshore_double_gpu::driver::{Code, DriverResult, In, broken};

/// `hipMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3d {
    from: Copy3dEnd,
    to: Copy3dEnd,
    extent: [usize; 3],
    kind: u32,
}

/// The part of `hipMemcpy3DParms` for one end.
#[repr(C)]
#[derive(Clone, Copy)]
struct Copy3dEnd {
    array: u64,
    position: [usize; 3],
    address: u64,
    pitch: usize,
    _row_bytes: usize,
    height: usize,
}

/// Copies a rectangle between memory outside of arrays.
pub(crate) fn copy_rect(request: In<Copy3d>, stream: usize) -> DriverResult {
    let Copy3d { from, to, extent: [row_bytes, rows, slices], kind } = request.get()?;
    let (to_memory, from_memory) = match kind {
        0 => (Memory::Host, Memory::Host),
        1 => (Memory::Device, Memory::Host),
        2 => (Memory::Host, Memory::Device),
        3 => (Memory::Device, Memory::Device),
        4 => (Memory::Any, Memory::Any),
        _ => {
            let what = format!("unknown direction of a copy: {kind}");
            return Err(broken(INVALID_MEMCPY_DIRECTION, what));
        }
    };
    let extent = Extent { row_bytes, rows, slices };
    copy(to.end(to_memory)?, from.end(from_memory)?, extent, stream)
}

impl Copy3dEnd {
    /// # Errors
    /// `INVALID_VALUE`, a violation, for arrays and null pointers.
    fn end(&self, memory: Memory) -> DriverResult<End> {
        if self.array != 0 || self.address == 0 {
            let what = "a copy of a rectangle with an array, or without a pointer";
            return Err(broken(Code::INVALID_VALUE, what));
        }
        let [x, y, z] = self.position;
        let first = (z * self.height + y) * self.pitch + x;
        let (pitch, height) = (self.pitch, self.height);
        Ok(End { memory, address: self.address + first as u64, pitch, height })
    }
}
