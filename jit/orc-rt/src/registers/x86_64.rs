use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::arch::{asm, naked_asm};
use std::ops::Range;

use super::Registers;
use crate::vector_state::{self, Saving};

/// Loads all registers from `before`, calls through the descriptor, writes all registers to
/// `after`, and returns `rax`.
#[unsafe(naked)]
unsafe extern "C" fn call_with_xsave(
    descriptor: &[u64; 2],
    before: &Registers,
    after: &mut Registers,
    mask: u64,
) -> u64 {
    call_saving!("xrstor64 [rsi + 256]", "xsave64 [rsi + 256]")
}

#[unsafe(naked)]
unsafe extern "C" fn call_with_fxsave(
    descriptor: &[u64; 2],
    before: &Registers,
    after: &mut Registers,
    mask: u64,
) -> u64 {
    call_saving!("fxrstor64 [rsi + 256]", "fxsave64 [rsi + 256]")
}

macro_rules! call_saving {
    ($load:literal, $store:literal) => {
        naked_asm!(
            "push rbx",
            "push rbp",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "push rcx",
            "push rdx",
            "mov rax, rcx",
            "xor edx, edx",
            $load,
            "mov rax, rdi",
            "mov rbx, [rsi + 8]",
            "mov rcx, [rsi + 16]",
            "mov rdx, [rsi + 24]",
            "mov rdi, [rsi + 40]",
            "mov rbp, [rsi + 48]",
            "mov r8, [rsi + 64]",
            "mov r9, [rsi + 72]",
            "mov r10, [rsi + 80]",
            "mov r11, [rsi + 88]",
            "mov r12, [rsi + 96]",
            "mov r13, [rsi + 104]",
            "mov r14, [rsi + 112]",
            "mov r15, [rsi + 120]",
            "mov rsi, [rsi + 32]",
            "call [rax]",
            "push rsi",
            "mov rsi, [rsp + 8]",
            "mov [rsi], rax",
            "mov [rsi + 8], rbx",
            "mov [rsi + 16], rcx",
            "mov [rsi + 24], rdx",
            "pop [rsi + 32]",
            "mov [rsi + 40], rdi",
            "mov [rsi + 48], rbp",
            "mov [rsi + 64], r8",
            "mov [rsi + 72], r9",
            "mov [rsi + 80], r10",
            "mov [rsi + 88], r11",
            "mov [rsi + 96], r12",
            "mov [rsi + 104], r13",
            "mov [rsi + 112], r14",
            "mov [rsi + 120], r15",
            "mov rax, [rsp + 8]",
            "xor edx, edx",
            $store,
            "mov rax, [rsi]",
            "pop rdx",
            "pop rcx",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbp",
            "pop rbx",
            "ret",
        )
    };
}
use call_saving;

pub(super) fn call_keeping(descriptor: &[u64; 2], legacy: bool, changed: &[usize]) -> u64 {
    let (mut before, mut after) = (Registers::pattern(), Registers::ZERO);
    // Ordinary control words: a pattern there would unmask exceptions.
    before.vector[..2].copy_from_slice(&0x37fu16.to_le_bytes());
    before.vector[24..32].copy_from_slice(&0xffff_0000_1f80u64.to_le_bytes());
    let extended = vector_state::find() > Saving::Legacy && !legacy;
    // SSE, AVX and AVX-512: for other states not every pattern is valid.
    // SAFETY: the processor has the feature, and the operating system uses it.
    let enabled = if extended { unsafe { _xgetbv(0) } } else { 0 };
    let mask = enabled & 0b1110_0110;
    before.vector[512..576].fill(0);
    before.vector[512..520].copy_from_slice(&mask.to_le_bytes());
    let call = if extended { call_with_xsave } else { call_with_fxsave };
    // SAFETY: guaranteed by the caller of the test function; with ordinary control words any vector
    // state is valid.
    let returned = unsafe { call(descriptor, &before, &mut after, mask) };
    for register in (1..16).filter(|register| *register != RSP && !changed.contains(register)) {
        assert_eq!(before.general[register], after.general[register], "register {register}");
    }
    for bytes in std::iter::once(160..416).chain(places(mask)) {
        assert!(before.vector[bytes.clone()] == after.vector[bytes.clone()], "state at {bytes:?}");
    }
    returned
}

/// Index of the stack pointer among the general registers, which the test skips.
const RSP: usize = 7;

/// Returns the offsets of the states of a mask in the area of `xsave`, except x87 and SSE.
fn places(mask: u64) -> impl Iterator<Item = Range<usize>> {
    (2..u64::BITS).filter(move |state| mask & (1 << state) != 0).map(|state| {
        let description = __cpuid_count(0xd, state);
        description.ebx as usize..(description.ebx + description.eax) as usize
    })
}

pub(super) fn change() {
    // SAFETY: the processor has the registers, and all of them are declared as clobbered.
    unsafe {
        asm!(
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
             pxor xmm\\n, xmm\\n
             .endr
             .irp n, rcx, rdx, rsi, rdi, r8, r9, r10, r11
             xor \\n, \\n
             .endr",
            clobber_abi("C"),
        );
        if std::arch::is_x86_feature_detected!("avx") {
            asm!("vzeroall", clobber_abi("C"));
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            asm!(
                ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
                 vpxord zmm\\n, zmm\\n, zmm\\n
                 .endr
                 .irp n, 0, 1, 2, 3, 4, 5, 6, 7
                 kxorw k\\n, k\\n, k\\n
                 .endr",
                clobber_abi("C"),
            );
        }
    }
}
