//! The functions by which the CPU backend calls a kernel: of one item, of all items, and of items
//! that are recorded. The loops are functions of `longshore_cuda.h`.

use std::ffi::{CStr, CString};

use longshore_llvm::types::*;

use super::Kernel;
use super::debug::Describer;
use super::parameters::{self, Parameter, Passing};
use crate::ir::{Ir, ll};
use crate::kernels::{ITEM, RUN, TRACED};

/// Offset of `traced` in `struct longshore_work`.
use crate::entry::WORK_TRACED;

/// The header's functions.
pub(super) struct Helpers {
    /// Fills `struct longshore_self` of an item.
    start: ValueRef,
    /// Run an item's function for all items of a group, or for the chosen ones.
    run: ValueRef,
    trace: ValueRef,
}

impl Helpers {
    pub(super) fn find(ir: &Ir<'_>) -> Result<Helpers, String> {
        let find = |name: &CStr| {
            let found = ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr()));
            found.present().filter(|function| ir.is_defined(*function)).ok_or_else(|| {
                format!(
                    "the source has not included longshore_cuda.h: no {}",
                    name.to_string_lossy()
                )
            })
        };
        Ok(Helpers {
            start: find(c"__longshore_start_item")?,
            run: find(c"__longshore_run_items")?,
            trace: find(c"__longshore_trace_items")?,
        })
    }

    /// Returns the type of a parameter of a function of the header.
    fn parameter_type(ir: &Ir<'_>, function: ValueRef, index: u32) -> TypeRef {
        ir.type_of(ir.parameter(function, index))
    }

    fn item_type(&self, ir: &Ir<'_>) -> TypeRef {
        let i32 = ir.int(32);
        let arguments = Self::parameter_type(ir, self.run, 0);
        let group = Self::parameter_type(ir, self.start, 1);
        ir.function_type(&[arguments, group, i32, i32, i32])
    }

    fn entry_type(&self, ir: &Ir<'_>) -> TypeRef {
        ir.function_type(&[0, 1].map(|index| Self::parameter_type(ir, self.run, index)))
    }
}

/// Returns the names of the functions by which programs and debuggers see a kernel.
pub(super) fn names(kernel: &str) -> [String; 3] {
    [kernel.to_owned(), format!("{RUN}{kernel}"), format!("{TRACED}{kernel}")]
}

/// Makes the functions of a kernel from its function in the source.
///
/// # Errors
/// The kernel's parameters are unknown.
pub(super) fn make(
    ir: &Ir<'_>,
    body: ValueRef,
    describer: Option<&Describer<'_, '_>>,
) -> Result<Kernel, String> {
    let name = ir.name(body);
    let parameters =
        parameters::read(ir, body).map_err(|problem| format!("kernel '{name}': {problem}"))?;
    let helpers = Helpers::find(ir)?;
    ir.set_name(body, &format!("__longshore_body_{name}"));
    let is_described = !ll!(ir, LLVMGetSubprogram(body)).is_null();
    let describer = describer.filter(|_| is_described);
    let maker =
        Maker { ir, helpers: &helpers, body, name: &name, parameters: &parameters, describer };
    let item = maker.item();
    let run = maker.version(RUN, helpers.run, item);
    let traced = maker.version(TRACED, helpers.trace, item);
    ir.add_attribute(traced, "cold");
    maker.entry(run, traced);
    Ok(Kernel { name, body, item, parameters })
}

/// Makes the code of a kernel's item part of its loop over items.
pub(super) fn inline_item(ir: &Ir<'_>, kernel: &Kernel) {
    let name = CString::new(format!("{RUN}{}", kernel.name)).expect("names have no NUL");
    let run = ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr()));
    for call in ir.all_instructions(run) {
        if ir.callee(call) == Some(kernel.item) {
            ir.add_call_attribute(call, "alwaysinline");
        }
    }
    ir.remove_attribute(kernel.item, "noinline");
    ir.remove_attribute(kernel.item, "optnone");
}

struct Maker<'m, 'l> {
    ir: &'m Ir<'l>,
    helpers: &'m Helpers,
    body: ValueRef,
    name: &'m str,
    parameters: &'m [Parameter],
    describer: Option<&'m Describer<'m, 'l>>,
}

