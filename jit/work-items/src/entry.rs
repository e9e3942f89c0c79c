//! The kernel's entry: a loop over groups. `longshore_device.h` defines the layouts.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

/// Offsets in `struct longshore_work`.
const WORK_BEGIN: u64 = 0;
const WORK_END: u64 = 8;
pub(crate) const WORK_GROUPS: u64 = 16;
pub(crate) const WORK_ITEMS: u64 = 28;
pub(crate) const WORK_TRACED: u64 = 76;
const WORK_GROUP: u64 = 80;
/// Memory of the group.
pub(crate) const WORK_FIXED: u64 = 88;
pub(crate) const WORK_DYNAMIC: u64 = 96;
pub(crate) const WORK_CALLS: u64 = 120;
/// Offsets in `struct longshore_self`, and its size in words of 8 bytes.
pub(crate) const SELF_GROUP: u64 = 12;
pub(crate) const SELF_ITEMS: u64 = 24;
const SELF_GROUPS: u64 = 36;
pub(crate) const SELF_WIDTH: u64 = 48;
pub(crate) const SELF_WORK: u64 = 64;
const SELF_WORDS: u32 = 9;
/// Offset in `struct longshore_calls`.
pub(crate) const CALLS_FAIL: u64 = 32;

/// The kernel's code before the pass.
#[derive(Clone, Copy)]
pub(crate) enum Old {
    /// The version with recorded items, which takes over if items are to be recorded.
    Traced(ValueRef),
    /// The whole kernel, because its items never wait. It also takes over for groups with short
    /// rows, and for groups whose items have more bytes on the stack than a thread has for them.
    Plain { item_bytes: u64 },
}

/// Least number of items in x for which loops over them are better.
const SHORTEST_ROW: u64 = 8;
/// Most bytes on the stack for the items of a group of a kernel whose items never wait.
const MOST_BYTES: u64 = 192 << 10;

/// The functions of a group.
#[derive(Clone, Copy, Default)]
pub(crate) struct Groups {
    /// Function for groups of one row, or of rows that are whole sub-groups; for all if `any` is
    /// absent.
    pub(crate) regular: Option<ValueRef>,
    /// Function for any group.
    pub(crate) any: Option<ValueRef>,
    /// Function for groups of this size alone, which comes first.
    pub(crate) likely: Option<([u32; 3], ValueRef)>,
}

/// Makes a new function the kernel: it runs one of `groups` for each group, or calls the old code.
pub(crate) fn replace_kernel(ir: &Ir<'_>, kernel: ValueRef, old: Old, groups: Groups) {
    let name = ir.name(kernel);
    let ty = ll!(ir, LLVMGlobalGetValueType(kernel));
    ir.set_name(kernel, &format!("longshore_items_of_{name}"));
    let new = {
        let name = std::ffi::CString::new(name).expect("names have no NUL");
        ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty))
    };
    ir.copy_attributes(kernel, new);
    for attribute in ["noinline", "optnone", "alwaysinline"] {
        ir.remove_attribute(new, attribute);
    }
    let (linkage, visibility) =
        (ll!(ir, LLVMGetLinkage(kernel)), ll!(ir, LLVMGetVisibility(kernel)));
    ll!(ir, LLVMSetLinkage(new, linkage));
    ll!(ir, LLVMSetVisibility(new, visibility));
    ir.replace(kernel, new);
    ll!(ir, LLVMSetVisibility(kernel, 0));
    ll!(ir, LLVMSetLinkage(kernel, INTERNAL_LINKAGE));
    if !ir.has_attribute(kernel, "optnone") {
        ir.add_attribute(kernel, "noinline");
    }
    Entry { ir, function: new, kernel, old, groups }.emit();
}

struct Entry<'i, 'l> {
    ir: &'i Ir<'l>,
    function: ValueRef,
    /// The kernel's function before the pass.
    kernel: ValueRef,
    old: Old,
    groups: Groups,
}

