//! Lines of a compiled object, and of damaged copies of it.

use super::*;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use std::process::Command;

/// The address of the object's code.
const START: u64 = 0x7000_0000_0000;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int half(int *value) {
  return *value / 2;
}
int outer(int *values) {
  values[1] = 3;
  return half(values);
}
";

/// Compiles the source with a version of DWARF. Returns the object, the index of its code and the
/// offset of the load in `half`, which is the last one of `outer`.
fn object(version: u32) -> (Bytes, usize, Range<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lines.c");
    std::fs::write(&source, SOURCE).unwrap();
    let status = Command::new("cc")
        .args(["-c", "-O1", "-ffunction-sections", &format!("-gdwarf-{version}")])
        .args(["lines.c", "-o", "lines.o"])
        .current_dir(folder.path())
        .status();
    assert!(status.expect("a C compiler is there").success());
    let bytes = std::fs::read(folder.path().join("lines.o")).unwrap();
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
    let section = file.section_by_name(".text.outer").unwrap();
    let outer = file.symbols().find(|symbol| symbol.name() == Ok("outer")).unwrap();
    let range = outer.address()..outer.address() + outer.size();
    let index = section.index().0;
    (Bytes::from(bytes), index, range)
}

fn part(bytes: Bytes, index: usize) -> Part {
    Part::Object { bytes, sections: vec![(index, START)] }
}

/// Returns all places of the function, in words.
fn places(part: &Part, range: &Range<u64>) -> Vec<String> {
    let deadline = Instant::now() + LIMIT;
    let frames = range.clone().filter_map(|at| frames(part, START + at, deadline));
    let places = frames.filter_map(|frames| Place::new(shown(frames)));
    places.map(|Place { line, functions }| format!("{line} {functions}")).collect()
}

#[test]
fn an_address_has_its_line_and_its_inlined_functions() {
    for version in [3, 4, 5] {
        let (bytes, index, range) = object(version);
        let found = places(&part(bytes.clone(), index), &range);
        assert!(found.contains(&"lines.c:5 in outer".to_owned()), "{version}: {found:?}");
        let inlined = "lines.c:2 in half, inlined in outer at lines.c:6".to_owned();
        assert!(found.contains(&inlined), "{version}: {found:?}");
        let lines = Lines::default();
        lines.add([part(bytes, index)]);
        assert_eq!(lines.first_place([START - 1, START + 0x10_0000].into_iter()), None);
        assert!(lines.first_place([0, START].into_iter()).is_some());
    }
}

#[test]
fn damaged_debug_information_gives_some_answer() {
    let (bytes, index, range) = object(5);
    let mut random = 1_u64;
    for _ in 0..300 {
        let mut damaged = bytes.to_vec();
        for _ in 0..4 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % damaged.len();
            damaged[at] = (random >> 24) as u8;
        }
        places(&part(Bytes::from(damaged), index), &range);
    }
    for length in (0..bytes.len()).step_by(31) {
        places(&part(bytes.slice(..length), index), &range);
    }
}

#[test]
fn functions_of_the_header_are_the_kernels() {
    let frame = |function: &str, file: &str, line| Frame {
        function: Some(function.to_owned()),
        file: Some(file.to_owned()),
        line,
    };
    let frames = vec![
        frame("longshore_add_", "/usr/include/longshore_device.h", 900),
        frame("mine", "k.c", 4),
        frame("__longshore_body_k", "k.c", 9),
        frame("longshore_run_k", "k.c", 8),
        frame("k", "k.c", 8),
    ];
    let place = Place::new(shown(frames)).unwrap();
    assert_eq!(place.line, "k.c:4");
    assert_eq!(place.functions, "in mine, inlined in k at k.c:9");
}
