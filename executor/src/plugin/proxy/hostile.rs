//! A hostile executor: arbitrary replies and callbacks cost the host errors, and no more.

use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longshore_plugin_api::{
    Acceptance, ArgumentType, Arguments, Backend, CopyRequest, Description, Device, DeviceInfo,
    Event, GlobalAddress, ImageBytes, InfoValue, KernelAttributes, LaunchShape, Loading,
    MemoryKind, Module, Place, Platform, PlatformInfo, PoolTracker, ProfileSection,
    ProfileSectionKind, Queue, Span, SymbolKind,
};

use super::{Isolated, IsolatedPlatform, Isolation, OpenOutcome, Refusal};
use crate::controller::Spawn;
use crate::plugin::interface::messages::{DeviceCall, ModuleCall, PlatformCall};
use crate::plugin::protocol::{
    CALL, Callback, Connected, POST, Request, RequestedSettings, Sections, Symbols, decode, encode,
};
use crate::rpc::{Connection, Options, Peer, Service, Transport};

/// Environment variable that makes the tests the executor; its value seeds the random numbers.
const SEED: &str = "LONGSHORE_TEST_HOSTILE_SEED";
/// Environment variable that makes the tests the executor; its value names the reply beyond its
/// bound.
const ABSURD: &str = "LONGSHORE_TEST_HOSTILE_ANSWER";

struct Hostile(AtomicU64);

