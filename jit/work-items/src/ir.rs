//! LLVM's IR with less noise: the operations of the C API that the pass needs.

use std::ffi::CStr;
use std::ops::Deref;

use longshore_llvm::Library;
use longshore_llvm::types::*;

mod build;
mod source;
pub(crate) use build::Build;

pub(crate) use longshore_llvm::ll;

/// A module with a builder for new instructions, and with the changes that these passes make.
pub(crate) struct Ir<'l>(longshore_llvm::Ir<'l>);

impl<'l> Deref for Ir<'l> {
    type Target = longshore_llvm::Ir<'l>;

    fn deref(&self) -> &longshore_llvm::Ir<'l> {
        &self.0
    }
}

impl<'l> Ir<'l> {
    /// # Safety
    /// As for [`longshore_llvm::Ir::new`].
    pub(crate) unsafe fn new(library: &'l Library, context: ContextRef, module: ModuleRef) -> Self {
        // SAFETY: promised by the caller.
        Ir(unsafe { longshore_llvm::Ir::new(library, context, module) })
    }

    // ---- Types and constants ----

    pub(crate) fn pointer_to(&self, ty: TypeRef) -> TypeRef {
        ll!(self, LLVMPointerType(ty, 0))
    }

    /// Returns a word of a constant array of words.
    pub(crate) fn constant_word(&self, array: ValueRef, index: u32) -> Option<u32> {
        let ty = self.type_of(array);
        let is_array = ll!(self, LLVMGetTypeKind(ty)) == type_kind::ARRAY;
        if !is_array || index >= ll!(self, LLVMGetArrayLength(ty)) {
            return None;
        }
        if !ll!(self, LLVMIsAConstantAggregateZero(array)).is_null() {
            return Some(0);
        }
        let word = match ll!(self, LLVMIsAConstantDataArray(array)).present() {
            Some(array) => ll!(self, LLVMGetElementAsConstant(array, index)),
            None => *self.operands(array).get(index as usize)?,
        };
        self.constant_value(word).map(|word| word as u32)
    }

    // ---- Functions ----

    pub(crate) fn set_name(&self, value: ValueRef, name: &str) {
        ll!(self, LLVMSetValueName2(value, name.as_ptr().cast(), name.len()));
    }

    pub(crate) fn parameter(&self, function: ValueRef, index: u32) -> ValueRef {
        ll!(self, LLVMGetParam(function, index))
    }

    fn attribute_kind(&self, name: &str) -> u32 {
        ll!(self, LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
    }

    pub(crate) fn has_attribute(&self, function: ValueRef, name: &str) -> bool {
        let kind = self.attribute_kind(name);
        !ll!(self, LLVMGetEnumAttributeAtIndex(function, FUNCTION_INDEX, kind)).is_null()
    }

    pub(crate) fn add_attribute(&self, function: ValueRef, name: &str) {
        let kind = self.attribute_kind(name);
        let attribute = ll!(self, LLVMCreateEnumAttribute(self.context, kind, 0));
        ll!(self, LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute));
    }

