//! Tests of the sample plugin in C through its tables: the interface from both sides.

use crate::support::{Sample, image};
use longshore_plugin_api::remote::{
    Incompatible, RemoteDevice, RemoteKernel, RemoteModule, RemoteQueue,
};
use longshore_plugin_api::*;
use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn an_image_is_loaded_run_and_unloaded() {
    let sample = Sample::build(&[]);
    let path = sample.path.clone();
    {
        let platform = sample.platform();
        let device = platform.open(0).unwrap();
        runs_a_kernel_on_copied_data(&device);
        runs_constructors_and_destructors_by_priority(&device);
        keeps_the_order_of_a_queue_and_between_queues(&device);
        reads_instrumentation(&device);
        refuses_addresses_that_are_not_the_devices(&device);
        device.close().unwrap();
    }
    drop(sample);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(path.to_str().unwrap()), "the library is still mapped");
}

fn runs_a_kernel_on_copied_data(device: &RemoteDevice) {
    const COUNT: usize = 1000;
    let module = load(device, &image(&["kernel saxpy = saxpy"])).unwrap();
    let queue = device.create_queue().unwrap();
    let x = device.allocate(MemoryKind::Device, 4 * COUNT as u64, 4096).unwrap();
    let y = device.allocate(MemoryKind::Managed, 4 * COUNT as u64, 64).unwrap();
    assert_eq!((x % 4096, y % 64), (0, 0));
    let mut values: Vec<f32> = (0..COUNT).map(|i| i as f32).collect();
    copy(&queue, (x, Some(device)), (values.as_ptr() as u64, None), 4 * COUNT);
    // SAFETY: `y` has that many bytes.
    queue.fill(unsafe { Span::new(y, 4 * COUNT as u64) }, &1.0f32.to_le_bytes(), false).unwrap();

    let (start, end) = (device.create_event(true).unwrap(), device.create_event(true).unwrap());
    assert!(start.is_complete().unwrap());
    queue.record_event(&start).unwrap();
    let (saxpy, attributes) = module.kernel("saxpy").unwrap();
    assert_eq!(attributes.argument_sizes, Some(vec![8, 4, 8, 8]));
    let (n, a) = (COUNT as u64, 2.5f32);
    let arguments = [&n.to_le_bytes()[..], &a.to_le_bytes(), &x.to_le_bytes(), &y.to_le_bytes()];
    launch(&queue, &saxpy, &arguments).unwrap();
    let few = launch(&queue, &saxpy, &arguments[..3]).unwrap_err();
    assert_eq!(few.code(), ErrorCode::InvalidArgument);
    queue.record_event(&end).unwrap();
    copy(&queue, (values.as_mut_ptr() as u64, None), (y, Some(device)), 4 * COUNT);
    queue.synchronize().unwrap();
    assert!(queue.is_idle().unwrap() && end.is_complete().unwrap());
    assert!(start.elapsed_ns(&end).unwrap() > 0);
    assert!(values.iter().enumerate().all(|(i, v)| *v == 2.5 * i as f32 + 1.0));

    module.module.unload().unwrap();
    assert_eq!(device.free(MemoryKind::Host, x).unwrap_err().code(), ErrorCode::InvalidArgument);
    device.free(MemoryKind::Device, x).unwrap();
    device.free(MemoryKind::Managed, y).unwrap();
}

fn runs_constructors_and_destructors_by_priority(device: &RemoteDevice) {
    let lines = [
        "constructor 30 append order 3",
        "constructor 10 append order 1",
        "constructor 20 append order 2",
        "destructor 5 poke slot 1",
        "destructor 9 fail",
        "destructor 7 poke slot 2",
        "kernel remember = remember slot",
        "kernel read = read order",
        "global order 8",
        "global slot 8",
    ];
    let module = load(device, &image(&lines)).unwrap();
    module.run_constructors().unwrap();
    let queue = device.create_queue().unwrap();
    let out = device.allocate(MemoryKind::Host, 8, 8).unwrap();
    let (read, remember) = (module.kernel("read").unwrap().0, module.kernel("remember").unwrap().0);
    launch(&queue, &read, &[&out.to_le_bytes()]).unwrap();
    launch(&queue, &remember, &[&out.to_le_bytes()]).unwrap();
    queue.synchronize().unwrap();
    // SAFETY: host memory of 8 bytes, and the queue is idle.
    let value = || unsafe { (out as *const u64).read_volatile() };
    assert_eq!(value(), 123);
    let failed = module.run_destructors().unwrap_err();
    assert_eq!(failed.code(), ErrorCode::BackendFailure);
    assert_eq!(value(), 1, "the destructor of the lowest priority runs last");
    assert_eq!(module.kernel("order").err().map(|e| e.code()), Some(ErrorCode::SymbolKind));
    assert_eq!(module.global("nothing").unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(module.symbols().unwrap().len(), 4);
    module.module.unload().unwrap();
    device.free(MemoryKind::Host, out).unwrap();
}

fn keeps_the_order_of_a_queue_and_between_queues(device: &RemoteDevice) {
    unsafe extern "C" fn times_ten_plus_one(context: *mut c_void) {
        // SAFETY: `context` is the counter below.
        let seen = unsafe { &*context.cast::<AtomicU64>() };
        std::thread::sleep(std::time::Duration::from_millis(20));
        seen.store(seen.load(Ordering::SeqCst) * 10 + 1, Ordering::SeqCst);
    }
    unsafe extern "C" fn times_ten_plus_two(context: *mut c_void) {
        // SAFETY: as above.
        let seen = unsafe { &*context.cast::<AtomicU64>() };
        seen.store(seen.load(Ordering::SeqCst) * 10 + 2, Ordering::SeqCst);
    }
    let seen = AtomicU64::new(0);
    let context = (&raw const seen).cast_mut().cast();
    let (one, two) = (device.create_queue().unwrap(), device.create_queue().unwrap());
    let event = device.create_event(false).unwrap();
    // SAFETY: `seen` lives until both queues are synchronised.
    let function = |call| unsafe { HostFunction::from_raw(abi::HostFunction { context, call }) };
    one.host_function(function(times_ten_plus_one)).unwrap();
    one.record_event(&event).unwrap();
    two.wait_event(&event).unwrap();
    // A dropped queue and a dropped event still finish the queued work.
    drop((one, event));
    two.host_function(function(times_ten_plus_two)).unwrap();
    two.synchronize().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 12);
}