impl Entry<'_, '_> {
    fn emit(&self) {
        let ir = self.ir;
        let block = |name| ir.append_block(self.function, name);
        let (entry, items, groups, end) =
            (block(c"entry"), block(c"items"), block(c"groups"), block(c"end"));
        let (arguments, work) = (ir.parameter(self.function, 0), ir.parameter(self.function, 1));
        let i64 = ir.int(64);
        let build = ir.at_end(entry);
        let array = ll!(ir, LLVMArrayType(i64, SELF_WORDS));
        let own = build.alloca(array);
        let traced = build.load_field(work, WORK_TRACED, ir.int(32));
        let mut is_old = build.compare(predicate::NE, traced, ir.constant(32, 0));
        let old = match self.old {
            Old::Traced(traced) => traced,
            Old::Plain { item_bytes } => {
                let [x, y, z] = [0, 4, 8].map(|at| {
                    let items = build.load_field(work, WORK_ITEMS + at, ir.int(32));
                    build.cast(opcode::ZEXT, items, i64)
                });
                let is_short = build.compare(predicate::ULT, x, ir.constant(64, SHORTEST_ROW));
                let all = build.multiply(build.multiply(x, y), z);
                let most = ir.constant(64, MOST_BYTES / item_bytes.max(1));
                let is_large = build.compare(predicate::UGT, all, most);
                let is_other = build.binary(opcode::OR, is_short, is_large);
                is_old = build.binary(opcode::OR, is_old, is_other);
                self.kernel
            }
        };
        build.cond_br(is_old, items, groups);
        let build = ir.at_end(items);
        let ty = ll!(ir, LLVMGlobalGetValueType(old));
        build.call(ty, old, &[arguments, work]);
        build.br(end);
        self.emit_start(groups, work, own);
        let round = self.emit_round(groups, end, work, own);
        ir.at_end(groups).br(round);
        ir.at_end(end).ret();
    }

    /// Emits the part of `struct longshore_self` that is the same for all groups.
    fn emit_start(&self, block: BlockRef, work: ValueRef, own: ValueRef) {
        let ir = self.ir;
        let i32 = ir.int(32);
        let build = ir.at_end(block);
        let store = |value, offset| build.store(value, build.field(own, offset, i32));
        for dimension in 0..3 {
            let at = 4 * dimension;
            store(build.load_field(work, WORK_ITEMS + at, i32), SELF_ITEMS + at);
            store(build.load_field(work, WORK_GROUPS + at, i32), SELF_GROUPS + at);
        }
        store(ir.constant(32, 32), SELF_WIDTH);
        store(ir.constant(32, 0), SELF_WIDTH + 4);
        store(ir.constant(32, 0), SELF_WIDTH + 8);
        let ty = ir.type_of(work);
        build.store(work, build.field(own, SELF_WORK, ty));
    }

    /// Emits the loop over groups, behind a test for none. Returns its first block.
    fn emit_round(
        &self,
        before: BlockRef,
        end: BlockRef,
        work: ValueRef,
        own: ValueRef,
    ) -> BlockRef {
        let ir = self.ir;
        let (i32, i64) = (ir.int(32), ir.int(64));
        let block = |name| ir.append_block(self.function, name);
        let (head, body) = (block(c"next"), block(c"group"));
        let build = ir.at_end(before);
        let begin = build.load_field(work, WORK_BEGIN, i64);
        let last = build.load_field(work, WORK_END, i64);
        let counts = [0, 4].map(|at| {
            let count = build.load_field(work, WORK_GROUPS + at, i32);
            build.cast(opcode::ZEXT, count, i64)
        });
        let build = ir.at_end(head);
        let number = build.phi(i64);
        let more = build.compare(predicate::NE, number, last);
        build.cond_br(more, body, end);
        let build = ir.at_end(body);
        ir.set_volatile(build.store(number, build.field(work, WORK_GROUP, i64)));
        let rest = build.binary(opcode::UDIV, number, counts[0]);
        let place = [
            build.binary(opcode::UREM, number, counts[0]),
            build.binary(opcode::UREM, rest, counts[1]),
            build.binary(opcode::UDIV, rest, counts[1]),
        ];
        for (dimension, place) in place.into_iter().enumerate() {
            let place = build.cast(opcode::TRUNC, place, i32);
            build.store(place, build.field(own, SELF_GROUP + 4 * dimension as u64, i32));
        }
        let latch = block(c"done");
        self.emit_choice(body, latch, work, own);
        let build = ir.at_end(latch);
        let next = build.add(number, ir.constant(64, 1));
        build.br(head);
        ir.add_incoming(number, begin, before);
        ir.add_incoming(number, next, latch);
        head
    }

