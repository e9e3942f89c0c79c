//! Images, and the twins that doubles run in their place.

use crate::world::root;
use longshore_double_gpu::image_hash;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Compiler of PTX and twins; it must know the device header's targets.
const CLANG: &str = "clang-19";
/// Tool that merges and shows profiles.
const PROFDATA: &str = "llvm-profdata-19";

/// Returns the compiler. Returns `None`, and prints a line, if it is not installed.
pub(crate) fn compiler() -> Option<Command> {
    if !starts(CLANG) {
        eprintln!("not tried: {CLANG} is not installed");
        return None;
    }
    Some(Command::new(CLANG))
}

fn starts(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Returns the first of these compilers that is installed with its linker and knows one of AMD's
/// processors ("gfx950"). Returns `None`, and prints a line, without such a compiler.
pub(crate) fn compiler_knowing<'a>(compilers: &[&'a str], processor: &str) -> Option<&'a str> {
    let is_one =
        |clang: &&str| starts(&clang.replace("clang", "ld.lld")) && knows(clang, processor);
    let found = compilers.iter().copied().find(is_one);
    if found.is_none() {
        eprintln!(
            "not tried: no {} with lld is installed that knows {processor}",
            compilers.join(", no ")
        );
    }
    found
}

fn knows(compiler: &str, processor: &str) -> bool {
    let question = ["--target=amdgcn-amd-amdhsa", "-nogpulib", "-print-supported-cpus"];
    let said = Command::new(compiler).args(question).output();
    said.is_ok_and(|said| {
        String::from_utf8_lossy(&said.stderr).lines().any(|line| line.trim() == processor)
    })
}

/// Returns the folder in which doubles look for twins. It has the twins of the suite's images, and
/// tests add others.
pub fn twins() -> &'static Path {
    longshore_double_twins::folder()
}

/// Compiles C to LLVM bitcode. Returns `None`, and prints a line, without the compiler.
///
/// # Panics
/// If the source does not compile.
pub fn bitcode(source: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let mut compiler = compiler()?;
    let folder = tempfile::tempdir().expect("a folder for the image");
    let image = folder.path().join("image.bc");
    compiler.args(["-ffreestanding", "-fPIC", "-emit-llvm", "-c", "-o"]).arg(&image);
    run(with_source(&mut compiler, source, options));
    Some(read(&image))
}

/// Compiles a source for this machine as the twin of an image.
///
/// # Panics
/// If the source does not compile.
pub fn twin(image: &[u8], source: &Path, options: &[&str]) {
    twin_by(CLANG, image, source, options);
}

/// Compiles a source as the twin of an image by another compiler.
pub(crate) fn twin_by(compiler: &str, image: &[u8], source: &Path, options: &[&str]) {
    let mut compiler = Command::new(compiler);
    let folder = tempfile::tempdir_in(twins()).expect("the folder of twins is writable");
    let object = folder.path().join("twin.o");
    compiler.args(["-fPIC", "-fstack-clash-protection", "-c", "-o"]).arg(&object);
    run(with_source(&mut compiler, source, options));
    // The double also looks for functions and variables with file scope; not for sections.
    let symbols = ["--wildcard", "--globalize-symbol=?*"];
    run(Command::new("llvm-objcopy-19").args(symbols).arg(&object));
    let place = twins().join(format!("{}.o", image_hash(image)));
    std::fs::rename(object, place).expect("both are in one folder");
}

/// Sets a relocatable object as the twin of an image.
pub(crate) fn set_twin(image: &[u8], object: &[u8]) {
    let folder = tempfile::tempdir_in(twins()).expect("the folder of twins is writable");
    let copy = folder.path().join("twin.o");
    std::fs::write(&copy, object).expect("the folder is writable");
    let place = twins().join(format!("{}.o", image_hash(image)));
    std::fs::rename(copy, place).expect("both are in one folder");
}

/// Makes the twin of one image the twin of another, too.
pub(crate) fn share_twin(of: &[u8], image: &[u8]) {
    let [from, to] = [of, image].map(|bytes| twins().join(format!("{}.o", image_hash(bytes))));
    if from.is_file() {
        let folder = tempfile::tempdir_in(twins()).expect("the folder of twins is writable");
        let copy = folder.path().join("twin.o");
        std::fs::copy(from, &copy).expect("the twin is readable");
        std::fs::rename(copy, to).expect("both are in one folder");
    }
}

/// Adds a source, and an optimization level if the options have none.
pub(crate) fn with_source<'a>(
    compiler: &'a mut Command,
    source: &Path,
    options: &[&str],
) -> &'a mut Command {
    let has_level = options.iter().any(|option| option.starts_with("-O"));
    compiler.args(if has_level { &[][..] } else { &["-O2"] });
    compiler.arg("-I").arg(root().join("include")).args(options).arg(source)
}

/// Reads a tool's output file.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the tool has written it")
}

/// Runs a tool.
///
/// # Panics
/// With the tool's output, if it fails.
pub(crate) fn run(command: &mut Command) {
    let program = Path::new(command.get_program()).file_name().map(OsStr::to_owned);
    let output = command.output().unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program:?}: {}\n{said}", output.status);
}

/// Returns the output of `llvm-profdata` for a profile, after a merge. Returns `None`, and prints a
/// line, without that tool.
///
/// # Panics
/// If the tool refuses the profile.
pub fn profile_shown(profile: &Path) -> Option<String> {
    if !starts(PROFDATA) {
        eprintln!("not tried: {PROFDATA} is not installed");
        return None;
    }
    let merged = profile.with_extension("profdata");
    run(Command::new(PROFDATA).arg("merge").arg(profile).arg("-o").arg(&merged));
    let mut show = Command::new(PROFDATA);
    show.args(["show", "--counts", "--all-functions"]).arg(&merged);
    let output = show.output().expect("it has just been started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("it writes text"))
}
