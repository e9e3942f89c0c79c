//! A plugin with all answers drawn from given bytes and a seed, and a walk through all calls of the
//! library. For the tests and for fuzzing.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use longshore::{
    ArgumentType, Device, DeviceInfo, Environment, Grid, Host, HostBuilder, Image, LoadOptions,
    MemoryKind, Outcome, PlatformInfo, PrefetchTarget, Program, Queue, RawArguments,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The plugin, built and opened.
pub(crate) struct Seeded {
    folder: TempDir,
    answers: unsafe extern "C" fn(*const u8, usize, u64),
}

impl Seeded {
    /// Builds the plugin in a folder of its own.
    pub(crate) fn new() -> Seeded {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("liblongshore_plugin_seeded.so");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // `here` is the folder of the crate itself, or of its fuzz targets.
        let root = here.ancestors().find(|folder| folder.join("plugin-api").exists()).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-I"]);
        compiler.arg(root.join("plugin-api/include")).arg("-o").arg(&path);
        assert!(
            compiler
                .arg(root.join("host/tests/hostile/seeded/plugin.c"))
                .status()
                .unwrap()
                .success()
        );
        // SAFETY: the plugin was just built from the source beside this file, has no initialisers,
        // and stays open.
        let answers = unsafe {
            let library = Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL).unwrap();
            let answers = *library.get(b"seeded_answers\0").unwrap();
            std::mem::forget(library);
            answers
        };
        Seeded { folder, answers }
    }

    /// Walks through all calls, with the plugin in this process and its answers from these bytes
    /// and this seed.
    pub(crate) fn walk(&self, bytes: &[u8], seed: u64) -> Walked {
        // SAFETY: the bytes outlive the walk, and no other walk of this plugin runs.
        unsafe { (self.answers)(bytes.as_ptr(), bytes.len(), seed) };
        let walked = walk(self.host(seed), self.folder.path());
        // SAFETY: as above.
        unsafe { (self.answers)(std::ptr::null(), 0, seed) };
        walked
    }

    /// Returns a builder of a host without other plugins. It tracks memory for some seeds. An
    /// isolated plugin takes the seed from its settings.
    pub(crate) fn host(&self, seed: u64) -> HostBuilder {
        let profile = self.folder.path().join("profile_%p.profraw");
        let environment = Environment::empty()
            .with("LONGSHORE_SEEDED_SEED", seed.to_string())
            .with("LONGSHORE_PROFILE_FILE", profile);
        let host = Host::builder().with_environment(environment).with_only_given_plugins();
        host.with_plugin(self.path())
            .with_tracking(seed % 16 == 1)
            .with_cache_limit((seed % 3) << 20)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("liblongshore_plugin_seeded.so")
    }
}

/// Counts of the calls that succeeded in a walk, and of its errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) devices: usize,
    pub(crate) kernels: usize,
    pub(crate) launches: usize,
    pub(crate) unloads: usize,
    /// Number of answers beyond a bound.
    pub(crate) breaches: usize,
    /// Number of errors from a plugin's process that has ended.
    pub(crate) losses: usize,
}

impl Walked {
    /// Returns the value of a success. Counts breaches and losses among errors, which do not end
    /// the walk.
    fn some<T>(&mut self, result: longshore::Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let shown = format!("{error} {error:?}");
        assert!(shown.len() < 1 << 18, "{} bytes of an error", shown.len());
        self.breaches += usize::from(error.is_breach());
        self.losses += usize::from(error.message().contains("is gone: "));
        None
    }
}

/// Walks through all calls of the library.
pub(crate) fn walk(builder: HostBuilder, folder: &Path) -> Walked {
    let mut walked = Walked::default();
    let Some(host) = walked.some(builder.build()) else { return walked };
    for candidate in host.candidates() {
        let _ = (candidate.to_string(), candidate.outcome.reason());
        walked.breaches += usize::from(candidate.outcome.reason().contains(", expected "));
        walked.losses += usize::from(matches!(candidate.outcome, Outcome::Crashed(_)));
    }
    for entry in host.devices().iter().take(4) {
        let _ = (entry.name(), entry.plugin().clone());
        for &query in PlatformInfo::ALL {
            walked.some(entry.platform_info(query));
        }
        for query in DeviceInfo::ALL {
            walked.some(entry.info(*query));
        }
        let Some(device) = walked.some(entry.open()) else { continue };
        walked.devices += 1;
        device_calls(&mut walked, &host, &device);
        let _ = (host.memory_report().to_string(), device.memory_report().timeline.len());
        if let Some(closed) = walked.some(device.close()) {
            let _ = format!("{:?} {:?}", closed.tracker, closed.leaks.len());
        }
    }
    walked.some(host.device_for(&Image::from(&b"an image"[..])));
    drop(host);
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        if file.file_name().to_str().is_some_and(|name| name.starts_with("profile_")) {
            let _ = std::fs::remove_file(file.path());
        }
    }
    walked
}

