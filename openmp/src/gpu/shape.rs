//! The choice of teams and threads. LLVM: `GenericKernelTy::getNumThreads`, `getNumBlocks`.

use super::kernel::{KernelFacts, Mode};
use super::limits::Limits;

/// The numbers that a region asks for; 0 where it asks for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) teams: [u32; 3],
    pub(crate) threads: [u32; 3],
    /// Number of iterations of the region's loop; 0 if unknown.
    pub(crate) trip_count: u64,
}

/// Returns the numbers of teams and of threads of each team.
///
/// A bare kernel has the shape that its region asks for. Other kernels have one dimension.
pub(crate) fn shape(
    kernel: &KernelFacts,
    limits: &Limits,
    wanted: &Wanted,
) -> ([u32; 3], [u32; 3]) {
    let at_least_one = |numbers: [u32; 3]| numbers.map(|number| number.max(1));
    if kernel.mode == Mode::Bare && wanted.threads[0] > 0 {
        let mut teams = at_least_one(wanted.teams);
        if wanted.teams[0] == 0 {
            teams[0] = limits.default_teams;
        }
        return (teams, at_least_one(wanted.threads));
    }
    let threads = threads_of(kernel, limits, wanted.threads[0]);
    let (teams, threads) = match wanted.teams[0] {
        0 => teams_of(kernel, limits, wanted, threads),
        asked => (asked.min(limits.teams), threads),
    };
    ([teams.max(1), 1, 1], [threads.max(1), 1, 1])
}

/// Returns the number of threads of a team. In generic mode, one more warp runs the team's main
/// thread.
fn threads_of(kernel: &KernelFacts, limits: &Limits, wanted: u32) -> u32 {
    let wanted = match wanted {
        0 => kernel.preferred_threads,
        wanted if kernel.mode == Mode::Generic => wanted.saturating_add(limits.warp),
        wanted => wanted,
    };
    wanted.min(kernel.most_threads)
}

/// Returns the number of teams for a region that asks for none, and the number of threads, which a
/// loop with few iterations lowers.
fn teams_of(kernel: &KernelFacts, limits: &Limits, wanted: &Wanted, threads: u32) -> (u32, u32) {
    let trips = wanted.trip_count;
    let default = u64::from(limits.default_teams);
    let (teams, threads) = match kernel.mode {
        Mode::SpmdNoLoop => {
            let teams = trips.div_ceil(u64::from(threads)).max(1);
            return (u32::try_from(teams).unwrap_or(u32::MAX).min(limits.teams), threads);
        }
        _ if trips == 0 => (u64::MAX, threads),
        // Each thread gets one iteration.
        Mode::Spmd => {
            let threads = match wanted.threads[0] {
                0 => lowered(limits, trips, threads),
                _ => threads,
            };
            (trips.div_ceil(u64::from(threads)), threads)
        }
        // Each team gets one iteration of the outer loop.
        _ => (trips, threads),
    };
    let teams = if limits.reuses_teams || trips == 0 { teams.min(default) } else { teams };
    (u32::try_from(teams).unwrap_or(u32::MAX).min(limits.teams), threads)
}

/// Returns fewer threads for a loop with few iterations, so that there are more teams.
fn lowered(limits: &Limits, trips: u64, threads: u32) -> u32 {
    let default = u64::from(limits.default_teams);
    let least = limits.low_trip_threads.clamp(1, threads.max(1));
    if trips >= default.saturating_mul(u64::from(threads)) {
        threads
    } else if trips >= default.saturating_mul(u64::from(least)) {
        let of_each = trips.div_ceil(default).next_power_of_two();
        threads.min(u32::try_from(of_each).unwrap_or(u32::MAX))
    } else {
        least
    }
}

#[cfg(test)]
mod tests;