impl Hostile {
    /// Returns the next pseudo-random number.
    fn draw(&self) -> u64 {
        let mut number = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    fn bytes(&self) -> Vec<u8> {
        let small = |number: u64| if number & 256 == 0 { number as u8 } else { number as u8 & 7 };
        (0..self.draw() % 40).map(|_| small(self.draw())).collect()
    }

    /// Returns arbitrary bytes; three out of four begin as a successful reply.
    fn reply(&self) -> Vec<u8> {
        let mut reply = self.bytes();
        if !self.draw().is_multiple_of(4) {
            reply.insert(0, 0);
        }
        reply
    }

    fn call_back(&self, peer: &Peer) {
        let number = || if self.draw().is_multiple_of(2) { self.draw() % 8 } else { self.draw() };
        let content = self.bytes();
        let callback = match self.draw() % 6 {
            0 => Callback::Run { function: number() },
            1 => Callback::Fetch {
                transfer: number(),
                at: number(),
                bytes: number(),
                bulk: self.draw().is_multiple_of(2).then(&number),
            },
            2 => Callback::Store {
                transfer: number(),
                at: number(),
                bytes: number(),
                content: &content,
                bulk: None,
            },
            3 => Callback::Done { transfer: number() },
            4 => Callback::Log { level: number() as u32, target: "x", message: "\0\n\u{1b}[1m" },
            _ => return drop(peer.call(CALL, &content)),
        };
        let _ = match self.draw().is_multiple_of(2) {
            true => peer.call(CALL, &encode(&callback)).map(drop),
            false => peer.post(POST, &encode(&callback)),
        };
    }
}

impl Service for Hostile {
    fn call(&self, peer: &Arc<Peer>, _: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        if let Ok(Request::Connect { .. }) = decode(argument) {
            let connected = Connected::Platform { description: description("made up"), devices: 1 };
            return Ok(encode(&Ok::<_, ()>((connected, RequestedSettings(Vec::new())))));
        }
        if let Ok(Request::Reserve { .. }) = decode(argument) {
            return Ok(encode(&Ok::<_, ()>(true)));
        }
        (0..self.draw() % 3).for_each(|_| self.call_back(peer));
        match self.draw() % 200 {
            0 => std::process::exit(3),
            1 => Err("no".to_owned()),
            _ => Ok(self.reply()),
        }
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

fn description(name: &str) -> Description<String> {
    let mut description = Description::new("").map(|_| "made up".to_owned());
    description.name = name.to_owned();
    description
}

/// A service with correct replies except one.
struct Absurd(String);

impl Absurd {
    fn is(&self, what: &str) -> bool {
        self.0 == what
    }

    fn connected(&self) -> Connected {
        let name = if self.is("description") { "x".repeat(5000) } else { "made up".to_owned() };
        let devices = if self.is("devices") { u32::MAX } else { 1 };
        match &*self.0 {
            "reason" => Connected::NoDriver("x".repeat(1 << 20)),
            "misnamed" => Connected::Misnamed("x".repeat(5000)),
            _ => Connected::Platform { description: description(&name), devices },
        }
    }
}

impl Service for Absurd {
    fn call(&self, _: &Arc<Peer>, _: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        fn encode_reply(reply: impl serde::Serialize) -> Vec<u8> {
            encode(&Ok::<_, ()>(reply))
        }
        let many = |what: &str, many: usize| if self.is(what) { many } else { 1 };
        let Ok(request) = decode(argument) else { return Err("no request".to_owned()) };
        Ok(match request {
            Request::Connect { .. } => {
                let name = "x".repeat(many("setting", 5000));
                encode_reply((self.connected(), vec![name; many("settings", 1000)]))
            }
            Request::Reserve { .. } => encode_reply(true),
            Request::Platform(PlatformCall::Info { .. }) => {
                encode_reply("x".repeat(many("info", 1 << 20)))
            }
            Request::Platform(PlatformCall::DeviceInfo { .. }) => {
                encode_reply(InfoValue::Text("x".repeat(many("device_info", 1 << 20))))
            }
            Request::Kernel { .. } => {
                let mut attributes = KernelAttributes::default();
                attributes.argument_sizes = Some(vec![8; many("kernel", 1 << 20)]);
                attributes.argument_types = vec![ArgumentType::UNKNOWN; many("types", 1 << 20)];
                attributes.private_bytes = if self.is("private") { u64::MAX } else { 0 };
                encode_reply((1_u64, attributes))
            }
            Request::Module(_, ModuleCall::Global { .. }) => {
                encode_reply(GlobalAddress::new(u64::MAX, many("global", 2) as u64 - 1))
            }
            Request::Accepts { .. } => {
                encode_reply(Acceptance::Refused("x".repeat(many("refusal", 1 << 20))))
            }
            Request::Module(_, ModuleCall::Symbols {}) => {
                let name = "x".repeat(many("symbol", 1 << 21));
                encode_reply(Symbols(vec![(name, SymbolKind::Kernel); many("symbols", 1 << 21)]))
            }
            Request::Module(_, ModuleCall::Profile {}) => {
                let address = if self.is("section") { u64::MAX } else { 0 };
                let (kind, contents) = (ProfileSectionKind::Counters, vec![0_u8; 2]);
                let section = ProfileSection::new(kind, address, contents);
                encode_reply(Sections(vec![section; many("profile", 10_000)]))
            }
            Request::Device(_, DeviceCall::OptimalGroupItems { .. }) => {
                encode_reply(if self.is("items") { 0_u32 } else { 64 })
            }
            Request::Device(_, DeviceCall::Allocate { .. }) => {
                encode_reply(if self.is("allocate") { 0_u64 } else { 4096 })
            }
            Request::Module(_, ModuleCall::PoolTracker {}) => encode_reply(None::<PoolTracker>),
            Request::Platform(PlatformCall::Open { .. })
            | Request::Load { .. }
            | Request::Device(_, DeviceCall::CreateQueue {}) => encode_reply(1_u64),
            _ => encode_reply(()),
        })
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

/// The executor's program, not a test: the tests below start it.
#[test]
#[ignore = "not a test: the other side of another test"]
fn be_the_executor() {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let service: Arc<dyn Service> = match (seed, std::env::var(ABSURD)) {
        (Some(seed), _) => Arc::new(Hostile(AtomicU64::new(seed))),
        (None, Ok(what)) => Arc::new(Absurd(what)),
        (None, Err(_)) => return,
    };
    // SAFETY: descriptor 3 is the socket of the process that has started this one; nothing else
    // uses it.
    let transport = Transport::executor(unsafe { UnixStream::from_raw_fd(3) });
    let connection = Connection::open(transport, Options::default(), service).unwrap();
    connection.wait_for_end();
}

/// Returns an executor's program, which sets this variable.
fn executor(folder: &Path, variable: &str, value: &str) -> PathBuf {
    let path = folder.join(format!("executor-{value}"));
    let tests = std::env::current_exe().unwrap();
    let name = concat!(module_path!(), "::be_the_executor");
    let name = name.split_once("::").unwrap().1;
    let script = format!(
        "#!/bin/sh\n{variable}={value} exec '{}' --ignored --exact {name} >/dev/null\n",
        tests.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn platform(executor: PathBuf, shares_memory: bool) -> Option<Box<IsolatedPlatform>> {
    let spawn = Spawn::new(executor)
        .with_shared_memory(shares_memory)
        .with_ending_limit(Duration::from_millis(50));
    match Isolation::new(spawn, "/made/up", "made up").open() {
        Ok(OpenOutcome::Platform(platform)) => Some(platform),
        _ => None,
    }
}

#[test]
fn an_executor_that_answers_anything_costs_errors_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut opened = 0;
    for seed in 1..=24_u64 {
        let executor = executor(folder.path(), SEED, &seed.to_string());
        let Some(platform) = platform(executor, !seed.is_multiple_of(3)) else { continue };
        let _ = platform.info(PlatformInfo::Name);
        for query in [DeviceInfo::Name, DeviceInfo::Type, DeviceInfo::GlobalMemSize] {
            let _ = platform.device_info(0, query);
        }
        for _ in 0..8 {
            if let Ok(device) = platform.open(0) {
                opened += 1;
                use_all::<Isolated>(&device, &|| device.link().callbacks.transfers.take_all_back());
                let _ = Device::<Isolated>::close(device);
            }
        }
    }
    assert!(opened > 24, "it refuses almost everything, so that little was tried: {opened}");
}

/// Makes every kind of call on such a platform, and returns the first error.
fn first_error<B: Backend>(platform: &B::Platform) -> longshore_plugin_api::Result<()> {
    platform.info(PlatformInfo::Name)?;
    platform.device_info(0, DeviceInfo::Name)?;
    let device = platform.open(0)?;
    device.accepts(b"an image")?;
    let address = device.allocate(MemoryKind::Device, 100, 8)?;
    // SAFETY: the image stays in place.
    let module = device.load(unsafe { ImageBytes::new(b"an image") }, Loading::AtOnce)?;
    let (kernel, _) = module.kernel("k")?;
    device.optimal_group_items(&kernel, 0)?;
    module.global("g")?;
    module.symbols()?;
    module.profile()?;
    module.unload()?;
    device.free(MemoryKind::Device, address)?;
    device.close()
}

#[test]
fn an_executor_that_reports_an_impossible_value_is_known_by_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let open = |what: &str| {
        let spawn = Spawn::new(executor(folder.path(), ABSURD, what)).with_shared_memory(false);
        match Isolation::new(spawn.with_ending_limit(Duration::from_millis(50)), "/made/up", "toy")
            .open()
        {
            Ok(OpenOutcome::Platform(platform)) => first_error::<Isolated>(&platform),
            Err(Refusal::Failed(error)) => Err(error),
            Err(other) => panic!("{what}: {other}"),
            Ok(_) => panic!("{what} is taken for a reason"),
        }
    };
    assert_eq!(open("nothing"), Ok(()));
    for (what, said) in [
        ("devices", "longshore.platform, device_count: 4294967295 devices, expected at most 1024"),
        ("description", "describe, name: 5000 bytes, expected at most 4096"),
        ("reason", "connect, reason: 1048576 bytes, expected at most 65536"),
        ("misnamed", "describe, backend: 5000 bytes, expected at most 4096"),
        (
            "settings",
            "services, settings that were asked for: more than 100 names, expected at most 100",
        ),
        ("setting", "settings that were asked for, name: 5000 bytes, expected at most 4096"),
        ("refusal", "longshore.device, accepts, reason: 1048576 bytes, expected at most 65536"),
        ("info", "longshore.platform, info Name: 1048576 bytes, expected at most 65536"),
        ("device_info", "device_info Name of device 0: 1048576 bytes, expected at most 65536"),
        ("allocate", "longshore.device, allocate: address 0, expected a nonzero address"),
        ("kernel", "kernel 'k', argument_count: more than 32768 arguments, expected at most 32768"),
        ("types", "kernel 'k', argument_count: more than 32768 arguments, expected at most 32768"),
        (
            "private",
            "private_bytes: 18446744073709551615 bytes, expected at most 9223372036854775807",
        ),
        ("items", "longshore.occupancy, optimal_group_items: 0 items, expected at least 1"),
        ("global", "global 'g': 1 bytes at 0xffffffffffffffff, expected an end within 64 bits"),
        (
            "symbols",
            "longshore.module, symbols: more than 1048576 symbols, expected at most 1048576",
        ),
        ("symbol", "longshore.module, symbols, name: 2097152 bytes, expected at most 1048576"),
        (
            "profile",
            "longshore.instrumentation, profile: more than 4096 sections, expected at most 4096",
        ),
        ("section", "section: 2 bytes at 0xffffffffffffffff, expected an end within 64 bits"),
    ] {
        let error = open(what).expect_err(what);
        assert!(error.is_breach() && error.message().starts_with("plugin 'toy': "), "{error}");
        assert!(error.message().ends_with(said), "{what}: {error}");
    }
}

/// Makes each kind of call, and checks the surrounding memory of this process.
fn use_all<B: Backend>(device: &B::Device, take_back: &dyn Fn()) {
    let image = b"an image".repeat(10);
    let _ = device.accepts(&image);
    let addresses = [MemoryKind::Device, MemoryKind::Host, MemoryKind::Managed]
        .map(|kind| device.allocate(kind, 100, 8).ok().map(|address| (kind, address)));
    for (kind, address) in addresses.into_iter().flatten() {
        if kind != MemoryKind::Device {
            // SAFETY: memory of both processes, until it is freed.
            unsafe { std::ptr::write_bytes(address as *mut u8, 7, 100) };
        }
    }
    // SAFETY: the image stays in place.
    let module = device.load(unsafe { ImageBytes::new(&image) }, Loading::AtOnce);
    let queue = device.create_queue();
    if let Ok(module) = &module {
        let _ = (module.symbols(), module.global("global"), module.run_constructors());
        let _ = (module.pool_tracker(), module.profile());
    }
    if let (Ok(module), Ok(queue)) = (&module, &queue) {
        let shape = LaunchShape::new([1; 3], [1; 3]);
        // SAFETY: the list is empty, so the pointers are not read.
        let arguments = || unsafe { Arguments::from_raw(std::ptr::null(), std::ptr::null(), 0) };
        if let Ok((kernel, _)) = module.kernel("kernel") {
            for wait in [false, false, true] {
                let _ = queue.launch(&kernel, &shape.with_wait(wait), arguments());
            }
        }
    }
    if let Ok(queue) = &queue {
        for (bytes, wait) in [(24, true), (3000, true), (5 << 20, true), (3000, false)] {
            copy::<B>(device, queue, take_back, bytes, wait);
        }
        if let Ok(event) = device.create_event(true) {
            let _ = (queue.record_event(&event), queue.wait_event(&event), event.is_complete());
            let _ = event.synchronize();
        }
        let _ = (queue.is_idle(), queue.synchronize());
    }
    if let Ok(module) = module {
        let _ = (module.run_destructors(), module.unload());
    }
    for (kind, address) in addresses.into_iter().flatten() {
        let _ = device.free(kind, address);
    }
}

/// Copies into the middle of memory of this process, and out of it.
fn copy<B: Backend>(
    device: &B::Device,
    queue: &B::Queue,
    take_back: &dyn Fn(),
    bytes: usize,
    wait: bool,
) {
    const AROUND: usize = 64;
    let mut memory = vec![9_u8; bytes + 2 * AROUND];
    let here = memory.as_mut_ptr().wrapping_add(AROUND) as u64;
    for to_device in [false, true] {
        // SAFETY: both ranges are valid until the queue is done with them, or its process is gone.
        let (here, there) =
            unsafe { (Span::new(here, bytes as u64), Span::new(0x10_0000, bytes as u64)) };
        let ends = [(there, Place::Device(device)), (here, Place::Host)];
        let [destination, source] = ends;
        let (destination, source) =
            if to_device { (destination, source) } else { (source, destination) };
        let _ = queue.copy(
            &CopyRequest::new(destination.0, destination.1, source.0, source.1).with_wait(wait),
        );
    }
    if !wait {
        // After this no other thread touches the memory.
        take_back();
    }
    assert!(memory[..AROUND].iter().chain(&memory[bytes + AROUND..]).all(|byte| *byte == 9));
}
