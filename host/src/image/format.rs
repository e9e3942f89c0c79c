//! Recognition of an image's format by its bytes.

use longshore_plugin_api::is_bitcode;
use object::read::archive::ArchiveFile;
use std::fmt;

/// The format of an image. Plugins list their formats by [`Format::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// An ELF shared object for a CPU.
    ElfSharedObject {
        /// The ELF header's `e_machine`.
        machine: u16,
    },
    /// An ELF relocatable object for a CPU.
    ElfRelocatable {
        /// The ELF header's `e_machine`.
        machine: u16,
    },
    /// An ELF executable for a CPU.
    ElfExecutable {
        /// The ELF header's `e_machine`.
        machine: u16,
    },
    /// A static archive.
    Archive,
    /// NVIDIA's assembly text.
    Ptx,
    /// NVIDIA's machine code.
    Cubin,
    /// NVIDIA's container.
    Fatbin,
    /// AMD's code object.
    CodeObject,
    /// SPIR-V words.
    Spirv,
    /// WGSL source with a kernel.
    Wgsl,
    /// LLVM's OffloadBinary container.
    OffloadBinary,
    /// clang's offload bundle.
    OffloadBundle,
    /// clang's offload bundle, compressed.
    CompressedOffloadBundle,
    /// LLVM bitcode.
    Bitcode,
    /// Any other format. A plugin may still accept it.
    Unknown,
}

const UNKNOWN_TRIPLE: &str = "unknown";
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const EM_CUDA: u16 = 190;
const EM_AMDGPU: u16 = 224;
const ET_REL: u16 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

impl Format {
    /// Returns the format of an image, recognised by its first bytes, or by all bytes for WGSL,
    /// which has no magic number. Any bytes are allowed.
    pub fn recognize(bytes: &[u8]) -> Format {
        match bytes {
            [0x7f, b'E', b'L', b'F', ..] => elf(bytes),
            [b'!', b'<', b'a', b'r', b'c', b'h', b'>', b'\n', ..] => Format::Archive,
            [0x50, 0xed, 0x55, 0xba, ..] => Format::Fatbin,
            [0x03, 0x02, 0x23, 0x07, ..] | [0x07, 0x23, 0x02, 0x03, ..] => Format::Spirv,
            [0x10, 0xff, 0x10, 0xad, ..] => Format::OffloadBinary,
            _ if is_bitcode(bytes) => Format::Bitcode,
            [b'C', b'C', b'O', b'B', ..] => Format::CompressedOffloadBundle,
            _ if bytes.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") => Format::OffloadBundle,
            _ if is_ptx(bytes) => Format::Ptx,
            _ if is_wgsl(bytes) => Format::Wgsl,
            _ => Format::Unknown,
        }
    }

    /// Returns the format's name in plugins' lists of formats: "elf-so".
    pub fn name(self) -> &'static str {
        match self {
            Format::ElfSharedObject { .. } => "elf-so",
            Format::ElfRelocatable { .. } => "elf-o",
            Format::ElfExecutable { .. } => "elf-exec",
            Format::Archive => "archive",
            Format::Ptx => "ptx",
            Format::Cubin => "cubin",
            Format::Fatbin => "fatbin",
            Format::CodeObject => "code-object",
            Format::Spirv => "spirv",
            Format::Wgsl => "wgsl",
            Format::OffloadBinary => "offload-binary",
            Format::OffloadBundle => "offload-bundle",
            Format::CompressedOffloadBundle => "offload-bundle-compressed",
            Format::Bitcode => "bitcode",
            Format::Unknown => "unknown",
        }
    }

    /// Returns the target triple of an image in LLVM's spelling, derived from the format. An
    /// archive has the triple of its first member. "unknown" for formats without a triple.
    pub(crate) fn target_triple(bytes: &[u8]) -> &'static str {
        match Format::recognize(bytes) {
            Format::ElfSharedObject { machine }
            | Format::ElfRelocatable { machine }
            | Format::ElfExecutable { machine } => cpu_triple(machine),
            Format::Archive => first_member(bytes).map_or(UNKNOWN_TRIPLE, Format::target_triple),
            Format::Ptx | Format::Cubin | Format::Fatbin => "nvptx64-nvidia-cuda",
            Format::CodeObject => "amdgcn-amd-amdhsa",
            Format::Spirv | Format::Wgsl => "spirv-unknown-vulkan",
            _ => UNKNOWN_TRIPLE,
        }
    }
}

fn cpu_triple(machine: u16) -> &'static str {
    match machine {
        EM_X86_64 => "x86_64-unknown-linux-gnu",
        EM_AARCH64 => "aarch64-unknown-linux-gnu",
        _ => UNKNOWN_TRIPLE,
    }
}

