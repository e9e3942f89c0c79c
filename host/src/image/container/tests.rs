use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn two_images() -> Vec<u8> {
    let image = |triple, arch, bytes| OffloadImage {
        image_kind: ImageKind::Object,
        offload_kind: OffloadKind::OpenMp,
        triple,
        arch,
        bytes,
    };
    write_offload_binary(&[
        image("x86_64-unknown-linux-gnu", "x86-64-v3", b"first image"),
        image("nvptx64-nvidia-cuda", "sm_90", b"the second"),
    ])
}

fn entries(bytes: impl Into<Image>) -> Vec<ContainerEntry> {
    bytes.into().entries().unwrap().expect("a container")
}

/// Returns triple, architecture and bytes of each entry.
fn summary(entries: &[ContainerEntry]) -> Vec<(&str, &str, &[u8])> {
    entries.iter().map(|e| (&e.triple[..], &e.arch[..], e.image.bytes())).collect()
}

#[test]
fn written_images_are_read_again_from_the_same_storage() {
    let image = Image::from(two_images());
    let found = image.entries().unwrap().unwrap();
    assert_eq!(
        summary(&found),
        [
            ("x86_64-unknown-linux-gnu", "x86-64-v3", &b"first image"[..]),
            ("nvptx64-nvidia-cuda", "sm_90", b"the second"),
        ]
    );
    assert_eq!(
        (found[0].offload_kind, found[0].image_kind),
        (OffloadKind::OpenMp, ImageKind::Object)
    );
    let within = image.bytes().as_ptr_range();
    for entry in &found {
        assert!(within.contains(&entry.image.bytes().as_ptr()));
        assert_eq!(entry.image.bytes().as_ptr().addr() % 8, 0);
    }
}

/// Returns a binary of a later version: `images` with one property each.
fn later_version(version: u32, images: &[(&str, &[u8])]) -> Vec<u8> {
    let header_bytes = if version >= 3 { 40 } else { 32 };
    let strings_at = header_bytes + 40 * images.len();
    let mut text: Vec<u8> = b"arch\0".to_vec();
    let text_at = strings_at + 24 * images.len();
    let arch_bytes: usize = images.iter().map(|(arch, _)| arch.len()).sum();
    let mut image_at = (text_at + text.len() + arch_bytes).next_multiple_of(8);
    let (mut entries, mut strings) = (Vec::new(), Vec::new());
    let content = images.iter().flat_map(|(_, bytes)| *bytes);
    let put = |into: &mut Vec<u8>, numbers: &[usize]| {
        into.extend(numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()));
    };
    for (index, (arch, bytes)) in images.iter().enumerate() {
        entries.extend([1, 0, 4, 0, 0, 0, 0, 0]);
        put(&mut entries, &[strings_at + 24 * index, 1, image_at, bytes.len()]);
        put(&mut strings, &[text_at, text_at + text.len(), arch.len()]);
        text.extend(arch.bytes());
        image_at += bytes.len();
    }
    let total = image_at.next_multiple_of(8);
    let mut whole = vec![0x10, 0xff, 0x10, 0xad];
    whole.extend(version.to_le_bytes());
    put(&mut whole, &[total, header_bytes, images.len()]);
    whole.resize(header_bytes, 0);
    whole.extend(entries);
    whole.extend(strings);
    whole.extend(text);
    whole.resize(whole.len().next_multiple_of(8), 0);
    whole.extend(content);
    whole.resize(total, 0);
    whole
}

#[test]
fn later_versions_hold_several_images_in_one_binary() {
    for version in [2, 3] {
        let binary = later_version(version, &[("gfx90a", b"one"), ("gfx1100", b"two!")]);
        let found = entries(binary);
        let expected = [("", "gfx90a", &b"one"[..]), ("", "gfx1100", b"two!")];
        assert_eq!(summary(&found), expected, "version {version}");
        assert_eq!(found[1].offload_kind, OffloadKind::Hip);
    }
    let error = Image::from(later_version(4, &[("x", b"y")])).entries().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(error.message().contains("version 4"), "{error}");
}

