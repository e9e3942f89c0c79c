//! The AMDGPU backend without a device, with different libraries as HIP: the installed runtime,
//! other vendors' libraries, parts of HIP, invalid files. The host reports the reason, keeps no
//! resources, and continues with the CPU.

use libloading::Library;
use longshore::{Environment, Host, Outcome};
use longshore_tests::doubled::{AMDGPU, CUDA};
use longshore_tests::resource_usage::assert_nothing_is_left_by;
use longshore_tests::world::host_plugin;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most attempts for each library in one process; `LONGSHORE_ROUNDS` may set fewer.
const ROUNDS: usize = 400;
/// Number of rounds in which caches and arenas grow to their final size.
const FIRST_ROUNDS: usize = 100;
/// The right to open libraries, some of which take a gigabyte: the tests measure the resources of
/// the process.
type Alone = MutexGuard<'static, ()>;

/// Waits for the test that uses the process now.
fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects with a library in HIP's place repeatedly, or with HIP itself for `None`. `check` gets
/// the outcome for the plugin.
fn tried(_alone: &Alone, library: Option<&Path>, check: impl Fn(&Outcome)) {
    let Some(plugin) = AMDGPU.plugin() else {
        return println!("the plugin is not built; nothing was tried");
    };
    let plugins = [plugin, host_plugin()];
    let round = || {
        let host = host(&plugins, library);
        check(outcome(&host, "amdgpu"));
        host
    };
    (0..FIRST_ROUNDS).for_each(|_| drop(round()));
    let asked = std::env::var("LONGSHORE_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let rounds = ROUNDS.min(asked);
    println!("{library:?}: {rounds} rounds");
    assert_nothing_is_left_by(rounds, || drop(round()));
    cpu_works(&round());
}

fn host(plugins: &[PathBuf], library: Option<&Path>) -> Host {
    let environment = match library {
        Some(library) => Environment::empty().with("LONGSHORE_AMDGPU_DRIVER", library),
        None => Environment::empty(),
    };
    let mut builder = Host::builder().with_environment(environment).with_only_given_plugins();
    for plugin in plugins {
        builder = builder.with_plugin(plugin);
    }
    builder.build().expect("a backend without a device does not stop the others")
}

fn outcome<'a>(host: &'a Host, backend: &str) -> &'a Outcome {
    let found = host.candidates().iter().find(|candidate| candidate.backend == backend);
    &found.unwrap_or_else(|| panic!("no candidate for {backend}: {:?}", host.candidates())).outcome
}

fn cpu_works(host: &Host) {
    assert_eq!(outcome(host, "host"), &Outcome::Loaded);
    let device = host.device("host:0").unwrap();
    let queue = device.queue().unwrap();
    let buffer = device.buffer_of(&queue, &[1u32, 2, 3]).unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [1, 2, 3]);
}

/// Returns the result of `hipInit` from this machine's HIP, and the name of the result. Without
/// HIP, or if HIP has a device, prints that and returns `None`.
fn runtime_without_device(_alone: &Alone) -> Option<(c_int, String)> {
    let names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
    // SAFETY: HIP's library is safe to open.
    let Some(hip) = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok()) else {
        println!("HIP is not installed; nothing was tried");
        return None;
    };
    // SAFETY: HIP's functions have these types in all versions.
    let (init, count, name_of) = unsafe {
        let init = *hip.get::<unsafe extern "C" fn(c_uint) -> c_int>("hipInit").unwrap();
        let count =
            *hip.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("hipGetDeviceCount").unwrap();
        let name_of =
            *hip.get::<unsafe extern "C" fn(c_int) -> *const c_char>("hipGetErrorName").unwrap();
        (init, count, name_of)
    };
    // HIP does not undo its initialization.
    std::mem::forget(hip);
    let mut devices = 0;
    // SAFETY: the output is a variable of this function; a name is a constant string.
    unsafe {
        let answer = init(0);
        if answer == 0 && count(&mut devices) == 0 && devices > 0 {
            println!("HIP has a device; nothing was tried");
            return None;
        }
        Some((answer, CStr::from_ptr(name_of(answer)).to_str().unwrap().to_owned()))
    }
}

#[test]
fn the_installed_runtime_has_no_device_for_its_own_reason_and_nothing_is_kept() {
    let alone = alone();
    let Some((answer, name)) = runtime_without_device(&alone) else { return };
    println!("measured: hipInit answers {name}, {answer}");
    tried(&alone, None, |outcome| {
        let Outcome::NoDevice(why) = outcome else { panic!("{outcome:?}") };
        let is_said = why.contains(&name) && why.contains(&answer.to_string());
        // If `hipInit` succeeds without a device, only the number of devices shows that.
        assert!(is_said || answer == 0, "hipInit answers {name}, {answer}: {why}");
    });
}