    /// Emits the call of the function for the group's size, from `body` to `end`.
    fn emit_choice(&self, body: BlockRef, end: BlockRef, work: ValueRef, own: ValueRef) {
        let ir = self.ir;
        let i32 = ir.int(32);
        let mut body = body;
        if let Some((group, function)) = self.groups.likely {
            let [likely, other] =
                [c"likely", c"other"].map(|name| ir.append_block(self.function, name));
            let build = ir.at_end(body);
            let is_likely = [0, 1, 2].into_iter().zip(group).map(|(dimension, known)| {
                let items = build.load_field(work, WORK_ITEMS + 4 * dimension, i32);
                build.compare(predicate::EQ, items, ir.constant(32, known.into()))
            });
            let all = is_likely.reduce(|all, one| build.binary(opcode::AND, all, one));
            build.cond_br(all.expect("there are three dimensions"), likely, other);
            self.emit_call(likely, function, own, end);
            body = other;
        }
        let (regular, any) = match (self.groups.regular, self.groups.any) {
            (Some(one), None) | (None, Some(one)) => {
                self.emit_call(body, one, own, end);
                return;
            }
            (Some(regular), Some(any)) => (regular, any),
            (None, None) => unreachable!("a kernel has a group"),
        };
        let build = ir.at_end(body);
        let [x, y, z] = [0, 4, 8].map(|at| build.load_field(work, WORK_ITEMS + at, i32));
        let part = ir.constant(32, crate::chunk::WIDTH - 1);
        let rest = build.binary(opcode::AND, x, part);
        let is_whole = build.compare(predicate::EQ, rest, ir.constant(32, 0));
        let rows = build.binary(opcode::MUL, y, z);
        let is_one = build.compare(predicate::EQ, rows, ir.constant(32, 1));
        let is_regular = build.binary(opcode::OR, is_whole, is_one);
        let [of_rows, of_any] =
            [c"regular", c"any"].map(|name| ir.append_block(self.function, name));
        build.cond_br(is_regular, of_rows, of_any);
        self.emit_call(of_rows, regular, own, end);
        self.emit_call(of_any, any, own, end);
    }

    fn emit_call(&self, block: BlockRef, group: ValueRef, own: ValueRef, next: BlockRef) {
        let ir = self.ir;
        let ty = ll!(ir, LLVMGlobalGetValueType(group));
        let of_self = ir.type_of(ir.parameter(group, 1));
        let zero = ir.constant(32, 0);
        let arguments = ir.parameter(self.function, 0);
        let build = ir.at_end(block);
        let own = build.cast(opcode::BIT_CAST, own, of_self);
        build.call(ty, group, &[arguments, own, zero, zero, zero]);
        build.br(next);
    }
}

/// Returns a pointer to the message of items that wait at different places.
pub(crate) fn stuck_text(ir: &Ir<'_>) -> ValueRef {
    const NAME: &std::ffi::CStr = c"longshore_stuck";
    let byte = ir.pointer_to(ir.int(8));
    match ll!(ir, LLVMGetNamedGlobal(ir.module, NAME.as_ptr())).present() {
        Some(text) => ll!(ir, LLVMConstBitCast(text, byte)),
        None => text(ir, NAME, "items wait at different places"),
    }
}

/// Returns a pointer to a new text of the module, which ends with 0.
pub(crate) fn text(ir: &Ir<'_>, name: &std::ffi::CStr, text: &str) -> ValueRef {
    let byte = ir.int(8);
    let bytes: Vec<ValueRef> =
        text.bytes().chain([0]).map(|value| ir.constant(8, value.into())).collect();
    let value = ll!(ir, LLVMConstArray(byte, bytes.as_ptr(), bytes.len() as u32));
    let global = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(value), name.as_ptr()));
    ll!(ir, LLVMSetInitializer(global, value));
    ll!(ir, LLVMSetLinkage(global, PRIVATE_LINKAGE));
    ll!(ir, LLVMSetGlobalConstant(global, 1));
    ll!(ir, LLVMConstBitCast(global, ir.pointer_to(byte)))
}