fn device_calls(walked: &mut Walked, host: &Host, device: &Device) {
    for image in [&b"an image"[..], b"", b"\x7fELF"] {
        walked.some(device.accepts(image));
        walked.some(device.suits(image));
        walked.some(device.load_verified(image));
    }
    for peer in host.devices().iter().take(2).filter_map(|peer| peer.open().ok()) {
        walked.some(device.can_access(&peer));
        walked.some(device.enable_access(&peer));
    }
    walked.some(device.driver_device());
    walked.some(device.driver_context());
    walked.some(device.code_target());
    let queues = [(); 2].map(|()| walked.some(device.queue()));
    let Some(queue) = queues.iter().flatten().next() else { return };
    let other = queues.iter().flatten().next_back().unwrap_or(queue);
    walked.some(queue.driver_stream());
    memory_calls(walked, host, device, queue);
    let mut word = 0u64;
    let at = (&raw mut word).cast();
    // SAFETY: the plugin accesses no memory of the program.
    unsafe {
        walked.some(device.pin(at, 8));
        walked.some(device.unpin(at));
    }
    // SAFETY: the plugin runs no code of the image.
    let programs = unsafe {
        [
            walked.some(device.load(&b"an image"[..])),
            walked.some(
                device.load_with(&b"another"[..], &LoadOptions::new().with_lazy_linking(true)),
            ),
        ]
    };
    for program in programs.into_iter().flatten() {
        program_calls(walked, device, &program, queue);
        walked.some(program.synchronize());
        if let Some(report) = walked.some(program.unload()) {
            walked.unloads += 1;
            walked.some(report.counters());
        }
    }
    event_calls(walked, queue, other);
    for queue in [queue, other] {
        walked.some(queue.host_function(|| {}));
        walked.some(queue.is_idle());
        walked.some(queue.synchronize());
        walked.some(queue.synchronize_for(Duration::ZERO));
    }
    walked.some(device.trim());
    let _ = (device.cached_bytes(), device.pool_totals());
}

fn memory_calls(walked: &mut Walked, host: &Host, device: &Device, queue: &Queue) {
    let kinds = [MemoryKind::Host, MemoryKind::Device, MemoryKind::Managed];
    let sizes = [(1, 1), (100, 8), (1 << 20, 256), (1 << 40, 1 << 16), (1 << 62, 1 << 62)];
    let mut kept = Vec::new();
    for (kind, (bytes, alignment)) in
        kinds.into_iter().flat_map(|kind| sizes.map(|size| (kind, size)))
    {
        let Some(allocation) = walked.some(device.allocate(kind, bytes, alignment)) else {
            continue;
        };
        let pointer = allocation.pointer();
        assert!(pointer.address() != 0 && pointer.address().checked_add(bytes).is_some());
        walked.some(host.allocation_at(pointer.offset(bytes as i64 / 2)));
        walked.some(queue.prefetch(pointer, bytes, PrefetchTarget::Host));
        // SAFETY: the plugin accesses no memory of the program.
        unsafe {
            walked.some(queue.fill(pointer, &[0], bytes));
            walked.some(queue.copy(pointer, pointer, bytes));
        }
        if bytes == 100 {
            walked.some(device.info(DeviceInfo::FreeMemory));
            kept.push(allocation.into_raw());
        }
    }
    if let Some(buffer) = walked.some(device.buffer_of(queue, &[1u32, 2, 3])) {
        walked.some(buffer.to_vec(queue));
        walked.some(buffer.fill(queue, 7));
    }
    if let Some(buffer) = walked.some(device.buffer::<u64>(queue, 100)) {
        walked.some(buffer.to_vec(queue));
    }
    // The first allocation stays live, as a leak.
    for pointer in kept.into_iter().skip(1) {
        // SAFETY: no work uses the memory.
        walked.some(unsafe { host.free(pointer) });
    }
}

fn program_calls(walked: &mut Walked, device: &Device, program: &Program, queue: &Queue) {
    if let Some(symbols) = walked.some(program.symbols()) {
        assert!(symbols.len() <= longshore_plugin_api::bounds::SYMBOLS);
    }
    for name in ["global", "counter", ""] {
        let Some(global) = walked.some(program.global(name)) else { continue };
        let _ = (global.pointer(), global.bytes());
        walked.some(global.read::<u64>(queue));
        walked.some(global.write(queue, 7u64));
    }
    for name in ["kernel", "k", "\u{1b}[2J"] {
        let Some(kernel) = walked.some(program.kernel(name)) else { continue };
        walked.kernels += 1;
        let attributes = kernel.attributes().clone();
        let sizes = attributes.argument_sizes.unwrap_or_default();
        assert!(sizes.len() <= longshore_plugin_api::bounds::ARGUMENTS);
        walked.some(device.optimal_group_items(&kernel, 0));
        walked.some(device.max_cooperative_groups(&kernel, [8, 1, 1], 0));
        let value = [0u8; 64];
        let sizes: Vec<usize> = sizes.iter().map(|bytes| *bytes as usize % 65).collect();
        let pointers: Vec<_> = sizes.iter().map(|_| value.as_ptr().cast()).collect();
        let types = vec![ArgumentType::UNKNOWN; sizes.len()];
        let required = attributes.required_group.map(|items| items.max(1));
        for items in [[1; 3], required, [u32::MAX; 3]] {
            let grid = Grid::new([4, 2, 1], items);
            for grid in [grid, grid.with_cooperative(true), grid.with_clusters([2, 1, 1])] {
                // SAFETY: the plugin runs no kernel, and reads no arguments.
                let launched = unsafe {
                    let arguments = RawArguments::new(&pointers, &sizes).unwrap();
                    queue.launch(&kernel, grid, arguments.with_types(&types).unwrap())
                };
                walked.launches += usize::from(walked.some(launched).is_some());
                // SAFETY: as above.
                walked.some(unsafe { queue.launch_and_wait(&kernel, grid, (1u32, 2f32)) });
            }
        }
    }
}

fn event_calls(walked: &mut Walked, queue: &Queue, other: &Queue) {
    let (Some(start), Some(end)) = (walked.some(queue.record_timed()), walked.some(other.record()))
    else {
        return;
    };
    walked.some(other.wait_for(&start));
    walked.some(start.is_complete());
    walked.some(start.synchronize());
    walked.some(end.synchronize_for(Duration::ZERO));
    walked.some(start.elapsed_ns(&end));
}
