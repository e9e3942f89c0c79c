//! Queues and events. The calls here are the hot ones: one indirect call each, no allocation.

use super::tables::Tables;
use super::{Remote, RemoteDevice, RemoteKernel, lacks_table};
use crate::abi::{self, DeviceHandle, EventHandle, QueueHandle};
use crate::backend::{Event, Queue};
use crate::error::Result;
use crate::raw::{bytes, from_raw};
use crate::request::{
    Arguments, CopyRequest, HostFunction, LaunchShape, Place, PrefetchTarget, Span,
};

/// A queue of a plugin. Dropping it gives it up without waiting.
pub struct RemoteQueue {
    handle: *mut QueueHandle,
    table: &'static abi::QueueTable,
    cluster: Option<&'static abi::ClusterTable>,
    prefetch: Option<&'static abi::PrefetchTable>,
}

/// An event of a plugin.
pub struct RemoteEvent {
    handle: *mut EventHandle,
    table: &'static abi::EventTable,
}

// SAFETY: the interface promises that queues and events may be used from any thread.
unsafe impl Send for RemoteQueue {}
// SAFETY: as above.
unsafe impl Sync for RemoteQueue {}
// SAFETY: as above.
unsafe impl Send for RemoteEvent {}
// SAFETY: as above.
unsafe impl Sync for RemoteEvent {}

impl RemoteQueue {
    pub(super) fn new(handle: *mut QueueHandle, tables: &Tables) -> RemoteQueue {
        RemoteQueue {
            handle,
            table: tables.queue,
            cluster: tables.cluster,
            prefetch: tables.prefetch,
        }
    }
}

impl Queue<Remote> for RemoteQueue {
    #[inline]
    fn launch(
        &self,
        kernel: &RemoteKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let launch = request(kernel, shape, arguments);
        // SAFETY: a live queue and a request that `arguments`' maker vouches for.
        unsafe { from_raw((self.table.launch)(self.handle, &launch)) }
    }

    fn launch_in_clusters(
        &self,
        kernel: &RemoteKernel,
        shape: &LaunchShape,
        cluster: [u32; 3],
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let table = self.cluster.ok_or_else(|| lacks_table("cluster"))?;
        let launch = request(kernel, shape, arguments);
        // SAFETY: as above.
        unsafe { from_raw((table.launch)(self.handle, &launch, &cluster)) }
    }

    #[inline]
    fn copy(&self, copy: &CopyRequest<'_, RemoteDevice>) -> Result<()> {
        let raw = abi::CopyRequest {
            destination: copy.destination.address(),
            destination_device: device_of(&copy.destination_place),
            source: copy.source.address(),
            source_device: device_of(&copy.source_place),
            bytes: copy.destination.bytes(),
            flags: if copy.wait { abi::COPY_WAIT } else { 0 },
        };
        // SAFETY: a live queue and ranges that their maker vouches for.
        unsafe { from_raw((self.table.copy)(self.handle, &raw)) }
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let raw = abi::Fill {
            destination: destination.address(),
            bytes: destination.bytes(),
            pattern: bytes(pattern),
            flags: if wait { abi::FILL_WAIT } else { 0 },
        };
        // SAFETY: a live queue and a range that its maker vouches for.
        unsafe { from_raw((self.table.fill)(self.handle, &raw)) }
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        // SAFETY: a live queue and a function that its maker vouches for.
        unsafe { from_raw((self.table.host_function)(self.handle, function.into_raw())) }
    }

    fn wait_event(&self, event: &RemoteEvent) -> Result<()> {
        // SAFETY: a live queue and a live event.
        unsafe { from_raw((self.table.wait_event)(self.handle, event.handle)) }
    }

    fn record_event(&self, event: &RemoteEvent) -> Result<()> {
        // SAFETY: a live queue and a live event.
        unsafe { from_raw((self.table.record_event)(self.handle, event.handle)) }
    }

    fn is_idle(&self) -> Result<bool> {
        let mut idle = 0;
        // SAFETY: a live queue and a place to write to.
        unsafe { from_raw((self.table.is_idle)(self.handle, &mut idle))? };
        Ok(idle != 0)
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: a live queue.
        unsafe { from_raw((self.table.synchronize)(self.handle)) }
    }

    fn prefetch(&self, range: Span, target: PrefetchTarget) -> Result<()> {
        let table = self.prefetch.ok_or_else(|| lacks_table("prefetch"))?;
        let (address, bytes) = (range.address(), range.bytes());
        // SAFETY: a live queue and a range that its maker vouches for.
        unsafe { from_raw((table.prefetch)(self.handle, address, bytes, target as u32)) }
    }
}

fn device_of(place: &Place<'_, RemoteDevice>) -> *mut DeviceHandle {
    match place {
        Place::Host => std::ptr::null_mut(),
        Place::Device(device) => device.handle(),
    }
}

impl Drop for RemoteQueue {
    fn drop(&mut self) {
        // SAFETY: a live queue, used no more.
        if let Err(error) = unsafe { from_raw((self.table.destroy)(self.handle)) } {
            log::warn!("destroying a queue: {error}");
        }
    }
}

impl RemoteEvent {
    pub(super) fn new(handle: *mut EventHandle, table: &'static abi::EventTable) -> RemoteEvent {
        RemoteEvent { handle, table }
    }
}

impl Event<Remote> for RemoteEvent {
    fn is_complete(&self) -> Result<bool> {
        let mut complete = 0;
        // SAFETY: a live event and a place to write to.
        unsafe { from_raw((self.table.is_complete)(self.handle, &mut complete))? };
        Ok(complete != 0)
    }

    fn synchronize(&self) -> Result<()> {
        // SAFETY: a live event.
        unsafe { from_raw((self.table.synchronize)(self.handle)) }
    }

    fn elapsed_ns(&self, end: &RemoteEvent) -> Result<i64> {
        let mut nanoseconds = 0;
        // SAFETY: two live events and a place to write to.
        unsafe { from_raw((self.table.elapsed)(self.handle, end.handle, &mut nanoseconds))? };
        Ok(nanoseconds)
    }
}

impl Drop for RemoteEvent {
    fn drop(&mut self) {
        // SAFETY: a live event, used no more.
        if let Err(error) = unsafe { from_raw((self.table.destroy)(self.handle)) } {
            log::warn!("destroying an event: {error}");
        }
    }
}

#[inline]
fn request(kernel: &RemoteKernel, shape: &LaunchShape, arguments: Arguments<'_>) -> abi::Launch {
    let cooperative = if shape.cooperative { abi::LAUNCH_COOPERATIVE } else { 0 };
    let wait = if shape.wait { abi::LAUNCH_WAIT } else { 0 };
    abi::Launch {
        kernel: kernel.handle(),
        groups: shape.groups,
        items: shape.items,
        dynamic_shared_bytes: shape.dynamic_shared_bytes,
        flags: cooperative | wait,
        argument_count: arguments.len() as u32,
        arguments: arguments.pointers(),
        argument_sizes: arguments.sizes(),
    }
}
