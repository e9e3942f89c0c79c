//! Metadata that the C API cannot make.

use std::ptr::null_mut;

use longshore_llvm::types::{MemoryBufferRef, MetadataRef, ModuleRef, ValueRef};

use crate::ir::{Ir, ll};

const TEXT: &str = "!longshore = !{!0}\n!0 = distinct !{}\n";

/// Returns a new, distinct piece of metadata without contents, which a group of accesses needs.
pub(crate) fn distinct(ir: &Ir<'_>) -> MetadataRef {
    let name = c"longshore".as_ptr();
    let text: MemoryBufferRef =
        ll!(ir, LLVMCreateMemoryBufferWithMemoryRangeCopy(TEXT.as_ptr().cast(), TEXT.len(), name));
    let (mut module, mut message) = (ModuleRef::NULL, null_mut());
    // The buffer belongs to LLVM now.
    let failed = ll!(ir, LLVMParseIRInContext(ir.context, text, &raw mut module, &raw mut message));
    assert_eq!(failed, 0, "the text is IR of all versions");
    let mut node = ValueRef::NULL;
    ll!(ir, LLVMGetNamedMetadataOperands(module, name, &raw mut node));
    let node = ll!(ir, LLVMValueAsMetadata(node));
    // The metadata belongs to the context.
    ll!(ir, LLVMDisposeModule(module));
    node
}

pub(crate) fn metadata_value(ir: &Ir<'_>, metadata: MetadataRef) -> ValueRef {
    ll!(ir, LLVMMetadataAsValue(ir.context, metadata))
}

pub(crate) fn metadata_kind(ir: &Ir<'_>, name: &str) -> u32 {
    ll!(ir, LLVMGetMDKindIDInContext(ir.context, name.as_ptr().cast(), name.len() as u32))
}

/// Returns whether an instruction only describes a variable for debuggers.
pub(crate) fn is_for_debuggers(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    let callee = ir.callee(instruction).map(|callee| ir.name(callee));
    callee.is_some_and(|name| name.starts_with("llvm.dbg."))
}

/// Name of the mark of branches that a chunk takes together.
const TOGETHER: &str = "longshore.together";

/// Marks a branch as one that a chunk takes together.
pub(crate) fn take_together(ir: &Ir<'_>, branch: ValueRef) {
    let kind = metadata_kind(ir, TOGETHER);
    let node = ll!(ir, LLVMMDNodeInContext2(ir.context, std::ptr::null(), 0));
    ll!(ir, LLVMSetMetadata(branch, kind, metadata_value(ir, node)));
}

/// Returns whether a branch is one that a chunk takes together.
pub(crate) fn is_together(ir: &Ir<'_>, branch: ValueRef) -> bool {
    let kind = metadata_kind(ir, TOGETHER);
    !ll!(ir, LLVMGetMetadata(branch, kind)).is_null()
}
