//! Code generators.

use std::collections::HashMap;

use longshore_llvm::Functions;
use longshore_llvm::types::{
    ASSEMBLY_FILE, CODE_MODEL_DEFAULT, MemoryBufferRef, OBJECT_FILE, PassOptionsRef, RELOC_PIC,
    RELOC_STATIC, TargetMachineRef, TargetRef,
};
use parking_lot::Mutex;

use crate::context::{LoadedModule, c_string};
use crate::{CompileError, Level, Target};

/// The settings of a code generator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MachineKey {
    pub(crate) target: Target,
    pub(crate) level: Level,
    pub(crate) position_independent: bool,
}

/// Idle code generators. Creating one costs more than a small function's code, and one thread at a
/// time may use one.
#[derive(Default)]
pub(crate) struct IdleMachines(Mutex<HashMap<MachineKey, Vec<IdleMachine>>>);

struct IdleMachine(TargetMachineRef);

// SAFETY: a code generator belongs to no thread.
unsafe impl Send for IdleMachine {}

/// A code generator in use, which is idle again after the drop.
pub(crate) struct Machine<'a> {
    functions: &'a Functions,
    idle: &'a IdleMachines,
    key: MachineKey,
    pub(crate) machine: TargetMachineRef,
}

/// Greatest number of idle code generators with the same settings.
const MOST_IDLE: usize = 16;

impl IdleMachines {
    /// Returns a code generator with these settings.
    pub(crate) fn take<'a>(
        &'a self,
        functions: &'a Functions,
        key: MachineKey,
    ) -> Result<Machine<'a>, CompileError> {
        let idle = self.0.lock().get_mut(&key).and_then(Vec::pop);
        let machine = match idle {
            Some(IdleMachine(machine)) => machine,
            None => create(functions, &key)?,
        };
        Ok(Machine { functions, idle: self, key, machine })
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let mut idle = self.idle.0.lock();
        let same = idle.entry(self.key.clone()).or_default();
        if same.len() < MOST_IDLE {
            return same.push(IdleMachine(self.machine));
        }
        drop(idle);
        // SAFETY: the code generator is ours.
        unsafe { (self.functions.LLVMDisposeTargetMachine)(self.machine) };
    }
}

impl Machine<'_> {
    pub(crate) fn target(&self) -> &Target {
        &self.key.target
    }

    /// Gives the module the target's data layout. A layout of the module's own must not contradict
    /// it: an earlier LLVM may have known fewer types.
    pub(crate) fn check_layout(&self, module: &LoadedModule<'_>) -> Result<(), CompileError> {
        let found = module.layout();
        // SAFETY: the code generator is live, and the layout is disposed of after its last use.
        let expected = unsafe {
            let layout = (self.functions.LLVMCreateTargetDataLayout)(self.machine);
            let text = (self.functions.LLVMCopyStringRepOfTargetData)(layout);
            let expected = module.context.take_text(text).unwrap_or_default();
            if found != expected && agree(&found, &expected) {
                (self.functions.LLVMSetModuleDataLayout)(module.module, layout);
            }
            (self.functions.LLVMDisposeTargetData)(layout);
            expected
        };
        if agree(&found, &expected) {
            return Ok(());
        }
        let triple = &self.key.target.triple;
        Err(CompileError::Target(format!(
            "the module has the data layout '{found}', expected '{expected}' for {triple}: compile \
             it for that target"
        )))
    }

    /// Runs passes, which a text describes.
    pub(crate) fn run(
        &self,
        module: &LoadedModule<'_>,
        passes: &str,
        level: Level,
    ) -> Result<(), CompileError> {
        run_passes(module, passes, level, self.machine)
    }

    /// Generates code: an object, or assembly text for PTX.
    pub(crate) fn emit(&self, module: &LoadedModule<'_>) -> Result<Vec<u8>, CompileError> {
        let is_text = self.key.target.triple.starts_with("nvptx");
        let kind = if is_text { ASSEMBLY_FILE } else { OBJECT_FILE };
        let (mut text, mut buffer) = (std::ptr::null_mut(), MemoryBufferRef::NULL);
        // SAFETY: the code generator and the module are live, and the results are LLVM's.
        let (failed, text) = unsafe {
            let failed = (self.functions.LLVMTargetMachineEmitToMemoryBuffer)(
                self.machine,
                module.module,
                kind,
                &mut text,
                &mut buffer,
            );
            (failed, module.context.take_text(text))
        };
        let problem = "LLVM generates no code for the module";
        if failed != 0 || buffer.is_null() {
            return Err(CompileError::Failed(module.context.explain(problem, text)));
        }
        // SAFETY: the buffer is LLVM's.
        let bytes = unsafe { module.context.take_buffer(buffer) };
        module.context.check(problem)?;
        Ok(bytes)
    }
}

