//! Conversions from and to the 16-bit formats `_Float16` and `__bf16`, as in LLVM's compiler-rt.
//! Compilers call them if the processor lacks an instruction, and old system libraries may lack the
//! functions.
//!
//! On x86-64 and AArch64, numbers are passed in vector registers, the convention since LLVM 15 and
//! GCC 12. Results also lie in the general register, where older compilers look for them.

/// Returns the address of a conversion.
pub(crate) fn address_of(name: &str) -> Option<u64> {
    let address = match name {
        "__truncsfbf2" => trunc_sf_bf as *const (),
        "__truncdfbf2" => trunc_df_bf as *const (),
        "__truncsfhf2" => trunc_sf_hf as *const (),
        "__truncdfhf2" => trunc_df_hf as *const (),
        "__extendbfsf2" => extend_bf_sf as *const (),
        "__extendhfsf2" => extend_hf_sf as *const (),
        "__extendhfdf2" => extend_hf_df as *const (),
        "__gnu_f2h_ieee" => half_of_single as *const (),
        "__gnu_h2f_ieee" => single_of_half as *const (),
        #[cfg(target_arch = "x86_64")]
        "__truncxfhf2" => trunc_xf_hf as *const (),
        #[cfg(target_arch = "x86_64")]
        "__truncxfbf2" => trunc_xf_bf as *const (),
        #[cfg(target_arch = "x86_64")]
        "__extendhfxf2" => extend_hf_xf as *const (),
        _ => return None,
    };
    Some(address.expose_provenance() as u64)
}

/// Defines functions with an argument and a result in vector registers, by Rust functions that take
/// or return 16 bits.
macro_rules! passed_in_vectors {
    ($(trunc $narrow:ident by $narrowing:ident;)* $(extend $wide:ident by $widening:ident;)*) => {
        $(#[unsafe(naked)]
        unsafe extern "C" fn $narrow() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                "sub rsp, 8",
                "call {function}",
                "add rsp, 8",
                "movzx eax, ax",
                "movd xmm0, eax",
                "ret",
                function = sym $narrowing,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "bl {function}",
                "and w0, w0, #0xffff",
                "fmov s0, w0",
                "ldp x29, x30, [sp], #16",
                "ret",
                function = sym $narrowing,
            );
        })*
        $(#[unsafe(naked)]
        unsafe extern "C" fn $wide() {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                "movd edi, xmm0",
                "movzx edi, di",
                "jmp {function}",
                function = sym $widening,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                "fmov w0, s0",
                "and w0, w0, #0xffff",
                "b {function}",
                function = sym $widening,
            );
        })*
    };
}

passed_in_vectors! {
    trunc trunc_sf_bf by brain_of_single;
    trunc trunc_df_bf by brain_of_double;
    trunc trunc_sf_hf by half_of_single;
    trunc trunc_df_hf by half_of_double;
    extend extend_bf_sf by single_of_brain;
    extend extend_hf_sf by single_of_half;
    extend extend_hf_df by double_of_half;
}

extern "C" fn brain_of_single(number: f32) -> u16 {
    BRAIN.narrowed(number.into())
}

extern "C" fn brain_of_double(number: f64) -> u16 {
    BRAIN.narrowed(number)
}

extern "C" fn half_of_single(number: f32) -> u16 {
    HALF.narrowed(number.into())
}

extern "C" fn half_of_double(number: f64) -> u16 {
    HALF.narrowed(number)
}

extern "C" fn single_of_brain(number: u16) -> f32 {
    f32::from_bits(u32::from(number) << 16)
}

extern "C" fn single_of_half(number: u16) -> f32 {
    HALF.widened(number) as f32
}

extern "C" fn double_of_half(number: u16) -> f64 {
    HALF.widened(number)
}

/// A format of 16 bits.
struct Format {
    fraction_bits: u32,
    /// Exponent of the smallest normal number.
    least_exponent: i32,
}

const HALF: Format = Format { fraction_bits: 10, least_exponent: -14 };
const BRAIN: Format = Format { fraction_bits: 7, least_exponent: -126 };

