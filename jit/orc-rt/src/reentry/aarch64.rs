//! Re-entry on AArch64.
//!
//! All registers reach the function as the caller left them, not only argument registers.
//! Exceptions are the flags, and `x16` and `x17`, which any branch between two files may change.
//! GCC's `-fipa-ra` keeps values in registers across the call of a function whose known code does
//! not change them. The first-fault register of SVE and the registers of SME are not saved.

use std::arch::naked_asm;

pub(super) fn reenter_function() -> u64 {
    let function: extern "C" fn() = match std::arch::is_aarch64_feature_detected!("sve") {
        true => reenter_with_sve,
        false => reenter,
    };
    function as usize as u64
}

/// Saves the general registers, calls the hook, and jumps to the address that it returns. `save`
/// and `restore` use the bytes from `sp` up to the general registers, and may use `x16`.
macro_rules! reenter_saving {
    ($save:literal, $restore:literal) => {
        naked_asm!(
            ".cfi_startproc",
            // The caller's `x15` is on the stack.
            ".cfi_def_cfa_offset 16",
            // bti c
            "hint #34",
            "stp x29, x30, [sp, #-144]!",
            ".cfi_def_cfa_offset 160",
            ".cfi_offset x29, -160",
            ".cfi_offset x30, -152",
            "mov x29, sp",
            ".cfi_def_cfa_register x29",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "stp x8, x9, [sp, #80]",
            "stp x10, x11, [sp, #96]",
            "stp x12, x13, [sp, #112]",
            "stp x14, x18, [sp, #128]",
            $save,
            "mov x0, x15",
            "mov x1, x17",
            "ldr x16, [x15, #8]",
            "blr x16",
            "mov x17, x0",
            $restore,
            "mov x16, x17",
            "mov sp, x29",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldp x8, x9, [sp, #80]",
            "ldp x10, x11, [sp, #96]",
            "ldp x12, x13, [sp, #112]",
            "ldp x14, x18, [sp, #128]",
            ".cfi_def_cfa_register sp",
            "ldp x29, x30, [sp], #144",
            ".cfi_def_cfa_offset 16",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ldr x15, [sp], #16",
            ".cfi_def_cfa_offset 0",
            "br x16",
            ".cfi_endproc",
        )
    };
}

#[unsafe(naked)]
extern "C" fn reenter() {
    reenter_saving!(
        "sub sp, sp, #512
         stp q0, q1, [sp]
         stp q2, q3, [sp, #32]
         stp q4, q5, [sp, #64]
         stp q6, q7, [sp, #96]
         stp q8, q9, [sp, #128]
         stp q10, q11, [sp, #160]
         stp q12, q13, [sp, #192]
         stp q14, q15, [sp, #224]
         stp q16, q17, [sp, #256]
         stp q18, q19, [sp, #288]
         stp q20, q21, [sp, #320]
         stp q22, q23, [sp, #352]
         stp q24, q25, [sp, #384]
         stp q26, q27, [sp, #416]
         stp q28, q29, [sp, #448]
         stp q30, q31, [sp, #480]",
        "ldp q0, q1, [sp]
         ldp q2, q3, [sp, #32]
         ldp q4, q5, [sp, #64]
         ldp q6, q7, [sp, #96]
         ldp q8, q9, [sp, #128]
         ldp q10, q11, [sp, #160]
         ldp q12, q13, [sp, #192]
         ldp q14, q15, [sp, #224]
         ldp q16, q17, [sp, #256]
         ldp q18, q19, [sp, #288]
         ldp q20, q21, [sp, #320]
         ldp q22, q23, [sp, #352]
         ldp q24, q25, [sp, #384]
         ldp q26, q27, [sp, #416]
         ldp q28, q29, [sp, #448]
         ldp q30, q31, [sp, #480]"
    )
}

/// Saves 16 predicate registers, of an eighth of the size of a vector register, and 32 vector
/// registers.
#[unsafe(naked)]
extern "C" fn reenter_with_sve() {
    reenter_saving!(
        ".arch_extension sve
         addvl sp, sp, #-17
         addvl sp, sp, #-17
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
         str p\\n, [sp, #\\n, mul vl]
         .endr
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
         str z\\n, [sp, #(2 + \\n), mul vl]
         .endr",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
         ldr z\\n, [sp, #(2 + \\n), mul vl]
         .endr
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
         ldr p\\n, [sp, #\\n, mul vl]
         .endr
         .arch_extension nosve"
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{TRAMPOLINE_SIZE, TrampolineHeader};
    use super::*;

    /// The general registers that are not saved.
    pub(in super::super) const CHANGED: &[usize] = &[16, 17];

    /// Returns every re-entry function that this processor can execute, with `false`: each saves
    /// all registers.
    pub(in super::super) fn functions() -> Vec<(u64, bool)> {
        let mut functions = vec![reenter as *const () as u64];
        if std::arch::is_aarch64_feature_detected!("sve") {
            functions.push(reenter_with_sve as *const () as u64);
        }
        functions.into_iter().map(|function| (function, false)).collect()
    }

    /// Returns the code `str x15, [sp, #-16]!; ldr x15, header; ldr x17, trampoline; ldr x16,
    /// [x15]; br x16`, and a word of padding.
    pub(in super::super) fn arriving(header: &TrampolineHeader, index: u32) -> Vec<u8> {
        let trampoline = header.trampolines + u64::from(index) * TRAMPOLINE_SIZE;
        let code = [0xf81f_0fef_u32, 0x5800_00af, 0x5800_00d1, 0xf940_01f0, 0xd61f_0200, 0];
        let code = code.map(u32::to_le_bytes);
        let header = &raw const *header as u64;
        [code.as_flattened(), &header.to_le_bytes(), &trampoline.to_le_bytes()].concat()
    }
}