fn reads_instrumentation(device: &RemoteDevice) {
    let lines = [
        "global __omp_rtl_device_memory_pool_tracker 32 0300000000000000600000000000000010",
        "global __llvm_prf_cnts 16",
        "kernel count = bump __llvm_prf_cnts",
    ];
    let module = load(device, &image(&lines)).unwrap();
    let queue = device.create_queue().unwrap();
    launch(&queue, &module.kernel("count").unwrap().0, &[]).unwrap();
    queue.synchronize().unwrap();
    let tracker = module.pool_tracker().unwrap().unwrap();
    assert_eq!((tracker.allocations, tracker.total_bytes, tracker.min_bytes), (3, 96, 16));
    let sections = module.profile().unwrap();
    assert_eq!(sections.len(), 1);
    assert_eq!(sections[0].kind, ProfileSectionKind::Counters);
    assert_eq!(sections[0].contents[..8], 1u64.to_le_bytes());
}

fn refuses_addresses_that_are_not_the_devices(device: &RemoteDevice) {
    let module = load(device, &image(&["kernel iota = iota"])).unwrap();
    let queue = device.create_queue().unwrap();
    let address = device.allocate(MemoryKind::Device, 16, 1).unwrap();
    let mine = [0u32; 4];
    let iota = module.kernel("iota").unwrap().0;
    for (out, count) in [(mine.as_ptr() as u64, 4u64), (address, 5), (address, u64::MAX / 2)] {
        launch(&queue, &iota, &[&out.to_le_bytes(), &count.to_le_bytes()]).unwrap();
        assert_eq!(queue.synchronize().unwrap_err().code(), ErrorCode::BackendFailure);
        queue.synchronize().unwrap();
    }
    assert_eq!(mine, [0; 4]);
    device.free(MemoryKind::Device, address).unwrap();
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let sample = Sample::build(&[]);
    let platform = sample.platform();
    let device = platform.open(0).unwrap();
    let whole = image(&["global g 8", "kernel k = bump g", "constructor 1 set g 7"]);
    assert!(load(&device, &whole).is_ok());
    for end in 0..whole.len() {
        let code = load(&device, &whole[..end]).err().map(|error| error.code());
        assert_eq!(code, Some(ErrorCode::InvalidBinary), "cut at {end}");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let code = load(&device, &damaged).err().map(|error| error.code());
        assert_eq!(code, Some(ErrorCode::InvalidBinary), "bit {bit} flipped");
    }
    let undefined = load(&device, &image(&["kernel k = bump nowhere"])).err().unwrap();
    assert_eq!(undefined.code(), ErrorCode::LinkFailure, "{undefined}");
    assert!(matches!(device.accepts(b"\x7fELF").unwrap(), Acceptance::Refused(_)));
}

