//! Unwind tables: the registration of the `.eh_frame` of linked code with the process's unwinder,
//! so that exceptions and backtraces pass through the code (ORC's `RegisterEHFrames`).

use std::ffi::{CStr, c_char, c_void};

use crate::actions::message;
use crate::frame_records;

unsafe extern "C" {
    fn __register_frame(frame: *const c_void);
    fn __deregister_frame(frame: *const c_void);
}

/// Returns the argument of the functions that register and deregister frames: the address of a
/// relocated `.eh_frame`, and its size in bytes including the zero word that ends it.
pub fn argument(address: u64, size: u64) -> Vec<u8> {
    [address.to_le_bytes(), size.to_le_bytes()].concat()
}

/// Registers frames with the unwinder of this process. Fails if the bytes are not a sequence of
/// records ended by a zero word. Any thread may call it.
///
/// # Safety
/// The argument must be made by [`argument`]. The bytes must be readable frames that the unwinder
/// accepts, and not change until they are deregistered.
pub(crate) unsafe extern "C" fn register(argument: *const u8, size: usize) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { for_each_frame_table(argument, size, __register_frame) }
}

/// Undoes [`register`].
///
/// # Safety
/// As for [`register`], with frames that were registered.
pub(crate) unsafe extern "C" fn deregister(argument: *const u8, size: usize) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { for_each_frame_table(argument, size, __deregister_frame) }
}

/// Calls `function` with the section for libgcc's unwinder, or with each frame description entry
/// for LLVM's. A section without descriptions is passed to neither.
///
/// # Safety
///
/// `argument` must be made by the function [`argument`], and its section readable.
unsafe fn for_each_frame_table(
    argument: *const u8,
    size: usize,
    function: unsafe extern "C" fn(*const c_void),
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    let argument = unsafe { std::slice::from_raw_parts(argument, size) };
    let Ok(words) = <[u8; 16]>::try_from(argument).map(u128::from_le_bytes) else {
        return message("the argument of an .eh_frame action is its address and its size");
    };
    let (section, size) = (words as u64 as *const u8, (words >> 64) as usize);
    // SAFETY: guaranteed by the caller.
    let content = unsafe { std::slice::from_raw_parts(section, size) };
    let mut count = 0;
    if let Err(problem) = frame_records::for_each_description(content, |_| count += 1) {
        return message(&problem);
    }
    // SAFETY: the section is a well-formed sequence of records with its end, and stays until it is
    // deregistered.
    let call = |offset: usize| unsafe { function(content[offset..].as_ptr().cast()) };
    if unwinder_is_llvms() {
        frame_records::for_each_description(content, call).expect("they have just been read");
    } else if count > 0 {
        call(0);
    }
    std::ptr::null_mut()
}

/// Returns whether this program's unwinder is LLVM's libunwind, whose `__register_frame` takes one
/// frame description entry. libgcc's function takes a section.
fn unwinder_is_llvms() -> bool {
    let image = |address: *const c_void| {
        // SAFETY: a zeroed value is valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable; the function accepts any address.
        (unsafe { libc::dladdr(address, &mut info) } != 0).then_some(info.dli_fbase)
    };
    let only_llvms: &CStr = c"__unw_add_dynamic_fde";
    // SAFETY: the name is a null-terminated string.
    let llvms = unsafe { libc::dlsym(libc::RTLD_DEFAULT, only_llvms.as_ptr()) };
    !llvms.is_null() && image(llvms) == image(__register_frame as *const c_void)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::actions::{self, ActionCall, ActionFunction, ActionPair};

    unsafe extern "C" {
        fn _Unwind_Find_FDE(pc: *const c_void, bases: *mut [*mut c_void; 3]) -> *const c_void;
    }

    /// Returns an `.eh_frame` with absolute pointers that describes the range.
    fn frame(start: u64, size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(12u32.to_le_bytes());
        // Common information: identifier, version, no augmentation, code and data alignment, return
        // address, padding.
        bytes.extend([0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0]);
        bytes.extend(20u32.to_le_bytes());
        bytes.extend(20u32.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes
    }

    /// Registers frames, runs a check, and deregisters them.
    fn registered(content: &[u8], check: impl FnOnce()) -> Result<()> {
        let argument = argument(content.as_ptr() as u64, content.len() as u64);
        // SAFETY: both are action functions, called with valid arguments. The bytes live until they
        // are deregistered.
        let call = |function: ActionFunction| unsafe {
            ActionCall::new(function as *const () as u64, argument.clone())
        };
        let actions =
            ActionPair { finalize: Some(call(register)), deallocate: Some(call(deregister)) };
        let undo = actions::finalize("frames", vec![actions])?;
        check();
        assert!(actions::deallocate("frames", &undo).is_empty());
        Ok(())
    }

    #[test]
    fn a_frame_is_found_while_it_is_registered() {
        let code = [0u8; 64];
        let frame = frame(code.as_ptr() as u64, 64);
        let found = || {
            let mut bases = [std::ptr::null_mut(); 3];
            // SAFETY: the function accepts any address; the bases are writable.
            unsafe { _Unwind_Find_FDE(code[32..].as_ptr().cast(), &mut bases) }
        };
        assert!(found().is_null());
        registered(&frame, || assert_eq!(found(), frame[16..].as_ptr().cast())).unwrap();
        assert!(found().is_null());
    }

    #[test]
    fn a_section_that_describes_nothing_is_fine() {
        let frame = frame(0, 0);
        for content in [&[0; 4][..], &[&frame[..16], &[0; 4]].concat()] {
            registered(content, || {}).unwrap();
        }
    }

    #[test]
    fn a_section_without_its_end_is_an_error() {
        let frame = frame(0, 1);
        for length in [0, 3, 16, 20, 39, 40, 43] {
            let problem = registered(&frame[..length], || {}).unwrap_err().to_string();
            assert!(problem.contains("is not within"), "{length}: {problem}");
        }
    }
}
