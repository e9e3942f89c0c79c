//! Comparison of the table with HIP's header, where that is installed: package `libamdhip64-dev` of
//! Debian.

use super::functions::Functions;
use super::{result, types};
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

const HEADER: &str = "/usr/include/hip/hip_runtime_api.h";
/// Functions introduced by HIP 5.3, 5.5 and 6, and the classes of their parameters there.
const LATER: [(&str, &str); 3] = [
    ("hipDeviceSetLimit", "i32 i64"),
    ("hipModuleLaunchCooperativeKernel", "object i32 i32 i32 i32 i32 i32 i32 object **void"),
    ("hipGetDevicePropertiesR0600", "*Properties i32"),
];

/// A function with a template of the same name, and the type that its declaration must have.
const OVERLOADED: (&str, &str) =
    ("hipMallocFromPoolAsync", "(hipError_t (*)(void **, size_t, hipMemPool_t, hipStream_t))");

/// Numbers that the code uses without a constant.
const OTHER_NUMBERS: [(&str, i32); 5] = [
    ("hipMemAllocationTypePinned", 1),
    ("hipMemHandleTypeNone", 0),
    ("hipMemAccessFlagsProtReadWrite", 3),
    ("hipMemLocationTypeDevice", types::Location::DEVICE.cast_signed()),
    ("hipCpuDeviceId", -1),
];

/// The program that prints classes of types: for pointers the class of the pointee, for other types
/// their registers. Differences between versions of the header, such as `const`, do not show.
const CLASSES: &str = r#"
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1
#include <hip/hip_runtime_api.h>
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
template <typename T> std::string name() {
  if (std::is_same<T, hipUUID>()) return "Uuid";
  if (std::is_same<T, hipDeviceProp_t>()) return "Properties";
  if (std::is_same<T, hipMemPoolProps>()) return "PoolProperties";
  if (std::is_same<T, hipMemAccessDesc>()) return "Access";
  if (std::is_same<T, hipMemcpy3DParms>()) return "Copy3d";
  if (std::is_void<T>()) return "void";
  if (std::is_floating_point<T>()) return "f" + std::to_string(8 * sizeof(T));
  return "i" + std::to_string(8 * sizeof(T));
}
template <> std::string name<ihipStream_t>() { return "opaque"; }
template <> std::string name<ihipModule_t>() { return "opaque"; }
template <> std::string name<ihipModuleSymbol_t>() { return "opaque"; }
template <> std::string name<ihipEvent_t>() { return "opaque"; }
template <> std::string name<ihipMemPoolHandle_t>() { return "opaque"; }
template <typename T> struct of { static std::string text() { return name<T>(); } };
template <typename T> struct of<T *> {
  static std::string text() {
    const std::string to = of<typename std::remove_const<T>::type>::text();
    return to == "opaque" ? "object" : "*" + to;
  }
};
template <typename... P> void show(const char *function, hipError_t (*)(P...)) {
  std::string text = function;
  for (const std::string &one : {std::string(), of<P>::text()...}) if (!one.empty()) text += " " + one;
  std::puts(text.c_str());
}
"#;

/// Returns the class of one of this crate's types.
fn class(name: &str) -> String {
    for pointer in ["*mut ", "*const "] {
        if let Some(to) = name.strip_prefix(pointer) {
            return format!("*{}", class(to));
        }
    }
    if name.contains("Handle<") {
        return "object".to_owned();
    }
    match name.rsplit("::").next().unwrap_or(name) {
        "i32" | "u32" => "i32",
        "usize" => "i64",
        // Device addresses are pointers in HIP's header.
        "u64" => "*void",
        "u16" => "i16",
        "u8" | "i8" => "i8",
        "c_void" => "void",
        other => other,
    }
    .to_owned()
}

