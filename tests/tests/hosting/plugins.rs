//! Outcomes of plugin files: each kind of file in a plugin folder gets its own outcome and reason,
//! and never disables the others.

use longshore::{Candidate, ErrorCode, Host, HostBuilder, Outcome, Probe, Region};
use longshore_plugin_api::abi;
use longshore_tests::world::{
    Tampering, World, check_command, command, copy_into, host_plugin, root,
};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// Returns the candidate for the file of a backend.
fn candidate_of<'a>(host: &'a Host, backend: &str) -> &'a Candidate {
    let found = host.candidates().iter().find(|candidate| candidate.backend == backend);
    found.unwrap_or_else(|| panic!("no candidate for {backend}: {:?}", host.candidates()))
}

/// Asserts that a candidate failed as expected, and that the CPU's plugin works beside it.
fn refused_beside_the_host(
    world: &World,
    backend: &str,
    check: impl Fn(&Outcome) -> bool,
) -> String {
    copy_into(world, &host_plugin());
    let host = world.host().build().expect("one bad plugin does not stop the others");
    assert_eq!(candidate_of(&host, "host").outcome, Outcome::Loaded);
    let candidate = candidate_of(&host, backend);
    assert!(check(&candidate.outcome), "{candidate}");
    assert!(host.default_device().is_ok());
    candidate.outcome.reason()
}

#[test]
fn a_file_that_is_no_library_says_so() {
    let world = World::new();
    world.add_file("junk", b"not an ELF file at all");
    refused_beside_the_host(&world, "junk", |outcome| matches!(outcome, Outcome::NotALibrary(..)));
}

#[test]
fn a_library_that_is_no_plugin_says_so() {
    let world = World::new();
    world.add_other_library("other");
    refused_beside_the_host(&world, "other", |outcome| matches!(outcome, Outcome::NotAPlugin(..)));
}

#[test]
fn a_plugin_of_another_interface_is_refused_with_both_versions() {
    let world = World::new();
    world.add_sample("future", &["-DINTERFACE_MAJOR=2"]);
    let reason = refused_beside_the_host(&world, "future", |outcome| {
        matches!(outcome, Outcome::WrongInterface { .. })
    });
    let (major, minor) = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
    let said = format!("interface 2.{minor}, this host has {major}.{minor}");
    assert!(reason.contains(&said), "{reason}");
}

#[test]
fn a_plugin_that_panics_in_connect_is_an_error_that_says_so() {
    let world = World::new();
    world.add_rust("panics", "panic!(\"on purpose\")", None);
    let reason =
        refused_beside_the_host(&world, "panics", |outcome| matches!(outcome, Outcome::Failed(..)));
    assert!(reason.contains("panics") && reason.contains("connect"), "{reason}");
    assert!(reason.contains("on purpose"), "{reason}");
}

#[test]
fn a_plugin_that_aborts_in_connect_costs_only_the_probe() {
    let world = World::new();
    world.add_sample("aborts", &["-DABORT_IN_CONNECT"]);
    copy_into(&world, &host_plugin());
    let probe = Probe::new(command());
    let host = world.host().with_probe(probe).build().unwrap();
    assert_eq!(candidate_of(&host, "host").outcome, Outcome::Loaded);
    let candidate = candidate_of(&host, "aborts");
    assert!(matches!(candidate.outcome, Outcome::Crashed(..)), "{candidate}");
    assert!(candidate.outcome.reason().contains("SIGABRT"), "{candidate}");
}

#[test]
fn a_plugin_without_its_driver_is_no_fault() {
    let world = World::new();
    world.add_sample("lonely", &["-DNO_DRIVER"]);
    refused_beside_the_host(&world, "lonely", |outcome| {
        matches!(outcome, Outcome::NoDriver(..)) && !outcome.is_fault()
    });
}

