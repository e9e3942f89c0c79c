//! Loading and unloading leave nothing in the process.
//!
//! The tests inspect the whole process, so they run one at a time, in a program of their own.

#[path = "backend/support.rs"]
mod support;

use longshore_plugin_api::Module;
use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::time::Instant;
use support::{build, load, run_compiler};

const SMALL: &str = "#include <stdlib.h>
    int calls; static void handler(void) { calls--; } static __thread int mine = 3;
    __attribute__((constructor)) static void in(void) { atexit(handler); }
    __attribute__((destructor)) static void out(void) { calls++; }
    void k(void **a) { calls += mine; }";

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

fn object(source: &str, flags: &[&str]) -> Vec<u8> {
    run_compiler("cc", "c", source, &[&["-c", "-fPIC", "-O1"], flags].concat())
        .expect("a C compiler is there")
}

/// Returns the numbers of mappings of images, and of descriptors, of this process.
fn footprint() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings can be read");
    let images = maps.lines().filter(|line| line.contains("longshore-image")).count();
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors can be listed");
    (images, descriptors.count())
}

/// Runs an image's whole life, including a call of `kernel`.
fn live(image: &[u8], kernel: &str) {
    let module = load(image).expect("the image loads");
    module.run_constructors().expect("constructors run");
    module.call(kernel);
    module.run_destructors().expect("destructors run");
    module.unload().expect("the image unloads");
}

#[test]
fn loading_again_and_again_leaves_nothing_behind() {
    let _alone = alone();
    for image in [build(SMALL, &[]), object(SMALL, &[])] {
        live_again_and_again(&image);
    }
}

fn live_again_and_again(image: &[u8]) {
    live(image, "k");
    let rounds = std::env::var("LONGSHORE_TEST_ROUNDS").map_or(500, |n| n.parse().unwrap());
    let before = (footprint(), mapping_count(), resident_kib());
    let started = Instant::now();
    (0..rounds).for_each(|_| live(image, "k"));
    eprintln!("{rounds} lives of an image: {:?} each", started.elapsed() / rounds);
    let started = Instant::now();
    (0..rounds).for_each(|_| load(image).unwrap().unload().unwrap());
    eprintln!("{rounds} loads and unloads: {:?} each", started.elapsed() / rounds);
    eprintln!("mappings and resident KiB: {before:?}, {:?}", (mapping_count(), resident_kib()));
    assert_eq!(footprint(), before.0);
    assert!(mapping_count() <= before.1 + 8, "mappings grow");
    // A leak of a few hundred bytes per round would exceed this; the allocator may keep a little
    // memory.
    assert!(resident_kib() <= before.2 + 256, "memory grows: {} KiB", resident_kib());
}

fn mapping_count() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("mappings can be read").lines().count()
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("sizes can be read");
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4
}

#[test]
fn many_images_at_once_leave_nothing_behind() {
    let _alone = alone();
    let image = build(SMALL, &[]);
    let before = footprint();
    let all: Vec<_> = (0..100).map(|_| load(&image).unwrap()).collect();
    assert!(footprint().0 > before.0);
    drop(all);
    assert_eq!(footprint(), before);
}

#[test]
fn an_image_that_asks_to_stay_is_unloaded() {
    let _alone = alone();
    let before = footprint();
    live(&build(SMALL, &["-Wl,-z,nodelete"]), "k");
    assert_eq!(footprint(), before);
}

#[test]
fn unique_symbols_of_two_images_stay_apart_and_do_not_keep_them_loaded() {
    let _alone = alone();
    let before = footprint();
    let source = "inline int &shared() { static int value = 0; return value; }
        template <class T> struct Box { static int value; };
        template <class T> int Box<T>::value = 10;
        extern \"C\" { int seen; void k(void **) { seen = ++shared() + ++Box<int>::value; } }";
    let Some(image) = run_compiler("g++", "cc", source, &["-shared", "-fPIC", "-O1"]) else {
        eprintln!("skipped: no g++");
        return;
    };
    for _ in 0..2 {
        let (one, two) = (load(&image).unwrap(), load(&image).unwrap());
        one.call("k");
        two.call("k");
        assert_eq!((one.int("seen"), two.int("seen")), (12, 12));
    }
    assert_eq!(footprint(), before, "an image stayed in memory");
}

#[test]
fn a_stale_library_with_the_name_of_our_descriptor_is_not_taken_for_an_image() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("stale.so");
    std::fs::write(&path, build("int stale;", &["-Wl,-z,nodelete"])).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let name = std::ffi::CString::new(format!("/proc/self/fd/{number}")).unwrap();
    // SAFETY: this is a library without constructors, and the name ends with a NUL.
    assert!(!unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }.is_null());
    drop(file);
    let module = load(&build(SMALL, &[])).unwrap();
    module.call("k");
    assert_eq!(module.int("calls"), 3);
}

#[test]
fn an_image_without_its_destructors_run_stays_for_its_handlers() {
    let _alone = alone();
    let before = footprint();
    let module = load(&build(SMALL, &[])).unwrap();
    module.run_constructors().unwrap();
    module.unload().unwrap();
    assert!(footprint().0 > before.0, "its handlers would be called where nothing is");
}

#[test]
fn relocatable_images_are_never_files_and_leave_no_mappings() {
    let _alone = alone();
    let image = object(SMALL, &[]);
    let narrow = object(SMALL, &["-fno-pic", "-D__thread="]);
    [&image, &narrow].into_iter().for_each(|image| live(image, "k"));
    let before = (footprint(), mapping_count());
    let all: Vec<_> = (0..100).map(|i| load([&image, &narrow][i % 2]).unwrap()).collect();
    all.iter().for_each(|module| module.run_constructors().unwrap());
    assert_eq!(footprint(), before.0);
    assert!(mapping_count() > before.1);
    all.iter().skip(50).for_each(|module| module.run_destructors().unwrap());
    drop(all);
    assert!(mapping_count() <= before.1 + 4, "{} mappings, {before:?} before", mapping_count());
}
