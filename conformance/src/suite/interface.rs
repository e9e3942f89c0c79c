//! The plugin's own tables, with calls of a newer or faulty host.

use super::context::{Context, refused};
use super::direct::{Device, Platform, Plugin};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use longshore::{ErrorCode, MemoryKind};
use longshore_plugin_api::{Loading, abi};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

behaviour_list! { "interface":
    "the description agrees with the note" ["P-6"] the_description_agrees_with_the_note;
    "unknown tables are null, before connecting and after" ["P-10"] unknown_tables_are_null;
    "a table stays the same" ["P-11"] tables_stay_the_same;
    "unknown queries are refused" ["P-20"] unknown_queries_are_refused;
    "devices that are not there are refused" ["P-20"] absent_devices_are_refused;
    "an error lives until it is released, by another thread" ["P-28", "P-29"] errors_live;
    "data that is no image of the device has score 0" ["P-61"] other_data_has_no_score;
    "unknown kinds of memory are refused" ["P-32"] unknown_kinds_are_refused;
    "memory is freed once, by its base, as its kind" ["P-35"] wrong_frees_are_refused;
    "a logical size is within its live allocation" ["P-63"] wrong_logical_sizes_are_refused;
    "a lazily loaded image behaves like one loaded at once" ["P-66"] lazy_loading_changes_nothing;
    "imported memory is an allocation, and the host's again when it is freed" ["P-65"] imported_memory_is_an_allocation;
    "unknown flags of a launch are refused" ["P-47"] unknown_launch_flags_are_refused;
    "unknown flags of a copy are refused" ["P-47"] unknown_copy_flags_are_refused;
    "unknown flags of a rectangle are refused" ["P-47", "P-83"] unknown_rect_flags_are_refused;
    "unknown flags of a fill are refused" ["P-47"] unknown_fill_flags_are_refused;
    "an event that was not recorded is complete" ["P-51"] unrecorded_events_are_complete;
    "an event that was not recorded has no time" ["P-53"] unrecorded_events_have_no_time;
    "platforms of one library are apart" ["P-60"] platforms_are_apart;
    "a library that may be closed leaves no thread" ["P-8"] closable_libraries_leave_nothing;
}

/// The time for which the system may still list a joined thread, or a thread of another test that
/// ends.
const THREADS_LIMIT: Duration = Duration::from_secs(5);

fn the_description_agrees_with_the_note(cx: &Context) -> Check {
    let entry = cx.entry()?;
    let candidates = cx.host().candidates();
    let path = entry.plugin_path();
    let found = candidates.iter().find(|candidate| candidate.path == path);
    let Some(note) = found.and_then(|candidate| candidate.note.as_ref()) else {
        return Err(Stop::Failed(format!("the host has found no note in '{}'", path.display())));
    };
    let described = entry.plugin();
    ensure_eq!(described.backend, note.backend, "backend");
    ensure_eq!(described.image_formats, note.image_formats, "image formats");
    ensure_eq!(described.driver, note.driver, "driver library");
    Ok(())
}

fn unknown_tables_are_null(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    all_unknown_tables_are_null(&plugin, "before connecting")?;
    let platform = connect(cx, &plugin)?;
    all_unknown_tables_are_null(&plugin, "after connecting")?;
    drop(platform);
    Ok(())
}

fn all_unknown_tables_are_null(plugin: &Plugin, when: &str) -> Check {
    let names =
        ["", "longshore", "longshore.queu", "longshore.queues", "longshore.\u{e9}", "queue"];
    let unknown = names.map(|name| (name, 1));
    let versions = [("longshore.queue", 0), ("longshore.queue", u32::MAX)];
    for (name, version) in unknown.into_iter().chain(versions) {
        let found = plugin.table(name, version);
        let null = found.table.is_null() && found.layout.is_null();
        ensure!(null, "unexpected table \"{name}\", version {version}, {when}");
    }
    Ok(())
}

fn tables_stay_the_same(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let names = ["platform", "device", "module", "queue", "event", "pinning", "instrumentation"];
    let ask = || names.map(|name| plugin.table(&format!("longshore.{name}"), 1).table);
    let before = ask();
    let platform = connect(cx, &plugin)?;
    ensure_eq!(ask(), before, "tables when connected");
    drop(platform);
    ensure_eq!(ask(), before, "tables afterwards");
    Ok(())
}

fn unknown_queries_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let code = ErrorCode::InvalidEnumeration;
    for query in [0x7fff_fffe, u32::MAX] {
        refused(platform.info(query), code, &format!("platform query {query:#x}"))?;
        for index in 0..platform.device_count()? {
            let what = format!("query {query:#x} of device {index}");
            refused(platform.device_info(index, query), code, &what)?;
        }
    }
    Ok(())
}

