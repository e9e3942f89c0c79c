//! Floating-point modes, and the flags that no code may leave set.

/// The direction, alignment-check and trap flags, which affect all later code while they are set.
#[cfg(target_arch = "x86_64")]
pub(super) const FLAGS: i32 = 0x400 | 0x4_0000 | 0x100;

/// A thread's floating-point modes: rounding, flushing of denormal numbers, traps.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    mxcsr: u32,
    /// The control word of the x87 unit.
    control: u16,
}

/// A thread's floating-point modes: rounding, flushing of denormal numbers, traps.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    fpcr: u64,
}

impl Modes {
    /// Returns the calling thread's modes.
    #[inline]
    pub(crate) fn read() -> Modes {
        #[cfg(target_arch = "x86_64")]
        {
            let mut modes = Modes { mxcsr: 0, control: 0 };
            // SAFETY: this stores both registers in fields of their sizes.
            unsafe {
                std::arch::asm!(
                    "stmxcsr [{modes}]",
                    "fnstcw [{modes} + 4]",
                    modes = in(reg) &raw mut modes,
                    options(nostack, preserves_flags),
                );
            }
            modes
        }
        #[cfg(target_arch = "aarch64")]
        {
            let fpcr;
            // SAFETY: this reads a register.
            unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack, nomem)) };
            Modes { fpcr }
        }
    }

    /// Sets the calling thread's modes, and clears its direction, alignment-check and trap flags.
    #[inline]
    pub(crate) fn restore(self) {
        clear_flags();
        if Modes::read() != self {
            // SAFETY: the thread had these modes before, so the processor has their bits.
            unsafe { self.load() }
        }
    }

    /// # Safety
    /// The processor must have all bits that are set.
    unsafe fn load(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: promised by the caller; `fnclex` clears a pending x87 exception before it is
        // raised here.
        unsafe {
            std::arch::asm!(
                "fnclex",
                "fldcw [{modes} + 4]",
                "ldmxcsr [{modes}]",
                modes = in(reg) &raw const self,
                options(nostack),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: promised by the caller.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.fpcr, options(nostack, nomem));
        }
    }

    /// Runs `body`, which may change the thread's modes, and restores them afterwards, also after a
    /// panic.
    pub(crate) fn preserved<T>(body: impl FnOnce() -> T) -> T {
        struct RestoreGuard(Modes);
        impl Drop for RestoreGuard {
            fn drop(&mut self) {
                self.0.restore();
            }
        }
        let _restored = RestoreGuard(Modes::read());
        body()
    }
}

/// Clears the flags of [`FLAGS`], if any is set.
#[inline]
pub(super) fn clear_flags() {
    #[cfg(target_arch = "x86_64")]
    {
        let flags: u64;
        // SAFETY: this reads the flags by way of the stack.
        unsafe { std::arch::asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
        if flags & FLAGS as u64 != 0 {
            // SAFETY: the calling convention requires clear flags.
            unsafe {
                std::arch::asm!("pushfq", "and dword ptr [rsp], {}", "popfq", const !FLAGS);
            }
        }
    }
}