#[test]
fn the_installed_runtime_keeps_no_other_backend_from_working() {
    let alone = alone();
    let Some(_) = runtime_without_device(&alone) else { return };
    let Some(plugin) = AMDGPU.plugin() else {
        return println!("the plugin is not built; nothing was tried");
    };
    host_plugin();
    let host = host(&[plugin.parent().expect("a folder").to_owned()], None);
    assert!(matches!(outcome(&host, "amdgpu"), Outcome::NoDevice(_)), "{:?}", host.candidates());
    for candidate in host.candidates() {
        println!("{candidate}");
        assert!(!candidate.outcome.is_fault(), "{candidate}");
    }
    cpu_works(&host);
}

#[test]
fn the_library_of_another_vendor_is_no_hip() {
    let alone = alone();
    let loader = PathBuf::from("libvulkan.so.1");
    // SAFETY: Vulkan's loader is safe to open.
    let loader = unsafe { Library::new(&loader) }.is_ok().then_some(loader);
    let others: Vec<_> = loader.into_iter().chain(CUDA.double()).collect();
    if others.is_empty() {
        println!(
            "neither Vulkan's loader nor the double of CUDA's driver is there; nothing was tried"
        );
    }
    for library in others {
        tried(&alone, Some(&library), |outcome| {
            let Outcome::NoDriver(why) = outcome else { panic!("{outcome:?}") };
            assert!(why.contains("hipInit"), "{why}");
        });
    }
}

/// Returns a library compiled from a C source. Without a compiler, prints that and returns `None`.
fn compiled(folder: &Path, source: &str) -> Option<PathBuf> {
    let (text, library) = (folder.join("hip.c"), folder.join("libamdhip64.so"));
    std::fs::write(&text, source).unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&text);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "{source}"),
        Err(error) => {
            println!("no C compiler: {error}; nothing was tried");
            return None;
        }
    }
    Some(library)
}

#[test]
fn a_function_that_is_missing_is_named() {
    let alone = alone();
    const INIT: &str = "int hipInit(unsigned flags) { return 0; }\n";
    const COUNT: &str = "int hipGetDeviceCount(int *count) { *count = 2; return 0; }\n";
    for (source, missing) in [
        (INIT.to_owned(), "hipGetDeviceCount"),
        (format!("{INIT}{COUNT}"), "hipGetDeviceProperties"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let Some(library) = compiled(folder.path(), &source) else { return };
        tried(&alone, Some(&library), |outcome| {
            let Outcome::NoDriver(why) = outcome else { panic!("{outcome:?}") };
            assert!(why.contains(missing), "{why}");
        });
    }
}

#[test]
fn an_unknown_result_is_an_error_with_its_number() {
    let alone = alone();
    for number in [12345, -1, i32::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let source = format!("int hipInit(unsigned flags) {{ return {number}; }}\n");
        let Some(library) = compiled(folder.path(), &source) else { return };
        tried(&alone, Some(&library), |outcome| {
            let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
            let said = error.vendor().unwrap_or_else(|| panic!("{error}")).number;
            assert_eq!(said, i64::from(number.cast_unsigned()), "{error}");
        });
    }
}

#[test]
fn a_hip_of_no_devices_has_none() {
    let alone = alone();
    const SOURCE: &str = "int hipInit(unsigned flags) { return 0; }\n\
                          int hipGetDeviceCount(int *count) { *count = 0; return 0; }\n";
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compiled(folder.path(), SOURCE) else { return };
    tried(&alone, Some(&library), |outcome| {
        assert!(matches!(outcome, Outcome::NoDevice(_)), "{outcome:?}")
    });
}

#[test]
fn missing_and_invalid_libraries_are_no_driver() {
    let alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let junk = folder.path().join("junk.so");
    let header = folder.path().join("header.so");
    std::fs::write(&junk, "no ELF file at all").unwrap();
    std::fs::write(&header, b"\x7fELF\x02\x01\x01").unwrap();
    for library in [junk, header, folder.path().join("missing.so"), folder.path().to_owned()] {
        tried(&alone, Some(&library), |outcome| {
            let Outcome::NoDriver(why) = outcome else { panic!("{outcome:?}") };
            assert!(why.contains(library.to_str().unwrap()), "{why}");
        });
    }
}
