use std::io::Write;
use std::process::{Command, Stdio};

use super::{Kind, Linkage, Module};

const SOURCE: &str = r#"
target triple = "x86_64-pc-linux-gnu"
$group = comdat any
@"a name" = global i64 1, section "part"
@tls = internal thread_local global i64 2
@0 = private constant i64 3
@outside = external global i64
@labels = internal global ptr blockaddress(@jumps, %there)
@group = linkonce_odr hidden constant i64 4, comdat
@same = weak alias i64, ptr @"a name"
@again = alias i64 (), ptr @plain
@twice = internal alias i64 (), ptr @again
@chosen = ifunc i64 (), ptr @resolve
define i64 @plain() { ret i64 0 }
define hidden i64 @hidden() { ret i64 0 }
define internal ptr @resolve() { ret ptr @plain }
define available_externally i64 @elsewhere() { ret i64 0 }
declare extern_weak i64 @declared()
define i64 @"\01own"() { ret i64 0 }
!llvm.module.flags = !{!0}
!0 = !{i32 7, !"PIE Level", i32 2}
define void @jumps(ptr %p) { indirectbr ptr %p, [label %there] there: ret void }
"#;

/// Returns the source as bitcode of the newest clang there is, if one reads it.
fn bitcode() -> Option<Vec<u8>> {
    let made = [22, 19, 16].into_iter().find_map(|version| {
        let mut clang = Command::new(format!("clang-{version}"));
        clang.args(["-x", "ir", "-c", "-emit-llvm", "-o", "-", "-"]);
        let mut child = clang.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        child.stdin.take()?.write_all(SOURCE.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        output.status.success().then_some(output.stdout)
    });
    if made.is_none() {
        assert!(std::env::var_os("CI").is_none(), "there is no clang-19");
        eprintln!("skipped: there is no clang-19");
    }
    made
}

#[test]
fn everything_that_a_module_says_of_its_globals_is_read() {
    let Some(bytes) = bitcode() else { return };
    let module = Module::read(&bytes).unwrap();
    assert_eq!(module.triple, "x86_64-pc-linux-gnu");
    assert!(module.producer.version().unwrap() >= 16 && !module.has_assembly);
    assert_eq!(module.sections, [b"part".to_vec()].into());
    let find = |name: &str| {
        let index = module.globals.iter().position(|global| global.symbol() == name.as_bytes());
        index.map(|index| (index, &module.globals[index])).unwrap()
    };
    let is = |name, linkage, is_hidden, is_defined| {
        let (_, global) = find(name);
        let found = (global.linkage, global.is_hidden, global.is_defined);
        assert_eq!(found, (linkage, is_hidden, is_defined), "{name}");
    };
    is("a name", Linkage::Strong, false, true);
    is("tls", Linkage::Local, false, true);
    is("", Linkage::Local, false, true);
    is("outside", Linkage::Strong, false, false);
    is("group", Linkage::Weak, true, true);
    is("same", Linkage::Weak, false, true);
    is("plain", Linkage::Strong, false, true);
    is("hidden", Linkage::Strong, true, true);
    is("resolve", Linkage::Local, false, true);
    is("elsewhere", Linkage::AvailableExternally, false, true);
    is("declared", Linkage::Weak, false, false);
    is("own", Linkage::Strong, false, true);
    let kind = |name| find(name).1.kind;
    assert_eq!(kind("a name"), Kind::Variable { thread_local: false });
    assert_eq!(kind("tls"), Kind::Variable { thread_local: true });
    assert_eq!(kind("again"), Kind::Alias { target: Some(find("plain").0) });
    // The writer refers to the alias's target, or to the alias.
    let Kind::Alias { target: Some(target) } = kind("twice") else { panic!("{:?}", kind("twice")) };
    assert!([find("again").0, find("plain").0].contains(&target));
    assert_eq!(kind("chosen"), Kind::Indirect { resolver: Some(find("resolve").0) });
    assert_eq!(module.block_addresses, [find("jumps").0].into());
}

#[test]
fn pieces_are_not_said_to_be_of_an_executable() {
    let Some(bytes) = bitcode() else { return };
    let module = Module::read(&bytes).unwrap();
    let pieces = module.for_pieces(&bytes);
    let says = |bytes: &[u8]| bytes.windows(9).any(|it| it == b"PIE Level");
    assert!(says(&bytes) && !says(&pieces));
    assert_eq!(Module::read(&pieces).unwrap().globals, module.globals);
}

#[test]
fn damaged_bitcode_is_a_fault_or_a_module_and_never_a_panic() {
    let Some(whole) = bitcode() else { return };
    for size in (0..whole.len()).step_by(3) {
        let _ = Module::read(&whole[..size]);
    }
    let mut state = 12345_u64;
    for index in 0..whole.len() {
        let mut bytes = whole.clone();
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes[index] ^= 1 << (state >> 61);
        let _ = Module::read(&bytes);
        bytes[index] = (state >> 33) as u8;
        let _ = Module::read(&bytes);
    }
}

#[test]
fn claims_that_a_file_does_not_keep_allocate_nothing() {
    // An unabbreviated record of 2^60 fields, and a block of 2^34 bytes.
    let record = [b"BC\xc0\xde".as_slice(), &[0xff; 64]].concat();
    let block = [b"BC\xc0\xde".as_slice(), &[0x21, 0x0c, 0, 0, 0xff, 0xff, 0xff, 0xff]].concat();
    for bytes in [record, block] {
        assert!(Module::read(&bytes).err().unwrap().starts_with("damaged bitcode"));
    }
}
