//! Calls: the functions of `longshore_device.h`, and copies of memory.

use crate::body::Body;
use crate::memory::Span;
use crate::module::option;
use crate::numbers::Number;
use crate::objects::{Origin, argument, copied};
use longshore_llvm::types::*;
use rspirv::dr::{Instruction, Operand};
use rspirv::spirv::{BuiltIn, Capability, GroupOperation, Op, Scope, Word};
use std::collections::BTreeSet;

/// Prefix of the header's functions without definitions.
const PREFIX: &str = "__longshore_spirv_";
/// Most accesses of one copy of memory that are emitted without a loop.
const MOST_COPIES: u64 = 256;

impl Body<'_> {
    /// Emits a call.
    pub(crate) fn call(&mut self, it: ValueRef) -> Result<Vec<Word>, String> {
        let ir = self.ir;
        let Some(callee) = ir.callee(it) else {
            return Err("pointers to functions, and assembler, do not exist in SPIR-V; call the \
                        function by its name"
                .to_owned());
        };
        let name = ir.name(callee);
        if let Some(name) = name.strip_prefix(PREFIX) {
            return self.own(it, name);
        }
        if let Some(name) = name.strip_prefix("llvm.") {
            return match copied(ir, it) {
                Some(_) => self.copy(it, name).map(|()| Vec::new()),
                None => self.intrinsic(it, name),
            };
        }
        match ir.is_defined(callee) {
            true => Err(format!(
                "'{name}' is recursive, which SPIR-V does not have; use a loop with a stack of its own"
            )),
            false => Err(format!("'{name}' has no definition in the sources")),
        }
    }

    /// Emits a call of the header's function of this name.
    fn own(&mut self, it: ValueRef, name: &str) -> Result<Vec<Word>, String> {
        let axis = self.ir.constant_value(self.ir.operand(it, 0)).unwrap_or(0) as u32;
        Ok(vec![match name {
            "argument" => {
                argument(self.ir, it).ok_or("the number of an argument varies")?;
                self.to.constant(64, 0)
            }
            "item_id" => self.id(it, BuiltIn::LocalInvocationId)?,
            "group_id" => self.id(it, BuiltIn::WorkgroupId)?,
            "group_count" => self.id(it, BuiltIn::NumWorkgroups)?,
            "group_items" => {
                let fixed = self.kernel.size.get(axis as usize).copied();
                let fixed = fixed.ok_or("the dimension is not 0, 1 or 2")?;
                self.to.items(axis, fixed)
            }
            "lane" => self.subgroup_input(BuiltIn::SubgroupLocalInvocationId),
            "subgroup_id" => self.subgroup_input(BuiltIn::SubgroupId),
            "subgroup_count" => self.subgroup_input(BuiltIn::NumSubgroups),
            "width" => self.to.option(option::SUBGROUP_SIZE),
            "barrier" => {
                self.barrier();
                return Ok(Vec::new());
            }
            "ballot" => self.ballot(it)?,
            "shuffle" => self.shuffle(it)?,
            "grid_barrier" => {
                return Err(
                    "longshore_grid_barrier needs cooperative launches, which Vulkan does \
                            not have; launch a kernel for each part"
                        .to_owned(),
                );
            }
            "print" => {
                return Err("longshore_printf does not exist for SPIR-V; leave it out \
                            if __LONGSHORE_SPIRV__ is defined"
                    .to_owned());
            }
            "fail_at" => {
                return Err(
                    "longshore_assert and longshore_trap do not exist for SPIR-V, where a \
                            launch cannot fail; leave them out if __LONGSHORE_SPIRV__ is defined"
                        .to_owned(),
                );
            }
            scan => self.scan(it, scan.strip_prefix("scan_").unwrap_or(scan))?,
        }])
    }

    /// Emits an id in the dimension that a call asks for.
    fn id(&mut self, it: ValueRef, input: BuiltIn) -> Result<Word, String> {
        let dimension = self.ir.operand(it, 0);
        if let Some(axis) = self.ir.constant_value(dimension) {
            return match axis {
                0..3 => Ok(self.to.input_part(input, axis as u32)),
                _ => Err("the dimension is not 0, 1 or 2".to_owned()),
            };
        }
        let at = self.one(dimension)?;
        let [x, y, z] = [0, 1, 2].map(|axis| self.to.input_part(input, axis));
        let (word, truth) = (self.to.int(32), self.to.bool());
        let (zero, one) = (self.to.word(0), self.to.word(1));
        let is_y = self.to.op(Op::IEqual, truth, &[at, one]);
        let is_x = self.to.op(Op::IEqual, truth, &[at, zero]);
        let other = self.to.op(Op::Select, word, &[is_y, y, z]);
        Ok(self.to.op(Op::Select, word, &[is_x, x, other]))
    }

    fn barrier(&mut self) {
        let scope = self.to.word(Scope::Workgroup as u32);
        let order = self.to.word(crate::atomics::FULL);
        self.to.act(Op::ControlBarrier, &[scope, scope, order]);
    }

    // ---- Sub-groups ----

    /// Emits an input of the item's sub-group.
    fn subgroup_input(&mut self, input: BuiltIn) -> Word {
        self.to.need(Capability::GroupNonUniform);
        self.to.input_word(input)
    }

    fn ballot(&mut self, it: ValueRef) -> Result<Word, String> {
        self.to.need(Capability::GroupNonUniform);
        self.to.need(Capability::GroupNonUniformBallot);
        let condition = self.one(self.ir.operand(it, 0))?;
        let condition = self.number_of(Number::Bool, condition);
        let (four, word, long) = (self.to.four_words(), self.to.int(32), self.to.int(64));
        let scope = self.to.word(Scope::Subgroup as u32);
        let lanes = self.to.op(Op::GroupNonUniformBallot, four, &[scope, condition]);
        let low = self.to.part(word, lanes, 0);
        let high = self.to.part(word, lanes, 1);
        let halves = [low, high].map(|half| self.to.op(Op::UConvert, long, &[half]));
        let shift = self.to.word(32);
        let high = self.to.op(Op::ShiftLeftLogical, long, &[halves[1], shift]);
        Ok(self.to.op(Op::BitwiseOr, long, &[high, halves[0]]))
    }

    fn shuffle(&mut self, it: ValueRef) -> Result<Word, String> {
        self.to.need(Capability::GroupNonUniform);
        self.to.need(Capability::GroupNonUniformShuffle);
        let (value, lane) = (self.one(self.ir.operand(it, 0))?, self.one(self.ir.operand(it, 1))?);
        let (word, scope) = (self.to.int(32), self.to.word(Scope::Subgroup as u32));
        Ok(self.to.op(Op::GroupNonUniformShuffle, word, &[scope, value, lane]))
    }

    /// Emits a combination of the values of lanes: "add_i32", "min_f64" and so on.
    fn scan(&mut self, it: ValueRef, name: &str) -> Result<Word, String> {
        let (operation, tag) = name.split_once('_').unwrap_or((name, ""));
        let op = match (operation, tag.chars().next().unwrap_or_default()) {
            ("add", 'f') => Op::GroupNonUniformFAdd,
            ("min", 'f') => Op::GroupNonUniformFMin,
            ("max", 'f') => Op::GroupNonUniformFMax,
            ("add", _) => Op::GroupNonUniformIAdd,
            ("min", 'i') => Op::GroupNonUniformSMin,
            ("max", 'i') => Op::GroupNonUniformSMax,
            ("min", _) => Op::GroupNonUniformUMin,
            ("max", _) => Op::GroupNonUniformUMax,
            ("and", _) => Op::GroupNonUniformBitwiseAnd,
            ("or", _) => Op::GroupNonUniformBitwiseOr,
            ("xor", _) => Op::GroupNonUniformBitwiseXor,
            _ => return Err(format!("the function '{PREFIX}{name}' is unknown")),
        };
        let lanes = match self.ir.constant_value(self.ir.operand(it, 1)) {
            Some(0) => GroupOperation::Reduce,
            Some(1) => GroupOperation::InclusiveScan,
            Some(2) => GroupOperation::ExclusiveScan,
            _ => return Err("the lanes of a combination vary".to_owned()),
        };
        self.to.need(Capability::GroupNonUniform);
        self.to.need(Capability::GroupNonUniformArithmetic);
        let number = self.number(self.ir.type_of(it))?;
        let value = self.one(self.ir.operand(it, 0))?;
        let (ty, scope) = (self.to.register(number), self.to.word(Scope::Subgroup as u32));
        let id = self.to.id();
        let operands =
            vec![Operand::IdScope(scope), Operand::GroupOperation(lanes), Operand::IdRef(value)];
        self.to.add(Instruction::new(op, Some(ty), Some(id), operands));
        Ok(id)
    }

    // ---- Copies of memory ----

    /// Emits a copy of memory, or fills memory.
    fn copy(&mut self, it: ValueRef, name: &str) -> Result<(), String> {
        let ir = self.ir;
        let copied = copied(ir, it).ok_or("the call copies no memory")?;
        let unit = u64::from(copied.unit);
        let origins: Vec<_> =
            copied.pointers.iter().map(|pointer| self.objects.origins(ir, *pointer)).collect();
        let bases = copied
            .pointers
            .iter()
            .map(|pointer| self.one(*pointer))
            .collect::<Result<Vec<_>, _>>()?;
        let filling = match bases.len() {
            1 => Some(self.filling(ir.operand(it, 1), copied.unit)?),
            _ => None,
        };
        let bytes = ir.constant_value(ir.operand(it, 2));
        if let Some(bytes) = bytes.filter(|bytes| bytes / unit <= MOST_COPIES) {
            // All loads come first: the parts of a memmove may overlap.
            let mut values = Vec::new();
            for at in (0..bytes).step_by(unit as usize) {
                values.push(match filling {
                    Some(value) => value,
                    None => {
                        let span = self.span(bases[1], at, copied.unit);
                        self.load_bits(&origins[1], span)?
                    }
                });
            }
            for (index, value) in (0..).zip(values) {
                let span = self.span(bases[0], index * unit, copied.unit);
                self.store_bits(&origins[0], span, value)?;
            }
            return Ok(());
        }
        if name.starts_with("memmove") {
            return Err(
                "a memmove of more than 256 parts, or of a size that varies, does not exist \
                        in SPIR-V; copy in a loop"
                    .to_owned(),
            );
        }
        let number = self.number(ir.type_of(ir.operand(it, 2)))?;
        let size = self.one(ir.operand(it, 2))?;
        let size = self.convert(number, Number::Int(64), size);
        self.copy_in_loop(&bases, &origins, filling, size, copied.unit)
    }

    fn span(&mut self, base: Word, at: u64, unit: u32) -> Span {
        let address = self.behind(base, at);
        Span { address, bytes: unit, unit, is_volatile: false }
    }

    /// Emits the integer of `unit` bytes that all have the value of a byte.
    fn filling(&mut self, byte: ValueRef, unit: u32) -> Result<Word, String> {
        let byte = self.one(byte)?;
        let (word, factor) = (self.to.int(32), self.to.word(0x0101_0101));
        let all = self.to.op(Op::IMul, word, &[byte, factor]);
        Ok(if unit < 4 { self.masked(all, unit * 8) } else { all })
    }

    fn copy_in_loop(
        &mut self,
        bases: &[Word],
        origins: &[BTreeSet<Origin>],
        filling: Option<Word>,
        size: Word,
        unit: u32,
    ) -> Result<(), String> {
        let (long, truth) = (self.to.int(64), self.to.bool());
        let (zero, step) = (self.to.constant(64, 0), self.to.constant(64, u64::from(unit)));
        let at = self.to.local(long);
        self.to.act(Op::Store, &[at, zero]);
        let [header, test, body, next, merge] = [(); 5].map(|()| self.to.id());
        self.to.branch(header);
        self.to.label(header);
        self.to.a_loop(merge, next);
        self.to.branch(test);
        self.to.label(test);
        let now = self.to.op(Op::Load, long, &[at]);
        let goes_on = self.to.op(Op::ULessThan, truth, &[now, size]);
        self.to.selection(body);
        self.to.branch_if(goes_on, body, merge);
        self.to.label(body);
        let spans: Vec<Span> = bases
            .iter()
            .map(|base| {
                let address = self.to.op(Op::IAdd, long, &[*base, now]);
                Span { address, bytes: unit, unit, is_volatile: false }
            })
            .collect();
        let value = match filling {
            Some(value) => value,
            None => self.load_bits(&origins[1], spans[1])?,
        };
        self.store_bits(&origins[0], spans[0], value)?;
        let later = self.to.op(Op::IAdd, long, &[now, step]);
        self.to.act(Op::Store, &[at, later]);
        self.to.branch(next);
        self.to.label(next);
        self.to.branch(header);
        self.to.label(merge);
        Ok(())
    }
}
