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