#[test]
fn the_first_plugin_of_a_backend_wins_and_the_second_is_shadowed() {
    let (first, second) = (World::new(), World::new());
    let winner = copy_into(&first, &host_plugin());
    copy_into(&second, &host_plugin());
    let host = first.host().with_plugin(second.path()).build().unwrap();
    let outcomes: Vec<_> = host.candidates().iter().map(|c| &c.outcome).collect();
    assert_eq!(outcomes[0], &Outcome::Loaded);
    assert!(matches!(outcomes[1], Outcome::Shadowed { .. }), "{:?}", outcomes[1]);
    assert!(outcomes[1].reason().contains(&winner.display().to_string()));
    assert_eq!(host.devices().len(), 1);
}

#[test]
fn a_world_writable_plugin_is_refused_with_the_remedy() {
    let world = World::new();
    let plugin = world.add_sample("loose", &[]);
    std::fs::set_permissions(plugin, PermissionsExt::from_mode(0o777)).unwrap();
    let reason =
        refused_beside_the_host(&world, "loose", |outcome| matches!(outcome, Outcome::Refused(..)));
    assert!(reason.contains("chmod"), "{reason}");
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    if chown(world.path(), Some(65_534), None).is_err() {
        println!("only root can give a folder away; nothing was tried");
        return;
    }
    let host = world.host().build().unwrap();
    assert!(
        matches!(candidate_of(&host, "host").outcome, Outcome::Refused(..)),
        "{}",
        candidate_of(&host, "host")
    );
    chown(world.path(), Some(0), None).unwrap();
}

#[test]
fn a_plugin_that_knows_fewer_tables_works_without_them() {
    let world = World::new();
    world.add_sample("fewer", &["-DFEWER_TABLES"]);
    let device = world.host().build().unwrap().default_device().unwrap();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &[1u32, 2, 3]).unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [1, 2, 3]);
    let error = device.can_access(&device).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.message().contains("longshore.peer"), "{error}");
}

#[test]
fn rectangles_between_two_plugins_keep_every_byte_and_need_little_memory() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    world.add_sample("other", &[]);
    let host = world.host().build().unwrap();
    let [first, second] = ["host:0", "other:0"].map(|name| host.device(name).unwrap());
    let queue = first.queue().unwrap();
    // Rows beside rows, rows with gaps, and rows of more than the memory between the platforms.
    for (array, extent) in [
        ([40 << 20, 1, 1], [40 << 20, 1, 1]),
        ([900, 500, 3], [800, 400, 3]),
        ([18 << 20, 2, 1], [17 << 20, 2, 1]),
    ] {
        let region = Region::new(array).part([0, 0, 0], extent);
        let block: Vec<u8> = (0..251).collect();
        let mut values = block.repeat(array.iter().product::<usize>() / 251 + 1);
        values.truncate(array.iter().product());
        let from = first.buffer_of(&queue, &values).unwrap();
        let other_queue = second.queue().unwrap();
        let to = second.buffer_of(&other_queue, &vec![0u8; values.len()]).unwrap();
        // The process's most memory is counted anew from here.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = most_memory();
        to.as_slice().copy_region_from(&queue, region, from.as_slice(), region).unwrap();
        let more = most_memory() - before;
        assert!(more < 24 << 20, "{more} bytes for {array:?}");
        let found = to.to_vec(&other_queue).unwrap();
        let rows = found.chunks(array[0]).zip(values.chunks(array[0])).enumerate();
        for (row, (found, given)) in rows {
            let inside = if row % array[1] < extent[1] { extent[0] } else { 0 };
            assert!(found[..inside] == given[..inside], "row {row} of {array:?}");
            assert!(found[inside..].iter().all(|byte| *byte == 0), "row {row} of {array:?}");
        }
    }
}

/// Returns the most memory that the process has had, in bytes.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_plugin_that_knows_more_tables_works() {
    let world = World::new();
    world.add_sample("more", &["-DMORE_TABLES"]);
    let device = world.host().build().unwrap().default_device().unwrap();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &[7u8; 100]).unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [7; 100]);
}

