//! The declarations of the C API's header, as bindgen reads them, compared with LLVM's.

use crate::header::declared::{Declared, Variable, signature};
use crate::header::llvm::{Fact, facts, in_rust, variable};
use crate::header::{COMPILERS, Layout, compile};
use longshore_capi::*;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use xtask::header::{COMMAND, offload};

#[test]
fn it_is_what_the_source_says() {
    let there = std::fs::read_to_string(offload::path()).unwrap_or_default();
    assert!(there == offload::generate().unwrap(), "out of date: run `{COMMAND}`");
}

#[test]
fn its_types_lie_in_memory_as_llvms() {
    let Some(declared) = Declared::read(&offload::path()) else { return };
    for llvm in layouts() {
        assert_eq!(declared.layout(&llvm.name).as_ref(), Some(&llvm));
    }
}

#[test]
fn the_types_of_rust_lie_in_memory_as_llvms() {
    for rust in layouts_in_rust() {
        let llvm = layouts().into_iter().find(|llvm| llvm.name == rust.name);
        assert_eq!(Some(&rust), llvm.as_ref());
    }
    assert_eq!(layouts_in_rust().len(), layouts().len());
}

#[test]
fn its_enumerators_are_llvms() {
    let Some(mut declared) = Declared::read(&offload::path()) else { return };
    let mut llvm = enumerators();
    llvm.sort();
    declared.enumerators.sort();
    assert_eq!(declared.enumerators, llvm);
}

#[test]
fn the_enumerators_of_rust_are_llvms() {
    let is_of_c_alone = |name: &String| name.ends_with("_LAST") || name.ends_with("_FORCE_UINT32");
    let of_both = |(_, name, number)| (!is_of_c_alone(&name)).then_some((name, number));
    let mut llvm: Vec<_> = enumerators().into_iter().filter_map(of_both).collect();
    llvm.sort();
    let mut rust = enumerators_in_rust();
    rust.sort();
    assert_eq!(rust, llvm);
}

/// Functions of LLVM 23.1, and six of earlier versions.
const FUNCTIONS: usize = 41 + 6;

#[test]
fn its_functions_have_llvms_types() {
    let Some(declared) = Declared::read(&offload::path()) else { return };
    let mut llvm = BTreeMap::new();
    for function in facts(&["function"]) {
        let name = function.name;
        let mut parameters = parameters(&function);
        llvm.insert(name.to_owned(), signature(&parameters, "ol_result_t"));
        parameters.push(("CodeLocation".to_owned(), "*mut ol_code_location_t".to_owned()));
        llvm.insert(format!("{name}WithCodeLoc"), signature(&parameters, "ol_result_t"));
    }
    assert_eq!(llvm.len(), 2 * FUNCTIONS);
    assert_eq!(declared.functions, llvm);
}

#[test]
fn its_types_are_made_of_llvms_types() {
    let Some(declared) = Declared::read(&offload::path()) else { return };
    let types = facts(&["type"]).into_iter().map(|fact| (fact.name, in_rust(&fact.items[0])));
    let callbacks = facts(&["callback"]).into_iter().map(|fact| {
        let parameters: Vec<_> = fact.items[1..].iter().map(|item| variable(item)).collect();
        (fact.name, signature(&parameters, &in_rust(&fact.items[0])))
    });
    let enumerations = facts(&["enum"]).into_iter().map(|fact| (fact.name, "u32".to_owned()));
    let types = types.chain(callbacks).chain(enumerations);
    let llvm: BTreeMap<_, _> = types.map(|(name, kind)| (name.to_owned(), kind)).collect();
    let mut aliases = declared.aliases;
    // Names of C that the header uses.
    aliases.retain(|name, _| name.starts_with("ol_"));
    assert_eq!(aliases, llvm);
    let llvm: BTreeMap<_, _> = facts(&["struct"])
        .into_iter()
        .map(|fact| {
            let field = |item: &String| variable(item.split_once(' ').unwrap().1);
            (fact.name.to_owned(), fact.items.iter().map(field).collect::<Vec<_>>())
        })
        .collect();
    let mut structures = declared.structures;
    structures.retain(|name, _| !name.ends_with("_params_t") && !name.ends_with("_impl_t"));
    assert_eq!(structures, llvm);
}

