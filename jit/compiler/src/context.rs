//! A context of LLVM for one compilation, and the module in it.

use std::ffi::{CStr, CString, c_char, c_void};

use longshore_llvm::Functions;
use longshore_llvm::types::{
    ContextRef, DiagnosticRef, ErrorRef, MemoryBufferRef, ModuleRef, RETURN_STATUS, SEVERITY_ERROR,
    SEVERITY_WARNING, ValueRef,
};

use crate::CompileError;
use crate::producer::is_bitcode;

/// A context, with the messages about its module.
pub(crate) struct Context<'a> {
    pub(crate) functions: &'a Functions,
    pub(crate) context: ContextRef,
    messages: Box<Messages<'a>>,
}

/// A module in a context.
pub(crate) struct LoadedModule<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) module: ModuleRef,
}

struct Messages<'a> {
    functions: &'a Functions,
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Greatest number of kept messages of each kind.
const MOST_MESSAGES: usize = 100;
/// Greatest number of bytes of an error's messages.
const MOST_BYTES: usize = 16 << 10;

impl<'a> Context<'a> {
    pub(crate) fn new(functions: &'a Functions) -> Self {
        let mut messages =
            Box::new(Messages { functions, errors: Vec::new(), warnings: Vec::new() });
        // SAFETY: the context uses the messages until it is disposed of, in `drop`, and only
        // during calls of its functions, on the calling thread.
        let context = unsafe {
            let context = (functions.LLVMContextCreate)();
            let to: *mut Messages<'a> = &raw mut *messages;
            (functions.LLVMContextSetDiagnosticHandler)(context, Some(on_message), to.cast());
            context
        };
        Self { functions, context, messages }
    }

    /// Parses bitcode or text. `lazily`: functions' bodies in bitcode are read when they are
    /// needed.
    pub(crate) fn parse<'b>(
        &'b self,
        bytes: &'b [u8],
        lazily: bool,
    ) -> Result<LoadedModule<'b>, CompileError> {
        let functions = self.functions;
        let mut module = ModuleRef::NULL;
        let mut text = std::ptr::null_mut();
        // SAFETY: the buffer refers to the bytes, which live longer than the module. Reading text
        // and reading lazily take the buffer over.
        let failed = unsafe {
            if !is_bitcode(bytes) {
                let buffer = (functions.LLVMCreateMemoryBufferWithMemoryRangeCopy)(
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    c"module".as_ptr(),
                );
                (functions.LLVMParseIRInContext)(self.context, buffer, &mut module, &mut text)
            } else {
                let buffer = (functions.LLVMCreateMemoryBufferWithMemoryRange)(
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    c"module".as_ptr(),
                    0,
                );
                if lazily {
                    (functions.LLVMGetBitcodeModuleInContext2)(self.context, buffer, &mut module)
                } else {
                    let failed =
                        (functions.LLVMParseBitcodeInContext2)(self.context, buffer, &mut module);
                    (functions.LLVMDisposeMemoryBuffer)(buffer);
                    failed
                }
            }
        };
        if failed != 0 || module.is_null() {
            // SAFETY: LLVM's text, or null.
            let text = unsafe { self.take_text(text) };
            let problem = match is_bitcode(bytes) {
                true => "the bitcode is damaged",
                false => "the module's text cannot be parsed",
            };
            return Err(CompileError::Malformed(self.explain(problem, text)));
        }
        Ok(LoadedModule { context: self, module })
    }

    /// Returns an error with LLVM's messages, if it has reported an error.
    pub(crate) fn check(&self, problem: &str) -> Result<(), CompileError> {
        if self.messages.errors.is_empty() {
            return Ok(());
        }
        Err(CompileError::Failed(self.explain(problem, None)))
    }

    /// Returns a message with LLVM's own messages.
    pub(crate) fn explain(&self, problem: &str, text: Option<String>) -> String {
        let mut lines = vec![];
        lines.extend(text.filter(|text| !text.trim().is_empty()));
        lines.extend(self.messages.errors.iter().cloned());
        match lines.is_empty() {
            true => format!("{problem}, and LLVM gives no reason"),
            false => {
                let said = lines.join("\n");
                let said = said.trim_end();
                let end = said.floor_char_boundary(MOST_BYTES);
                format!("{problem}: {}", &said[..end])
            }
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.messages.warnings.clone()
    }

    /// Takes a text of LLVM's over; `None` for null.
    ///
    /// # Safety
    /// The text is LLVM's, and not disposed of yet.
    pub(crate) unsafe fn take_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for the text, which ends with zero.
        unsafe {
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.functions.LLVMDisposeMessage)(text);
            Some(owned)
        }
    }

    /// Takes an error of LLVM's over.
    ///
    /// # Safety
    /// The error is LLVM's, not null, and not consumed yet.
    pub(crate) unsafe fn take_error(&self, error: ErrorRef) -> String {
        // SAFETY: the caller vouches for the error.
        unsafe {
            let text = (self.functions.LLVMGetErrorMessage)(error);
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.functions.LLVMDisposeErrorMessage)(text);
            owned
        }
    }

    /// Takes the bytes of a buffer over.
    ///
    /// # Safety
    /// The buffer is LLVM's, and not disposed of yet.
    pub(crate) unsafe fn take_buffer(&self, buffer: MemoryBufferRef) -> Vec<u8> {
        // SAFETY: the caller vouches for the buffer.
        unsafe {
            let start = (self.functions.LLVMGetBufferStart)(buffer);
            let size = (self.functions.LLVMGetBufferSize)(buffer);
            let bytes = match size {
                0 => Vec::new(),
                _ => std::slice::from_raw_parts(start.cast::<u8>(), size).to_vec(),
            };
            (self.functions.LLVMDisposeMemoryBuffer)(buffer);
            bytes
        }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: no module of the context remains, since each borrows it.
        unsafe { (self.functions.LLVMContextDispose)(self.context) };
    }
}

