//! Loops of parallel regions and teams in images of flang for the CPU. LLVM has these functions in
//! its device runtime for GPUs only.
//!
//! libomp numbers threads and teams. A region on the CPU is one team, unless its code makes more.

use crate::libomp;
use std::ffi::c_void;
use std::iter;
use std::ops::Range;

/// Runs the calling thread's iterations of a worksharing loop with 32-bit numbers, then waits for
/// the team, as flang emits no barrier behind the loop. LLVM: `__kmpc_for_static_loop_4u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_for_static_loop_4u(
    location: *const c_void,
    body: extern "C" fn(u32, *mut c_void),
    argument: *mut c_void,
    count: u32,
    threads: u32,
    chunk: u32,
) {
    let share = thread_share(count.into(), threads.into(), chunk.into());
    share.for_each(|iteration| body(iteration as u32, argument));
    wait_for_team(location, threads.into());
}

/// Runs the calling thread's iterations of a worksharing loop with 64-bit numbers, then waits for
/// the team. LLVM: `__kmpc_for_static_loop_8u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_for_static_loop_8u(
    location: *const c_void,
    body: extern "C" fn(u64, *mut c_void),
    argument: *mut c_void,
    count: u64,
    threads: u64,
    chunk: u64,
) {
    thread_share(count, threads, chunk).for_each(|iteration| body(iteration, argument));
    wait_for_team(location, threads);
}

/// Runs the calling team's iterations of a loop with 32-bit numbers. Flang 22 calls it. LLVM:
/// `__kmpc_distribute_static_loop_4u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_distribute_static_loop_4u(
    _location: *const c_void,
    body: extern "C" fn(u32, *mut c_void),
    argument: *mut c_void,
    count: u32,
    chunk: u32,
) {
    let parts = team_share(count.into(), chunk.into());
    parts.flatten().for_each(|iteration| body(iteration as u32, argument));
}

/// Runs the calling team's iterations of a loop with 64-bit numbers. LLVM:
/// `__kmpc_distribute_static_loop_8u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_distribute_static_loop_8u(
    _location: *const c_void,
    body: extern "C" fn(u64, *mut c_void),
    argument: *mut c_void,
    count: u64,
    chunk: u64,
) {
    team_share(count, chunk).flatten().for_each(|iteration| body(iteration, argument));
}

/// Runs the calling thread's part of its team's iterations, with 32-bit numbers. Flang 22 calls it.
/// LLVM: `__kmpc_distribute_for_static_loop_4u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_distribute_for_static_loop_4u(
    _location: *const c_void,
    body: extern "C" fn(u32, *mut c_void),
    argument: *mut c_void,
    count: u32,
    threads: u32,
    team_chunk: u32,
    thread_chunk: u32,
) {
    for part in team_share(count.into(), team_chunk.into()) {
        let share = thread_share(part.end - part.start, threads.into(), thread_chunk.into());
        share.for_each(|iteration| body((part.start + iteration) as u32, argument));
    }
}

/// Runs the calling thread's part of its team's iterations, with 64-bit numbers. LLVM:
/// `__kmpc_distribute_for_static_loop_8u`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_distribute_for_static_loop_8u(
    _location: *const c_void,
    body: extern "C" fn(u64, *mut c_void),
    argument: *mut c_void,
    count: u64,
    threads: u64,
    team_chunk: u64,
    thread_chunk: u64,
) {
    for part in team_share(count, team_chunk) {
        let share = thread_share(part.end - part.start, threads, thread_chunk);
        share.for_each(|iteration| body(part.start + iteration, argument));
    }
}

/// Returns the calling thread's share of a loop.
fn thread_share(count: u64, threads: u64, chunk: u64) -> impl Iterator<Item = u64> {
    let thread = libomp::thread_number().unwrap_or(0) as u64;
    share(thread, threads.max(1), count, chunk).flatten()
}

/// Returns the calling team's share of a loop.
fn team_share(count: u64, chunk: u64) -> impl Iterator<Item = Range<u64>> {
    let team = libomp::team_number().unwrap_or(0) as u64;
    let teams = libomp::team_count().unwrap_or(1).max(1) as u64;
    share(team, teams, count, chunk)
}

/// Returns the ranges of iterations of one of `members` threads or teams: every `members`-th chunk.
/// Without a size of chunks, each member has one chunk of about the same size.
fn share(member: u64, members: u64, count: u64, chunk: u64) -> impl Iterator<Item = Range<u64>> {
    let chunk = if chunk == 0 { count.div_ceil(members) } else { chunk };
    let stride = chunk.saturating_mul(members);
    let first = member.saturating_mul(chunk);
    let starts = iter::successors(Some(first), move |at| at.checked_add(stride));
    starts.take_while(move |at| *at < count).map(move |at| at..count.min(at.saturating_add(chunk)))
}

fn wait_for_team(location: *const c_void, threads: u64) {
    if threads > 1
        && let Some(thread) = libomp::global_thread_number(location)
    {
        libomp::barrier(location, thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_iteration_belongs_to_one_member() {
        for (members, count, chunk) in [(1, 7, 0), (3, 10, 0), (4, 2, 0), (3, 20, 2), (2, 0, 0)] {
            let shares = (0..members).flat_map(|member| share(member, members, count, chunk));
            let mut iterations: Vec<_> = shares.flatten().collect();
            iterations.sort_unstable();
            assert_eq!(
                iterations,
                Vec::from_iter(0..count),
                "{members} members, chunks of {chunk}"
            );
        }
    }

    #[test]
    fn chunks_go_to_the_members_in_turn() {
        assert_eq!(Vec::from_iter(share(1, 2, 11, 3)), [3..6, 9..11]);
        assert_eq!(share(2, 3, 10, 0).next(), Some(8..10));
        let of_a_great_loop = share(1, 2, u64::MAX, u64::MAX - 1);
        assert_eq!(of_a_great_loop.flatten().collect::<Vec<_>>(), [u64::MAX - 1]);
    }
}