#[test]
fn hip_has_the_number_of_later_and_of_earlier_versions() {
    for (number, kind) in
        [(4, OffloadKind::Hip), (3, OffloadKind::Hip), (16, OffloadKind::Other(16))]
    {
        let mut binary = later_version(2, &[("gfx90a:xnack+", b"one")]);
        binary[34] = number;
        let found = entries(binary);
        assert_eq!((found[0].offload_kind, &found[0].arch[..]), (kind, "gfx90a:xnack+"));
    }
}

#[test]
fn the_compressed_binary_of_version_3_is_decompressed() {
    use std::io::Write;
    let whole = later_version(3, &[("gfx90a", b"one"), ("gfx1100", b"two!")]);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&whole[40..]).unwrap();
    let body = encoder.finish().unwrap();
    let mut binary = whole[..40].to_vec();
    binary.extend(&body);
    binary[8..16].copy_from_slice(&(40 + body.len() as u64).to_le_bytes());
    binary[32..40].copy_from_slice(&(whole.len() as u64).to_le_bytes());
    binary.resize(binary.len().next_multiple_of(8), 0);
    assert_eq!(summary(&entries(&binary)), summary(&entries(whole)));
    for bit in 0..binary.len() * 8 {
        let _ = Image::from(flipped(&binary, bit)).entries();
    }
}

#[test]
fn decompressed_data_has_the_claimed_size_and_stays_below_the_limit() {
    use std::io::Write;
    let plain = bundle(&[("hip-amdgcn-amd-amdhsa--gfx90a", &[7; 1 << 16])], 8);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&plain).unwrap();
    let body = encoder.finish().unwrap();
    let claiming = |bytes: u64| {
        let mut compressed = b"CCOB\x03\0\0\0".to_vec();
        compressed.extend((32 + body.len() as u64).to_le_bytes());
        compressed.extend(bytes.to_le_bytes());
        compressed.resize(32, 0);
        compressed.extend(&body);
        Image::from(compressed).entries()
    };
    let there = plain.len() as u64;
    assert_eq!(claiming(there).unwrap().unwrap()[0].image.bytes(), [7; 1 << 16]);
    for (bytes, code) in [
        (there - 1, ErrorCode::InvalidBinary),
        (there + 1, ErrorCode::InvalidBinary),
        (0, ErrorCode::InvalidBinary),
        (MOST_BYTES_MADE as u64 + 1, ErrorCode::Unsupported),
        (u64::MAX, ErrorCode::Unsupported),
    ] {
        let error = claiming(bytes).unwrap_err();
        assert_eq!(error.code(), code, "{bytes}: {error}");
    }
}

/// Returns a bundle with these ids and images, which start at multiples of `alignment`.
fn bundle(images: &[(&str, &[u8])], alignment: usize) -> Vec<u8> {
    let ids: usize = images.iter().map(|(id, _)| 24 + id.len()).sum();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((images.len() as u64).to_le_bytes());
    let mut content: Vec<u8> = Vec::new();
    let base = bytes.len() + ids;
    for (id, image) in images {
        let start = (base + content.len()).next_multiple_of(alignment);
        content.resize(start - base, 0);
        content.extend(*image);
        for number in [start, image.len(), id.len()] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(id.bytes());
    }
    bytes.extend(content);
    bytes
}

#[test]
fn bundles_lie_one_after_the_other_with_ids_of_all_ages() {
    let mut bytes = bundle(
        &[
            ("host-x86_64-unknown-linux-gnu-", b""),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", b"one"),
            ("hip-amdgcn-amd-amdhsa-gfx906", b"two"),
        ],
        64,
    );
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    bytes.extend(bundle(&[("openmp-amdgcn-amd-amdhsa--gfx10-3-generic", b"three")], 1));
    let found = entries(bytes);
    assert_eq!(
        summary(&found),
        [
            ("x86_64-unknown-linux-gnu", "", &b""[..]),
            ("amdgcn-amd-amdhsa", "gfx90a:xnack+", b"one"),
            ("amdgcn-amd-amdhsa", "gfx906", b"two"),
            ("amdgcn-amd-amdhsa", "gfx10-3-generic", b"three"),
        ]
    );
    let kinds: Vec<_> = found.iter().map(|entry| entry.offload_kind.to_string()).collect();
    assert_eq!(kinds, ["host", "hip", "hip", "openmp"]);
}

