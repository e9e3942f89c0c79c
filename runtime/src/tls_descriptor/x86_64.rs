//! The resolvers of x86-64.

use std::arch::naked_asm;

use super::offset_from_thread_pointer;
use vector_state::Saving;

/// The address of the resolver for variables whose offset is not fixed: the one that saves the vector state of this
/// processor.
pub(super) fn dynamic_resolver() -> u64 {
    resolver(vector_state::find())
}

fn resolver(saving: Saving) -> u64 {
    let resolver: extern "C" fn() = match saving {
        Saving::Legacy => resolve_dynamic_with_fxsave,
        Saving::Extended => resolve_dynamic_with_xsave,
        Saving::Compact => resolve_dynamic_with_xsavec,
    };
    resolver as usize as u64
}

#[unsafe(naked)]
pub(super) extern "C" fn resolve_static() {
    naked_asm!("mov rax, [rax + 8]", "ret")
}

#[unsafe(naked)]
extern "C" fn resolve_dynamic_with_fxsave() {
    resolve_dynamic_saving!("fxsave64 [rsp]", "fxrstor64 [rsp]")
}

#[unsafe(naked)]
extern "C" fn resolve_dynamic_with_xsave() {
    resolve_dynamic_saving!(
        // It writes only some bits of the header, and the rest must be zero.
        "mov [rsp + 512], rdx
         mov [rsp + 520], rdx
         mov [rsp + 528], rdx
         mov [rsp + 536], rdx
         mov [rsp + 544], rdx
         mov [rsp + 552], rdx
         mov [rsp + 560], rdx
         mov [rsp + 568], rdx
         xsave64 [rsp]",
        "xrstor64 [rsp]"
    )
}

#[unsafe(naked)]
extern "C" fn resolve_dynamic_with_xsavec() {
    resolve_dynamic_saving!(
        // It writes only the first two words of the header, and the rest must be zero.
        "mov [rsp + 528], rdx
         mov [rsp + 536], rdx
         mov [rsp + 544], rdx
         mov [rsp + 552], rdx
         mov [rsp + 560], rdx
         mov [rsp + 568], rdx
         xsavec64 [rsp]",
        "xrstor64 [rsp]"
    )
}

/// Saves the registers that a function may change, and calls [`offset_from_thread_pointer`]. `save` and `restore` find
/// at `rsp` as many bytes as they need, aligned to 64, the mask of states in `eax`, and zero in `rdx`.
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

/// How much vector state there is to save.
mod vector_state {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Enough bytes for any way of saving [`MASK`].
    pub(super) static SIZE: AtomicU64 = AtomicU64::new(0);
    /// The states that the operating system has enabled, without those that neither this crate nor libc uses (x87, tiles,
    /// protection keys).
    pub(super) static MASK: AtomicU64 = AtomicU64::new(0);

    /// SSE, AVX, bounds, AVX-512 and the further general registers (APX).
    const SAVED: u64 = 0b1000_0000_0000_1111_1110;
    /// The legacy area and the header.
    const SMALLEST_SIZE: u64 = 512 + 64;

    /// Ways of saving vector state, from the oldest processors' to the best: it leaves out what is not in use.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Saving {
        /// `fxsave`
        Legacy,
        /// `xsave`
        Extended,
        /// `xsavec`
        Compact,
    }

    /// The best way that this processor has. [`SIZE`] and [`MASK`] are set for it.
    pub(super) fn find() -> Saving {
        // In a virtual machine each question to the processor takes tens of microseconds.
        static FOUND: OnceLock<Saving> = OnceLock::new();
        *FOUND.get_or_init(ask)
    }

    fn ask() -> Saving {
        if !std::arch::is_x86_feature_detected!("xsave") {
            SIZE.store(SMALLEST_SIZE, Ordering::Relaxed);
            return Saving::Legacy;
        }
        // SAFETY: the processor has the feature, and the operating system uses it.
        let mask = unsafe { _xgetbv(0) } & SAVED;
        let (mut end, mut compact_end) = (SMALLEST_SIZE, SMALLEST_SIZE);
        for state in (2..u64::BITS).filter(|state| mask & (1 << state) != 0) {
            let description = __cpuid_count(0xd, state);
            let (size, offset) = (u64::from(description.eax), u64::from(description.ebx));
            end = end.max(offset + size);
            compact_end = compact_end.next_multiple_of(64) + size;
        }
        SIZE.store(end.max(compact_end), Ordering::Relaxed);
        MASK.store(mask, Ordering::Relaxed);
        if std::arch::is_x86_feature_detected!("xsavec") {
            Saving::Compact
        } else {
            Saving::Extended
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    use std::ops::Range;

    use super::super::tests::Registers;
    use super::*;

    /// All that this processor can execute.
    pub(in super::super) fn dynamic_resolvers() -> Vec<u64> {
        let best = vector_state::find();
        let all = [Saving::Legacy, Saving::Extended, Saving::Compact];
        all.into_iter().filter(|saving| *saving <= best).map(resolver).collect()
    }

    /// Loads all registers from `before`, calls through the descriptor, writes all to `after`, and returns the offset.
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

    /// Calls a resolver and checks that it preserves the registers.
    pub(in super::super) fn resolve(with: u64, argument: u64) -> u64 {
        let (mut before, mut after) = (Registers::pattern(), Registers::ZERO);
        // Ordinary control words: a pattern there would unmask exceptions.
        before.vector[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        before.vector[24..32].copy_from_slice(&0xffff_0000_1f80u64.to_le_bytes());
        let extended = vector_state::find() > Saving::Legacy && with != resolver(Saving::Legacy);
        // SSE, AVX, AVX-512: of other states not every pattern is valid.
        // SAFETY: the processor has the feature, and the operating system uses it.
        let enabled = if extended { unsafe { _xgetbv(0) } } else { 0 };
        let mask = enabled & 0b1110_0110;
        before.vector[512..576].fill(0);
        before.vector[512..520].copy_from_slice(&mask.to_le_bytes());
        let call = if extended { call_with_xsave } else { call_with_fxsave };
        // SAFETY: the descriptor is one; the control words are the usual ones, so any state of the vectors will do.
        let offset = unsafe { call(&[with, argument], &before, &mut after, mask) };
        for register in (1..16).filter(|register| *register != RSP) {
            assert_eq!(before.general[register], after.general[register], "register {register}");
        }
        for bytes in std::iter::once(160..416).chain(places(mask)) {
            assert!(
                before.vector[bytes.clone()] == after.vector[bytes.clone()],
                "state at {bytes:?}"
            );
        }
        offset
    }

    /// The stack pointer's place among the general registers, which the test leaves alone.
    const RSP: usize = 7;

    /// Where `xsave` puts the states of a mask, but for x87 and SSE.
    fn places(mask: u64) -> impl Iterator<Item = Range<usize>> {
        (2..u64::BITS).filter(move |state| mask & (1 << state) != 0).map(|state| {
            let description = __cpuid_count(0xd, state);
            description.ebx as usize..(description.ebx + description.eax) as usize
        })
    }
}
