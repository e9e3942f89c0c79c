//! Hidden variables and functions that only an OpenMP image's table of offload entries names.

use crate::is_all;
use crate::support::{Loaded, build, load};
use longshore_plugin_api::{ErrorCode, Module, SymbolKind};
use std::process::Command;

/// The table as clang 13 writes it: no variable is exported, and kernels have size 0.
const TABLE: &str = r#"
struct entry { void *address; const char *name; unsigned long size; int flags, data; };
#define HIDDEN __attribute__((visibility("hidden")))
#define ENTRY(id, ...) __attribute__((section("omp_offloading_entries"), used, visibility("hidden"))) \
  struct entry id = { __VA_ARGS__ }
HIDDEN int counter = 41;
HIDDEN char text[77] = "abc";
int shown = 5;
static int twice_a = 1, twice_b = 2;
void kernel(void **a) { counter++; }
HIDDEN void constructor(void **a) { counter += 100; }
ENTRY(of_counter, &counter, "counter", sizeof counter, 0, 0);
ENTRY(of_text, text, "text", sizeof text, 0, 0);
ENTRY(of_kernel, (void *)kernel, "kernel", 0, 0, 0);
ENTRY(of_constructor, (void *)constructor, "constructor", 0, 2, 0);
ENTRY(of_shown, &counter, "shown", sizeof shown, 0, 0);
ENTRY(of_twice, &twice_a, "twice", sizeof twice_a, 0, 0);
ENTRY(of_twice_too, &twice_b, "twice", sizeof twice_b, 0, 0);
ENTRY(of_same, text, "text", sizeof text, 0, 0);
"#;

fn refused(module: &Loaded, name: &str) -> ErrorCode {
    module.global(name).err().unwrap_or_else(|| panic!("'{name}' was found")).code()
}

#[test]
fn hidden_variables_and_functions_are_found_by_their_entries() {
    for flags in [&[][..], &["-Wl,-s"]] {
        let module = load(&build(TABLE, flags)).unwrap();
        module.call("kernel");
        module.call("constructor");
        assert_eq!(module.int("counter"), 142);
        assert_eq!((module.global("text").unwrap().bytes, module.text("text")), (77, "abc".into()));
        assert_eq!(module.int("shown"), 5, "an exported variable is its own");
        assert_eq!(refused(&module, "twice"), ErrorCode::NotFound);
        assert_eq!(refused(&module, "kernel"), ErrorCode::SymbolKind);
        assert_eq!(refused(&module, "twice_a"), ErrorCode::NotFound);
        let mut symbols = module.symbols().unwrap();
        symbols.sort_by(|a, b| a.0.cmp(&b.0));
        use SymbolKind::{Global, Kernel};
        let expected = [
            ("constructor", Kernel),
            ("counter", Global),
            ("kernel", Kernel),
            ("shown", Global),
            ("text", Global),
        ];
        assert_eq!(symbols, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}

#[test]
fn malformed_entries_name_no_variable_and_leave_the_others() {
    let source = format!(
        "{TABLE}
        ENTRY(of_no_name, &counter, 0, 4, 0, 0);
        ENTRY(of_far_name, &counter, (char *)0x7fffffff0000, 4, 0, 0);
        ENTRY(of_no_address, 0, \"nowhere\", 4, 0, 0);
        ENTRY(of_far_address, (void *)-8, \"far\", 64, 0, 0);
        ENTRY(of_long, &counter, \"long\", 1ul << 40, 0, 0);
        ENTRY(of_endless, &counter, \"endless\", -1ul, 0, 0);
        ENTRY(of_bytes, &counter, \"\\xff\\xfe\", 4, 0, 0);
        ENTRY(of_last, &counter, \"last\", 4, 0, 0);"
    );
    let module = load(&build(&source, &[])).unwrap();
    for name in ["", "nowhere", "far", "long", "endless", "\u{fffd}\u{fffd}"] {
        assert_eq!(refused(&module, name), ErrorCode::NotFound, "{name}");
    }
    assert_eq!((module.int("counter"), module.int("last")), (41, 41));
}

#[test]
fn damaged_section_headers_and_entries_are_harmless() {
    let image = build(TABLE, &[]);
    let headers = u64::from_le_bytes(image[40..48].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(image[60..62].try_into().unwrap()));
    let step = if is_all() { 1 } else { 8 };
    for at in (headers..headers + 64 * count).step_by(step) {
        for bytes in [[0xff; 8], [0; 8], [0, 0, 0, 0, 0, 0, 0, 0x80]] {
            let mut damaged = image.clone();
            let end = damaged.len().min(at + 8);
            damaged[at..end].copy_from_slice(&bytes[..end - at]);
            if let Ok(module) = load(&damaged) {
                let _ = (module.global("counter"), module.symbols());
            }
        }
    }
}

/// Returns the device image that a version of clang makes of a source; `None` without this clang.
fn openmp_image(clang: &str, source: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("p.c"), source).expect("the source can be written");
    let target = format!("-fopenmp-targets={}-pc-linux-gnu", std::env::consts::ARCH);
    let mut compile = Command::new(clang);
    compile.args(["-c", "-O1", "-fopenmp", "-save-temps=obj", "p.c", "-o", "p.o", &target]);
    let status = compile.current_dir(folder.path()).status().ok()?;
    assert!(status.success(), "{clang} failed");
    let files = std::fs::read_dir(folder.path()).expect("the folder can be read").flatten();
    let object = files.map(|file| file.path()).find(|path| {
        let name = path.to_string_lossy().into_owned();
        name.contains("openmp") && name.ends_with(".o")
    })?;
    let image = folder.path().join("image.so");
    let linked = Command::new("cc").arg("-shared").arg(object).arg("-o").arg(&image).status();
    assert!(linked.expect("a C compiler is there").success());
    Some(std::fs::read(image).expect("the linker wrote its output"))
}

#[test]
fn static_variables_of_clang_14_are_found() {
    let source = "
        #pragma omp declare target
        int counter = 41; static double numbers[4] = {1, 2, 3, 4};
        #pragma omp end declare target
        int run(void) {
            int sum = 0;
            #pragma omp target map(tofrom: sum)
            { counter++; sum = counter + (int)numbers[1]; }
            return sum;
        }";
    let Some(image) = openmp_image("clang-14", source) else {
        println!("clang-14 is not installed; nothing was tried with it");
        return;
    };
    let module = load(&image).unwrap();
    assert_eq!(module.int("counter"), 41);
    assert_eq!(module.global("numbers").unwrap().bytes, 32);
    assert_eq!(module.global_at::<[f64; 4]>("numbers"), &[1.0, 2.0, 3.0, 4.0]);
    assert!(module.symbols().unwrap().contains(&("numbers".to_owned(), SymbolKind::Global)));
}
