//! LLVM's own passes over some functions.

use longshore_llvm::types::*;

use crate::ir::Ir;

impl Ir<'_> {
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
}
