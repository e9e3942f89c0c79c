//! The sandbox of isolated plugins, tested with each attempt to leave it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use longshore::{Environment, Host, IsolateLimits, IsolateSandbox, Outcome};
use longshore_tests::world::{World, copy_into, executor, host_plugin, root};

use crate::isolation::permitted::has_namespaces;
use crate::isolation::support::round;

/// Attempts at actions that drivers and kernels need, which succeed in the sandbox.
const NEEDED: [&str; 10] = [
    "own_thread",
    "own_thread_name",
    "own_dumps",
    "own_signal",
    "own_limit",
    "own_file",
    "own_name",
    "pair",
    "device",
    "facts_of_the_system",
];
/// Attempts that only Landlock refuses to root.
const FILES: [&str; 5] =
    ["kernel_setting", "kernel_setting_elsewhere", "kill_preference", "kernel_log_file", "disk"];
const MEMORY: [&str; 7] = [
    "read_memory",
    "write_memory",
    "read_environment",
    "read_maps",
    "open_descriptor",
    "memory_of_parent",
    "memory_of_parents_parent",
];
/// Attempts that only a namespace of process IDs refuses.
const NUMBERS: [&str; 7] = [
    "affinity_of_other",
    "priority_of_other",
    "scheduler_of_other",
    "session_of_other",
    "group_of_other",
    "descriptor_of_other",
    "number_of_system",
];
/// Attempts that namespaces refuse, also without a filter of system calls.
const APART: [&str; 19] = [
    "compare",
    "trace",
    "read_by_call",
    "write_by_call",
    "take_descriptor",
    "send_signal",
    "send_signal_to_thread",
    "send_signal_by_thread",
    "send_signal_by_descriptor",
    "send_signal_with_value",
    "send_signal_to_thread_with_value",
    "send_signal_to_all",
    "send_signal_to_group_of_parent",
    "limit_other",
    "affinity",
    "scheduler",
    "io_priority",
    "move_memory",
    "segment_of_other",
];

/// The targets of the attempts, which end when this is dropped.
struct Aims {
    world: World,
    victim: Child,
    tcp: TcpListener,
    abstract_name: String,
    segment: i32,
    _sockets: (UnixListener, UnixDatagram, UnixListener),
}

impl Aims {
    fn new() -> Self {
        let world = World::new();
        let attempts = fixture("attempts.c");
        let flags = ["-Dlongshore_plugin=sample_plugin", attempts.to_str().unwrap()];
        world.add_sample("attempts", &flags);
        let victim = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let abstract_name = format!("longshore-attempts-{}", victim.id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets = (
            UnixListener::bind(world.path().join("stream")).unwrap(),
            UnixDatagram::bind(world.path().join("datagram")).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        );
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: the call creates a segment that is not mapped.
        let segment = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
        Self { world, victim, tcp, abstract_name, segment, _sockets: sockets }
    }

    fn environment(&self) -> Environment {
        let set = |all: Environment, (name, value): (&str, String)| {
            all.with(format!("LONGSHORE_ATTEMPTS_{name}"), value)
        };
        let settings = [
            ("VICTIM", self.victim.id().to_string()),
            ("ADDRESS", self.writable_address().to_string()),
            ("FOLDER", self.world.path().to_str().unwrap().to_owned()),
            ("ABSTRACT", self.abstract_name.clone()),
            ("SEGMENT", self.segment.to_string()),
            ("PORT", self.tcp.local_addr().unwrap().port().to_string()),
        ];
        settings.into_iter().fold(Environment::empty(), set)
    }

    /// Returns an unused address in the victim's stack.
    fn writable_address(&self) -> u64 {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.victim.id())).unwrap();
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        u64::from_str_radix(stack.split('-').next().unwrap(), 16).unwrap()
    }

    /// Returns the result of each attempt: 0, or the number of its error.
    fn tried(
        &self,
        sandbox: IsolateSandbox,
        executor: &Path,
    ) -> Result<BTreeMap<String, i32>, String> {
        let builder =
            self.world.host().with_environment(self.environment()).with_isolated_backends("all");
        let host = builder.with_executor(executor).with_isolate_sandbox(sandbox).build().unwrap();
        let Outcome::NoDriver(results) = &host.candidates()[0].outcome else {
            return Err(host.candidates()[0].to_string());
        };
        let line = |line: &str| {
            let (name, error) = line.split_once(' ').unwrap();
            (name.to_owned(), error.parse().unwrap())
        };
        Ok(results.lines().map(line).collect())
    }
}