#[test]
fn devices_of_one_plugin_are_distinguished() {
    let sample = Sample::build(&[]);
    let platform = sample.platform();
    assert_eq!(platform.device_count(), 2);
    let (a, b) = (platform.open(0).unwrap(), platform.open(1).unwrap());
    let (from, to) = (
        a.allocate(MemoryKind::Device, 8, 8).unwrap(),
        b.allocate(MemoryKind::Device, 8, 8).unwrap(),
    );
    assert_ne!(from, to);
    let queue = a.create_queue().unwrap();
    // SAFETY: `from` has 8 bytes.
    queue.fill(unsafe { Span::new(from, 8) }, b"longshor", true).unwrap();
    copy(&queue, (to, Some(&b)), (from, Some(&a)), 8);
    let mut back = [0u8; 8];
    copy(&queue, (back.as_mut_ptr() as u64, None), (to, Some(&b)), 8);
    queue.synchronize().unwrap();
    assert_eq!(&back, b"longshor");
    let (early, late) = (a.create_event(true).unwrap(), b.create_event(true).unwrap());
    assert_eq!(early.elapsed_ns(&late).unwrap_err().code(), ErrorCode::InvalidDevice);
    let module = load(&b, &image(&["kernel k = nop"])).unwrap();
    let elsewhere = launch(&queue, &module.kernel("k").unwrap().0, &[]).unwrap_err();
    assert_eq!(elsewhere.code(), ErrorCode::InvalidDevice);
    drop(module);
    a.free(MemoryKind::Device, from).unwrap();
    b.free(MemoryKind::Device, to).unwrap();
}

#[test]
fn its_note_and_its_description_say_the_same() {
    let sample = Sample::build(&[]);
    let library = std::fs::read(&sample.path).unwrap();
    let owner = library.windows(10).position(|bytes| bytes == NOTE_OWNER).unwrap();
    let bytes = u32::from_le_bytes(library[owner - 8..owner - 4].try_into().unwrap()) as usize;
    let note = Note::parse(&library[owner + 12..owner + 12 + bytes]).unwrap();
    let plugin = sample.plugin().unwrap();
    let described = plugin.description();
    assert_eq!(note.interface_major, abi::INTERFACE_MAJOR);
    assert_eq!(
        (&note.backend, &note.image_formats),
        (&described.backend, &described.image_formats)
    );
    assert_eq!(note.driver, described.driver);
    assert!(described.unloadable);
}

#[test]
fn a_plugin_with_other_tables_still_works() {
    for (define, tracked) in [("-DFEWER_TABLES", false), ("-DMORE_TABLES", true)] {
        let sample = Sample::build(&[define]);
        let platform = sample.platform();
        let device = platform.open(0).unwrap();
        let lines = ["global __omp_rtl_device_memory_pool_tracker 32"];
        let module = load(&device, &image(&lines)).unwrap();
        assert_eq!(module.pool_tracker().unwrap().is_some(), tracked, "{define}");
    }
}

#[test]
fn a_plugin_of_another_major_version_is_refused() {
    let sample = Sample::build(&["-DINTERFACE_MAJOR=2"]);
    let host = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
    let refused = Incompatible::Interface { plugin: (2, abi::INTERFACE_MINOR), host };
    assert_eq!(sample.plugin().err(), Some(refused));
}

#[test]
fn a_missing_driver_is_an_answer_with_a_reason() {
    let sample = Sample::build(&["-DNO_DRIVER"]);
    let Connected::NoDriver(reason) = sample.connect() else { panic!("connected") };
    assert!(reason.contains("libsample-driver.so.1"), "{reason}");
}

#[test]
fn the_sample_plugin_is_clean_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let run = Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .arg("--errors-for-leak-kinds=definite")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "an_image_is_loaded_run_and_unloaded", "--test-threads=1"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// A module and the image that must outlive it.
struct Loaded {
    module: RemoteModule,
    _image: Vec<u8>,
}

impl std::ops::Deref for Loaded {
    type Target = RemoteModule;

    fn deref(&self) -> &RemoteModule {
        &self.module
    }
}

fn load(device: &RemoteDevice, image: &[u8]) -> Result<Loaded> {
    let image = image.to_vec();
    // SAFETY: `Loaded` keeps the bytes in place and drops them after the module.
    let module = device.load(unsafe { ImageBytes::new(&image) }, Loading::AtOnce)?;
    Ok(Loaded { module, _image: image })
}

fn launch(queue: &RemoteQueue, kernel: &RemoteKernel, arguments: &[&[u8]]) -> Result<()> {
    let shape = LaunchShape::new([4, 1, 1], [32, 1, 1]);
    let pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr().cast()).collect();
    let sizes: Vec<_> = arguments.iter().map(|a| a.len()).collect();
    // SAFETY: arrays of as many entries, whose values live during the call.
    let arguments =
        unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), pointers.len()) };
    queue.launch(kernel, &shape, arguments)
}

fn copy(
    queue: &RemoteQueue,
    (to, to_device): (u64, Option<&RemoteDevice>),
    (from, from_device): (u64, Option<&RemoteDevice>),
    bytes: usize,
) {
    let place = |device: Option<_>| device.map_or(Place::Host, Place::Device);
    // SAFETY: the tests keep their buffers until the queue is idle.
    let (destination, source) =
        unsafe { (Span::new(to, bytes as u64), Span::new(from, bytes as u64)) };
    let (destination_place, source_place) = (place(to_device), place(from_device));
    let request = CopyRequest::new(destination, destination_place, source, source_place);
    queue.copy(&request).unwrap();
}