#[test]
fn it_has_llvms_structures_of_parameters() {
    let Some(declared) = Declared::read(&offload::path()) else { return };
    let with_parameters =
        facts(&["function"]).into_iter().filter(|function| !function.items.is_empty());
    let structure = |function: Fact| {
        let field = |(name, kind)| (format!("p{name}"), format!("*mut {kind}"));
        let fields: Vec<_> = parameters(&function).into_iter().map(field).collect();
        (function.more[0].to_owned(), fields)
    };
    let llvm: BTreeMap<_, _> = with_parameters.map(structure).collect();
    let mut structures = declared.structures;
    structures.retain(|name, _| name.ends_with("_params_t"));
    assert_eq!(structures, llvm);
}

#[test]
fn cpp_calls_ol_init_without_an_argument() {
    let call = "#include \"OffloadAPI.h\"\nol_result_t start() { return olInit(); }\n";
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS.into_iter().filter(|(_, _, language)| *language == "c++") {
        compile(compiler, &["-c"], call, folder.path());
    }
}

#[test]
fn a_program_may_tell_llvm_20s_errors_apart() {
    compiles(
        r#"
#include "OffloadAPI.h"
const char *meaning(ol_errc_t Code);
const char *meaning(ol_errc_t Code) {
    switch (Code) {
    case OL_ERRC_SUCCESS: return "success";
    case OL_ERRC_INVALID_VALUE: case OL_ERRC_INVALID_PLATFORM: case OL_ERRC_INVALID_DEVICE:
    case OL_ERRC_INVALID_ARGUMENT: case OL_ERRC_INVALID_NULL_HANDLE: case OL_ERRC_INVALID_SIZE:
    case OL_ERRC_INVALID_NULL_POINTER: case OL_ERRC_INVALID_ENUMERATION: return "an argument";
    case OL_ERRC_DEVICE_NOT_FOUND: return "no device";
    case OL_ERRC_DEVICE_LOST: return "lost";
    case OL_ERRC_UNSUPPORTED_VERSION: return "the version";
    case OL_ERRC_UNSUPPORTED_FEATURE: return "the feature";
    case OL_ERRC_UNSUPPORTED_ENUMERATION: return "the number";
    case OL_ERRC_UNINITIALIZED: return "too early";
    default: return "unknown";
    }
}
"#,
    );
}

#[test]
fn its_macros_are_llvms() {
    compiles(
        r#"
#include "OffloadAPI.h"
#include "OffloadAPI.h"
#if OL_VERSION_MAJOR != 0 || OL_VERSION_MINOR != 0 || OL_VERSION_PATCH != 1
#error the version
#endif
#ifdef OL_DEFAULT_NULL
#error OL_DEFAULT_NULL is for the header alone
#endif
OL_DLLEXPORT ol_result_t OL_APICALL start(void);
ol_result_t start(void) {
    ol_init_args_t Args = OL_INIT_ARGS_INIT;
    return Args.Size == sizeof(Args) && Args.Platforms == NULL ? olInit(&Args) : OL_SUCCESS;
}
ol_result_t launch(ol_device_handle_t Device, ol_symbol_handle_t Kernel);
ol_result_t launch(ol_device_handle_t Device, ol_symbol_handle_t Kernel) {
    ol_kernel_launch_size_args_t Size = {1, {1, 1, 1}, {1, 1, 1}, 0};
    bool Cooperative = true;
    ol_kernel_launch_prop_t Properties[2] = {
        {OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE, &Cooperative}, OL_KERNEL_LAUNCH_PROP_END};
    return olLaunchKernel(NULL, Device, Kernel, &Size, Properties, 0, NULL, NULL);
}
"#,
    );
}

