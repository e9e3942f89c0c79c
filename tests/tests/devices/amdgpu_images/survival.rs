//! Code objects with which some versions of HIP end the process: the output of real tools, changed
//! byte by byte.

use super::{Check, Setting};
use longshore::{ErrorCode, Grid};
use longshore_conformance::TrustedImages;
use longshore_tests::amdgpu;
use longshore_tests::doubled::AMDGPU;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

pub(super) const CHECKS: &[Check] = &[
    ("code objects over which HIP ends the process never reach it", deadly_images_are_refused),
    ("a code object that was stripped of its symbol table runs", stripped_images_run),
    ("the double ends the process over what HIP ends it over", the_double_dies_of_deadly_images),
];

const SOURCE: &str = "
LONGSHORE_GLOBAL uint64_t counter = 5;
LONGSHORE_KERNEL(add, (uint64_t more)) { (void)longshore_self; longshore_atomic_add(&counter, more); }
";

/// The variable with the image file of a process in which HIP loads the image without the backend.
const IMAGE: &str = "LONGSHORE_TEST_AMDGPU_SURVIVAL";

/// Returns whether this process is for a load. If so, HIP has survived the load.
pub(super) fn is_done() -> bool {
    let Some(image) = std::env::var_os(IMAGE) else { return false };
    let image = std::fs::read(image).unwrap();
    let path = AMDGPU.double().unwrap();
    let mut module = 0usize;
    // SAFETY: the double is a library for tests; the functions have these types, and the image is
    // complete.
    unsafe {
        let hip = libloading::Library::new(path).unwrap();
        let init: libloading::Symbol<'_, unsafe extern "C" fn(u32) -> u32> =
            hip.get(b"hipInit").unwrap();
        let load: libloading::Symbol<'_, unsafe extern "C" fn(*mut usize, *const u8) -> u32> =
            hip.get(b"hipModuleLoadData").unwrap();
        assert_eq!(init(0), 0);
        println!("hipModuleLoadData: {}", load(&mut module, image.as_ptr()));
        std::mem::forget(hip);
    }
    true
}

/// A linked 64-bit code object for changes.
struct Code(Vec<u8>);

