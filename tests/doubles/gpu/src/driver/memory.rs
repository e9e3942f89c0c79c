//! Memory of devices, and managed memory.

use super::blocks::{Block, Kind, OF_MODULE};
use super::context::{Context, current, current_or_failed};
use super::range::device_range;
use super::{Code, DriverResult, Machine, Out, broken, driver, machine, pool, stream, transfer};
use crate::Window;
use crate::protocol::{Fault, FaultKind};
use std::sync::Arc;

const ATTACH_GLOBAL: u32 = 1;
const ATTACH_HOST: u32 = 2;

/// Stores the free bytes and all bytes of the current device's memory.
pub fn info(free: Out<usize>, total: Out<usize>) -> DriverResult {
    let context = current()?;
    let (limit, used) = machine()?.devices[context.device].window.usage();
    let reserved = pool::unused_bytes(context.device);
    free.put(limit.saturating_sub(used + reserved) as usize)?;
    total.put(limit as usize)
}

/// Allocates memory of the current device.
pub fn allocate(address: Out<u64>, bytes: usize) -> DriverResult {
    let context = current()?;
    if bytes == 0 || address.is_null() {
        return Err(broken(Code::INVALID_VALUE, "an allocation of 0 bytes, or to a null pointer"));
    }
    let block = allocate_block(&context, Kind::Device, bytes as u64, 0)?;
    address.put(block.address)
}

/// Frees memory of a device, or managed memory. Waits for the device.
pub fn free(address: u64) -> DriverResult {
    let context = current_or_failed()?;
    if address == 0 {
        return context.check();
    }
    let machine = machine()?;
    let block = machine
        .blocks
        .to_free(address, |kind| matches!(kind, Kind::Device | Kind::Pooled(_) | Kind::Managed))?;
    if block.flags & OF_MODULE != 0 {
        return Err(broken(Code::INVALID_VALUE, "a variable of a module is freed"));
    }
    machine.wait_for_device(block.context.device);
    release(machine, &block);
    context.check()
}

/// Allocates managed memory, which the host and all devices reach.
pub fn allocate_managed(address: Out<u64>, bytes: usize, flags: u32) -> DriverResult {
    let context = current()?;
    if !machine()?.has_managed {
        return Err(Code::NOT_SUPPORTED);
    }
    if bytes == 0 || address.is_null() || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
        let what = format!("managed memory of {bytes} bytes with flags {flags:#x}");
        return Err(broken(Code::INVALID_VALUE, what));
    }
    let block = allocate_shared(&context, Kind::Managed, bytes as u64, flags.into())?;
    address.put(block.address)
}

/// Allocates memory of the context's device, which its kernels and its peers' kernels access.
///
/// # Errors
/// `OUT_OF_MEMORY`.
pub(crate) fn allocate_block(
    context: &Arc<Context>,
    kind: Kind,
    bytes: u64,
    flags: u64,
) -> DriverResult<Arc<Block>> {
    let machine = machine()?;
    let window = &machine.devices[context.device].window;
    let found = window.allocate(bytes, None).or_else(|| {
        pool::trim_all(context.device);
        window.allocate(bytes, None)
    });
    let address = found.ok_or(Code::OUT_OF_MEMORY)?;
    let block = machine.blocks.add(context, kind, address, bytes, flags);
    for viewer in viewers(machine, &block) {
        block.show_to(&viewer, true);
    }
    Ok(block)
}

/// Allocates host memory that all devices reach.
///
/// # Errors
/// `OUT_OF_MEMORY`.
pub(crate) fn allocate_shared(
    context: &Arc<Context>,
    kind: Kind,
    bytes: u64,
    flags: u64,
) -> DriverResult<Arc<Block>> {
    let machine = machine()?;
    let address = machine.shared.allocate(bytes, None).ok_or(Code::OUT_OF_MEMORY)?;
    let block = machine.blocks.add(context, kind, address, bytes, flags);
    show_to_all(machine, &block, true)?;
    Ok(block)
}

/// Grants the program and all devices access to a block, or revokes it. The program never gets
/// access to the device's side of registered memory.
///
/// # Errors
/// `OUT_OF_MEMORY` if the system refuses.
pub(crate) fn show_to_all(machine: &Machine, block: &Block, accessible: bool) -> DriverResult {
    if !matches!(block.kind, Kind::Shadow(_)) {
        let shown = machine.shared.show(block.address, block.bytes, accessible);
        shown.map_err(|_| Code::OUT_OF_MEMORY)?;
    }
    for context in machine.contexts.lock().clone() {
        block.show_to(&context, accessible);
    }
    Ok(())
}

