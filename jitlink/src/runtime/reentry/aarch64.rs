//! Re-entry on AArch64.
//!
//! Arguments are in `x0` to `x7`, in `v0` to `v7` and on the stack; `x8` is where a structure is returned. The conventions for
//! vectors have more: functions with 128-bit vectors in them keep `v8` to `v23` for their callers, those with scalable ones
//! get arguments in `z0` to `z7` and `p0` to `p3`, and keep `z8` to `z23` and `p4` to `p15`. All of that is kept here,
//! since a trampoline does not know what it stands in for. The registers of SME are not.

use std::arch::naked_asm;

pub(super) fn reenter_function() -> u64 {
    let function: extern "C" fn() = match std::arch::is_aarch64_feature_detected!("sve") {
        true => reenter_with_sve,
        false => reenter,
    };
    function as usize as u64
}

/// Keeps the general registers that may hold arguments, calls the hook, and goes on at what it returns. `save` and `restore`
/// have the bytes from `sp` up to the general registers, and may use `x16`.
macro_rules! reenter_saving {
    ($save:literal, $restore:literal) => {
        naked_asm!(
            ".cfi_startproc",
            // bti c
            "hint #34",
            "stp x29, x30, [sp, #-96]!",
            ".cfi_def_cfa_offset 96",
            ".cfi_offset x29, -96",
            ".cfi_offset x30, -88",
            "mov x29, sp",
            ".cfi_def_cfa_register x29",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
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
            "ldr x8, [sp, #80]",
            ".cfi_def_cfa_register sp",
            "ldp x29, x30, [sp], #96",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "br x16",
            ".cfi_endproc",
        )
    };
}

#[unsafe(naked)]
extern "C" fn reenter() {
    reenter_saving!(
        "sub sp, sp, #384
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
         stp q22, q23, [sp, #352]",
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
         ldp q22, q23, [sp, #352]"
    )
}

/// 24 vector registers, and 16 predicates of an eighth of their size.
#[unsafe(naked)]
extern "C" fn reenter_with_sve() {
    reenter_saving!(
        ".arch_extension sve
         addvl sp, sp, #-26
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
         str z\\n, [sp, #\\n, mul vl]
         .endr
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
         str p\\n, [sp, #(192 + \\n), mul vl]
         .endr",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
         ldr z\\n, [sp, #\\n, mul vl]
         .endr
         .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
         ldr p\\n, [sp, #(192 + \\n), mul vl]
         .endr
         .arch_extension nosve"
    )
}

#[cfg(test)]
pub(super) mod tests {
    /// The address of every form of the code that this processor can execute.
    pub(in super::super) fn all() -> Vec<u64> {
        let mut all = vec![super::reenter as *const () as u64];
        if std::arch::is_aarch64_feature_detected!("sve") {
            all.push(super::reenter_with_sve as *const () as u64);
        }
        all
    }
}
