//! Handles and numbers of LLVM's C API.

use std::ffi::{c_char, c_void};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// The absent object.
            pub const NULL: $name = $name(std::ptr::null_mut());

            /// Returns whether this is the absent object.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }

            /// Returns the object, `None` for the absent one.
            pub fn present(self) -> Option<$name> {
                (!self.is_null()).then_some(self)
            }
        }
    )*};
}

handles! {
    /// `LLVMAttributeRef`: an attribute of a function, a parameter or a call.
    AttributeRef
    /// `LLVMBasicBlockRef`: a basic block.
    BlockRef
    /// `LLVMBuilderRef`: a place for new instructions.
    BuilderRef
    /// `LLVMComdatRef`: a group of definitions of which a linker keeps one.
    ComdatRef
    /// `LLVMContextRef`: an owner of types and metadata.
    ContextRef
    /// `LLVMDiagnosticInfoRef`: a message of LLVM.
    DiagnosticRef
    /// `LLVMDIBuilderRef`: a builder of descriptions for debuggers.
    DescriberRef
    /// `LLVMErrorRef`: an error; null is success.
    ErrorRef
    /// `LLVMMemoryBufferRef`: bytes.
    MemoryBufferRef
    /// `LLVMValueMetadataEntry *`: a list of a global's metadata.
    MetadataEntriesRef
    /// `LLVMMetadataRef`: a piece of metadata.
    MetadataRef
    /// `LLVMModuleRef`: a module.
    ModuleRef
    /// `LLVMNamedMDNodeRef`: a module's list of metadata.
    NamedMetadataRef
    /// `LLVMPassManagerRef`: a pipeline of the older kind.
    PassManagerRef
    /// `LLVMPassBuilderOptionsRef`: settings of a pipeline.
    PassOptionsRef
    /// `LLVMTargetDataRef`: sizes and alignments of types.
    TargetDataRef
    /// `LLVMTargetMachineRef`: a code generator.
    TargetMachineRef
    /// `LLVMTargetRef`: an instruction set.
    TargetRef
    /// `LLVMTypeRef`: a type.
    TypeRef
    /// `LLVMUseRef`: a use of a value.
    UseRef
    /// `LLVMValueRef`: a value.
    ValueRef
}

/// `LLVMBool`: 0 is false; for results, often 0 is success.
pub type Bool = i32;
/// `LLVMDiagnosticHandler`.
pub type DiagnosticHandler = Option<unsafe extern "C" fn(DiagnosticRef, *mut c_void)>;
/// `LLVMFatalErrorHandler`.
pub type FatalErrorHandler = Option<unsafe extern "C" fn(*const c_char)>;

/// `LLVMOpcode`.
#[allow(missing_docs, reason = "the names of LLVM's instructions")]
pub mod opcode {
    pub const RET: u32 = 1;
    pub const BR: u32 = 2;
    pub const SWITCH: u32 = 3;
    pub const INDIRECT_BR: u32 = 4;
    pub const INVOKE: u32 = 5;
    pub const UNREACHABLE: u32 = 7;
    pub const ADD: u32 = 8;
    pub const FADD: u32 = 9;
    pub const SUB: u32 = 10;
    pub const FSUB: u32 = 11;
    pub const MUL: u32 = 12;
    pub const FMUL: u32 = 13;
    pub const UDIV: u32 = 14;
    pub const SDIV: u32 = 15;
    pub const FDIV: u32 = 16;
    pub const UREM: u32 = 17;
    pub const SREM: u32 = 18;
    pub const FREM: u32 = 19;
    pub const SHL: u32 = 20;
    pub const LSHR: u32 = 21;
    pub const ASHR: u32 = 22;
    pub const AND: u32 = 23;
    pub const OR: u32 = 24;
    pub const XOR: u32 = 25;
    pub const ALLOCA: u32 = 26;
    pub const LOAD: u32 = 27;
    pub const STORE: u32 = 28;
    pub const GET_ELEMENT_PTR: u32 = 29;
    pub const TRUNC: u32 = 30;
    pub const ZEXT: u32 = 31;
    pub const SEXT: u32 = 32;
    pub const FP_TO_UI: u32 = 33;
    pub const FP_TO_SI: u32 = 34;
    pub const UI_TO_FP: u32 = 35;
    pub const SI_TO_FP: u32 = 36;
    pub const FP_TRUNC: u32 = 37;
    pub const FP_EXT: u32 = 38;
    pub const PTR_TO_INT: u32 = 39;
    pub const INT_TO_PTR: u32 = 40;
    pub const BIT_CAST: u32 = 41;
    pub const ICMP: u32 = 42;
    pub const FCMP: u32 = 43;
    pub const PHI: u32 = 44;
    pub const CALL: u32 = 45;
    pub const SELECT: u32 = 46;
    pub const VA_ARG: u32 = 49;
    pub const EXTRACT_ELEMENT: u32 = 50;
    pub const INSERT_ELEMENT: u32 = 51;
    pub const SHUFFLE_VECTOR: u32 = 52;
    pub const EXTRACT_VALUE: u32 = 53;
    pub const INSERT_VALUE: u32 = 54;
    pub const FENCE: u32 = 55;
    pub const ATOMIC_CMP_XCHG: u32 = 56;
    pub const ATOMIC_RMW: u32 = 57;
    pub const RESUME: u32 = 58;
    pub const LANDING_PAD: u32 = 59;
    pub const ADDR_SPACE_CAST: u32 = 60;
    pub const FNEG: u32 = 66;
    pub const CALL_BR: u32 = 67;
    pub const FREEZE: u32 = 68;
}

