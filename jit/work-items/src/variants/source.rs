//! The kernel of a variant, and the check of the variant's constants.

use std::ffi::CString;

use longshore_llvm::types::*;

use super::{Constant, NumberKind, Problem, Processor, Variant, VariantError, refusal};
use crate::ir::{Ir, ll};
use crate::kernels::ITEM;

/// Prefix of a kernel's name in the name of its description. `longshore_device.h` defines both.
const DESCRIPTION: &str = "__longshore_kernel_";
/// `PTX_Kernel` of `CallingConv`.
const PTX_KERNEL: u32 = 71;
/// `AMDGPU_KERNEL` of `CallingConv`.
const AMDGPU_KERNEL: u32 = 91;
/// Most kernels that a message lists.
const SHOWN: usize = 8;

/// A kernel, and the variant that is made of it.
pub(super) struct Source<'v> {
    pub(super) variant: &'v Variant<'v>,
    pub(super) kernel: ValueRef,
    /// The work of one item, on a CPU.
    pub(super) item: Option<ValueRef>,
    pub(super) description: Option<Description>,
}

/// The description of a kernel of `longshore_device.h`.
pub(super) struct Description {
    pub(super) global: ValueRef,
    required: [u32; 3],
    /// Size and kind of each argument.
    arguments: Vec<(u32, u32)>,
}

impl<'v> Source<'v> {
    /// Finds the kernel of a variant, and checks the variant's constants.
    pub(super) fn find(
        ir: &Ir<'_>,
        processor: Processor,
        variant: &'v Variant<'v>,
    ) -> Result<Self, VariantError> {
        let name = variant.kernel;
        let description = Description::for_kernel(ir, name);
        let kernel = function(ir, name)
            .filter(|kernel| description.is_some() || has_form(ir, processor, *kernel));
        let Some(kernel) = kernel else {
            let message =
                format!("the module defines no kernel '{name}'; {}", others(ir, processor));
            return Err(refusal(Problem::Kernel, message));
        };
        let item = function(ir, &format!("{ITEM}{name}"));
        let item = item.filter(|item| processor == Processor::Cpu && is_unchanged(ir, *item));
        let source = Source { variant, kernel, item, description };
        source.check_group(processor)?;
        source.check_arguments(ir, processor)?;
        Ok(source)
    }

    fn check_group(&self, processor: Processor) -> Result<(), VariantError> {
        let (name, Some(group)) = (self.variant.kernel, self.variant.group) else {
            return Ok(());
        };
        let refused = |message| Err(refusal(Problem::Value, message));
        let Some(description) = &self.description else {
            return match processor {
                Processor::Cpu => refused(format!(
                    "kernel '{name}' is called once per launch, so its groups have no size: a \
                     variant for groups of {group:?} items needs a kernel of longshore_device.h"
                )),
                _ => Ok(()),
            };
        };
        let required = description.required;
        if required.iter().zip(group).all(|(required, size)| *required == 0 || *required == size) {
            return Ok(());
        }
        refused(format!(
            "kernel '{name}' requires groups of {required:?} items, where 0 allows any number; the \
             variant is for groups of {group:?}"
        ))
    }

    fn check_arguments(&self, ir: &Ir<'_>, processor: Processor) -> Result<(), VariantError> {
        let name = self.variant.kernel;
        for constant in &self.variant.arguments {
            let index = constant.index;
            let (kind, count) = match (&self.description, processor) {
                (Some(description), _) => {
                    let found = description.arguments.get(index as usize);
                    let kind = found.map(|(bytes, kind)| Kind::described(*bytes, *kind));
                    (kind, description.arguments.len())
                }
                // Nothing describes the arguments, as nothing does at a launch.
                (None, Processor::Cpu) => continue,
                (None, _) => {
                    let count = ll!(ir, LLVMCountParams(self.kernel));
                    let kind = (index < count).then(|| Kind::for_parameter(ir, self.kernel, index));
                    (kind, count as usize)
                }
            };
            let Some(kind) = kind else {
                let message = format!(
                    "kernel '{name}' takes {count} arguments, so it has no argument {index}: \
                     arguments count from 0"
                );
                return Err(refusal(Problem::Value, message));
            };
            kind.check(name, constant)?;
        }
        Ok(())
    }
}

impl Description {
    fn for_kernel(ir: &Ir<'_>, kernel: &str) -> Option<Description> {
        let name = CString::new(format!("{DESCRIPTION}{kernel}")).ok()?;
        let global = ll!(ir, LLVMGetNamedGlobal(ir.module, name.as_ptr())).present()?;
        let value = ll!(ir, LLVMGetInitializer(global)).present()?;
        // The text follows, and padding in modules of clang from 19 on.
        let parts = ir.operands(value);
        let (head, arguments) = (*parts.first()?, *parts.get(1)?);
        let word = |array, index| ir.constant_word(array, index);
        let required = [word(head, 2)?, word(head, 3)?, word(head, 4)?];
        let pair = |array: ValueRef| Some((word(array, 0)?, word(array, 1)?));
        let arguments = ir.operands(arguments).into_iter().take(word(head, 5)? as usize);
        let arguments = arguments.map(pair).collect::<Option<Vec<_>>>()?;
        Some(Description { global, required, arguments })
    }
}

