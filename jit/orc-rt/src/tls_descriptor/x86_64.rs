//! The resolvers of x86-64.

use std::arch::naked_asm;

use super::offset_from_thread_pointer;
use crate::vector_state::{self, Saving, in_every_way};

/// Returns the address of the resolver for variables whose offset is not fixed: the resolver that
/// saves this processor's vector state.
pub(super) fn dynamic_resolver() -> u64 {
    resolver(vector_state::find())
}

fn resolver(saving: Saving) -> u64 {
    saving.choose([
        resolve_dynamic_with_fxsave,
        resolve_dynamic_with_xsave,
        resolve_dynamic_with_xsavec,
    ])
}

#[unsafe(naked)]
pub(super) extern "C" fn resolve_static() {
    naked_asm!("mov rax, [rax + 8]", "ret")
}

in_every_way!(
    resolve_dynamic_saving: resolve_dynamic_with_fxsave, resolve_dynamic_with_xsave, resolve_dynamic_with_xsavec
);

/// Saves the registers that a function may change, and calls [`offset_from_thread_pointer`]. `save`
/// and `restore` find enough bytes at `rsp`, aligned to 64 bytes, the mask of states in `eax`, and
/// zero in `rdx`.
macro_rules! resolve_dynamic_saving {
    ($save:literal, $restore:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset rbp, -16",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "mov rdi, [rax + 8]",
            "sub rsp, [rip + {size}]",
            "and rsp, -64",
            "mov eax, [rip + {mask}]",
            "xor edx, edx",
            $save,
            "call {offset}",
            "mov r11, rax",
            "mov eax, [rip + {mask}]",
            "xor edx, edx",
            $restore,
            "mov rax, r11",
            "lea rsp, [rbp - 64]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rbp",
            ".cfi_def_cfa rsp, 8",
            "ret",
            ".cfi_endproc",
            offset = sym offset_from_thread_pointer,
            size = sym vector_state::SIZE,
            mask = sym vector_state::MASK,
        )
    };
}
use resolve_dynamic_saving;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns every resolver that this processor can execute, and whether it saves no more than
    /// `fxsave` does.
    pub(in super::super) fn dynamic_resolvers() -> Vec<(u64, bool)> {
        Saving::available().map(|way| (resolver(way), way == Saving::Legacy)).collect()
    }
}
