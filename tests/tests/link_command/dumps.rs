//! Dumps of code in a slab, and of running code.

use super::AARCH64;
use super::folder::{Folder, is_installed};
use super::json::{any_symbol, bytes, file, from_hex, list, names, number, section, symbol, word};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;

#[test]
fn a_file_becomes_a_section_with_symbols() {
    let source = "
        extern const char start[], middle[], end[];
        int main(void) { return start[0] + middle[0] + (end - start); }";
    let folder = Folder::from_c(&[("main", source)]);
    fs::write(folder.0.path().join("data.bin"), [1, 2, 3, 40, 5]).unwrap();
    let section = "numbers,data.bin@start=0,middle=0x3,end=5";
    assert_eq!(folder.code(&["main.o", "--sectcreate", section]), Some(1 + 40 + 5));
    let slab = ["--slab-address", "0x40000000"];
    let dump = folder.dump(&[&["main.o", "--sectcreate", section], &slab[..]].concat());
    let section = &file(&dump, "data.bin")["sections"][0];
    assert_eq!(section["blocks"][0]["bytes"], "0102032805");
    assert_eq!((&section["name"], &section["prot"]), (&"numbers".into(), &"r--".into()));
    let (code, error) = folder.refused(&["main.o", "--sectcreate", "numbers,data.bin@start=6"]);
    assert_eq!(code, Some(2), "{error}");
}

/// Sources with references of many kinds, inside an object and between two objects.
const REFERENCES: [(&str, &str); 2] = [
    (
        "main",
        r#"
        extern int numbers[4];
        extern __thread int of_thread;
        int next(int *);
        static int here = 3;
        int *pointer = &here, *other = &numbers[2];
        int zeroes[100];
        _Thread_local int mine = 4;
        __attribute__((weak)) int nowhere(void);
        int main(int argc, char **argv) {
            switch (argc) { case 1: return next(pointer); case 2: return *other; case 3: return 5;
                            case 4: return zeroes[7]; case 5: return nowhere ? nowhere() : 1; }
            return mine;
        }"#,
    ),
    (
        "next",
        "int numbers[4] = {1, 2, 3, 4}; const char *text = \"a string\";
         int next(int *x) { return *x + numbers[1]; }",
    ),
];

fn references(compiler: &str, flags: &[&str]) -> Folder {
    let folder = Folder::new();
    for (name, source) in REFERENCES {
        folder.compile(compiler, &format!("{name}.c"), source, flags);
    }
    folder
}

const SLAB: [&str; 6] =
    ["--slab-allocate", "100Kb", "--slab-address", "0x30000000", "--slab-page-size", "0x4000"];

/// Returns the dump of [`REFERENCES`] in the slab.
fn dump_of_slab(folder: &Folder, options: &[&str]) -> Value {
    let needed = ["--abs", "__tls_get_addr=0x30000000"];
    folder.dump(&[&["main.o", "next.o"], &SLAB[..], &needed, options].concat())
}

#[test]
fn a_dump_of_a_slab_is_consistent_for_each_architecture() {
    let triples = [("gcc", "x86_64-unknown-linux-gnu"), (AARCH64, "aarch64-unknown-linux-gnu")];
    let installed = triples.into_iter().filter(|(compiler, _)| is_installed(compiler));
    for (compiler, triple) in installed {
        for flags in [["-O0", "-fPIC", "-g"], ["-O2", "-fPIE", "-g"], ["-O2", "-fno-pic", "-g"]] {
            let folder = references(compiler, &flags);
            let dump = dump_of_slab(&folder, &[]);
            assert_eq!((&dump["version"], &dump["triple"]), (&1.into(), &triple.into()));
            assert_eq!(names(&dump["files"]), ["main.o", "next.o"]);
            check_sections(&dump);
            check_symbols(&dump);
            check_pointers(&dump);
        }
    }
}

/// Asserts that every block lies in its section, and every section in the slab in pages with its
/// protection. Asserts that each block has the declared number of bytes.
fn check_sections(dump: &Value) {
    let mut pages: Vec<(u64, String)> = Vec::new();
    for section in list(dump, "files").flat_map(|file| list(file, "sections")) {
        let size = number(&section["size"]);
        let lifetime = section["lifetime"].as_str().unwrap();
        for block in list(section, "blocks") {
            match block["bytes"].as_str() {
                Some(bytes) => assert_eq!(bytes.len() as u64, 2 * number(&block["size"])),
                None => assert_eq!(block["zero_fill"], true),
            }
        }
        if lifetime == "noalloc" {
            assert!(section.get("addr").is_none() && section["prot"] == "r--", "{section}");
            continue;
        }
        let start = number(&section["addr"]);
        assert!(start >= 0x3000_0000 && start + size <= 0x3000_0000 + (100 << 10), "{section}");
        for block in list(section, "blocks") {
            let at = number(&block["addr"]);
            assert!(at >= start && at + number(&block["size"]) <= start + size, "{section}");
        }
        if size > 0 {
            let used = start / 0x4000..=(start + size - 1) / 0x4000;
            let protection = section["prot"].as_str().unwrap();
            pages.extend(used.map(|page| (page, protection.to_owned())));
        }
    }
    pages.sort();
    pages.dedup();
    assert!(pages.windows(2).all(|pages| pages[0].0 != pages[1].0), "{pages:?}");
}

