//! A SPIR-V module under construction.

use crate::numbers::Number;
use rspirv::binary::Assemble;
use rspirv::dr::{Builder, InsertPoint, Instruction, Operand};
use rspirv::spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionModel, FunctionControl, MemoryModel,
    Op, StorageClass, Word,
};
use std::collections::{BTreeSet, HashMap};

/// Invariant of instructions that are added to the open block.
const IN_BLOCK: &str = "instructions are added to an open block";

/// A module. Types, constants and inputs exist once.
pub(crate) struct Module {
    builder: Builder,
    capabilities: BTreeSet<u32>,
    extensions: BTreeSet<&'static str>,
    constants: HashMap<(u32, u64), Word>,
    arrays: HashMap<(Word, Word, u32), Word>,
    inputs: HashMap<BuiltIn, Word>,
    options: HashMap<u32, Word>,
    /// The extended instructions.
    glsl: Word,
    /// Variables that the open function uses.
    interface: BTreeSet<Word>,
}

/// Numbers of the specialisation constants.
pub(crate) mod option {
    /// The first of three: items in a group in x, y and z.
    pub(crate) const GROUP: u32 = 0;
    pub(crate) const SUBGROUP_SIZE: u32 = 3;
    pub(crate) const DYNAMIC_SHARED: u32 = 4;
}

impl Module {
    pub(crate) fn new() -> Module {
        let mut builder = Builder::new();
        builder.set_version(1, 5);
        builder.memory_model(AddressingModel::PhysicalStorageBuffer64, MemoryModel::GLSL450);
        let glsl = builder.ext_inst_import("GLSL.std.450");
        let mut module = Module {
            builder,
            capabilities: BTreeSet::new(),
            extensions: BTreeSet::new(),
            constants: HashMap::new(),
            arrays: HashMap::new(),
            inputs: HashMap::new(),
            options: HashMap::new(),
            glsl,
            interface: BTreeSet::new(),
        };
        module.need(Capability::Shader);
        module.need(Capability::PhysicalStorageBufferAddresses);
        module.need(Capability::Int64);
        module
    }

    /// Returns the words of the module.
    pub(crate) fn finish(mut self) -> Vec<u32> {
        for number in &self.capabilities {
            let known = Capability::from_u32(*number).expect("the number is of a capability");
            self.builder.capability(known);
        }
        for extension in &self.extensions {
            self.builder.extension(*extension);
        }
        self.builder.module().assemble()
    }

    pub(crate) fn need(&mut self, capability: Capability) {
        self.capabilities.insert(capability as u32);
    }

    pub(crate) fn id(&mut self) -> Word {
        self.builder.id()
    }

    pub(crate) fn name(&mut self, id: Word, name: &str) {
        self.builder.name(id, name);
    }

    pub(crate) fn decorate(&mut self, id: Word, decoration: Decoration, operands: &[u32]) {
        let operands = operands.iter().map(|word| Operand::LiteralBit32(*word));
        self.builder.decorate(id, decoration, operands);
    }

    // ---- Types ----

    pub(crate) fn void(&mut self) -> Word {
        self.builder.type_void()
    }

    pub(crate) fn bool(&mut self) -> Word {
        self.builder.type_bool()
    }

    /// Returns the type of unsigned integers of 8, 16, 32 or 64 bits. The caller needs the
    /// capability for 8 and 16 bits, which depends on the use.
    pub(crate) fn int(&mut self, bits: u32) -> Word {
        self.builder.type_int(bits, 0)
    }

    pub(crate) fn float(&mut self, bits: u32) -> Word {
        match bits {
            16 => self.need(Capability::Float16),
            64 => self.need(Capability::Float64),
            _ => {}
        }
        self.builder.type_float(bits, None)
    }

    /// Returns the type of a register.
    pub(crate) fn register(&mut self, number: Number) -> Word {
        match number {
            Number::Bool => self.bool(),
            Number::Int(width) => self.int(Number::register(width)),
            Number::Float(bits) => self.float(bits),
        }
    }