#[test]
fn a_plugin_built_with_an_earlier_header_of_this_interface_works() {
    let world = World::new();
    let versions = std::fs::read_dir(root().join("plugin-api/abi")).unwrap();
    for version in versions.map(|entry| entry.unwrap().path()) {
        world.add_sample_with_header("kept", &version, &[]);
        let device = world.host().build().unwrap().default_device().unwrap();
        let queue = device.queue().unwrap();
        let buffer = device.buffer_of(&queue, &[7u8; 100]).unwrap();
        assert_eq!(buffer.to_vec(&queue).unwrap(), [7; 100], "{}", version.display());
    }
}

#[test]
fn a_table_with_two_functions_exchanged_is_refused_with_the_difference() {
    let reason = tampered(
        "bent",
        &Tampering {
            file: "src/interface.rs",
            replacements: &[
                (
                    "        /// Blocks until the event is complete.",
                    "        #[end]\n        fn destroy(self) -> Result<()>;\n\n        /// Blocks.",
                ),
                (
                    "        /// Ends the event without waiting. Queues that wait for it still see \
                     its record.\n        #[end]\n        fn destroy(self) -> Result<()>;\n",
                    "",
                ),
            ],
        },
    );
    assert!(reason.contains("longshore.event"), "{reason}");
    assert!(reason.contains("synchronize") && reason.contains("destroy"), "{reason}");
}

#[test]
fn a_value_with_a_field_of_another_size_is_refused_with_the_difference() {
    let reason = tampered(
        "warped",
        &Tampering {
            file: "src/abi/values.rs",
            replacements: &[("    pub reserved: u32,", "    pub reserved: u64,")],
        },
    );
    assert!(reason.contains("ErrorObject"), "{reason}");
    assert!(reason.contains("u32") && reason.contains("u64"), "{reason}");
}

fn tampered(backend: &str, tampering: &Tampering) -> String {
    let world = World::new();
    world.add_rust(backend, "Ok(Connected::Platform(Toy))", Some(tampering));
    refused_beside_the_host(&world, backend, |outcome| matches!(outcome, Outcome::WrongLayout(..)))
}

#[test]
fn a_backend_that_is_not_wanted_is_never_opened() {
    let world = World::new();
    world.add_sample("aborts", &["-DABORT_IN_CONNECT"]);
    copy_into(&world, &host_plugin());
    let host = world.host().with_backends("host").build().unwrap();
    assert!(matches!(candidate_of(&host, "aborts").outcome, Outcome::RuledOut(..)));
}

#[test]
fn a_missing_backend_is_an_error_that_names_the_others() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let error = world.host().with_backends("nosuch").build().err().unwrap();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(error.message().contains("nosuch") && error.message().contains("host"), "{error}");
}

#[test]
fn an_unloadable_plugin_leaves_the_process_with_its_host() {
    let world = World::new();
    let plugin = world.add_sample("leaving", &[]);
    let device = world.host().build().unwrap().default_device().unwrap();
    assert!(is_mapped(&plugin));
    drop(device);
    assert!(!is_mapped(&plugin));
}

fn is_mapped(file: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(&file.display().to_string())
}

#[test]
fn the_suite_checks_no_other_device_for_a_plugin_that_is_not_there() {
    let mut suite = std::process::Command::new(check_command());
    let output = suite.args(["--plugin", "nosuch.so"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no such plugin: 'nosuch.so'"), "{said}");
}

/// Returns the error of a program that opens a device.
fn no_device(host: HostBuilder) -> String {
    let error = host.build().unwrap().default_device().err().unwrap();
    assert_eq!(error.code(), ErrorCode::NotFound);
    error.message().to_owned()
}

#[test]
fn a_program_without_a_device_learns_why_and_what_helps() {
    let world = World::new();
    let said = no_device(world.host());
    let place = format!("no plugin was found in '{}'\nput a plugin", world.path().display());
    assert!(said.contains(&place), "{said}");
    copy_into(&world, &host_plugin());
    let said = no_device(world.host().with_devices("!host:*"));
    assert!(said.contains("the selection \"!host:*\" excludes all"), "{said}");
    assert!(said.contains("\n  host:0 (") && !said.contains("put a plugin"), "{said}");
    let error = world.host().build().unwrap().device("!host:0").err().unwrap();
    assert!(error.message().contains("\"!host:0\" excludes all"), "{error}");
}
