//! Malicious files: the command needs little memory, terminates, and leaves the terminal unchanged.

use crate::support::{Outcome, alone, command, outcome, toy_plugin};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Address space of a command in bytes. A quarter of it is the stack for the translation of WGSL.
const MOST_BYTES: u64 = 1 << 30;

/// Runs a command to its end in [`MOST_BYTES`] of address space. The command aborts if it needs
/// more.
fn in_little_memory(command: &mut Command) -> Outcome {
    let limit = libc::rlimit { rlim_cur: MOST_BYTES, rlim_max: MOST_BYTES };
    // SAFETY: `setrlimit` is a system call, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    outcome(command)
}

fn inspect(file: &Path) -> Outcome {
    in_little_memory(command().arg("inspect").arg(file))
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn constants_of_wgsl_that_double_are_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let later: String =
        (1..27).map(|level| format!("const a{level}=array(a{0},a{0});\n", level - 1)).collect();
    let kernel = format!(
        "@group(0) @binding(0) var<storage,read_write> o: array<i32>;\n\
         @compute @workgroup_size(1) fn f() {{ o[0] = a26{}; }}\n",
        "[0]".repeat(27)
    );
    let doubling = write(&folder, "a.wgsl", format!("const a0=array(1,1);\n{later}{kernel}"));
    let zeros = write(
        &folder,
        "b.wgsl",
        format!("const a26=array<u32, 260000000>();\nconst b=a26==a26;\n{}", kernel),
    );
    for file in [doubling, zeros] {
        let shown = inspect(&file);
        assert!(shown.stdout.contains("constants become too large"), "{}", shown.stdout);
    }
}

/// Creates a compressed bundle with one image of `image_bytes` zeros, rounded down to MiB.
fn compressed_bundle(image_bytes: usize) -> Vec<u8> {
    use std::io::Write;
    const START: usize = 4096;
    let id = b"hip-amdgcn-amd-amdhsa--gfx90a";
    let mut head = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    for word in [1, START, image_bytes, id.len()] {
        head.extend((word as u64).to_le_bytes());
    }
    head.extend(id);
    head.resize(START, 0);
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&head).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..image_bytes >> 20).for_each(|_| encoder.write_all(&zeros).unwrap());
    let claimed = (START + image_bytes) as u32;
    let header = [&b"CCOB\x01\0\0\0"[..], &claimed.to_le_bytes(), &[0; 8]].concat();
    [header, encoder.finish().unwrap()].concat()
}

#[test]
fn a_container_that_inflates_beyond_the_limit_is_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut large = compressed_bundle(1 << 20);
    large[8..12].copy_from_slice(&u32::to_le_bytes(900 << 20));
    let large = inspect(&write(&folder, "large.hipfb", large));
    assert!(large.stdout.contains("bytes decompressed, more than 268435456"), "{}", large.stdout);
    let small = inspect(&write(&folder, "small.hipfb", compressed_bundle(64 << 20)));
    assert!(small.stdout.contains("unknown, 64 MiB"), "{}", small.stdout);
}

/// Creates an object whose symbols' names overlap.
fn overlapping(machine: u16, abi: u8, symbol_kind: u8) -> Vec<u8> {
    const SYMBOLS: u32 = 15_000;
    const NAME: usize = 370_000;
    let names = [&b"\0"[..], &vec![b'a'; NAME], b"\0.symtab\0.strtab\0.text\0"].concat();
    let mut symbols = vec![0; 24];
    for index in 0..SYMBOLS {
        symbols.extend((1 + index * 12).to_le_bytes());
        // Kind 0 makes an undefined symbol.
        symbols.extend([0x10 | symbol_kind, 0, u8::from(symbol_kind != 0), 0]);
        symbols.extend([0; 16]);
    }
    let (text, table) = (64u64, 80u64);
    let strings = table + symbols.len() as u64;
    let headers = (strings + names.len() as u64).next_multiple_of(8);
    let at = |offset: usize| (NAME + 2 + offset) as u32;
    let section = |name: u32, kind: u32, start: u64, bytes: usize, link: u32, entry: u64| {
        let words = [name, kind].map(u32::to_le_bytes).concat();
        let longs = [0, 0, start, bytes as u64].map(u64::to_le_bytes).concat();
        let link = [link, 1].map(u32::to_le_bytes).concat();
        [words, longs, link, [8, entry].map(u64::to_le_bytes).concat()].concat()
    };
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.extend([abi, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    file.extend(machine.to_le_bytes());
    file.extend([1, 0, 0, 0]);
    file.extend([0, 0, headers].map(u64::to_le_bytes).concat());
    file.extend([0, 0, 0, 0]);
    file.extend([64u16, 0, 0, 64, 4, 3].map(u16::to_le_bytes).concat());
    file.resize(table as usize, 0);
    file.extend(&symbols);
    file.extend(&names);
    file.resize(headers as usize, 0);
    file.extend([0; 64]);
    file.extend(section(at(16), 1, text, 16, 0, 0));
    file.extend(section(at(0), 2, table, symbols.len(), 3, 24));
    file.extend(section(at(8), 3, strings, names.len(), 0, 0));
    file
}

#[test]
fn names_that_lie_upon_each_other_are_a_problem_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    const X86_64: u16 = 62;
    // Kinds of symbols: undefined names, variables and functions.
    for kind in [0, 1, 2] {
        let shown = inspect(&write(&folder, "image.o", overlapping(X86_64, 0, kind)));
        let problem = "names overlap; the remaining names are left out";
        assert!(shown.stdout.contains(problem), "{kind}: {}", shown.stdout);
    }
    for (machine, abi) in [(190, 0x41), (224, 64)] {
        let shown = inspect(&write(&folder, "image.gpu", overlapping(machine, abi, 2)));
        assert!(shown.stdout.contains("  problem: "), "{machine}: {}", shown.stdout);
    }
}

#[test]
fn members_of_an_archive_whose_names_lie_upon_each_other_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let header = |name: &str, bytes: usize| format!("{name:<48}{bytes:<10}`\n");
    let mut archive = format!("!<arch>\n{}{}/\n", header("//", 370_002), "x".repeat(370_000));
    (0..5000).for_each(|member| archive += &header(&format!("/{}", member * 30), 0));
    let shown = inspect(&write(&folder, "a.a", archive));
    let problem = "names take more than 64 MiB";
    assert!(shown.stdout.contains(problem), "{}", &shown.stdout[..1000.min(shown.stdout.len())]);
}