    pub(crate) fn remove_attribute(&self, function: ValueRef, name: &str) {
        let kind = self.attribute_kind(name);
        ll!(self, LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind));
    }

    /// Gives a function the attributes of another one, which are not about its parameters.
    pub(crate) fn copy_attributes(&self, from: ValueRef, to: ValueRef) {
        let count = ll!(self, LLVMGetAttributeCountAtIndex(from, FUNCTION_INDEX));
        let mut attributes = vec![AttributeRef::NULL; count as usize];
        ll!(self, LLVMGetAttributesAtIndex(from, FUNCTION_INDEX, attributes.as_mut_ptr()));
        for attribute in attributes {
            ll!(self, LLVMAddAttributeAtIndex(to, FUNCTION_INDEX, attribute));
        }
    }

    pub(crate) fn add_call_attribute(&self, call: ValueRef, name: &str) {
        let kind = self.attribute_kind(name);
        let attribute = ll!(self, LLVMCreateEnumAttribute(self.context, kind, 0));
        ll!(self, LLVMAddCallSiteAttribute(call, FUNCTION_INDEX, attribute));
    }

    pub(crate) fn remove_call_attribute(&self, call: ValueRef, name: &str) {
        let kind = self.attribute_kind(name);
        ll!(self, LLVMRemoveCallSiteEnumAttribute(call, FUNCTION_INDEX, kind));
    }

    // ---- Blocks ----

    pub(crate) fn append_block(&self, function: ValueRef, name: &CStr) -> BlockRef {
        ll!(self, LLVMAppendBasicBlockInContext(self.context, function, name.as_ptr()))
    }

    pub(crate) fn block_before(&self, block: BlockRef, name: &CStr) -> BlockRef {
        ll!(self, LLVMInsertBasicBlockInContext(self.context, block, name.as_ptr()))
    }

    pub(crate) fn terminator(&self, block: BlockRef) -> ValueRef {
        ll!(self, LLVMGetBasicBlockTerminator(block))
    }

    pub(crate) fn successors(&self, block: BlockRef) -> Vec<BlockRef> {
        let Some(terminator) = self.terminator(block).present() else { return Vec::new() };
        let count = ll!(self, LLVMGetNumSuccessors(terminator));
        (0..count).map(|index| ll!(self, LLVMGetSuccessor(terminator, index))).collect()
    }

    /// Makes the edges of a block to `from` edges to `to`.
    pub(crate) fn redirect(&self, block: BlockRef, from: BlockRef, to: BlockRef) {
        let terminator = self.terminator(block);
        for (index, target) in self.successors(block).into_iter().enumerate() {
            if target == from {
                ll!(self, LLVMSetSuccessor(terminator, index as u32, to));
            }
        }
    }

    // ---- Instructions ----

    pub(crate) fn function_of(&self, instruction: ValueRef) -> ValueRef {
        ll!(self, LLVMGetBasicBlockParent(self.block_of(instruction)))
    }

    pub(crate) fn block_of(&self, instruction: ValueRef) -> BlockRef {
        ll!(self, LLVMGetInstructionParent(instruction))
    }

    pub(crate) fn replace(&self, value: ValueRef, by: ValueRef) {
        ll!(self, LLVMReplaceAllUsesWith(value, by));
    }

    pub(crate) fn erase(&self, instruction: ValueRef) {
        ll!(self, LLVMInstructionEraseFromParent(instruction));
    }

    /// Returns the incoming values of a phi, with their blocks.
    pub(crate) fn incoming(&self, phi: ValueRef) -> Vec<(ValueRef, BlockRef)> {
        let count = ll!(self, LLVMCountIncoming(phi));
        let one = |index| {
            let value = ll!(self, LLVMGetIncomingValue(phi, index));
            (value, ll!(self, LLVMGetIncomingBlock(phi, index)))
        };
        (0..count).map(one).collect()
    }

    /// Returns the first instruction of a block that is no phi.
    pub(crate) fn first_after_phis(&self, block: BlockRef) -> ValueRef {
        let mut instructions = self.instructions(block).into_iter();
        let first = instructions.find(|it| self.opcode(*it) != opcode::PHI);
        first.expect("a block ends with a terminator")
    }

    /// Returns file and line of an instruction, if the module has them.
    pub(crate) fn source_line(&self, instruction: ValueRef) -> Option<String> {
        let line = ll!(self, LLVMGetDebugLocLine(instruction));
        let mut length = 0;
        let file = ll!(self, LLVMGetDebugLocFilename(instruction, &raw mut length));
        if line == 0 || file.is_null() {
            return None;
        }
        // SAFETY: LLVM returns the name's address and length.
        let file = unsafe { std::slice::from_raw_parts(file.cast::<u8>(), length as usize) };
        Some(format!("{}:{line}", String::from_utf8_lossy(file)))
    }

    // ---- Edits ----

    /// Moves an instruction to the end of a block without a terminator.
    pub(crate) fn move_to_end(&self, instruction: ValueRef, block: BlockRef) {
        ll!(self, LLVMInstructionRemoveFromParent(instruction));
        ll!(self, LLVMPositionBuilderAtEnd(self.builder, block));
        self.forget_line();
        ll!(self, LLVMInsertIntoBuilder(self.builder, instruction));
    }

    /// Moves an instruction before another one.
    pub(crate) fn move_before(&self, instruction: ValueRef, place: ValueRef) {
        ll!(self, LLVMInstructionRemoveFromParent(instruction));
        ll!(self, LLVMPositionBuilderBefore(self.builder, place));
        self.forget_line();
        ll!(self, LLVMInsertIntoBuilder(self.builder, instruction));
    }

    /// Inserts an instruction without a block before another one.
    pub(crate) fn insert_before(&self, instruction: ValueRef, place: ValueRef) {
        ll!(self, LLVMPositionBuilderBefore(self.builder, place));
        self.forget_line();
        ll!(self, LLVMInsertIntoBuilder(self.builder, instruction));
    }

    /// Inserts an instruction without a block at the end of a block.
    pub(crate) fn insert_at_end(&self, instruction: ValueRef, block: BlockRef) {
        ll!(self, LLVMPositionBuilderAtEnd(self.builder, block));
        self.forget_line();
        ll!(self, LLVMInsertIntoBuilder(self.builder, instruction));
    }

    /// Splits a block before an instruction. The instructions before it go to a new block, which
    /// all edges to the old block reach now; the old block is its successor. Returns the new block.
    pub(crate) fn split_before(&self, instruction: ValueRef, name: &CStr) -> BlockRef {
        let block = self.block_of(instruction);
        let head = self.block_before(block, name);
        for moved in self.instructions(block) {
            if moved == instruction {
                break;
            }
            self.move_to_end(moved, head);
        }
        // Without its terminator, the block has no successors whose phis would change.
        let terminator = self.terminator(block);
        ll!(self, LLVMInstructionRemoveFromParent(terminator));
        let as_value = |block| ll!(self, LLVMBasicBlockAsValue(block));
        self.replace(as_value(block), as_value(head));
        ll!(self, LLVMPositionBuilderAtEnd(self.builder, block));
        self.forget_line();
        ll!(self, LLVMInsertIntoBuilder(self.builder, terminator));
        self.at_end(head).br(block);
        head
    }

    /// Gives new instructions no source line, and inserted ones their own.
    fn forget_line(&self) {
        ll!(self, LLVMSetCurrentDebugLocation2(self.builder, MetadataRef::NULL));
    }

    /// Moves the terminator of a block to a new block, its only successor. Returns the new block.
    pub(crate) fn split_off_terminator(&self, block: BlockRef, name: &CStr) -> BlockRef {
        let own = ll!(self, LLVMBasicBlockAsValue(block));
        let function = ll!(self, LLVMGetBasicBlockParent(block));
        let tail = self.append_block(function, name);
        let edges: Vec<(ValueRef, u32)> = self
            .users(own)
            .into_iter()
            .flat_map(|user| {
                let targets = self.operands(user).into_iter().enumerate();
                let to_own = targets.filter(move |(_, target)| *target == own);
                to_own.map(move |(index, _)| (user, index as u32))
            })
            .collect();
        // This changes the phis behind the block, as it should, and the edges to the block.
        self.replace(own, ll!(self, LLVMBasicBlockAsValue(tail)));
        for (user, index) in edges {
            ll!(self, LLVMSetOperand(user, index, own));
        }
        self.move_to_end(self.terminator(block), tail);
        self.at_end(block).br(tail);
        tail
    }

    pub(crate) fn at_end(&self, block: BlockRef) -> Build<'_, 'l> {
        ll!(self, LLVMPositionBuilderAtEnd(self.builder, block));
        self.forget_line();
        Build::new(self)
    }

    /// Returns the place after the last emitted instruction.
    pub(crate) fn at_builder(&self) -> Build<'_, 'l> {
        Build::new(self)
    }

    pub(crate) fn before(&self, instruction: ValueRef) -> Build<'_, 'l> {
        ll!(self, LLVMPositionBuilderBefore(self.builder, instruction));
        Build::new(self)
    }

    pub(crate) fn add_incoming(&self, phi: ValueRef, value: ValueRef, block: BlockRef) {
        ll!(self, LLVMAddIncoming(phi, &raw const value, &raw const block, 1));
    }

    pub(crate) fn set_volatile(&self, access: ValueRef) {
        ll!(self, LLVMSetVolatile(access, 1));
    }
}
