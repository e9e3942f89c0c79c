//! `longshore cc`, with the installed compilers.

use crate::support::{Outcome, alone, command, install, outcome};
use longshore::{ContainerEntry, Image, ImageKind};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SAXPY: &str = r#"
#include <longshore_device.h>
#ifndef BASE
#define BASE 0
#endif
LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i] + BASE;
}
"#;

/// Two sources: the kernel, in C++, calls `twice` of the second source, in C.
const CALLER: &str = r#"
#include <longshore_device.h>
#include "twice.h"
template <class T> LONGSHORE_FUNCTION_ATTRIBUTE T both(T x) { return twice(x); }
LONGSHORE_KERNEL(doubled, (float *x)) { x[longshore_global_id(0)] = both(x[longshore_global_id(0)]); }
"#;
const CALLED: &str =
    "#include \"twice.h\"\nLONGSHORE_FUNCTION_ATTRIBUTE float twice(float x) { return 2 * x; }\n";
/// A declaration of `twice` for older compilers too, which take both sources as CUDA or HIP.
const DECLARATION: &str = r#"
#if defined(__CUDA__) || defined(__HIP__)
#define LONGSHORE_FUNCTION_ATTRIBUTE __attribute__((device))
#else
#define LONGSHORE_FUNCTION_ATTRIBUTE
#endif
#ifdef __cplusplus
extern "C"
#endif
LONGSHORE_FUNCTION_ATTRIBUTE float twice(float);
"#;

const ALL: &str = "host,aarch64,nvptx64:sm_80,amdgcn:gfx90a:xnack-:sramecc+";

/// Returns the installed compilers that have all tools, among the versions known to differ.
fn compilers() -> Vec<String> {
    let is_there = |version: &&str| {
        let tools = ["clang", "ld.lld", "llvm-link"].map(|tool| format!("{tool}-{version}"));
        tools.iter().all(|tool| is_installed(tool))
    };
    let (there, missing): (Vec<&str>, Vec<&str>) =
        ["14", "16", "19", "22"].into_iter().partition(is_there);
    if !missing.is_empty() {
        println!("not tested, because not installed: clang, lld, llvm {}", missing.join(", "));
    }
    there.iter().map(|version| format!("clang-{version}")).collect()
}

fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns whether a tool is installed; prints its name if not.
fn has(tool: &str) -> bool {
    let has = is_installed(tool);
    if !has {
        println!("not tested, because not installed: {tool}");
    }
    has
}

/// A folder with sources, the command's current folder, and a folder for its temporary files.
struct World {
    folder: TempDir,
    temporary: TempDir,
}

