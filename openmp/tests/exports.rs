//! The exported functions, compared with LLVM's `libomptarget.so`.

use std::collections::BTreeSet;
use std::path::Path;

/// The functions of LLVM 19.1.7.
const LLVM_19: [&str; 71] = [
    "__kmpc_push_target_tripcount",
    "__kmpc_push_target_tripcount_mapper",
    "__tgt_activate_record_replay",
    "__tgt_init_all_rtls",
    "__tgt_interop_destroy",
    "__tgt_interop_init",
    "__tgt_interop_use",
    "__tgt_mapper_num_components",
    "__tgt_print_device_info",
    "__tgt_push_mapper_component",
    "__tgt_register_lib",
    "__tgt_register_requires",
    "__tgt_rtl_deinit",
    "__tgt_rtl_init",
    "__tgt_set_info_flag",
    "__tgt_target",
    "__tgt_target_data_begin",
    "__tgt_target_data_begin_mapper",
    "__tgt_target_data_begin_nowait",
    "__tgt_target_data_begin_nowait_mapper",
    "__tgt_target_data_end",
    "__tgt_target_data_end_mapper",
    "__tgt_target_data_end_nowait",
    "__tgt_target_data_end_nowait_mapper",
    "__tgt_target_data_update",
    "__tgt_target_data_update_mapper",
    "__tgt_target_data_update_nowait",
    "__tgt_target_data_update_nowait_mapper",
    "__tgt_target_kernel",
    "__tgt_target_kernel_nowait",
    "__tgt_target_kernel_replay",
    "__tgt_target_mapper",
    "__tgt_target_nowait",
    "__tgt_target_nowait_mapper",
    "__tgt_target_nowait_query",
    "__tgt_target_teams",
    "__tgt_target_teams_mapper",
    "__tgt_target_teams_nowait",
    "__tgt_target_teams_nowait_mapper",
    "__tgt_unregister_lib",
    "llvm_omp_target_alloc_device",
    "llvm_omp_target_alloc_host",
    "llvm_omp_target_alloc_shared",
    "llvm_omp_target_dynamic_shared_alloc",
    "llvm_omp_target_free_device",
    "llvm_omp_target_free_host",
    "llvm_omp_target_free_shared",
    "llvm_omp_target_lock_mem",
    "llvm_omp_target_unlock_mem",
    "omp_get_device_num",
    "omp_get_initial_device",
    "omp_get_interop_int",
    "omp_get_interop_name",
    "omp_get_interop_ptr",
    "omp_get_interop_str",
    "omp_get_interop_type_desc",
    "omp_get_mapped_ptr",
    "omp_get_num_devices",
    "omp_target_alloc",
    "omp_target_associate_ptr",
    "omp_target_disassociate_ptr",
    "omp_target_free",
    "omp_target_is_present",
    "omp_target_memcpy",
    "omp_target_memcpy_async",
    "omp_target_memcpy_rect",
    "omp_target_memcpy_rect_async",
    "omp_target_memset",
    "omp_target_memset_async",
    "ompt_libomptarget_connect",
    "ompx_dump_mapping_tables",
];

/// The functions that LLVM 22.1.8 adds.
const ADDED_BY_LLVM_22: [&str; 11] = [
    "__llvmPopCallConfiguration",
    "__llvmPushCallConfiguration",
    "__tgt_interop_get",
    "__tgt_interop_release",
    "__tgt_interop_use60",
    "__tgt_target_sync",
    "llvmLaunchKernel",
    "omp_get_device_from_uid",
    "omp_get_uid_from_device",
    "omp_target_is_accessible",
    "ompx_interop_add_completion_callback",
];

/// The functions that LLVM 23 adds.
const ADDED_BY_LLVM_23: [&str; 2] = ["__tgt_register_rpc_callback", "omp_get_gprivate_limit"];

/// The functions for which libomp looks by name, and which no library of LLVM exports.
const SOUGHT_BY_LIBOMP: [&str; 7] = [
    "__tgt_get_mem_resources",
    "__tgt_get_num_devices",
    "__tgt_omp_alloc",
    "__tgt_omp_free",
    "omp_get_interop_rec_desc",
    "omp_get_num_interop_properties",
    "tgt_pause_resource",
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names in the version script, up to the local names.
fn exported() -> BTreeSet<String> {
    let script = read("exports.map");
    let (global, _) = script.split_once("local:").expect("the script has local names");
    let names = global.lines().filter_map(|line| line.trim().strip_suffix(';'));
    names.map(str::to_owned).collect()
}

/// Returns the sources of the exported functions.
fn sources() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exports");
    let files = std::fs::read_dir(folder).expect("the crate has a folder of exports");
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn no_function_of_llvm_or_for_libomp_is_missing() {
    let exported = exported();
    let expected = [&LLVM_19[..], &ADDED_BY_LLVM_22, &ADDED_BY_LLVM_23, &SOUGHT_BY_LIBOMP].concat();
    let missing: Vec<_> = expected.iter().filter(|name| !exported.contains(**name)).collect();
    assert!(missing.is_empty(), "exports.map lacks {missing:?}");
}

#[test]
fn each_exported_name_is_a_function_of_this_crate() {
    let sources = sources();
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let words: BTreeSet<_> = sources.split(|character| !is_word(character)).collect();
    let undefined: Vec<_> =
        exported().into_iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(undefined.is_empty(), "exports.map has {undefined:?}, which no source defines");
}

#[test]
fn each_exported_function_is_in_the_version_script() {
    let (sources, exported) = (sources(), exported());
    let functions = sources.split("pub unsafe extern \"C\" fn ").skip(1);
    let functions = functions.chain(sources.split("pub extern \"C\" fn ").skip(1));
    let names = functions.filter_map(|rest| rest.split('(').next());
    let missing: Vec<_> =
        names.filter(|name| !name.starts_with('$') && !exported.contains(*name)).collect();
    assert!(missing.is_empty(), "exports.map lacks {missing:?}");
}
