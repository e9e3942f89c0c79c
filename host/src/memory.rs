//! Device memory: the table of addresses, the cache of freed blocks, the handles, and tracking.

mod allocation;
mod block;
mod buffer;
mod buffer_slice;
mod device_memory;
pub(crate) mod element;
mod origins;
mod pending;
mod region;
mod table;
mod tracking;

pub use allocation::{Allocation, DevicePointer};
pub use buffer::Buffer;
pub use buffer_slice::BufferSlice;
pub use element::Element;
pub use region::Region;
pub use table::{AllocationInfo, AllocationOwner};
pub use tracking::{CallSite, CallStack, MemoryReport, MemoryUse, TimelinePoint};

pub(crate) use block::{Block, Use};
pub(crate) use device_memory::{DeviceMemory, Released, Request};
pub(crate) use table::AllocationTable;
pub(crate) use tracking::{DeviceTracker, HostTracker, LeakTable, Ledger};
