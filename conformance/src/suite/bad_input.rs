//! Bad images: the right error, and a device that still works.

use super::context::{Context, Counter, refused};
use super::{Check, Stop, behaviour_list, ensure, ensure_eq};
use crate::TrustedImages;
use longshore::{Error, ErrorCode, Format, Result};
use std::time::{Duration, Instant};

behaviour_list! { "bad_input":
    "an empty image is refused" ["P-38"] empty_images_are_refused;
    "rubbish is refused" ["P-38"] rubbish_is_refused;
    "an image cut off anywhere is refused" ["P-38"] truncated_images_are_refused;
    "an image with a bit flipped in its first bytes does no harm"
        ["P-38"] flipped_headers_do_no_harm;
    "an image with a bit flipped anywhere does no harm" ["P-38"] flipped_bits_do_no_harm;
    "an image with rubbish behind its header is refused or harmless"
        ["P-38"] gutted_images_do_no_harm;
    "an image of another architecture is refused" ["P-37", "P-38"] other_architectures_are_refused;
    "an image with an undefined symbol is refused" ["P-38"] undefined_symbols_are_refused;
    "a refused image is refused again" ["P-30", "P-38"] refusals_are_repeatable;
}

fn empty_images_are_refused(cx: &Context) -> Check {
    must_refuse(cx, b"", "no bytes")?;
    works(cx)
}

fn rubbish_is_refused(cx: &Context) -> Check {
    let noise: Vec<u8> = noise().take(70_000).collect();
    for length in [1, 2, 4, 15, 16, 63, 64, 65, 1000, 70_000] {
        must_refuse(cx, &noise[..length], &format!("{length} bytes of noise"))?;
        must_refuse(cx, &vec![0; length], &format!("{length} zeros"))?;
        must_refuse(cx, &vec![0xff; length], &format!("{length} times 0xff"))?;
    }
    let magics: [&[u8]; 8] = [
        b"\x7fELF",
        b"\x7fELF\x02\x01\x01",
        b"!<arch>\n",
        b"\x03\x02\x23\x07",
        b"\x10\xff\x10\xad",
        b"__CLANG_OFFLOAD_BUNDLE__",
        b"\x50\xed\x55\xba",
        b".version 99.0\n.target sm_1\n",
    ];
    for magic in magics {
        must_refuse(cx, magic, &format!("{magic:x?} alone"))?;
        let image = [magic, &noise[..500]].concat();
        must_refuse(cx, &image, &format!("{magic:x?} and noise"))?;
    }
    works(cx)
}

fn truncated_images_are_refused(cx: &Context) -> Check {
    let image = cx.image("basic")?;
    for length in (0..image.len()).step_by(64).chain(1..64) {
        // A device may not read the end of an image.
        may_refuse(cx, &image[..length], &format!("the first {length} bytes"))?;
    }
    for length in [1, 16, 63, 64, image.len() / 8] {
        must_refuse(cx, &image[..length], &format!("the first {length} bytes"))?;
    }
    works(cx)
}

/// Number of images with a flipped bit that a device gets, unless `LONGSHORE_FLIPPED_BITS` is set.
const SAMPLES: usize = 2500;

