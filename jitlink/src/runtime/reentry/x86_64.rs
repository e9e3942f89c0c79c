//! Re-entry on x86-64, for the System V calling convention.
//!
//! Arguments are in `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`, in the first eight vector registers at their full width, and on the
//! stack; `rax` says how many vector registers a variadic call uses, and `r10` is a nested function's frame. `r11` is nobody's.
//! The mask registers of AVX-512 hold no arguments, nor do the upper sixteen vector registers, the x87 stack or the tiles.

use std::arch::naked_asm;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ways of saving vector registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saving {
    /// `xmm0` to `xmm7`, one by one.
    Sse,
    /// `ymm0` to `ymm7`, one by one.
    Avx,
    /// `zmm0` to `zmm7`, one by one.
    Avx512,
    /// `xsavec`: what was not in use is not in use afterwards, so code without AVX pays nothing for halves that it does not know.
    Compact,
}

pub(super) fn reenter_function() -> u64 {
    // In a virtual machine a question to the processor takes tens of microseconds.
    static BEST: OnceLock<u64> = OnceLock::new();
    *BEST.get_or_init(|| function(available().last().copied().unwrap_or(Saving::Sse)))
}

/// The ways that this processor has, from the worst to the best.
fn available() -> Vec<Saving> {
    let mut available = vec![Saving::Sse];
    available.extend(std::arch::is_x86_feature_detected!("avx").then_some(Saving::Avx));
    available.extend(std::arch::is_x86_feature_detected!("avx512f").then_some(Saving::Avx512));
    if std::arch::is_x86_feature_detected!("xsavec") {
        // SAFETY: the processor has the feature, and the operating system uses it.
        let enabled = unsafe { std::arch::x86_64::_xgetbv(0) };
        STATES.store(enabled as u32 & WITH_ARGUMENTS, Ordering::Relaxed);
        available.push(Saving::Compact);
    }
    available
}

fn function(saving: Saving) -> u64 {
    let function: extern "C" fn() = match saving {
        Saving::Sse => reenter_with_sse,
        Saving::Avx => reenter_with_avx,
        Saving::Avx512 => reenter_with_avx512,
        Saving::Compact => reenter_with_xsavec,
    };
    function as usize as u64
}

/// What `xsavec` saves: SSE, the upper halves of AVX, the masks of AVX-512 (a few bytes, and restoring without them would not be
/// cheaper), and the upper halves of its first sixteen registers.
const WITH_ARGUMENTS: u32 = 0b0110_0110;
/// Those of them that the operating system has enabled.
static STATES: AtomicU32 = AtomicU32::new(0);

/// Keeps the registers that may hold arguments, calls the hook, and goes on at what it returns. `save` and `restore` find as
/// many bytes as they need at `rsp`, aligned to 64, and may change `rax` and `rdx`.
macro_rules! reenter_saving {
    ($bytes:literal, $save:literal, $restore:literal $(, $name:ident = $value:expr)?) => {
        naked_asm!(
            ".cfi_startproc",
            // Before the return address lies that of the trampoline.
            ".cfi_def_cfa_offset 16",
            "push rbp",
            ".cfi_def_cfa_offset 24",
            ".cfi_offset rbp, -24",
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
            "sub rsp, {bytes}",
            "and rsp, -64",
            $save,
            "mov rdi, r11",
            "mov rsi, [rbp + 8]",
            "call [r11 + 8]",
            "mov r11, rax",
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
            ".cfi_def_cfa rsp, 16",
            ".cfi_restore rbp",
            "lea rsp, [rsp + 8]",
            ".cfi_def_cfa_offset 8",
            "jmp r11",
            ".cfi_endproc",
            bytes = const $bytes,
            $($name = sym $value,)?
        )
    };
}

#[unsafe(naked)]
extern "C" fn reenter_with_sse() {
    reenter_saving!(
        128,
        "movups [rsp], xmm0
         movups [rsp + 16], xmm1
         movups [rsp + 32], xmm2
         movups [rsp + 48], xmm3
         movups [rsp + 64], xmm4
         movups [rsp + 80], xmm5
         movups [rsp + 96], xmm6
         movups [rsp + 112], xmm7",
        "movups xmm0, [rsp]
         movups xmm1, [rsp + 16]
         movups xmm2, [rsp + 32]
         movups xmm3, [rsp + 48]
         movups xmm4, [rsp + 64]
         movups xmm5, [rsp + 80]
         movups xmm6, [rsp + 96]
         movups xmm7, [rsp + 112]"
    )
}

#[unsafe(naked)]
extern "C" fn reenter_with_avx() {
    reenter_saving!(
        256,
        "vmovups [rsp], ymm0
         vmovups [rsp + 32], ymm1
         vmovups [rsp + 64], ymm2
         vmovups [rsp + 96], ymm3
         vmovups [rsp + 128], ymm4
         vmovups [rsp + 160], ymm5
         vmovups [rsp + 192], ymm6
         vmovups [rsp + 224], ymm7
         vzeroupper",
        "vmovups ymm0, [rsp]
         vmovups ymm1, [rsp + 32]
         vmovups ymm2, [rsp + 64]
         vmovups ymm3, [rsp + 96]
         vmovups ymm4, [rsp + 128]
         vmovups ymm5, [rsp + 160]
         vmovups ymm6, [rsp + 192]
         vmovups ymm7, [rsp + 224]"
    )
}

#[unsafe(naked)]
extern "C" fn reenter_with_avx512() {
    reenter_saving!(
        512,
        "vmovups [rsp], zmm0
         vmovups [rsp + 64], zmm1
         vmovups [rsp + 128], zmm2
         vmovups [rsp + 192], zmm3
         vmovups [rsp + 256], zmm4
         vmovups [rsp + 320], zmm5
         vmovups [rsp + 384], zmm6
         vmovups [rsp + 448], zmm7
         vzeroupper",
        "vmovups zmm0, [rsp]
         vmovups zmm1, [rsp + 64]
         vmovups zmm2, [rsp + 128]
         vmovups zmm3, [rsp + 192]
         vmovups zmm4, [rsp + 256]
         vmovups zmm5, [rsp + 320]
         vmovups zmm6, [rsp + 384]
         vmovups zmm7, [rsp + 448]"
    )
}

/// The area: 512 bytes of the old form, 64 of header, 256 for AVX, 64 and 512 for AVX-512, and at most 64 more for each of the
/// last three to be aligned.
#[unsafe(naked)]
extern "C" fn reenter_with_xsavec() {
    reenter_saving!(
        1600,
        // It writes only the first two words of the header, and the rest must be zero.
        "xor edx, edx
         mov [rsp + 528], rdx
         mov [rsp + 536], rdx
         mov [rsp + 544], rdx
         mov [rsp + 552], rdx
         mov [rsp + 560], rdx
         mov [rsp + 568], rdx
         mov eax, [rip + {states}]
         xsavec64 [rsp]",
        "mov eax, [rip + {states}]
         xor edx, edx
         xrstor64 [rsp]",
        states = STATES
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The address of every form of the code that this processor can execute.
    pub(in super::super) fn all() -> Vec<u64> {
        available().into_iter().map(function).collect()
    }
}
