//! Parts of modules: the other definitions become declarations, as `llvm-extract` makes them.

use std::collections::HashSet;

use longshore_llvm::types::{
    APPENDING_LINKAGE, AVAILABLE_EXTERNALLY_LINKAGE, Bool, ComdatRef, EXTERNAL_LINKAGE,
    HIDDEN_VISIBILITY, INTERNAL_LINKAGE, LINK_ONCE_ANY_LINKAGE, LINK_ONCE_ODR_LINKAGE,
    PRIVATE_LINKAGE, TargetMachineRef, ValueRef, WEAK_ANY_LINKAGE, WEAK_ODR_LINKAGE, type_kind,
};

use crate::context::LoadedModule;
use crate::machine::run_passes;
use crate::{CompileError, Level, Part};

/// Reduces a module to a part of it. The module may have been read lazily; afterwards it has all
/// bodies of its definitions.
pub(crate) fn reduce(module: &LoadedModule<'_>, part: &Part<'_>) -> Result<(), CompileError> {
    let (named, keeps_named) = match part {
        Part::Whole => return Ok(()),
        Part::Only { functions, aliases } => (functions.iter().chain(aliases), true),
        Part::Without { functions, aliases } => (functions.iter().chain(aliases), false),
    };
    let names: HashSet<&[u8]> = named.copied().collect();
    let reduction = Reduction { module, names, keeps_named };
    reduction.assembly();
    reduction.variables();
    reduction.functions()?;
    reduction.aliases();
    // The first pass turns definitions that are only available externally into declarations, the
    // others remove unused declarations.
    let passes = "elim-avail-extern,globaldce,strip-dead-prototypes";
    let passes = match has_debug_information(module) {
        true => format!("{passes},strip-dead-debug-info"),
        false => passes.to_owned(),
    };
    run_passes(module, &passes, Level::None, TargetMachineRef::NULL)
}

struct Reduction<'a> {
    module: &'a LoadedModule<'a>,
    names: HashSet<&'a [u8]>,
    /// Whether the named globals are kept, and not the others.
    keeps_named: bool,
}

