//! Texts for users: information, debug lines, profiles, errors. Where LLVM's library is installed,
//! it must print the same for the same executable.

use super::run::ours;
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::suites::Suite;
use longshore_tests::world::{host_plugin, root};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const SUITE: Suite = Suite::new("information", trials);

const COMPILER: &str = "clang-19";
const LLVM: &str = "/usr/lib/llvm-19/lib";
const SECONDS: &str = "60";
/// The programs whose information must be LLVM's.
const PROGRAMS: [&str; 8] =
    ["maps.c", "data.c", "hold.c", "usm.c", "globals.c", "nowait.c", "structs.c", "tables.c"];
/// The failing constructs of `failures.c`.
const FAILURES: [&str; 8] = [
    "present",
    "present part",
    "present update",
    "present end",
    "extension",
    "data extension",
    "device",
    "data device",
];

type Outcome = Result<(), Failed>;

/// The place of a fault in a team's thread.
const TEAM: &str = ", in a thread that the kernel started, at ";
const FATAL: &str = "failure of target construct while offloading is mandatory";

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
        trial("information of all kinds is LLVM's, line by line", information),
        trial("information without names and lines is LLVM's", without_lines),
        trial("failures are explained in LLVM's words", failures),
        trial("a program of clang 22 gets the launches of LLVM 22", recent_launches),
        trial("a variable has sections attach mapped pointers", attachment),
        trial("a fault names its kernel and the line of the region", fault),
        trial("debug lines have arguments, copies and the log", debug_lines),
        trial("a profile has the sections of LLVM's", profile),
        trial("the entries of a device's images are listed", entries),
        trial("an error without a device says why", no_device),
        trial("without a device the policy decides", policy),
        trial("while offloading is disabled the host is the only device", disabled),
        trial("the program of the page runs as the page says", page),
    ]
}

/// A folder with compiled programs, and the folder with the library under its names.
struct World {
    folder: tempfile::TempDir,
    library: PathBuf,
}

/// The texts of a program that ended.
struct Printed {
    output: String,
    errors: String,
    has_succeeded: bool,
}

impl World {
    /// Creates a world; `None` without the compiler or its libraries.
    fn new() -> Result<Option<World>, Failed> {
        let has_compiler = Command::new(COMPILER).arg("--version").output().is_ok();
        if !has_compiler || !Path::new(LLVM).join("libomptarget.so").exists() {
            return Ok(None);
        }
        Ok(Some(World { folder: tempfile::tempdir()?, library: ours()? }))
    }

    /// Compiles a program with target regions for the CPU.
    fn compile(&self, compiler: &str, source: &Path, flags: &[&str]) -> Result<PathBuf, Failed> {
        let made = self.folder.path().join("program");
        let mut command = Command::new(compiler);
        command.args(["-O1", "-w", "-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"]);
        command.args(flags).arg(format!("-L{LLVM}")).arg(source).arg("-o").arg(&made);
        let output = command.output()?;
        match output.status.success() {
            true => Ok(made),
            false => Err(format!("{command:?}: {}", text(&output.stderr)).into()),
        }
    }

    fn program(&self, name: &str) -> Result<PathBuf, Failed> {
        self.compile(COMPILER, &fixture(name), &["-g"])
    }

    /// Runs a program on our library.
    fn ours(&self, program: &Path, variables: &[(&str, &str)]) -> Result<Printed, Failed> {
        let path = format!("{}:{LLVM}", self.library.display());
        let plugin = host_plugin().display().to_string();
        let own = [
            ("LD_LIBRARY_PATH", &*path),
            ("LONGSHORE_BACKEND", "host"),
            ("LONGSHORE_PLUGIN_PATH", &*plugin),
            ("LONGSHORE_HOST_DEVICES", "4"),
        ];
        run(program, &[], &[&own, variables].concat())
    }

