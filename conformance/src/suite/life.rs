//! The life of an image: constructors, destructors, and the data read after them.

use super::context::{Context, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use crate::TrustedImages;
use longshore::{
    Buffer, ErrorCode, Grid, PoolTracker, ProfileSectionKind, Program, Queue, Result, UnloadReport,
};
use std::fs;

behaviour_list! { "life":
    "constructors run once, in order, before the program is visible" ["P-39"] constructors_run_once;
    "destructors run once, in reverse order, when a program is unloaded"
        ["P-40"] unloading_destroys;
    "destructors run when the last handle is dropped" ["P-40"] dropping_destroys;
    "destructors run when the device is closed, newest program first"
        ["P-40", "H-8"] closing_destroys;
    "each load constructs and destroys its own" ["P-39", "P-40"] loads_are_apart;
    "the memory-pool tracker is read after the destructors"
        ["P-44", "H-7"] the_tracker_is_read_last;
    "the profile is read after the destructors" ["P-44", "H-7"] the_profile_is_read_last;
    "the profile is written to a file" ["P-44"] the_profile_is_written;
    "kernels count in the profile" ["P-44"] kernels_count_in_the_profile;
    "an image without instrumentation has no tracker and no profile"
        ["P-59"] plain_images_have_no_instrumentation;
    "a failing constructor is reported, and nothing is loaded"
        ["P-30", "P-39"] failed_loads_leave_nothing;
    "a failing destructor is reported, and everything else still happens"
        ["P-40", "H-7"] failures_do_not_stop;
    "a failing destructor is reported when the device closes"
        ["P-40", "H-7"] closing_reports_failures;
}

/// The value of the first counter after the destructors: 1 at the start, then a digit from each.
const COUNTED: u64 = 121;
/// The value in a program whose kernel `mark` ran once.
const COUNTED_MARKED: u64 = 221;

fn constructors_run_once(cx: &Context) -> Check {
    let (program, queue) = (cx.load("life")?, cx.queue()?);
    for _ in 0..2 {
        ensure_eq!(order(&program, &queue)?, 12, "order of the constructors");
    }
    ensure_eq!(program.global("order")?.read::<u64>(&queue)?, 12, "order as a global");
    Ok(())
}

fn unloading_destroys(cx: &Context) -> Check {
    cx.needs("life", "remember")?;
    let (program, queue) = (cx.load("life")?, cx.queue()?);
    let place = remembered(&program, &queue)?;
    ensure_eq!(place.to_vec(&queue)?[0], 0, "place before unloading");
    let report = program.unload()?;
    ensure_eq!(place.to_vec(&queue)?[0], 77, "place after unloading");
    ensure_eq!(counters(&report)?, [COUNTED, 2], "counters");
    place.fill(&queue, 0)?;
    queue.synchronize()?;
    ensure_eq!(place.to_vec(&queue)?[0], 0, "place long after unloading");
    Ok(())
}

fn dropping_destroys(cx: &Context) -> Check {
    cx.needs("life", "remember")?;
    let (program, queue) = (cx.load("life")?, cx.queue()?);
    let place = remembered(&program, &queue)?;
    let (kernel, clone) = (program.kernel("mark")?, program.clone());
    drop(program);
    drop(clone);
    ensure_eq!(place.to_vec(&queue)?[0], 0, "place while a kernel is held");
    drop(kernel);
    ensure_eq!(place.to_vec(&queue)?[0], 77, "place after the last drop");
    ensure_eq!(written(cx)?, [COUNTED, 2], "counters in the file");
    Ok(())
}

fn closing_destroys(cx: &Context) -> Check {
    for marked in 0..2 {
        let device = match marked {
            0 => cx.device().clone(),
            _ => cx.reopened()?,
        };
        let queue = device.queue()?;
        let programs = [cx.load_on(&device, "life")?, cx.load_on(&device, "life")?];
        mark(&programs[marked], &queue)?;
        let report = device.close()?;
        ensure_eq!(report.tracker.map(|t| t.allocations), Some(6), "allocations of both");
        let profiles = all_written(cx)?;
        let both: Vec<_> = profiles.iter().rev().take(2).map(|counters| counters[0]).collect();
        // The first loaded program is the last to write.
        let first_loaded = if marked == 0 { COUNTED_MARKED } else { COUNTED };
        let last_loaded = if marked == 0 { COUNTED } else { COUNTED_MARKED };
        ensure_eq!(both, [first_loaded, last_loaded], "counters, of the last profile first");
        refused(programs[0].symbols(), ErrorCode::Uninitialized, "using it afterwards")?;
    }
    Ok(())
}

fn loads_are_apart(cx: &Context) -> Check {
    cx.needs("life", "remember")?;
    let queue = cx.queue()?;
    let (first, second) = (cx.load("life")?, cx.load("life")?);
    let place = remembered(&first, &queue)?;
    let report = second.unload()?;
    ensure_eq!(counters(&report)?, [COUNTED, 2], "counters of the second");
    ensure_eq!(place.to_vec(&queue)?[0], 0, "place of the first");
    ensure_eq!(order(&first, &queue)?, 12, "order of the first");
    let report = first.unload()?;
    ensure_eq!(counters(&report)?, [COUNTED, 2], "counters of the first");
    ensure_eq!(place.to_vec(&queue)?[0], 77, "place of the first after unloading it");
    Ok(())
}

fn the_tracker_is_read_last(cx: &Context) -> Check {
    let expected = PoolTracker { allocations: 3, total_bytes: 192, min_bytes: 32, max_bytes: 96 };
    let report = cx.load("life")?.unload()?;
    tracked(&report)?;
    ensure_eq!(report.tracker, Some(expected), "tracker");
    ensure_eq!(cx.device().pool_totals(), Some(expected), "totals while the device is open");
    cx.load("life")?.unload()?;
    let report = cx.device().clone().close()?;
    let both = PoolTracker { allocations: 6, total_bytes: 384, ..expected };
    ensure_eq!(report.tracker, Some(both), "tracker of both");
    ensure_eq!(cx.device().pool_totals(), Some(both), "totals of the closed device");
    Ok(())
}

fn the_profile_is_read_last(cx: &Context) -> Check {
    let report = cx.load("life")?.unload()?;
    ensure_eq!(counters(&report)?, [COUNTED, 2], "counters");
    let find = |kind| report.profile.iter().find(|section| section.kind == kind);
    let bytes = |kind| find(kind).map(|section| section.contents.clone()).unwrap_or_default();
    ensure_eq!(bytes(ProfileSectionKind::Data).len(), 64, "bytes of the data section");
    let names = bytes(ProfileSectionKind::Names);
    ensure!(names.starts_with(b"\x0e\0longshore_life"), "the names are {names:?}");
    let version = bytes(ProfileSectionKind::RawVersion);
    ensure!(matches!(version.first(), None | Some(10)), "the raw version is {version:?}");
    Ok(())
}

fn the_profile_is_written(cx: &Context) -> Check {
    let report = cx.load("life")?.unload()?;
    counters(&report)?;
    ensure_eq!(report.profile_file, Some(cx.profile_file()), "file");
    ensure_eq!(written(cx)?, [COUNTED, 2], "counters in the file");
    Ok(())
}

fn kernels_count_in_the_profile(cx: &Context) -> Check {
    let (program, queue) = (cx.load("life")?, cx.queue()?);
    mark(&program, &queue)?;
    ensure_eq!(counters(&program.unload()?)?, [COUNTED_MARKED, 2], "counters");
    Ok(())
}

fn plain_images_have_no_instrumentation(cx: &Context) -> Check {
    let report = cx.load("basic")?.unload()?;
    ensure_eq!(report.tracker, None, "tracker");
    ensure_eq!(report.profile.len(), 0, "sections of the profile");
    ensure_eq!(report.profile_file, None, "file of the profile");
    Ok(())
}

fn failed_loads_leave_nothing(cx: &Context) -> Check {
    let image = cx.image("stillborn")?;
    for _ in 0..10 {
        let loaded = cx.device().load_trusted(&*image);
        refused(loaded, ErrorCode::BackendFailure, "loading with a failing constructor")?;
    }
    // The device still works.
    ensure_eq!(order(&cx.load("life")?, &cx.queue()?)?, 12, "order in another program");
    Ok(())
}

fn failures_do_not_stop(cx: &Context) -> Check {
    cx.needs("failing", "remember")?;
    let (program, queue) = (cx.load("failing")?, cx.queue()?);
    let place = remembered(&program, &queue)?;
    let unloaded = program.clone().unload();
    refused(unloaded, ErrorCode::BackendFailure, "unloading with a failing destructor")?;
    ensure_eq!(place.to_vec(&queue)?[0], 77, "place, which a later destructor sets");
    ensure_eq!(written(cx)?, [COUNTED, 2], "counters in the file");
    refused(program.symbols(), ErrorCode::Uninitialized, "using it afterwards")?;
    refused(program.unload(), ErrorCode::Uninitialized, "unloading again")?;
    cx.load("life")?.unload()?;
    let report = cx.device().clone().close()?;
    ensure_eq!(report.tracker.map(|t| t.allocations), Some(6), "allocations of both programs");
    // The place is the only live allocation.
    ensure_eq!(report.leaks.len(), 1, "leaks");
    Ok(())
}

fn closing_reports_failures(cx: &Context) -> Check {
    let life = cx.load("life")?;
    let failing = cx.load("failing")?;
    let closed = cx.device().clone().close();
    refused(closed, ErrorCode::BackendFailure, "closing with a failing destructor")?;
    // The older program was unloaded nevertheless.
    ensure_eq!(written(cx)?, [COUNTED, 2], "counters in the file");
    for program in [life, failing] {
        refused(program.symbols(), ErrorCode::Uninitialized, "using it afterwards")?;
    }
    Ok(())
}

/// Returns the value that the image's own kernel reads.
fn order(program: &Program, queue: &Queue) -> Result<u64> {
    let out = program.device().buffer_of(queue, &[0u64])?;
    let read = program.kernel("read_order")?;
    // SAFETY: `read_order` takes a pointer to 8 bytes; `out` outlives the launch.
    unsafe { queue.launch_and_wait(&read, Grid::default(), (&out,))? };
    Ok(out.to_vec(queue)?[0])
}

/// Returns memory that the program's destructor will write.
fn remembered(program: &Program, queue: &Queue) -> Result<Buffer<u64>> {
    let place = program.device().buffer_of(queue, &[0u64])?;
    let remember = program.kernel("remember")?;
    // SAFETY: `remember` takes a pointer to 8 bytes, which a destructor writes; the callers keep
    // `place` until the program is unloaded.
    unsafe { queue.launch_and_wait(&remember, Grid::default(), (&place,))? };
    Ok(place)
}

/// Increments the program's first counter once.
fn mark(program: &Program, queue: &Queue) -> Result<()> {
    let mark = program.kernel("mark")?;
    // SAFETY: `mark` takes no arguments.
    unsafe { queue.launch_and_wait(&mark, Grid::default(), ()) }
}

fn tracked(report: &UnloadReport) -> Check {
    match report.tracker {
        Some(_) => Ok(()),
        None => Err(Stop::Skipped("the plugin reads no memory-pool trackers".to_owned())),
    }
}

fn counters(report: &UnloadReport) -> Result<Vec<u64>, Stop> {
    let is_counters =
        |section: &&longshore::ProfileSection| section.kind == ProfileSectionKind::Counters;
    match report.profile.iter().find(is_counters) {
        Some(section) => Ok(words(&section.contents)),
        None => Err(Stop::Skipped("the plugin reads no profiles".to_owned())),
    }
}

/// Returns the counters of the latest profile that the host has written.
fn written(cx: &Context) -> Result<Vec<u64>, Stop> {
    let profiles = all_written(cx)?;
    profiles.last().cloned().ok_or_else(|| Stop::Failed("the file is empty".to_owned()))
}

/// Returns the counters of every profile in the host's file, in the order of their writing. Each
/// follows a header and one record.
fn all_written(cx: &Context) -> Result<Vec<Vec<u64>>, Stop> {
    const MAGIC: [u8; 8] = [0x81, b'r', b'f', b'o', b'r', b'p', b'l', 0xff];
    let path = cx.profile_file();
    if !path.exists() {
        return Err(Stop::Skipped("the plugin reads no profiles".to_owned()));
    }
    let file = fs::read(&path).map_err(|error| {
        Stop::Failed(format!("cannot read the profile {}: {error}", path.display()))
    })?;
    let starts = (0..file.len()).step_by(8).filter(|at| file[*at..].starts_with(&MAGIC));
    let counters = starts.map(|at| file.get(at + 128 + 64..at + 128 + 64 + 16));
    Ok(counters.map(|counters| words(counters.unwrap_or_default())).collect())
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
