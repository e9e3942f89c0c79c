//! Compilation of sources in CUDA and HIP by `longshore cc`, and launches beside their reference.

use super::Source;
use super::case::{Case, Data, Given, Step};
use crate::device_code::{Workshop, clangs, threads};
use crate::doubled::{self, Doubled};
use crate::effort;
use crate::world::{command, root};
use libloading::Library;
use longshore::{Buffer, Device, Grid, Image, Kernel, Program, Queue, RawArguments};
use longshore_conformance::TrustedImages;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler if not all are tried.
const USUAL: &str = "clang-19";

/// Sets of flags: kernels for debuggers, in which each item has a stack, optimized ones, and ones
/// with checks.
const FLAGS: [&[&str]; 3] = [&["-O0", "-g"], &["-O3"], &[CHECK]];
const CHECK: &str = "--check";

/// The function of a reference: the shape of the first launch, and pointers to the arguments.
type Reference = unsafe extern "C" fn(*const [[u32; 3]; 2], *const *const c_void);

/// Runs the cases of a source on the CPU with each compiler, and compares them with their
/// references. Blocks.
///
/// # Panics
/// If a result differs, a kernel has no case, or the checks report an error.
pub fn check_on_cpu(source: &Source) {
    let folder = tempfile::tempdir().expect("a folder for the image");
    let workshop = Workshop::new();
    let usual = workshop.device(threads(2));
    let checking = workshop.device(threads(2).with("LONGSHORE_HOST_CHECK", "all"));
    let clangs = compilers();
    let Some(clang) = clangs.first() else { return };
    let (cases, expected) = expected(source, clang, folder.path());
    for clang in &clangs {
        for flags in FLAGS {
            let image = folder.path().join("image");
            compile(clang, source, &["host"], flags, &image);
            let image = Image::read(image).expect("the image was just written");
            let about = format!("{}, {clang} {}", source.file, flags.join(" "));
            let is_checked = flags == [CHECK];
            let device = if is_checked { &checking } else { &usual };
            let [launched, kernels] =
                compare_all(&about, &cases, &expected, &image, device, is_checked);
            assert_eq!(launched, kernels, "{about}: some kernels have no case");
        }
    }
}

/// Runs the cases of a source on a double, in the place of the last of these images for GPUs, and
/// compares them with their references. The kernels run by `twin`, the image for the CPU, with the
/// arguments as the image for the GPU describes them. Blocks.
///
/// # Panics
/// If a result differs.
pub fn check_on_double(source: &Source, of: &Doubled, clang: &str, image: &[u8], twin: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the references");
    doubled::set_twin(image, twin);
    let host = of.host().expect("the double has devices");
    let device = host.default_device().expect("the double has devices");
    let (mut cases, mut expected) = expected(source, clang, folder.path());
    let only_on_cpu: Vec<bool> = cases.iter().map(|case| case.only_on_cpu).collect();
    let mut each = only_on_cpu.iter();
    expected.retain(|_| each.next() == Some(&false));
    cases.retain(|case| !case.only_on_cpu);
    let about = format!("{} on {}", source.file, of.backend);
    compare_all(&about, &cases, &expected, &Image::from(image.to_vec()), &device, false);
}

/// Compiles a source, and returns its image for each target. Blocks.
///
/// # Panics
/// If the source does not compile.
pub fn images(source: &Source, clang: &str, targets: &[&str]) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder for the image");
    let image = folder.path().join("image");
    compile(clang, source, targets, &["-O3"], &image);
    let image = Image::read(image).expect("the image was just written");
    let entries = image.entries().expect("it is well formed").expect("it is a container");
    entries.iter().map(|entry| entry.image.bytes().to_vec()).collect()
}

/// Returns the cases of a source with the results of their references.
fn expected(source: &Source, clang: &str, folder: &Path) -> (Vec<Case>, Vec<Expected>) {
    let library = compiled_reference(clang, source.reference, folder);
    let cases = (source.cases)();
    let expected = cases.iter().map(|case| Expected::new(&library, case)).collect();
    (cases, expected)
}

