//! The view of real debuggers and profilers of linked code: this program, run again below gdb and
//! perf.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, ptr};

use longshore_jitlink::debug::{DebugOptions, DebugSupport, LinkedFunction, LinkedObject};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

const SOURCE: &str = "\
long answer_from_object(long n)
{
    volatile long sum = n;
    sum *= 2;
    return sum;
}

long spin_in_object(long n)
{
    volatile long i = 0;
    while (i < n)
        i++;
    return i;
}

long never_linked(long n)
{
    return n;
}
";

const LINKED: [&str; 3] = [".text.answer_from_object", ".text.spin_in_object", ".eh_frame"];
const OBJECT: &str = "DEBUGGEE_OBJECT";
const MODE: &str = "DEBUGGEE_MODE";
const JITDUMP: &str = "DEBUGGEE_JITDUMP";

#[test]
fn gdb_stops_in_linked_code_and_shows_its_source_arguments_and_callers() {
    let Some(made) = World::new(&["gdb", "gcc"]) else { return };
    let output = made.gdb(&[
        "break answer_from_object",
        "run",
        "backtrace",
        "next",
        "next",
        "info locals",
        "continue",
    ]);
    assert!(output.contains("answer_from_object (n=21) at "), "{output}");
    assert!(output.contains("linked.c:3\n3\t    volatile long sum = n;"), "{output}");
    let caller = output.lines().find(|line| line.starts_with("#1 ")).unwrap_or_default();
    assert!(caller.contains("debuggers"), "{output}");
    assert!(output.contains("sum = 42"), "{output}");
}

#[test]
fn gdb_forgets_an_object_whose_registration_is_dropped() {
    let Some(made) = World::new(&["gdb", "gcc"]) else { return };
    let look = "info address answer_from_object";
    let output = made.gdb(&[
        "break answer_from_object",
        "run",
        look,
        "catch syscall exit_group",
        "continue",
        look,
        "continue",
    ]);
    let before = output.find("Symbol \"answer_from_object\" is a function at address");
    let after = output.find("No symbol \"answer_from_object\" in current context");
    assert!(before.is_some() && before < after, "{output}");
    assert!(output.contains("exited normally"), "{output}");
}

#[test]
fn gdb_knows_of_no_function_that_was_not_linked() {
    let Some(made) = World::new(&["gdb", "gcc"]) else { return };
    let commands = ["break answer_from_object", "run", "info address never_linked", "continue"];
    let output = made.gdb(&commands);
    assert!(output.contains("(n=21)"), "{output}");
    assert!(output.contains("No symbol \"never_linked\" in current context"), "{output}");
    assert!(output.contains("exited normally"), "{output}");
}

#[test]
fn perf_report_names_linked_functions_from_the_perf_map() {
    let Some(made) = World::new(&["perf", "gcc"]) else { return };
    let Some(output) = made.perf_record("perf-map") else { return };
    let report = made.perf_report("perf.data");
    let process = output
        .split_once("process ")
        .and_then(|(_, rest)| rest.split_once('.'))
        .expect("it says its number")
        .0;
    fs::remove_file(format!("/tmp/perf-{process}.map")).unwrap();
    assert!(
        report.lines().any(|line| line.contains("[JIT]") && line.contains("spin_in_object")),
        "{report}"
    );
}

#[test]
fn perf_inject_finds_linked_functions_and_their_code_in_the_jitdump() {
    let Some(made) = World::new(&["perf", "gcc"]) else { return };
    if made.perf_record("jitdump").is_none() {
        return;
    }
    succeed(made.command("perf").args([
        "inject",
        "--jit",
        "-i",
        "perf.data",
        "-o",
        "injected.data",
    ]));
    let report = made.perf_report("injected.data");
    assert!(
        report.lines().any(|line| line.contains("jitted-") && line.contains("spin_in_object")),
        "{report}"
    );

    let dumped = fs::read_dir(made.path("")).unwrap().map(|entry| entry.unwrap().path());
    let dump = dumped
        .filter(|path| path.is_dir())
        .find(|path| path.to_string_lossy().contains("longshore-jit-"));
    let files = fs::read_dir(dump.expect("a folder for the dump")).unwrap();
    let files = files.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let object = fs::read(made.path("linked.o")).unwrap();
    let code = |bytes: &[u8]| {
        let file = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let names = [".text.spin_in_object", ".text"];
        names.iter().find_map(|name| {
            Some(file.section_by_name(name)?.data().ok()?.to_vec()).filter(|code| !code.is_empty())
        })
    };
    let expected = code(&object).expect("code was compiled");
    assert!(files.filter_map(|bytes| code(&bytes)).any(|code| code == expected));
}