/// Frees a block of any kind.
pub(crate) fn release(machine: &Machine, block: &Block) {
    if machine.blocks.remove(block.address).is_none() {
        return;
    }
    let window: &Window = match &block.kind {
        Kind::Device | Kind::Pooled(_) => &machine.devices[block.context.device].window,
        Kind::Pinned | Kind::Managed | Kind::Shadow(_) => &machine.shared,
        Kind::Registered(_) | Kind::Variable | Kind::Alias(_) => return,
    };
    if block.is_shared() {
        // A block that stays accessible is harmless; only later uses of it go unnoticed.
        let _ = show_to_all(machine, block, false);
    } else {
        for viewer in viewers(machine, block) {
            block.show_to(&viewer, false);
        }
    }
    window.free(block.address, block.bytes);
    if let Kind::Pooled(pool) = block.kind {
        pool::note_freed(pool, block.bytes);
    }
}

/// Returns the contexts whose kernels access a block of device memory. They are its own context and
/// contexts with peer access to it or, for a pool's block, on devices with access to the pool.
fn viewers(machine: &Machine, block: &Block) -> Vec<Arc<Context>> {
    let contexts = machine.contexts.lock();
    let views = |context: &&Arc<Context>| {
        context.handle == block.context.handle
            || match block.kind {
                Kind::Pooled(pool) => pool::is_accessible(pool, context.device),
                _ => context.peers.lock().contains(&block.context.handle),
            }
    };
    contexts.iter().filter(views).cloned().collect()
}

/// Moves managed memory to a device or, as -1, to the host. Other memory cannot move.
pub fn prefetch(address: u64, bytes: usize, device: i32, stream: usize) -> DriverResult {
    let (_, stream) = stream::for_work(stream)?;
    let block = machine()?.blocks.find(address);
    if !block.is_some_and(|block| matches!(block.kind, Kind::Managed)) {
        // Not a violation: a device without access to pageable memory returns this code for memory
        // that cannot move.
        return Err(Code::INVALID_VALUE);
    }
    device_range(address, bytes as u64)?;
    if bytes == 0 {
        return Err(broken(Code::INVALID_VALUE, "a prefetch of 0 bytes"));
    }
    if device != -1 {
        machine()?.device(device)?;
    }
    stream.push(|_| ())?;
    Ok(())
}

/// Grants kernels of the current context access to a peer's memory.
pub fn enable_peer(peer: &Context, flags: u32) -> DriverResult {
    let context = current()?;
    if flags != 0 {
        return Err(broken(
            Code::INVALID_VALUE,
            format!("invalid flags of peer access: {flags:#x}"),
        ));
    }
    if peer.handle == context.handle {
        let scope = driver().vendor.scope();
        return Err(broken(Code::INVALID_DEVICE, format!("a {scope} is made its own peer")));
    }
    if !machine()?.has_peers {
        return Err(Code::PEER_ACCESS_UNSUPPORTED);
    }
    if !context.peers.lock().insert(peer.handle) {
        return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
    }
    show_peer(&context, peer, true)
}

/// Revokes the current context's access to a peer's memory.
pub fn disable_peer(peer: &Context) -> DriverResult {
    let context = current()?;
    if !context.peers.lock().remove(&peer.handle) {
        return Err(Code::PEER_ACCESS_NOT_ENABLED);
    }
    show_peer(&context, peer, false)
}

/// Stores whether a device can reach the memory of another.
pub fn can_access_peer(can: Out<i32>, device: i32, peer: i32) -> DriverResult {
    let machine = machine()?;
    machine.device(device)?;
    machine.device(peer)?;
    can.put(i32::from(machine.has_peers && device != peer))
}

fn show_peer(context: &Context, peer: &Context, accessible: bool) -> DriverResult {
    let is_peers =
        |block: &Block| block.context.handle == peer.handle && matches!(block.kind, Kind::Device);
    for block in machine()?.blocks.select(is_peers) {
        block.show_to(context, accessible);
    }
    Ok(())
}

/// Returns the 8 bytes that a kernel reads at an address.
///
/// # Errors
/// An address without an allocation.
pub fn word(address: u64) -> Result<u64, Fault> {
    const BYTES: u64 = 8;
    let stray = || Fault {
        kind: FaultKind::Address,
        message: format!("a kernel reads {address:#x}, where nothing is allocated"),
    };
    let machine = machine().map_err(|_| stray())?;
    let block = machine.blocks.find(address).ok_or_else(stray)?;
    if BYTES > block.bytes - (address - block.address) {
        return Err(stray());
    }
    let range = device_range(address, BYTES).map_err(|_| stray())?;
    let bytes = transfer::read(&range)?;
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| stray())?))
}