    /// Runs a program on our library and on LLVM's, and compares all that they print.
    fn compare(&self, program: &Path, arguments: &[&str], level: &str) -> Outcome {
        let path = format!("{}:{LLVM}", self.library.display());
        let plugin = host_plugin().display().to_string();
        let level = ("LIBOMPTARGET_INFO", level);
        let ours = [
            ("LD_LIBRARY_PATH", &*path),
            ("LONGSHORE_PLUGIN_PATH", &*plugin),
            ("LONGSHORE_BACKEND", "host"),
            ("LONGSHORE_HOST_DEVICES", "4"),
            level,
        ];
        let ours = run(program, arguments, &ours)?;
        let llvms = run(program, arguments, &[("LD_LIBRARY_PATH", LLVM), level])?;
        let found = [normal(&ours.errors), normal(&ours.output)].concat();
        let expected = [normal(&llvms.errors), normal(&llvms.output)].concat();
        for index in 0..found.len().max(expected.len()) {
            let (found, expected) = (found.get(index), expected.get(index));
            if found != expected {
                let place = format!("{}, {arguments:?}, {level:?}", program.display());
                let message = format!("{place}: line {index} is {found:?}, expected {expected:?}");
                return Err(message.into());
            }
        }
        match ours.has_succeeded == llvms.has_succeeded {
            true => Ok(()),
            false => Err(format!("{arguments:?}: one program failed").into()),
        }
    }
}

/// Runs a program to its end, with these variables alone of the libraries' own.
fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Printed, Failed> {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", SECONDS]).arg(program).args(arguments);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let own = ["LONGSHORE_", "LIBOMPTARGET_", "OMP_", "OMPTARGET_"];
        if own.iter().any(|own| name.starts_with(own)) {
            command.env_remove(&*name);
        }
    }
    let ended = command.envs(variables.iter().copied()).output()?;
    Ok(Printed {
        output: text(&ended.stdout),
        errors: text(&ended.stderr),
        has_succeeded: ended.status.success(),
    })
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/openmp/information").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn expect(condition: bool, printed: &str) -> Outcome {
    if condition { Ok(()) } else { Err(printed.to_owned().into()) }
}

/// Returns the lines of a text with names in place of addresses: a number for each address of the
/// host, the alignment of each address of a device.
fn normal(text: &str) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    let mut mapped: HashSet<String> = HashSet::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut parts = line.split("0x0000");
        let mut normal = parts.next().unwrap_or_default().to_owned();
        let mut has_host = None;
        for part in parts {
            let (address, rest) = part.split_at(part.len().min(12));
            let is_target = ["TgtPtr=", "TgtPtrBegin=", "TgtAllocBegin="]
                .iter()
                .any(|label| normal.ends_with(label))
                || (has_host.is_some() && normal.ends_with(' '));
            if normal.ends_with("HstPtrBegin=") {
                mapped.insert(address.to_owned());
            }
            let is_temporary = normal.ends_with(" HstPtr=") && !mapped.contains(address);
            normal += &match () {
                () if is_target && has_host.as_deref() == Some(address) => "same".to_owned(),
                () if is_target => format!("T{}", u64::from_str_radix(address, 16).unwrap() % 8),
                () if is_temporary => "temporary".to_owned(),
                () => format!("H{}", number_of(&mut hosts, address)),
            };
            if !is_target {
                has_host = Some(address.to_owned());
            }
            normal += rest;
        }
        lines.push(normal);
    }
    lines
}

fn number_of(hosts: &mut Vec<String>, address: &str) -> usize {
    hosts.iter().position(|known| known == address).unwrap_or_else(|| {
        hosts.push(address.to_owned());
        hosts.len() - 1
    })
}

fn information(world: &World) -> Outcome {
    for name in PROGRAMS {
        let program = world.program(name)?;
        world.compare(&program, &[], "-1")?;
        // Each kind alone too, where all kinds occur.
        let kinds: &[&str] = &["1", "2", "4", "8", "16", "32", "64"];
        for kind in if name == "data.c" { kinds } else { &[] } {
            world.compare(&program, &[], kind)?;
        }
    }
    Ok(())
}

fn without_lines(world: &World) -> Outcome {
    for name in ["maps.c", "structs.c"] {
        let program = world.compile(COMPILER, &fixture(name), &[])?;
        world.compare(&program, &[], "-1")?;
    }
    Ok(())
}

fn failures(world: &World) -> Outcome {
    let program = world.program("failures.c")?;
    for failure in FAILURES {
        world.compare(&program, &[failure], "0")?;
        world.compare(&program, &[failure], "-1")?;
    }
    let program = world.compile(COMPILER, &fixture("failures.c"), &[])?;
    world.compare(&program, &["present"], "4")
}

/// Compiles a program with clang 22; `None` without this compiler.
fn recent(world: &World, name: &str) -> Result<Option<PathBuf>, Failed> {
    let compiler = "clang-22";
    if Command::new(compiler).arg("--version").output().is_err() {
        println!("{compiler} is not installed; its programs were not tried");
        return Ok(None);
    }
    world.compile(compiler, &fixture(name), &["-g"]).map(Some)
}

