//! Invariants of `ARCHITECTURE.md` that a check of the sources can hold.

mod loops;

use longshore_tests::world::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns every source file below a folder.
fn sources(folder: &str) -> Vec<PathBuf> {
    fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => collect(&path, into),
                Some(extension) if extension == "rs" => into.push(path),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Returns the part of a file before its unit tests.
fn product(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// Returns whether a file of a crate's sources belongs to its unit tests: `tests.rs`, or any file
/// in a folder of that name.
fn is_of_tests(file: &Path) -> bool {
    let parts = file.strip_prefix(root()).expect("a file of the repository").components();
    parts
        .skip_while(|part| part.as_os_str() != "src")
        .any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
}

#[test]
fn only_one_file_reads_the_environment() {
    let own = [
        "plugin-api/src",
        "plugin-host/src",
        "plugin-amdgpu/src",
        "plugin-cuda/src",
        "plugin-vulkan/src",
        "plugin-mpi/src",
        "plugin-streams/src",
        "formats/amdgpu/src",
        "formats/nvidia/src",
        "formats/spirv/src",
        "jit/bitcode/src",
        "jit/compiler/src",
        "jit/llvm/src",
        "host/src",
        "build/src",
        "cc/src",
        "command/src",
        "openmp/src",
    ]
    .map(sources)
    .concat();
    let readers: Vec<_> = own
        .iter()
        .filter(|file| !is_of_tests(file) && product(file).contains("env::var"))
        .map(|file| file.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    // The command reads the variables of its own log and the locale, and passes Longshore's on to
    // the processes of a job.
    let command =
        ["locale", "logging", "mpirun/variables"].map(|file| format!("command/src/{file}.rs"));
    // The compilation of kernels reads `PATH` for compilers, the Vulkan backend for `spirv-val`.
    // Build scripts get Cargo's variables.
    // The OpenMP library reads LLVM's variables, the MPI backend its launcher's.
    let library = [
        "build/src/lib.rs",
        "cc/src/path.rs",
        "host/src/environment.rs",
        "openmp/src/settings.rs",
        "plugin-mpi/src/cluster.rs",
        "plugin-mpi/src/launch.rs",
        "plugin-vulkan/src/validate/installed/command.rs",
    ];
    let allowed = |file: &String| library.contains(&&**file) || command.contains(file);
    let others: Vec<_> = readers.iter().filter(|file| !allowed(file)).collect();
    assert!(others.is_empty(), "{others:?} read the environment");
}

/// Folders of crates, and the packages of the workspace on which each may depend. The command may
/// depend on all.
const DEPENDENCIES: [(&str, &[&str]); 33] = [
    ("plugin-api/interface", &[]),
    ("plugin-api/macros", &["longshore-interface"]),
    ("plugin-api", &["longshore-interface-macros"]),
    (
        "host",
        &[
            "longshore-plugin-api",
            "longshore-interface-macros",
            "longshore-macros",
            "longshore-executor",
            "longshore-compiler",
            "longshore-llvm",
            // By a feature.
            "longshore-plugin-host",
        ],
    ),
    ("host/macros", &[]),
    ("plugin-host", &["longshore-plugin-api", "longshore-jitlink", "longshore-orc-rt"]),
    ("plugin-host/library", &["longshore-plugin-api", "longshore-plugin-host"]),
    (
        "plugin-amdgpu",
        &["longshore-plugin-api", "longshore-plugin-streams", "longshore-format-amdgpu"],
    ),
    (
        "plugin-cuda",
        &["longshore-plugin-api", "longshore-plugin-streams", "longshore-format-nvidia"],
    ),
    ("plugin-vulkan", &["longshore-plugin-api", "longshore-format-spirv"]),
    ("plugin-mpi", &["longshore-plugin-api", "longshore-executor", "longshore-mpi"]),
    ("plugin-mpi/library", &["longshore-plugin-api", "longshore-plugin-mpi"]),
    ("plugin-mpi/mpi", &[]),
    (
        "plugin-mpi/node",
        &[
            "longshore",
            "longshore-executor",
            "longshore-mpi",
            "longshore-plugin-api",
            "longshore-plugin-mpi",
        ],
    ),
    ("plugin-streams", &["longshore-plugin-api"]),
    ("formats/amdgpu", &[]),
    ("formats/nvidia", &[]),
    ("formats/spirv", &[]),
    ("jit/orc-rt", &[]),
    ("jit/linker", &["longshore-orc-rt"]),
    ("jit/llvm", &[]),
    ("jit/work-items", &["longshore-llvm"]),
    ("jit/checks", &["longshore-llvm"]),
    ("jit/spirv", &["longshore-llvm"]),
    ("jit/compiler", &["longshore-llvm"]),
    ("jit/bitcode", &["longshore-compiler", "longshore-jitlink"]),
    (
        "executor",
        &[
            "longshore-plugin-api",
            "longshore-interface-macros",
            "longshore-compiler",
            "longshore-llvm",
            "longshore-work-items",
            "longshore-checks",
            "longshore-jitlink",
            "longshore-orc-rt",
        ],
    ),
    (
        "cc",
        &[
            "longshore-compiler",
            "longshore-llvm",
            "longshore-work-items",
            "longshore-checks",
            "longshore-spirv",
        ],
    ),
    ("build", &["longshore-cc", "longshore-plugin-api"]),
    ("capi", &["longshore"]),
    ("openmp", &["longshore", "longshore-format-amdgpu"]),
    ("python", &["longshore"]),
    ("conformance", &["longshore", "longshore-plugin-api"]),
];

#[test]
fn crates_depend_only_on_what_data_visits_after_them() {
    for (folder, allowed) in DEPENDENCIES {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]").unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap().lines();
        let names = dependencies.filter_map(|line| line.split(['.', ' ', '=']).next());
        for name in names.filter(|name| *name == "longshore" || name.starts_with("longshore-")) {
            assert!(allowed.contains(&name), "{folder} depends on {name}");
        }
    }
}

#[test]
fn no_file_of_the_host_uses_what_reads_images() {
    let readers = ["format_amdgpu", "format_nvidia", "format_spirv", "bitcode", "jitlink"];
    for file in [sources("host/src"), sources("host/tests")].concat() {
        let text = std::fs::read_to_string(&file).unwrap();
        for reader in readers {
            assert!(!text.contains(&format!("longshore_{reader}")), "{}", file.display());
        }
    }
}

#[test]
fn the_host_names_a_backends_crate_in_one_file_and_only_for_a_feature() {
    let mut named = Vec::new();
    for file in sources("host/src") {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (index, _) in
            lines.iter().enumerate().filter(|(_, it)| it.contains("longshore_plugin_host"))
        {
            let before = index.checked_sub(1).map_or("", |before| lines[before].trim());
            assert_eq!(before, "#[cfg(feature = \"host\")]", "{}", file.display());
            named.push(file.strip_prefix(root()).unwrap().to_owned());
        }
    }
    assert_eq!(named, [Path::new("host/src/discovery/linked.rs")]);
}

#[test]
fn a_program_that_uses_the_library_gets_no_package_of_the_command() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--package", "longshore", "--edges", "normal"]);
    let output = tree.args(["--prefix", "none"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packages = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = packages.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"longshore-plugin-api"), "{names:?}");
    for package in ["clap", "comfy-table", "env_logger", "longshore-jitlink", "naga", "plotters"] {
        assert!(!names.contains(&package), "{package} is among {names:?}");
    }
}

#[test]
fn the_host_matches_on_no_backends_name() {
    let arms = ["\"cuda\" =>", "\"amdgpu\" =>", "\"vulkan\" =>", "\"host\" =>"];
    let tests_of = ["== \"cuda\"", "== \"amdgpu\"", "== \"vulkan\"", "== \"host\""];
    for file in sources("host/src") {
        let text = product(&file);
        let found = arms.iter().chain(&tests_of).find(|pattern| text.contains(**pattern));
        assert_eq!(found, None, "{}", file.display());
    }
}

#[test]
fn shared_code_of_backends_names_no_vendor() {
    for file in sources("plugin-streams/src") {
        let text = product(&file);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let found = ["cuda", "Cuda", "CUDA", "hip", "HIP", "amd", "AMD", "nvidia", "NVIDIA"]
                .iter()
                .find(|name| line.contains(**name) && !line.contains("ship"));
            assert_eq!(found, None, "{}: {line}", file.display());
        }
    }
}