/// Returns the contents of an archive's first member; `None` if that member is an archive.
fn first_member(bytes: &[u8]) -> Option<&[u8]> {
    let archive = ArchiveFile::parse(bytes).ok()?;
    let member = archive.members().next()?.ok()?.data(bytes).ok()?;
    (Format::recognize(member) != Format::Archive).then_some(member)
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the format of an ELF file. `e_type` and `e_machine` have the same offsets in both
/// classes of ELF.
fn elf(bytes: &[u8]) -> Format {
    let Some([_, _, _, _, _, data, ..]) = bytes.first_chunk::<16>() else {
        return Format::Unknown;
    };
    let half = |at: usize| {
        let pair = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if *data == 2 { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    };
    let (Some(kind), Some(machine)) = (half(16), half(18)) else {
        return Format::Unknown;
    };
    match (machine, kind) {
        (EM_CUDA, _) => Format::Cubin,
        (EM_AMDGPU, _) => Format::CodeObject,
        (_, ET_DYN) => Format::ElfSharedObject { machine },
        (_, ET_REL) => Format::ElfRelocatable { machine },
        (_, ET_EXEC) => Format::ElfExecutable { machine },
        _ => Format::Unknown,
    }
}

/// Returns whether text is PTX: `.version` is the first directive after comments.
fn is_ptx(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut directives = lines.filter(|line| !line.is_empty() && !line.starts_with(b"//"));
    directives.next().is_some_and(|line| line.starts_with(b".version"))
}

/// Returns whether text is WGSL with a compute entry point: `@compute` outside of comments, with
/// optional blanks after the `@`.
fn is_wgsl(bytes: &[u8]) -> bool {
    if bytes.contains(&0) {
        return false;
    }
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let mut rest = text;
    while let Some(at) = rest.find(['@', '/']) {
        rest = &rest[at..];
        if let Some(attribute) = rest.strip_prefix('@') {
            let name = attribute.trim_start();
            let behind = name.strip_prefix("compute").map(|behind| behind.chars().next());
            if behind.is_some_and(|next| !next.is_some_and(is_of_word)) {
                return true;
            }
        }
        rest = behind_comment(rest).unwrap_or(&rest[1..]);
    }
    false
}

/// Returns the text behind the comment at the beginning of a text. Block comments nest.
fn behind_comment(text: &str) -> Option<&str> {
    if text.starts_with("//") {
        return Some(text.find('\n').map_or("", |end| &text[end..]));
    }
    let mut rest = text.strip_prefix("/*")?;
    let mut depth = 1usize;
    while depth > 0 {
        let Some(at) = rest.find(['/', '*']) else { return Some("") };
        let (deeper, end) = match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth - 1, at + 2),
            _ => (depth, at + 1),
        };
        (depth, rest) = (deeper, &rest[end..]);
    }
    Some(rest)
}

fn is_of_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf_header(kind: u16, machine: u16) -> Vec<u8> {
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend(kind.to_le_bytes());
        header.extend(machine.to_le_bytes());
        header
    }

    #[test]
    fn formats_are_recognised_by_their_first_bytes() {
        let cases: [(&[u8], Format); 9] = [
            (b"!<arch>\nx", Format::Archive),
            (b"\x10\xff\x10\xad....", Format::OffloadBinary),
            (b"BC\xc0\xde\x35\x14", Format::Bitcode),
            (b"\xde\xc0\x17\x0b\0\0\0\0", Format::Bitcode),
            (b"__CLANG_OFFLOAD_BUNDLE__", Format::OffloadBundle),
            (b"\x03\x02\x23\x07", Format::Spirv),
            (b"//\n// Generated\n\n.version 8.0\n", Format::Ptx),
            (b"", Format::Unknown),
            (b"\x7fELF\x02\x01", Format::Unknown),
        ];
        for (bytes, format) in cases {
            assert_eq!(Format::recognize(bytes), format, "{bytes:?}");
        }
        assert_eq!(Format::recognize(&elf_header(3, 62)), Format::ElfSharedObject { machine: 62 });
        assert_eq!(Format::recognize(&elf_header(1, 62)), Format::ElfRelocatable { machine: 62 });
        assert_eq!(Format::recognize(&elf_header(2, 190)), Format::Cubin);
        assert_eq!(Format::recognize(&elf_header(3, 224)), Format::CodeObject);
    }

    #[test]
    fn text_with_an_entry_point_for_compute_is_wgsl() {
        for text in [
            "@compute @workgroup_size(64) fn f() {}",
            "/* a /* nested */ one */ // @fragment\n@ compute\n@workgroup_size(1) fn f() {}",
            "@group(0) @binding(0) var<storage> a: array<u32>; @workgroup_size(1) @compute fn f() {}",
        ] {
            assert_eq!(Format::recognize(text.as_bytes()), Format::Wgsl, "{text}");
        }
        for text in [
            "// @compute",
            "/* /* */ @compute */",
            "/* @compute",
            "@computed fn f() {}",
            "@vertex fn f() {}",
            "compute",
            "@compute\0",
            "@",
            ".version 8.0\n.target sm_90 // @compute",
        ] {
            assert_ne!(Format::recognize(text.as_bytes()), Format::Wgsl, "{text}");
        }
        assert_eq!(Format::recognize(b"@compute \xff"), Format::Unknown);
    }

    #[test]
    fn an_image_says_what_it_was_compiled_for() {
        let object = elf_header(1, 183);
        let head = format!("!<arch>\n{:16}{:32}{:<10}`\n", "a.o/", "", object.len());
        let archive = [head.as_bytes(), &object].concat();
        let nested = [
            format!("!<arch>\n{:16}{:32}{:<10}`\n", "b.a/", "", archive.len()).as_bytes(),
            &archive,
        ]
        .concat();
        let cases: [(&[u8], &str); 8] = [
            (b"\x07\x23\x02\x03", "spirv-unknown-vulkan"),
            (b"@compute @workgroup_size(1) fn f() {}", "spirv-unknown-vulkan"),
            (&elf_header(3, 62), "x86_64-unknown-linux-gnu"),
            (&object, "aarch64-unknown-linux-gnu"),
            (&archive, "aarch64-unknown-linux-gnu"),
            (&nested, "unknown"),
            (b"!<arch>\n", "unknown"),
            (&elf_header(3, 8), "unknown"),
        ];
        for (bytes, triple) in cases {
            assert_eq!(Format::target_triple(bytes), triple);
        }
    }
}