impl Code {
    fn get(&self, at: usize, bytes: usize) -> usize {
        self.0[at..at + bytes].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    fn set(&mut self, at: usize, bytes: usize, value: usize) {
        self.0[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn sections(&self) -> usize {
        self.get(60, 2)
    }

    /// Returns the offset of the header of a section.
    fn section(&self, index: usize) -> usize {
        self.get(40, 8) + index * 64
    }

    fn names(&self) -> usize {
        self.section(self.get(62, 2))
    }

    fn section_of_type(&self, kind: usize) -> usize {
        let mut headers = (0..self.sections()).map(|index| self.section(index));
        headers.find(|at| self.get(at + 4, 4) == kind).expect("there is one")
    }

    /// Returns the offset of the header of the first loaded segment with bytes.
    fn segment(&self) -> usize {
        let mut headers = (0..self.get(56, 2)).map(|index| self.get(32, 8) + index * 56);
        headers.find(|at| self.get(*at, 4) == 1 && self.get(at + 32, 8) > 0).expect("there is one")
    }

    /// Returns the offset of the symbol of an object in a table of this type.
    fn object(&self, table: usize) -> usize {
        let header = self.section_of_type(table);
        let (start, bytes) = (self.get(header + 24, 8), self.get(header + 32, 8));
        let mut symbols = (start..start + bytes).step_by(24);
        symbols.find(|at| self.0[at + 4] & 15 == 1).expect("there is one")
    }
}

/// A change that makes a code object fatal for HIP, with its name.
type Change = (&'static str, fn(&mut Code));

const CHANGES: &[Change] = &[
    ("no section has the names", |code| code.set(62, 2, 0)),
    ("a section that is not there has the names", |code| code.set(62, 2, code.sections())),
    ("the names are in a reserved section", |code| code.set(62, 2, 0xffff)),
    ("a section of another type has the names", |code| code.set(62, 2, 1)),
    ("a table of sections has none", |code| code.set(60, 2, 0)),
    ("all section headers are zero", |code| {
        let (start, end) = (code.section(0), code.section(code.sections()));
        code.0[start..end].fill(0);
    }),
    ("a section in the middle has no type", |code| code.set(code.section(7) + 4, 4, 0)),
    ("the last section has no type", |code| code.set(code.section(code.sections() - 1) + 4, 4, 0)),
    ("there are no bytes for names", |code| code.set(code.names() + 32, 8, 0)),
    ("a name is beyond the names", |code| {
        code.set(code.section(3), 4, code.get(code.names() + 32, 8));
    }),
    ("a name is far beyond the names", |code| code.set(code.section(3), 4, 0xffff_fff0)),
    ("a dynamic symbol is in no segment", |code| {
        code.set(code.object(11) + 8, 8, 0x7000_0000);
    }),
    ("a symbol is in no segment", |code| code.set(code.object(2) + 8, 8, 0x7000_0000)),
    ("a segment is smaller in memory than in the file", |code| {
        let segment = code.segment();
        code.set(segment + 40, 8, code.get(segment + 32, 8) - 1);
    }),
];

/// Returns all code objects that HIP does not survive, with their faults.
fn deadly(setting: &Setting<'_>) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let image = setting.image(SOURCE)?;
    let changed = CHANGES.iter().map(|(what, change)| {
        let mut code = Code(image.clone());
        change(&mut code);
        (*what, code.0)
    });
    let without_sections = by_tool(setting, &image, "llvm-objcopy-19", "--strip-sections");
    let stripped = without_sections.map(|image| ("there is no table of sections", image));
    Some(changed.chain(stripped).collect())
}

/// Returns the image after a tool of LLVM. Without the tool, prints that and returns `None`.
fn by_tool(setting: &Setting<'_>, image: &[u8], tool: &str, option: &str) -> Option<Vec<u8>> {
    let file = setting.folder.join("stripped.co");
    std::fs::write(&file, image).unwrap();
    let Ok(status) = Command::new(tool).arg(option).arg(&file).status() else {
        println!("not tried: {tool} is not installed");
        return None;
    };
    assert!(status.success(), "{tool} {option}");
    Some(std::fs::read(file).unwrap())
}

fn deadly_images_are_refused(setting: &Setting<'_>) {
    for (what, image) in deadly(setting).into_iter().flatten() {
        let error = setting.device.load_trusted(&image[..]).map(drop).expect_err(what);
        assert_eq!(error.code(), ErrorCode::InvalidBinary, "{what}: {error}");
        assert!(error.vendor().is_none(), "{what}: HIP was asked: {error}");
        assert!(error.message().contains("malformed: "), "{what}: {error}");
    }
}

fn stripped_images_run(setting: &Setting<'_>) {
    let Some(image) = setting.image(SOURCE) else { return };
    let stripped = by_tool(setting, &image, "llvm-strip-19", "--strip-all");
    let Some(stripped) = stripped else { return };
    amdgpu::share_with_repaired(&image, &stripped);
    let program = setting.device.load_trusted(&stripped[..]).unwrap();
    let (add, counter) = (program.kernel("add").unwrap(), program.global("counter").unwrap());
    let queue = setting.device.queue().unwrap();
    // SAFETY: the kernel adds to a variable of the program.
    unsafe { queue.launch_and_wait(&add, Grid::default(), (3u64,)).unwrap() };
    assert_eq!(counter.read::<u64>(&queue).unwrap(), 8);
    drop((add, counter));
    program.unload().unwrap();
}

/// Checks the double only: real versions of HIP survive different images.
fn the_double_dies_of_deadly_images(setting: &Setting<'_>) {
    if !AMDGPU.is_double() {
        return println!("not tried: HIP is no double");
    }
    let Some(image) = setting.image(SOURCE) else { return };
    let stripped = by_tool(setting, &image, "llvm-strip-19", "--strip-all");
    let stripped = stripped.map(|image| ("it was stripped", image));
    let all = deadly(setting).into_iter().flatten().chain(stripped);
    for (what, image) in all {
        assert!(loaded_alone(setting, &image).signal().is_some(), "HIP survives: {what}");
    }
    assert!(loaded_alone(setting, &image).success());
}

/// Returns the exit status of a process in which the double loads an image.
fn loaded_alone(setting: &Setting<'_>, image: &[u8]) -> std::process::ExitStatus {
    let path = setting.folder.join("loaded.co");
    std::fs::write(&path, image).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.env(IMAGE, path).current_dir(setting.folder).status().unwrap()
}