#[test]
fn its_comments_name_only_declared_names() {
    let header = offload::generate().unwrap();
    let (comments, declarations): (Vec<_>, Vec<_>) =
        header.lines().partition(|line| line.trim_start().starts_with("//"));
    let declared = words(&declarations);
    let unknown: Vec<_> = words(&comments)
        .into_iter()
        .filter(|word| word.starts_with("OL_") || word.starts_with("ol") && word.len() > 3)
        .filter(|word| !declared.contains(word))
        .collect();
    assert_eq!(unknown, [""; 0]);
}

fn words<'a>(lines: &[&'a str]) -> BTreeSet<&'a str> {
    let is_apart = |character: char| !character.is_alphanumeric() && character != '_';
    lines.iter().flat_map(|line| line.split(is_apart)).collect()
}

fn compiles(program: &str) {
    let folder = tempfile::tempdir().unwrap();
    for compiler in COMPILERS {
        compile(compiler, &["-c"], program, folder.path());
    }
}

fn layouts() -> Vec<Layout> {
    facts(&["enum", "struct", "type", "callback"]).iter().map(|fact| fact.layout()).collect()
}

/// Returns the parameters of a function of LLVM.
fn parameters(function: &Fact) -> Vec<Variable> {
    function.items.iter().map(|item| variable(item)).collect()
}

/// Returns LLVM's enumerators: their enumerations, names and numbers.
fn enumerators() -> Vec<(String, String, u32)> {
    let of_enumeration = |fact: Fact| {
        let one = move |item: String| {
            let (name, number) = item.split_once(" = ").unwrap();
            (fact.name.to_owned(), name.to_owned(), number.parse().unwrap())
        };
        fact.items.into_iter().map(one)
    };
    facts(&["enum"]).into_iter().flat_map(of_enumeration).collect()
}

macro_rules! types_of_rust {
    (
        enumerations: $($enumeration:ident)*;
        structures: $($structure:ident { $($field:ident)* })*;
        types: $($kind:ident)*;
    ) => {
        fn enumerators_in_rust() -> Vec<(String, u32)> {
            let mut all = Vec::new();
            $(all.extend($enumeration::ALL.iter().map(|(name, value)| (name.to_string(), value.0)));)*
            all
        }

        fn layouts_in_rust() -> Vec<Layout> {
            vec![
                $(layout::<$enumeration>(stringify!($enumeration), &[]),)*
                $(layout::<$structure>(
                    stringify!($structure),
                    &[$((offset_of!($structure, $field), stringify!($field))),*],
                ),)*
                $(layout::<$kind>(stringify!($kind), &[]),)*
            ]
        }
    };
}

fn layout<T>(name: &str, fields: &[(usize, &str)]) -> Layout {
    let field =
        |(offset, name): &(usize, &str)| (*offset, name.trim_start_matches("r#").to_owned());
    let fields = fields.iter().map(field).collect();
    Layout { name: name.to_owned(), whole: [size_of::<T>(), align_of::<T>()], fields }
}

types_of_rust! {
    enumerations:
        ol_errc_t ol_platform_backend_t ol_platform_info_t ol_device_type_t ol_device_info_t
        ol_device_fp_capability_flag_t ol_alloc_type_t ol_mem_info_t ol_memory_register_flag_t
        ol_mem_migration_flag_t ol_queue_info_t ol_event_flags_t ol_event_info_t ol_symbol_kind_t
        ol_symbol_info_t ol_kernel_launch_prop_type_t;
    structures:
        ol_error_struct_t { Code Details }
        ol_code_location_t { FunctionName SourceFile LineNumber ColumnNumber }
        ol_dimensions_t { x y z }
        ol_init_args_t { Size NumPlatforms Platforms }
        ol_kernel_launch_size_args_t { Dimensions NumGroups GroupSize DynSharedMemory }
        ol_kernel_launch_prop_t { r#type data };
    types:
        ol_platform_handle_t ol_device_handle_t ol_context_handle_t ol_queue_handle_t
        ol_event_handle_t ol_program_handle_t ol_symbol_handle_t ol_device_fp_capability_flags_t
        ol_memory_register_flags_t ol_mem_migration_flags_t ol_result_t ol_device_iterate_cb_t
        ol_host_function_cb_t ol_platform_rpc_cb_t;
}