/// `LLVMTypeKind`.
#[allow(missing_docs, reason = "the names of LLVM's kinds of types")]
pub mod type_kind {
    pub const VOID: u32 = 0;
    pub const HALF: u32 = 1;
    pub const FLOAT: u32 = 2;
    pub const DOUBLE: u32 = 3;
    pub const INTEGER: u32 = 8;
    pub const FUNCTION: u32 = 9;
    pub const STRUCT: u32 = 10;
    pub const ARRAY: u32 = 11;
    pub const POINTER: u32 = 12;
    pub const VECTOR: u32 = 13;
    pub const TOKEN: u32 = 16;
    pub const BFLOAT: u32 = 18;
}

/// `LLVMIntPredicate`.
#[allow(missing_docs, reason = "the names of LLVM's predicates")]
pub mod predicate {
    pub const EQ: u32 = 32;
    pub const NE: u32 = 33;
    pub const UGT: u32 = 34;
    pub const UGE: u32 = 35;
    pub const ULT: u32 = 36;
    pub const ULE: u32 = 37;
    pub const SGT: u32 = 38;
    pub const SGE: u32 = 39;
    pub const SLT: u32 = 40;
    pub const SLE: u32 = 41;
}

/// `LLVMCodeGenOptLevel`.
#[allow(missing_docs, reason = "the names of LLVM's levels")]
pub mod code_gen_level {
    pub const NONE: u32 = 0;
    pub const LESS: u32 = 1;
    pub const DEFAULT: u32 = 2;
    pub const AGGRESSIVE: u32 = 3;
}

/// `LLVMMetadataKind`.
#[allow(missing_docs, reason = "the names of LLVM's kinds of metadata")]
pub mod metadata_kind {
    pub const TUPLE: u32 = 4;
    pub const BASIC_TYPE: u32 = 11;
    pub const DERIVED_TYPE: u32 = 12;
    pub const COMPOSITE_TYPE: u32 = 13;
    pub const SUBROUTINE_TYPE: u32 = 14;
    pub const LOCAL_VARIABLE: u32 = 25;
}

/// `LLVMRelocPIC` of `LLVMRelocMode`.
pub const RELOC_PIC: u32 = 2;
/// `LLVMCodeModelDefault` of `LLVMCodeModel`.
pub const CODE_MODEL_DEFAULT: u32 = 0;
/// `LLVMAssemblyFile` of `LLVMCodeGenFileType`.
pub const ASSEMBLY_FILE: u32 = 0;
/// `LLVMObjectFile` of `LLVMCodeGenFileType`.
pub const OBJECT_FILE: u32 = 1;
/// `LLVMReturnStatusAction` of `LLVMVerifierFailureAction`.
pub const RETURN_STATUS: u32 = 2;
/// `LLVMAttributeFunctionIndex`.
pub const FUNCTION_INDEX: u32 = u32::MAX;
/// `LLVMAttributeReturnIndex`.
pub const RETURN_INDEX: u32 = 0;
/// `LLVMExternalLinkage` of `LLVMLinkage`.
pub const EXTERNAL_LINKAGE: u32 = 0;
/// `LLVMAvailableExternallyLinkage` of `LLVMLinkage`.
pub const AVAILABLE_EXTERNALLY_LINKAGE: u32 = 1;
/// `LLVMLinkOnceAnyLinkage` of `LLVMLinkage`.
pub const LINK_ONCE_ANY_LINKAGE: u32 = 2;
/// `LLVMLinkOnceODRLinkage` of `LLVMLinkage`.
pub const LINK_ONCE_ODR_LINKAGE: u32 = 3;
/// `LLVMWeakAnyLinkage` of `LLVMLinkage`.
pub const WEAK_ANY_LINKAGE: u32 = 5;
/// `LLVMWeakODRLinkage` of `LLVMLinkage`.
pub const WEAK_ODR_LINKAGE: u32 = 6;
/// `LLVMAppendingLinkage` of `LLVMLinkage`.
pub const APPENDING_LINKAGE: u32 = 7;
/// `LLVMInternalLinkage` of `LLVMLinkage`.
pub const INTERNAL_LINKAGE: u32 = 8;
/// `LLVMPrivateLinkage` of `LLVMLinkage`.
pub const PRIVATE_LINKAGE: u32 = 9;
/// `LLVMHiddenVisibility` of `LLVMVisibility`.
pub const HIDDEN_VISIBILITY: u32 = 1;
/// `LLVMRelocStatic` of `LLVMRelocMode`.
pub const RELOC_STATIC: u32 = 1;
/// `LLVMDSError` of `LLVMDiagnosticSeverity`.
pub const SEVERITY_ERROR: u32 = 0;
/// `LLVMDSWarning` of `LLVMDiagnosticSeverity`.
pub const SEVERITY_WARNING: u32 = 1;
