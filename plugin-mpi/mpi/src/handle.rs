//! Handles of MPI objects.
//!
//! A handle is a pointer in Open MPI and the standard ABI, and a 32-bit `int` in the ABI of MPICH.
//! Here it always is a `usize`:
//!
//! - By value, an `int` occupies the lower half of the register of a `usize`, and the callee
//!   ignores the upper half. This is so in the C ABIs of x86-64 and AArch64.
//! - Through a pointer, MPICH writes the lower half only, in little-endian order. So memory for
//!   handles is zeroed first; then values of equal handles are equal.
//! - In an array the distance of handles differs. No call of this crate passes such an array.

#[cfg(not(all(
    target_endian = "little",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("handles of MPICH are passed as on x86-64 and little-endian AArch64 only");

macro_rules! handles {
    ($($(#[$documentation:meta])* $name:ident;)*) => { $(
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub struct $name(pub(crate) usize);

        impl $name {
            /// Zeroed memory for a handle that a call writes.
            #[allow(dead_code, reason = "calls write only some of the kinds")]
            pub(crate) const UNSET: $name = $name(0);

            /// Returns the bits of the C handle: a pointer, or an `int` without sign extension.
            pub const fn to_bits(self) -> usize {
                self.0
            }

            /// Returns the handle with the bits of a C handle.
            ///
            /// # Safety
            /// The bits are from [`to_bits`](Self::to_bits), or are a valid C handle of this kind
            /// in the process' MPI library. An `int` is zero-extended.
            pub const unsafe fn from_bits(bits: usize) -> Self {
                Self(bits)
            }
        }
    )* };
}

handles! {
    /// Communicator (`MPI_Comm`).
    Comm;
    /// Operation in progress (`MPI_Request`).
    Request;
    /// Group of processes (`MPI_Group`).
    Group;
    /// Type of elements (`MPI_Datatype`).
    Datatype;
    /// Reduction (`MPI_Op`).
    Op;
}

/// Hints to a call (`MPI_Info`), of which only the handle of none is used.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Info(pub(crate) usize);

/// Error handler (`MPI_Errhandler`), of which only a predefined one is used.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Errhandler(pub(crate) usize);
