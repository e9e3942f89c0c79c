//! The kind of a file, by its first bytes.

use longshore_jitlink::Architecture;
use object::LittleEndian;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_386, EM_AARCH64, EM_ARM, EM_RISCV,
    EM_X86_64, ET_DYN, ET_EXEC, ET_REL, FileHeader64, Machine,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// A kind of file that a user may give to a linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A relocatable object.
    Object(Architecture),
    SharedLibrary(Architecture),
    Executable,
    /// ELF for an unsupported processor or ABI, by its name.
    Foreign(String),
    Archive,
    ThinArchive,
    /// Text for a system linker, with the files that it names.
    LinkerScript(Vec<String>),
    /// LLVM bitcode, as `-flto` makes it.
    Bitcode,
    /// LLVM's assembly text, as `-S -emit-llvm` makes it.
    AssemblyText,
    Other,
}

impl Kind {
    pub(super) fn detect(bytes: &[u8]) -> Kind {
        match bytes {
            _ if bytes.starts_with(&ELFMAG) => elf_kind(bytes).unwrap_or(Kind::Other),
            _ if bytes.starts_with(b"!<arch>\n") => Kind::Archive,
            _ if bytes.starts_with(b"!<thin>\n") => Kind::ThinArchive,
            _ if bytes.starts_with(b"BC\xc0\xde") => Kind::Bitcode,
            _ if is_assembly_text(bytes) => Kind::AssemblyText,
            _ => text_kind(bytes).unwrap_or(Kind::Other),
        }
    }
}

fn elf_kind(bytes: &[u8]) -> Option<Kind> {
    if let Some(what) = foreign(bytes.first_chunk()?) {
        return Some(Kind::Foreign(what));
    }
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let architecture = match header.e_machine(LittleEndian) {
        EM_AARCH64 => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    Some(match header.e_type(LittleEndian) {
        ET_REL => Kind::Object(architecture),
        ET_EXEC => Kind::Executable,
        ET_DYN if is_executable(header, bytes) => Kind::Executable,
        ET_DYN => Kind::SharedLibrary(architecture),
        _ => Kind::Other,
    })
}

/// Returns the name of an unsupported processor or ABI; `None` if the linker supports it.
fn foreign(start: &[u8; 20]) -> Option<String> {
    let is_64_bit = start[4] == ELFCLASS64.0;
    let is_little = start[5] == ELFDATA2LSB.0;
    let machine = [start[18], start[19]];
    let machine = match is_little {
        true => u16::from_le_bytes(machine),
        false => u16::from_be_bytes(machine),
    };
    Some(match Machine(machine) {
        EM_X86_64 | EM_AARCH64 if is_64_bit && is_little => return None,
        EM_X86_64 => "x32, the ABI of x86-64 with pointers of 32 bits".to_owned(),
        EM_AARCH64 if is_64_bit => "big-endian AArch64".to_owned(),
        EM_386 => "x86 with 32 bits".to_owned(),
        EM_ARM => "Arm with 32 bits".to_owned(),
        EM_RISCV => "RISC-V".to_owned(),
        Machine(number) => format!("ELF machine {number}"),
    })
}

/// Returns whether a position-independent file is an executable.
fn is_executable(header: &FileHeader64<LittleEndian>, bytes: &[u8]) -> bool {
    let segments = header.program_headers(LittleEndian, bytes).unwrap_or_default();
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(LittleEndian, bytes).ok()?);
    dynamic.unwrap_or_default().iter().any(|entry| {
        entry.d_tag(LittleEndian) == DT_FLAGS_1 && entry.d_val(LittleEndian) & DF_1_PIE.0 != 0
    })
}

/// Returns whether the first line that is neither empty nor a comment is one of LLVM's assembly
/// text.
fn is_assembly_text(bytes: &[u8]) -> bool {
    const LONGEST: usize = 4 << 10;
    /// Beginnings of lines in a module up to its first function.
    const STARTS: [&[u8]; 9] = [
        b"source_filename = ",
        b"target datalayout = ",
        b"target triple = ",
        b"module asm ",
        b"define ",
        b"declare ",
        b"attributes #",
        b"@",
        b"%",
    ];
    let start = bytes.get(..LONGEST).unwrap_or(bytes);
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    // Comments begin with a semicolon.
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b";")).unwrap_or_default();
    let is_named = first.starts_with(b"@") || first.starts_with(b"%");
    let has_start = STARTS.iter().any(|word| first.starts_with(word));
    has_start && (!is_named || first.windows(3).any(|part| part == b" = "))
}

