//! Many objects, linked, called and removed many times without leaks.

use std::process::Command;

use bytes::Bytes;
use longshore_jitlink::Session;
use longshore_jitlink::session::{Object, Removal};

use crate::heap::is_all;
use crate::heap::usage::live;

const OBJECTS: usize = 1000;
const FUNCTIONS: usize = 100;

/// Returns the number of rounds: fewer in debug builds, and still fewer where tests do not try
/// every case.
fn rounds() -> usize {
    match is_all() {
        _ if !cfg!(debug_assertions) => 100,
        true => 10,
        false => 4,
    }
}

#[test]
fn a_thousand_objects_linked_called_and_removed_leave_memory_as_it_was() {
    let objects = objects();
    // SAFETY: the objects are programs of this test, which are sound in this process.
    let session = unsafe { Session::new() }.unwrap();
    let library = session.create_library("rounds");
    let mut usual = Footprint::now();
    for round in 0..rounds() {
        let added: Vec<Object> = objects
            .iter()
            .map(|(name, bytes)| library.add_object(name, bytes.clone()).unwrap())
            .collect();
        for index in 0..OBJECTS {
            let function =
                library.lookup(&format!("o{index:04}_f{:02}", round % FUNCTIONS)).unwrap();
            // SAFETY: the linked code has this function, of this type.
            let function: extern "C" fn(i32) -> i32 =
                unsafe { std::mem::transmute(function as usize) };
            assert_eq!(function(1), 1 + FUNCTIONS as i32 - (round % FUNCTIONS) as i32);
        }
        for object in added {
            object.remove(Removal::WithUsers).unwrap();
        }
        // By the second round the tables have their final size.
        let now = Footprint::now();
        if round < 2 {
            usual = now;
            continue;
        }
        assert_eq!(now.mappings, usual.mappings, "mappings after round {round}");
        assert!(
            now.heap <= usual.heap,
            "{} bytes on the heap after round {round}, {} before",
            now.heap,
            usual.heap
        );
    }
}

/// Returns objects whose functions call the next one each; the last function returns its argument
/// plus one.
fn objects() -> Vec<(String, Bytes)> {
    let mut source = String::new();
    for function in (0..FUNCTIONS).rev() {
        let value = match function + 1 {
            FUNCTIONS => "x + 1".to_owned(),
            next => format!("oXXXX_f{next:02}(x) + 1"),
        };
        source += &format!("int oXXXX_f{function:02}(int x) {{ return {value}; }}\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, object) = (folder.path().join("o.c"), folder.path().join("o.o"));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-O0", "-fPIC", "-ffunction-sections", "-c"]).arg(&file).arg("-o").arg(&object);
    assert!(compiler.status().expect("gcc is installed").success());
    let template = std::fs::read(&object).unwrap();
    (0..OBJECTS).map(|index| (format!("o{index}.o"), named(&template, index))).collect()
}

/// Returns the same object with other names.
fn named(template: &[u8], index: usize) -> Bytes {
    let mut bytes = template.to_vec();
    let places: Vec<usize> = bytes
        .windows(5)
        .enumerate()
        .filter(|(_, window)| *window == b"oXXXX")
        .map(|(at, _)| at)
        .collect();
    for at in places {
        bytes[at + 1..at + 5].copy_from_slice(format!("{index:04}").as_bytes());
    }
    bytes.into()
}

/// The memory of this process.
#[derive(Clone, Copy)]
struct Footprint {
    mappings: usize,
    /// Bytes on the heap of this thread, the only one that links.
    heap: isize,
}

impl Footprint {
    fn now() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Self { mappings: maps.lines().count(), heap: live() }
    }
}
