//! Programs of clang 19 with LLVM's device runtime.

use super::{Check, LLVM, Setting, fixture, succeeded};
use longshore_format_amdgpu::CodeObject;
use longshore_tests::cuda::nvidia_tool;
use longshore_tests::doubled::{Doubled, twin};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang-19";
/// First bytes of an OffloadBinary.
const MAGIC: &[u8] = &[0x10, 0xff, 0x10, 0xad];
/// Prefix of the names of kernels and of variables with functions.
const PREFIX: &str = "__omp_offloading_";

pub(super) const CHECKS: &[Check] = &[
    ("all threads run the loop of a combined construct", combined_constructs),
    ("a team's main thread runs the serial parts of a region", generic_regions),
    ("each launch with a reduction over teams gets a new environment", reductions),
    ("variables and functions exist on both sides", globals),
    ("tasks copy and compute on two devices", tasks),
    ("programs get the driver's handles and copy between devices", handles),
    ("mapped memory is page-locked as the user wants it", page_locks),
];

/// Variables of all runs, whose values the device environment has.
const VARIABLES: &[(&str, &str)] = &[
    ("LIBOMPTARGET_DEVICE_RTL_DEBUG", "1"),
    ("LIBOMPTARGET_SHARED_MEMORY_SIZE", "512"),
    ("LIBOMPTARGET_INFO", "0x30"),
];

/// The results of a run.
struct Run {
    said: String,
    /// Lines of the twins.
    received: Vec<String>,
    /// Lines about copies.
    copies: Vec<String>,
    /// Lines about launches.
    launches: Vec<String>,
    program: PathBuf,
}

fn combined_constructs(setting: &Setting) {
    let Some(run) = run(setting, "saxpy") else { return };
    assert_eq!(run.said, "sum 1e+06\n");
    let count = |what: &str| run.copies.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("from host to device"), 2, "{:?}", run.copies);
    assert_eq!(count("from device to host"), 1, "{:?}", run.copies);
    if setting.is_double() {
        let shape = setting.by_vendor("16 64", "32 32");
        assert_eq!(run.received, [launch(shape), environment(setting, 0)]);
        check_printed_launch(setting, &run);
    }
}

fn generic_regions(setting: &Setting) {
    let Some(run) = run(setting, "generic") else { return };
    assert_eq!(run.said, "sums 2116 2180 2244\n");
    if setting.is_double() {
        assert_eq!(run.received, [launch("3 64"), environment(setting, 0)]);
    }
}

fn reductions(setting: &Setting) {
    let Some(run) = run(setting, "reduction") else { return };
    assert_eq!(run.said, "sums 12497500 12497500\n");
    if !setting.is_double() {
        return;
    }
    let shape = setting.by_vendor("16 256", "157 32");
    assert_eq!(run.received.len(), 6);
    for lines in run.received.chunks(3) {
        assert_eq!(lines[..2], [launch(shape), environment(setting, 0)]);
        let contents = lines[2].strip_prefix("received launch environment ").unwrap();
        // Two counters, and the address of the buffer.
        let (counters, buffer) = contents.split_at(16);
        assert_eq!(counters, "0".repeat(16));
        assert_ne!(buffer, "0".repeat(16));
    }
}

fn globals(setting: &Setting) {
    let Some(run) = run(setting, "globals") else { return };
    assert_eq!(run.said, "counter 36 results 27 37\n");
    if !setting.is_double() {
        return;
    }
    assert_eq!(run.received[0], launch(setting.by_vendor("1 256", "1 128")));
    // The table of functions has an address, and two entries.
    let expected = environment(setting, 0);
    let table = expected.len() - 48..expected.len() - 32;
    let mut received = run.received[1].clone();
    assert_ne!(received[table.clone()], expected[table.clone()]);
    received.replace_range(table, &"0".repeat(16));
    let mut expected = expected;
    let count = expected.len() - 32..expected.len() - 16;
    expected.replace_range(count, "0200000000000000");
    assert_eq!(received, expected);
}