/// Compiles an object with a kernel whose name clears the screen, and a global whose name does so
/// by the other escape sequence of terminals.
fn object_with_escape_codes(folder: &TempDir) -> PathBuf {
    let source = write(folder, "k.c", "void name_of_kernel(void **a) {} int name_of_global_ = 1;");
    let object = folder.path().join("k.o");
    let compiled = Command::new("cc").args(["-c", "-o"]).arg(&object).arg(source).status();
    assert!(compiled.unwrap().success());
    let mut bytes = std::fs::read(&object).unwrap();
    for (name, other) in [
        (&b"name_of_kernel"[..], &b"k\x1b[2J\nerror: 1"[..]),
        (b"name_of_global_", "g\u{9b}2J\u{202e}_______".as_bytes()),
    ] {
        let at = bytes.windows(name.len()).rposition(|window| window == name).unwrap();
        assert_eq!(name.len(), other.len());
        bytes[at..at + name.len()].copy_from_slice(other);
    }
    std::fs::write(&object, bytes).unwrap();
    object
}

fn assert_harmless(text: &str) {
    let is_harmful =
        |letter: &char| letter.is_control() && *letter != '\n' || *letter == '\u{202e}';
    assert_eq!(text.chars().find(is_harmful), None, "{text:?}");
}

#[test]
fn names_in_images_are_shown_with_their_control_characters_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let object = object_with_escape_codes(&folder);
    let object = object.to_str().unwrap();
    let shown = outcome(command().args(["inspect", object]));
    assert_harmless(&shown.stdout);
    assert!(shown.stdout.contains("k\\u{1b}[2J\\nerror: 1"), "{}", shown.stdout);
    let json = outcome(command().args(["inspect", object, "--json"]));
    assert_harmless(&json.stdout);
    assert_eq!(json.json()["images"][0]["kernels"][0]["name"], "k\u{1b}[2J\nerror: 1");
    assert_eq!(json.json()["images"][0]["globals"][0]["name"], "g\u{9b}2J\u{202e}_______");
    for arguments in
        [&["run", object, "--list"][..], &["run", object, "--kernel", "other\u{1b}[31m"]]
    {
        let run = outcome(command().args(["--backend", "host", "-vvv"]).args(arguments));
        assert_harmless(&run.stdout);
        assert_harmless(&run.stderr);
    }
}

#[test]
fn texts_of_plugins_are_shown_with_escaped_control_characters() {
    let (folder, mut plugins) = alone();
    toy_plugin(
        folder.path(),
        "toy",
        "*outcome=1;SAY(\"no \\033[2J driver\\033]0;title\\a\");return 0;",
    );
    let listed = outcome(plugins.args(["plugins", "-vvv"]));
    assert_harmless(&listed.stdout);
    assert_harmless(&listed.stderr);
    assert!(listed.stdout.contains("no \\u{1b}[2J driver"), "{}", listed.stdout);
}

#[test]
fn device_files_and_silent_pipes_are_refused_by_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    let object = object_with_escape_codes(&folder);
    let object = object.to_str().unwrap();
    for (file, what) in [
        ("/dev/zero", "a character device, expected a file"),
        ("/dev/urandom", "a character device, expected a file"),
        (folder.path().to_str().unwrap(), "a folder, expected a file"),
        (fifo, "a FIFO that no process writes to"),
    ] {
        let argument = format!("u8[1024]=@{file}");
        for arguments in [
            vec!["inspect", file],
            vec!["run", file, "--kernel", "k"],
            vec!["run", object, "--kernel", "k\u{1b}[2J\nerror: 1", "--arg", &argument],
            vec!["link", file],
            vec!["link", object, "--archive", file],
        ] {
            let refused = in_little_memory(command().args(["--backend", "host"]).args(&arguments));
            assert_ne!(refused.code, 0, "{arguments:?}");
            let is_reported = refused.stderr.contains(what) && refused.stderr.contains(file);
            assert!(is_reported, "{arguments:?}: {}", refused.stderr);
        }
    }
}

#[test]
fn an_image_is_read_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let object = object_with_escape_codes(&folder);
    let mut inspect = command();
    inspect.args(["inspect", "/dev/stdin"]);
    let mut cat = Command::new("cat");
    let mut cat = cat.arg(object).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let shown = outcome(inspect.stdin(cat.stdout.take().unwrap()));
    assert!(shown.stdout.contains("elf-o for"), "{} {}", shown.stdout, shown.stderr);
    assert!(cat.wait().unwrap().success());
}
