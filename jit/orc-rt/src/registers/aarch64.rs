use std::arch::{asm, naked_asm};

use super::Registers;

/// Loads all registers from `before`, calls through the descriptor, writes all registers to
/// `after`, and returns `x0`.
#[unsafe(naked)]
unsafe extern "C" fn call(descriptor: &[u64; 2], before: &Registers, after: &mut Registers) -> u64 {
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

pub(super) fn call_keeping(descriptor: &[u64; 2], _legacy: bool, changed: &[usize]) -> u64 {
    let (before, mut after) = (Registers::pattern(), Registers::ZERO);
    // SAFETY: guaranteed by the caller of the test function.
    let returned = unsafe { call(descriptor, &before, &mut after) };
    for register in (1..30).filter(|register| !changed.contains(register)) {
        assert_eq!(before.general[register], after.general[register], "register {register}");
    }
    assert!(before.vector[..512] == after.vector[..512], "vector registers");
    returned
}

pub(super) fn change() {
    // SAFETY: all changed registers are declared as clobbered.
    unsafe {
        asm!(
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
             mov x\\n, #0
             .endr
             .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
             movi v\\n\\().16b, #255
             .endr",
            clobber_abi("C"),
        );
    }
}
