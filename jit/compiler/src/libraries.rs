//! The opened libraries, each with its targets and its idle code generators.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use longshore_llvm::{Functions, Library};
use parking_lot::Mutex;

use crate::machine::IdleMachines;
use crate::{CompileError, LibraryChoice, LibraryVersion};

/// A function that learns why LLVM is about to end the process. It may end the process itself.
pub type FatalErrorHandler = fn(&str);

/// Libraries by the choices that led to them.
#[derive(Default)]
pub(crate) struct Libraries {
    opened: Mutex<HashMap<LibraryChoice, Arc<Backend>>>,
}

/// An opened library.
pub(crate) struct Backend {
    pub(crate) library: Library,
    pub(crate) machines: IdleMachines,
}

static ON_FATAL_ERROR: OnceLock<FatalErrorHandler> = OnceLock::new();

impl Libraries {
    /// Returns the library of a choice. The first call for a choice opens it, and blocks meanwhile.
    pub(crate) fn get(&self, choice: &LibraryChoice) -> Result<Arc<Backend>, CompileError> {
        let mut opened = self.opened.lock();
        if let Some(backend) = opened.get(choice) {
            return Ok(Arc::clone(backend));
        }
        // SAFETY: the creator of the compiler promises that these libraries are LLVM's.
        let library = unsafe {
            match choice {
                LibraryChoice::Newest => Library::find(None),
                LibraryChoice::Major(version) => Library::find(Some(*version)),
                LibraryChoice::File(path) => Library::open(path),
            }
        };
        let library = library.map_err(|error| CompileError::Library(error.to_string()))?;
        let same = opened.values().find(|backend| backend.library.path() == library.path());
        let backend = match same {
            Some(backend) => Arc::clone(backend),
            None => Arc::new(Backend::new(library)),
        };
        opened.insert(choice.clone(), Arc::clone(&backend));
        Ok(backend)
    }
}

impl Backend {
    fn new(library: Library) -> Self {
        initialize_targets(library.functions());
        if ON_FATAL_ERROR.get().is_some() {
            // SAFETY: the function has the type that LLVM calls.
            unsafe { (library.functions().LLVMInstallFatalErrorHandler)(Some(on_fatal_error)) };
        }
        Self { library, machines: IdleMachines::default() }
    }

    pub(crate) fn version(&self) -> LibraryVersion {
        LibraryVersion { version: self.library.version(), path: self.library.path().to_owned() }
    }
}

/// Sets the function that learns of fatal errors in libraries opened later. Only the first call in
/// a process has an effect.
pub fn set_fatal_error_handler(handler: FatalErrorHandler) {
    let _ = ON_FATAL_ERROR.set(handler);
}

unsafe extern "C" fn on_fatal_error(reason: *const c_char) {
    // SAFETY: LLVM passes a string that ends with zero.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    if let Some(handler) = ON_FATAL_ERROR.get() {
        handler(&reason);
    }
}

/// Initialises the targets for which code is generated, as far as the library has them.
fn initialize_targets(functions: &Functions) {
    let initializers = [
        functions.LLVMInitializeX86TargetInfo,
        functions.LLVMInitializeX86Target,
        functions.LLVMInitializeX86TargetMC,
        functions.LLVMInitializeX86AsmPrinter,
        functions.LLVMInitializeX86AsmParser,
        functions.LLVMInitializeAArch64TargetInfo,
        functions.LLVMInitializeAArch64Target,
        functions.LLVMInitializeAArch64TargetMC,
        functions.LLVMInitializeAArch64AsmPrinter,
        functions.LLVMInitializeAArch64AsmParser,
        functions.LLVMInitializeNVPTXTargetInfo,
        functions.LLVMInitializeNVPTXTarget,
        functions.LLVMInitializeNVPTXTargetMC,
        functions.LLVMInitializeNVPTXAsmPrinter,
        functions.LLVMInitializeAMDGPUTargetInfo,
        functions.LLVMInitializeAMDGPUTarget,
        functions.LLVMInitializeAMDGPUTargetMC,
        functions.LLVMInitializeAMDGPUAsmPrinter,
        functions.LLVMInitializeAMDGPUAsmParser,
    ];
    for initialize in initializers.into_iter().flatten() {
        // SAFETY: the functions take nothing, and may be called once each before other uses.
        unsafe { initialize() };
    }
}