fn samples() -> usize {
    let asked = std::env::var("LONGSHORE_FLIPPED_BITS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(SAMPLES).max(1)
}

fn flipped_headers_do_no_harm(cx: &Context) -> Check {
    let image = cx.image("basic")?;
    // An odd step visits every bit of a byte in turn.
    let step = (SAMPLES / samples() / 2) | 1;
    for bit in (0..image.len().min(64) * 8).step_by(step) {
        flipped(cx, &image, bit)?;
    }
    works(cx)
}

fn flipped_bits_do_no_harm(cx: &Context) -> Check {
    const PASSES: usize = 5;
    /// The time limit, for devices that compile images: such a device gets fewer of them.
    const ENOUGH: Duration = Duration::from_secs(30);
    let end = Instant::now() + ENOUGH;
    let image = cx.image("basic")?;
    let bits = image.len() * 8;
    // In formats with tables of headers, the tables follow the first header.
    let headers = (64..image.len().min(1024)).map(|byte| byte * 8 + byte * 5 % 8);
    let headers = headers.step_by((SAMPLES / samples()).max(1));
    // An odd step, as above.
    let step = (bits / (samples() * 3 / 5).max(1)).max(1) | 1;
    let all = (0..PASSES).flat_map(|pass| (pass * step..bits).step_by(step * PASSES));
    for bit in all.chain(headers).take_while(|_| Instant::now() < end) {
        flipped(cx, &image, bit)?;
    }
    works(cx)
}

fn flipped(cx: &Context, image: &[u8], bit: usize) -> Check {
    let mut changed = image.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    may_refuse(cx, &changed, &format!("bit {} of byte {} flipped", bit % 8, bit / 8))
}

fn gutted_images_do_no_harm(cx: &Context) -> Check {
    let image = cx.image("basic")?;
    for keep in [4, 16, 20, 64, 256, image.len() / 2] {
        let kept = &image[..keep.min(image.len())];
        for filler in [0u8, 0xff] {
            let mut changed = kept.to_vec();
            changed.resize(image.len(), filler);
            let what = format!("{keep} bytes, then {filler:#x}");
            may_refuse(cx, &changed, &what)?;
        }
        let changed: Vec<u8> = kept.iter().copied().chain(noise()).take(image.len()).collect();
        may_refuse(cx, &changed, &format!("{keep} bytes, then noise"))?;
    }
    works(cx)
}

fn other_architectures_are_refused(cx: &Context) -> Check {
    const MACHINE: std::ops::Range<usize> = 18..20;
    let image = cx.image("basic")?;
    if !image.starts_with(b"\x7fELF") || image.len() < 64 {
        return Err(Stop::Skipped("the image's format is not ELF".to_owned()));
    }
    let own = [image[18], image[19]];
    // i386, PowerPC64, S/390, ARM, x86-64, AArch64, CUDA, AMDGPU, RISC-V, none, unassigned
    for machine in [3u16, 21, 22, 40, 62, 183, 190, 224, 243, 0, 0xfff0] {
        let machine_bytes = machine.to_le_bytes();
        if machine_bytes == own {
            continue;
        }
        let mut changed = image.to_vec();
        changed[MACHINE].copy_from_slice(&machine_bytes);
        let what = format!("an image for machine {machine}");
        let answer = cx.device().accepts(&changed)?;
        ensure!(!answer.is_accepted(), "{what} was accepted");
        must_refuse(cx, &changed, &what)?;
    }
    works(cx)
}

fn undefined_symbols_are_refused(cx: &Context) -> Check {
    let image = cx.image("undefined")?;
    refused(cx.device().load_trusted(&*image), ErrorCode::LinkFailure, "an undefined symbol")?;
    works(cx)
}

fn refusals_are_repeatable(cx: &Context) -> Check {
    let image = cx.image("basic")?;
    let half = &image[..image.len() / 8];
    let mut messages = Vec::new();
    for _ in 0..50 {
        let error = cx.device().load_trusted(half).err();
        messages.push(error.map(|error| error.to_string()));
    }
    messages.dedup();
    ensure!(messages.len() == 1 && messages[0].is_some(), "the answers differ: {messages:?}");
    works(cx)
}

/// Loads an image that no device can accept.
fn must_refuse(cx: &Context, image: &[u8], what: &str) -> Check {
    match load(cx, image) {
        Ok(()) => Err(Stop::Failed(format!("{what} was loaded"))),
        Err(error) => rightly(&error, image, &[], what),
    }
}

/// Loads an image that may be another valid image, with features that the device may lack.
fn may_refuse(cx: &Context, image: &[u8], what: &str) -> Check {
    load(cx, image).or_else(|error| rightly(&error, image, &[ErrorCode::Unsupported], what))
}

fn load(cx: &Context, image: &[u8]) -> Result<()> {
    cx.device().load_trusted(image)?.unload().map(drop)
}

fn rightly(error: &Error, image: &[u8], also: &[ErrorCode], what: &str) -> Check {
    let in_source: &[_] = match Format::recognize(image) {
        // LLVM may end its process.
        Format::Bitcode => &[ErrorCode::CompileFailure, ErrorCode::BackendFailure],
        _ if is_source(image) => &[ErrorCode::CompileFailure],
        _ => &[],
    };
    let always: &[_] = &[ErrorCode::InvalidBinary, ErrorCode::LinkFailure];
    let expected = [always, in_source, also].concat();
    ensure!(
        expected.contains(&error.code()),
        "{what}: expected one of {expected:?}, got {error:?}"
    );
    ensure!(!error.message().is_empty(), "{what} was refused without a reason");
    Ok(())
}

/// Returns whether the image may be source text (WGSL, PTX), in which a compiler finds the errors.
fn is_source(image: &[u8]) -> bool {
    const SIGNS: [&[u8]; 2] = [b"@compute", b".version"];
    SIGNS.iter().any(|sign| image.windows(sign.len()).any(|window| window == *sign))
}

/// Checks that the device still works.
fn works(cx: &Context) -> Check {
    let queue = cx.queue()?;
    let basic = Counter::new(cx.load("basic")?)?;
    basic.bump(&queue)?;
    ensure_eq!(basic.read(&queue)?, 6, "counter afterwards");
    Ok(())
}

/// Returns bytes without a pattern, the same in every run (xorshift).
fn noise() -> impl Iterator<Item = u8> {
    let step = |state: &u64| {
        let mut next = *state;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        Some(next)
    };
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15), step).map(|state: u64| (state >> 32) as u8)
}