impl Maker<'_, '_> {
    fn function(&self, name: &str, ty: TypeRef) -> ValueRef {
        let ir = self.ir;
        let name = CString::new(name).expect("names have no NUL");
        let function = ll!(ir, LLVMAddFunction(ir.module, name.as_ptr(), ty));
        ir.copy_attributes(self.body, function);
        for attribute in ["noinline", "optnone", "alwaysinline"] {
            ir.remove_attribute(function, attribute);
        }
        ll!(ir, LLVMSetLinkage(function, INTERNAL_LINKAGE));
        function
    }

    /// Makes the function of one item.
    fn item(&self) -> ValueRef {
        let ir = self.ir;
        let function = self.function(&format!("{ITEM}{}", self.name), self.helpers.item_type(ir));
        ir.add_attribute(function, "noinline");
        let build = ir.at_end(ir.append_block(function, c"entry"));
        let own = ir.named_type(c"struct.longshore_self").expect("the header has this structure");
        let own = build.alloca(own);
        ir.set_name(own, super::context::ITEM);
        let start = ll!(ir, LLVMGlobalGetValueType(self.helpers.start));
        let [group, x, y, z] = [1, 2, 3, 4].map(|index| ir.parameter(function, index));
        let of_self = Helpers::parameter_type(ir, self.helpers.start, 0);
        let address = build.cast(opcode::BIT_CAST, own, of_self);
        let call = build.call(start, self.helpers.start, &[address, group, x, y, z]);
        ir.add_call_attribute(call, "alwaysinline");
        if let Some(program) = ll!(ir, LLVMGetSubprogram(self.body)).present() {
            // The header's code is inlined here; the source's code becomes the function's own.
            let line = ll!(ir, LLVMDISubprogramGetLine(program));
            let none = MetadataRef::NULL;
            let place =
                ll!(ir, LLVMDIBuilderCreateDebugLocation(ir.context, line, 0, program, none));
            ll!(ir, LLVMInstructionSetDebugLoc(call, place));
        }
        if let Some(describer) = self.describer {
            describer.describe_item(own, ll!(ir, LLVMGetEntryBasicBlock(function)), self.body);
        }
        let values = self.values(function);
        let build = ir.at_end(ll!(ir, LLVMGetEntryBasicBlock(function)));
        let ty = ll!(ir, LLVMGlobalGetValueType(self.body));
        build.call(ty, self.body, &values);
        build.ret();
        function
    }

    /// Emits the values of the body's parameters.
    fn values(&self, item: ValueRef) -> Vec<ValueRef> {
        let ir = self.ir;
        let build = ir.at_end(ll!(ir, LLVMGetEntryBasicBlock(item)));
        let byte = ir.pointer_to(ir.int(8));
        let mut values = Vec::new();
        for (index, parameter) in self.parameters.iter().enumerate() {
            let arguments = ir.parameter(item, 0);
            let address = build.load_field(arguments, 8 * index as u64, byte);
            let ty = |at: usize| ir.type_of(ir.parameter(self.body, at as u32));
            match &parameter.passing {
                Passing::Nothing => {}
                Passing::Address => {
                    let is_copied = ir.is_by_value(self.body, values.len() as u32);
                    let own = if is_copied {
                        address
                    } else {
                        self.copy(address, parameter.argument.bytes)
                    };
                    let build = ir.at_builder();
                    values.push(build.cast(opcode::BIT_CAST, own, ty(values.len())));
                }
                Passing::Values(offsets) => {
                    for offset in offsets {
                        let ty = ty(values.len());
                        values.push(self.value(address, *offset, ty));
                    }
                }
            }
        }
        values
    }

    /// Emits a copy of an argument, which the function may change.
    fn copy(&self, address: ValueRef, bytes: u64) -> ValueRef {
        let ir = self.ir;
        let build = ir.at_builder();
        let words = bytes.div_ceil(8).max(1) as u32;
        let copy = build.alloca(ll!(ir, LLVMArrayType(ir.int(64), words)));
        ll!(ir, LLVMSetAlignment(copy, 16));
        let copy = build.cast(opcode::BIT_CAST, copy, ir.pointer_to(ir.int(8)));
        build.copy(copy, address, bytes);
        copy
    }

