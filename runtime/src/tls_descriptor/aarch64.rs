//! The resolvers of AArch64.

use std::arch::naked_asm;

use super::offset_from_thread_pointer;

/// The address of the resolver for variables whose offset is not fixed.
pub(super) fn dynamic_resolver() -> u64 {
    resolve_dynamic as *const () as u64
}

#[unsafe(naked)]
pub(super) extern "C" fn resolve_static() {
    naked_asm!("ldr x0, [x0, #8]", "ret")
}

#[unsafe(naked)]
extern "C" fn resolve_dynamic() {
    naked_asm!(
        ".cfi_startproc",
        "sub sp, sp, #672",
        ".cfi_def_cfa_offset 672",
        "stp x29, x30, [sp]",
        ".cfi_offset x29, -672",
        ".cfi_offset x30, -664",
        "mov x29, sp",
        "stp x1, x2, [sp, #16]",
        "stp x3, x4, [sp, #32]",
        "stp x5, x6, [sp, #48]",
        "stp x7, x8, [sp, #64]",
        "stp x9, x10, [sp, #80]",
        "stp x11, x12, [sp, #96]",
        "stp x13, x14, [sp, #112]",
        "stp x15, x16, [sp, #128]",
        "stp x17, x18, [sp, #144]",
        "stp q0, q1, [sp, #160]",
        "stp q2, q3, [sp, #192]",
        "stp q4, q5, [sp, #224]",
        "stp q6, q7, [sp, #256]",
        "stp q8, q9, [sp, #288]",
        "stp q10, q11, [sp, #320]",
        "stp q12, q13, [sp, #352]",
        "stp q14, q15, [sp, #384]",
        "stp q16, q17, [sp, #416]",
        "stp q18, q19, [sp, #448]",
        "stp q20, q21, [sp, #480]",
        "stp q22, q23, [sp, #512]",
        "stp q24, q25, [sp, #544]",
        "stp q26, q27, [sp, #576]",
        "stp q28, q29, [sp, #608]",
        "stp q30, q31, [sp, #640]",
        "ldr x0, [x0, #8]",
        "bl {offset}",
        "ldp x1, x2, [sp, #16]",
        "ldp x3, x4, [sp, #32]",
        "ldp x5, x6, [sp, #48]",
        "ldp x7, x8, [sp, #64]",
        "ldp x9, x10, [sp, #80]",
        "ldp x11, x12, [sp, #96]",
        "ldp x13, x14, [sp, #112]",
        "ldp x15, x16, [sp, #128]",
        "ldp x17, x18, [sp, #144]",
        "ldp q0, q1, [sp, #160]",
        "ldp q2, q3, [sp, #192]",
        "ldp q4, q5, [sp, #224]",
        "ldp q6, q7, [sp, #256]",
        "ldp q8, q9, [sp, #288]",
        "ldp q10, q11, [sp, #320]",
        "ldp q12, q13, [sp, #352]",
        "ldp q14, q15, [sp, #384]",
        "ldp q16, q17, [sp, #416]",
        "ldp q18, q19, [sp, #448]",
        "ldp q20, q21, [sp, #480]",
        "ldp q22, q23, [sp, #512]",
        "ldp q24, q25, [sp, #544]",
        "ldp q26, q27, [sp, #576]",
        "ldp q28, q29, [sp, #608]",
        "ldp q30, q31, [sp, #640]",
        "ldp x29, x30, [sp]",
        "add sp, sp, #672",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        offset = sym offset_from_thread_pointer,
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::Registers;
    use super::*;

    pub(in super::super) fn dynamic_resolvers() -> Vec<u64> {
        vec![dynamic_resolver()]
    }

    #[unsafe(naked)]
    unsafe extern "C" fn call(
        descriptor: &[u64; 2],
        before: &Registers,
        after: &mut Registers,
    ) -> u64 {
        naked_asm!(
            "stp x29, x30, [sp, #-176]!",
            "stp x19, x20, [sp, #16]",
            "stp x21, x22, [sp, #32]",
            "stp x23, x24, [sp, #48]",
            "stp x25, x26, [sp, #64]",
            "stp x27, x28, [sp, #80]",
            "stp d8, d9, [sp, #96]",
            "stp d10, d11, [sp, #112]",
            "stp d12, d13, [sp, #128]",
            "stp d14, d15, [sp, #144]",
            "str x2, [sp, #160]",
            "add x30, x1, #256",
            "ld1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [x30], #64",
            "ld1 {{v4.2d, v5.2d, v6.2d, v7.2d}}, [x30], #64",
            "ld1 {{v8.2d, v9.2d, v10.2d, v11.2d}}, [x30], #64",
            "ld1 {{v12.2d, v13.2d, v14.2d, v15.2d}}, [x30], #64",
            "ld1 {{v16.2d, v17.2d, v18.2d, v19.2d}}, [x30], #64",
            "ld1 {{v20.2d, v21.2d, v22.2d, v23.2d}}, [x30], #64",
            "ld1 {{v24.2d, v25.2d, v26.2d, v27.2d}}, [x30], #64",
            "ld1 {{v28.2d, v29.2d, v30.2d, v31.2d}}, [x30], #64",
            "mov x30, x1",
            "ldp x1, x2, [x30, #8]",
            "ldp x3, x4, [x30, #24]",
            "ldp x5, x6, [x30, #40]",
            "ldp x7, x8, [x30, #56]",
            "ldp x9, x10, [x30, #72]",
            "ldp x11, x12, [x30, #88]",
            "ldp x13, x14, [x30, #104]",
            "ldp x15, x16, [x30, #120]",
            "ldp x17, x18, [x30, #136]",
            "ldp x19, x20, [x30, #152]",
            "ldp x21, x22, [x30, #168]",
            "ldp x23, x24, [x30, #184]",
            "ldp x25, x26, [x30, #200]",
            "ldp x27, x28, [x30, #216]",
            "ldr x29, [x30, #232]",
            "ldr x30, [x0]",
            "blr x30",
            "ldr x30, [sp, #160]",
            "stp x0, x1, [x30]",
            "stp x2, x3, [x30, #16]",
            "stp x4, x5, [x30, #32]",
            "stp x6, x7, [x30, #48]",
            "stp x8, x9, [x30, #64]",
            "stp x10, x11, [x30, #80]",
            "stp x12, x13, [x30, #96]",
            "stp x14, x15, [x30, #112]",
            "stp x16, x17, [x30, #128]",
            "stp x18, x19, [x30, #144]",
            "stp x20, x21, [x30, #160]",
            "stp x22, x23, [x30, #176]",
            "stp x24, x25, [x30, #192]",
            "stp x26, x27, [x30, #208]",
            "stp x28, x29, [x30, #224]",
            "add x30, x30, #256",
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [x30], #64",
            "st1 {{v4.2d, v5.2d, v6.2d, v7.2d}}, [x30], #64",
            "st1 {{v8.2d, v9.2d, v10.2d, v11.2d}}, [x30], #64",
            "st1 {{v12.2d, v13.2d, v14.2d, v15.2d}}, [x30], #64",
            "st1 {{v16.2d, v17.2d, v18.2d, v19.2d}}, [x30], #64",
            "st1 {{v20.2d, v21.2d, v22.2d, v23.2d}}, [x30], #64",
            "st1 {{v24.2d, v25.2d, v26.2d, v27.2d}}, [x30], #64",
            "st1 {{v28.2d, v29.2d, v30.2d, v31.2d}}, [x30], #64",
            "ldp x19, x20, [sp, #16]",
            "ldp x21, x22, [sp, #32]",
            "ldp x23, x24, [sp, #48]",
            "ldp x25, x26, [sp, #64]",
            "ldp x27, x28, [sp, #80]",
            "ldp d8, d9, [sp, #96]",
            "ldp d10, d11, [sp, #112]",
            "ldp d12, d13, [sp, #128]",
            "ldp d14, d15, [sp, #144]",
            "ldp x29, x30, [sp], #176",
            "ret",
        )
    }

    /// Calls a resolver and checks that it preserves the registers.
    pub(in super::super) fn resolve(resolver: u64, argument: u64) -> u64 {
        let (before, mut after) = (Registers::pattern(), Registers::ZERO);
        // SAFETY: the descriptor is one.
        let offset = unsafe { call(&[resolver, argument], &before, &mut after) };
        assert_eq!(before.general[1..30], after.general[1..30]);
        assert_eq!(before.vector[..512], after.vector[..512]);
        offset
    }
}