fn tasks(setting: &Setting) {
    let Some(run) = run(setting, "asynchronous") else { return };
    let devices = run.said.lines().count();
    assert_eq!(run.said, "sum 35712\n".repeat(devices));
    let count = |what: &str| run.copies.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("from host to device"), devices, "{:?}", run.copies);
    assert_eq!(count("from device to host"), devices, "{:?}", run.copies);
    if setting.is_double() {
        let of_device = |device| [launch("8 32"), environment(setting, device)];
        let expected = [0, 0, 0, 0, 1, 1, 1, 1].map(of_device).concat();
        assert_eq!(run.received, expected);
    }
}

fn handles(setting: &Setting) {
    let Some(run) = run(setting, "handles") else { return };
    let (runtime, context) =
        setting.by_vendor(("hip 5 amd 1", "0 codes 0 1"), ("cuda 1 nvidia 11", "1 codes 0 0"));
    let expected = format!(
        "{runtime}\n\
         device 1 context {context}\n\
         streams 1 codes 0 0 0\n\
         completed 1 destroyed 1 ran 1\n\
         copied 1 failed 0\n\
         rectangle 0 9 19 0 failed 0\n\
         filled 7 32\n\
         of no allocation -1\n"
    );
    let devices = run.said.lines().count() / expected.lines().count();
    assert_eq!(run.said, expected.repeat(devices.max(1)));
}

fn page_locks(setting: &Setting) {
    const VARIABLE: &str = "LIBOMPTARGET_LOCK_MAPPED_HOST_BUFFERS";
    let Some(program) = prepared(setting, "saxpy").filter(|_| setting.is_double()) else { return };
    // The first page-lock fails.
    let function = setting.by_vendor("hipHostRegister", "cuMemHostRegister_v2");
    let failing = Doubled::with_twins(&format!("devices=2;fail={function}:1:2"));
    let failing = (setting.of.settings_variable(), &*failing);
    for (value, runs) in [("off", true), ("on", true), ("mandatory", false)] {
        let output = setting.run(&program, &[], &[(VARIABLE, value), failing]);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), runs, "{value}: {wrong}");
        assert_eq!(wrong.contains("HostRegister"), !runs, "{value}: {wrong}");
        succeeded(&setting.run(&program, &[], &[(VARIABLE, value)]));
    }
}

/// Checks the lines that LLVM's plugins print about a launch.
fn check_printed_launch(setting: &Setting, run: &Run) {
    let (teams, threads) = setting.by_vendor((16, 64), (32, 32));
    let sizes = format!(" with {teams} blocks and {threads} threads in SPMD mode");
    let launches = &run.launches;
    assert!(launches[0].starts_with("Launching kernel __omp_offloading_"), "{launches:?}");
    assert!(launches[0].ends_with(&sizes), "{launches:?}");
    let image = image(&std::fs::read(&run.program).expect("it was just made"));
    let described = CodeObject::read(&image).ok();
    let resources = described.iter().flat_map(|object| &object.kernels).map(|kernel| {
        format!(
            "#Args: {} Teams x Thrds:   16x  64 (MaxFlatWorkGroupSize: {}) LDS Usage: {}B \
             #SGPRs/VGPRs: {}/{} #SGPR/VGPR Spills: {}/{} Tripcount: 1000",
            kernel.arguments.len(),
            kernel.max_group_items.unwrap(),
            kernel.static_shared_bytes,
            kernel.scalar_registers.unwrap(),
            kernel.registers.unwrap(),
            kernel.spilled_scalar_registers.unwrap(),
            kernel.spilled_registers.unwrap(),
        )
    });
    assert_eq!(launches[1..], resources.collect::<Vec<_>>());
    assert_eq!(launches.len(), setting.by_vendor(2, 1));
}

/// Returns a twin's line about its launch.
fn launch(shape: &str) -> String {
    format!("received launch {shape}")
}