/// Number of bits of a double's fraction.
const DOUBLE_FRACTION: u32 = f64::MANTISSA_DIGITS - 1;

impl Format {
    /// Returns the nearest number of the format, and the even one of two equally near numbers.
    fn narrowed(&self, number: f64) -> u16 {
        let sign = ((number.to_bits() >> 63) as u16) << 15;
        let infinity = (0x7fff >> self.fraction_bits) << self.fraction_bits;
        if number.is_nan() {
            let payload = (number.to_bits() >> (DOUBLE_FRACTION - self.fraction_bits)) as u16;
            let quiet = 1 << (self.fraction_bits - 1);
            return sign | infinity | quiet | (payload & (quiet - 1));
        }
        let bits = number.abs().to_bits();
        let exponent = (bits >> DOUBLE_FRACTION) as i32 - 1023;
        let fraction = (bits & ((1 << DOUBLE_FRACTION) - 1)) | 1 << DOUBLE_FRACTION;
        // A number below the smallest normal number keeps fewer bits.
        let lost = (self.least_exponent - exponent).max(0) as u32;
        let shift = DOUBLE_FRACTION - self.fraction_bits + lost;
        if shift > DOUBLE_FRACTION + 1 {
            return sign;
        }
        let (kept, rest) = (fraction >> shift, fraction & ((1 << shift) - 1));
        let middle = 1 << (shift - 1);
        let kept = kept + u64::from(rest > middle || rest == middle && kept & 1 == 1);
        // A carry out of the fraction correctly increments the exponent.
        let above = (exponent.max(self.least_exponent) - self.least_exponent) as u64;
        let magnitude = (above << self.fraction_bits) + kept;
        sign | magnitude.min(infinity.into()) as u16
    }

    /// Returns the number as a double, which is exact.
    fn widened(&self, number: u16) -> f64 {
        let magnitude = number & 0x7fff;
        let fraction = u64::from(magnitude & ((1 << self.fraction_bits) - 1));
        let exponent = i32::from(magnitude >> self.fraction_bits);
        let greatest = 0x7fff >> self.fraction_bits;
        let value = match exponent {
            0 => fraction as f64 * 2f64.powi(self.least_exponent - self.fraction_bits as i32),
            _ => {
                let wide = fraction << (DOUBLE_FRACTION - self.fraction_bits);
                let exponent = match exponent == greatest {
                    true => 0x7ff,
                    false => (exponent - 1 + self.least_exponent + 1023) as u64,
                };
                let quiet = u64::from(exponent == 0x7ff && fraction != 0) << (DOUBLE_FRACTION - 1);
                f64::from_bits(exponent << DOUBLE_FRACTION | wide | quiet)
            }
        };
        if number >> 15 == 1 { -value } else { value }
    }
}

/// Defines functions of a `long double`, which is passed in memory. It becomes a double first,
/// rounded to odd, so that the second rounding is correct.
#[cfg(target_arch = "x86_64")]
macro_rules! of_extended {
    ($($name:ident by $narrowing:ident;)*) => {
        $(#[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "mov rdi, [rsp + 8]",
                "movzx esi, word ptr [rsp + 16]",
                "sub rsp, 8",
                "call {odd}",
                "call {function}",
                "add rsp, 8",
                "movzx eax, ax",
                "movd xmm0, eax",
                "ret",
                odd = sym double_of_extended,
                function = sym $narrowing,
            )
        })*
    };
}

#[cfg(target_arch = "x86_64")]
of_extended! {
    trunc_xf_hf by half_of_double;
    trunc_xf_bf by brain_of_double;
}

