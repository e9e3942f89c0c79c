//! A module of LLVM's IR with less noise: the operations of the C API that passes share.

use std::ffi::{CStr, CString, c_char};

use crate::types::*;
use crate::{Functions, Library};

/// Calls a function of LLVM: `ll!(ir, LLVMTypeOf(value))`.
#[macro_export]
macro_rules! ll {
    ($ir:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the caller of `Ir::new` vouches for the module, all handles come from it, and
        // none is used after its deletion.
        unsafe { ($ir.functions.$name)($($argument),*) }
    }};
}

/// A module with a builder for new instructions. Not for several threads.
pub struct Ir<'l> {
    /// The library's functions.
    pub functions: &'l Functions,
    /// The module's context.
    pub context: ContextRef,
    /// The module.
    pub module: ModuleRef,
    /// The builder.
    pub builder: BuilderRef,
    /// Major version of LLVM.
    pub major: u32,
}

impl Drop for Ir<'_> {
    fn drop(&mut self) {
        ll!(self, LLVMDisposeBuilder(self.builder));
    }
}

impl<'l> Ir<'l> {
    /// Creates the builder of a module.
    ///
    /// # Safety
    /// The module is alive, valid and of this context, and no other code uses it or the context
    /// while this exists. The methods get handles of this module alone, and none that is deleted.
    pub unsafe fn new(library: &'l Library, context: ContextRef, module: ModuleRef) -> Self {
        let functions = library.functions();
        // SAFETY: the caller vouches for the context.
        let builder = unsafe { (functions.LLVMCreateBuilderInContext)(context) };
        Ir { functions, context, module, builder, major: library.major() }
    }

    /// Returns the type of integers of `bits` bits.
    pub fn int(&self, bits: u32) -> TypeRef {
        ll!(self, LLVMIntTypeInContext(self.context, bits))
    }

    /// Returns an integer constant.
    pub fn constant(&self, bits: u32, value: u64) -> ValueRef {
        ll!(self, LLVMConstInt(self.int(bits), value, 0))
    }

    /// Returns the type of a value.
    pub fn type_of(&self, value: ValueRef) -> TypeRef {
        ll!(self, LLVMTypeOf(value))
    }

    /// Returns the kind of a type, from [`type_kind`].
    pub fn kind(&self, ty: TypeRef) -> u32 {
        ll!(self, LLVMGetTypeKind(ty))
    }

    /// Returns the value of a constant integer of at most 64 bits.
    pub fn constant_value(&self, value: ValueRef) -> Option<u64> {
        let constant = ll!(self, LLVMIsAConstantInt(value)).present()?;
        Some(ll!(self, LLVMConstIntGetZExtValue(constant)))
    }

    /// Returns whether a value is an instruction.
    pub fn is_instruction(&self, value: ValueRef) -> bool {
        !ll!(self, LLVMIsAInstruction(value)).is_null()
    }

    /// Returns all functions of the module.
    pub fn all_functions(&self) -> Vec<ValueRef> {
        let mut next = ll!(self, LLVMGetFirstFunction(self.module)).present();
        std::iter::from_fn(|| {
            let function = next?;
            next = ll!(self, LLVMGetNextFunction(function)).present();
            Some(function)
        })
        .collect()
    }

    /// Returns all variables of the module.
    pub fn all_globals(&self) -> Vec<ValueRef> {
        let mut next = ll!(self, LLVMGetFirstGlobal(self.module)).present();
        std::iter::from_fn(|| {
            let global = next?;
            next = ll!(self, LLVMGetNextGlobal(global)).present();
            Some(global)
        })
        .collect()
    }

    /// Returns whether a function or variable has its definition in the module.
    pub fn is_defined(&self, function: ValueRef) -> bool {
        ll!(self, LLVMIsDeclaration(function)) == 0
    }

