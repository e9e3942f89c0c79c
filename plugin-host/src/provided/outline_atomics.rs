//! Atomic functions that compilers call on AArch64 if they do not know the processor's
//! instructions. Each library has its own copies and exports none, so objects get this library's
//! copies.

use std::ffi::c_void;

macro_rules! functions {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(static $name: c_void;)*
        }

        /// Returns the address of one of these functions.
        pub(crate) fn address_of(name: &str) -> Option<u64> {
            let start = match name {
                $(stringify!($name) => &raw const $name,)*
                _ => return None,
            };
            Some(start.expose_provenance() as u64)
        }
    };
}

functions! {
    __aarch64_cas1_relax __aarch64_cas1_acq __aarch64_cas1_rel __aarch64_cas1_acq_rel
    __aarch64_cas2_relax __aarch64_cas2_acq __aarch64_cas2_rel __aarch64_cas2_acq_rel
    __aarch64_cas4_relax __aarch64_cas4_acq __aarch64_cas4_rel __aarch64_cas4_acq_rel
    __aarch64_cas8_relax __aarch64_cas8_acq __aarch64_cas8_rel __aarch64_cas8_acq_rel
    __aarch64_cas16_relax __aarch64_cas16_acq __aarch64_cas16_rel __aarch64_cas16_acq_rel
    __aarch64_ldadd1_relax __aarch64_ldadd1_acq __aarch64_ldadd1_rel __aarch64_ldadd1_acq_rel
    __aarch64_ldadd2_relax __aarch64_ldadd2_acq __aarch64_ldadd2_rel __aarch64_ldadd2_acq_rel
    __aarch64_ldadd4_relax __aarch64_ldadd4_acq __aarch64_ldadd4_rel __aarch64_ldadd4_acq_rel
    __aarch64_ldadd8_relax __aarch64_ldadd8_acq __aarch64_ldadd8_rel __aarch64_ldadd8_acq_rel
    __aarch64_ldclr1_relax __aarch64_ldclr1_acq __aarch64_ldclr1_rel __aarch64_ldclr1_acq_rel
    __aarch64_ldclr2_relax __aarch64_ldclr2_acq __aarch64_ldclr2_rel __aarch64_ldclr2_acq_rel
    __aarch64_ldclr4_relax __aarch64_ldclr4_acq __aarch64_ldclr4_rel __aarch64_ldclr4_acq_rel
    __aarch64_ldclr8_relax __aarch64_ldclr8_acq __aarch64_ldclr8_rel __aarch64_ldclr8_acq_rel
    __aarch64_ldeor1_relax __aarch64_ldeor1_acq __aarch64_ldeor1_rel __aarch64_ldeor1_acq_rel
    __aarch64_ldeor2_relax __aarch64_ldeor2_acq __aarch64_ldeor2_rel __aarch64_ldeor2_acq_rel
    __aarch64_ldeor4_relax __aarch64_ldeor4_acq __aarch64_ldeor4_rel __aarch64_ldeor4_acq_rel
    __aarch64_ldeor8_relax __aarch64_ldeor8_acq __aarch64_ldeor8_rel __aarch64_ldeor8_acq_rel
    __aarch64_ldset1_relax __aarch64_ldset1_acq __aarch64_ldset1_rel __aarch64_ldset1_acq_rel
    __aarch64_ldset2_relax __aarch64_ldset2_acq __aarch64_ldset2_rel __aarch64_ldset2_acq_rel
    __aarch64_ldset4_relax __aarch64_ldset4_acq __aarch64_ldset4_rel __aarch64_ldset4_acq_rel
    __aarch64_ldset8_relax __aarch64_ldset8_acq __aarch64_ldset8_rel __aarch64_ldset8_acq_rel
    __aarch64_swp1_relax __aarch64_swp1_acq __aarch64_swp1_rel __aarch64_swp1_acq_rel
    __aarch64_swp2_relax __aarch64_swp2_acq __aarch64_swp2_rel __aarch64_swp2_acq_rel
    __aarch64_swp4_relax __aarch64_swp4_acq __aarch64_swp4_rel __aarch64_swp4_acq_rel
    __aarch64_swp8_relax __aarch64_swp8_acq __aarch64_swp8_rel __aarch64_swp8_acq_rel
}