#[test]
fn containers_in_containers_are_opened_to_a_depth() {
    let nest = |inner: &[u8]| bundle(&[("hip-amdgcn-amd-amdhsa--gfx90a", inner)], 8);
    let mut nested = two_images();
    for _ in 1..MOST_DEEP {
        nested = nest(&nested);
        assert_eq!(summary(&entries(&nested)), summary(&entries(two_images())));
    }
    let error = Image::from(nest(&nested)).entries().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
}

#[test]
fn other_files_than_containers_have_no_entries() {
    for bytes in [&b""[..], b"text", b"\x7fELF", b"!<arch>\n"] {
        assert!(Image::from(bytes).entries().unwrap().is_none(), "{bytes:?}");
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_gives_entries_or_an_error() {
    let nested = bundle(&[("hip-amdgcn-amd-amdhsa--gfx90a", &two_images())], 8);
    let samples = [two_images(), later_version(3, &[("a", b"b"), ("c", b"d")]), nested];
    for whole in samples {
        for end in 0..whole.len() {
            let image = Image::from(&whole[..end]);
            for entry in image.entries().ok().flatten().into_iter().flatten() {
                assert!(entry.image.bytes().len() <= end);
            }
        }
        for bit in 0..whole.len() * 8 {
            let _ = Image::from(flipped(&whole, bit)).entries();
        }
    }
}

fn flipped(whole: &[u8], bit: usize) -> Vec<u8> {
    let mut damaged = whole.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    damaged
}

#[test]
fn numbers_that_no_file_has_are_refused() {
    let whole = two_images();
    for at in [8, 16, 40, 48, 56, 64] {
        for number in [u64::MAX, u64::MAX - 7, 1 << 63, whole.len() as u64 + 1] {
            let mut damaged = whole.clone();
            damaged[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let result = Image::from(damaged).entries();
            // The number of strings is bounded, whatever number the entry declares.
            let is_count = at == 48;
            assert!(is_count || result.is_err(), "{number} at {at}: {result:?}");
        }
    }
}

#[test]
fn one_file_cannot_claim_more_images_than_the_limit() {
    let id = ("hip-amdgcn-amd-amdhsa--gfx90a", &b"x"[..]);
    let few = vec![id; MOST_ENTRIES];
    assert_eq!(entries(bundle(&few, 1)).len(), MOST_ENTRIES);
    let many = vec![id; MOST_ENTRIES + 1];
    let error = Image::from(bundle(&many, 1)).entries().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
}

/// Returns the named tools of LLVM 19 or 22, all of the same installed version.
fn tools() -> Vec<[String; 3]> {
    let all = ["19", "22"].map(|version| {
        ["clang", "clang-offload-packager", "clang-offload-bundler"]
            .map(|tool| format!("{tool}-{version}"))
    });
    let is_installed = |tool: &String| {
        Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    let there: Vec<_> = all.into_iter().filter(|tools| tools.iter().all(is_installed)).collect();
    if there.is_empty() {
        println!("clang-19 and clang-tools-19 are not installed; nothing was tried");
    }
    there
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn file(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns two images of different lengths, that compress well.
fn samples(folder: &Path) -> [(PathBuf, Vec<u8>); 2] {
    [("a", 3001), ("b", 1000)].map(|(name, count)| {
        let content = name.repeat(count).into_bytes();
        (file(folder, name, &content), content)
    })
}

#[test]
fn the_packager_of_llvm_and_the_library_read_each_other() {
    for [_, packager, _] in tools() {
        let folder = tempfile::tempdir().unwrap();
        let [(a, a_bytes), (b, b_bytes)] = samples(folder.path());
        let theirs = folder.path().join("theirs");
        let image = |path: &Path, rest: &str| format!("--image=file={},{rest}", path.display());
        run(Command::new(&packager).arg("-o").arg(&theirs).args([
            image(&a, "triple=amdgcn-amd-amdhsa,arch=gfx90a:sramecc+:xnack-,kind=hip"),
            image(&b, "triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda,extra=yes"),
        ]));
        let found = entries(std::fs::read(&theirs).unwrap());
        let expected = [
            ("amdgcn-amd-amdhsa", "gfx90a:sramecc+:xnack-", &a_bytes[..]),
            ("nvptx64-nvidia-cuda", "sm_90", &b_bytes),
        ];
        assert_eq!(summary(&found), expected, "{packager}");
        assert_eq!(found[0].offload_kind, OffloadKind::Hip, "{packager}");
        assert!(found[1].properties.contains(&("extra".to_owned(), "yes".to_owned())));

        let ours: Vec<_> = found
            .iter()
            .map(|entry| OffloadImage {
                image_kind: entry.image_kind,
                offload_kind: entry.offload_kind,
                triple: &entry.triple,
                arch: &entry.arch,
                bytes: entry.image.bytes(),
            })
            .collect();
        let ours = file(folder.path(), "ours", &write_offload_binary(&ours));
        let back = folder.path().join("back");
        run(Command::new(&packager).arg(&ours).arg(image(&back, "kind=cuda,arch=sm_90")));
        assert_eq!(std::fs::read(&back).unwrap(), b_bytes, "{packager}");
    }
}

#[test]
fn only_objects_with_images_embedded_by_clang_are_containers() {
    for [clang, ..] in tools() {
        let folder = tempfile::tempdir().unwrap();
        let source = file(folder.path(), "source.c", b"int main(void) { return 0; }");
        let packed = file(folder.path(), "packed", &two_images());
        let object = folder.path().join("object.o");
        let compile = || {
            let mut command = Command::new(&clang);
            command.args(["-c", "-o"]).arg(&object).arg(&source);
            command
        };
        run(&mut compile());
        let plain = Image::read(&object).unwrap();
        assert!(plain.entries().unwrap().is_none(), "{clang}");
        let embed = format!("-fembed-offload-object={}", packed.display());
        run(compile().args(["-Xclang", &embed]));
        let found = entries(std::fs::read(&object).unwrap());
        assert_eq!(summary(&found), summary(&entries(two_images())), "{clang}");
        let fat = std::fs::read(&object).unwrap();
        for bit in 0..fat.len() * 8 {
            let _ = Image::from(flipped(&fat, bit)).entries();
        }
    }
}

#[test]
fn bundles_of_clang_are_read_compressed_or_not() {
    for [clang, _, bundler] in tools() {
        let folder = tempfile::tempdir().unwrap();
        let [(a, a_bytes), (b, b_bytes)] = samples(folder.path());
        let make = |name: &str, first: &Path, options: &[&str]| {
            let path = folder.path().join(name);
            let mut command = Command::new(&bundler);
            let targets = "host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a:xnack+";
            command.args(["-type=o", &format!("-targets={targets}")]).args(options);
            command.arg(format!("-input={}", first.display()));
            command.arg(format!("-input={}", b.display()));
            run(command.arg(format!("-output={}", path.display())));
            std::fs::read(path).unwrap()
        };
        let (plain, aligned) =
            (make("plain", &a, &[]), make("aligned", &a, &["-bundle-align=4096"]));
        let compressed = make("compressed", &a, &["-compress"]);
        assert_eq!(Image::from(&compressed).format(), Format::CompressedOffloadBundle);
        for bytes in [&plain, &aligned, &compressed, &[&plain[..], &compressed].concat()] {
            let found = entries(bytes);
            let first = &summary(&found)[..2];
            let expected = [
                ("x86_64-unknown-linux-gnu", "", &a_bytes[..]),
                ("amdgcn-amd-amdhsa", "gfx90a:xnack+", &b_bytes),
            ];
            assert_eq!(first, expected, "{bundler}");
        }
        for end in 4..compressed.len() {
            let error = Image::from(&compressed[..end]).entries().unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary, "{bundler}, {end}: {error}");
        }
        for bit in 0..compressed.len() * 8 {
            let _ = Image::from(flipped(&compressed, bit)).entries();
        }
        let source = file(folder.path(), "source.c", b"int main(void) { return 0; }");
        let object = folder.path().join("object.o");
        run(Command::new(&clang).args(["-c", "-o"]).arg(&object).arg(&source));
        let found = entries(make("sections", &object, &[]));
        let last = summary(&found)[found.len() - 1];
        assert_eq!(last, ("amdgcn-amd-amdhsa", "gfx90a:xnack+", &b_bytes[..]), "{bundler}");
    }
}
