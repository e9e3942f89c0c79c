//! Programs: loading, names, globals, unloading.

use super::context::{Context, Counter, Gate, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use crate::TrustedImages;
use longshore::{Acceptance, AllocationOwner, ErrorCode, Grid, SymbolKind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

behaviour_list! { "programs":
    "the image may be overwritten and freed right after loading" ["P-38", "H-6"] images_are_owned;
    "an image is accepted before it is loaded" ["P-37"] images_are_accepted;
    "an image is loaded without a promise only if the backend verifies it" ["P-37"]
        only_verified_images_need_no_promise;
    "two images with the same names do not see each other" ["P-41"] names_do_not_clash;
    "an image that is loaded twice is two programs" ["P-43"] loading_twice_makes_two;
    "an image can be loaded and unloaded many times" ["P-30"] loading_is_repeatable;
    "all kernels and globals are listed" ["P-41"] symbols_are_listed;
    "an unknown name is refused, with a list of known names" ["P-41"] unknown_names_are_refused;
    "a symbol of the other kind is refused" ["P-41"] kinds_are_distinguished;
    "a symbol found twice is the same" ["P-42"] symbols_are_stable;
    "globals are read and written" ["P-43"] globals_are_read_and_written;
    "the address of a global is device memory" ["P-43"] globals_are_memory;
    "unloading waits for the kernels that were launched" ["H-7"] unloading_waits;
    "a kernel keeps its program loaded" ["P-42"] kernels_keep_programs;
    "use after unloading is refused" ["H-4"] use_after_unload_is_refused;
    "a program can be loaded on two devices" ["P-43"] two_devices_are_apart;
}

fn images_are_owned(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let mut image = cx.image("basic")?.to_vec();
    let program = cx.device().load_trusted(&image[..])?;
    image.fill(0xaa);
    drop(image);
    let basic = Counter::new(program)?;
    basic.bump(&queue)?;
    ensure_eq!(basic.read(&queue)?, 6, "counter");
    // `load_trusted` takes over an owned image without a copy.
    let basic = Counter::new(cx.device().load_trusted(cx.image("basic")?.to_vec())?)?;
    ensure_eq!(basic.read(&queue)?, 5, "counter of the second");
    Ok(())
}

fn only_verified_images_need_no_promise(cx: &Context) -> Check {
    for name in ["basic", "life"] {
        let image = cx.image(name)?;
        let loaded = cx.device().load_verified(&*image);
        match cx.device().accepts(&image)? {
            Acceptance::Verified => loaded?.unload().map(drop)?,
            _ => refused(loaded, ErrorCode::Unsupported, "an image that is not verified")?,
        }
    }
    let rubbish = cx.device().load_verified(b"no image at all");
    refused(rubbish, ErrorCode::InvalidBinary, "rubbish")
}

fn images_are_accepted(cx: &Context) -> Check {
    let image = cx.image("basic")?;
    ensure!(cx.device().accepts(&image)?.is_accepted(), "'basic' is refused");
    for (what, bytes) in [("no bytes", &b""[..]), ("rubbish", &b"no image at all"[..])] {
        let Acceptance::Refused(why) = cx.device().accepts(bytes)? else {
            return Err(Stop::Failed(format!("{what} was accepted")));
        };
        ensure!(!why.is_empty(), "{what} was refused without a reason");
    }
    Ok(())
}

fn names_do_not_clash(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let (first, second) = (cx.basic()?, Counter::new(cx.load("clash")?)?);
    first.bump(&queue)?;
    second.bump(&queue)?;
    second.bump(&queue)?;
    ensure_eq!(first.read(&queue)?, 6, "counter of 'basic'");
    ensure_eq!(second.read(&queue)?, 1002, "counter of 'clash'");
    ensure_eq!(first.global(&queue)?, 6, "global of 'basic'");
    ensure_eq!(second.global(&queue)?, 1002, "global of 'clash'");
    first.program.unload()?;
    ensure_eq!(second.read(&queue)?, 1002, "counter of 'clash' after unloading 'basic'");
    Ok(())
}

fn loading_twice_makes_two(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let (first, second) = (cx.basic()?, cx.basic()?);
    first.bump(&queue)?;
    ensure_eq!(first.read(&queue)?, 6, "counter of the first");
    ensure_eq!(second.read(&queue)?, 5, "counter of the second");
    let addresses = (first.program.global("counter")?, second.program.global("counter")?);
    ensure!(addresses.0.pointer() != addresses.1.pointer(), "both have one global");
    drop(addresses);
    first.program.unload()?;
    second.bump(&queue)?;
    ensure_eq!(second.read(&queue)?, 6, "counter of the second after unloading the first");
    Ok(())
}

fn loading_is_repeatable(cx: &Context) -> Check {
    let queue = cx.queue()?;
    for round in 0..30 {
        let basic = cx.basic()?;
        basic.bump(&queue)?;
        ensure_eq!(basic.read(&queue)?, 6, "counter in round {round}");
        basic.program.unload()?;
    }
    Ok(())
}

fn symbols_are_listed(cx: &Context) -> Check {
    let symbols = cx.load("basic")?.symbols()?;
    let kernels = ["nop", "saxpy", "iota", "bump", "read_counter"];
    let expected = kernels.map(|name| (name, SymbolKind::Kernel));
    for (name, kind) in expected.into_iter().chain([("counter", SymbolKind::Global)]) {
        let listed: Vec<_> = symbols.iter().filter(|symbol| symbol.0 == name).collect();
        ensure!(listed.len() == 1, "'{name}' is listed {} times in {symbols:?}", listed.len());
        ensure_eq!(listed[0].1, kind, "kind of '{name}'");
    }
    Ok(())
}

fn unknown_names_are_refused(cx: &Context) -> Check {
    let program = cx.load("basic")?;
    for name in ["missing", "", "NOP", "no", "nop2", "malloc", "main", "größe", "a\0b"] {
        refused(program.kernel(name), ErrorCode::NotFound, &format!("kernel {name:?}"))?;
        refused(program.global(name), ErrorCode::NotFound, &format!("global {name:?}"))?;
    }
    let long = "x".repeat(1 << 16);
    refused(program.kernel(&long), ErrorCode::NotFound, "a name of 64 KiB")?;
    let message = program.kernel("missing").err().map(|e| e.to_string()).unwrap_or_default();
    ensure!(message.contains("missing"), "the message does not name the missing symbol: {message}");
    ensure!(message.contains("saxpy"), "the message does not name existing symbols: {message}");
    Ok(())
}

fn kinds_are_distinguished(cx: &Context) -> Check {
    let program = cx.load("basic")?;
    let wrong = ErrorCode::SymbolKind;
    refused(program.kernel("counter"), wrong, "the global as a kernel")?;
    refused(program.global("saxpy"), wrong, "the kernel as a global")
}

fn symbols_are_stable(cx: &Context) -> Check {
    let program = cx.load("basic")?;
    let (a, b) = (program.global("counter")?, program.global("counter")?);
    ensure_eq!(b.pointer(), a.pointer(), "address");
    let (a, b) = (program.kernel("saxpy")?, program.kernel("saxpy")?);
    ensure_eq!(b.attributes(), a.attributes(), "attributes");
    ensure_eq!(a.name(), "saxpy", "name");
    Ok(())
}

fn globals_are_read_and_written(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let counter = basic.program.global("counter")?;
    ensure_eq!(counter.bytes(), 8, "size");
    ensure_eq!(counter.read::<u64>(&queue)?, 5, "initial value");
    counter.write(&queue, 41u64)?;
    basic.bump(&queue)?;
    ensure_eq!(basic.read(&queue)?, 42, "value that the kernel sees");
    ensure_eq!(counter.read::<u64>(&queue)?, 42, "value that a copy sees");
    refused(counter.read::<u32>(&queue), ErrorCode::InvalidSize, "reading 4 of 8 bytes")?;
    refused(counter.write(&queue, 1u8), ErrorCode::InvalidSize, "writing 1 of 8 bytes")
}

fn globals_are_memory(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let counter = basic.program.global("counter")?;
    let info = cx.host().allocation_at(counter.pointer().offset(7))?;
    ensure_eq!(info.owner, AllocationOwner::Global, "owner");
    ensure_eq!((info.base, info.bytes), (counter.pointer().address(), 8), "range");
    let buffer = cx.device().buffer_of(&queue, &[70u64])?;
    // SAFETY: both live until `read` has waited.
    unsafe { queue.copy(counter.pointer(), buffer.pointer(), 8)? };
    ensure_eq!(basic.read(&queue)?, 70, "value after a copy to the global");
    // SAFETY: the global lives until `read` has waited.
    unsafe { queue.fill(counter.pointer(), &[0, 1], 8)? };
    ensure_eq!(basic.read(&queue)?, 0x0100_0100_0100_0100, "value after a fill of the global");
    let address = counter.pointer();
    drop((counter, basic));
    refused(cx.host().allocation_at(address), ErrorCode::NotFound, "an unloaded global")
}

fn unloading_waits(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let out = cx.device().buffer_of(&queue, &[0u64])?;
    let gate = Gate::in_front_of(&queue)?;
    basic.bump(&queue)?;
    // SAFETY: `out` lives until `to_vec` has waited.
    unsafe { basic.read_into(&queue, &out)? };
    let program = basic.program.clone();
    let (sender, unloaded) = mpsc::channel();
    let unloading = thread::spawn(move || sender.send(program.unload()));
    let early = unloaded.recv_timeout(Duration::from_millis(50));
    ensure!(early.is_err(), "it was unloaded while a kernel was queued");
    gate.open();
    unloaded.recv().map_err(|_| Stop::Failed("the thread ended".to_owned()))??;
    ensure!(unloading.join().is_ok(), "the thread panicked");
    ensure_eq!(out.to_vec(&queue)?[0], 6, "counter that the kernel saw");
    Ok(())
}

fn kernels_keep_programs(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let program = cx.load("basic")?;
    let (kernel, global) = (program.kernel("bump")?, program.global("counter")?);
    drop(program);
    // SAFETY: `bump` takes no arguments.
    unsafe { queue.launch(&kernel, Grid::default(), ())? };
    drop(kernel);
    ensure_eq!(global.read::<u64>(&queue)?, 6, "counter");
    Ok(())
}

fn use_after_unload_is_refused(cx: &Context) -> Check {
    let (basic, queue) = (cx.basic()?, cx.queue()?);
    let program = basic.program.clone();
    let (kernel, counter) = (program.kernel("bump")?, program.global("counter")?);
    program.clone().unload()?;
    let gone = ErrorCode::Uninitialized;
    // SAFETY: refused.
    let launched = unsafe { queue.launch(&kernel, Grid::default(), ()) };
    refused(launched, gone, "launching")?;
    refused(basic.bump(&queue), gone, "launching another handle of the kernel")?;
    refused(counter.read::<u64>(&queue), gone, "reading a global")?;
    refused(counter.write(&queue, 1u64), gone, "writing a global")?;
    refused(program.kernel("bump"), gone, "finding a kernel")?;
    refused(program.global("counter"), gone, "finding a global")?;
    refused(program.symbols(), gone, "listing symbols")?;
    refused(program.clone().unload(), gone, "unloading again")?;
    // SAFETY: refused.
    let filled = unsafe { queue.fill(counter.pointer(), &[1], 8) };
    refused(filled, ErrorCode::InvalidArgument, "filling a global that is gone")?;
    queue.synchronize()?;
    Ok(())
}

fn two_devices_are_apart(cx: &Context) -> Check {
    let other = cx.other()?;
    let (ours, theirs) = (cx.basic()?, Counter::new(cx.load_on(other, "basic")?)?);
    let (our_queue, their_queue) = (cx.queue()?, other.queue()?);
    ours.bump(&our_queue)?;
    ensure_eq!(ours.read(&our_queue)?, 6, "counter on this device");
    ensure_eq!(theirs.read(&their_queue)?, 5, "counter on the other device");
    Ok(())
}
