//! One source of kernels, compiled by `longshore cc` for CPUs and GPUs, and the output of
//! `longshore inspect` for it.

use longshore_tests::device_code::clangs;
use longshore_tests::world::{command, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const TARGETS: &str = "x86_64,aarch64,nvptx64:sm_80,nvptx64:sm_90,amdgcn:gfx90a,amdgcn:gfx1030";

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the description of each kernel, as if items with barriers were loops everywhere: they
/// are only for CPUs.
fn descriptions(image: &Value) -> BTreeMap<String, Value> {
    let kernels = image["kernels"].as_array().unwrap().iter();
    let described = kernels.filter(|kernel| !kernel["description"].is_null());
    described
        .map(|kernel| {
            let mut description = kernel["description"].clone();
            if description["on_cpu"] == "fibers" {
                description["on_cpu"] = "regions".into();
            }
            (kernel["name"].as_str().unwrap().to_owned(), description)
        })
        .collect()
}

fn compile(clang: &str, source: &Path, targets: &str, into: &Path) {
    // Clang 14 does not support sm_90.
    let targets = match clang {
        "clang-14" => targets.replace("nvptx64:sm_90,", ""),
        _ => targets.to_owned(),
    };
    let mut compile = Command::new(command());
    compile.arg("cc").arg(source).args(["--clang", clang, "--target", &targets, "-o"]).arg(into);
    output(&mut compile);
}

#[test]
fn the_descriptions_of_kernels_are_the_same_for_all_targets_and_compilers() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/kernels/kernels.c");
    let mut first = None;
    for clang in clangs() {
        let image = folder.path().join(format!("{clang}.img"));
        compile(clang, &source, TARGETS, &image);
        let said = output(Command::new(command()).arg("inspect").arg(&image).arg("--json"));
        let said: Value = serde_json::from_str(&said).unwrap();
        let images = said["images"].as_array().unwrap();
        assert!(images.len() >= 5, "{clang}: {} images", images.len());
        for image in images {
            let entry = &image["entry"]["triple"];
            let described = descriptions(image);
            let expected = first.get_or_insert_with(|| described.clone());
            assert_eq!(&described, expected, "{clang}, {entry}");
        }
    }
    let Some(described) = first else { return };
    let description = |kernel: &str| described[kernel].to_string();
    assert!(described.len() >= 8, "{described:?}");
    for (kernel, words) in [
        ("saxpy_items", &["\"items\"", "\"loop\""][..]),
        ("matmul", &["\"regions\""]),
        ("reduce_items", &["\"items\"", "\"regions\""]),
    ] {
        for word in words {
            assert!(description(kernel).contains(word), "{kernel}: {}", description(kernel));
        }
    }
}

const DEEP: &str = r#"
#include "longshore_device.h"

/* More than the stack and the fence below it have: 1.6 MB for 512 items. */
LONGSHORE_GROUP_KERNEL(deep, (uint32_t *x)) {
  LONGSHORE_PRIVATE_ARRAY(double, p, 400);
  LONGSHORE_ITEMS { longshore_private_of(p, 0) = x[0]; }
  longshore_grid_barrier();
  LONGSHORE_ITEMS { x[longshore_global_id(0)] = (uint32_t)longshore_private_of(p, 0); }
}
"#;

#[test]
fn a_frame_larger_than_a_stack_and_its_fence_is_an_overflow() {
    let folder = tempfile::tempdir().unwrap();
    let (source, image) = (folder.path().join("deep.c"), folder.path().join("deep.img"));
    std::fs::write(&source, DEEP).unwrap();
    for clang in clangs().into_iter().filter(|_| cfg!(target_arch = "x86_64")) {
        compile(clang, &source, "x86_64", &image);
        let mut run = Command::new(command());
        run.arg("run").arg(&image).args(["--backend", "host", "-k", "deep", "--cooperative"]);
        let ran = run.args(["-g", "4", "-i", "512", "-a", "out:u32[2048]"]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("its stack of 262144 bytes overflowed"), "{clang}: {said}");
    }
}

const TALKATIVE: &str = r#"
#include "longshore_device.h"

LONGSHORE_KERNEL(talkative, (uint64_t n)) {
  longshore_printf("item %u\n", (unsigned)longshore_global_id(0));
  longshore_assert(longshore_global_id(0) < n);
}
"#;

