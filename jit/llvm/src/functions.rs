//! The table of functions.

use std::ffi::{c_char, c_void};

use libloading::Library;

use crate::types::*;

macro_rules! functions {
    (
        required { $(fn $name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }
        optional { $(fn $maybe:ident($($maybe_argument:ty),* $(,)?) $(-> $maybe_result:ty)?;)* }
    ) => {
        /// The functions of one `libLLVM`, under their names in C. A function that some version of
        /// LLVM 14 to 22 lacks is an `Option`. No call checks its arguments: each is `unsafe`, with
        /// the contract of LLVM's documentation.
        #[allow(non_snake_case, missing_docs, reason = "the names of LLVM's functions")]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $maybe: Option<unsafe extern "C" fn($($maybe_argument),*) $(-> $maybe_result)?>,)*
        }

        impl Functions {
            /// Finds the functions of a library.
            ///
            /// # Errors
            /// The name of a missing function.
            ///
            /// # Safety
            /// The library is LLVM's, and stays loaded.
            pub(crate) unsafe fn find(library: &Library) -> Result<Functions, &'static str> {
                // SAFETY: the types are from LLVM's headers; the caller vouches for the library.
                unsafe {
                    Ok(Functions {
                        $($name: *library
                            .get(concat!(stringify!($name), "\0").as_bytes())
                            .map_err(|_| stringify!($name))?,)*
                        $($maybe: library
                            .get(concat!(stringify!($maybe), "\0").as_bytes())
                            .ok()
                            .map(|function| *function),)*
                    })
                }
            }
        }
    };
}

