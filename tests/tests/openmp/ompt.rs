//! Events for tools. A tool (`tests/fixtures/openmp/tools/tool.c`) prints them; the lines are in
//! files beside its source. Where LLVM's library is installed, it must print the same for the same
//! executable, with the addresses of calls.
//!
//! LLVM's library differs in some events. With older callbacks, constructs that begin mappings have
//! no identity. A copy between devices is two copies, and small private arguments share one
//! allocation. Memory routines load no image.

use super::run::ours;
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::suites::Suite;
use longshore_tests::world::{host_plugin, root};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SUITE: Suite = Suite::new("ompt", trials);

/// The compiler, and the folder of its libomp and libomptarget.
const COMPILER: &str = "clang-19";
const LLVM: &str = "/usr/lib/llvm-19/lib";
const SECONDS: &str = "60";

type Outcome = Result<(), Failed>;

fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn(&World) -> Outcome| {
        Trial::ignorable_test(name, move || {
            let Some(world) = World::new()? else {
                return Ok(Completion::ignored_with("clang-19 or libomp-19-dev is not installed"));
            };
            run(&world).map(|()| Completion::Completed)
        })
    };
    vec![
        trial("a tool sees constructs as with LLVM's library", constructs),
        trial(
            "a tool with older callbacks sees constructs, each with an identity",
            older_constructs,
        ),
        trial("a tool sees memory routines as with LLVM's library", routines),
        trial("a tool sees a copy between devices as one operation", copies),
        trial("a tool of LLVM 23 sees fills, and the host as device -1", newer_libomp),
        trial("a tool inside the program sees the events of a loaded one", linked_tool),
        trial("a tool sees 4 devices from the start to the end", devices),
        trial("a tool sees devices come and go with a shared object", opened_and_closed),
        trial("a tool lives in a process whose backend is missing", missing_backend),
        trial("events of 8 threads are nested on each of them", threads),
        trial("a plugin gets the look-up function while there is a tool", plugin),
        trial("a program without a tool prints what it prints", no_tool),
    ]
}

/// A folder with compiled programs, and the folder with the library under its names.
struct World {
    folder: tempfile::TempDir,
    library: PathBuf,
}

/// The library that a program uses.
#[derive(Clone, Copy)]
enum Library {
    Ours,
    Llvm,
}

/// The tool of a program, and its callbacks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Absent,
    /// A shared library, with callbacks for both ends of each event.
    Loaded,
    /// A shared library, with callbacks of OpenMP 5.0.
    Older,
}

impl World {
    /// Creates a world; `None` without the compiler or its libraries.
    fn new() -> Result<Option<World>, Failed> {
        let has_compiler = Command::new(COMPILER).arg("--version").output().is_ok();
        if !has_compiler || !Path::new(LLVM).join("libomp.so").exists() {
            return Ok(None);
        }
        Ok(Some(World { folder: tempfile::tempdir()?, library: ours()? }))
    }

    /// Compiles sources of the fixtures to an executable or, with `-shared`, a library.
    fn compile(&self, sources: &[&str], flags: &[&str]) -> Result<PathBuf, Failed> {
        let made = self.folder.path().join(sources.join("+"));
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&made).args(flags);
        compiler.args(sources.iter().map(|source| fixture(source)));
        let output = compiler.output()?;
        match output.status.success() {
            true => Ok(made),
            false => Err(format!("{compiler:?}: {}", text(&output.stderr)).into()),
        }
    }

    /// Compiles a program with target regions for the CPU.
    fn program(&self, sources: &[&str]) -> Result<PathBuf, Failed> {
        let folder = format!("-L{LLVM}");
        let target = "-fopenmp-targets=x86_64-pc-linux-gnu";
        self.compile(sources, &["-fopenmp", target, &folder])
    }

    /// Runs a program to its end, and returns the lines that it prints.
    fn run(
        &self,
        program: &Path,
        library: Library,
        tool: Tool,
        variables: &[(&str, &str)],
    ) -> Result<Vec<String>, Failed> {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", SECONDS]).arg(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["LONGSHORE_", "LIBOMPTARGET_", "OMP_"].iter().any(|own| name.starts_with(own)) {
                command.env_remove(&*name);
            }
        }
        let path = match library {
            Library::Ours => format!("{}:{LLVM}", self.library.display()),
            Library::Llvm => LLVM.to_owned(),
        };
        command.env("LD_LIBRARY_PATH", path).env("LONGSHORE_BACKEND", "host");
        command.env("LONGSHORE_PLUGIN_PATH", host_plugin()).env("LONGSHORE_HOST_DEVICES", "4");
        if tool != Tool::Absent {
            let tool = self.compile(&["tool.c"], &["-shared", "-fPIC"])?;
            command.env("OMP_TOOL_LIBRARIES", tool);
        }
        if tool == Tool::Older {
            command.env("TOOL_OLDER", "1");
        }
        let output = command.envs(variables.iter().copied()).output()?;
        match output.status.success() {
            true => Ok(text(&output.stdout).lines().map(str::to_owned).collect()),
            false => {
                let (printed, errors) = (text(&output.stdout), text(&output.stderr));
                Err(format!("{command:?}: {}\n{printed}{errors}", output.status).into())
            }
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/openmp/tools").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares lines with those expected; the error shows the first difference.
fn compare<'a>(
    found: impl IntoIterator<Item = &'a str>,
    expected: impl IntoIterator<Item = &'a str>,
) -> Outcome {
    let (mut found, mut expected) = (found.into_iter(), expected.into_iter());
    for line in 1.. {
        match (found.next(), expected.next()) {
            (None, None) => break,
            (found, expected) if found == expected => {}
            (found, expected) => {
                let message = format!("line {line} is {found:?}, expected {expected:?}");
                return Err(message.into());
            }
        }
    }
    Ok(())
}

