//! The group size of a GPU's kernel as a constant, and as a limit for the code generator.

use std::ffi::CString;

use longshore_llvm::types::*;

use super::{Copy, Processor, Source};
use crate::ir::{Ir, ll};

/// The module's list of facts about functions for NVIDIA's code generator: lists of a function,
/// names and values.
const ANNOTATIONS: &std::ffi::CStr = c"nvvm.annotations";
/// Facts about the group size.
const OF_GROUP: [&str; 6] =
    ["reqntidx", "reqntidy", "reqntidz", "maxntidx", "maxntidy", "maxntidz"];
/// The version of LLVM from which on these facts are attributes.
const ATTRIBUTES: u32 = 21;

/// Fixes the group size of a copied kernel, and copies the other facts about the kernel.
pub(super) fn fix(ir: &Ir<'_>, processor: Processor, source: &Source<'_>, copy: &Copy) {
    copy_metadata(ir, source.kernel, copy.kernel);
    match processor {
        Processor::Nvidia => {
            copy_annotations(ir, source, copy);
            source.variant.group.iter().for_each(|group| fix_nvidia(ir, copy.kernel, *group));
        }
        Processor::Amd => {
            source.variant.group.iter().for_each(|group| fix_amd(ir, copy.kernel, *group));
        }
        Processor::Cpu => {}
    }
}

/// Returns whether an annotation makes a function a kernel, as clang before 21 writes it.
pub(super) fn is_annotated_kernel(ir: &Ir<'_>, function: ValueRef) -> bool {
    annotations_of(ir, function).iter().any(|(name, _)| name == "kernel")
}

fn fix_nvidia(ir: &Ir<'_>, kernel: ValueRef, group: [u32; 3]) {
    for instruction in ir.all_instructions(kernel) {
        let called = ir.callee(instruction).map(|called| ir.name(called)).unwrap_or_default();
        let dimension = match called.strip_prefix("llvm.nvvm.read.ptx.sreg.ntid.") {
            Some("x") => 0,
            Some("y") => 1,
            Some("z") => 2,
            _ => continue,
        };
        ir.replace(instruction, ir.constant(32, group[dimension].into()));
        ir.erase(instruction);
    }
    let [x, y, z] = group;
    if ir.major >= ATTRIBUTES {
        set_attribute(ir, kernel, "nvvm.reqntid", &format!("{x},{y},{z}"));
        return;
    }
    for (name, size) in OF_GROUP.into_iter().zip(group) {
        annotate(ir, kernel, name, ll!(ir, LLVMValueAsMetadata(ir.constant(32, size.into()))));
    }
}

/// Requires a group size by metadata, from which LLVM also replaces reads of the size.
fn fix_amd(ir: &Ir<'_>, kernel: ValueRef, group: [u32; 3]) {
    let items: u64 = group.map(u64::from).iter().product();
    set_attribute(ir, kernel, "amdgpu-flat-work-group-size", &format!("{items},{items}"));
    let sizes = group.map(|size| ll!(ir, LLVMValueAsMetadata(ir.constant(32, size.into()))));
    let sizes = ll!(ir, LLVMMDNodeInContext2(ir.context, sizes.as_ptr(), 3));
    let kind = crate::metadata::metadata_kind(ir, "reqd_work_group_size");
    ll!(ir, LLVMGlobalSetMetadata(kernel, kind, sizes));
}

/// Copies the metadata of a function, except its description for debuggers, which only one function
/// can have.
fn copy_metadata(ir: &Ir<'_>, from: ValueRef, to: ValueRef) {
    let debug = crate::metadata::metadata_kind(ir, "dbg");
    let mut count = 0;
    let entries = ll!(ir, LLVMGlobalCopyAllMetadata(from, &raw mut count));
    for index in 0..count as u32 {
        let kind = ll!(ir, LLVMValueMetadataEntriesGetKind(entries, index));
        if kind != debug {
            let value = ll!(ir, LLVMValueMetadataEntriesGetMetadata(entries, index));
            ll!(ir, LLVMGlobalSetMetadata(to, kind, value));
        }
    }
    ll!(ir, LLVMDisposeValueMetadataEntries(entries));
}

fn copy_annotations(ir: &Ir<'_>, source: &Source<'_>, copy: &Copy) {
    let has_group = source.variant.group.is_some();
    for (name, value) in annotations_of(ir, source.kernel) {
        if !(has_group && OF_GROUP.contains(&name.as_str())) {
            annotate(ir, copy.kernel, &name, ll!(ir, LLVMValueAsMetadata(value)));
        }
    }
}

/// Returns the annotations of a function whose values are numbers.
fn annotations_of(ir: &Ir<'_>, function: ValueRef) -> Vec<(String, ValueRef)> {
    let count = ll!(ir, LLVMGetNamedMetadataNumOperands(ir.module, ANNOTATIONS.as_ptr()));
    let mut lists = vec![ValueRef::NULL; count as usize];
    ll!(ir, LLVMGetNamedMetadataOperands(ir.module, ANNOTATIONS.as_ptr(), lists.as_mut_ptr()));
    let mut found = Vec::new();
    for list in lists {
        let parts = ir.operands(list);
        if parts.first() != Some(&function) {
            continue;
        }
        for pair in parts[1..].chunks_exact(2) {
            if let Some(name) =
                pair[0].present().and_then(|it| ir.metadata_text(ll!(ir, LLVMValueAsMetadata(it))))
                && !pair[1].is_null()
                && ir.constant_value(pair[1]).is_some()
            {
                found.push((name, pair[1]));
            }
        }
    }
    found
}

fn annotate(ir: &Ir<'_>, function: ValueRef, name: &str, value: MetadataRef) {
    let parts = [
        ll!(ir, LLVMValueAsMetadata(function)),
        ll!(ir, LLVMMDStringInContext2(ir.context, name.as_ptr().cast(), name.len())),
        value,
    ];
    let list = ll!(ir, LLVMMDNodeInContext2(ir.context, parts.as_ptr(), parts.len()));
    let list = ll!(ir, LLVMMetadataAsValue(ir.context, list));
    ll!(ir, LLVMAddNamedMetadataOperand(ir.module, ANNOTATIONS.as_ptr(), list));
}

fn set_attribute(ir: &Ir<'_>, function: ValueRef, name: &str, value: &str) {
    let value = CString::new(value).expect("it is a number");
    let (name, length) = (name.as_ptr().cast(), name.len() as u32);
    let size = value.as_bytes().len() as u32;
    let attribute =
        ll!(ir, LLVMCreateStringAttribute(ir.context, name, length, value.as_ptr(), size));
    ll!(ir, LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute));
}
