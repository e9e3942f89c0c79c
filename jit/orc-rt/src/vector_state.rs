//! The vector state of x86-64, and its saving around a function call that the surrounding code does
//! not treat as one.

use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that suffice for every method of saving [`MASK`].
pub(crate) static SIZE: AtomicU64 = AtomicU64::new(0);
/// The states that the operating system has enabled, except states that neither this crate nor libc
/// uses (x87, tiles, protection keys).
pub(crate) static MASK: AtomicU64 = AtomicU64::new(0);

/// SSE, AVX, bounds, AVX-512 and the further general registers (APX).
const SAVED: u64 = 0b1000_0000_0000_1111_1110;
/// The legacy area and the header.
const SMALLEST_SIZE: u64 = 512 + 64;

/// Methods of saving vector state, from the oldest processors' to the best one, which leaves out
/// unused states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Saving {
    /// The instruction `fxsave`.
    Legacy,
    /// The instruction `xsave`.
    Extended,
    /// The instruction `xsavec`.
    Compact,
}

/// Returns this processor's best method, and sets [`SIZE`] and [`MASK`] for it.
pub(crate) fn find() -> Saving {
    // In a virtual machine each `cpuid` takes tens of microseconds.
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
    if std::arch::is_x86_feature_detected!("xsavec") { Saving::Compact } else { Saving::Extended }
}

/// Defines a function for each method of [`Saving`]. The macro `around` gets the instructions that
/// save and the instructions that restore. Both find [`SIZE`] bytes at `rsp`, aligned to 64 bytes,
/// [`MASK`] in `eax`, and zero in `rdx`.
macro_rules! in_every_way {
    ($around:ident: $legacy:ident, $extended:ident, $compact:ident) => {
        #[unsafe(naked)]
        extern "C" fn $legacy() {
            $around!("fxsave64 [rsp]", "fxrstor64 [rsp]")
        }

        #[unsafe(naked)]
        extern "C" fn $extended() {
            $around!(
                // `xsave` writes only some bits of the header, and the rest must be zero.
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
        extern "C" fn $compact() {
            $around!(
                // `xsavec` writes only the first two words of the header, and the rest must be
                // zero.
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
    };
}
pub(crate) use in_every_way;

impl Saving {
    /// Returns the address of the function for this method, out of the three that [`in_every_way`]
    /// defines.
    pub(crate) fn choose(self, [legacy, extended, compact]: [extern "C" fn(); 3]) -> u64 {
        let function = match self {
            Self::Legacy => legacy,
            Self::Extended => extended,
            Self::Compact => compact,
        };
        function as usize as u64
    }

    /// Returns all methods that this processor supports.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        let best = find();
        [Self::Legacy, Self::Extended, Self::Compact].into_iter().filter(move |way| *way <= best)
    }
}