/// Runs cases. Returns the symbols of the launched kernels, and of all kernels.
fn compare_all(
    about: &str,
    cases: &[Case],
    expected: &[Expected],
    image: &Image,
    device: &Device,
    is_checked: bool,
) -> [BTreeSet<String>; 2] {
    let queue = device.queue().expect("a device has queues");
    let mut launched = BTreeSet::new();
    let mut kernels = BTreeSet::new();
    for (case, expected) in cases.iter().zip(expected) {
        let program = device.load_trusted(image.clone()).expect("the device takes it");
        let run = Run { program: &program, queue: &queue, device, is_checked };
        let about = format!("{about}: {case}");
        println!("{about}");
        expected.compare(&about, case, &run.results(&about, case));
        launched.extend(case.steps.iter().map(|step| run.kernel(step).name().to_owned()));
        let symbols = program.symbols().expect("the program is loaded").into_iter();
        let symbols = symbols.filter(|(_, kind)| *kind == longshore::SymbolKind::Kernel);
        kernels.extend(symbols.map(|(name, _)| name));
    }
    [launched, kernels]
}

/// Returns the usual compiler, or the newest one.
pub fn compiler() -> Option<&'static str> {
    is_there().then_some(USUAL).or(clangs().last().copied())
}

/// Returns the compilers to try: one, or [all](effort::is_all).
pub fn compilers() -> Vec<&'static str> {
    if effort::is_all() { clangs() } else { compiler().into_iter().collect() }
}

/// Returns whether the usual compiler is installed.
fn is_there() -> bool {
    Command::new(USUAL).arg("--version").output().is_ok()
}

/// Returns the path of a source.
pub fn path(file: &str) -> PathBuf {
    root().join("tests/fixtures/cuda").join(file)
}

fn compile(clang: &str, source: &Source, targets: &[&str], flags: &[&str], image: &Path) {
    let mut compile = Command::new(command());
    compile.arg("cc").arg(path(source.file)).args(["--clang", clang, "--target"]);
    compile.arg(targets.join(",")).args(flags).arg("-o").arg(image);
    succeed(&mut compile);
}

fn compiled_reference(clang: &str, reference: &str, folder: &Path) -> Library {
    let object = folder.join("reference.so");
    let mut compile = Command::new(clang.replace("clang", "clang++"));
    compile.args([
        "-O1",
        "-std=c++17",
        "-ffp-contract=off",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Werror",
    ]);
    succeed(compile.arg("-o").arg(&object).arg(path("reference").join(reference)));
    // SAFETY: the object has no constructors.
    unsafe { Library::new(object) }.unwrap()
}

/// Runs a command to its end. Blocks.
///
/// # Panics
/// If the command fails, with its messages.
pub fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// The contents of buffers and globals after the reference.
struct Expected {
    buffers: Vec<Vec<u8>>,
    globals: Vec<Vec<u8>>,
}

impl Expected {
    /// Calls the reference of a case.
    fn new(library: &Library, case: &Case) -> Expected {
        let name = format!("reference_{}", case.reference);
        // SAFETY: functions of this name have this type.
        let function = unsafe { library.get::<Reference>(name.as_bytes()) };
        let function = function.unwrap_or_else(|error| panic!("{error}"));
        let globals: Vec<_> = case.globals.iter().map(|it| global(library, it)).collect();
        let mut buffers: Vec<_> = case.buffers.iter().map(|data| data.bytes.clone()).collect();
        let addresses: Vec<_> = buffers.iter_mut().map(|it| it.as_mut_ptr() as u64).collect();
        let values = values(&case.expected, &addresses);
        let pointers: Vec<*const c_void> = values.iter().map(|it| it.as_ptr().cast()).collect();
        let shape = [case.steps[0].groups, case.steps[0].items];
        // SAFETY: the values have the parameters' types, and live until the function returns.
        unsafe { function(&raw const shape, pointers.as_ptr()) };
        // SAFETY: the globals belong to the library.
        let globals = globals
            .into_iter()
            .map(|(address, bytes)| unsafe { std::slice::from_raw_parts(address, bytes).to_vec() });
        Expected { buffers, globals: globals.collect() }
    }

    fn compare(&self, about: &str, case: &Case, got: &Expected) {
        let buffers = case.buffers.iter().zip(&got.buffers).zip(&self.buffers).enumerate();
        for (index, ((data, got), expected)) in buffers {
            if let Some(difference) = data.difference(got, expected) {
                panic!("{about}: buffer {index}, {difference}");
            }
        }
        let globals = case.globals.iter().zip(&got.globals).zip(&self.globals);
        for (((name, data), got), expected) in globals {
            if let Some(difference) = data.difference(got, expected) {
                panic!("{about}: {name}, {difference}");
            }
        }
    }
}