/// Compiles and runs a program against HIP's header; returns `None` without the header or a
/// compiler.
fn run(program: &str) -> Option<String> {
    if !Path::new(HEADER).is_file() || Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: {HEADER} and g++ are wanted");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("hip.cpp"), folder.path().join("hip"));
    std::fs::write(&source, program).unwrap();
    // The program calls no function of HIP.
    let options = ["-std=c++17", "-w", "-Wl,--unresolved-symbols=ignore-all", "-o"];
    let output = Command::new("g++").args(options).arg(&binary).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&binary).output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn functions_have_the_parameters_of_hips_header() {
    let ours = Functions::signatures();
    assert!(ours.len() > 50, "{} functions", ours.len());
    let (mut program, mut expected) = (format!("{CLASSES}int main() {{\n"), String::new());
    for (name, parameters) in &ours {
        let classes: Vec<String> = parameters.iter().map(|name| class(name)).collect();
        if let Some((_, known)) = LATER.iter().find(|(later, _)| later == name) {
            assert_eq!(classes.join(" "), *known, "{name}");
            continue;
        }
        let argument_type = if *name == OVERLOADED.0 { OVERLOADED.1 } else { "" };
        writeln!(program, "  show(\"{name}\", {argument_type}{name});").unwrap();
        writeln!(expected, "{name} {}", classes.join(" ")).unwrap();
    }
    program.push_str("}\n");
    if let Some(theirs) = run(&program) {
        assert_same(&expected, &theirs);
    }
}

#[test]
fn numbers_and_layouts_match_the_header_of_hip() {
    let mut program = format!("{CLASSES}int main() {{\n");
    for (value, name) in types::ALL.iter().chain(result::ALL) {
        writeln!(program, "  static_assert({name} == {value}, \"\");").unwrap();
    }
    let layouts = [
        ("hipUUID", size_of::<types::Uuid>()),
        ("hipMemLocation", size_of::<types::Location>()),
        ("hipMemPoolProps", size_of::<types::PoolProperties>()),
        ("hipMemAccessDesc", size_of::<types::Access>()),
        ("hipMemcpy3DParms", size_of::<types::Copy3d>()),
    ];
    for (name, bytes) in layouts {
        writeln!(program, "  static_assert(sizeof({name}) == {bytes}, \"\");").unwrap();
    }
    let fields = [
        ("hipMemLocation, type", offset_of!(types::Location, kind)),
        ("hipMemLocation, id", offset_of!(types::Location, id)),
        ("hipMemPoolProps, allocType", offset_of!(types::PoolProperties, allocation)),
        ("hipMemPoolProps, handleTypes", offset_of!(types::PoolProperties, handles)),
        ("hipMemPoolProps, location", offset_of!(types::PoolProperties, location)),
        ("hipMemPoolProps, win32SecurityAttributes", offset_of!(types::PoolProperties, security)),
        ("hipMemAccessDesc, location", offset_of!(types::Access, location)),
        ("hipMemAccessDesc, flags", offset_of!(types::Access, flags)),
        ("hipMemcpy3DParms, srcPos", offset_of!(types::Copy3d, from.position)),
        ("hipMemcpy3DParms, srcPtr.pitch", offset_of!(types::Copy3d, from.pitch)),
        ("hipMemcpy3DParms, srcPtr.xsize", offset_of!(types::Copy3d, from.row_bytes)),
        ("hipMemcpy3DParms, srcPtr.ysize", offset_of!(types::Copy3d, from.height)),
        ("hipMemcpy3DParms, dstArray", offset_of!(types::Copy3d, to)),
        ("hipMemcpy3DParms, dstPtr.ptr", offset_of!(types::Copy3d, to.address)),
        ("hipMemcpy3DParms, extent", offset_of!(types::Copy3d, extent)),
        ("hipMemcpy3DParms, kind", offset_of!(types::Copy3d, kind)),
    ];
    for (field, at) in fields {
        writeln!(program, "  static_assert(offsetof({field}) == {at}, \"\");").unwrap();
    }
    for (name, value) in OTHER_NUMBERS {
        writeln!(program, "  static_assert({name} == {value}, \"\");").unwrap();
    }
    let most = size_of::<types::Properties>();
    writeln!(program, "  static_assert(sizeof(hipDeviceProp_t) <= {most}, \"\");").unwrap();
    program.push_str("}\n");
    run(&program);
}

fn assert_same(ours: &str, theirs: &str) {
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours.trim_end(), theirs);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}
