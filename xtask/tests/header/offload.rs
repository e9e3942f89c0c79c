//! The header of the C API.

use crate::llvm::{facts, split};
use crate::{COMPILERS, Layout, compile, layout_program, run};
use longshore_capi::*;
use std::collections::BTreeSet;
use std::mem::offset_of;
use xtask::header::{COMMAND, offload};

#[test]
fn it_is_what_the_source_says() {
    let there = std::fs::read_to_string(offload::path()).unwrap_or_default();
    assert!(there == offload::generate().unwrap(), "out of date: run `{COMMAND}`");
}

#[test]
fn its_types_lie_in_memory_as_llvms() {
    let folder = tempfile::tempdir().unwrap();
    let llvm = layouts();
    let expected: Vec<_> = llvm.iter().map(Layout::numbers).collect();
    for compiler in COMPILERS {
        let program = layout_program("OffloadAPI.h", &llvm);
        let Some(path) = compile(compiler, &[], &program, folder.path()) else { continue };
        assert_eq!(run(&path).lines().collect::<Vec<_>>(), expected, "{compiler:?}");
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
    let folder = tempfile::tempdir().unwrap();
    let mut program =
        String::from("#include <stdio.h>\n#include \"OffloadAPI.h\"\nint main(void) {\n");
    for (name, _) in enumerators() {
        program.push_str(&format!("printf(\"{name} = %d\\n\", (int){name});\n"));
    }
    program.push_str("return 0; }\n");
    let expected: Vec<_> =
        enumerators().iter().map(|(name, number)| format!("{name} = {number}")).collect();
    for compiler in COMPILERS {
        let Some(path) = compile(compiler, &[], &program, folder.path()) else { continue };
        assert_eq!(run(&path).lines().collect::<Vec<_>>(), expected, "{compiler:?}");
    }
}

#[test]
fn the_enumerators_of_rust_are_llvms() {
    let is_of_c_alone = |name: &str| name.ends_with("_LAST") || name.ends_with("_FORCE_UINT32");
    let mut llvm = enumerators();
    llvm.retain(|(name, _)| !is_of_c_alone(name));
    llvm.sort();
    let mut rust = enumerators_in_rust();
    rust.sort();
    assert_eq!(rust, llvm);
}

/// Those of LLVM 23.1, and six of earlier ones.
const FUNCTIONS: usize = 41 + 6;

/// What is assigned without a warning has the same type.
#[test]
fn its_functions_have_llvms_types() {
    let mut program = String::from("#include \"OffloadAPI.h\"\n");
    for function in facts(&["function"]) {
        let name = function.name;
        let mut parameters = function.items.clone();
        let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        program.push_str(&format!("ol_result_t (*of_{name})({list}) = {name};\n"));
        parameters.push("ol_code_location_t *CodeLocation".to_owned());
        let list = parameters.join(", ");
        program.push_str(&format!("ol_result_t (*with_{name})({list}) = {name}WithCodeLoc;\n"));
    }
    assert_eq!(program.matches("WithCodeLoc").count(), FUNCTIONS);
    compiles(&program);
    let declared =
        offload::generate().unwrap().matches("\nOL_APIEXPORT ol_result_t OL_APICALL ol").count();
    assert_eq!(declared, 2 * FUNCTIONS);
}

#[test]
fn its_types_are_made_of_llvms_types() {
    let mut program = String::from("#include \"OffloadAPI.h\"\n");
    for fact in facts(&["type"]) {
        let (name, kind) = (fact.name, &fact.items[0]);
        program.push_str(&format!("{name} *of_{name}({kind} *same) {{ return same; }}\n"));
    }
    for fact in facts(&["callback"]) {
        let (name, returned, list) = (fact.name, &fact.items[0], fact.items[1..].join(", "));
        program.push_str(&format!(
            "{name} of_{name}({returned} (*same)({list})) {{ return same; }}\n"
        ));
    }
    for (structure, field) in fields() {
        let (kind, name) = split(&field);
        program.push_str(&format!(
            "{kind} *of_{structure}_{name}({structure} *of) {{ return &of->{name}; }}\n"
        ));
    }
    compiles(&program);
}

#[test]
fn it_has_llvms_structures_of_parameters() {
    let mut program = String::from("#include \"OffloadAPI.h\"\n");
    for function in facts(&["function"]).iter().filter(|function| !function.items.is_empty()) {
        let structure = function.more[0];
        let mut initial = Vec::new();
        for parameter in &function.items {
            let (kind, name) = split(parameter);
            program.push_str(&format!(
                "{kind} *of_{structure}_{name}({structure} *of) {{ return of->p{name}; }}\n"
            ));
            initial.push("NULL");
        }
        // An initializer too many is an error, one too few a warning.
        program.push_str(&format!("{structure} of_{structure} = {{{}}};\n", initial.join(", ")));
    }
    compiles(&program);
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
const char *told(ol_errc_t Code);
const char *told(ol_errc_t Code) {
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
fn its_comments_name_only_what_it_declares() {
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

/// LLVM's structures, and declarations of their fields.
fn fields() -> Vec<(&'static str, String)> {
    let structures = facts(&["struct"]).into_iter();
    let fields =
        structures.flat_map(|fact| fact.items.into_iter().map(move |item| (fact.name, item)));
    fields.map(|(name, item)| (name, item.split_once(' ').unwrap().1.to_owned())).collect()
}

/// LLVM's enumerators.
fn enumerators() -> Vec<(String, u32)> {
    let items = facts(&["enum"]).into_iter().flat_map(|fact| fact.items);
    let pair = |item: String| {
        let (name, number) = item.split_once(" = ").unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    items.map(pair).collect()
}

macro_rules! in_rust {
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

in_rust! {
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