/// Returns the number as a double if that is exact, else the neighbouring double with an odd
/// fraction.
#[cfg(target_arch = "x86_64")]
extern "C" fn double_of_extended(fraction: u64, top: u16) -> f64 {
    let sign = u64::from(top >> 15) << 63;
    let exponent = i32::from(top & 0x7fff) - 16383 + 1023;
    let (kept, lost) = (fraction << 1 >> 12, fraction & 0x7ff);
    let magnitude = match top & 0x7fff {
        0x7fff => 0x7ff << DOUBLE_FRACTION | kept | u64::from(lost != 0),
        _ if fraction == 0 => 0,
        // Both 16-bit formats lack numbers this large or small.
        _ if exponent >= 0x7ff => f64::MAX.to_bits(),
        _ if exponent <= 0 => 1,
        _ => (exponent as u64) << DOUBLE_FRACTION | kept | u64::from(lost != 0),
    };
    f64::from_bits(sign | magnitude)
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn extend_hf_xf() {
    std::arch::naked_asm!(
        "movd edi, xmm0",
        "movzx edi, di",
        "sub rsp, 8",
        "call {function}",
        "movsd [rsp], xmm0",
        "fld qword ptr [rsp]",
        "add rsp, 8",
        "ret",
        function = sym double_of_half,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_itself_as_a_double_and_back() {
        for (format, bits) in [(&HALF, 10), (&BRAIN, 7)] {
            for number in 0..=u16::MAX {
                let wide = format.widened(number);
                let is_signalling = wide.is_nan() && number >> (bits - 1) & 1 == 0;
                let expected = number | u16::from(is_signalling) << (bits - 1);
                assert_eq!(format.narrowed(wide), expected, "{number:#x} {wide}");
            }
        }
    }

    #[test]
    fn halves_have_the_values_that_they_should() {
        for (number, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103515625e-5),
            (0x0001, 5.960464477539063e-8),
            (0x3555, 0.333251953125),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(HALF.widened(number), value);
        }
        assert!(HALF.widened(0x7e00).is_nan() && HALF.widened(0x7c01).is_nan());
        assert_eq!(BRAIN.widened(0x3f80), 1.0);
        assert_eq!(single_of_brain(0x3f80), 1.0);
    }

    #[test]
    fn numbers_between_two_go_to_the_nearest_or_to_even() {
        for (format, step) in [(&HALF, 2f64.powi(-10)), (&BRAIN, 2f64.powi(-7))] {
            let one = format.narrowed(1.0);
            for (above, expected) in [(0.49, 0), (0.5, 0), (0.51, 1), (1.49, 1), (1.5, 2)] {
                assert_eq!(format.narrowed(1.0 + above * step), one + expected, "{above}");
                assert_eq!(format.narrowed(-1.0 - above * step), 0x8000 | (one + expected));
            }
        }
        // The largest number, and too large numbers.
        assert_eq!(
            [65519.9, 65520.0, 1e300].map(|number| half_of_double(number)),
            [0x7bff, 0x7c00, 0x7c00]
        );
        assert_eq!(brain_of_single(f32::MAX), 0x7f80);
        // The smallest number, its half, which is even, and further small numbers.
        let least = 2f64.powi(-24);
        let small = [least, least / 2.0, least * 0.51, least * 1.5, 1e-300, 0.0];
        assert_eq!(small.map(|number| half_of_double(number)), [1, 0, 1, 2, 0, 0]);
        assert_eq!(half_of_double(-0.0), 0x8000);
        // A double is rounded once: with a single in between the result would be 1.0.
        assert_eq!(half_of_double(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3c01);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn extended_numbers_are_rounded_once() {
        // 1 + 2^-11 and the last bit, which does not fit into a double.
        assert_eq!(half_of_double(double_of_extended(1 << 63 | 1 << 52 | 1, 16383)), 0x3c01);
        assert_eq!(half_of_double(double_of_extended(1 << 63 | 1 << 52, 16383)), 0x3c00);
        assert_eq!(half_of_double(double_of_extended(1 << 63, 0x8000 | 16384)), 0xc000);
        assert_eq!(half_of_double(double_of_extended(1 << 63, 32000)), 0x7c00);
        assert_eq!(half_of_double(double_of_extended(1 << 63, 5)), 0);
        assert_eq!(half_of_double(double_of_extended(0, 0x8000)), 0x8000);
        assert_eq!(half_of_double(double_of_extended(1 << 63, 0x7fff)), 0x7c00);
        assert!(double_of_extended(3 << 62, 0x7fff).is_nan());
    }
}