impl Reduction<'_> {
    fn keeps(&self, value: ValueRef) -> bool {
        self.names.contains(self.module.name_of(value)) == self.keeps_named
    }

    fn assembly(&self) {
        if self.keeps_named {
            let functions = self.module.functions();
            // SAFETY: the module is live, and the text is empty.
            unsafe { (functions.LLVMSetModuleInlineAsm2)(self.module.module, c"".as_ptr(), 0) };
        }
    }

    fn variables(&self) {
        let functions = self.module.functions();
        // SAFETY: the values belong to the live module; a variable is removed after its successor
        // was found.
        unsafe {
            let mut next = (functions.LLVMGetFirstGlobal)(self.module.module);
            while let Some(variable) = next.present() {
                next = (functions.LLVMGetNextGlobal)(variable);
                let is_list = (functions.LLVMGetLinkage)(variable) == APPENDING_LINKAGE;
                if self.keeps(variable) {
                    self.make_visible(variable);
                } else if is_list {
                    (functions.LLVMDeleteGlobal)(variable);
                } else {
                    self.drop_definition(variable);
                }
            }
        }
    }

    fn functions(&self) -> Result<(), CompileError> {
        let functions = self.module.functions();
        // SAFETY: the values belong to the live module, and the manager is disposed of.
        unsafe {
            let reader = (functions.LLVMCreateFunctionPassManagerForModule)(self.module.module);
            let mut next = (functions.LLVMGetFirstFunction)(self.module.module);
            while let Some(function) = next.present() {
                next = (functions.LLVMGetNextFunction)(function);
                if (functions.LLVMIsDeclaration)(function) != 0 {
                    continue;
                }
                if !self.keeps(function) {
                    self.drop_definition(function);
                    continue;
                }
                // A pipeline without passes reads the function's body.
                (functions.LLVMRunFunctionPassManager)(reader, function);
                self.make_visible(function);
            }
            (functions.LLVMDisposePassManager)(reader);
        }
        self.module.context.check("the bitcode is damaged")
    }

    /// Replaces unwanted aliases by declarations.
    fn aliases(&self) {
        let functions = self.module.functions();
        // SAFETY: the values belong to the live module; an alias stays in the list of aliases.
        unsafe {
            let mut next = (functions.LLVMGetFirstGlobalAlias)(self.module.module);
            while let Some(alias) = next.present() {
                next = (functions.LLVMGetNextGlobalAlias)(alias);
                if self.keeps(alias) {
                    self.make_visible(alias);
                    continue;
                }
                let declaration = self.declare_instead_of(alias);
                (functions.LLVMReplaceAllUsesWith)(alias, declaration);
                // The pass that removes unused globals removes the alias.
                (functions.LLVMSetLinkage)(alias, INTERNAL_LINKAGE);
            }
        }
    }

    /// Creates a declaration with an alias's name, and takes the name from the alias.
    ///
    /// # Safety
    /// The alias belongs to the module.
    unsafe fn declare_instead_of(&self, alias: ValueRef) -> ValueRef {
        let (functions, module) = (self.module.functions(), self.module.module);
        let name = self.module.name_of(alias).to_owned();
        // SAFETY: the caller vouches for the alias, and LLVM copies the names.
        unsafe {
            let (linkage, visibility) =
                ((functions.LLVMGetLinkage)(alias), (functions.LLVMGetVisibility)(alias));
            let kind = (functions.LLVMGlobalGetValueType)(alias);
            (functions.LLVMSetValueName2)(alias, c"".as_ptr(), 0);
            let declaration = if (functions.LLVMGetTypeKind)(kind) == type_kind::FUNCTION {
                (functions.LLVMAddFunction)(module, c"".as_ptr(), kind)
            } else {
                let space = (functions.LLVMGetPointerAddressSpace)((functions.LLVMTypeOf)(alias));
                let declaration =
                    (functions.LLVMAddGlobalInAddressSpace)(module, kind, c"".as_ptr(), space);
                let mode = (functions.LLVMGetThreadLocalMode)(alias);
                (functions.LLVMSetThreadLocalMode)(declaration, mode);
                declaration
            };
            (functions.LLVMSetValueName2)(declaration, name.as_ptr().cast(), name.len());
            let hidden = if is_local(linkage) { HIDDEN_VISIBILITY } else { visibility };
            (functions.LLVMSetVisibility)(declaration, hidden);
            declaration
        }
    }

    /// Makes a kept global visible for other parts, and keeps LLVM from dropping it.
    ///
    /// # Safety
    /// The value is a global of the module.
    unsafe fn make_visible(&self, global: ValueRef) {
        let functions = self.module.functions();
        // SAFETY: guaranteed by the caller.
        unsafe {
            let linkage = match (functions.LLVMGetLinkage)(global) {
                linkage if is_local(linkage) => EXTERNAL_LINKAGE,
                LINK_ONCE_ANY_LINKAGE => WEAK_ANY_LINKAGE,
                LINK_ONCE_ODR_LINKAGE => WEAK_ODR_LINKAGE,
                _ => return,
            };
            (functions.LLVMSetLinkage)(global, linkage);
            if linkage == EXTERNAL_LINKAGE {
                (functions.LLVMSetVisibility)(global, HIDDEN_VISIBILITY);
            }
        }
    }

    /// Marks a definition as one that becomes a declaration.
    ///
    /// # Safety
    /// The value is a function or variable of the module.
    unsafe fn drop_definition(&self, global: ValueRef) {
        let functions = self.module.functions();
        // SAFETY: guaranteed by the caller.
        unsafe {
            if (functions.LLVMIsDeclaration)(global) != 0 {
                return;
            }
            let linkage = (functions.LLVMGetLinkage)(global);
            (functions.LLVMSetComdat)(global, ComdatRef::NULL);
            (functions.LLVMSetLinkage)(global, AVAILABLE_EXTERNALLY_LINKAGE);
            if is_local(linkage) {
                (functions.LLVMSetVisibility)(global, HIDDEN_VISIBILITY);
            }
        }
    }
}

fn is_local(linkage: u32) -> bool {
    matches!(linkage, INTERNAL_LINKAGE | PRIVATE_LINKAGE)
}

fn has_debug_information(module: &LoadedModule<'_>) -> bool {
    let functions = module.functions();
    // SAFETY: the module is live, and the name ends with zero.
    let count = unsafe {
        (functions.LLVMGetNamedMetadataNumOperands)(module.module, c"llvm.dbg.cu".as_ptr())
    };
    count as Bool != 0
}
