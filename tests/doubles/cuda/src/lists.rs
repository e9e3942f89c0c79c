//! Constructors and destructors, as LLVM lowers them: kernels that call the functions between two
//! addresses.
//!
//! The compiler generates these kernels, so they have no twins, and the double does their work as
//! in LLVM 19. The kernel for destructors of that version calls nothing if its last function is at
//! the start address.

use longshore_double_gpu::driver::memory::word;
use longshore_double_gpu::driver::module::Module;
use longshore_double_gpu::protocol::{Fault, FaultKind, Request};

/// Limit for the number of functions; a longer list is invalid.
const MOST_FUNCTIONS: usize = 1 << 16;
const POINTER_BYTES: u64 = 8;

/// The functions that one of the kernels calls.
#[derive(Clone, Copy)]
pub(crate) struct Lists {
    start: &'static str,
    end: &'static str,
    is_backwards: bool,
}

impl Lists {
    /// Returns the list of functions that a module's kernel calls, if it is such a kernel.
    pub(crate) fn for_kernel(module: &Module, kernel: &str) -> Option<Lists> {
        let (start, end, is_backwards) = match kernel {
            "nvptx$device$init" => ("__init_array_start", "__init_array_end", false),
            "nvptx$device$fini" => ("__fini_array_start", "__fini_array_end", true),
            _ => return None,
        };
        module.address_of(start).map(|_| Lists { start, end, is_backwards })
    }

    /// Returns the request to the GPU process in the kernel's place, if the kernel calls a
    /// function.
    ///
    /// # Errors
    /// An address outside all memory that the kernel would read.
    pub(crate) fn request(self, module: &Module) -> Result<Option<Request>, Fault> {
        let functions = self.functions(module)?;
        if functions.is_empty() {
            return Ok(None);
        }
        Ok(Some(Request::Call { module: module.number, functions }))
    }

    /// Returns the functions in the order of the kernel's calls.
    fn functions(self, module: &Module) -> Result<Vec<u64>, Fault> {
        let bound = |name| word(module.address_of(name).ok_or_else(|| stray(0))?);
        let (start, end) = (bound(self.start)?, bound(self.end)?);
        let mut functions = Vec::new();
        let mut at = if self.is_backwards { end.wrapping_sub(POINTER_BYTES) } else { start };
        let calls_none = if self.is_backwards { end == 0 || at <= start } else { start == end };
        if calls_none {
            return Ok(functions);
        }
        loop {
            functions.push(word(at)?);
            at = match self.is_backwards {
                true => at.wrapping_sub(POINTER_BYTES),
                false => at.wrapping_add(POINTER_BYTES),
            };
            let is_done = if self.is_backwards { at < start } else { at == end };
            if is_done {
                return Ok(functions);
            }
            if functions.len() > MOST_FUNCTIONS {
                return Err(stray(at));
            }
        }
    }
}

fn stray(address: u64) -> Fault {
    let message = format!("a kernel reads {address:#x}, where nothing is allocated");
    Fault { kind: FaultKind::Address, message }
}