/// Runs passes, which a text describes, possibly for the processor of a code generator.
pub(crate) fn run_passes(
    module: &LoadedModule<'_>,
    passes: &str,
    level: Level,
    machine: TargetMachineRef,
) -> Result<(), CompileError> {
    let functions = module.functions();
    let passes = c_string(passes);
    // SAFETY: the module and the code generator are live, and the options are disposed of.
    let error = unsafe {
        let options: PassOptionsRef = (functions.LLVMCreatePassBuilderOptions)();
        let vectorizes = i32::from(level.number() >= 2);
        (functions.LLVMPassBuilderOptionsSetLoopVectorization)(options, vectorizes);
        (functions.LLVMPassBuilderOptionsSetSLPVectorization)(options, vectorizes);
        let error = (functions.LLVMRunPasses)(module.module, passes.as_ptr(), machine, options);
        (functions.LLVMDisposePassBuilderOptions)(options);
        error
    };
    let problem = "the module cannot be optimised";
    if !error.is_null() {
        // SAFETY: the error is LLVM's.
        let text = unsafe { module.context.take_error(error) };
        return Err(CompileError::Failed(module.context.explain(problem, Some(text))));
    }
    module.context.check(problem)
}

/// Returns whether two data layouts say nothing different about the same thing.
fn agree(one: &str, other: &str) -> bool {
    let subject = |part: &str| match part.chars().next() {
        Some('e' | 'E') => "e".to_owned(),
        Some(letter @ ('n' | 'S' | 'F' | 'A' | 'P' | 'G')) if !part.starts_with("ni") => {
            letter.to_string()
        }
        _ => part.split(':').next().unwrap_or_default().to_owned(),
    };
    let mut parts = one.split('-').filter(|part| !part.is_empty());
    parts.all(|part| other.split('-').all(|known| known == part || subject(known) != subject(part)))
}

fn create(functions: &Functions, key: &MachineKey) -> Result<TargetMachineRef, CompileError> {
    let [triple, cpu, features] =
        [&key.target.triple, &key.target.cpu, &key.target.features].map(|text| c_string(text));
    let relocation = if key.position_independent { RELOC_PIC } else { RELOC_STATIC };
    let level = key.level.number();
    let mut target = TargetRef(std::ptr::null_mut());
    let mut text = std::ptr::null_mut();
    // SAFETY: all texts end with zero and are live, and the results are LLVM's.
    let machine = unsafe {
        if (functions.LLVMGetTargetFromTriple)(triple.as_ptr(), &mut target, &mut text) != 0 {
            let reason = std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned();
            (functions.LLVMDisposeMessage)(text);
            let triple = &key.target.triple;
            return Err(CompileError::Library(format!(
                "libLLVM has no code generator for {triple}: {reason}"
            )));
        }
        (functions.LLVMCreateTargetMachine)(
            target,
            triple.as_ptr(),
            cpu.as_ptr(),
            features.as_ptr(),
            level,
            relocation,
            CODE_MODEL_DEFAULT,
        )
    };
    match machine.is_null() {
        false => Ok(machine),
        true => Err(CompileError::Library(format!(
            "libLLVM has no code generator for {}",
            key.target.triple
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn layouts_agree_that_do_not_contradict_each_other() {
        let known = "e-m:e-p6:32:32-i64:64-n16:32-S128";
        for (found, expected) in [
            ("", true),
            (known, true),
            ("e-m:e-i64:64-n16:32-S128", true),
            ("e-i128:128", true),
            ("E-m:e", false),
            ("e-m:o", false),
            ("e-i64:32", false),
            ("e-n16:32:64", false),
        ] {
            assert_eq!(agree(found, known), expected, "{found}");
        }
    }
}
