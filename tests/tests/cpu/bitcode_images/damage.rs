//! Damaged bitcode: cut, and with flipped bits, which may crash LLVM or let it hang.

use super::{Shop, answer, clang};
use longshore::{ErrorCode, Image};
use longshore_conformance::TrustedImages;
use std::time::{Duration, Instant};

/// Number of images with flipped bits, unless `LONGSHORE_FLIPPED_BITS` is set.
const IMAGES: usize = 500;
/// Time after which no further image is tried.
const ENOUGH: Duration = Duration::from_secs(30);

#[test]
fn cut_bitcode_is_reported_as_damaged_and_not_as_a_devices_lack() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let host = shop.host(&[]).build().unwrap();
    let good = shop.answering(clang, 5, &[]);
    for cut in [5, 64, good.len() / 3, good.len() / 2, good.len() - 8] {
        let image = Image::from(&good[..cut]);
        let chosen = host.device_for(&image).err();
        let loaded = host.default_device().unwrap().load_trusted(image).err();
        assert!(loaded.is_some(), "{cut} of {} bytes are loaded", good.len());
        // The beginning of the longest one is whole, so that a device is found for it.
        assert!(chosen.is_some() || cut == good.len() - 8, "{cut}");
        for error in chosen.into_iter().chain(loaded) {
            assert_eq!(error.code(), ErrorCode::InvalidBinary, "{cut}: {error}");
            assert!(error.message().contains("damaged"), "{cut}: {error}");
        }
    }
    assert!(host.device_for(&Image::from(good)).is_ok());
}

/// A kernel without a constructor: the code that is made of a damaged module must not run.
const HARMLESS: &str = "static const unsigned table[] = {3, 5, 7};\n\
    static unsigned mixed(unsigned n) { return n ? mixed(n / 3) * table[n % 3] : 1; }\n\
    void k(void **args) {\n\
        unsigned *out = *(unsigned **)args[0];\n\
        for (unsigned n = 0; n < 64; n++) out[n] = mixed(n) + out[n ^ 1];\n\
    }\n";

#[test]
fn flipped_bits_give_an_error_or_a_program_and_the_next_image_is_loaded() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let device = shop.device(&[("TIME_LIMIT", "10")]);
    let (good, check) = (shop.bitcode(clang, HARMLESS, &[]), shop.answering(clang, 5, &[]));
    let wanted = std::env::var("LONGSHORE_FLIPPED_BITS").ok().and_then(|text| text.parse().ok());
    let (begin, mut state, mut refused) = (Instant::now(), 0x9e37_79b9_7f4a_7c15_u64, 0);
    for number in 0..wanted.unwrap_or(IMAGES) {
        if begin.elapsed() > ENOUGH {
            break;
        }
        let mut image = good.clone();
        for _ in 0..=number % 3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number as u64 | 1);
            let bit = (state >> 20) as usize % (8 * image.len());
            image[bit / 8] ^= 1 << (bit % 8);
        }
        if let Err(error) = device.load_trusted(image) {
            refused += 1;
            assert!(
                matches!(
                    error.code(),
                    ErrorCode::InvalidBinary
                        | ErrorCode::BackendFailure
                        | ErrorCode::CompileFailure
                        | ErrorCode::LinkFailure
                        | ErrorCode::Unsupported
                ),
                "image {number}: {error:?}"
            );
            assert!(!error.message().is_empty());
        }
    }
    assert!(refused > 0, "flipped bits are never noticed");
    assert_eq!(answer(&device, check), Ok(5));
}
