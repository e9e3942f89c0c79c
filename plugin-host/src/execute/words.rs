//! Launches whose kernel takes each argument as a C parameter of 64 bits.

use super::{Engine, Launch};
use crate::guard::Guard;
use crate::kernel::Code;
use crate::kernel::abi::{GroupEntry, HostEntry, Work};
use longshore_plugin_api::{Arguments, Error, ErrorCode, Result};
use std::arch::naked_asm;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Most arguments of such a launch. All of them take 128 KiB of the stack.
pub(crate) const MOST_WORDS: usize = 8192;
/// Number of words at an argument list's address that are readable at least: the trampoline loads
/// all registers for arguments.
pub(crate) const LEAST_WORDS: usize = 8;
const WORD_BYTES: usize = size_of::<u64>();
/// Number of words for which a launch takes little of the stack.
const USUAL_WORDS: usize = 64;

/// Arguments as words.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Pointer to the words, of which at least [`LEAST_WORDS`] are readable.
    first: *const u64,
    count: usize,
}

impl Words {
    /// Creates a list of `count` words.
    ///
    /// # Safety
    /// `first` is readable for `count` words, and for at least [`LEAST_WORDS`], until the launch
    /// that takes the list is over.
    pub(crate) unsafe fn new(first: *const u64, count: usize) -> Words {
        Words { first, count }
    }

    /// Calls `body` with checked arguments as words. Allocates nothing.
    #[inline]
    pub(crate) fn with<T>(arguments: Arguments<'_>, body: impl FnOnce(Words) -> T) -> T {
        match arguments.len() {
            0..=USUAL_WORDS => Words::on_stack::<USUAL_WORDS, T>(arguments, body),
            _ => Words::on_large_stack(arguments, body),
        }
    }

    #[cold]
    #[inline(never)]
    fn on_large_stack<T>(arguments: Arguments<'_>, body: impl FnOnce(Words) -> T) -> T {
        Words::on_stack::<MOST_WORDS, T>(arguments, body)
    }

    #[inline]
    fn on_stack<const MOST: usize, T>(
        arguments: Arguments<'_>,
        body: impl FnOnce(Words) -> T,
    ) -> T {
        let mut words = [MaybeUninit::<u64>::uninit(); MOST];
        words[..LEAST_WORDS].fill(MaybeUninit::new(0));
        for (word, value) in words.iter_mut().zip(arguments.values()) {
            word.write(word_of(value));
        }
        // SAFETY: the values and the first words are written, and live until `body` returns.
        body(unsafe { Words::new(words.as_ptr().cast(), arguments.len()) })
    }
}

/// Returns an argument as a word.
#[inline]
pub(crate) fn word_of(value: &[u8]) -> u64 {
    if let Ok(word) = value.try_into() {
        return u64::from_le_bytes(word);
    }
    let mut word = [0; WORD_BYTES];
    let bytes = value.len().min(WORD_BYTES);
    word[..bytes].copy_from_slice(&value[..bytes]);
    u64::from_le_bytes(word)
}

/// Checks that arguments can be passed as words.
///
/// # Errors
/// `InvalidArgument` for an argument of more than 8 bytes, and for more than [`MOST_WORDS`].
pub(crate) fn check(arguments: Arguments<'_>) -> Result<()> {
    let count = arguments.len();
    let what = if count > MOST_WORDS {
        format!("{count} arguments as words, expected at most {MOST_WORDS}")
    } else if let Some(index) = arguments.values().position(|value| value.len() > WORD_BYTES) {
        let bytes = arguments.values().nth(index).map_or(0, <[u8]>::len);
        format!("argument {index} has {bytes} bytes, expected at most {WORD_BYTES} for a word")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorCode::InvalidArgument, what))
}

/// A call of a kernel with words, as [`pass_words`] reads it.
#[repr(C)]
struct WordCall {
    kernel: HostEntry,
    count: usize,
}

impl Engine {
    /// Runs a launch whose kernel takes words, to its end. Blocks.
    ///
    /// # Errors
    /// `BackendFailure` if the kernel faults. `Unsupported` for a work-group kernel.
    ///
    /// # Safety
    /// The kernel may be run with these arguments.
    #[inline]
    pub(crate) unsafe fn run_words(&self, launch: &Launch, words: Words) -> Result<()> {
        // SAFETY: the creator of a launch keeps its kernel alive until the launch is done.
        let kernel = unsafe { launch.kernel.as_ref() };
        let Code::Host(entry) = kernel.code else { return Err(work_group_form(&kernel.name)) };
        let mut call = WordCall { kernel: entry, count: words.count };
        let work = (&raw mut call).cast::<Work>();
        // SAFETY: the trampoline takes words and a call of this type, which outlive it; the caller
        // vouches for the kernel.
        let result = unsafe {
            let first = words.first.cast::<*const c_void>();
            Guard::for_thread().call_through(PASS_WORDS, entry as usize, first, work)
        };
        result.map_err(|stop| self.describe_host(kernel, stop))
    }
}

/// Creates the error for a work-group kernel, which takes pointers.
#[cold]
pub(crate) fn work_group_form(kernel: &str) -> Error {
    let message = format!(
        "kernel '{kernel}' has the work-group form, expected a function of C for arguments as words"
    );
    Error::new(ErrorCode::Unsupported, message)
}

const PASS_WORDS: GroupEntry = pass_words;

/// Calls the kernel of the [`WordCall`] at `call` with words in the calling convention of C.
///
/// # Safety
/// `words` and `call` come from [`Engine::run_words`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn pass_words(words: *const *const c_void, call: *mut Work) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rdi",
        "mov r10, [rsi]",
        "mov r11, [rsi + 8]",
        // Six words are in registers; the others go to the stack, the last one first. The stack is
        // aligned to 16 bytes at the call, so an odd number of words gets a gap.
        "sub r11, 6",
        "jbe 3f",
        "test r11b, 1",
        "jz 2f",
        "push 0",
        "2:",
        "push qword ptr [rax + 8*r11 + 40]",
        "dec r11",
        "jnz 2b",
        "3:",
        "mov rdi, [rax]",
        "mov rsi, [rax + 8]",
        "mov rdx, [rax + 16]",
        "mov rcx, [rax + 24]",
        "mov r8, [rax + 32]",
        "mov r9, [rax + 40]",
        // Number of vector registers with arguments of a variadic function.
        "xor eax, eax",
        "call r10",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls the kernel of the [`WordCall`] at `call` with words in the calling convention of C.
///
/// # Safety
/// `words` and `call` come from [`Engine::run_words`].
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn pass_words(words: *const *const c_void, call: *mut Work) {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa x29, 16",
        "mov x9, x0",
        "ldp x10, x11, [x1]",
        // Eight words are in registers; the others go to the stack in pairs, the last one first.
        "add x12, x9, x11, lsl #3",
        "subs x11, x11, #8",
        "b.ls 3f",
        "tbz x11, #0, 2f",
        "ldr x13, [x12, #-8]!",
        "stp x13, xzr, [sp, #-16]!",
        "sub x11, x11, #1",
        "cbz x11, 3f",
        "2:",
        "ldp x13, x14, [x12, #-16]!",
        "stp x13, x14, [sp, #-16]!",
        "subs x11, x11, #2",
        "b.ne 2b",
        "3:",
        "ldp x0, x1, [x9]",
        "ldp x2, x3, [x9, #16]",
        "ldp x4, x5, [x9, #32]",
        "ldp x6, x7, [x9, #48]",
        "blr x10",
        "mov sp, x29",
        ".cfi_def_cfa sp, 16",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests;