    pub(crate) fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        self.builder.type_pointer(None, class, to)
    }

    /// Returns an array type with this distance of elements in bytes, or without a layout for 0.
    pub(crate) fn array(&mut self, element: Word, length: Word, stride: u32) -> Word {
        if let Some(known) = self.arrays.get(&(element, length, stride)) {
            return *known;
        }
        let id = self.id();
        self.builder.type_array_id(Some(id), element, length);
        if stride != 0 {
            self.decorate(id, Decoration::ArrayStride, &[stride]);
        }
        self.arrays.insert((element, length, stride), id);
        id
    }

    /// Returns the type of a block with these members: name, type and offset.
    pub(crate) fn block(&mut self, name: &str, members: &[(String, Word, u32)]) -> Word {
        let id = self.id();
        self.builder.type_struct_id(Some(id), members.iter().map(|member| member.1));
        self.name(id, name);
        self.decorate(id, Decoration::Block, &[]);
        for (index, (name, _, offset)) in (0..).zip(members) {
            self.builder.member_name(id, index, name.as_str());
            let offset = [Operand::LiteralBit32(*offset)];
            self.builder.member_decorate(id, index, Decoration::Offset, offset);
        }
        id
    }

    // ---- Constants and variables ----

    pub(crate) fn word(&mut self, value: u32) -> Word {
        self.constant(32, u64::from(value))
    }

    /// Returns an integer constant of 32 or 64 bits.
    pub(crate) fn constant(&mut self, bits: u32, value: u64) -> Word {
        let ty = self.int(bits);
        if let Some(known) = self.constants.get(&(bits, value)) {
            return *known;
        }
        let id = match bits {
            64 => self.builder.constant_bit64(ty, value),
            _ => self.builder.constant_bit32(ty, value as u32),
        };
        self.constants.insert((bits, value), id);
        id
    }

    /// Returns a truth value; the key of the table is a width that no integer has.
    pub(crate) fn truth(&mut self, value: bool) -> Word {
        let ty = self.bool();
        if let Some(known) = self.constants.get(&(1, u64::from(value))) {
            return *known;
        }
        let id = match value {
            true => self.builder.constant_true(ty),
            false => self.builder.constant_false(ty),
        };
        self.constants.insert((1, u64::from(value)), id);
        id
    }

    /// Returns a floating-point constant by its bits.
    pub(crate) fn real(&mut self, bits: u32, value: u64) -> Word {
        let ty = self.float(bits);
        let key = (bits + 1, value);
        if let Some(known) = self.constants.get(&key) {
            return *known;
        }
        let id = match bits {
            64 => self.builder.constant_bit64(ty, value),
            _ => self.builder.constant_bit32(ty, value as u32),
        };
        self.constants.insert(key, id);
        id
    }

    /// Returns a specialisation constant of 32 bits.
    pub(crate) fn option(&mut self, number: u32) -> Word {
        if let Some(known) = self.options.get(&number) {
            return *known;
        }
        let (default, name) = match number {
            option::SUBGROUP_SIZE => (0, "longshore_subgroup_size"),
            option::DYNAMIC_SHARED => (0, "longshore_dynamic_shared_bytes"),
            _ => (1, ["group_items_x", "group_items_y", "group_items_z"][number as usize % 3]),
        };
        let ty = self.int(32);
        let id = self.builder.spec_constant_bit32(ty, default);
        self.name(id, name);
        self.decorate(id, Decoration::SpecId, &[number]);
        self.options.insert(number, id);
        id
    }

    /// Returns a constant computed from others.
    pub(crate) fn computed(&mut self, op: Op, ty: Word, operands: &[Word]) -> Word {
        let id = self.id();
        let mut words = vec![Operand::LiteralSpecConstantOpInteger(op)];
        words.extend(operands.iter().map(|id| Operand::IdRef(*id)));
        let made = Instruction::new(Op::SpecConstantOp, Some(ty), Some(id), words);
        self.builder.module_mut().types_global_values.push(made);
        id
    }

    /// Declares the size of groups of the next entry point: 0 for any number.
    ///
    /// Each entry point has a constant, in their order: the backend keeps that of the entry point.
    pub(crate) fn group_size(&mut self, size: [u32; 3]) {
        let word = self.int(32);
        let vector = self.builder.type_vector(word, 3);
        let parts: Vec<Word> =
            (0..).zip(size).map(|(axis, items)| self.items(axis, items)).collect();
        let id = match size.contains(&0) {
            true => self.builder.spec_constant_composite(vector, parts),
            // A builder would return the same constant for the same size.
            false => {
                let (id, parts) = (self.id(), parts.into_iter().map(Operand::IdRef).collect());
                let made = Instruction::new(Op::ConstantComposite, Some(vector), Some(id), parts);
                self.builder.module_mut().types_global_values.push(made);
                id
            }
        };
        self.decorate(id, Decoration::BuiltIn, &[BuiltIn::WorkgroupSize as u32]);
    }

    /// Returns the number of items in a group along an axis: 0 for the launch's choice.
    pub(crate) fn items(&mut self, axis: u32, fixed: u32) -> Word {
        match fixed {
            0 => self.option(option::GROUP + axis),
            fixed => self.word(fixed),
        }
    }

    /// Declares a variable of the module that the open function uses.
    pub(crate) fn variable(&mut self, class: StorageClass, ty: Word) -> Word {
        let pointer = self.pointer(class, ty);
        let (selected_function, selected_block) =
            (self.builder.selected_function(), self.builder.selected_block());
        self.builder.select_function(None).expect("no function is a valid choice");
        let id = self.builder.variable(pointer, None, class, None);
        self.builder.select_function(selected_function).expect("the function exists");
        self.builder.select_block(selected_block).expect("the block exists");
        self.interface.insert(id);
        id
    }

    /// Returns an input of this type.
    fn input(&mut self, input: BuiltIn, ty: Word) -> Word {
        if let Some(known) = self.inputs.get(&input).copied() {
            self.interface.insert(known);
            return known;
        }
        let id = self.variable(StorageClass::Input, ty);
        self.decorate(id, Decoration::BuiltIn, &[input as u32]);
        self.inputs.insert(input, id);
        id
    }

    /// Emits the value of an input of 32 bits.
    pub(crate) fn input_word(&mut self, input: BuiltIn) -> Word {
        let word = self.int(32);
        let variable = self.input(input, word);
        self.op(Op::Load, word, &[variable])
    }

    /// Emits one of the three words of an input.
    pub(crate) fn input_part(&mut self, input: BuiltIn, axis: u32) -> Word {
        let word = self.int(32);
        let vector = self.builder.type_vector(word, 3);
        let variable = self.input(input, vector);
        let whole = self.op(Op::Load, vector, &[variable]);
        self.part(word, whole, axis)
    }

    pub(crate) fn four_words(&mut self) -> Word {
        let word = self.int(32);
        self.builder.type_vector(word, 4)
    }

    /// Emits an element of a vector.
    pub(crate) fn part(&mut self, ty: Word, whole: Word, index: u32) -> Word {
        let id = self.id();
        let operands = vec![Operand::IdRef(whole), Operand::LiteralBit32(index)];
        self.add(Instruction::new(Op::CompositeExtract, Some(ty), Some(id), operands));
        id
    }

    // ---- Functions ----

    /// Begins the function of an entry point, with an open block for its variables.
    pub(crate) fn begin(&mut self) -> Word {
        self.interface.clear();
        let void = self.void();
        let ty = self.builder.type_function(void, []);
        let function = self.builder.begin_function(void, None, FunctionControl::NONE, ty);
        let function = function.expect("the previous function has ended");
        let label = self.id();
        self.label(label);
        function
    }

    /// Ends the function of an entry point of this name and group size.
    pub(crate) fn end(&mut self, function: Word, name: &str, size: [u32; 3]) {
        self.builder.end_function().expect("all blocks have ended");
        let used: Vec<Word> = self.interface.iter().copied().collect();
        self.builder.entry_point(ExecutionModel::GLCompute, function, name, used);
        let mode = rspirv::spirv::ExecutionMode::LocalSize;
        self.builder.execution_mode(function, mode, size.map(|items| items.max(1)));
        self.group_size(size);
    }

    pub(crate) fn label(&mut self, label: Word) {
        self.builder.begin_block(Some(label)).expect("the previous block has ended");
    }

    /// Adds an instruction with these ids as operands to the open block.
    pub(crate) fn op(&mut self, op: Op, ty: Word, operands: &[Word]) -> Word {
        let id = self.id();
        let operands = operands.iter().map(|id| Operand::IdRef(*id)).collect();
        self.add(Instruction::new(op, Some(ty), Some(id), operands));
        id
    }

    /// Adds an instruction without a result to the open block.
    pub(crate) fn act(&mut self, op: Op, operands: &[Word]) {
        let operands = operands.iter().map(|id| Operand::IdRef(*id)).collect();
        self.add(Instruction::new(op, None, None, operands));
    }

    /// Adds an extended instruction to the open block.
    pub(crate) fn extended(
        &mut self,
        op: rspirv::spirv::GlslStd450Op,
        ty: Word,
        operands: &[Word],
    ) -> Word {
        let id = self.id();
        let mut words = vec![Operand::IdRef(self.glsl), Operand::LiteralExtInstInteger(op as u32)];
        words.extend(operands.iter().map(|id| Operand::IdRef(*id)));
        self.add(Instruction::new(Op::ExtInst, Some(ty), Some(id), words));
        id
    }

    pub(crate) fn add(&mut self, instruction: Instruction) {
        self.builder.insert_into_block(InsertPoint::End, instruction).expect(IN_BLOCK);
    }

    pub(crate) fn branch(&mut self, to: Word) {
        self.builder.branch(to).expect(IN_BLOCK);
    }

    pub(crate) fn branch_if(&mut self, condition: Word, yes: Word, no: Word) {
        self.builder.branch_conditional(condition, yes, no, []).expect(IN_BLOCK);
    }

    pub(crate) fn selection(&mut self, merge: Word) {
        let control = rspirv::spirv::SelectionControl::NONE;
        self.builder.selection_merge(merge, control).expect(IN_BLOCK);
    }

    pub(crate) fn a_loop(&mut self, merge: Word, next: Word) {
        let control = rspirv::spirv::LoopControl::NONE;
        self.builder.loop_merge(merge, next, control, []).expect(IN_BLOCK);
    }

    pub(crate) fn ret(&mut self) {
        self.builder.ret().expect(IN_BLOCK);
    }

    pub(crate) fn unreachable(&mut self) {
        self.builder.unreachable().expect(IN_BLOCK);
    }

    /// Adds a variable of the open function, which is the last one, to its first block.
    pub(crate) fn local(&mut self, ty: Word) -> Word {
        let (id, pointer) = (self.id(), self.pointer(StorageClass::Function, ty));
        let class = vec![Operand::StorageClass(StorageClass::Function)];
        let made = Instruction::new(Op::Variable, Some(pointer), Some(id), class);
        let function = self.builder.module_mut().functions.last_mut().expect("a function is open");
        let first = function.blocks.first_mut().expect("the function has a first block");
        first.instructions.insert(0, made);
        id
    }
}