impl Drop for Aims {
    fn drop(&mut self) {
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
        // SAFETY: the segment belongs to this test.
        unsafe { libc::shmctl(self.segment, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/sandbox").join(name)
}

/// Returns an executor that runs as on a kernel without Landlock.
fn without_landlock(world: &World, flags: &[&str]) -> PathBuf {
    let path = world.path().join("executor");
    let mut compile = Command::new("cc");
    compile.arg(format!("-DEXECUTOR=\"{}\"", executor().display())).args(flags);
    compile.arg(fixture("without_landlock.c")).arg("-o").arg(&path);
    assert!(compile.status().unwrap().success());
    path
}

fn has_landlock() -> bool {
    // SAFETY: the call only returns the version; it gets no memory.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) > 0 }
}

#[test]
fn each_attempt_to_leave_the_sandbox_is_refused() {
    let aims = Aims::new();
    let open = aims.tried(IsolateSandbox::Off, &executor()).unwrap();
    let boxed = aims.tried(IsolateSandbox::Available, &executor()).unwrap();
    assert!(open.len() > 100 && open.len() == boxed.len(), "{open:?}");
    let has_namespaces = has_namespaces();
    let (mut escaped, mut unshown) = (Vec::new(), Vec::new());
    for (name, error) in &open {
        let in_sandbox = boxed[name];
        if NEEDED.contains(&name.as_str()) {
            assert_eq!((*error, in_sandbox), (0, 0), "'{name}' is needed");
        } else if *error != 0 {
            unshown.push(name.as_str());
        }
        let is_held = (has_landlock() || !FILES.contains(&name.as_str()))
            && (has_namespaces || !NUMBERS.contains(&name.as_str()));
        if in_sandbox == 0 && is_held && !NEEDED.contains(&name.as_str()) {
            escaped.push(name.as_str());
        }
    }
    assert!(escaped.is_empty(), "these succeed in the sandbox: {escaped:?}");
    if !unshown.is_empty() {
        println!("this machine refuses these without a sandbox, too: {unshown:?}");
    }
    for always in [
        "send_signal",
        "limit_other",
        "priority",
        "affinity",
        "program",
        "outlive_program",
        "unix_stream",
    ] {
        assert_eq!(open[always], 0, "'{always}' is permitted without a sandbox");
    }
}

#[test]
fn a_sandbox_that_the_kernel_cannot_hold_is_refused_where_it_is_required() {
    let aims = Aims::new();
    let executor = without_landlock(&aims.world, &[]);
    let boxed = aims.tried(IsolateSandbox::Available, &executor).unwrap();
    let open = aims.tried(IsolateSandbox::Off, &executor).unwrap();
    for name in MEMORY {
        assert!(boxed[name] != 0, "'{name}' succeeds in a user namespace");
    }
    for name in FILES {
        assert!(boxed[name] == 0 || open[name] != 0, "nothing holds '{name}' here");
    }
    let refused = aims.tried(IsolateSandbox::Required, &executor).unwrap_err();
    assert!(refused.contains("Landlock"), "{refused}");
    let executor = without_landlock(&aims.world, &["-DWITHOUT_NAMESPACES"]);
    let boxed = aims.tried(IsolateSandbox::Available, &executor).unwrap();
    assert!(
        boxed.iter().all(|(name, error)| {
            let is_known =
                [&MEMORY[..], &FILES, &NEEDED, &NUMBERS].concat().contains(&name.as_str());
            is_known || *error != 0
        }),
        "{boxed:?}"
    );
}

#[test]
fn namespaces_keep_it_from_other_processes_where_nothing_else_does() {
    if !has_namespaces() {
        println!("this system permits no namespaces; nothing was tried");
        return;
    }
    let aims = Aims::new();
    let executor = without_landlock(&aims.world, &["-DWITHOUT_FILTER"]);
    let open = aims.tried(IsolateSandbox::Off, &executor).unwrap();
    let apart = aims.tried(IsolateSandbox::Available, &executor).unwrap();
    assert_eq!(apart["program"], 0, "there is no filter");
    for name in [&MEMORY[..], &NUMBERS, &APART].concat() {
        assert_eq!(open[name], 0, "'{name}' is permitted without a sandbox");
        assert_ne!(apart[name], 0, "'{name}' is permitted in namespaces");
    }
}

#[test]
fn a_sandbox_without_a_namespace_of_numbers_keeps_it_from_the_memory_of_others() {
    let aims = Aims::new();
    let executor = without_landlock(&aims.world, &["-DWITHOUT_NUMBERS"]);
    let boxed = aims.tried(IsolateSandbox::Available, &executor).unwrap();
    if has_namespaces() {
        assert!(MEMORY.iter().all(|name| boxed[*name] != 0), "{boxed:?}");
    }
    assert!(NUMBERS.iter().all(|name| boxed[*name] == 0), "{boxed:?}");
}

#[test]
fn a_whole_sandbox_is_there_where_the_kernel_has_landlock() {
    if has_landlock() {
        Aims::new().tried(IsolateSandbox::Required, &executor()).unwrap();
    }
}

#[test]
fn the_cpu_does_its_work_in_the_sandbox() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    for is_bare in [false, true] {
        let builder = world.host().with_isolated_backends("all").with_executor(executor());
        let builder = builder.with_isolate_sandbox(IsolateSandbox::Available);
        let builder = if is_bare { builder.with_isolate_shared_memory(false) } else { builder };
        let host: Host = builder.build().unwrap();
        let device = host.default_device().unwrap();
        round(&device).unwrap();
        device.close().unwrap();
    }
}

#[test]
fn limits_of_the_process_are_the_requested_ones() {
    let world = World::new();
    let plugin = copy_into(&world, &host_plugin());
    let limits = IsolateLimits::default().with_open_files(77);
    let environment = Environment::empty().with("LONGSHORE_ISOLATE_LIMITS", "memory=1GiB,time=90");
    let builder = world
        .host()
        .with_environment(environment)
        .with_isolated_backends("all")
        .with_executor(executor());
    let host = builder.with_isolate_limits(limits).build().unwrap();
    let process = crate::isolation::support::process_of(&host, &plugin);
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(limit("Max open files"), 77);
    assert_eq!(limit("Max data size"), 1 << 30);
    assert_eq!(limit("Max cpu time"), 90);
    round(&host.default_device().unwrap()).unwrap();
}
