use super::super::kernel::KernelEnvironment;
use super::*;

const NVIDIA: Limits = Limits {
    warp: 32,
    threads: 1024,
    default_threads: 128,
    teams: i32::MAX as u32,
    default_teams: 3200,
    low_trip_threads: 32,
    reuses_teams: true,
    group_bytes: 49152,
};

fn kernel(mode: Mode, limits: &Limits) -> KernelFacts {
    KernelFacts::new(KernelEnvironment { mode, ..KernelEnvironment::DEFAULT }, limits, 0, 0)
}

fn shaped(kernel: &KernelFacts, teams: u32, threads: u32, trip_count: u64) -> (u32, u32) {
    let (teams, threads) = ([teams, 0, 0], [threads, 0, 0]);
    let wanted = Wanted { teams, threads, trip_count };
    let (teams, threads) = shape(kernel, &NVIDIA, &wanted);
    assert_eq!((&teams[1..], &threads[1..]), (&[1, 1][..], &[1, 1][..]));
    (teams[0], threads[0])
}

#[test]
fn a_region_without_clauses_gets_the_defaults() {
    for mode in [Mode::Spmd, Mode::Generic, Mode::GenericSpmd] {
        assert_eq!(shaped(&kernel(mode, &NVIDIA), 0, 0, 0), (3200, 128));
    }
}

#[test]
fn a_thread_limit_gets_one_more_warp_in_generic_mode() {
    assert_eq!(shaped(&kernel(Mode::Generic, &NVIDIA), 1, 64, 0), (1, 96));
    assert_eq!(shaped(&kernel(Mode::GenericSpmd, &NVIDIA), 1, 64, 0), (1, 64));
    assert_eq!(shaped(&kernel(Mode::Generic, &NVIDIA), 1, 1024, 0), (1, 1024));
}

#[test]
fn threads_of_a_loop_with_few_iterations_are_lowered() {
    let spmd = kernel(Mode::Spmd, &NVIDIA);
    // Enough for all teams with all threads.
    assert_eq!(shaped(&spmd, 0, 0, 3200 * 128), (3200, 128));
    // Enough for all teams: 160000 / 3200 = 50, and 64 is the next power of two.
    assert_eq!(shaped(&spmd, 0, 0, 160_000), (2500, 64));
    assert_eq!(shaped(&spmd, 0, 0, 1000), (32, 32));
    assert_eq!(shaped(&spmd, 0, 0, 1), (1, 32));
    // A clause keeps its number.
    assert_eq!(shaped(&spmd, 0, 128, 1000), (8, 128));
}

#[test]
fn teams_are_reused_for_loops_with_many_iterations_unless_the_user_says_no() {
    let spmd = kernel(Mode::Spmd, &NVIDIA);
    assert_eq!(shaped(&spmd, 0, 0, 1 << 32), (3200, 128));
    let limits = Limits { reuses_teams: false, ..NVIDIA };
    let wanted = Wanted { trip_count: 1 << 32, ..Wanted::default() };
    assert_eq!(shape(&spmd, &limits, &wanted).0, [1 << 25, 1, 1]);
    assert_eq!(shaped(&kernel(Mode::Generic, &NVIDIA), 0, 0, 7), (7, 128));
}

#[test]
fn a_kernel_without_a_loop_gets_a_thread_for_each_iteration() {
    let kernel = kernel(Mode::SpmdNoLoop, &NVIDIA);
    assert_eq!(shaped(&kernel, 0, 0, 1_000_001), (7813, 128));
    assert_eq!(shaped(&kernel, 0, 0, 0), (1, 128));
}

#[test]
fn a_bare_kernel_gets_the_numbers_of_its_region() {
    let bare = kernel(Mode::Bare, &NVIDIA);
    let (teams, threads) = ([4, 3, 2], [8, 8, 1]);
    let wanted = Wanted { teams, threads, ..Wanted::default() };
    assert_eq!(shape(&bare, &NVIDIA, &wanted), (teams, threads));
    assert_eq!(shaped(&bare, 5, 48, 0), (5, 48));
}

#[test]
fn the_limits_of_device_and_kernel_hold() {
    let limits = Limits { teams: 10, threads: 96, ..NVIDIA };
    let spmd = kernel(Mode::Spmd, &limits);
    let wanted = Wanted { teams: [100, 0, 0], threads: [500, 0, 0], trip_count: 9 };
    assert_eq!(shape(&spmd, &limits, &wanted), ([10, 1, 1], [96, 1, 1]));
    let environment = KernelEnvironment { max_threads: 64, ..KernelEnvironment::DEFAULT };
    let narrow = KernelFacts::new(environment, &NVIDIA, 0, 0);
    assert_eq!(shape(&narrow, &NVIDIA, &wanted).1, [64, 1, 1]);
    let environment = KernelEnvironment { min_threads: 512, ..KernelEnvironment::DEFAULT };
    let wide = KernelFacts::new(environment, &NVIDIA, 256, 0);
    assert_eq!(shape(&wide, &NVIDIA, &Wanted::default()).1, [256, 1, 1]);
}