impl LoadedModule<'_> {
    pub(crate) fn functions(&self) -> &Functions {
        self.context.functions
    }

    /// Returns the target triple; empty for none.
    pub(crate) fn triple(&self) -> String {
        // SAFETY: the text belongs to the module.
        unsafe { text((self.functions().LLVMGetTarget)(self.module)) }
    }

    /// Returns the data layout; empty for none.
    pub(crate) fn layout(&self) -> String {
        // SAFETY: the text belongs to the module.
        unsafe { text((self.functions().LLVMGetDataLayoutStr)(self.module)) }
    }

    pub(crate) fn set_triple(&self, triple: &str) {
        let triple = c_string(triple);
        // SAFETY: LLVM copies the text.
        unsafe { (self.functions().LLVMSetTarget)(self.module, triple.as_ptr()) };
    }

    /// Checks the module by LLVM's verifier.
    pub(crate) fn verify(&self, problem: &str) -> Result<(), CompileError> {
        let mut text = std::ptr::null_mut();
        // SAFETY: the module is live, and the text is LLVM's.
        let (failed, text) = unsafe {
            let failed = (self.functions().LLVMVerifyModule)(self.module, RETURN_STATUS, &mut text);
            (failed, self.context.take_text(text))
        };
        match failed {
            0 => Ok(()),
            _ => Err(CompileError::Malformed(self.context.explain(problem, text))),
        }
    }

    /// Returns the module as LLVM's assembly text.
    pub(crate) fn to_text(&self) -> String {
        // SAFETY: the module is live, and the text is LLVM's.
        let text = unsafe {
            self.context.take_text((self.functions().LLVMPrintModuleToString)(self.module))
        };
        text.unwrap_or_default()
    }

    /// Returns the module as bitcode.
    pub(crate) fn to_bitcode(&self) -> Vec<u8> {
        // SAFETY: the module is live, and the buffer is LLVM's.
        unsafe {
            let buffer = (self.functions().LLVMWriteBitcodeToMemoryBuffer)(self.module);
            self.context.take_buffer(buffer)
        }
    }
}

impl LoadedModule<'_> {
    /// Returns the functions that the module defines.
    pub(crate) fn defined_functions(&self) -> impl Iterator<Item = ValueRef> + '_ {
        let table = self.functions();
        // SAFETY: the module is live, and no function is removed during the iteration.
        let first = unsafe { (table.LLVMGetFirstFunction)(self.module) }.present();
        let all = std::iter::successors(first, |function| {
            // SAFETY: as above.
            unsafe { (table.LLVMGetNextFunction)(*function) }.present()
        });
        // SAFETY: as above.
        all.filter(|function| unsafe { (table.LLVMIsDeclaration)(*function) } == 0)
    }

    /// Returns the name of a value of the module.
    pub(crate) fn name_of(&self, value: ValueRef) -> &[u8] {
        let mut size = 0;
        // SAFETY: the value belongs to the live module, and LLVM returns the name with its length.
        unsafe {
            let name = (self.functions().LLVMGetValueName2)(value, &mut size);
            if size == 0 { &[] } else { std::slice::from_raw_parts(name.cast(), size) }
        }
    }
}

impl Drop for LoadedModule<'_> {
    fn drop(&mut self) {
        // SAFETY: the module is ours, and the context is still there.
        unsafe { (self.functions().LLVMDisposeModule)(self.module) };
    }
}

/// Returns a text with a zero at its end. A text with a zero inside is cut there.
pub(crate) fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).expect("it has no zero")
}

/// Copies a text; empty for null.
///
/// # Safety
/// The text ends with zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn on_message(message: DiagnosticRef, to: *mut c_void) {
    // SAFETY: the context was given the messages, which live as long as the context. No other
    // reference to them is in use during a call of LLVM's functions.
    let messages = unsafe { &mut *to.cast::<Messages<'_>>() };
    // SAFETY: the message is LLVM's.
    let (severity, text) = unsafe {
        let text = (messages.functions.LLVMGetDiagInfoDescription)(message);
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        (messages.functions.LLVMDisposeMessage)(text);
        ((messages.functions.LLVMGetDiagInfoSeverity)(message), owned)
    };
    let list = match severity {
        SEVERITY_ERROR => &mut messages.errors,
        SEVERITY_WARNING => &mut messages.warnings,
        _ => return,
    };
    if list.len() < MOST_MESSAGES {
        list.push(text);
    }
}