fn absent_devices_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let query = longshore::DeviceInfo::Name as u32;
    for index in [platform.device_count()?, u32::MAX] {
        let code = ErrorCode::InvalidDevice;
        refused(platform.device_info(index, query), code, &format!("name of device {index}"))?;
        refused(platform.open(index), code, &format!("opening device {index}"))?;
    }
    Ok(())
}

fn errors_live(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let raise = |index| match platform.try_open(index) {
        Err(raised) => Ok((raised.message(), raised)),
        Ok(_) => Err(Stop::Failed(format!("unexpected device {index}"))),
    };
    // Each call runs on a thread that has ended before the test reads the error.
    let raise_apart = |index| {
        let raised = thread::scope(|scope| scope.spawn(|| raise(index)).join());
        raised.expect("opening a device does not panic")
    };
    let ((message, first), (_, second)) = (raise_apart(u32::MAX)?, raise_apart(u32::MAX - 1)?);
    let error = first.take();
    ensure_eq!(error.message(), message, "message after another error, on another thread");
    refused(Err::<(), _>(second.take()), ErrorCode::InvalidDevice, "opening it again")
}

fn unknown_kinds_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    for kind in [0x7fff_fffe, u32::MAX] {
        let allocated = device.allocate(kind, 64);
        refused(allocated, ErrorCode::InvalidEnumeration, &format!("memory of kind {kind:#x}"))?;
    }
    Ok(())
}

fn other_data_has_no_score(cx: &Context) -> Check {
    let (plugin, image) = (plugin(cx)?, cx.image("basic")?);
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let Some(own) = device.score(&image, "", "")? else {
        return Err(Stop::Skipped("the plugin does not score images".to_owned()));
    };
    ensure!(own > 0, "an image without a triple and an architecture has score 0");
    for junk in [&b""[..], b"\x7fELF", &[0xff; 100]] {
        ensure_eq!(device.score(junk, "", "")?, Some(0), "score of {} bytes", junk.len());
    }
    for (triple, arch) in [("no-such-machine", ""), ("", "no such processor")] {
        ensure_eq!(device.score(&image, triple, arch)?, Some(0), "'{triple}' '{arch}'");
    }
    Ok(())
}

fn wrong_logical_sizes_are_refused(cx: &Context) -> Check {
    const BYTES: u64 = 4096;
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let kind = MemoryKind::Device as u32;
    let address = device.allocate(kind, BYTES)?;
    // SAFETY: nothing uses the memory.
    let free = || unsafe { device.free(kind, address) };
    let Some(set) = device.set_logical_size(address, 1) else {
        free()?;
        return Err(Stop::Skipped("the plugin does not use logical sizes".to_owned()));
    };
    set?;
    let again = |address, bytes| device.set_logical_size(address, bytes).unwrap_or(Ok(()));
    again(address, BYTES)?;
    for bytes in [0, BYTES + 1, u64::MAX] {
        let name = format!("a logical size of {bytes} bytes of {BYTES}");
        refused(again(address, bytes), ErrorCode::InvalidSize, &name)?;
    }
    for wrong in [0, address + 1, u64::MAX] {
        let name = format!("the logical size of {wrong:#x}");
        refused(again(wrong, 1), ErrorCode::InvalidArgument, &name)?;
    }
    free()?;
    refused(again(address, 1), ErrorCode::InvalidArgument, "the logical size of freed memory")?;
    Ok(())
}

fn imported_memory_is_an_allocation(cx: &Context) -> Check {
    const PAGES: usize = 1 << 16;
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (kind, wrong) = (MemoryKind::Host as u32, ErrorCode::InvalidArgument);
    let mut memory = vec![1_u8; 2 * PAGES];
    let address = (memory.as_mut_ptr() as u64).next_multiple_of(PAGES as u64);
    // SAFETY: the range is part of `memory`, which outlives the device.
    let import_memory = |address| unsafe { device.import_memory(kind, address, PAGES as u64) };
    let Some(imported) = import_memory(address) else {
        return Err(Stop::Skipped("the plugin does not import memory".to_owned()));
    };
    imported?;
    refused(import_memory(address).unwrap_or(Ok(())), wrong, "importing it twice")?;
    let queue = device.queue()?;
    // SAFETY: 8 bytes of the memory, which nothing else uses until the queue is synchronised.
    unsafe { queue.copy(address as *mut u64, &raw const PATTERN, 0)? };
    queue.synchronize()?;
    // SAFETY: nothing uses the memory, here and below.
    let free = |kind| unsafe { device.free(kind, address) };
    refused(free(MemoryKind::Device as u32), wrong, "freeing it as device memory")?;
    free(kind)?;
    refused(free(kind), wrong, "freeing it twice")?;
    let at = (address - memory.as_ptr() as u64) as usize;
    ensure_eq!(memory[at..at + 8], PATTERN.to_ne_bytes(), "copied bytes");
    ensure_eq!(memory[at + 8], 1, "byte after the copied ones");
    Ok(())
}

