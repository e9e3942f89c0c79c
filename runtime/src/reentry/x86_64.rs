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
    use std::arch::asm;

    use super::super::tests::Registers;
    use super::*;

    /// How many of [`Registers`] there are.
    pub(in super::super) const GENERAL: usize = 8;
    pub(in super::super) const VECTORS: usize = 8;

    /// Every form of the code that this processor can execute, and how many bytes of a vector register it keeps.
    pub(in super::super) fn forms() -> Vec<(u64, usize)> {
        let width = |saving| match saving {
            Saving::Sse => 16,
            Saving::Avx => 32,
            Saving::Avx512 => 64,
            Saving::Compact => widest(),
        };
        available().into_iter().map(|saving| (function(saving), width(saving))).collect()
    }

    fn widest() -> usize {
        match () {
            () if std::arch::is_x86_feature_detected!("avx512f") => 64,
            () if std::arch::is_x86_feature_detected!("avx") => 32,
            () => 16,
        }
    }

    /// `mov trampoline, %r11; push %r11; mov header, %r11; jmp *(%r11)`
    pub(in super::super) fn arriving(header: u64, trampoline: u64) -> Vec<u8> {
        let [header, trampoline] = [header, trampoline].map(u64::to_le_bytes);
        [&b"\x49\xbb"[..], &trampoline, b"\x41\x53\x49\xbb", &header, b"\x41\xff\x23"].concat()
    }

    /// Loads all registers from `before`, calls the code, and has what arrives there written to `after`.
    ///
    /// # Safety
    /// The code must go on at [`recorder`].
    pub(in super::super) unsafe fn call(code: u64, before: &Registers, after: &mut Registers) {
        let call = match widest() {
            64 => call_with_zmm,
            32 => call_with_ymm,
            _ => call_with_xmm,
        };
        // SAFETY: promised by the caller; the processor has the registers.
        unsafe { call(code, before, after) };
    }

    /// Where the registers are written that arrive.
    pub(in super::super) fn recorder() -> u64 {
        let recorder: extern "C" fn() = match widest() {
            64 => record_zmm,
            32 => record_ymm,
            _ => record_xmm,
        };
        recorder as usize as u64
    }

    /// Leaves nothing in any vector register that an argument may be in.
    pub(in super::super) fn clobber_vectors() {
        macro_rules! clobber {
            ($($instruction:literal),*) => {
                // SAFETY: the processor has the registers, and they are said to be changed.
                unsafe {
                    asm!(
                        $($instruction),*,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    )
                }
            };
        }
        match widest() {
            64 => clobber!(
                "vpternlogd zmm0, zmm0, zmm0, 255",
                "vmovaps zmm1, zmm0",
                "vmovaps zmm2, zmm0",
                "vmovaps zmm3, zmm0",
                "vmovaps zmm4, zmm0",
                "vmovaps zmm5, zmm0",
                "vmovaps zmm6, zmm0",
                "vmovaps zmm7, zmm0"
            ),
            32 => clobber!(
                "vcmptrueps ymm0, ymm0, ymm0",
                "vmovaps ymm1, ymm0",
                "vmovaps ymm2, ymm0",
                "vmovaps ymm3, ymm0",
                "vmovaps ymm4, ymm0",
                "vmovaps ymm5, ymm0",
                "vmovaps ymm6, ymm0",
                "vmovaps ymm7, ymm0"
            ),
            _ => clobber!(
                "pcmpeqd xmm0, xmm0",
                "movaps xmm1, xmm0",
                "movaps xmm2, xmm0",
                "movaps xmm3, xmm0",
                "movaps xmm4, xmm0",
                "movaps xmm5, xmm0",
                "movaps xmm6, xmm0",
                "movaps xmm7, xmm0"
            ),
        }
    }

    macro_rules! calling {
        ($call:ident, $record:ident, $move:literal, $vector:literal) => {
            #[unsafe(naked)]
            unsafe extern "C" fn $call(code: u64, before: &Registers, after: &mut Registers) {
                naked_asm!(
                    "push rbx",
                    "mov rbx, rdx",
                    "mov r11, rdi",
                    concat!($move, " ", $vector, "0, [rsi + 128]"),
                    concat!($move, " ", $vector, "1, [rsi + 192]"),
                    concat!($move, " ", $vector, "2, [rsi + 256]"),
                    concat!($move, " ", $vector, "3, [rsi + 320]"),
                    concat!($move, " ", $vector, "4, [rsi + 384]"),
                    concat!($move, " ", $vector, "5, [rsi + 448]"),
                    concat!($move, " ", $vector, "6, [rsi + 512]"),
                    concat!($move, " ", $vector, "7, [rsi + 576]"),
                    "mov rdi, [rsi]",
                    "mov rdx, [rsi + 16]",
                    "mov rcx, [rsi + 24]",
                    "mov r8, [rsi + 32]",
                    "mov r9, [rsi + 40]",
                    "mov rax, [rsi + 48]",
                    "mov r10, [rsi + 56]",
                    "mov rsi, [rsi + 8]",
                    "call r11",
                    "pop rbx",
                    "ret",
                )
            }

            #[unsafe(naked)]
            extern "C" fn $record() {
                naked_asm!(
                    concat!($move, " [rbx + 128], ", $vector, "0"),
                    concat!($move, " [rbx + 192], ", $vector, "1"),
                    concat!($move, " [rbx + 256], ", $vector, "2"),
                    concat!($move, " [rbx + 320], ", $vector, "3"),
                    concat!($move, " [rbx + 384], ", $vector, "4"),
                    concat!($move, " [rbx + 448], ", $vector, "5"),
                    concat!($move, " [rbx + 512], ", $vector, "6"),
                    concat!($move, " [rbx + 576], ", $vector, "7"),
                    "mov [rbx], rdi",
                    "mov [rbx + 8], rsi",
                    "mov [rbx + 16], rdx",
                    "mov [rbx + 24], rcx",
                    "mov [rbx + 32], r8",
                    "mov [rbx + 40], r9",
                    "mov [rbx + 48], rax",
                    "mov [rbx + 56], r10",
                    "ret",
                )
            }
        };
    }
    calling!(call_with_xmm, record_xmm, "movups", "xmm");
    calling!(call_with_ymm, record_ymm, "vmovups", "ymm");
    calling!(call_with_zmm, record_zmm, "vmovups", "zmm");
}