/// Returns a twin's line about the environment of a device: four numbers of 32 bits, four of 64
/// bits. The variables of the run and the double's two devices decide them.
fn environment(setting: &Setting, device: u32) -> String {
    let halves = [1, 2, device, 512];
    let clock = setting.by_vendor(100_000_000u64, 1_000_000_000);
    let parallelism = setting.by_vendor(128u64, 256);
    let halves = halves.iter().flat_map(|field: &u32| field.to_le_bytes());
    let words = [clock, 0, 0, parallelism];
    let bytes = halves.chain(words.iter().flat_map(|field| field.to_le_bytes()));
    let digits: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    format!("received environment {digits}")
}

/// Compiles a program and its twin, and runs the program. Returns `None`, and prints a line,
/// without a tool.
fn run(setting: &Setting, name: &str) -> Option<Run> {
    let program = prepared(setting, name)?;
    let (said, wrong) = succeeded(&setting.run(&program, &[], VARIABLES));
    let lines = |what: &str| {
        let lines = wrong.lines().filter(|line| line.contains(what));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    // Launch environments are copied, too.
    let mut copies = lines("Copying data");
    copies.retain(|line| !line.contains("KernelLaunchEnv"));
    let received = lines("received ");
    let mut launches = lines("\"PluginInterface\" device ");
    launches.retain(|line| !line.contains("Copying data"));
    let launches =
        launches.iter().filter_map(|line| Some(line.split_once(" info: ")?.1.to_owned()));
    Some(Run { said, received, copies, launches: launches.collect(), program })
}

/// Compiles a program and its twin.
fn prepared(setting: &Setting, name: &str) -> Option<PathBuf> {
    let program = compiled(setting, &fixture(&format!("{name}.c")))?;
    let image = image(&std::fs::read(&program).expect("it was just made"));
    let defined = definitions(&image);
    let options: Vec<_> = defined.iter().map(String::as_str).collect();
    twin(&image, &fixture(&format!("{name}.twin.c")), &options);
    Some(program)
}

/// Compiles a program for the CPU and a device.
fn compiled(setting: &Setting, source: &Path) -> Option<PathBuf> {
    let runtime = Path::new(LLVM).join("libomptarget.devicertl.a");
    if !runtime.is_file() {
        eprintln!("not tried: {} is not installed", runtime.display());
        return None;
    }
    let program = setting.folder.path().join("program");
    let mut command = Command::new(CLANG);
    if setting.arch.starts_with("sm_") {
        let Some(assembler) = nvidia_tool("ptxas") else {
            eprintln!("not tried: ptxas is not installed");
            return None;
        };
        // Clang looks for the assembler in the path.
        let folder = assembler.parent().unwrap_or(Path::new("")).display();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{folder}"));
    }
    command.args(["-O2", "-fopenmp", "-nogpulib"]).arg(format!("--offload-arch={}", setting.arch));
    command.arg(source).arg("-lomptarget.devicertl").arg("-o").arg(&program);
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", source.display());
    Some(program)
}

/// Returns the image in a program, without its container.
fn image(program: &[u8]) -> Vec<u8> {
    let start = program.windows(4).position(|bytes| bytes == MAGIC).expect("a container");
    let container = &program[start..];
    let word = |at: usize| u64::from_le_bytes(container[at..at + 8].try_into().unwrap()) as usize;
    let entry = word(16);
    let (at, bytes) = (word(entry + 24), word(entry + 32));
    container[at..at + bytes].to_vec()
}

/// Returns the twin's options, which name the kernel and the variables with functions.
fn definitions(image: &[u8]) -> Vec<String> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let words = image.split(|byte| !is_part(byte));
    let names = words.filter_map(|word| std::str::from_utf8(word).ok());
    let names = names.filter(|name| {
        let line = name.rsplit_once("_l").map_or("", |(_, line)| line);
        name.starts_with(PREFIX) && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
    });
    let define = |name: &str| match name {
        _ if name.contains("_twice_") => format!("-DTWICE={name}"),
        _ if name.contains("_thrice_") => format!("-DTHRICE={name}"),
        _ => format!("-DKERNEL={name}"),
    };
    names.collect::<BTreeSet<_>>().into_iter().map(define).collect()
}