fn recent_launches(world: &World) -> Outcome {
    let Some(program) = recent(world, "maps.c")? else { return Ok(()) };
    let printed = world.ours(&program, &[("LIBOMPTARGET_INFO", "16")])?.errors;
    let shape = "with [1,1,1] blocks and [1,1,1] threads in Generic mode";
    let launches = printed.lines().filter(|line| line.starts_with("\"PluginInterface\" device 0"));
    expect(launches.filter(|line| line.ends_with(shape)).count() == 6, &printed)
}

fn attachment(world: &World) -> Outcome {
    let Some(program) = recent(world, "attach.c")? else { return Ok(()) };
    let name = "LIBOMPTARGET_TREAT_ATTACH_AUTO_AS_ALWAYS";
    for (value, expected) in [("0", "0\n"), ("1", "1\n"), ("true", "1\n")] {
        let printed = world.ours(&program, &[(name, value)])?;
        expect(printed.output == expected, &printed.output)?;
    }
    Ok(())
}

fn fault(world: &World) -> Outcome {
    let cases = [("fault.c", "main_l4", "", "4:1"), ("team_fault.c", "main_l5", TEAM, "5:1")];
    for (name, kernel, thread, place) in cases {
        let printed = world.ours(&world.program(name)?, &[])?;
        let parts = [
            "omptarget error: kernel '__omp_offloading_",
            &*format!(
                "{kernel}': segmentation fault writing 0x0, next to the null pointer{thread}"
            ),
            "omptarget error: Executing target region abort target.",
            &*format!("{name}:{place}: omptarget fatal error 1: {FATAL}"),
            "[SIGSEGV 11]",
        ];
        let is_told = parts.iter().all(|part| printed.errors.contains(part));
        expect(is_told && !printed.has_succeeded, &printed.errors)?;
    }
    Ok(())
}

fn debug_lines(world: &World) -> Outcome {
    let program = world.program("structs.c")?;
    let variables = [("LIBOMPTARGET_DEBUG", "1"), ("LIBOMPTARGET_JIT_OPT_LEVEL", "3")];
    let printed = world.ours(&program, &variables)?;
    let parts = [
        "omptarget --> Init offload library!",
        "omptarget --> Entry  0: Base=0x",
        "omptarget --> Moving 80 bytes (hst:0x",
        "bytes (tgt:0x",
        "omptarget --> Update pointer (0x",
        "omptarget --> Launching target execution __omp_offloading_",
        "omptarget --> loop trip count is 0.",
        "PluginInterface --> Launching kernel __omp_offloading_",
        "omptarget --> warning: the variable LIBOMPTARGET_JIT_OPT_LEVEL has no effect",
        "\nLongshore --> ",
        "omptarget --> Deinit offload library!",
    ];
    for part in parts {
        expect(printed.errors.contains(part), &format!("without {part:?}:\n{}", printed.errors))?;
    }
    let silent = world.ours(&program, &[("LIBOMPTARGET_DEBUG", "0")])?;
    expect(silent.errors.is_empty() && silent.output == printed.output, &silent.errors)
}

/// Returns the names and details of a profile's events that both libraries record.
fn events(file: &Path) -> Result<BTreeSet<String>, Failed> {
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let events = trace["traceEvents"].as_array().ok_or("a trace has events")?;
    let mut found = BTreeSet::new();
    for event in events {
        let name = event["name"].as_str().unwrap_or_default();
        let is_of_one = ["omp_get_", "PluginManager"].iter().any(|part| name.contains(part));
        if !is_of_one {
            let detail = if name.starts_with("Total") { "" } else { &*event["args"].to_string() };
            found.insert(format!("{name} {} {detail}", event["ph"]));
        }
    }
    Ok(found)
}

fn profile(world: &World) -> Outcome {
    let program = world.program("maps.c")?;
    let files = ["ours.json", "llvm.json"].map(|name| world.folder.path().join(name));
    let names = files.each_ref().map(|file| file.display().to_string());
    let all = ("LIBOMPTARGET_PROFILE_GRANULARITY", "0");
    world.ours(&program, &[("LIBOMPTARGET_PROFILE", &names[0]), all])?;
    let llvm = [("LD_LIBRARY_PATH", LLVM), ("LIBOMPTARGET_PROFILE", &*names[1]), all];
    run(&program, &[], &llvm)?;
    let (ours, llvms) = (events(&files[0])?, events(&files[1])?);
    expect(ours == llvms && ours.len() > 20, &format!("{ours:#?}\n{llvms:#?}"))
}

