//! Collective operations of device memory, over MPI's own.

use std::collections::HashMap;

use longshore_executor::rpc::EndReason;
use longshore_mpi::{Comm, Element, Mpi, MpiError, Operation, Request};
use longshore_plugin_api::{CollectiveElement, CollectiveKind, CollectiveOperation};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;

/// A node's part of an operation. All processes of the operation receive the same `ranks`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// The number of the operation, for its end before time.
    pub number: u64,
    /// The ranks of the processes that take part, ascending.
    pub ranks: Vec<i32>,
    /// The kind of the operation.
    pub kind: CollectiveKind,
    /// The index in `ranks` of the process with the data or the result; `None` if all have it.
    pub root: Option<u32>,
    /// The elements and the operation of a reduction.
    pub reduction: Option<(CollectiveElement, CollectiveOperation)>,
    /// Number of bytes of each member.
    pub bytes: u64,
    /// The member of this node that has the data or gets the result, if it is the root.
    pub root_member: Option<u32>,
    /// The transfer by which the root sends the result to the program, if the program gets it.
    pub to_program: Option<u64>,
    /// The members of this node.
    pub members: Vec<Member>,
    /// The place of each block in the result of a gathering operation: the blocks come in the order
    /// of ranks, and of members on each node.
    pub places: Vec<u32>,
}

/// A device of a node that takes part.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Member {
    /// The plugin's number in messages.
    pub plugin: u16,
    /// The device's number on the node.
    pub device: u64,
    /// Address of the memory that is read.
    pub source: u64,
    /// Address of the memory that is written.
    pub destination: u64,
}

/// Greatest number of bytes of one operation of MPI.
pub const CHUNK: usize = 1 << 30;

/// The communicators of the sets of processes that have worked together.
#[derive(Default)]
pub struct Sets {
    all: Mutex<HashMap<Vec<i32>, Comm>>,
}

impl Sets {
    /// Returns the communicator of these ranks of `among`. At the first call all of them create it
    /// together, and block for that time.
    ///
    /// # Errors
    /// A failure of MPI.
    pub fn get(&self, mpi: &Mpi, among: Comm, ranks: &[i32]) -> Result<Comm, MpiError> {
        let mut all = self.all.lock();
        if let Some(comm) = all.get(ranks) {
            return Ok(*comm);
        }
        let everyone = mpi.group_of(among)?;
        let group = mpi.group_include(everyone, ranks)?;
        let comm = mpi.create_group(among, group, 0)?;
        mpi.free_group(group)?;
        mpi.free_group(everyone)?;
        mpi.return_errors(comm)?;
        all.insert(ranks.to_vec(), comm);
        Ok(comm)
    }

    /// Forgets the communicator of these ranks, after an operation that did not end.
    pub fn forget(&self, ranks: &[i32]) {
        self.all.lock().remove(ranks);
    }
}

/// Waits for an operation; gives up if `is_over` returns a reason.
///
/// # Errors
/// A failure of MPI, and the reason to give up. MPI may still use the memory then.
pub fn wait(
    endpoint: &Endpoint,
    mut request: Request,
    is_over: &dyn Fn() -> Option<EndReason>,
) -> Result<(), EndReason> {
    endpoint.poll_until(&mut |mpi| mpi.test_completion(&mut request), is_over)
}

/// Returns the type of an element in MPI.
pub fn element(element: CollectiveElement) -> Element {
    match element {
        CollectiveElement::I8 => Element::I8,
        CollectiveElement::I16 => Element::I16,
        CollectiveElement::U16 => Element::U16,
        CollectiveElement::I32 => Element::I32,
        CollectiveElement::U32 => Element::U32,
        CollectiveElement::I64 => Element::I64,
        CollectiveElement::U64 => Element::U64,
        CollectiveElement::F32 => Element::F32,
        CollectiveElement::F64 => Element::F64,
        _ => Element::U8,
    }
}

/// Returns the operation in MPI.
pub fn operation(operation: CollectiveOperation) -> Operation {
    match operation {
        CollectiveOperation::Product => Operation::Product,
        CollectiveOperation::Min => Operation::Min,
        CollectiveOperation::Max => Operation::Max,
        CollectiveOperation::And => Operation::And,
        CollectiveOperation::Or => Operation::Or,
        CollectiveOperation::Xor => Operation::Xor,
        _ => Operation::Sum,
    }
}