    fn value(&self, address: ValueRef, offset: u64, ty: TypeRef) -> ValueRef {
        let ir = self.ir;
        let build = ir.at_builder();
        let is_bit = ir.kind(ty) == type_kind::INTEGER && ll!(ir, LLVMGetIntTypeWidth(ty)) == 1;
        match is_bit {
            true => {
                let byte = build.load_field(address, offset, ir.int(8));
                build.compare(predicate::NE, byte, ir.constant(8, 0))
            }
            false => {
                let value = build.load_field(address, offset, ty);
                // The memory has the alignment of its type in the program, which may be less than
                // that of the registers' type.
                ll!(ir, LLVMSetAlignment(value, 1));
                value
            }
        }
    }

    /// Makes a function that copies the arguments, and runs the items by a loop of the header.
    fn version(&self, prefix: &str, by: ValueRef, item: ValueRef) -> ValueRef {
        let ir = self.ir;
        let function =
            self.function(&format!("{prefix}{}", self.name), self.helpers.entry_type(ir));
        let byte = ir.pointer_to(ir.int(8));
        let build = ir.at_end(ir.append_block(function, c"entry"));
        let count = self.parameters.len().max(1) as u32;
        let copies = build.alloca(ll!(ir, LLVMArrayType(byte, count)));
        let memory: Vec<ValueRef> = self
            .parameters
            .iter()
            .map(|parameter| {
                let words = parameter.argument.bytes.div_ceil(8).max(1) as u32;
                let copy = build.alloca(ll!(ir, LLVMArrayType(ir.int(64), words)));
                ll!(ir, LLVMSetAlignment(copy, 16));
                copy
            })
            .collect();
        let (arguments, work) = (ir.parameter(function, 0), ir.parameter(function, 1));
        for (index, (parameter, copy)) in self.parameters.iter().zip(memory).enumerate() {
            let at = 8 * index as u64;
            let from = build.load_field(arguments, at, byte);
            let to = build.cast(opcode::BIT_CAST, copy, byte);
            build.copy(to, from, parameter.argument.bytes);
            build.store(to, build.field(copies, at, byte));
        }
        let ty = |index| Helpers::parameter_type(ir, by, index);
        let copies = build.cast(opcode::BIT_CAST, copies, ty(0));
        let item = build.cast(opcode::BIT_CAST, item, ty(2));
        let call = build.call(ll!(ir, LLVMGlobalGetValueType(by)), by, &[copies, work, item]);
        ir.add_call_attribute(call, "alwaysinline");
        build.ret();
        self.describe(function);
        function
    }

    /// Describes a function of the pass for debuggers. All its code has the kernel's line: a
    /// debugger stops behind the first line of a function, which must not be behind a branch.
    fn describe(&self, function: ValueRef) {
        let Some(place) = self.describer.and_then(|it| it.describe(function)) else { return };
        for instruction in self.ir.all_instructions(function) {
            if self.ir.opcode(instruction) != opcode::ALLOCA {
                ll!(self.ir, LLVMInstructionSetDebugLoc(instruction, place));
            }
        }
    }

    fn entry(&self, run: ValueRef, traced: ValueRef) {
        let ir = self.ir;
        let ty = self.helpers.entry_type(ir);
        let function = self.function(self.name, ty);
        ll!(ir, LLVMSetLinkage(function, EXTERNAL_LINKAGE));
        let block = |name| ir.append_block(function, name);
        let (start, all, some) = (block(c"entry"), block(c"all"), block(c"some"));
        let [arguments, work] = [0, 1].map(|index| ir.parameter(function, index));
        let build = ir.at_end(start);
        let is_traced = build.load_field(work, WORK_TRACED, ir.int(32));
        let is_traced = build.compare(predicate::NE, is_traced, ir.constant(32, 0));
        build.cond_br(is_traced, some, all);
        for (block, version) in [(all, run), (some, traced)] {
            let build = ir.at_end(block);
            build.call(ty, version, &[arguments, work]);
            build.ret();
        }
        self.describe(function);
        crate::notes::keep(ir, function);
    }
}
