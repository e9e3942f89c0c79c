//! The entry into device code, and the exit from any place inside.

use crate::kernel::abi::{GroupEntry, Work};
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

/// The place at which [`enter`] continues if device code does not return: a stack pointer and an
/// address. The stack pointer points at the thread's earlier modes
/// ([`Modes`](super::modes::Modes)).
#[repr(C)]
pub(crate) struct ResumePoint {
    pub(super) stack: usize,
    pub(super) resume: usize,
}

impl ResumePoint {
    #[inline]
    pub(super) fn new() -> ResumePoint {
        ResumePoint { stack: 0, resume: 0 }
    }

    /// Returns whether [`enter`] has begun.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.resume != 0
    }
}

/// Calls `entry(arguments, work)`. Returns 0 if it returned, and 1 if the thread continues at the
/// resume point: then all callee-saved registers have their earlier values. In both cases the
/// floating-point modes are restored. On x86-64 the direction, alignment-check and trap flags are
/// clear.
///
/// Debuggers unwind through this function to its caller. An exception does not: [`end_unwinding`]
/// makes an exception that escapes from device code an uncaught one.
///
/// # Safety
/// `entry` may be called with these values; `resume_point` is valid until the call is over.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    resume_point: *mut ResumePoint,
    entry: GroupEntry,
    arguments: *const *const c_void,
    work: *mut Work,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality {relative}, {end_unwinding}",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "lea rax, [rip + 2f]",
        "mov [rdi + 8], rax",
        "mov rax, rsi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "call rax",
        "xor eax, eax",
        // Loading unchanged modes would cost more than the comparison.
        "stmxcsr [rsp + 8]",
        "fnstcw [rsp + 12]",
        "mov ecx, [rsp + 8]",
        "cmp ecx, [rsp]",
        "jne 4f",
        "mov cx, [rsp + 12]",
        "cmp cx, [rsp + 4]",
        "jne 4f",
        "5:",
        "pushfq",
        ".cfi_adjust_cfa_offset 8",
        "test dword ptr [rsp], {flags}",
        "lea rsp, [rsp + 8]",
        ".cfi_adjust_cfa_offset -8",
        "jnz 6f",
        "jmp 3f",
        "2:",
        "fninit",
        "mov eax, 1",
        "4:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "jmp 5b",
        "6:",
        "pushfq",
        ".cfi_adjust_cfa_offset 8",
        "and dword ptr [rsp], {others}",
        "popfq",
        ".cfi_adjust_cfa_offset -8",
        "3:",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "pop r15",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r15",
        "pop r14",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r14",
        "pop r13",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r13",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        relative = const RELATIVE,
        end_unwinding = sym end_unwinding,
        flags = const super::modes::FLAGS,
        others = const !super::modes::FLAGS,
    )
}

/// Continues at a resume point.
///
/// # Safety
/// The resume point belongs to an [`enter`] that the thread is in.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(resume_point: *mut ResumePoint) -> ! {
    naked_asm!("mov rsp, [rdi]", "jmp [rdi + 8]")
}

/// Calls `entry(arguments, work)`, as on x86-64.
///
/// # Safety
/// The same as on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    resume_point: *mut ResumePoint,
    entry: GroupEntry,
    arguments: *const *const c_void,
    work: *mut Work,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality {relative}, {end_unwinding}",
        "sub sp, sp, #176",
        ".cfi_adjust_cfa_offset 176",
        "stp x19, x20, [sp]",
        ".cfi_rel_offset x19, 0",
        ".cfi_rel_offset x20, 8",
        "stp x21, x22, [sp, #16]",
        ".cfi_rel_offset x21, 16",
        ".cfi_rel_offset x22, 24",
        "stp x23, x24, [sp, #32]",
        ".cfi_rel_offset x23, 32",
        ".cfi_rel_offset x24, 40",
        "stp x25, x26, [sp, #48]",
        ".cfi_rel_offset x25, 48",
        ".cfi_rel_offset x26, 56",
        "stp x27, x28, [sp, #64]",
        ".cfi_rel_offset x27, 64",
        ".cfi_rel_offset x28, 72",
        "stp x29, x30, [sp, #80]",
        ".cfi_rel_offset x29, 80",
        ".cfi_rel_offset x30, 88",
        "stp d8, d9, [sp, #96]",
        ".cfi_rel_offset d8, 96",
        ".cfi_rel_offset d9, 104",
        "stp d10, d11, [sp, #112]",
        ".cfi_rel_offset d10, 112",
        ".cfi_rel_offset d11, 120",
        "stp d12, d13, [sp, #128]",
        ".cfi_rel_offset d12, 128",
        ".cfi_rel_offset d13, 136",
        "stp d14, d15, [sp, #144]",
        ".cfi_rel_offset d14, 144",
        ".cfi_rel_offset d15, 152",
        "mrs x9, fpcr",
        "str x9, [sp, #160]",
        "add x9, sp, #160",
        "adr x10, 2f",
        "stp x9, x10, [x0]",
        "mov x9, x1",
        "mov x0, x2",
        "mov x1, x3",
        "blr x9",
        "mov x0, #0",
        "b 3f",
        "2:",
        // The resume point's stack pointer is at the modes.
        "sub sp, sp, #160",
        "mov x0, #1",
        "3:",
        "mrs x9, fpcr",
        "ldr x10, [sp, #160]",
        "cmp x9, x10",
        "b.eq 4f",
        "msr fpcr, x10",
        "4:",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #176",
        ".cfi_adjust_cfa_offset -176",
        "ret",
        ".cfi_endproc",
        relative = const RELATIVE,
        end_unwinding = sym end_unwinding,
    )
}

/// Continues at a resume point.
///
/// # Safety
/// The resume point belongs to an [`enter`] that the thread is in.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(resume_point: *mut ResumePoint) -> ! {
    naked_asm!("ldp x9, x10, [x0]", "mov sp, x9", "br x10")
}

/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`: the encoding of a reference to a function of this library.
const RELATIVE: u8 = 0x1b;

/// `_URC_FATAL_PHASE1_ERROR`.
const FAILED: c_int = 3;

/// Refuses to unwind further, as the personality routine of [`enter`]. The code that raised the
/// exception then treats it as an uncaught one and calls `abort`.
extern "C" fn end_unwinding(
    _version: c_int,
    _actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    FAILED
}