/// Compares lines with a file of the fixtures.
fn compare_with_file(found: &[String], file: &str) -> Outcome {
    let expected = std::fs::read_to_string(fixture(file))?;
    compare(found.iter().map(String::as_str), expected.lines()).map_err(|error| {
        format!("{file}: {}\n{}", error.message().unwrap_or_default(), found.join("\n")).into()
    })
}

/// Leaves out the lines about loaded images: memory routines of LLVM 19 load none.
fn without_loading(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(String::as_str).filter(|line| !line.contains(" loaded module "))
}

/// Returns a line without identities.
fn without_identities(line: &str) -> &str {
    line.split_once(" id=").map_or(line, |(rest, _)| rest)
}

/// Returns whether LLVM's library is installed.
fn has_llvm() -> bool {
    Path::new(LLVM).join("libomptarget.so.19.1").exists()
}

/// Runs a program with both libraries, and compares the events with their addresses of calls.
fn compare_with_llvm(world: &World, program: &Path, tool: Tool) -> Outcome {
    if !has_llvm() {
        return Ok(());
    }
    let code = [("TOOL_CODE", "1")];
    let ours = world.run(program, Library::Ours, tool, &code)?;
    let theirs = world.run(program, Library::Llvm, tool, &code)?;
    let (ours, theirs) = (without_loading(&ours), without_loading(&theirs));
    match tool {
        Tool::Older => compare(ours.map(without_identities), theirs.map(without_identities)),
        _ => compare(ours, theirs),
    }
}