fn check_symbols(dump: &Value) {
    let [main, next] = [file(dump, "main.o"), file(dump, "next.o")];
    let facts = |file: &Value, name: &str| {
        let symbol = symbol(file, name);
        let keys = ["scope", "linkage"].map(|key| symbol[key].as_str().unwrap().to_owned());
        (keys.join(" "), symbol["callable"] == true, number(&symbol["size"]) > 0)
    };
    assert_eq!(facts(main, "main"), ("default strong".into(), true, true));
    assert_eq!(facts(main, "here"), ("local strong".into(), false, true));
    assert_eq!(facts(next, "numbers"), ("default strong".into(), false, true));
    assert_eq!(symbol(main, "zeroes")["size"], 400);
    assert_eq!(dump["externals"], serde_json::json!({ "nowhere": 0 }));
    assert_eq!(dump["absolutes"], serde_json::json!({ "__tls_get_addr": 0x3000_0000 }));
}

/// Asserts that pointers in data and in the global offset table are the addresses of their symbols.
fn check_pointers(dump: &Value) {
    let address = |name: &str| number(&any_symbol(dump, name)["addr"]);
    assert_eq!(word(dump, address("pointer")), address("here"));
    assert_eq!(word(dump, address("other")), address("numbers") + 8);
    assert_eq!(&bytes(dump, word(dump, address("text")), 9), b"a string\0");
    for entry in list(dump, "files").flat_map(|file| list(file, "got")) {
        let target = entry["target"].as_str().unwrap();
        let expected = if target == "nowhere" { 0 } else { address(target) };
        if target != "mine" {
            assert_eq!(word(dump, number(&entry["addr"])), expected, "{target}");
        }
    }
}

#[test]
fn dumps_of_the_same_slab_are_the_same_whatever_the_threads() {
    let folder = references("gcc", &["-O2", "-fPIC", "-g"]);
    let first = dump_of_slab(&folder, &[]);
    assert_eq!(dump_of_slab(&folder, &[]), first);
    let dumped = folder.read("dump.json");
    dump_of_slab(&folder, &["--threads", "4"]);
    assert!(folder.read("dump.json") == dumped);
}

#[test]
fn sections_without_memory_are_dumped_with_their_fields() {
    let folder = references("gcc", &["-O2", "-fPIC", "-g"]);
    let dump = dump_of_slab(&folder, &[]);
    let main = file(&dump, "main.o");
    let addresses = section(main, ".debug_addr").or(section(main, ".debug_info")).unwrap();
    let address = number(&symbol(main, "main")["addr"]).to_le_bytes();
    let bytes = from_hex(addresses["blocks"][0]["bytes"].as_str().unwrap());
    assert!(bytes.windows(8).any(|word| word == address), "no address of main");
}

#[test]
fn phony_externals_are_in_the_dump_and_reached_by_stubs() {
    let folder = Folder::new();
    let source = "int elsewhere(void); extern int data; int *at = &data;
                  int main(void) { return elsewhere() + *at; }";
    folder.compile("gcc", "main.c", source, &["-fPIC"]);
    let far = ["--slab-address", "0xfff00000", "--slab-allocate", "1Mb", "--phony-externals"];
    let dump = folder.dump(&[&["main.o", "--abs", "data=0x77"], &far[..]].concat());
    assert_eq!(dump["externals"], serde_json::json!({ "elsewhere": 0xbad }));
    assert_eq!(dump["absolutes"], serde_json::json!({ "data": 0x77 }));
    assert_eq!(word(&dump, number(&any_symbol(&dump, "at")["addr"])), 0x77);
    let main = file(&dump, "main.o");
    let [slot, stub] = ["got", "stubs"].map(|table| {
        let entry = list(main, table).find(|entry| entry["target"] == "elsewhere");
        number(&entry.unwrap_or_else(|| panic!("none in {table}"))["addr"])
    });
    assert_eq!(word(&dump, slot), 0xbad);
    bytes(&dump, stub, 6);
}

