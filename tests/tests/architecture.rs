//! The invariants of `ARCHITECTURE.md` that can be held by looking at the sources.

use longshore_tests::world::root;
use std::path::{Path, PathBuf};

/// Every source file below a folder.
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

/// The part of a file before its unit tests.
fn product(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

#[test]
fn only_one_file_reads_the_environment() {
    let own = [
        "plugin-api/src",
        "plugin-host/src",
        "plugin-amdgpu/src",
        "plugin-cuda/src",
        "plugin-vulkan/src",
        "plugin-streams/src",
        "formats/amdgpu/src",
        "formats/nvidia/src",
        "formats/spirv/src",
        "jit/bitcode/src",
        "host/src",
    ]
    .map(sources)
    .concat();
    let readers: Vec<_> = own
        .iter()
        .filter(|file| !file.ends_with("tests.rs") && product(file).contains("env::var"))
        .map(|file| file.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    // The command reads the variables of its own log and the locale, and PATH for the programs that it starts.
    let command =
        ["locale", "logging", "path"].map(|file| format!("host/src/bin/longshore/{file}.rs"));
    let allowed = |file: &String| file == "host/src/environment.rs" || command.contains(file);
    let others: Vec<_> = readers.iter().filter(|file| !allowed(file)).collect();
    assert!(others.is_empty(), "{others:?} read the environment");
}

#[test]
fn crates_depend_only_on_what_data_visits_after_them() {
    let own = ["longshore.", "longshore =", "longshore-"];
    for (folder, allowed) in [
        ("plugin-api", &[][..]),
        ("plugin-host", &["longshore-plugin-api", "longshore-jitlink", "longshore-orc-rt"]),
        (
            "plugin-amdgpu",
            &["longshore-plugin-api", "longshore-format-amdgpu", "longshore-plugin-streams"],
        ),
        (
            "plugin-cuda",
            &["longshore-plugin-api", "longshore-format-nvidia", "longshore-plugin-streams"],
        ),
        ("plugin-vulkan", &["longshore-plugin-api", "longshore-format-spirv"]),
        ("plugin-streams", &["longshore-plugin-api"]),
        ("formats/amdgpu", &[]),
        ("formats/nvidia", &[]),
        ("formats/spirv", &[]),
        ("jit/orc-rt", &[]),
        ("jit/linker", &["longshore-orc-rt"]),
        ("jit/bitcode", &["longshore-jitlink", "longshore-orc-rt"]),
        (
            "host",
            &[
                "longshore-plugin-api",
                "longshore-executor",
                "longshore-format-amdgpu",
                "longshore-bitcode",
                "longshore-format-nvidia",
                "longshore-jitlink",
                "longshore-orc-rt",
                "longshore-format-spirv",
            ],
        ),
    ] {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]").unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap().lines();
        for line in dependencies.filter(|line| own.iter().any(|name| line.starts_with(name))) {
            let known = allowed.iter().any(|name| line.starts_with(name));
            assert!(known, "{folder} depends on {line}");
        }
    }
}

#[test]
fn only_the_command_uses_what_reads_images() {
    let manifest = std::fs::read_to_string(root().join("host/Cargo.toml")).unwrap();
    for (package, name) in [
        ("longshore-format-amdgpu", "longshore_format_amdgpu"),
        ("longshore-bitcode", "longshore_bitcode"),
        ("longshore-format-nvidia", "longshore_format_nvidia"),
        ("longshore-jitlink", "longshore_jitlink"),
        ("longshore-orc-rt", "longshore_orc_rt"),
        ("longshore-format-spirv", "longshore_format_spirv"),
    ] {
        let line = manifest.lines().find(|line| line.starts_with(package)).unwrap();
        assert!(line.contains("optional = true"), "{line}");
        for file in sources("host/src") {
            let is_command = file.starts_with(root().join("host/src/bin/longshore"));
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(is_command || !text.contains(name), "{}", file.display());
        }
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
fn what_backends_share_names_no_vendor() {
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
