//! Bitcode in, changed bitcode out.

use crate::types::*;
use crate::{Functions, Library};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};

/// Greatest number of LLVM's errors in a message.
const MOST_ERRORS: usize = 10;

/// Joins modules of bitcode to one, changes it, and returns the new bitcode with what `change`
/// returned; without descriptions for debuggers if `strip`.
///
/// # Errors
/// The problem of `change`, and of modules that LLVM cannot read or join, with LLVM's errors.
///
/// # Safety
/// The bitcode is a compiler's: LLVM does not check all of it, and can end the process. `change`
/// leaves the module alive.
pub unsafe fn change_bitcode<T>(
    library: &Library,
    bitcode: &[&[u8]],
    strip: bool,
    change: impl FnOnce(ContextRef, ModuleRef) -> Result<T, String>,
) -> Result<(Vec<u8>, T), String> {
    let llvm = library.functions();
    let errors = Errors { llvm, texts: RefCell::default() };
    // SAFETY: the context is new, and the module is of it. The context uses the errors only during
    // calls of its functions, on this thread.
    let result = unsafe {
        let context = (llvm.LLVMContextCreate)();
        // Without a handler, LLVM ends the process after an error.
        let to = (&raw const errors).cast_mut().cast();
        (llvm.LLVMContextSetDiagnosticHandler)(context, Some(on_message), to);
        let result = joined(library, context, bitcode).and_then(|module| {
            let result = change(context, module).map(|made| {
                if strip {
                    (llvm.LLVMStripModuleDebugInfo)(module);
                }
                (written(llvm, module), made)
            });
            (llvm.LLVMDisposeModule)(module);
            result
        });
        (llvm.LLVMContextDispose)(context);
        result
    };
    let texts = errors.texts.into_inner();
    match result {
        result if texts.is_empty() => result,
        Ok(_) => Err(format!("LLVM cannot change this bitcode: {}", texts.join("; "))),
        Err(problem) => Err(format!("{problem}: {}", texts.join("; "))),
    }
}

/// The errors that LLVM reports to a context.
struct Errors<'a> {
    llvm: &'a Functions,
    texts: RefCell<Vec<String>>,
}

/// Keeps the text of an error.
///
/// # Safety
/// `to` points to the [`Errors`] of the context, and the message is LLVM's.
unsafe extern "C" fn on_message(message: DiagnosticRef, to: *mut c_void) {
    // SAFETY: promised by the caller. LLVM's text is disposed of after its copy is made.
    let (errors, severity, text) = unsafe {
        let errors = &*to.cast_const().cast::<Errors<'_>>();
        let text = (errors.llvm.LLVMGetDiagInfoDescription)(message);
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        (errors.llvm.LLVMDisposeMessage)(text);
        (errors, (errors.llvm.LLVMGetDiagInfoSeverity)(message), owned)
    };
    let mut texts = errors.texts.borrow_mut();
    if severity == SEVERITY_ERROR && texts.len() < MOST_ERRORS {
        texts.push(text);
    }
}

/// Reads modules, and joins them to one.
///
/// # Safety
/// As for [`change_bitcode`]; the context is alive.
unsafe fn joined(
    library: &Library,
    context: ContextRef,
    bitcode: &[&[u8]],
) -> Result<ModuleRef, String> {
    let llvm = library.functions();
    let mut whole = ModuleRef::NULL;
    for bytes in bitcode {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        let mut module = ModuleRef::NULL;
        // SAFETY: the buffer has a copy of the bytes, and is given back. A join takes its second
        // module over. Both modules are alive and of this context.
        let problem = unsafe {
            let name = c"bitcode".as_ptr();
            let buffer = (llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy)(start, length, name);
            let failed = (llvm.LLVMParseBitcodeInContext2)(context, buffer, &raw mut module);
            (llvm.LLVMDisposeMemoryBuffer)(buffer);
            match failed {
                0 if whole.is_null() => {
                    whole = module;
                    None
                }
                0 if (llvm.LLVMLinkModules2)(whole, module) == 0 => None,
                0 => Some(
                    "the sources cannot be joined; define each function and variable in one of \
                     them, or make it static"
                        .to_owned(),
                ),
                _ => Some(format!("LLVM {} cannot read this bitcode", library.major())),
            }
        };
        if let Some(problem) = problem {
            if !whole.is_null() {
                // SAFETY: the module is alive, and nothing uses it.
                unsafe { (llvm.LLVMDisposeModule)(whole) };
            }
            return Err(problem);
        }
    }
    if whole.is_null() { Err("no bitcode".to_owned()) } else { Ok(whole) }
}

/// Returns the bitcode of a module.
///
/// # Safety
/// The module is alive and valid.
pub(crate) unsafe fn written(llvm: &Functions, module: ModuleRef) -> Vec<u8> {
    // SAFETY: promised by the caller; the buffer is given back.
    unsafe {
        let written = (llvm.LLVMWriteBitcodeToMemoryBuffer)(module);
        let start = (llvm.LLVMGetBufferStart)(written).cast::<u8>();
        let size = (llvm.LLVMGetBufferSize)(written);
        let bytes = std::slice::from_raw_parts(start, size).to_vec();
        (llvm.LLVMDisposeMemoryBuffer)(written);
        bytes
    }
}
