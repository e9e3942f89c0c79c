//! The program's part of collective operations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use longshore_executor::plugin::{Collective, RemoteMember};
use longshore_executor::rpc::{CallError, EndReason};
use longshore_plugin_api::{CollectiveKind, CollectiveRoot, Error, ErrorCode, Result};

use super::Cluster;
use crate::collective::{self, CHUNK, Member, Part};
use crate::hello::{self, ABANDON, COLLECTIVE, NODE};

/// The rank of the program among its nodes.
const PROGRAM: i32 = 0;

/// The members of an operation by their nodes.
type ByRank<'a> = BTreeMap<i32, Vec<(u32, &'a RemoteMember)>>;

impl Cluster {
    /// Performs an operation over devices of nodes, and blocks until all have their results; `None`
    /// for one that MPI's operations cannot perform.
    pub(super) fn collective(&self, operation: &Collective<'_>) -> Option<Result<()>> {
        let mut by_rank = ByRank::new();
        for (index, member) in operation.members.iter().enumerate() {
            by_rank.entry(member.at.rank as i32).or_default().push((index as u32, member));
        }
        let gathers = matches!(operation.kind, CollectiveKind::Gather | CollectiveKind::AllGather);
        let mut counts = by_rank.values().map(Vec::len);
        let first = counts.next()?;
        if gathers && counts.any(|count| count != first) {
            // MPI gathers as much from each process.
            return None;
        }
        let _one_at_a_time = self.collecting.lock();
        Some(self.perform(operation, &by_rank))
    }

    fn perform(&self, operation: &Collective<'_>, by_rank: &ByRank<'_>) -> Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        log::debug!("{:?} over the nodes {:?}", operation.kind, by_rank.keys());
        let is_root_here = matches!(operation.root, CollectiveRoot::Host(_));
        // The program takes part only with data of its own; it gets results by a transfer.
        let sends = is_root_here && operation.kind == CollectiveKind::Broadcast;
        let mut ranks: Vec<i32> = by_rank.keys().copied().collect();
        if sends {
            ranks.insert(0, PROGRAM);
        }
        let root_rank = match operation.root {
            CollectiveRoot::Host(_) => Some(if sends { PROGRAM } else { ranks[0] }),
            CollectiveRoot::Member(index) => Some(operation.members[index as usize].at.rank as i32),
            CollectiveRoot::None => None,
        };
        let root = root_rank.and_then(|rank| ranks.iter().position(|known| *known == rank));
        let gathers = matches!(operation.kind, CollectiveKind::Gather | CollectiveKind::AllGather);
        let total = if gathers { operation.members.len() as u64 } else { 1 };
        let result = (is_root_here && !sends).then(|| {
            let CollectiveRoot::Host(address) = operation.root else { unreachable!("it is here") };
            (ranks[0], address as *mut u8, operation.bytes * total)
        });
        let channel = result.and_then(|(rank, ..)| self.endpoint.mpi_channel(rank, NODE));
        let transfer = channel.as_ref().map(|channel| channel.new_number());
        let places = by_rank.values().flatten().map(|(index, _)| *index);
        let places: Vec<u32> = if gathers { places.collect() } else { Vec::new() };
        let part = |rank: &i32, members: &[(u32, &RemoteMember)]| Part {
            number,
            ranks: ranks.clone(),
            kind: operation.kind,
            root: root.map(|root| root as u32),
            reduction: operation.reduction,
            bytes: operation.bytes,
            root_member: match operation.root {
                CollectiveRoot::Member(index) => members
                    .iter()
                    .position(|(member, _)| *member == index)
                    .map(|position| position as u32),
                _ => None,
            },
            to_program: transfer.filter(|_| result.is_some_and(|(first, ..)| first == *rank)),
            members: members
                .iter()
                .map(|(_, member)| Member {
                    plugin: member.at.plugin as u16,
                    device: member.device,
                    source: member.source,
                    destination: member.destination,
                })
                .collect(),
            places: places.clone(),
        };
        let requests: Vec<(i32, Vec<u8>)> = by_rank
            .iter()
            .map(|(rank, members)| (*rank, hello::encode(&part(rank, members))))
            .collect();
        let mut own = Ok(());
        let mut meanwhile = || {
            if sends && let CollectiveRoot::Host(address) = operation.root {
                own = self.send_data(&ranks, address, operation.bytes);
            }
            if let (Some((_, to, bytes)), Some(channel), Some(number)) =
                (result, &channel, transfer)
            {
                // SAFETY: the caller of the operation guarantees the memory.
                let received = unsafe { channel.receive_now(number, to, bytes as usize) };
                own = received.map_err(|error| text_of(&error));
            }
        };
        let replies =
            self.endpoint.call_all(NODE, COLLECTIVE, &requests, None, &mut meanwhile, &mut || {
                self.abandon(&ranks, number);
            });
        let mut failures = Vec::new();
        for ((rank, _), reply) in requests.iter().zip(replies) {
            if let Err(error) = reply {
                let node = self.nodes.iter().find(|node| node.rank == *rank);
                let name = node.map_or_else(|| format!("rank {rank}"), |node| node.name());
                failures.push(format!("{name}: {}", text_of(&error)));
            }
        }
        failures.extend(own.err());
        if failures.is_empty() {
            return Ok(());
        }
        self.sets.forget(&ranks);
        let message = format!("a collective operation has failed: {}", failures.join("; "));
        Err(Error::new(ErrorCode::BackendFailure, message))
    }

    /// Sends the program's data to the nodes.
    fn send_data(&self, ranks: &[i32], address: u64, bytes: u64) -> Result<(), String> {
        let text = |error: EndReason| error.to_string();
        let among = self.comms.collectives;
        let comm = self.endpoint.with(|mpi| self.sets.get(mpi, among, ranks)).map_err(text)?;
        let mut at = 0;
        while at < bytes {
            let size = (bytes - at).min(CHUNK as u64);
            let data = (address + at) as *mut u8;
            // SAFETY: the caller of the operation guarantees the memory, and MPI only reads it at
            // the root.
            let request =
                self.endpoint.with(|mpi| unsafe { mpi.ibcast(data, size as usize, 0, comm) });
            let lost = || ranks[1..].iter().find_map(|rank| self.endpoint.why_lost(*rank));
            collective::wait(&self.endpoint, request.map_err(text)?, &lost).map_err(text)?;
            at += size;
        }
        Ok(())
    }

    /// Has the nodes give an operation up: one of them is lost.
    fn abandon(&self, ranks: &[i32], number: u64) {
        for rank in ranks.iter().filter(|rank| **rank != PROGRAM) {
            if let Some(channel) = self.endpoint.channel(*rank, NODE) {
                // A lost node needs no message.
                let _ = channel.post(ABANDON, &number.to_le_bytes());
            }
        }
    }
}

fn text_of(error: &CallError) -> String {
    match error {
        CallError::Ended(EndReason::Silent { limit }) => format!("silent for {limit:?}"),
        other => other.to_string(),
    }
}