/// Fills a global of the reference, and returns its place.
fn global(library: &Library, (name, data): &(&'static str, Data)) -> (*mut u8, usize) {
    // SAFETY: variables of this name have at least this size.
    unsafe {
        let address = *library.get::<*mut u8>(name.as_bytes()).unwrap();
        std::ptr::copy_nonoverlapping(data.bytes.as_ptr(), address, data.bytes.len());
        (address, data.bytes.len())
    }
}

/// Returns the bytes of each argument.
fn values(arguments: &[Given], buffers: &[u64]) -> Vec<Vec<u8>> {
    let value = |argument: &Given| match argument {
        Given::Value(bytes) => bytes.clone(),
        Given::At(index) => buffers[*index].to_ne_bytes().to_vec(),
        Given::StructureAt(bytes, index) => {
            [bytes.as_slice(), &buffers[*index].to_ne_bytes()].concat()
        }
        Given::Buffer(_) | Given::Structure(..) => {
            unreachable!("a case has indices of its buffers")
        }
    };
    arguments.iter().map(value).collect()
}

struct Run<'a> {
    device: &'a Device,
    queue: &'a Queue,
    program: &'a Program,
    /// Whether the checks look for errors.
    is_checked: bool,
}

/// Asserts that an error of the checks reports races alone.
fn assert_only_races(about: &str, error: &longshore::Error) {
    let message = error.message();
    let kinds = message.split("] ").skip(1).map(|report| report.split(':').next());
    let is_race = |kind: Option<&str>| kind == Some("race");
    assert!(
        message.contains("the check found") && kinds.into_iter().all(is_race),
        "{about}: {error}"
    );
}

impl Run<'_> {
    fn results(&self, about: &str, case: &Case) -> Expected {
        for (name, data) in &case.globals {
            let pointer = self.program.global(name).unwrap().pointer();
            let (bytes, count) = (data.bytes.as_ptr().cast(), data.bytes.len() as u64);
            // SAFETY: the bytes live until the copy has ended.
            unsafe { self.queue.copy_from_host(pointer, bytes, count) }.unwrap();
            self.queue.synchronize().unwrap();
        }
        let buffer = |data: &Data| self.device.buffer_of(self.queue, &data.bytes).unwrap();
        let buffers: Vec<Buffer<u8>> = case.buffers.iter().map(buffer).collect();
        let addresses: Vec<u64> = buffers.iter().map(|it| it.pointer().address()).collect();
        for step in &case.steps {
            self.launch(about, step, &addresses, case.has_races && self.is_checked);
        }
        let read = |(name, data): &(&str, Data)| {
            let pointer = self.program.global(name).unwrap().pointer();
            let mut bytes = vec![0_u8; data.bytes.len()];
            let (place, count) = (bytes.as_mut_ptr().cast(), bytes.len() as u64);
            // SAFETY: the bytes live until the copy has ended.
            unsafe { self.queue.copy_to_host(place, pointer, count) }.unwrap();
            self.queue.synchronize().unwrap();
            bytes
        };
        let globals = case.globals.iter().map(read).collect();
        let buffers = buffers.iter().map(|buffer| buffer.to_vec(self.queue).unwrap()).collect();
        Expected { buffers, globals }
    }

    fn kernel(&self, step: &Step) -> Kernel {
        self.program.kernel(&step.kernel).unwrap_or_else(|error| panic!("{error}"))
    }

    fn launch(&self, about: &str, step: &Step, buffers: &[u64], has_races: bool) {
        let kernel = self.kernel(step);
        let values = values(&step.arguments, buffers);
        let pointers: Vec<*const c_void> = values.iter().map(|it| it.as_ptr().cast()).collect();
        let sizes: Vec<usize> = values.iter().map(Vec::len).collect();
        let grid = Grid::new(step.groups, step.items)
            .with_shared_bytes(step.shared_bytes)
            .with_cooperative(step.is_cooperative);
        // SAFETY: the values live until the launch has ended, and the buffers have the sizes that
        // the kernel expects.
        unsafe {
            let arguments = RawArguments::new(&pointers, &sizes).unwrap();
            let done = self.queue.launch_and_wait(&kernel, grid, arguments);
            match done {
                Err(error) if has_races => assert_only_races(about, &error),
                done => done.unwrap_or_else(|error| panic!("{about}: {error}")),
            }
        }
    }
}