functions! {
    required {
        // Contexts, modules and messages.
        fn LLVMContextCreate() -> ContextRef;
        fn LLVMContextDispose(ContextRef);
        fn LLVMContextSetDiagnosticHandler(ContextRef, DiagnosticHandler, *mut c_void);
        fn LLVMGetDiagInfoDescription(DiagnosticRef) -> *mut c_char;
        fn LLVMGetDiagInfoSeverity(DiagnosticRef) -> u32;
        fn LLVMInstallFatalErrorHandler(FatalErrorHandler);
        fn LLVMDisposeMessage(*mut c_char);
        fn LLVMGetErrorMessage(ErrorRef) -> *mut c_char;
        fn LLVMDisposeErrorMessage(*mut c_char);
        fn LLVMParseCommandLineOptions(i32, *const *const c_char, *const c_char);
        fn LLVMModuleCreateWithNameInContext(*const c_char, ContextRef) -> ModuleRef;
        fn LLVMCloneModule(ModuleRef) -> ModuleRef;
        fn LLVMDisposeModule(ModuleRef);
        fn LLVMLinkModules2(ModuleRef, ModuleRef) -> Bool;
        fn LLVMVerifyModule(ModuleRef, u32, *mut *mut c_char) -> Bool;
        fn LLVMVerifyFunction(ValueRef, u32) -> Bool;
        fn LLVMPrintModuleToString(ModuleRef) -> *mut c_char;
        fn LLVMPrintValueToString(ValueRef) -> *mut c_char;
        fn LLVMPrintTypeToString(TypeRef) -> *mut c_char;
        fn LLVMGetModuleContext(ModuleRef) -> ContextRef;
        fn LLVMGetTarget(ModuleRef) -> *const c_char;
        fn LLVMSetTarget(ModuleRef, *const c_char);
        fn LLVMGetDataLayoutStr(ModuleRef) -> *const c_char;
        fn LLVMSetModuleDataLayout(ModuleRef, TargetDataRef);
        fn LLVMGetModuleDataLayout(ModuleRef) -> TargetDataRef;
        fn LLVMStripModuleDebugInfo(ModuleRef) -> Bool;
        fn LLVMGetModuleInlineAsm(ModuleRef, *mut usize) -> *const c_char;
        fn LLVMSetModuleInlineAsm2(ModuleRef, *const c_char, usize);
        // Bytes, bitcode and text.
        fn LLVMCreateMemoryBufferWithMemoryRange(
            *const c_char, usize, *const c_char, Bool,
        ) -> MemoryBufferRef;
        fn LLVMCreateMemoryBufferWithMemoryRangeCopy(
            *const c_char, usize, *const c_char,
        ) -> MemoryBufferRef;
        fn LLVMGetBufferStart(MemoryBufferRef) -> *const c_char;
        fn LLVMGetBufferSize(MemoryBufferRef) -> usize;
        fn LLVMDisposeMemoryBuffer(MemoryBufferRef);
        fn LLVMParseBitcodeInContext2(ContextRef, MemoryBufferRef, *mut ModuleRef) -> Bool;
        fn LLVMGetBitcodeModuleInContext2(ContextRef, MemoryBufferRef, *mut ModuleRef) -> Bool;
        fn LLVMWriteBitcodeToMemoryBuffer(ModuleRef) -> MemoryBufferRef;
        fn LLVMParseIRInContext(
            ContextRef, MemoryBufferRef, *mut ModuleRef, *mut *mut c_char,
        ) -> Bool;
        // Targets and code.
        fn LLVMGetTargetFromTriple(*const c_char, *mut TargetRef, *mut *mut c_char) -> Bool;
        fn LLVMCreateTargetMachine(
            TargetRef, *const c_char, *const c_char, *const c_char, u32, u32, u32,
        ) -> TargetMachineRef;
        fn LLVMDisposeTargetMachine(TargetMachineRef);
        fn LLVMCreateTargetDataLayout(TargetMachineRef) -> TargetDataRef;
        fn LLVMDisposeTargetData(TargetDataRef);
        fn LLVMCopyStringRepOfTargetData(TargetDataRef) -> *mut c_char;
        fn LLVMTargetMachineEmitToMemoryBuffer(
            TargetMachineRef, ModuleRef, u32, *mut *mut c_char, *mut MemoryBufferRef,
        ) -> Bool;
        fn LLVMGetHostCPUName() -> *mut c_char;
        fn LLVMGetHostCPUFeatures() -> *mut c_char;
        fn LLVMGetDefaultTargetTriple() -> *mut c_char;
        fn LLVMABISizeOfType(TargetDataRef, TypeRef) -> u64;
        fn LLVMABIAlignmentOfType(TargetDataRef, TypeRef) -> u32;
        fn LLVMStoreSizeOfType(TargetDataRef, TypeRef) -> u64;
        fn LLVMOffsetOfElement(TargetDataRef, TypeRef, u32) -> u64;
        // Pipelines.
        fn LLVMCreateFunctionPassManagerForModule(ModuleRef) -> PassManagerRef;
        fn LLVMRunFunctionPassManager(PassManagerRef, ValueRef) -> Bool;
        fn LLVMDisposePassManager(PassManagerRef);
        fn LLVMRunPasses(ModuleRef, *const c_char, TargetMachineRef, PassOptionsRef) -> ErrorRef;
        fn LLVMCreatePassBuilderOptions() -> PassOptionsRef;
        fn LLVMDisposePassBuilderOptions(PassOptionsRef);
        fn LLVMPassBuilderOptionsSetLoopVectorization(PassOptionsRef, Bool);
        fn LLVMPassBuilderOptionsSetSLPVectorization(PassOptionsRef, Bool);
        fn LLVMPassBuilderOptionsSetLoopUnrolling(PassOptionsRef, Bool);
        fn LLVMPassBuilderOptionsSetLoopInterleaving(PassOptionsRef, Bool);
        // Types.
        fn LLVMVoidTypeInContext(ContextRef) -> TypeRef;
        fn LLVMIntTypeInContext(ContextRef, u32) -> TypeRef;
        fn LLVMFloatTypeInContext(ContextRef) -> TypeRef;
        fn LLVMDoubleTypeInContext(ContextRef) -> TypeRef;
        fn LLVMFunctionType(TypeRef, *const TypeRef, u32, Bool) -> TypeRef;
        fn LLVMArrayType(TypeRef, u32) -> TypeRef;
        fn LLVMPointerType(TypeRef, u32) -> TypeRef;
        fn LLVMStructTypeInContext(ContextRef, *const TypeRef, u32, Bool) -> TypeRef;
        fn LLVMGetTypeKind(TypeRef) -> u32;
        fn LLVMGetPointerAddressSpace(TypeRef) -> u32;
        fn LLVMGetIntTypeWidth(TypeRef) -> u32;
        fn LLVMGetReturnType(TypeRef) -> TypeRef;
        fn LLVMGetElementType(TypeRef) -> TypeRef;
        fn LLVMStructGetTypeAtIndex(TypeRef, u32) -> TypeRef;
        fn LLVMCountStructElementTypes(TypeRef) -> u32;
        fn LLVMGetVectorSize(TypeRef) -> u32;
        fn LLVMGetArrayLength(TypeRef) -> u32;
        fn LLVMTypeOf(ValueRef) -> TypeRef;
        fn LLVMGlobalGetValueType(ValueRef) -> TypeRef;
        fn LLVMTypeIsSized(TypeRef) -> Bool;
        fn LLVMGetTypeByName2(ContextRef, *const c_char) -> TypeRef;
        // Globals and functions.
        fn LLVMGetFirstFunction(ModuleRef) -> ValueRef;
        fn LLVMGetNextFunction(ValueRef) -> ValueRef;
        fn LLVMGetNamedFunction(ModuleRef, *const c_char) -> ValueRef;
        fn LLVMAddFunction(ModuleRef, *const c_char, TypeRef) -> ValueRef;
        fn LLVMDeleteFunction(ValueRef);
        fn LLVMGetFirstGlobal(ModuleRef) -> ValueRef;
        fn LLVMGetNextGlobal(ValueRef) -> ValueRef;
        fn LLVMGetNamedGlobal(ModuleRef, *const c_char) -> ValueRef;
        fn LLVMAddGlobal(ModuleRef, TypeRef, *const c_char) -> ValueRef;
        fn LLVMDeleteGlobal(ValueRef);
        fn LLVMGetInitializer(ValueRef) -> ValueRef;
        fn LLVMSetInitializer(ValueRef, ValueRef);
        fn LLVMSetGlobalConstant(ValueRef, Bool);
        fn LLVMIsGlobalConstant(ValueRef) -> Bool;
        fn LLVMAddGlobalInAddressSpace(ModuleRef, TypeRef, *const c_char, u32) -> ValueRef;
        fn LLVMGetFirstGlobalAlias(ModuleRef) -> ValueRef;
        fn LLVMGetNextGlobalAlias(ValueRef) -> ValueRef;
        fn LLVMAliasGetAliasee(ValueRef) -> ValueRef;
        fn LLVMGetFirstGlobalIFunc(ModuleRef) -> ValueRef;
        fn LLVMSetComdat(ValueRef, ComdatRef);
        fn LLVMGetThreadLocalMode(ValueRef) -> u32;
        fn LLVMSetThreadLocalMode(ValueRef, u32);
        fn LLVMGetLinkage(ValueRef) -> u32;
        fn LLVMSetLinkage(ValueRef, u32);
        fn LLVMGetVisibility(ValueRef) -> u32;
        fn LLVMSetVisibility(ValueRef, u32);
        fn LLVMSetSection(ValueRef, *const c_char);
        fn LLVMSetAlignment(ValueRef, u32);
        fn LLVMGetAlignment(ValueRef) -> u32;
        fn LLVMIsDeclaration(ValueRef) -> Bool;
        fn LLVMCountParams(ValueRef) -> u32;
        fn LLVMGetParam(ValueRef, u32) -> ValueRef;
        fn LLVMGetFunctionCallConv(ValueRef) -> u32;
        fn LLVMSetFunctionCallConv(ValueRef, u32);
        fn LLVMSetInstructionCallConv(ValueRef, u32);
        fn LLVMHasPersonalityFn(ValueRef) -> Bool;
        fn LLVMGlobalEraseMetadata(ValueRef, u32);
        fn LLVMGlobalSetMetadata(ValueRef, u32, MetadataRef);
        fn LLVMGlobalCopyAllMetadata(ValueRef, *mut usize) -> MetadataEntriesRef;
        fn LLVMValueMetadataEntriesGetKind(MetadataEntriesRef, u32) -> u32;
        fn LLVMValueMetadataEntriesGetMetadata(MetadataEntriesRef, u32) -> MetadataRef;
        fn LLVMDisposeValueMetadataEntries(MetadataEntriesRef);
        fn LLVMGetSubprogram(ValueRef) -> MetadataRef;
        fn LLVMSetSubprogram(ValueRef, MetadataRef);
        fn LLVMGetEnumAttributeKindForName(*const c_char, usize) -> u32;
        fn LLVMCreateEnumAttribute(ContextRef, u32, u64) -> AttributeRef;
        fn LLVMGetEnumAttributeValue(AttributeRef) -> u64;
        fn LLVMCreateStringAttribute(
            ContextRef, *const c_char, u32, *const c_char, u32,
        ) -> AttributeRef;
        fn LLVMGetAttributeCountAtIndex(ValueRef, u32) -> u32;
        fn LLVMGetAttributesAtIndex(ValueRef, u32, *mut AttributeRef);
        fn LLVMAddAttributeAtIndex(ValueRef, u32, AttributeRef);
        fn LLVMGetEnumAttributeAtIndex(ValueRef, u32, u32) -> AttributeRef;
        fn LLVMGetStringAttributeAtIndex(ValueRef, u32, *const c_char, u32) -> AttributeRef;
        fn LLVMGetStringAttributeValue(AttributeRef, *mut u32) -> *const c_char;
        fn LLVMRemoveEnumAttributeAtIndex(ValueRef, u32, u32);
        fn LLVMRemoveStringAttributeAtIndex(ValueRef, u32, *const c_char, u32);
        fn LLVMAddCallSiteAttribute(ValueRef, u32, AttributeRef);
        fn LLVMGetCallSiteEnumAttribute(ValueRef, u32, u32) -> AttributeRef;
        fn LLVMRemoveCallSiteEnumAttribute(ValueRef, u32, u32);
        // Values.
        fn LLVMGetValueName2(ValueRef, *mut usize) -> *const c_char;
        fn LLVMSetValueName2(ValueRef, *const c_char, usize);
        fn LLVMReplaceAllUsesWith(ValueRef, ValueRef);
        fn LLVMGetFirstUse(ValueRef) -> UseRef;
        fn LLVMGetNextUse(UseRef) -> UseRef;
        fn LLVMGetUser(UseRef) -> ValueRef;
        fn LLVMGetUsedValue(UseRef) -> ValueRef;
        fn LLVMGetNumOperands(ValueRef) -> i32;
        fn LLVMGetOperand(ValueRef, u32) -> ValueRef;
        fn LLVMSetOperand(ValueRef, u32, ValueRef);
        fn LLVMIsConstant(ValueRef) -> Bool;
        fn LLVMIsUndef(ValueRef) -> Bool;
        fn LLVMIsNull(ValueRef) -> Bool;
        fn LLVMIsAInstruction(ValueRef) -> ValueRef;
        fn LLVMIsAConstantInt(ValueRef) -> ValueRef;
        fn LLVMIsAConstantExpr(ValueRef) -> ValueRef;
        fn LLVMIsAFunction(ValueRef) -> ValueRef;
        fn LLVMIsAGlobalVariable(ValueRef) -> ValueRef;
        fn LLVMIsAGlobalAlias(ValueRef) -> ValueRef;
        fn LLVMIsAArgument(ValueRef) -> ValueRef;
        fn LLVMIsABasicBlock(ValueRef) -> ValueRef;
        fn LLVMIsAAllocaInst(ValueRef) -> ValueRef;
        fn LLVMIsAInlineAsm(ValueRef) -> ValueRef;
        fn LLVMIsAConstantPointerNull(ValueRef) -> ValueRef;
        fn LLVMIsAConstantDataArray(ValueRef) -> ValueRef;
        fn LLVMIsAConstantAggregateZero(ValueRef) -> ValueRef;
        fn LLVMConstNull(TypeRef) -> ValueRef;
        fn LLVMConstInt(TypeRef, u64, Bool) -> ValueRef;
        fn LLVMConstIntGetZExtValue(ValueRef) -> u64;
        fn LLVMConstArray(TypeRef, *const ValueRef, u32) -> ValueRef;
        fn LLVMConstBitCast(ValueRef, TypeRef) -> ValueRef;
        fn LLVMConstPointerCast(ValueRef, TypeRef) -> ValueRef;
        fn LLVMConstNamedStruct(TypeRef, *const ValueRef, u32) -> ValueRef;
        fn LLVMConstReal(TypeRef, f64) -> ValueRef;
        fn LLVMGetUndef(TypeRef) -> ValueRef;
        fn LLVMGetPoison(TypeRef) -> ValueRef;
        fn LLVMGetConstOpcode(ValueRef) -> u32;
        fn LLVMGetAsString(ValueRef, *mut usize) -> *const c_char;
        fn LLVMGetElementAsConstant(ValueRef, u32) -> ValueRef;
        // Blocks.
        fn LLVMBasicBlockAsValue(BlockRef) -> ValueRef;
        fn LLVMValueAsBasicBlock(ValueRef) -> BlockRef;
        fn LLVMGetBasicBlockParent(BlockRef) -> ValueRef;
        fn LLVMGetBasicBlockTerminator(BlockRef) -> ValueRef;
        fn LLVMGetFirstBasicBlock(ValueRef) -> BlockRef;
        fn LLVMGetNextBasicBlock(BlockRef) -> BlockRef;
        fn LLVMGetEntryBasicBlock(ValueRef) -> BlockRef;
        fn LLVMCountBasicBlocks(ValueRef) -> u32;
        fn LLVMAppendBasicBlockInContext(ContextRef, ValueRef, *const c_char) -> BlockRef;
        fn LLVMInsertBasicBlockInContext(ContextRef, BlockRef, *const c_char) -> BlockRef;
        fn LLVMMoveBasicBlockAfter(BlockRef, BlockRef);
        fn LLVMMoveBasicBlockBefore(BlockRef, BlockRef);
        fn LLVMDeleteBasicBlock(BlockRef);
        fn LLVMGetFirstInstruction(BlockRef) -> ValueRef;
        fn LLVMGetLastInstruction(BlockRef) -> ValueRef;
        // Instructions.
        fn LLVMGetNextInstruction(ValueRef) -> ValueRef;
        fn LLVMGetPreviousInstruction(ValueRef) -> ValueRef;
        fn LLVMGetInstructionParent(ValueRef) -> BlockRef;
        fn LLVMGetInstructionOpcode(ValueRef) -> u32;
        fn LLVMInstructionRemoveFromParent(ValueRef);
        fn LLVMInstructionEraseFromParent(ValueRef);
        fn LLVMInstructionClone(ValueRef) -> ValueRef;
        fn LLVMGetNumSuccessors(ValueRef) -> u32;
        fn LLVMGetSuccessor(ValueRef, u32) -> BlockRef;
        fn LLVMSetSuccessor(ValueRef, u32, BlockRef);
        fn LLVMIsConditional(ValueRef) -> Bool;
        fn LLVMGetCondition(ValueRef) -> ValueRef;
        fn LLVMGetSwitchDefaultDest(ValueRef) -> BlockRef;
        fn LLVMAddIncoming(ValueRef, *const ValueRef, *const BlockRef, u32);
        fn LLVMCountIncoming(ValueRef) -> u32;
        fn LLVMGetIncomingValue(ValueRef, u32) -> ValueRef;
        fn LLVMGetIncomingBlock(ValueRef, u32) -> BlockRef;
        fn LLVMGetCalledValue(ValueRef) -> ValueRef;
        fn LLVMGetCalledFunctionType(ValueRef) -> TypeRef;
        fn LLVMGetNumArgOperands(ValueRef) -> u32;
        fn LLVMGetIntrinsicID(ValueRef) -> u32;
        fn LLVMIsAIntrinsicInst(ValueRef) -> ValueRef;
        fn LLVMGetAllocatedType(ValueRef) -> TypeRef;
        fn LLVMGetGEPSourceElementType(ValueRef) -> TypeRef;
        fn LLVMGetVolatile(ValueRef) -> Bool;
        fn LLVMSetVolatile(ValueRef, Bool);
        fn LLVMGetOrdering(ValueRef) -> u32;
        fn LLVMSetOrdering(ValueRef, u32);
        fn LLVMGetAtomicRMWBinOp(ValueRef) -> u32;
        fn LLVMGetCmpXchgSuccessOrdering(ValueRef) -> u32;
        fn LLVMGetICmpPredicate(ValueRef) -> u32;
        fn LLVMGetFCmpPredicate(ValueRef) -> u32;
        fn LLVMGetNumIndices(ValueRef) -> u32;
        fn LLVMGetIndices(ValueRef) -> *const u32;
        fn LLVMGetNumMaskElements(ValueRef) -> u32;
        fn LLVMGetMaskValue(ValueRef, u32) -> i32;
        fn LLVMGetMDKindIDInContext(ContextRef, *const c_char, u32) -> u32;
        fn LLVMGetMetadata(ValueRef, u32) -> ValueRef;
        fn LLVMSetMetadata(ValueRef, u32, ValueRef);
        fn LLVMMDStringInContext2(ContextRef, *const c_char, usize) -> MetadataRef;
        fn LLVMGetMDString(ValueRef, *mut u32) -> *const c_char;
        fn LLVMMDNodeInContext2(ContextRef, *const MetadataRef, usize) -> MetadataRef;
        fn LLVMTemporaryMDNode(ContextRef, *const MetadataRef, usize) -> MetadataRef;
        fn LLVMMetadataReplaceAllUsesWith(MetadataRef, MetadataRef);
        fn LLVMMetadataAsValue(ContextRef, MetadataRef) -> ValueRef;
        fn LLVMValueAsMetadata(ValueRef) -> MetadataRef;
        fn LLVMGetNamedMetadataNumOperands(ModuleRef, *const c_char) -> u32;
        fn LLVMGetNamedMetadataOperands(ModuleRef, *const c_char, *mut ValueRef);
        fn LLVMAddNamedMetadataOperand(ModuleRef, *const c_char, ValueRef);
        fn LLVMInstructionGetDebugLoc(ValueRef) -> MetadataRef;
        fn LLVMInstructionSetDebugLoc(ValueRef, MetadataRef);
        fn LLVMGetDebugLocLine(ValueRef) -> u32;
        fn LLVMGetDebugLocFilename(ValueRef, *mut u32) -> *const c_char;
        fn LLVMDILocationGetLine(MetadataRef) -> u32;
        fn LLVMDILocationGetScope(MetadataRef) -> MetadataRef;
        fn LLVMDILocationGetInlinedAt(MetadataRef) -> MetadataRef;
        fn LLVMDIScopeGetFile(MetadataRef) -> MetadataRef;
        fn LLVMDIFileGetFilename(MetadataRef, *mut u32) -> *const c_char;
        fn LLVMDIFileGetDirectory(MetadataRef, *mut u32) -> *const c_char;
        fn LLVMDISubprogramGetLine(MetadataRef) -> u32;
        fn LLVMDITypeGetName(MetadataRef, *mut usize) -> *const c_char;
        fn LLVMDITypeGetSizeInBits(MetadataRef) -> u64;
        fn LLVMGetMetadataKind(MetadataRef) -> u32;
        fn LLVMGetMDNodeNumOperands(ValueRef) -> u32;
        fn LLVMGetMDNodeOperands(ValueRef, *mut ValueRef);
        fn LLVMDIBuilderCreateDebugLocation(
            ContextRef, u32, u32, MetadataRef, MetadataRef,
        ) -> MetadataRef;
        // Descriptions for debuggers.
        fn LLVMDIGlobalVariableExpressionGetVariable(MetadataRef) -> MetadataRef;
        fn LLVMCreateDIBuilder(ModuleRef) -> DescriberRef;
        fn LLVMDIBuilderFinalize(DescriberRef);
        fn LLVMDisposeDIBuilder(DescriberRef);
        fn LLVMDIBuilderCreateBasicType(
            DescriberRef, *const c_char, usize, u64, u32, u32,
        ) -> MetadataRef;
        fn LLVMDIBuilderCreateMemberType(
            DescriberRef, MetadataRef, *const c_char, usize, MetadataRef, u32, u64, u32, u64, u32,
            MetadataRef,
        ) -> MetadataRef;
        fn LLVMDIBuilderCreateStructType(
            DescriberRef, MetadataRef, *const c_char, usize, MetadataRef, u32, u64, u32, u32,
            MetadataRef, *const MetadataRef, u32, u32, MetadataRef, *const c_char, usize,
        ) -> MetadataRef;
        fn LLVMDIBuilderGetOrCreateSubrange(DescriberRef, i64, i64) -> MetadataRef;
        fn LLVMDIBuilderCreateArrayType(
            DescriberRef, u64, u32, MetadataRef, *const MetadataRef, u32,
        ) -> MetadataRef;
        fn LLVMDIBuilderCreateAutoVariable(
            DescriberRef, MetadataRef, *const c_char, usize, MetadataRef, u32, MetadataRef, Bool,
            u32, u32,
        ) -> MetadataRef;
        fn LLVMDIBuilderCreateExpression(DescriberRef, *const u64, usize) -> MetadataRef;
        // Builders.
        fn LLVMCreateBuilderInContext(ContextRef) -> BuilderRef;
        fn LLVMDisposeBuilder(BuilderRef);
        fn LLVMPositionBuilderAtEnd(BuilderRef, BlockRef);
        fn LLVMPositionBuilderBefore(BuilderRef, ValueRef);
        fn LLVMInsertIntoBuilder(BuilderRef, ValueRef);
        fn LLVMSetCurrentDebugLocation2(BuilderRef, MetadataRef);
        fn LLVMBuildRetVoid(BuilderRef) -> ValueRef;
        fn LLVMBuildRet(BuilderRef, ValueRef) -> ValueRef;
        fn LLVMBuildBr(BuilderRef, BlockRef) -> ValueRef;
        fn LLVMBuildCondBr(BuilderRef, ValueRef, BlockRef, BlockRef) -> ValueRef;
        fn LLVMBuildSwitch(BuilderRef, ValueRef, BlockRef, u32) -> ValueRef;
        fn LLVMAddCase(ValueRef, ValueRef, BlockRef);
        fn LLVMBuildUnreachable(BuilderRef) -> ValueRef;
        fn LLVMBuildAlloca(BuilderRef, TypeRef, *const c_char) -> ValueRef;
        fn LLVMBuildArrayAlloca(BuilderRef, TypeRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildLoad2(BuilderRef, TypeRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildStore(BuilderRef, ValueRef, ValueRef) -> ValueRef;
        fn LLVMBuildMemCpy(BuilderRef, ValueRef, u32, ValueRef, u32, ValueRef) -> ValueRef;
        fn LLVMBuildGEP2(
            BuilderRef, TypeRef, ValueRef, *const ValueRef, u32, *const c_char,
        ) -> ValueRef;
        fn LLVMBuildInBoundsGEP2(
            BuilderRef, TypeRef, ValueRef, *const ValueRef, u32, *const c_char,
        ) -> ValueRef;
        fn LLVMBuildBinOp(BuilderRef, u32, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildNUWAdd(BuilderRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildNUWMul(BuilderRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildNUWSub(BuilderRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildICmp(BuilderRef, u32, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildFCmp(BuilderRef, u32, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildCast(BuilderRef, u32, ValueRef, TypeRef, *const c_char) -> ValueRef;
        fn LLVMBuildSelect(BuilderRef, ValueRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildPhi(BuilderRef, TypeRef, *const c_char) -> ValueRef;
        fn LLVMBuildCall2(
            BuilderRef, TypeRef, ValueRef, *const ValueRef, u32, *const c_char,
        ) -> ValueRef;
        fn LLVMBuildInsertElement(
            BuilderRef, ValueRef, ValueRef, ValueRef, *const c_char,
        ) -> ValueRef;
        fn LLVMBuildExtractElement(BuilderRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildInsertValue(
            BuilderRef, ValueRef, ValueRef, u32, *const c_char,
        ) -> ValueRef;
        fn LLVMBuildExtractValue(BuilderRef, ValueRef, u32, *const c_char) -> ValueRef;
        fn LLVMBuildFreeze(BuilderRef, ValueRef, *const c_char) -> ValueRef;
        fn LLVMBuildFence(BuilderRef, u32, Bool, *const c_char) -> ValueRef;
        fn LLVMBuildMemSet(BuilderRef, ValueRef, ValueRef, ValueRef, u32) -> ValueRef;
        // Source places, and texts for messages.
        fn LLVMDILocationGetColumn(MetadataRef) -> u32;
        fn LLVMConstStringInContext(ContextRef, *const c_char, u32, Bool) -> ValueRef;
        fn LLVMConstStructInContext(ContextRef, *const ValueRef, u32, Bool) -> ValueRef;
        fn LLVMGetStructName(TypeRef) -> *const c_char;
        fn LLVMIsThreadLocal(ValueRef) -> Bool;
    }
    optional {
        fn LLVMGetVersion(*mut u32, *mut u32, *mut u32);
        fn LLVMContextSetOpaquePointers(ContextRef, Bool);
        fn LLVMRunPassesOnFunction(
            ValueRef, *const c_char, TargetMachineRef, PassOptionsRef,
        ) -> ErrorRef;
        fn LLVMInitializeX86TargetInfo();
        fn LLVMInitializeX86Target();
        fn LLVMInitializeX86TargetMC();
        fn LLVMInitializeX86AsmPrinter();
        fn LLVMInitializeX86AsmParser();
        fn LLVMInitializeAArch64TargetInfo();
        fn LLVMInitializeAArch64Target();
        fn LLVMInitializeAArch64TargetMC();
        fn LLVMInitializeAArch64AsmPrinter();
        fn LLVMInitializeAArch64AsmParser();
        fn LLVMInitializeNVPTXTargetInfo();
        fn LLVMInitializeNVPTXTarget();
        fn LLVMInitializeNVPTXTargetMC();
        fn LLVMInitializeNVPTXAsmPrinter();
        fn LLVMInitializeAMDGPUTargetInfo();
        fn LLVMInitializeAMDGPUTarget();
        fn LLVMInitializeAMDGPUTargetMC();
        fn LLVMInitializeAMDGPUAsmPrinter();
        fn LLVMInitializeAMDGPUAsmParser();
        fn LLVMIsNewDbgInfoFormat(ModuleRef) -> Bool;
        fn LLVMReplaceMDNodeOperandWith(ValueRef, u32, MetadataRef);
        // By instructions until LLVM 19, by records from LLVM 19 on.
        fn LLVMDIBuilderInsertDeclareAtEnd(
            DescriberRef, ValueRef, MetadataRef, MetadataRef, MetadataRef, BlockRef,
        ) -> ValueRef;
        fn LLVMDIBuilderInsertDeclareRecordAtEnd(
            DescriberRef, ValueRef, MetadataRef, MetadataRef, MetadataRef, BlockRef,
        ) -> *mut c_void;
    }
}
