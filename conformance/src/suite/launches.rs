//! Launches: arguments, grids, ownership of kernels and buffers.

use super::context::{Context, Gate, if_supported, or_skip, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use longshore::{ArgumentPassing, DeviceInfo, ErrorCode, Grid, InfoValue, RawArguments, Result};
use std::ffi::c_void;

behaviour_list! { "launches":
    "a kernel computes" ["P-45"] a_kernel_computes;
    "a kernel writes the requested elements and no others" ["P-45"] a_kernel_writes;
    "a part of a buffer is an argument" ["P-46"] parts_are_arguments;
    "buffers dropped under a queued launch keep their memory until it is done" ["H-10"]
        dropped_buffers_outlive_launches;
    "arguments of every size arrive" ["P-46"] arguments_arrive;
    "many arguments arrive, each in its place" ["P-46"] many_arguments_arrive;
    "the values of arguments are captured at the call" ["P-46"] arguments_are_captured;
    "a launch that waits has ended" ["P-54"] waiting_launches_end;
    "a kernel without arguments runs" ["P-46"] empty_lists_work;
    "grids with a zero are refused" ["H-5"] empty_grids_are_refused;
    "groups beyond the device's limit are refused" ["P-47"] huge_groups_are_refused;
    "a wrong number of arguments is refused if the image describes them" ["P-42"] counts_are_checked;
    "arguments of a wrong size are refused if the image describes them" ["P-42"] sizes_are_checked;
    "kernels of another device are refused" ["H-4"] foreign_kernels_are_refused;
    "buffers of another device are refused" ["H-4"] foreign_buffers_are_refused;
    "occupancy queries are answered or unsupported" ["P-58"] occupancy_can_be_asked_for;
    "a cooperative launch runs or is unsupported" ["P-47"] cooperative_launches_run;
    "a launch in clusters runs or is unsupported" ["P-64"] launches_in_clusters_run;
    "a launch that passes words runs or is unsupported" ["P-78"] launches_with_words_run;
}

fn a_kernel_computes(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let saxpy = program.kernel("saxpy")?;
    for n in [1usize, 2, 1000, 100_003] {
        let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
        let x = cx.device().buffer_of(&queue, &x)?;
        let y = cx.device().buffer_of(&queue, &vec![1.0f32; n])?;
        // SAFETY: saxpy (u64, f32, x, y) touches n elements of both; they outlive it.
        unsafe {
            queue.launch(&saxpy, Grid::default(), (n as u64, 2.5f32, &x, &y))?;
            queue.launch(&saxpy, Grid::default(), (n as u64, -1.0f32, &x, &y))?;
        }
        let y = y.to_vec(&queue)?;
        let wrong = y.iter().enumerate().find(|(i, y)| **y != 1.5 * (i % 1000) as f32 + 1.0);
        ensure!(wrong.is_none(), "the first wrong one of {n} elements: {wrong:?}");
    }
    Ok(())
}

fn a_kernel_writes(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let out = cx.device().buffer_of(&queue, &[u32::MAX; 5000])?;
    // SAFETY: iota (out, u64) writes all elements but the last; `out` outlives it.
    unsafe { queue.launch(&iota, Grid::default(), (&out, 4999u64))? };
    let found = out.to_vec(&queue)?;
    ensure!(found[..4999].iter().copied().eq(0..4999), "the elements are wrong");
    ensure_eq!(found[4999], u32::MAX, "element behind the last");
    Ok(())
}

fn parts_are_arguments(cx: &Context) -> Check {
    /// Number of elements in 256 bytes, a multiple of every device's alignment.
    const ALIGNED: usize = 64;
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let out = cx.device().buffer_of(&queue, &[u32::MAX; 4 * ALIGNED])?;
    let (first, rest) = out.as_slice().split_at(ALIGNED)?;
    let grid = Grid::for_items(1, 1)?;
    // SAFETY: iota (out, u64) stays within each part; `out` outlives it.
    unsafe {
        queue.launch(&iota, grid, (rest, 60u64))?;
        queue.launch(&iota, grid, (first.slice(..5)?, 5u64))?;
    }
    let mut expected = [u32::MAX; 4 * ALIGNED];
    (0..).zip(&mut expected[ALIGNED..ALIGNED + 60]).for_each(|(i, element)| *element = i);
    (0..).zip(&mut expected[..5]).for_each(|(i, element)| *element = i);
    ensure!(out.to_vec(&queue)? == expected, "a kernel wrote outside its part");
    Ok(())
}

fn dropped_buffers_outlive_launches(cx: &Context) -> Check {
    const LEN: usize = 5000;
    let (program, queue, other) = (cx.load("basic")?, cx.queue()?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let gate = Gate::in_front_of(&queue)?;
    for _ in 0..3 {
        let out = cx.device().buffer_of(&other, &[1u32; LEN])?;
        // SAFETY: iota (out, u64) stays within the buffer, whose memory waits for the launch.
        unsafe { queue.launch(&iota, Grid::default(), (out.slice(..)?, LEN as u64))? };
    }
    let others: Vec<_> =
        (0..3).map(|_| cx.device().buffer_of(&other, &[9u32; LEN])).collect::<Result<_>>()?;
    gate.open();
    queue.synchronize()?;
    for buffer in others {
        ensure!(buffer.to_vec(&other)? == [9; LEN], "a launch wrote memory of another buffer");
    }
    Ok(())
}

fn arguments_arrive(cx: &Context) -> Check {
    let (program, queue) = (cx.load("echo")?, cx.queue()?);
    let echo = program.kernel("echo")?;
    let out = cx.device().buffer_of(&queue, &[0u64; 6])?;
    let values = (0xa5u8, 0xbeefu16, 0xdead_beefu32, 0x0123_4567_89ab_cdefu64, -1.5f32, 2.25f64);
    // The kernel writes bytes, which the test reads as numbers.
    let to = out.pointer();
    let arguments = (to, values.0, values.1, values.2, values.3, values.4, values.5);
    // SAFETY: echo takes these types and writes 48 bytes; `out` outlives it.
    unsafe { queue.launch(&echo, Grid::default(), arguments)? };
    let expected = [
        u64::from(values.0),
        u64::from(values.1),
        u64::from(values.2),
        values.3,
        u64::from(values.4.to_bits()),
        values.5.to_bits(),
    ];
    ensure_eq!(out.to_vec(&queue)?, expected, "values");
    Ok(())
}

fn many_arguments_arrive(cx: &Context) -> Check {
    let (program, queue) = (cx.load("many")?, cx.queue()?);
    let many = program.kernel("many")?;
    let out = cx.device().buffer_of(&queue, &[0u64; 14])?;
    let small: [u32; 7] = std::array::from_fn(|i| 0x8000_0001 + i as u32);
    let large: [u64; 7] = std::array::from_fn(|i| 0x9000_0000_0000_0001 + ((i as u64) << 32));
    let [a, c, e, g, i, k, m] = small;
    let [b, d, f, h, j, l, n] = large;
    let arguments = (&out, a, b, c, d, e, f, g, h, i, j, k, l, m, n);
    // SAFETY: `many` takes these types and writes 14 elements; `out` outlives it.
    unsafe { queue.launch(&many, Grid::default(), arguments)? };
    let expected: Vec<_> =
        small.iter().zip(large).flat_map(|(small, large)| [u64::from(*small), large]).collect();
    ensure_eq!(out.to_vec(&queue)?, expected, "values");
    Ok(())
}

fn arguments_are_captured(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let outs = [cx.device().buffer_of(&queue, &[9u32; 8])?, cx.device().buffer::<u32>(&queue, 8)?];
    outs[1].fill(&queue, 9)?;
    let (mut out, mut n) = (outs[0].pointer().address(), 3u64);
    let gate = Gate::in_front_of(&queue)?;
    for launch in [(1, 5u64), (0, 0)] {
        let pointers: [*const c_void; 2] = [(&raw const out).cast(), (&raw const n).cast()];
        // SAFETY: iota (out, u64) stays within 8 elements; the values are readable during the
        // call, the buffers live until `to_vec` has waited.
        unsafe {
            let arguments = RawArguments::new(&pointers, &[8, 8])?;
            queue.launch(&iota, Grid::default(), arguments)?;
        }
        (out, n) = (outs[launch.0].pointer().address(), launch.1);
    }
    (out, n) = (std::hint::black_box(0), std::hint::black_box(u64::MAX));
    std::hint::black_box((out, n));
    gate.open();
    ensure_eq!(outs[0].to_vec(&queue)?, [0, 1, 2, 9, 9, 9, 9, 9], "first launch");
    ensure_eq!(outs[1].to_vec(&queue)?, [0, 1, 2, 3, 4, 9, 9, 9], "second launch");
    Ok(())
}

fn waiting_launches_end(cx: &Context) -> Check {
    let (program, queue, observer) = (cx.load("basic")?, cx.queue()?, cx.queue()?);
    let (bump, counter) = (program.kernel("bump")?, program.global("counter")?);
    for round in 0..20 {
        // SAFETY: `bump` takes no arguments.
        unsafe {
            queue.launch(&bump, Grid::default(), ())?;
            queue.launch_and_wait(&bump, Grid::default(), ())?;
        }
        ensure_eq!(counter.read::<u64>(&observer)?, 7 + 2 * round, "counter in round {round}");
    }
    Ok(())
}

fn empty_lists_work(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let nop = program.kernel("nop")?;
    // SAFETY: `nop` does nothing.
    unsafe {
        queue.launch(&nop, Grid::default(), ())?;
        queue.launch(&nop, Grid::default(), RawArguments::new(&[], &[])?)?;
    }
    queue.synchronize()?;
    Ok(())
}

fn empty_grids_are_refused(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let bump = basic.program.kernel("bump")?;
    for axis in 0..3 {
        let mut zero = [1; 3];
        zero[axis] = 0;
        for grid in [Grid::new(zero, [1; 3]), Grid::new([1; 3], zero)] {
            // SAFETY: refused.
            let launched = unsafe { queue.launch(&bump, grid, ()) };
            refused(launched, ErrorCode::InvalidArgument, &format!("{grid:?}"))?;
        }
    }
    ensure_eq!(basic.global(&queue)?, 5, "counter");
    Ok(())
}

fn huge_groups_are_refused(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let bump = basic.program.kernel("bump")?;
    let limit = cx.device().info(DeviceInfo::MaxWorkGroupSize).ok().and_then(|v| v.as_u64());
    let Some(limit) = limit.filter(|limit| *limit < u64::from(u32::MAX)) else {
        return Err(Stop::Skipped("the device states no limit below 2^32".to_owned()));
    };
    let huge = Grid::linear(1, limit as u32 + 1);
    // SAFETY: the launch is refused, and `bump` takes no arguments.
    let launched = unsafe { queue.launch_and_wait(&bump, huge, ()) };
    refused(launched, ErrorCode::InvalidArgument, &format!("a group of {} items", limit + 1))?;
    ensure_eq!(basic.global(&queue)?, 5, "counter");
    Ok(())
}

fn counts_are_checked(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    described(&iota)?;
    let wrong = ErrorCode::InvalidArgument;
    // SAFETY: all launches are refused, because the image describes two arguments.
    unsafe {
        refused(queue.launch(&iota, Grid::default(), ()), wrong, "no arguments for two")?;
        refused(queue.launch(&iota, Grid::default(), (1u64,)), wrong, "one argument for two")?;
        let three = (1u64, 2u64, 3u64);
        refused(queue.launch(&iota, Grid::default(), three), wrong, "three arguments for two")
    }
}

fn sizes_are_checked(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    described(&iota)?;
    let wrong = ErrorCode::InvalidSize;
    // SAFETY: all launches are refused, because the image describes two arguments of 8 bytes.
    unsafe {
        let small = (1u64, 2u32);
        refused(queue.launch(&iota, Grid::default(), small), wrong, "4 bytes for 8")?;
        let small = (1u8, 2u64);
        refused(queue.launch(&iota, Grid::default(), small), wrong, "1 byte for 8")
    }
}

fn described(kernel: &longshore::Kernel) -> Check {
    match &kernel.attributes().argument_sizes {
        Some(_) => Ok(()),
        None => Err(Stop::Skipped("the image does not describe its kernels' arguments".into())),
    }
}

fn foreign_kernels_are_refused(cx: &Context) -> Check {
    let theirs = cx.load_on(cx.other()?, "basic")?.kernel("nop")?;
    let wrong = ErrorCode::InvalidDevice;
    // SAFETY: refused.
    let launched = unsafe { cx.queue()?.launch(&theirs, Grid::default(), ()) };
    refused(launched, wrong, "launching a kernel of another device")?;
    refused(cx.device().optimal_group_items(&theirs, 0), wrong, "asking for its occupancy")
}

fn foreign_buffers_are_refused(cx: &Context) -> Check {
    let (program, queue) = (cx.load("basic")?, cx.queue()?);
    let iota = program.kernel("iota")?;
    let other = cx.other()?;
    let theirs = other.buffer::<u32>(&other.queue()?, 8)?;
    // SAFETY: refused.
    let launched = unsafe { queue.launch(&iota, Grid::default(), (&theirs, 8u64)) };
    refused(launched, ErrorCode::InvalidDevice, "a buffer of another device")
}

fn occupancy_can_be_asked_for(cx: &Context) -> Check {
    let kernel = cx.load("basic")?.kernel("saxpy")?;
    if let Some(items) = if_supported(cx.device().optimal_group_items(&kernel, 0))? {
        ensure!(items >= 1, "the best group has no items");
    }
    if let Some(groups) = if_supported(cx.device().max_cooperative_groups(&kernel, [1; 3], 0))? {
        ensure!(groups >= 1, "not even one group can run cooperatively");
    }
    Ok(())
}

fn cooperative_launches_run(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let bump = basic.program.kernel("bump")?;
    let able = cx.device().info(DeviceInfo::CooperativeLaunchSupport).ok();
    let able = able == Some(InfoValue::Bool(true));
    // SAFETY: `bump` takes no arguments.
    let launched =
        unsafe { queue.launch_and_wait(&bump, Grid::default().with_cooperative(true), ()) };
    if able {
        launched?;
        ensure_eq!(basic.global(&queue)?, 6, "counter");
        return Ok(());
    }
    refused(launched, ErrorCode::Unsupported, "a cooperative launch")?;
    Err(Stop::Skipped("the device has no cooperative launches".to_owned()))
}

fn launches_in_clusters_run(cx: &Context) -> Check {
    let (basic, queue) = (cx.load("basic")?, cx.queue()?);
    let bump = basic.kernel("bump")?;
    let counter = || basic.global("counter")?.read::<u64>(&queue);
    // SAFETY: `bump` takes no arguments.
    let launch = |groups, cluster| unsafe {
        queue.launch_and_wait(&bump, Grid::linear(groups, 1).with_clusters(cluster), ())
    };
    for (groups, cluster) in [(3, [2, 1, 1]), (4, [0, 1, 1]), (4, [1, 2, 1])] {
        let what = format!("clusters of {cluster:?} of {groups} groups");
        refused(launch(groups, cluster), ErrorCode::InvalidArgument, &what)?;
    }
    or_skip(launch(4, [2, 1, 1]))?;
    ensure_eq!(counter()?, 5 + 4, "counter after four groups in clusters of two");
    let groups = 1 << 20;
    let huge = launch(groups, [groups, 1, 1]);
    refused(huge, ErrorCode::InvalidArgument, "a cluster beyond the device's limit")?;
    ensure_eq!(counter()?, 9, "counter after a refused launch");
    Ok(())
}

fn launches_with_words_run(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let bump = basic.program.kernel("bump")?;
    let grid = Grid::default().with_passing(ArgumentPassing::Words);
    // SAFETY: `bump` takes no arguments, in whichever form.
    let launched = unsafe { queue.launch_and_wait(&bump, grid, ()) };
    if !matches!(&launched, Err(error) if error.code() == ErrorCode::Unsupported) {
        launched?;
        ensure_eq!(basic.global(&queue)?, 6, "counter");
        let wide = ([0u8; 16], 16);
        let pointers = [wide.0.as_ptr().cast::<c_void>()];
        // SAFETY: the value has 16 bytes; the launch is refused.
        let launched =
            unsafe { queue.launch(&bump, grid, RawArguments::new(&pointers, &[wide.1])?) };
        refused(launched, ErrorCode::InvalidArgument, "a word of 16 bytes")?;
        ensure_eq!(basic.global(&queue)?, 6, "counter after a refused launch");
        return Ok(());
    }
    ensure_eq!(basic.global(&queue)?, 5, "counter after a refused launch");
    Err(Stop::Skipped("the device's kernels take no words".to_owned()))
}