/// The number copied to imported memory.
static PATTERN: u64 = 0x0102_0304_0506_0708;

fn lazy_loading_changes_nothing(cx: &Context) -> Check {
    let (plugin, image) = (plugin(cx)?, cx.image("basic")?);
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (module, queue) = (device.load(&image, Loading::Lazily)?, device.queue()?);
    ensure_eq!(
        module.kernel("no such kernel").err().map(|error| error.code()),
        Some(ErrorCode::NotFound),
        "the error for an unknown kernel"
    );
    let bump = module.kernel("bump")?;
    for _ in 0..2 {
        // SAFETY: the kernel takes no arguments, and its module outlives the synchronised queue.
        unsafe { queue.launch(bump, abi::LAUNCH_WAIT)? };
    }
    queue.synchronize()?;
    drop((queue, module));
    ensure_eq!(
        device.load(b"no image", Loading::Lazily).err().map(|error| error.code()),
        device.load(b"no image", Loading::AtOnce).err().map(|error| error.code()),
        "the error for an invalid image"
    );
    Ok(())
}

fn wrong_frees_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (kind, code) = (MemoryKind::Device as u32, ErrorCode::InvalidArgument);
    let address = device.allocate(kind, 64)?;
    // SAFETY: nothing uses the memory, here and below.
    let free = |kind, address| unsafe { device.free(kind, address) };
    refused(free(kind, address + 16), code, "freeing the middle")?;
    refused(free(MemoryKind::Host as u32, address), code, "freeing it as host memory")?;
    free(kind, address)?;
    refused(free(kind, address), code, "freeing it twice")
}

fn unknown_launch_flags_are_refused(cx: &Context) -> Check {
    let (plugin, image) = (plugin(cx)?, cx.image("basic")?);
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (module, queue) = (device.load(&image, Loading::AtOnce)?, device.queue()?);
    let kernel = module.kernel("nop")?;
    for bit in 3..32 {
        // SAFETY: `nop` takes no arguments; the queue is synchronised before the module is dropped.
        let launched = unsafe { queue.launch(kernel, 1 << bit) };
        queue.synchronize()?;
        refused(launched, ErrorCode::Unsupported, &format!("launch flag {:#x}", 1u32 << bit))?;
    }
    Ok(())
}

fn unknown_copy_flags_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let queue = device.queue()?;
    let (from, mut to) = (1u64, 2u64);
    for bit in 1..32 {
        // SAFETY: both stay in place and untouched until the queue was synchronised.
        let copied = unsafe { queue.copy(&raw mut to, &raw const from, 1 << bit) };
        queue.synchronize()?;
        refused(copied, ErrorCode::Unsupported, &format!("copy flag {:#x}", 1u32 << bit))?;
    }
    ensure_eq!(to, 2, "destination of the refused copies");
    Ok(())
}

fn unknown_rect_flags_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let queue = device.queue()?;
    let (from, mut to) = (1u64, 2u64);
    for bit in 0..32 {
        // SAFETY: both stay in place and untouched until the queue was synchronised.
        let copied = unsafe { queue.copy_rect(&raw mut to, &raw const from, 1 << bit)? };
        queue.synchronize()?;
        refused(copied, ErrorCode::Unsupported, &format!("rectangle flag {:#x}", 1u32 << bit))?;
    }
    ensure_eq!(to, 2, "destination of the refused copies");
    Ok(())
}

fn unknown_fill_flags_are_refused(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let queue = device.queue()?;
    let kind = MemoryKind::Device as u32;
    let memory = device.allocate(kind, 8)?;
    // SAFETY: the memory lives until every fill has ended.
    let known = unsafe { queue.fill(memory, abi::FILL_WAIT) };
    let unknown: Vec<_> = (1..32u32)
        // SAFETY: as above.
        .map(|bit| (bit, unsafe { queue.fill(memory, 1 << bit) }))
        .collect();
    queue.synchronize()?;
    // SAFETY: the queue is empty.
    unsafe { device.free(kind, memory)? };
    known?;
    for (bit, filled) in unknown {
        refused(filled, ErrorCode::Unsupported, &format!("fill flag {:#x}", 1u32 << bit))?;
    }
    Ok(())
}