fn entries(world: &World) -> Outcome {
    let program = world.program("globals.c")?;
    let printed = world.ours(&program, &[("OMPTARGET_DUMP_OFFLOAD_ENTRIES", "0")])?.errors;
    let mut lines = printed.lines();
    expect(lines.next() == Some("Device 0 offload entries:"), &printed)?;
    let rest: BTreeSet<&str> = lines.collect();
    let named =
        ["  global var.: counter", "  global var.: table", "         link: large_decl_tgt_ref_ptr"];
    let kernels = rest.iter().filter(|line| line.starts_with("       kernel: __omp_offloading_"));
    expect(named.iter().all(|line| rest.contains(line)) && kernels.count() == 3, &printed)?;
    let other = world.ours(&program, &[("OMPTARGET_DUMP_OFFLOAD_ENTRIES", "1")])?.errors;
    expect(other.is_empty(), &other)
}

fn no_device(world: &World) -> Outcome {
    let program = world.program("host.c")?;
    let cases = [
        ("LONGSHORE_DEVICES", "!host:*", "excludes all devices"),
        ("LONGSHORE_BACKEND", "kuda", "there is no plugin for backend 'kuda'"),
    ];
    for (name, value, reason) in cases {
        let variables = [("OMP_TARGET_OFFLOAD", "MANDATORY"), (name, value)];
        let printed = world.ours(&program, &variables)?;
        let first = printed.errors.lines().next().unwrap_or_default();
        let is_told = first.starts_with("omptarget error: no device: ")
            && printed.errors.contains("'longshore plugins -v'");
        let has_reason = printed.errors.contains(reason);
        expect(is_told && has_reason && !printed.has_succeeded, &printed.errors)?;
    }
    Ok(())
}

fn policy(world: &World) -> Outcome {
    let program = world.program("host.c")?;
    let without = ("LONGSHORE_DEVICES", "!host:*");
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("OMP_TARGET_OFFLOAD", "DEFAULT")], "devices: 1, on a device: 1\n"),
        (&[("OMP_TARGET_OFFLOAD", "MANDATORY")], "devices: 1, on a device: 1\n"),
        (&[("OMP_TARGET_OFFLOAD", "DISABLED")], "devices: 0, on a device: 0\n"),
        (&[without], "devices: 0, on a device: 0\n"),
    ];
    for (variables, expected) in cases {
        let printed = world.ours(&program, variables)?;
        let is_silent = printed.errors.is_empty() || variables == [without];
        expect(printed.output == expected && is_silent, &printed.errors)?;
    }
    let misspelt = world.ours(&program, &[("LONGSHORE_BACKEND", "kuda")])?;
    let message = "omptarget message: target regions run on the host: there is no plugin for \
                   backend 'kuda'";
    let is_told = misspelt.errors.contains(message);
    expect(is_told && misspelt.output == "devices: 0, on a device: 0\n", &misspelt.errors)
}

fn disabled(world: &World) -> Outcome {
    let program = world.program("disabled.c")?;
    let printed = world.ours(&program, &[("OMP_TARGET_OFFLOAD", "DISABLED")])?;
    let is_silent = printed.has_succeeded && printed.errors.is_empty();
    let expected = "devices: 0, host: 0, on the host: 1, value: 7\n";
    expect(is_silent && printed.output == expected, &(printed.output + &printed.errors))
}

fn page(world: &World) -> Outcome {
    let page = std::fs::read_to_string(root().join("docs/openmp.md"))?;
    let program = page.split_once("```c\n").and_then(|(_, rest)| rest.split_once("```"));
    let (program, _) = program.ok_or("the page has a program")?;
    let promised =
        page.split_once("The program prints `").and_then(|(_, rest)| rest.split_once('`'));
    let (promised, _) = promised.ok_or("the page has the program's output")?;
    let source = world.folder.path().join("first.c");
    std::fs::write(&source, program)?;
    let program = world.compile(COMPILER, &source, &["-g"])?;
    let printed = world.ours(&program, &[("LONGSHORE_HOST_DEVICES", "1")])?;
    expect(printed.output.trim_end() == promised, &printed.output)
}
