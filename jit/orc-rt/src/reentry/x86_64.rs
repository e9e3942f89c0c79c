//! Re-entry on x86-64, for the System V calling convention.
//!
//! All registers except the flags reach the function as the caller left them, not only argument
//! registers. GCC's `-fipa-ra` keeps values in `r10`, `r11` and the upper vector registers across
//! the call of a function whose known code does not change them. The x87 stack and the tiles are
//! not saved: compilers spill them at every call.

use std::arch::naked_asm;
use std::mem::offset_of;

use super::{TRAMPOLINE_SIZE, TrampolineHeader};
use crate::vector_state::{self, Saving, in_every_way};

pub(super) fn reenter_function() -> u64 {
    function(vector_state::find())
}

fn function(saving: Saving) -> u64 {
    saving.choose([reenter_with_fxsave, reenter_with_xsave, reenter_with_xsavec])
}

in_every_way!(reenter_saving: reenter_with_fxsave, reenter_with_xsave, reenter_with_xsavec);

/// Saves the registers, calls the hook, and jumps to the address that it returns. [`in_every_way`]
/// describes `save` and `restore`.
macro_rules! reenter_saving {
    ($save:literal, $restore:literal) => {
        naked_asm!(
            ".cfi_startproc",
            // The number of the trampoline and the caller's `r11` were pushed after the return
            // address.
            ".cfi_def_cfa_offset 24",
            "push rbp",
            ".cfi_def_cfa_offset 32",
            ".cfi_offset rbp, -32",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "push rax",
            "push r10",
            "sub rsp, [rip + {size}]",
            "and rsp, -64",
            "mov eax, [rip + {mask}]",
            "xor edx, edx",
            $save,
            "mov rdi, r11",
            "mov esi, [rbp + 16]",
            "shl rsi, {shift}",
            "add rsi, [r11 + {trampolines}]",
            "call [r11 + {hook}]",
            "mov [rbp + 16], rax",
            "mov eax, [rip + {mask}]",
            "xor edx, edx",
            $restore,
            "lea rsp, [rbp - 64]",
            "pop r10",
            "pop rax",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "pop rbp",
            ".cfi_def_cfa rsp, 24",
            ".cfi_restore rbp",
            "pop r11",
            ".cfi_def_cfa_offset 16",
            "lea rsp, [rsp + 8]",
            ".cfi_def_cfa_offset 8",
            // No register is left for the address. Signal handlers do not use the 128 bytes below
            // the stack pointer.
            "jmp [rsp - 8]",
            ".cfi_endproc",
            shift = const TRAMPOLINE_SIZE.trailing_zeros(),
            trampolines = const offset_of!(TrampolineHeader, trampolines),
            hook = const offset_of!(TrampolineHeader, hook),
            size = sym vector_state::SIZE,
            mask = sym vector_state::MASK,
        )
    };
}

use reenter_saving;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The general registers that are not saved: none.
    pub(in super::super) const CHANGED: &[usize] = &[];

    /// Returns every re-entry function that this processor can execute, and whether it saves no
    /// more than `fxsave` does.
    pub(in super::super) fn functions() -> Vec<(u64, bool)> {
        Saving::available().map(|way| (function(way), way == Saving::Legacy)).collect()
    }

    /// Returns the code `push $index; push %r11; movabs header, %r11; jmp *(%r11)`.
    pub(in super::super) fn arriving(header: &TrampolineHeader, index: u32) -> Vec<u8> {
        let (header, index) = ((&raw const *header as u64).to_le_bytes(), index.to_le_bytes());
        [&b"\x68"[..], &index, b"\x41\x53\x49\xbb", &header, b"\x41\xff\x23"].concat()
    }
}
