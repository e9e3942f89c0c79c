//! Threads that share devices and mapped data: a program without a compiler's code, which registers
//! an image and calls the interface by hand, as Rust's compiler does for offloaded functions.
//!
//! ThreadSanitizer checks this test by `cargo xtask sanitize`.

use longshore_openmp::abi::{BinaryDescriptor, DeviceImage, KernelArguments};
use longshore_openmp::exports::data::*;
use longshore_openmp::exports::devices::omp_get_num_devices;
use longshore_openmp::exports::presence::omp_target_is_present;
use longshore_openmp::exports::regions::__tgt_target_kernel;
use longshore_openmp::exports::registration::*;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::Barrier;

const THREADS: usize = 16;
const TO: i64 = 1;
const FROM: i64 = 2;
const PARAMETER: i64 = 0x20;

/// An offload entry of clang 20 or a later version.
#[repr(C)]
struct Entry {
    reserved: u64,
    version: u16,
    kind: u16,
    flags: u32,
    address: *const c_void,
    name: *const c_char,
    bytes: u64,
    data: u64,
    auxiliary: *const c_void,
}

/// Version 3 of the arguments of a region, as a compiler lays them out.
#[repr(C)]
struct Arguments {
    version: u32,
    count: u32,
    bases: *mut *mut c_void,
    begins: *mut *mut c_void,
    sizes: *mut i64,
    types: *mut i64,
    names: *mut *mut c_void,
    mappers: *mut *mut c_void,
    trip_count: u64,
    flags: u64,
    teams: [u32; 3],
    threads: [u32; 3],
    group_bytes: u32,
}

/// The image: a kernel that adds to two numbers.
const SOURCE: &str = "void add(void *environment, long *mine, long *shared) {
    *mine += 1;
    __atomic_fetch_add(shared, 1, __ATOMIC_RELAXED);
}";

static REGION: u8 = 0;