impl World {
    /// Creates the folders; `None` without a compiler.
    fn new() -> Option<World> {
        if compilers().is_empty() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("saxpy.c", SAXPY),
            ("caller.cpp", CALLER),
            ("called.c", CALLED),
            ("twice.h", DECLARATION),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Some(World { folder, temporary: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = command();
        command.current_dir(self.folder.path()).env("TMPDIR", self.temporary.path());
        command.args(arguments.split_whitespace());
        command
    }

    /// Runs `longshore cc ARGUMENTS`, and asserts that no temporary file is left.
    fn cc(&self, arguments: &str) -> Outcome {
        let made = outcome(&mut self.command(&format!("cc {arguments}")));
        assert_eq!(fs::read_dir(self.temporary.path()).unwrap().count(), 0, "{arguments}");
        made
    }

    fn entries(&self, name: &str) -> Vec<ContainerEntry> {
        Image::read(self.path(name)).unwrap().entries().unwrap().expect("a container")
    }

    /// Runs kernel `saxpy` with a buffer of ones, and returns the line with its result.
    fn run_saxpy(&self, image: &str) -> String {
        let arguments = "-i 4 -a u64=4 -a f32=2.5 -a f32[4]=iota -a out:f32[4]=one";
        let ran = outcome(&mut self.command(&format!("run {image} -k saxpy {arguments}")));
        ran.assert_succeeds();
        ran.stdout.lines().find(|line| line.starts_with("argument 3")).unwrap().to_owned()
    }

    /// Creates a folder of programs that are shell scripts.
    fn scripts(&self, scripts: &[(&str, &str)]) -> PathBuf {
        let folder = self.path("bin");
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in scripts {
            let source = self.path("script");
            fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
            install(&source, &folder.join(name));
        }
        folder
    }
}

fn text(entry: &ContainerEntry) -> String {
    String::from_utf8_lossy(entry.image.bytes()).into_owned()
}

/// Returns the machine number of an ELF file.
fn machine(entry: &ContainerEntry) -> u8 {
    let bytes = entry.image.bytes();
    assert_eq!(&bytes[..4], b"\x7fELF");
    bytes[18]
}

#[test]
fn every_clang_compiles_for_every_target_into_one_container() {
    const AARCH64: u8 = 183;
    const AMDGPU: u8 = 224;
    let Some(world) = World::new() else { return };
    for clang in compilers() {
        let arguments = format!("saxpy.c -Wall -Wextra -t {ALL} --clang {clang} -o {clang}.img");
        world.cc(&arguments).assert_succeeds();
        let entries = world.entries(&format!("{clang}.img"));
        let said: Vec<_> =
            entries.iter().map(|entry| (entry.triple.as_str(), entry.image_kind)).collect();
        let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let expected = [
            (own.as_str(), ImageKind::Object),
            ("aarch64-unknown-linux-gnu", ImageKind::Object),
            ("nvptx64-nvidia-cuda", ImageKind::Ptx),
            ("amdgcn-amd-amdhsa", ImageKind::Object),
        ];
        assert_eq!(said, expected, "{clang}");
        assert_eq!(machine(&entries[1]), AARCH64);
        assert_eq!((&*entries[1].arch, &*entries[2].arch), ("armv8-a", "sm_80"));
        let ptx = text(&entries[2]);
        assert!(ptx.contains(".entry saxpy(") && ptx.contains(".target sm_80"), "{clang}: {ptx}");
        assert_eq!(entries[3].arch, "gfx90a:sramecc+:xnack-");
        assert_eq!(machine(&entries[3]), AMDGPU);
        assert!(text(&entries[3]).contains("saxpy.kd"), "{clang}");
        assert!(world.run_saxpy(&format!("{clang}.img")).ends_with("= 1, 3.5, 6, 8.5"), "{clang}");
    }
}

#[test]
fn sources_of_one_image_call_each_other_on_every_target() {
    let Some(world) = World::new() else { return };
    for clang in compilers() {
        let arguments = format!("caller.cpp called.c -std=c++17 -std=c11 --clang {clang}");
        world.cc(&format!("{arguments} -t {ALL}")).assert_succeeds();
        let ptx = text(&world.entries("caller.img")[2]);
        assert!(ptx.contains(".entry doubled(") && !ptx.contains(".extern"), "{clang}: {ptx}");
        let run = "run caller.img -k doubled -i 4 -a out:f32[4]=iota";
        let ran = outcome(&mut world.command(run));
        ran.assert_succeeds();
        assert!(ran.stdout.contains("= 0, 2, 4, 6\n"), "{clang}: {}", ran.stdout);
    }
}

#[test]
fn functions_that_kernels_call_are_not_kernels() {
    let Some(world) = World::new() else { return };
    world.write(
        "sorted.cpp",
        "#include <algorithm>\n#include <longshore_device.h>\n\
         LONGSHORE_GLOBAL uint64_t hits = 7;\nint helper(int x) { return x; }\n\
         LONGSHORE_KERNEL(sorted, (int *x, uint32_t n)) {\n\
           (void)longshore_self; std::sort(x, x + n); hits += helper(1);\n}\n",
    );
    for clang in compilers() {
        world.cc(&format!("caller.cpp called.c -t host --clang {clang}")).assert_succeeds();
        let ran = outcome(&mut world.command("run caller.img -i 4 -a out:f32[4]=iota"));
        ran.assert_succeeds();
        assert!(ran.stdout.contains("= 0, 2, 4, 6\n"), "{clang}: {}", ran.stdout);
        world.cc(&format!("sorted.cpp -t host --clang {clang}")).assert_succeeds();
        let ran = outcome(&mut world.command("run sorted.img -a out:i32[3]=3,1,2 -a u32=3"));
        ran.assert_succeeds();
        assert!(ran.stdout.contains("= 1, 2, 3\n"), "{clang}: {}", ran.stdout);
        let listed = outcome(&mut world.command("run sorted.img --list"));
        let names: Vec<_> = listed.stdout.lines().skip(1).map(|line| line.to_owned()).collect();
        let count = |kind: &str| names.iter().filter(|line| line.contains(kind)).count();
        assert_eq!((count("kernel"), count("global")), (1, 1), "{clang}: {}", listed.stdout);
        assert!(listed.stdout.contains("hits"), "{clang}: {}", listed.stdout);
        let shown = outcome(&mut world.command("inspect sorted.img --json"));
        let report: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        let text = report.to_string();
        assert!(text.contains("\"sorted\"") && !text.contains("\"name\":\"_Z"), "{clang}: {text}");
    }
}

#[test]
fn llvms_packager_reads_the_container() {
    if !has("clang-offload-packager-19") {
        return;
    }
    let Some(world) = World::new() else { return };
    world.cc("saxpy.c -t host,nvptx64:sm_80").assert_succeeds();
    world.cc("saxpy.c -t nvptx64:sm_80 --raw").assert_succeeds();
    let mut packager = Command::new("clang-offload-packager-19");
    packager.arg(world.path("saxpy.img"));
    packager.arg("--image=file=extracted,triple=nvptx64-nvidia-cuda,arch=sm_80");
    assert!(packager.current_dir(world.folder.path()).status().unwrap().success());
    let plain = fs::read(world.path("saxpy.ptx")).unwrap();
    assert_eq!(fs::read(world.path("extracted")).unwrap(), plain);
}

#[test]
fn the_same_sources_give_the_same_file() {
    let Some(world) = World::new() else { return };
    for output in ["one.img", "other.img"] {
        world.cc(&format!("caller.cpp called.c -g -t {ALL} -o {output}")).assert_succeeds();
    }
    assert!(fs::read(world.path("one.img")).unwrap() == fs::read(world.path("other.img")).unwrap());
}

#[test]
fn options_of_clang_reach_it() {
    let Some(world) = World::new() else { return };
    world.cc("saxpy.c -DBASE=10 -o base.img").assert_succeeds();
    assert!(world.run_saxpy("base.img").ends_with("= 11, 13.5, 16, 18.5"));
    fs::create_dir(world.path("include")).unwrap();
    fs::rename(world.path("twice.h"), world.path("include/twice.h")).unwrap();
    world.cc("caller.cpp called.c -I include -o included.img").assert_succeeds();
    world.cc("called.c -Iinclude --raw -- -Xclang -disable-O0-optnone").assert_succeeds();
    assert!(world.path("called.o").is_file());
    let optimised = world.cc("saxpy.c -v");
    assert!(optimised.stderr.contains("\"-O3\""), "{}", optimised.stderr);
    let chosen = world.cc("saxpy.c -v -O1 -x c++");
    assert!(!chosen.stderr.contains("\"-O3\"") && chosen.stderr.contains("\"-O1\""));
    assert!(chosen.stderr.contains("\"c++\""), "{}", chosen.stderr);
}

#[test]
fn checks_are_missed_in_an_image_without_them() {
    let Some(world) = World::new() else { return };
    let arguments = "-k saxpy -i 4 -a u64=4 -a f32=2.5 -a f32[4]=iota -a out:f32[4]=one";
    for (options, is_warned) in [("", true), ("--raw", true), ("--check", false)] {
        world.cc(&format!("saxpy.c {options} -o saxpy.img")).assert_succeeds();
        for lazily in ["", "--lazy"] {
            let run = format!("run --check {lazily} saxpy.img {arguments}");
            let ran = outcome(&mut world.command(&run));
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            let says = ran.stderr.contains("longshore cc --check");
            assert_eq!(says, is_warned, "{options} {lazily}: {}", ran.stderr);
        }
    }
}

#[test]
fn the_compiler_is_the_users_choice() {
    let Some(world) = World::new() else { return };
    for clang in compilers() {
        let mut from_environment = world.command("cc saxpy.c -v");
        let made = outcome(from_environment.env("LONGSHORE_CLANG", &clang));
        assert!(made.stderr.contains(&format!("{clang}\"")), "{}", made.stderr);
        let mut given = world.command(&format!("cc saxpy.c -v --clang {clang}"));
        let made = outcome(given.env("LONGSHORE_CLANG", "/nosuch"));
        assert!(made.stderr.contains(&format!("{clang}\"")), "{}", made.stderr);
    }
    world.cc("saxpy.c --clang nosuch").assert_fails(3, &["error: ", "'nosuch'", "hint: "]);
    let bin = world.scripts(&[("old", "echo clang version 13.0.1"), ("other", "echo gcc 12")]);
    let of = |name: &str| world.cc(&format!("saxpy.c --clang {}", bin.join(name).display()));
    of("old").assert_fails(3, &["clang 13.0.1, expected 14 or later"]);
    of("other").assert_fails(3, &["is not clang: its --version prints 'gcc 12'"]);
}

#[test]
fn missing_tools_are_named_with_what_to_install() {
    let Some(world) = World::new() else { return };
    let clang = which(&compilers().pop().unwrap());
    // A script has no tools beside it, like a compiler installed alone.
    let bin = world.scripts(&[("clang", &format!("exec {} \"$@\"", clang.display()))]);
    let with_path = |path: &Path, arguments: &str| {
        let mut command = world.command(&format!("cc {arguments}"));
        outcome(command.env("PATH", path))
    };
    let empty = world.path("empty");
    with_path(&empty, "saxpy.c").assert_fails(3, &["error: no clang is on PATH", "apt install"]);
    with_path(&bin, "saxpy.c").assert_succeeds();
    let gpu = with_path(&bin, "saxpy.c -t amdgcn:gfx90a");
    gpu.assert_fails(3, &["error: the linker ld.lld is neither", "hint: install it", "lld-"]);
    let several = with_path(&bin, "caller.cpp called.c -t nvptx64:sm_80");
    several.assert_fails(3, &["error: llvm-link, which joins sources for a GPU,", "llvm-"]);
    let cubin = with_path(&bin, "saxpy.c -t nvptx64:sm_80 --cubin");
    cubin.assert_fails(3, &["error: ptxas", "hint: install NVIDIA's CUDA toolkit"]);
}

fn which(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .unwrap()
}

#[test]
fn ptx_becomes_a_cubin_by_ptxas() {
    let Some(world) = World::new() else { return };
    let script = "test $1 = -arch=sm_80 && grep -q 'entry saxpy' $2 && echo made of it >$4";
    let bin = world.scripts(&[("ptxas", script)]);
    let path = std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut cc = world.command("cc saxpy.c -t host,nvptx64:sm_80 --cubin");
    outcome(cc.env("PATH", path)).assert_succeeds();
    let entries = world.entries("saxpy.img");
    assert_eq!(
        (entries[0].image_kind, entries[1].image_kind),
        (ImageKind::Object, ImageKind::Cubin)
    );
    assert_eq!(text(&entries[1]), "made of it\n");
}

#[test]
fn invalid_options_are_bad_usage() {
    let Some(world) = World::new() else { return };
    world.write("notes.txt", "");
    let cases = [
        ("", "<FILE>"),
        ("saxpy.c -t sm_90", "did you mean 'nvptx64:sm_90'?"),
        ("saxpy.c -t riscv64", "nvptx64:sm_NN"),
        ("saxpy.c -t host,aarch64 --raw", "--raw expects one target, but --target names 2"),
        ("saxpy.c -t aarch64,aarch64", "--target names aarch64 twice"),
        ("saxpy.c --cubin", "--cubin expects a target nvptx64"),
        ("saxpy.c -c", "'-c' cannot be passed to clang"),
        ("saxpy.c --kernel k<int>", "no source can have the kernel 'k<int>'"),
        ("saxpy.c -march=native", "hint: name the CPU by --target"),
        ("saxpy.c -o saxpy.c", "the output 'saxpy.c' would replace a source"),
        ("notes.txt", "'notes.txt' has no extension of C"),
    ];
    for (arguments, expected) in cases {
        world.cc(arguments).assert_fails(2, &["error: ", expected]);
    }
    assert_eq!(fs::read_to_string(world.path("saxpy.c")).unwrap(), SAXPY);
}

#[test]
fn a_failed_compilation_names_its_targets_and_leaves_the_output_alone() {
    let Some(world) = World::new() else { return };
    world.write(
        "bad.c",
        "#ifdef __NVPTX__\n#error not here\n#endif\nint f(void) { int unused; return 0; }\n",
    );
    world.write("k.img", "as it was");
    let failed = world.cc("bad.c -Wall -t host,aarch64,nvptx64:sm_80 -o k.img");
    let own = std::env::consts::ARCH;
    let warned = format!("for {own}, aarch64:\nbad.c:4");
    let expected =
        ["for nvptx64:sm_80:\nbad.c:2:2: error: not here", "error: nvptx64:sm_80: compiling"];
    failed.assert_fails(1, &[&[warned.as_str()][..], &expected].concat());
    assert_eq!(fs::read(world.path("k.img")).unwrap(), b"as it was");
    let others = fs::read_dir(world.folder.path()).unwrap();
    assert!(others.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with('.')));

    world.write("worse.c", "int f( {");
    let failed = world.cc(&format!("worse.c -t {ALL}"));
    let all = format!("{own}, aarch64, nvptx64:sm_80, amdgcn:gfx90a:sramecc+:xnack-");
    let expected =
        [format!("for {all}:\nworse.c:1:8"), format!("error: {all}: compiling 'worse.c'")];
    failed.assert_fails(1, &[&expected[0], &expected[1]]);
    world.write("hosted.c", "#include <stdlib.h>\n");
    world.cc("hosted.c").assert_succeeds();
    let hosted = world.cc("hosted.c -t host,nvptx64:sm_80");
    hosted.assert_fails(1, &["'stdlib.h' file not found", "hint: for GPUs there is no C library"]);
    world.cc("nosuch.c").assert_fails(1, &["error: cannot read 'nosuch.c': No such file"]);
    world.cc(".").assert_fails(1, &["error: '.' is a folder"]);
    world.cc("saxpy.c -o no/k.img").assert_fails(1, &["there is no folder 'no'"]);
    world.cc("saxpy.c -o .").assert_fails(1, &["cannot write '.': it is a folder"]);
}

#[test]
fn a_function_that_gpus_lack_is_reported_in_few_lines_with_what_there_is() {
    let Some(world) = World::new() else { return };
    let kernel = |body: &str| {
        format!(
            "#include <longshore_device.h>\nLONGSHORE_KERNEL(k, (float *to)) {{\n\
             float x = to[longshore_global_id(0)];\n{body}\n}}\n"
        )
    };
    world.write("exp.c", &kernel("to[longshore_global_id(0)] = __builtin_expf(x);"));
    let replacements = "to[0] = longshore_exp(x) + longshore_log(x) + longshore_sin(x);\n\
                        to[1] = longshore_pow(x, x) + longshore_fast_exp(x) + longshore_tanh(x);";
    world.write("operations.c", &kernel(replacements));
    for clang in compilers() {
        let failed = world.cc(&format!("exp.c -t nvptx64:sm_80 --clang {clang}"));
        failed.assert_fails(1, &["exp", "error: nvptx64:sm_80: compiling 'exp.c' failed"]);
        failed.assert_fails(1, &["hint: for GPUs there is no C library: use longshore_exp"]);
        assert!(failed.stderr.lines().count() <= 6, "{clang}: {}", failed.stderr);
        world.cc(&format!("operations.c -t {ALL} --clang {clang}")).assert_succeeds();
    }
}

#[test]
fn an_interrupted_compilation_leaves_nothing() {
    let Some(world) = World::new() else { return };
    let bin = world.scripts(&[(
        "slow",
        "case $1 in --version) echo clang version 19.0.0;; --print-targets) echo '  x86-64 - x';\n\
         echo '  aarch64 - x';; *) touch started; exec sleep 60;; esac",
    )]);
    let mut cc = world.command("cc saxpy.c --clang");
    let mut running = cc.arg(bin.join("slow")).process_group(0).spawn().unwrap();
    while !world.path("started").exists() {
        assert!(running.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = |signal: &str, process: String| {
        assert!(Command::new("kill").args([signal, "--", &process]).status().unwrap().success());
    };
    kill("-TERM", running.id().to_string());
    let ended = running.wait().unwrap();
    kill("-KILL", format!("-{}", running.id()));
    assert_eq!(ended.signal(), Some(15), "{ended}");
    assert_eq!(fs::read_dir(world.temporary.path()).unwrap().count(), 0);
    assert!(!world.path("saxpy.img").exists());
}

#[test]
fn the_output_follows_links_and_keeps_permissions() {
    let Some(world) = World::new() else { return };
    world.write("real.img", "");
    fs::set_permissions(world.path("real.img"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.img", world.path("link.img")).unwrap();
    world.cc("saxpy.c -o link.img").assert_succeeds();
    assert!(world.path("link.img").is_symlink());
    let mode = fs::metadata(world.path("real.img")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(world.entries("real.img").len(), 1);
    let printed =
        world.command("cc saxpy.c -t nvptx64:sm_80 --raw -o /dev/stdout").output().unwrap();
    assert!(String::from_utf8(printed.stdout).unwrap().contains(".entry saxpy("));
}

#[test]
fn the_header_comes_with_the_command() {
    let Some(world) = World::new() else { return };
    let (folder, mut command) = alone();
    command.current_dir(world.folder.path()).args(["cc", "saxpy.c", "-o"]);
    outcome(command.arg(folder.path().join("k.img"))).assert_succeeds();
    world.cc("--header .").assert_succeeds();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    for folder in [headers.clone(), headers.join("longshore_math")] {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.is_file()) {
            let written = fs::read(world.folder.path().join(file.strip_prefix(&headers).unwrap()));
            assert!(written.unwrap() == fs::read(&file).unwrap(), "{}", file.display());
        }
    }
    world.cc("--header nosuch").assert_fails(1, &["there is no folder 'nosuch'"]);
}

#[test]
fn profiles_are_generated_and_used() {
    let Some(world) = World::new() else { return };
    let compiled = world.cc("saxpy.c -fprofile-generate -o counted.img -v");
    assert!(compiled.stderr.contains("adding -fprofile-update=atomic"), "{}", compiled.stderr);
    let mut run =
        world.command("run counted.img -k saxpy -a u64=0 -a f32=0 -a ptr=null -a ptr=null");
    outcome(run.env("LONGSHORE_PROFILE_FILE", "p.profraw")).assert_succeeds();
    assert!(world.path("p.profraw").is_file());
    let single = world.cc("saxpy.c -fprofile-generate -fprofile-update=single -v");
    assert!(!single.stderr.contains("atomic"), "{}", single.stderr);
}

#[test]
fn counters_of_gpus_are_atomic_and_need_a_compiler_that_shows_them() {
    let Some(world) = World::new() else { return };
    for clang in compilers() {
        let of = |arguments: &str| world.cc(&format!("{arguments} --clang {clang}"));
        let one = of("saxpy.c -fprofile-generate -t nvptx64:sm_80,amdgcn:gfx90a");
        if clang != "clang-22" {
            one.assert_fails(2, &["nvptx64:sm_80: instrumentation", "needs clang 22 or later"]);
            continue;
        }
        one.assert_succeeds();
        let entries = world.entries("saxpy.img");
        let ptx = text(&entries[0]);
        assert!(
            ptx.contains("__profc_") && (ptx.contains("atom.") || ptx.contains("red.")),
            "{ptx}"
        );
        assert!(text(&entries[1]).contains("__profc_"));
        let several = of("caller.cpp called.c -fprofile-generate -t nvptx64:sm_80");
        several.assert_fails(2, &["needs a single source"]);
    }
}