fn unrecorded_events_are_complete(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (queue, event) = (device.queue()?, device.event()?);
    ensure!(event.is_complete()?, "the event is not complete");
    event.synchronize()?;
    queue.wait(&event)?;
    Ok(queue.synchronize()?)
}

fn unrecorded_events_have_no_time(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let platform = connect(cx, &plugin)?;
    let device = open(cx, &platform)?;
    let (queue, recorded, not) = (device.queue()?, device.event()?, device.event()?);
    queue.record(&recorded)?;
    queue.synchronize()?;
    recorded.elapsed(&recorded)?;
    let code = ErrorCode::InvalidEvent;
    refused(recorded.elapsed(&not), code, "time to an event that was not recorded")?;
    refused(not.elapsed(&recorded), code, "time from an event that was not recorded")
}

fn platforms_are_apart(cx: &Context) -> Check {
    let plugin = plugin(cx)?;
    let (first, second) = (connect(cx, &plugin)?, connect(cx, &plugin)?);
    ensure_eq!(second.device_count()?, first.device_count()?, "devices");
    use_all(&open(cx, &first)?)?;
    drop(first);
    use_all(&open(cx, &second)?)?;
    drop(second);
    // The queue belongs to the host's own platform of the same library.
    cx.queue()?.synchronize()?;
    Ok(())
}

/// Opens and closes a copy of the plugin on a thread of its own. No other user keeps the copy open,
/// so closing it unmaps its code. A leftover thread-local destructor would jump to unmapped memory
/// at the end of the thread.
fn closable_libraries_leave_nothing(cx: &Context) -> Check {
    let entry = cx.entry()?;
    if !entry.plugin().unloadable {
        return Err(Stop::Skipped("the plugin does not declare that it may be closed".to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| Stop::Failed(error.to_string()))?;
    let copy = folder.path().join("copy.so");
    fs::copy(entry.plugin_path(), &copy).map_err(|error| Stop::Failed(error.to_string()))?;
    let life = || live_and_close(cx, &copy);
    thread::scope(|scope| scope.spawn(life).join().expect("the plugin's life does not panic"))
}

fn live_and_close(cx: &Context, library: &Path) -> Check {
    let before = threads()?;
    let plugin = Plugin::open(library)?;
    let platform = connect(cx, &plugin)?;
    use_all(&open(cx, &platform)?)?;
    drop(platform);
    // The program may start other threads at any time: the threads listed now must end.
    let mut staying = threads()?;
    staying.retain(|number, _| !before.contains_key(number));
    let deadline = Instant::now() + THREADS_LIMIT;
    while !staying.is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
        let now = threads()?;
        staying.retain(|number, _| now.contains_key(number));
    }
    if staying.is_empty() {
        return plugin.close();
    }
    // The code of running threads must stay mapped.
    std::mem::forget(plugin);
    let names: Vec<_> = staying.values().collect();
    Err(Stop::Failed(format!("{} threads still run: {names:?}", names.len())))
}

/// Returns the number and name of each thread of the process.
fn threads() -> Result<BTreeMap<OsString, String>, Stop> {
    let listing = |error: std::io::Error| Stop::Failed(format!("listing the threads: {error}"));
    let tasks = fs::read_dir("/proc/self/task").map_err(listing)?.flatten();
    let task = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        (task.file_name(), name.trim_end().to_owned())
    };
    Ok(tasks.map(task).collect())
}

/// Uses memory, a queue, an event and a copy.
fn use_all(device: &Device) -> Check {
    let kind = MemoryKind::Device as u32;
    let address = device.allocate(kind, 64)?;
    let (queue, event) = (device.queue()?, device.event()?);
    let (from, mut to) = (1u64, 2u64);
    // SAFETY: both stay in place and untouched until the queue was synchronised.
    let copied = unsafe { queue.copy(&raw mut to, &raw const from, 0) };
    let recorded = queue.record(&event);
    queue.synchronize()?;
    copied.and(recorded)?;
    ensure_eq!(to, 1, "copied number");
    ensure!(event.is_complete()?, "the event is not complete");
    // SAFETY: nothing uses the memory.
    unsafe { device.free(kind, address)? };
    Ok(())
}

fn plugin(cx: &Context) -> Result<Plugin, Stop> {
    Plugin::open(cx.entry()?.plugin_path())
}

fn connect<'a>(cx: &Context, plugin: &'a Plugin) -> Result<Platform<'a>, Stop> {
    plugin.connect(cx.device().backend(), cx.environment())
}

fn open<'a>(cx: &Context, platform: &'a Platform) -> Result<Device<'a>, Stop> {
    Ok(platform.open(cx.device().index())?)
}