fn plugin_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Compiles the image, and registers it for the rest of the process.
fn register() {
    let folder = tempfile::tempdir().unwrap();
    let (source, image) = (folder.path().join("add.c"), folder.path().join("add.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&image).arg(&source);
    assert!(compiler.status().unwrap().success());
    let image: &[u8] = std::fs::read(&image).unwrap().leak();
    let name: &CStr = c"add";
    let entries: &[Entry] = Box::leak(Box::new([Entry {
        reserved: 0,
        version: 1,
        kind: 1,
        flags: 0,
        address: (&raw const REGION).cast(),
        name: name.as_ptr(),
        bytes: 0,
        data: 0,
        auxiliary: null(),
    }]));
    let range = entries.as_ptr_range();
    let (entries_begin, entries_end) = (range.start.cast(), range.end.cast());
    let bytes = image.as_ptr_range();
    let (start, end) = (bytes.start, bytes.end);
    let images = Box::leak(Box::new(DeviceImage { start, end, entries_begin, entries_end }));
    let descriptor = BinaryDescriptor { image_count: 1, images, entries_begin, entries_end };
    // SAFETY: the descriptor and all it points at live as long as the process.
    unsafe { __tgt_register_lib(Box::leak(Box::new(descriptor))) };
}

type Construct = unsafe extern "C" fn(
    *const longshore_openmp::abi::Ident,
    i64,
    i32,
    *mut *mut c_void,
    *mut *mut c_void,
    *const i64,
    *const i64,
    *const *mut c_void,
    *const *mut c_void,
);

/// Carries out a data construct with one variable.
fn construct(construct: Construct, variable: *mut i64, kind: i64) {
    construct_many(construct, variable, 1, kind);
}

/// Carries out a data construct with an array.
fn construct_many(construct: Construct, first: *mut i64, count: usize, kind: i64) {
    let mut address = [first.cast()];
    let (pointers, sizes, types) = (address.as_mut_ptr(), [8 * count as i64], [kind]);
    let (sizes, types) = (sizes.as_ptr(), types.as_ptr());
    // SAFETY: the arrays have one element, for numbers of 8 bytes.
    unsafe { construct(null(), 0, 1, pointers, pointers, sizes, types, null(), null()) };
}

/// Runs the region with both numbers mapped for it.
fn add(mine: *mut i64, shared: *mut i64) {
    let mut addresses = [mine.cast(), shared.cast()];
    let (mut sizes, mut types) = ([8, 8], [TO | FROM | PARAMETER; 2]);
    let pointers = addresses.as_mut_ptr();
    let arguments = Arguments {
        version: 3,
        count: 2,
        bases: pointers,
        begins: pointers,
        sizes: sizes.as_mut_ptr(),
        types: types.as_mut_ptr(),
        names: null_mut(),
        mappers: null_mut(),
        trip_count: 0,
        flags: 0,
        teams: [0; 3],
        threads: [0; 3],
        group_bytes: 0,
    };
    let region = (&raw const REGION).cast();
    let arguments = (&raw const arguments).cast::<KernelArguments>();
    // SAFETY: the arguments fit the kernel.
    let ran = unsafe { __tgt_target_kernel(null(), 0, -1, 0, region, arguments) };
    assert_eq!(ran, 0, "the region ran on a device");
}

fn rounds() -> i64 {
    let set = std::env::var("LONGSHORE_ROUNDS").ok();
    set.and_then(|rounds| rounds.parse().ok()).unwrap_or(1000)
}

/// The numbers of an array whose copies run without a lock.
const LARGE: usize = 1 << 12;

/// Maps, uses and unmaps a number of the thread's own, and the number and the array of all threads.
fn use_devices(shared: *mut i64, large: *mut i64, rounds: i64) {
    let mut mine = 0_i64;
    for round in 1..=rounds {
        let mine = &raw mut mine;
        construct(__tgt_target_data_begin_mapper, mine, TO);
        construct(__tgt_target_data_begin_mapper, shared, TO);
        add(mine, shared);
        construct(__tgt_target_data_update_mapper, mine, FROM);
        // SAFETY: the number is the thread's own.
        assert_eq!(unsafe { mine.read() }, round);
        assert_eq!(omp_target_is_present(mine.cast(), 0), 1);
        construct(__tgt_target_data_end_mapper, shared, 0);
        construct(__tgt_target_data_end_mapper, mine, FROM);
        assert_eq!(omp_target_is_present(mine.cast(), 0), 0);
        if round % 4 == 0 {
            // The last thread copies the array back, and the next one maps it again.
            construct_many(__tgt_target_data_begin_mapper, large, LARGE, TO);
            construct_many(__tgt_target_data_update_mapper, large, LARGE, FROM);
            construct_many(__tgt_target_data_end_mapper, large, LARGE, FROM);
        }
    }
    assert_eq!(mine, rounds);
}

#[test]
fn sixteen_threads_share_a_device_and_mapped_data() {
    // SAFETY: no other thread of this test reads the environment yet.
    unsafe {
        std::env::set_var("LONGSHORE_PLUGIN_PATH", plugin_folder());
        std::env::set_var("LONGSHORE_BACKEND", "host");
    }
    let plugin = plugin_folder().join("liblongshore_plugin_host.so");
    if !Path::new(&plugin).exists() {
        panic!("no {}: `cargo build -p longshore-plugin-host-library` builds it", plugin.display());
    }
    register();
    assert_eq!(omp_get_num_devices(), 1);
    let (mut shared, rounds, begin) = (0_i64, rounds(), Barrier::new(THREADS));
    let mut large = Vec::from_iter(0..LARGE as i64);
    let (address, array) = (&raw mut shared as usize, large.as_mut_ptr() as usize);
    // The number stays mapped while the threads map it again and again.
    construct(__tgt_target_data_begin_mapper, &raw mut shared, TO);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                use_devices(address as *mut i64, array as *mut i64, rounds);
            });
        }
    });
    construct(__tgt_target_data_end_mapper, &raw mut shared, FROM);
    assert_eq!(shared, THREADS as i64 * rounds);
    assert_eq!(omp_target_is_present(array as *const c_void, 0), 0);
    assert_eq!(large, Vec::from_iter(0..LARGE as i64));
}