/// Runs as the program below a debugger or a profiler: puts the functions of an object in memory,
/// announces and calls them.
#[test]
#[ignore = "not a test: the program that other tests run"]
fn debuggee() {
    let Some(path) = env::var_os(OBJECT) else { return };
    println!("process {}.", std::process::id());
    let bytes = fs::read(path).unwrap();
    let sections = place(&bytes);
    let functions = sections.iter().filter_map(|section| {
        let name = section.name.strip_prefix(".text.")?;
        Some(LinkedFunction {
            name,
            address: section.address,
            size: section.code.len() as u64,
            code: &section.code,
        })
    });
    let functions: Vec<_> = functions.collect();
    let addresses: Vec<_> =
        sections.iter().map(|section| (section.index, section.address)).collect();

    let mode = env::var(MODE).unwrap();
    let support = DebugSupport::new(DebugOptions {
        gdb: mode == "gdb",
        perf_map: mode == "perf-map",
        jitdump: (mode == "jitdump").then(|| PathBuf::from(env::var_os(JITDUMP).unwrap())),
    })
    .unwrap();
    let registration = support.object_linked(&LinkedObject {
        name: "linked.o",
        bytes: &bytes,
        sections: &addresses,
        functions: &functions,
    });
    assert_eq!(call(&functions, "answer_from_object", 21), 42);
    if mode != "gdb" {
        assert_eq!(call(&functions, "spin_in_object", 50_000_000), 50_000_000);
    }
    drop(registration);
    sections.iter().for_each(unmap);
}

struct Placed {
    index: usize,
    name: &'static str,
    address: u64,
    code: Vec<u8>,
}

/// Maps each of the sections in [`LINKED`], which have no relocations that matter, on pages of its
/// own.
fn place(bytes: &[u8]) -> Vec<Placed> {
    let file = ElfFile64::<object::Endianness>::parse(bytes).unwrap();
    let place = |name: &'static str| {
        let section = file.section_by_name(name).unwrap();
        let code = section.data().unwrap().to_vec();
        Placed { index: section.index().0, name, address: map(&code), code }
    };
    LINKED.map(place).into()
}

fn map(code: &[u8]) -> u64 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses new pages, as many as the code needs; no other code uses them.
    unsafe {
        let pages =
            rustix::mm::mmap_anonymous(ptr::null_mut(), code.len(), protection, MapFlags::PRIVATE)
                .unwrap();
        ptr::copy_nonoverlapping(code.as_ptr(), pages.cast(), code.len());
        rustix::mm::mprotect(pages, code.len(), MprotectFlags::READ | MprotectFlags::EXEC).unwrap();
        pages as u64
    }
}

fn unmap(section: &Placed) {
    // SAFETY: `map` has mapped these pages, and no thread calls the code in them any more.
    unsafe { rustix::mm::munmap(section.address as *mut _, section.code.len()).unwrap() };
}

/// Calls a function. Backtraces name the caller.
#[inline(never)]
fn call(functions: &[LinkedFunction<'_>], name: &str, argument: i64) -> i64 {
    let function = functions.iter().find(|function| function.name == name).unwrap();
    // SAFETY: the functions of the object have this type, need no relocations, and stay mapped.
    let function: extern "C" fn(i64) -> i64 =
        unsafe { std::mem::transmute(function.address as *const ()) };
    function(argument)
}

/// A folder with the compiled object.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// Creates a world; `None` if a tool is not installed, which is an error in CI.
    fn new(tools: &[&str]) -> Option<Self> {
        for tool in tools {
            if Command::new(tool).arg("--version").output().is_err() {
                assert!(env::var_os("CI").is_none(), "{tool} is not installed");
                eprintln!("skipped: {tool} is not installed");
                return None;
            }
        }
        let made = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        fs::write(made.path("linked.c"), SOURCE).unwrap();
        succeed(made.command("gcc").args(["-c", "-g", "-O0", "-ffunction-sections", "linked.c"]));
        Some(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command in the folder, without the user's settings.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("HOME", self.folder.path())
            .env_remove("DEBUGINFOD_URLS");
        command.env(OBJECT, self.path("linked.o")).env(JITDUMP, self.folder.path());
        command
    }

    fn gdb(&self, commands: &[&str]) -> String {
        let mut gdb = self.command("gdb");
        gdb.env(MODE, "gdb").args([
            "-nx",
            "-batch",
            "-ex",
            "set breakpoint pending on",
            "-ex",
            "set width 0",
        ]);
        for command in commands {
            gdb.args(["-ex", command]);
        }
        succeed(gdb.arg("--args").args(debuggee_command()))
    }

    /// Returns the program's output; `None` where the kernel does not let this user record.
    fn perf_record(&self, mode: &str) -> Option<String> {
        let record = ["record", "-k", "mono", "-e", "cpu-clock:u", "-o", "perf.data", "--"];
        let refused = self.command("perf").args(record).arg("true").output().unwrap();
        if !refused.status.success() {
            eprintln!("skipped: perf record: {}", text(&refused));
            return None;
        }
        Some(succeed(self.command("perf").env(MODE, mode).args(record).args(debuggee_command())))
    }

    fn perf_report(&self, data: &str) -> String {
        succeed(self.command("perf").args(["report", "--stdio", "-s", "dso,symbol", "-i", data]))
    }
}

fn debuggee_command() -> Vec<PathBuf> {
    let arguments =
        ["--exact", "tools::debuggers::debuggee", "--ignored", "--nocapture", "--test-threads=1"];
    [env::current_exe().unwrap()]
        .into_iter()
        .chain(arguments.map(|argument| Path::new(argument).into()))
        .collect()
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}
