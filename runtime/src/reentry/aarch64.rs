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
    use std::arch::asm;

    use super::super::tests::Registers;
    use super::*;

    /// How many of [`Registers`] there are.
    pub(in super::super) const GENERAL: usize = 9;
    pub(in super::super) const VECTORS: usize = 24;

    /// Every form of the code that this processor can execute, and how many bytes of a vector register are compared.
    pub(in super::super) fn forms() -> Vec<(u64, usize)> {
        let mut forms = vec![reenter as *const () as u64];
        if std::arch::is_aarch64_feature_detected!("sve") {
            forms.push(reenter_with_sve as *const () as u64);
        }
        forms.into_iter().map(|form| (form, 16)).collect()
    }

    /// `ldr x15, header; ldr x17, trampoline; ldr x16, [x15]; br x16`
    pub(in super::super) fn arriving(header: u64, trampoline: u64) -> Vec<u8> {
        let code = [0x5800_008f_u32, 0x5800_00b1, 0xf940_01f0, 0xd61f_0200].map(u32::to_le_bytes);
        [code.as_flattened(), &header.to_le_bytes(), &trampoline.to_le_bytes()].concat()
    }

    /// Where the registers are written that arrive.
    pub(in super::super) fn recorder() -> u64 {
        record as *const () as u64
    }

    /// Leaves nothing in the vector registers.
    pub(in super::super) fn clobber_vectors() {
        // SAFETY: the registers are said to be changed.
        unsafe {
            asm!(
                ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
                 movi v\\n\\().16b, #255
                 .endr",
                out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _,
                out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            );
        }
    }

    /// Loads all registers from `before`, calls the code, and has what arrives there written to `after`.
    ///
    /// # Safety
    /// The code must go on at [`recorder`].
    #[unsafe(naked)]
    pub(in super::super) unsafe extern "C" fn call(
        code: u64,
        before: &Registers,
        after: &mut Registers,
    ) {
        naked_asm!(
            "stp x29, x30, [sp, #-96]!",
            "stp x19, x20, [sp, #16]",
            "stp d8, d9, [sp, #32]",
            "stp d10, d11, [sp, #48]",
            "stp d12, d13, [sp, #64]",
            "stp d14, d15, [sp, #80]",
            "mov x19, x2",
            "mov x20, x0",
            "mov x16, x1",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
             ldr q\\n, [x16, #(128 + 64 * \\n)]
             .endr
             .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8
             ldr x\\n, [x16, #(8 * \\n)]
             .endr",
            "blr x20",
            "ldp d8, d9, [sp, #32]",
            "ldp d10, d11, [sp, #48]",
            "ldp d12, d13, [sp, #64]",
            "ldp d14, d15, [sp, #80]",
            "ldp x19, x20, [sp, #16]",
            "ldp x29, x30, [sp], #96",
            "ret",
        )
    }

    #[unsafe(naked)]
    extern "C" fn record() {
        naked_asm!(
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23
             str q\\n, [x19, #(128 + 64 * \\n)]
             .endr
             .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8
             str x\\n, [x19, #(8 * \\n)]
             .endr",
            "ret",
        )
    }
}
