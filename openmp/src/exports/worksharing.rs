//! Loops of parallel regions and teams in images of flang for the CPU. LLVM has these functions in
//! its device runtime for GPUs only.
//!
//! libomp numbers threads and teams. A region on the CPU is one team, unless its code makes more.

use crate::libomp;
use std::ffi::c_void;
use std::iter;
use std::ops::Range;

/// Defines the functions for loops whose iterations have numbers of this type.
macro_rules! loops {
    ($number:ty, $worksharing:ident, $distribute:ident, $combined:ident) => {
        /// Runs the calling thread's iterations of a worksharing loop, then waits for the team, as
        /// flang emits no barrier behind the loop. LLVM:
        #[doc = concat!("`", stringify!($worksharing), "`.")]
        ///
        /// # Safety
        /// `body` takes the numbers of iterations and `argument`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $worksharing(
            location: *const c_void,
            body: extern "C" fn($number, *mut c_void),
            argument: *mut c_void,
            count: $number,
            threads: $number,
            chunk: $number,
        ) {
            let (count, threads, chunk) = (count.into(), threads.into(), chunk.into());
            let share = thread_share(count, threads, chunk);
            share.for_each(|iteration| body(iteration as $number, argument));
            wait_for_team(location, threads);
        }

        /// Runs the calling team's iterations of a loop. Flang 22 calls it. LLVM:
        #[doc = concat!("`", stringify!($distribute), "`.")]
        ///
        /// # Safety
        /// `body` takes the numbers of iterations and `argument`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $distribute(
            _location: *const c_void,
            body: extern "C" fn($number, *mut c_void),
            argument: *mut c_void,
            count: $number,
            chunk: $number,
        ) {
            let parts = team_share(count.into(), chunk.into());
            parts.flatten().for_each(|iteration| body(iteration as $number, argument));
        }

        /// Runs the calling thread's part of its team's iterations. Flang 22 calls it. LLVM:
        #[doc = concat!("`", stringify!($combined), "`.")]
        ///
        /// # Safety
        /// `body` takes the numbers of iterations and `argument`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $combined(
            _location: *const c_void,
            body: extern "C" fn($number, *mut c_void),
            argument: *mut c_void,
            count: $number,
            threads: $number,
            team_chunk: $number,
            thread_chunk: $number,
        ) {
            for part in team_share(count.into(), team_chunk.into()) {
                let length = part.end - part.start;
                let share = thread_share(length, threads.into(), thread_chunk.into());
                share.for_each(|iteration| body((part.start + iteration) as $number, argument));
            }
        }
    };
}

loops!(
    u32,
    __kmpc_for_static_loop_4u,
    __kmpc_distribute_static_loop_4u,
    __kmpc_distribute_for_static_loop_4u
);
loops!(
    u64,
    __kmpc_for_static_loop_8u,
    __kmpc_distribute_static_loop_8u,
    __kmpc_distribute_for_static_loop_8u
);

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
/// If `chunk` is 0, each member has one chunk of about the same size.
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