    /// Returns the name of a value, empty without one.
    pub fn name(&self, value: ValueRef) -> String {
        let mut length = 0;
        let name = ll!(self, LLVMGetValueName2(value, &raw mut length));
        // SAFETY: LLVM returns the name's address and length.
        let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns the blocks of a function, in order.
    pub fn blocks(&self, function: ValueRef) -> Vec<BlockRef> {
        let mut next = ll!(self, LLVMGetFirstBasicBlock(function)).present();
        std::iter::from_fn(|| {
            let block = next?;
            next = ll!(self, LLVMGetNextBasicBlock(block)).present();
            Some(block)
        })
        .collect()
    }

    /// Returns the instructions of a block, in order.
    pub fn instructions(&self, block: BlockRef) -> Vec<ValueRef> {
        let mut next = ll!(self, LLVMGetFirstInstruction(block)).present();
        std::iter::from_fn(|| {
            let instruction = next?;
            next = ll!(self, LLVMGetNextInstruction(instruction)).present();
            Some(instruction)
        })
        .collect()
    }

    /// Returns the instructions of a function, in order.
    pub fn all_instructions(&self, function: ValueRef) -> Vec<ValueRef> {
        self.blocks(function).into_iter().flat_map(|block| self.instructions(block)).collect()
    }

    /// Returns the opcode of an instruction, from [`opcode`].
    pub fn opcode(&self, instruction: ValueRef) -> u32 {
        ll!(self, LLVMGetInstructionOpcode(instruction))
    }

    /// Returns the operands of an instruction or constant.
    pub fn operands(&self, user: ValueRef) -> Vec<ValueRef> {
        let count = ll!(self, LLVMGetNumOperands(user)).max(0) as u32;
        (0..count).map(|index| ll!(self, LLVMGetOperand(user, index))).collect()
    }

    /// Returns one operand of an instruction or constant.
    pub fn operand(&self, user: ValueRef, index: u32) -> ValueRef {
        ll!(self, LLVMGetOperand(user, index))
    }

    /// Returns the users of a value, each once.
    pub fn users(&self, value: ValueRef) -> Vec<ValueRef> {
        let mut next = ll!(self, LLVMGetFirstUse(value)).present();
        let mut users = Vec::new();
        while let Some(used) = next {
            users.push(ll!(self, LLVMGetUser(used)));
            next = ll!(self, LLVMGetNextUse(used)).present();
        }
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Returns the function that a call calls directly.
    pub fn callee(&self, call: ValueRef) -> Option<ValueRef> {
        let is_call = matches!(self.opcode(call), opcode::CALL | opcode::INVOKE);
        let called = is_call.then(|| ll!(self, LLVMGetCalledValue(call)))?.present()?;
        ll!(self, LLVMIsAFunction(called)).present()
    }

    /// Returns a type as the text form of the IR writes it.
    pub fn show_type(&self, ty: TypeRef) -> String {
        self.taken(ll!(self, LLVMPrintTypeToString(ty)))
    }

    /// Returns a node of metadata as the text form of the IR writes it.
    pub fn show_metadata(&self, node: MetadataRef) -> String {
        let node = ll!(self, LLVMMetadataAsValue(self.context, node));
        self.taken(ll!(self, LLVMPrintValueToString(node)))
    }

    /// Returns a text of LLVM's, and frees it.
    fn taken(&self, text: *mut c_char) -> String {
        // SAFETY: LLVM returns a text that ends with NUL.
        let shown = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        ll!(self, LLVMDisposeMessage(text));
        shown
    }

    /// Returns the operands of a node of metadata.
    pub fn metadata_operands(&self, node: MetadataRef) -> Vec<Option<MetadataRef>> {
        let node = ll!(self, LLVMMetadataAsValue(self.context, node));
        let count = ll!(self, LLVMGetMDNodeNumOperands(node));
        let mut operands = vec![ValueRef::NULL; count as usize];
        ll!(self, LLVMGetMDNodeOperands(node, operands.as_mut_ptr()));
        let as_metadata = |it: ValueRef| Some(ll!(self, LLVMValueAsMetadata(it.present()?)));
        operands.into_iter().map(as_metadata).collect()
    }

    /// Returns the text of a node that is a text.
    pub fn metadata_text(&self, node: MetadataRef) -> Option<String> {
        let node = ll!(self, LLVMMetadataAsValue(self.context, node));
        let mut length = 0;
        let start = ll!(self, LLVMGetMDString(node, &raw mut length));
        if start.is_null() {
            return None;
        }
        // SAFETY: LLVM returns a text of this length, which lives as long as the node.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast(), length as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Adds the functions of a text in LLVM's assembly language.
    ///
    /// # Errors
    /// LLVM's message for a text that is no IR of this version.
    pub fn link(&self, text: &str) -> Result<(), String> {
        let (start, length) = (text.as_ptr().cast(), text.len());
        let name = c"text".as_ptr();
        let buffer = ll!(self, LLVMCreateMemoryBufferWithMemoryRangeCopy(start, length, name));
        let (mut module, mut message) = (ModuleRef::NULL, std::ptr::null_mut());
        // The call takes the buffer over.
        let (read, problem) = (&raw mut module, &raw mut message);
        if ll!(self, LLVMParseIRInContext(self.context, buffer, read, problem)) != 0 {
            return Err(self.taken(message));
        }
        // LLVM warns of modules for different targets.
        let layout = ll!(self, LLVMGetModuleDataLayout(self.module));
        ll!(self, LLVMSetModuleDataLayout(module, layout));
        let target = ll!(self, LLVMGetTarget(self.module));
        ll!(self, LLVMSetTarget(module, target));
        match ll!(self, LLVMLinkModules2(self.module, module)) {
            0 => Ok(()),
            _ => Err("the module defines functions of these names".to_owned()),
        }
    }

    /// Runs a pipeline on the module.
    pub fn run_passes(&self, passes: &str, machine: TargetMachineRef) -> Result<(), String> {
        let text = CString::new(passes).expect("pipelines have no NUL");
        let options = ll!(self, LLVMCreatePassBuilderOptions());
        let error = ll!(self, LLVMRunPasses(self.module, text.as_ptr(), machine, options));
        ll!(self, LLVMDisposePassBuilderOptions(options));
        let Some(error) = error.present() else { return Ok(()) };
        let message = ll!(self, LLVMGetErrorMessage(error));
        // SAFETY: LLVM returns a text that ends with NUL.
        let shown = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        ll!(self, LLVMDisposeErrorMessage(message));
        Err(format!("LLVM refuses the passes '{passes}': {shown}"))
    }

    /// Returns the verifier's complaint about the module.
    pub fn verify(&self) -> Result<(), String> {
        let mut message = std::ptr::null_mut();
        let broken = ll!(self, LLVMVerifyModule(self.module, RETURN_STATUS, &raw mut message));
        let shown = match message.is_null() {
            true => String::new(),
            // SAFETY: LLVM returns a text that ends with NUL.
            false => unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned(),
        };
        ll!(self, LLVMDisposeMessage(message));
        if broken == 0 { Ok(()) } else { Err(shown) }
    }
}