fn constructs(world: &World) -> Outcome {
    let program = world.program(&["constructs.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Loaded, &[])?;
    compare_with_file(&found, "constructs.txt")?;
    compare_with_llvm(world, &program, Tool::Loaded)
}

fn older_constructs(world: &World) -> Outcome {
    let program = world.program(&["constructs.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Older, &[])?;
    compare_with_file(&found, "constructs.older.txt")?;
    compare_with_llvm(world, &program, Tool::Older)
}

fn routines(world: &World) -> Outcome {
    let program = world.program(&["routines.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Loaded, &[])?;
    compare_with_file(&found, "routines.txt")?;
    compare_with_llvm(world, &program, Tool::Loaded)?;
    compare_with_llvm(world, &program, Tool::Older)
}

fn copies(world: &World) -> Outcome {
    let program = world.program(&["copies.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Loaded, &[])?;
    compare_with_file(&found, "copies.txt")
}

fn newer_libomp(world: &World) -> Outcome {
    let folder = format!("-L{LLVM}");
    let target = "-fopenmp-targets=x86_64-pc-linux-gnu";
    let program = world.compile(&["newer.c"], &["-fopenmp", target, &folder, "-rdynamic"])?;
    let found = world.run(&program, Library::Ours, Tool::Absent, &[])?;
    let expected = [
        "operation 1: null:-1 -> null:0 bytes=4",
        "operation 8: null:-1 -> memory:0 bytes=4",
        "operation 3: memory:0 -> memory:-1 bytes=4",
        "operation 2: memory:-1 -> memory:0 bytes=4",
        "operation 5: memory:-1 -> memory:0 bytes=4",
        "operation 6: memory:-1 -> null:0 bytes=0",
        "operation 4: memory:0 -> null:-1 bytes=0",
        "x is 0",
    ];
    compare(found.iter().map(String::as_str), expected)
}

fn linked_tool(world: &World) -> Outcome {
    let program = world.program(&["constructs.c", "tool.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Absent, &[])?;
    compare_with_file(&found, "constructs.txt")?;
    compare_with_llvm(world, &program, Tool::Absent)
}

fn devices(world: &World) -> Outcome {
    let program = world.program(&["devices.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Loaded, &[])?;
    let devices = found.iter().filter(|line| line.starts_with("device ") || line.starts_with('#'));
    let expected = [
        "device 0 initialized: generic-64bit",
        "device 1 initialized: generic-64bit",
        "device 2 initialized: generic-64bit",
        "device 3 initialized: generic-64bit",
        "# device 2",
        "device 2 loaded module 0: ELF",
        "# device 0",
        "device 0 loaded module 0: ELF",
        "# device 2",
        "# end",
        "device 0 finalized",
        "device 1 finalized",
        "device 2 finalized",
        "device 3 finalized",
    ];
    compare(devices.map(String::as_str), expected)?;
    compare_with_llvm(world, &program, Tool::Loaded)
}

fn opened_and_closed(world: &World) -> Outcome {
    let regions = ["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu", "-shared", "-fPIC"];
    let part = world.compile(&["opened_part.c"], &[&regions[..], &["-L", LLVM]].concat())?;
    let program = world.compile(&["opened.c"], &[])?;
    let part = [("PART", part.to_str().ok_or("a path that is no text")?)];
    let found = world.run(&program, Library::Ours, Tool::Loaded, &part)?;
    let of = |device: usize, event: &str| format!("device {device} {event}");
    let of_each = |event: &'static str| (0..4).map(move |device| of(device, event));
    let mut expected = Vec::new();
    for round in 0..2 {
        expected.push("# open".to_owned());
        expected.extend(of_each("initialized: generic-64bit"));
        expected.extend([format!("# device {round}"), of(round, "loaded module 0: ELF")]);
        expected.push("# close".to_owned());
        expected.extend(of_each("finalized"));
    }
    let devices = found.iter().filter(|line| line.starts_with("device ") || line.starts_with('#'));
    compare(devices.map(String::as_str), expected.iter().map(String::as_str))?;
    if !has_llvm() {
        return Ok(());
    }
    let theirs = world.run(&program, Library::Llvm, Tool::Loaded, &part)?;
    compare(found.iter().map(String::as_str), theirs.iter().map(String::as_str))
}

fn missing_backend(world: &World) -> Outcome {
    // libomp asks for the number of devices while it starts the tool.
    let program = world.program(&["devices.c"])?;
    let missing = [("LONGSHORE_BACKEND", "missing")];
    let found = world.run(&program, Library::Ours, Tool::Loaded, &missing)?;
    let expected = ["# device 2", "# device 0", "# device 2", "# end", "tool finalized"];
    compare(found.iter().map(String::as_str), expected)
}

fn threads(world: &World) -> Outcome {
    let program = world.program(&["threads.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Absent, &[])?;
    let expected = "regions 1600 copies 3200 launches 1600 errors 0 wrong 0";
    compare(found.iter().map(String::as_str), [expected])
}

fn plugin(world: &World) -> Outcome {
    let program = world.program(&["plugin.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Loaded, &[])?;
    let lines = found.iter().map(String::as_str);
    let lines = lines.filter(|line| line.contains("plugin") || line.starts_with("tool"));
    let expected = [
        "plugin initialized: device 0, data 0, callback 1",
        "tool finalized",
        "plugin finalized: data 0",
    ];
    compare(lines, expected)?;
    let found = world.run(&program, Library::Ours, Tool::Absent, &[])?;
    compare(found.iter().map(String::as_str), ["x is 1"])
}

fn no_tool(world: &World) -> Outcome {
    let program = world.program(&["constructs.c"])?;
    let found = world.run(&program, Library::Ours, Tool::Absent, &[])?;
    match found.iter().find(|line| !line.starts_with('#')) {
        None if found.len() > 10 => Ok(()),
        line => Err(format!("{} lines, with {line:?}", found.len()).into()),
    }
}
