//! LLVM's own passes, and its verifier.

use std::ffi::{CStr, CString};

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

impl Ir<'_> {
    /// Runs a pipeline on the module.
    pub(crate) fn run_passes(&self, passes: &str, machine: TargetMachineRef) -> Result<(), String> {
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

    /// Runs a pipeline of passes over functions, on some functions of the module.
    pub(crate) fn run_passes_on(
        &self,
        functions: &[ValueRef],
        passes: &str,
        machine: TargetMachineRef,
    ) -> Result<(), String> {
        let is_other = |it: &ValueRef| self.is_defined(*it) && !functions.contains(it);
        let mut others: Vec<ValueRef> = self.all_functions().into_iter().filter(is_other).collect();
        others.retain(|it| !self.has_attribute(*it, "optnone"));
        // These contradict `optnone`.
        let conflicts = ["alwaysinline", "optsize", "minsize"];
        let had = |it: &ValueRef| conflicts.map(|name| self.has_attribute(*it, name));
        let removed: Vec<[bool; 3]> = others.iter().map(had).collect();
        let inlined: Vec<ValueRef> =
            others.iter().copied().filter(|it| !self.has_attribute(*it, "noinline")).collect();
        for other in &others {
            conflicts.iter().for_each(|name| self.remove_attribute(*other, name));
            self.add_attribute(*other, "noinline");
            self.add_attribute(*other, "optnone");
        }
        let result = self.run_passes(passes, machine);
        others.iter().for_each(|it| self.remove_attribute(*it, "optnone"));
        inlined.iter().for_each(|it| self.remove_attribute(*it, "noinline"));
        for (other, removed) in others.iter().zip(removed) {
            let names = conflicts.iter().zip(removed).filter(|(_, removed)| *removed);
            names.for_each(|(name, _)| self.add_attribute(*other, name));
        }
        result
    }

    /// Returns the verifier's complaint about the module.
    pub(crate) fn verify(&self) -> Result<(), String> {
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
