//! The name of an image's twin.

/// Returns the name, without `.o`, of the file with an image's twin: 64-bit FNV-1a of the image, in
/// 16 hexadecimal digits. Zeros at the image's end do not count, as a text may or may not end with
/// a NUL.
pub fn image_hash(image: &[u8]) -> String {
    let end = image.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let hash = image[..end].iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_same_hash_with_and_without_its_end() {
        assert_eq!(image_hash(b"a"), "af63dc4c8601ec8c");
        assert_eq!(image_hash(b"a\0"), image_hash(b"a"));
        assert_ne!(image_hash(b"b"), image_hash(b"a"));
        assert_eq!(image_hash(b"\0\0"), image_hash(b""));
    }
}