#[test]
fn output_before_a_failed_assertion_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (source, image) = (folder.path().join("talk.c"), folder.path().join("talk.img"));
    std::fs::write(&source, TALKATIVE).unwrap();
    for clang in clangs() {
        compile(clang, &source, "host", &image);
        let mut run = Command::new(command());
        run.arg("run").arg(&image).args(["--backend", "host", "-g", "1", "-i", "8"]);
        let ran = run.args(["-a", "u64=2"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "item 0\nitem 1\nitem 2\n", "{clang}");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("item (2, 0, 0): longshore_global_id(0) < n"), "{clang}: {said}");
        // The plugin has logged nothing that `-vv` would print.
        assert!(!said.contains("-vv"), "{clang}: {said}");
    }
}

const HALVES: &str = r#"
#include "longshore_device.h"

LONGSHORE_KERNEL(halves, (_Float16 a, const _Float16 *x, _Float16 *y)) {
  y[longshore_global_id(0)] = (_Float16)((float)a * (float)x[longshore_global_id(0)]);
}
"#;

/// A kernel with a parameter of a type that has no word in a description in C.
const OTHER: &str = r#"
#include "longshore_device.h"

struct pair { int first, second; };
enum number { ONE };
LONGSHORE_KERNEL(other, (PARAMETER, int *y)) { *y = (int)sizeof(x); }
"#;

fn diagnostics(clang: &str, source: &Path, targets: &str) -> Result<(), String> {
    let mut compile = Command::new(command());
    compile.arg("cc").arg(source).args(["--clang", clang, "--target", targets]);
    let output = compile.current_dir(source.parent().unwrap()).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn parameters_of_16_bit_floating_point_are_described_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for (clang, name) in clangs().into_iter().flat_map(|clang| [(clang, "k.c"), (clang, "k.cpp")]) {
        let source = folder.path().join(name);
        std::fs::write(&source, HALVES).unwrap();
        for target in ["x86_64", "aarch64", "nvptx64:sm_80", "amdgcn:gfx90a"] {
            match diagnostics(clang, &source, target) {
                Err(said) if said.contains("_Float16 is not supported on this target") => continue,
                Err(said) if said.contains("'_Float16' type support, but target") => continue,
                made => made.unwrap(),
            }
            let image = folder.path().join("k.img");
            let said = output(Command::new(command()).arg("inspect").arg(&image).arg("--json"));
            let said: Value = serde_json::from_str(&said).unwrap();
            let described = &descriptions(&said["images"][0])["halves"]["arguments"];
            let [half, pointer] = [("float", 2), ("pointer", 8)]
                .map(|(kind, bytes)| serde_json::json!({ "kind": kind, "bytes": bytes }));
            let expected = serde_json::json!([half, pointer, pointer]);
            assert_eq!(described, &expected, "{clang} {name} {target}");
            tried += 1;
        }
    }
    assert!(tried > 0 || clangs().is_empty());
}

#[test]
fn a_parameter_that_is_no_number_and_no_pointer_must_be_by_value_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("k.c");
    let compile = |clang: &str, parameter: &str| {
        std::fs::write(&source, OTHER.replace("PARAMETER", parameter)).unwrap();
        diagnostics(clang, &source, "host")
    };
    for clang in clangs() {
        for parameter in ["struct pair", "long double", "__bf16"] {
            let made = compile(clang, &format!("LONGSHORE_BY_VALUE({parameter}, x)"));
            match made {
                Err(said) if said.contains("__bf16 is not supported on this target") => continue,
                made => made.unwrap(),
            }
            let said = compile(clang, &format!("{parameter} x")).unwrap_err();
            let error = said.lines().find(|line| line.contains(" error: ")).unwrap();
            let is_named = error.contains(&format!("parameter of incompatible type '{parameter}'"));
            let helps = error.contains("other_types_need_LONGSHORE_BY_VALUE");
            assert!(is_named && helps, "{clang}: {said}");
        }
        for parameter in ["int x[2]", "const void *x", "enum number x", "const _Bool x", "char **x"]
        {
            compile(clang, parameter).unwrap();
        }
    }
}