#[test]
fn unneeded_objects_and_sections_are_left_out_as_the_options_say() {
    let folder = Folder::new();
    folder.compile(
        "gcc",
        "main.c",
        "int main(void) { return 0; } int spare(void) { return 1; }",
        &["-ffunction-sections"],
    );
    folder.compile("gcc", "other.c", "int other(void) { return 2; }", &[]);
    let dumped = |options: &[&str]| {
        let objects = ["main.o", "other.o", "--slab-address", "0x30000000"];
        let dump = folder.dump(&[&objects, options].concat());
        let symbols = list(&dump, "files").flat_map(|file| list(file, "symbols"));
        symbols.map(|symbol| symbol["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(dumped(&[]), ["main", "spare"]);
    assert_eq!(dumped(&["--link-all"]), ["main", "spare", "other"]);
    assert_eq!(dumped(&["--gc-sections"]), ["main"]);
}

#[test]
fn a_dump_is_written_before_the_program_runs() {
    let source = "#include <stdlib.h>\nint main(void) { abort(); }";
    let folder = Folder::from_c(&[("main", source)]);
    let output = folder.link(&["main.o", "--dump-memory", "dump.json"]);
    assert_eq!(output.status.signal(), Some(6));
    let dump: Value = serde_json::from_slice(&folder.read("dump.json")).unwrap();
    assert_ne!(number(&dump["externals"]["abort"]), 0);
    assert_ne!(number(&any_symbol(&dump, "main")["addr"]), 0);
}

#[test]
fn a_dump_does_not_replace_an_input() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }"), ("lib", "int lib;")]);
    folder.archive("lib.a", &["lib.o"]);
    fs::write(folder.0.path().join("data.bin"), "data").unwrap();
    fs::hard_link(folder.0.path().join("main.o"), folder.0.path().join("same.json")).unwrap();
    let all = ["main.o", "--archive", "lib.a", "--sectcreate", "data,data.bin", "--dump-memory"];
    for (file, replaced) in [
        ("./main.o", "main.o"),
        ("same.json", "main.o"),
        ("lib.a", "lib.a"),
        ("data.bin", "data.bin"),
    ] {
        let before = folder.read(file);
        let (code, error) = folder.refused(&[&all, &[file][..]].concat());
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(&format!("'{file}' would replace '{replaced}'")), "{error}");
        assert!(folder.read(file) == before);
    }
    // A dump replaces earlier ones, and may go to a special file.
    for file in ["dump.json", "dump.json", "/dev/null"] {
        assert_eq!(folder.code(&[&all, &[file][..]].concat()), Some(0));
    }
}

#[test]
fn a_dump_has_all_bytes_in_memory_once_and_all_global_symbols() {
    let folder = Folder::new();
    let source = "
        .text
        .globl main
        main: .cfi_startproc
        lea _GLOBAL_OFFSET_TABLE_(%rip), %rax
        mov pi@GOTPCREL(%rip), %rcx
        mov main@GOT(%rax), %rcx
        ret
        .cfi_endproc
        .section .tdata,\"awT\"
        initial: .quad 5
        .section .tbss,\"awT\",@nobits
        zero: .zero 64
        .section .rodata
        pi: .quad 7
        .section own,\"a\"
        .quad 1";
    folder.compile("gcc", "main.s", source, &[]);
    make_section_symbol_global(&folder, "main.o", "own");
    let dump = folder.dump(&["main.o", "--slab-address", "0x30000000"]);
    let main = file(&dump, "main.o");
    let frames = section(main, ".eh_frame").unwrap();
    let end = number(&frames["addr"]) + number(&frames["size"]);
    assert_eq!(bytes(&dump, end - 4, 4), [0; 4]);
    let blocks = list(frames, "blocks").map(|block| number(&block["size"]));
    assert_eq!(blocks.collect::<Vec<_>>(), [number(&frames["size"]) - 4, 4]);
    let table = number(&symbol(main, "_GLOBAL_OFFSET_TABLE_")["addr"]);
    assert_eq!(Some(table), list(main, "got").map(|entry| number(&entry["addr"])).min());
    assert_eq!(symbol(main, "own")["addr"], section(main, "own").unwrap()["addr"]);
    assert_eq!(number(&symbol(main, "zero")["addr"]), number(&symbol(main, "initial")["addr"]) + 8);
    let blocks = list(&dump, "files").flat_map(|file| list(file, "sections"));
    let blocks = blocks.flat_map(|section| list(section, "blocks"));
    let ranges = blocks.map(|block| (number(&block["addr"]), number(&block["size"])));
    let mut ranges: Vec<(u64, u64)> = ranges.filter(|(_, size)| *size > 0).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{ranges:x?}");
}

/// Gives the unnamed symbol of a section the name of the section and a global binding.
fn make_section_symbol_global(folder: &Folder, object: &str, section: &str) {
    // Objects from some tools have such symbols, objects from assemblers do not.
    folder.run("objcopy", &[&format!("--add-symbol={section}={section}:0,global,section"), object]);
}

#[test]
fn absolute_fields_of_32_bits_hold_addresses_up_to_4_gib() {
    let folder = Folder::new();
    let source = "
        .text
        .globl main
        main: mov $data, %eax
        mov $low, %ecx
        movl low, %edx
        ret
        .data
        .globl data
        data: .long data, low";
    folder.compile("gcc", "main.s", source, &[]);
    let given = ["main.o", "--abs", "low=0x1234", "--slab-allocate", "1Mb", "--slab-address"];
    for address in ["0x7fff0000", "0x90000000", "0xfff00000"] {
        let dump = folder.dump(&[&given[..], &[address]].concat());
        let data = number(&any_symbol(&dump, "data")["addr"]);
        assert_eq!(word(&dump, data), data | 0x1234 << 32);
    }
    // A value must fit its field.
    let (code, error) = folder.refused(&[&given[..], &["0x100000000"]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("R_X86_64_32 ") && error.contains("main.o"), "{error}");
}