/// Returns a linker script if the text looks like a script that stands for a library.
fn text_kind(bytes: &[u8]) -> Option<Kind> {
    const LONGEST: usize = 64 << 10;
    let text = std::str::from_utf8(bytes.get(..LONGEST).unwrap_or(bytes)).ok()?;
    let commands = without_comments(text);
    let mut words = commands.split(|c: char| c.is_whitespace() || "(),;\"".contains(c));
    let first = words.find(|word| !word.is_empty())?;
    if !["OUTPUT_FORMAT", "GROUP", "INPUT", "SEARCH_DIR", "AS_NEEDED"].contains(&first) {
        return None;
    }
    let is_file = |word: &&str| {
        word.contains('/') || word.starts_with("-l") || word.contains(".so") || word.ends_with(".a")
    };
    Some(Kind::LinkerScript(words.filter(is_file).map(str::to_owned).collect()))
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(' ');
        kept.push_str(part.split_once("*/").map_or("", |(_, behind)| behind));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Detects the kind of an ELF header with these fields.
    fn elf(class: u8, data: u8, kind: u16, machine: u16) -> Kind {
        let mut bytes = [0; 64];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, data, 1]);
        let number =
            |number: u16| if data == 1 { number.to_le_bytes() } else { number.to_be_bytes() };
        bytes[16..18].copy_from_slice(&number(kind));
        bytes[18..20].copy_from_slice(&number(machine));
        Kind::detect(&bytes)
    }

    fn foreign(what: &str) -> Kind {
        Kind::Foreign(what.to_owned())
    }

    #[test]
    fn elf_files_are_distinguished_by_type_class_and_machine() {
        assert_eq!(elf(2, 1, 1, 62), Kind::Object(Architecture::X86_64));
        assert_eq!(elf(2, 1, 1, 183), Kind::Object(Architecture::Aarch64));
        assert_eq!(elf(2, 1, 2, 62), Kind::Executable);
        assert_eq!(elf(2, 1, 3, 183), Kind::SharedLibrary(Architecture::Aarch64));
        assert_eq!(elf(2, 1, 4, 62), Kind::Other);
        assert_eq!(elf(1, 1, 1, 3), foreign("x86 with 32 bits"));
        assert_eq!(elf(1, 1, 1, 62), foreign("x32, the ABI of x86-64 with pointers of 32 bits"));
        assert_eq!(elf(2, 2, 1, 183), foreign("big-endian AArch64"));
        assert_eq!(elf(2, 1, 1, 243), foreign("RISC-V"));
        assert_eq!(elf(2, 2, 1, 22), foreign("ELF machine 22"));
        assert_eq!(Kind::detect(b"\x7fELF\x02"), Kind::Other);
    }

    #[test]
    fn this_program_is_an_executable() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Kind::detect(&bytes), Kind::Executable);
    }

    #[test]
    fn linker_scripts_are_recognised_and_name_their_files() {
        let script = "/* GNU ld script\n   for /some/file */\nOUTPUT_FORMAT(elf64-x86-64)\n\
                      GROUP ( /lib/libc.so.6 /lib/libc_nonshared.a AS_NEEDED ( -lm ) )";
        let files = ["/lib/libc.so.6", "/lib/libc_nonshared.a", "-lm"].map(str::to_owned);
        assert_eq!(Kind::detect(script.as_bytes()), Kind::LinkerScript(files.into()));
        assert_eq!(Kind::detect(b"INPUT(x.a)"), Kind::LinkerScript(vec!["x.a".to_owned()]));
        for other in ["", "not a script", "/* GROUP(x.a) */ int main;", "\u{0}\u{1}"] {
            assert_eq!(Kind::detect(other.as_bytes()), Kind::Other, "{other}");
        }
    }

    #[test]
    fn archives_and_bitcode_are_known_by_their_first_bytes() {
        assert_eq!(Kind::detect(b"!<arch>\n"), Kind::Archive);
        assert_eq!(Kind::detect(b"!<thin>\nx"), Kind::ThinArchive);
        assert_eq!(Kind::detect(b"BC\xc0\xde5"), Kind::Bitcode);
    }

    #[test]
    fn text_of_llvm_is_known_by_its_first_line() {
        for text in [
            "; ModuleID = 'a.c'\nsource_filename = \"a.c\"\n",
            "\n  target triple = \"x86_64-pc-linux-gnu\"",
            "define i32 @main() {",
            "@x = global i32 1",
            "%pair = type { i32, i32 }",
        ] {
            assert_eq!(Kind::detect(text.as_bytes()), Kind::AssemblyText, "{text}");
        }
        for text in ["", "; a comment", "@file", "%", "definition", "int main() {}", "\0define "] {
            assert_eq!(Kind::detect(text.as_bytes()), Kind::Other, "{text}");
        }
    }
}
