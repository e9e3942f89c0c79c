//! A node's part of collective operations.

use longshore::serving::ServedPlugin;
use longshore_executor::plugin::{BulkTransfer, Channel};
use longshore_executor::rpc::EndReason;
use longshore_mpi::{Comm, MpiError};
use longshore_mpi_backend::collective::{self, CHUNK, Member, Part, Sets};
use longshore_mpi_backend::endpoint::Endpoint;
use longshore_plugin_api::CollectiveKind;

/// A node's view of an operation.
pub(crate) struct Work<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) program: &'a dyn Channel,
    pub(crate) sets: &'a Sets,
    pub(crate) among: Comm,
    pub(crate) part: &'a Part,
    pub(crate) plugin: &'a dyn Fn(u16) -> Option<&'a ServedPlugin>,
    /// The reason to give the operation up, if there is one.
    pub(crate) is_over: &'a dyn Fn() -> Option<EndReason>,
}

/// Memory of an operation: of a device, if MPI may transfer it, else of this process.
enum Memory {
    Device(*mut u8),
    Own(Vec<u8>),
}

impl Memory {
    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Device(address) => *address,
            Self::Own(memory) => memory.as_mut_ptr(),
        }
    }
}

impl Work<'_> {
    /// Performs this node's part. Blocks until it is done.
    ///
    /// # Errors
    /// A text for a failure of MPI or of a plugin, or for the reason to give up.
    pub(crate) fn perform(&self) -> Result<(), String> {
        let mpi = self.endpoint.mpi();
        let comm = self.sets.get(mpi, self.among, &self.part.ranks).map_err(text)?;
        let performed = match self.part.kind {
            CollectiveKind::Broadcast => self.broadcast(comm),
            CollectiveKind::Gather | CollectiveKind::AllGather => self.gather(comm),
            _ => self.reduce(comm),
        };
        performed.inspect_err(|_| self.sets.forget(&self.part.ranks))
    }

    fn broadcast(&self, comm: Comm) -> Result<(), String> {
        let (part, bytes) = (self.part, self.part.bytes);
        let root = part.root.unwrap_or_default() as i32;
        let root_member = part.root_member.map(|index| part.members[index as usize]);
        let mut memory = match root_member {
            Some(member) => self.read(&member, member.source, bytes)?,
            None => self.space(&part.members[0], part.members[0].destination, bytes)?,
        };
        let data = memory.address();
        self.in_chunks(bytes, |at, size| {
            // SAFETY: the memory has `bytes` bytes, and stays in place: see `in_chunks`.
            unsafe { self.endpoint.mpi().ibcast(data.add(at), size, root, comm) }
        })
        .inspect_err(|_| keep(&mut memory))?;
        for (index, member) in part.members.iter().enumerate() {
            let is_source = part.root_member == Some(index as u32);
            if is_source && member.destination == member.source {
                continue;
            }
            self.write(member, member.destination, data, bytes)?;
        }
        Ok(())
    }

    fn gather(&self, comm: Comm) -> Result<(), String> {
        let (part, bytes) = (self.part, self.part.bytes as usize);
        let (count, all) = (part.members.len(), part.places.len());
        let mut sent = match &part.members[..] {
            [one] => self.read(one, one.source, part.bytes)?,
            several => {
                let mut memory = space(bytes * count)?;
                for (index, member) in several.iter().enumerate() {
                    let to = memory[index * bytes..].as_mut_ptr();
                    self.copy(member, member.source, to, part.bytes, false)?;
                }
                Memory::Own(memory)
            }
        };
        let is_root =
            part.root.is_none_or(|root| part.ranks[root as usize] == self.endpoint.rank());
        let mut gathered = space(if is_root { bytes * all } else { 0 })?;
        let (from, to, size) = (sent.address(), gathered.as_mut_ptr(), bytes * count);
        let mpi = self.endpoint.mpi();
        // SAFETY: both ranges have these sizes and stay in place until the operation is done, or
        // for ever.
        let request = unsafe {
            match part.root {
                Some(root) => mpi.igather(from, size, to, root as i32, comm),
                None => mpi.iallgather(from, size, to, comm),
            }
        };
        self.wait(request).inspect_err(|_| {
            keep(&mut sent);
            std::mem::forget(std::mem::take(&mut gathered));
        })?;
        if !is_root {
            return Ok(());
        }
        // MPI's order is that of the ranks.
        let mut ordered = space(gathered.len())?;
        for (block, place) in gathered.chunks_exact(bytes.max(1)).zip(&part.places) {
            let at = *place as usize * bytes;
            ordered[at..at + bytes].copy_from_slice(block);
        }
        self.deliver(&mut ordered)
    }

    fn reduce(&self, comm: Comm) -> Result<(), String> {
        let (part, bytes) = (self.part, self.part.bytes);
        let (element, operation) = part.reduction.ok_or("a reduction without an operation")?;
        let mpi = self.endpoint.mpi();
        let mut sent = match &part.members[..] {
            [one] => self.read(one, one.source, bytes)?,
            several => {
                let mut sum = space(bytes as usize)?;
                let mut other = space(bytes as usize)?;
                for (index, member) in several.iter().enumerate() {
                    let to = if index == 0 { &mut sum } else { &mut other };
                    self.copy(member, member.source, to.as_mut_ptr(), bytes, false)?;
                    if index > 0 {
                        longshore::combine_elements(element, operation, &mut sum, &other);
                    }
                }
                Memory::Own(sum)
            }
        };
        let mut result = space(bytes as usize)?;
        let (from, to) = (sent.address(), result.as_mut_ptr());
        let width = element.bytes() as usize;
        let (datatype, op) =
            (mpi.datatype(collective::element(element)), mpi.op(collective::operation(operation)));
        self.in_chunks(bytes, |at, size| {
            // SAFETY: both ranges have `bytes` bytes and stay in place: see `in_chunks`.
            unsafe {
                let (from, to, count) = (from.add(at), to.add(at), size / width);
                match part.root {
                    Some(root) => mpi.ireduce(from, to, count, datatype, op, root as i32, comm),
                    None => mpi.iallreduce(from, to, count, datatype, op, comm),
                }
            }
        })
        .inspect_err(|_| {
            keep(&mut sent);
            std::mem::forget(std::mem::take(&mut result));
        })?;
        let is_root =
            part.root.is_none_or(|root| part.ranks[root as usize] == self.endpoint.rank());
        if is_root { self.deliver(&mut result) } else { Ok(()) }
    }

    /// Writes a result to its destinations.
    fn deliver(&self, result: &mut [u8]) -> Result<(), String> {
        let (part, bytes) = (self.part, result.len() as u64);
        if let Some(number) = part.to_program {
            let bulk = self.program.bulk().ok_or("the channel has no transfers")?;
            // SAFETY: the result stays in place until the transfer is dropped.
            let sent = unsafe { bulk.send(number, result.as_ptr(), result.len()) };
            let sent: Result<Box<dyn BulkTransfer + '_>, _> = sent;
            return sent.and_then(|mut sent| sent.wait()).map_err(|error| error.to_string());
        }
        let from = result.as_mut_ptr();
        for (index, member) in part.members.iter().enumerate() {
            if part.root.is_none() || part.root_member == Some(index as u32) {
                self.write(member, member.destination, from, bytes)?;
            }
        }
        Ok(())
    }

    /// Performs an operation of MPI for each chunk. After an error MPI may still use the memory,
    /// which the caller must keep.
    fn in_chunks(
        &self,
        bytes: u64,
        begin: impl Fn(usize, usize) -> Result<longshore_mpi::Request, MpiError>,
    ) -> Result<(), String> {
        let bytes = bytes as usize;
        (0..bytes).step_by(CHUNK).try_for_each(|at| self.wait(begin(at, (bytes - at).min(CHUNK))))
    }

    fn wait(&self, request: Result<longshore_mpi::Request, MpiError>) -> Result<(), String> {
        let waited = collective::wait(self.endpoint, request.map_err(text)?, self.is_over);
        waited.map_err(|error| error.to_string())
    }

    /// Returns the content of a device's memory.
    fn read(&self, member: &Member, address: u64, bytes: u64) -> Result<Memory, String> {
        let mut memory = self.space(member, address, bytes)?;
        if let Memory::Own(own) = &mut memory {
            self.copy(member, address, own.as_mut_ptr(), bytes, false)?;
        }
        Ok(memory)
    }

    /// Returns a device's memory, or memory of the same size.
    fn space(&self, member: &Member, address: u64, bytes: u64) -> Result<Memory, String> {
        let plugin = (self.plugin)(member.plugin).ok_or("the node has no such plugin")?;
        let is_transferable =
            plugin.is_transferable(member.device).map_err(|error| error.message().to_owned())?;
        if is_transferable {
            return Ok(Memory::Device(address as *mut u8));
        }
        space(bytes as usize).map(Memory::Own)
    }

    fn write(&self, to: &Member, address: u64, from: *mut u8, bytes: u64) -> Result<(), String> {
        if from as u64 == address {
            return Ok(());
        }
        self.copy(to, address, from, bytes, true)
    }

    fn copy(
        &self,
        member: &Member,
        address: u64,
        here: *mut u8,
        bytes: u64,
        to_device: bool,
    ) -> Result<(), String> {
        let plugin = (self.plugin)(member.plugin).ok_or("the node has no such plugin")?;
        // SAFETY: the program guarantees the device's memory, and the callers that of this process.
        let copied = unsafe { plugin.copy_here(member.device, address, here, bytes, to_device) };
        copied.map_err(|error| error.message().to_owned())
    }
}

/// Keeps memory for ever that MPI may still use.
fn keep(memory: &mut Memory) {
    if let Memory::Own(own) = memory {
        std::mem::forget(std::mem::take(own));
    }
}

fn space(bytes: usize) -> Result<Vec<u8>, String> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| format!("no memory for {bytes} bytes"))?;
    memory.resize(bytes, 0);
    Ok(memory)
}

fn text(error: MpiError) -> String {
    error.to_string()
}