/// The kind and the size of an argument.
enum Kind {
    Number(NumberKind, u32),
    Pointer,
    Structure,
}

impl Kind {
    fn described(bytes: u32, kind: u32) -> Kind {
        match kind & 0xff {
            1 | 2 => Kind::Number(NumberKind::Integer, bytes),
            3 => Kind::Number(NumberKind::Float, bytes),
            4 => Kind::Pointer,
            _ => Kind::Structure,
        }
    }

    fn for_parameter(ir: &Ir<'_>, kernel: ValueRef, index: u32) -> Kind {
        let ty = ir.type_of(ir.parameter(kernel, index));
        let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
        let bytes = || ll!(ir, LLVMABISizeOfType(layout, ty)) as u32;
        match ir.kind(ty) {
            type_kind::INTEGER => Kind::Number(NumberKind::Integer, bytes()),
            type_kind::HALF | type_kind::BFLOAT | type_kind::FLOAT | type_kind::DOUBLE => {
                Kind::Number(NumberKind::Float, bytes())
            }
            type_kind::POINTER => Kind::Pointer,
            _ => Kind::Structure,
        }
    }

    fn check(&self, kernel: &str, constant: &Constant<'_>) -> Result<(), VariantError> {
        let index = constant.index;
        let (kind, bytes) = match self {
            Kind::Number(kind, bytes) => (*kind, *bytes),
            Kind::Pointer | Kind::Structure => {
                let what = if matches!(self, Kind::Pointer) { "pointer" } else { "structure" };
                let message = format!(
                    "argument {index} of kernel '{kernel}' is a {what}; only numbers can be \
                     constants of a variant"
                );
                return Err(refusal(Problem::Value, message));
            }
        };
        let given = constant.bytes.len();
        if given != bytes as usize {
            let message = format!(
                "argument {index} of kernel '{kernel}' has {bytes} bytes; the variant's constant \
                 has {given}"
            );
            return Err(refusal(Problem::Size, message));
        }
        match constant.kind {
            Some(given) if given != kind => {
                let name = |kind| match kind {
                    NumberKind::Integer => "an integer",
                    NumberKind::Float => "a floating-point number",
                };
                let (declared, given) = (name(kind), name(given));
                let message = format!(
                    "argument {index} of kernel '{kernel}' is {declared}; the variant's constant \
                     is {given}"
                );
                Err(refusal(Problem::Value, message))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the function that the module defines under a name.
fn function(ir: &Ir<'_>, name: &str) -> Option<ValueRef> {
    let name = CString::new(name).ok()?;
    let function = ll!(ir, LLVMGetNamedFunction(ir.module, name.as_ptr())).present()?;
    ir.is_defined(function).then_some(function)
}

/// Returns whether a function of one item has the parameters that it was written with. A compiler
/// that changes the parameters of a function also changes its calling convention.
fn is_unchanged(ir: &Ir<'_>, item: ValueRef) -> bool {
    const PARAMETERS: u32 = 5;
    ll!(ir, LLVMGetFunctionCallConv(item)) == 0 && ll!(ir, LLVMCountParams(item)) == PARAMETERS
}

/// Returns whether a function without a description has the form of a kernel.
fn has_form(ir: &Ir<'_>, processor: Processor, function: ValueRef) -> bool {
    let is_kernel = match processor {
        // LLVM's host form takes one pointer.
        Processor::Cpu => {
            let is_pointer = |it| ir.kind(ir.type_of(it)) == type_kind::POINTER;
            ll!(ir, LLVMCountParams(function)) == 1 && is_pointer(ir.parameter(function, 0))
        }
        Processor::Nvidia => {
            let convention = ll!(ir, LLVMGetFunctionCallConv(function));
            convention == PTX_KERNEL || super::group::is_annotated_kernel(ir, function)
        }
        Processor::Amd => ll!(ir, LLVMGetFunctionCallConv(function)) == AMDGPU_KERNEL,
    };
    let ty = ll!(ir, LLVMGlobalGetValueType(function));
    let result = ll!(ir, LLVMGetReturnType(ty));
    is_kernel && ir.kind(result) == type_kind::VOID
}

/// Lists the kernels of the module.
fn others(ir: &Ir<'_>, processor: Processor) -> String {
    let is_exported = |it: &ValueRef| {
        let linkage = ll!(ir, LLVMGetLinkage(*it));
        ir.is_defined(*it) && !matches!(linkage, INTERNAL_LINKAGE | PRIVATE_LINKAGE)
    };
    let functions = ir.all_functions().into_iter().filter(is_exported);
    let is_kernel = |it: &ValueRef| {
        let is_described = Description::for_kernel(ir, &ir.name(*it)).is_some();
        is_described || has_form(ir, processor, *it)
    };
    let names: Vec<String> = functions.filter(is_kernel).map(|it| ir.name(it)).collect();
    match names.len() {
        0 => "it has no kernels".to_owned(),
        count if count <= SHOWN => format!("it has {}", names.join(", ")),
        count => format!("it has {}, and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}
