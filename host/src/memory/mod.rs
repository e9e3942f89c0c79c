//! Device memory: who owns which addresses, the cache of freed blocks, and the handles.

mod allocation;
mod block;
mod buffer;
mod device_memory;
mod table;

pub use allocation::{Allocation, DevicePointer};
pub use buffer::{Buffer, Element};
pub use table::{AllocationInfo, AllocationOwner};

pub(crate) use block::{Block, Use};
pub(crate) use device_memory::{DeviceMemory, Released, Request};
pub(crate) use table::AllocationTable;
