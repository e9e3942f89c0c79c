//! Programs that cannot be linked.

use super::AARCH64;
use super::folder::{Folder, is_installed};
use std::fs;

#[test]
fn missing_symbols_are_reported_with_all_names_and_nothing_runs() {
    let source = "#include <stdio.h>\nvoid one(void); void two(void);
        __attribute__((constructor)) static void c(void) { puts(\"runs\"); }
        int main(void) { one(); two(); return 0; }";
    let folder = Folder::from_c(&[("main", source), ("lib", "int Main(void) { return 0; }")]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    let lines = "error: undefined symbols:\n  one (used by main.o)\n  two (used by main.o)\nhint: ";
    assert!(error.starts_with(lines), "{error}");
    let (code, error) = folder.refused(&["lib.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("entry 'main' is not defined") && error.contains("'Main'"), "{error}");
    assert_eq!(folder.code(&["lib.o", "--link-all", "--slab-address", "0x30000000"]), Some(0));
}

#[test]
fn a_missing_library_of_the_language_is_reported_in_the_hint() {
    let source = "#include <stdexcept>\nint main() { throw std::runtime_error(\"\"); }";
    let folder = Folder::new();
    folder.compile("g++", "main.cc", source, &[]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("hint: a program in C++ needs --dylib libstdc++.so.6\n"), "{error}");
}

#[test]
fn the_processs_symbols_can_be_left_out() {
    let folder = Folder::from_c(&[("main", "int puts(char *); int main(void) { puts(\"\"); }")]);
    let (code, error) = folder.refused(&["main.o", "--no-process-symbols"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("undefined symbols:\n  puts (used by main.o)\n"), "{error}");
}

#[test]
fn files_that_cannot_be_linked_are_errors_that_name_them() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
    fs::write(folder.0.path().join("text.o"), "not an object").unwrap();
    fs::write(folder.0.path().join("empty.o"), "").unwrap();
    folder.run("gcc", &["main.o", "-o", "program"]);
    let full = folder.read("main.o");
    fs::write(folder.0.path().join("cut.o"), &full[..full.len() / 2]).unwrap();
    for file in ["missing.o", "text.o", "empty.o", "program", "cut.o", "."] {
        let (code, error) = folder.refused(&["main.o", file]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with("error: ") && error.contains(file), "{file}: {error}");
    }
    let (code, error) = folder.refused(&["main.o", "main.o"]);
    assert!(code == Some(1) && error.contains("main is defined in main.o and again"), "{error}");
    let (code, error) = folder.refused(&["main.o", "--dump-memory", "no/such/folder.json"]);
    assert!(code == Some(1) && error.contains("no/such/folder.json"), "{error}");
}

#[test]
fn files_given_as_something_else_than_they_are_get_a_hint_that_fits() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
    folder.compile("gcc", "lib.c", "int lib(void) { return 0; }", &["-fPIC"]);
    folder.run("gcc", &["-shared", "lib.o", "-o", "lib.so"]);
    folder.run("gcc", &["main.o", "-o", "program"]);
    folder.run("ar", &["rcT", "thin.a", "lib.o"]);
    folder.archive("lib.a", &["lib.o"]);
    folder.run("objcopy", &["-O", "elf32-x86-64", "lib.o", "x32.o"]);
    fs::write(folder.0.path().join("script.a"), "/* GNU ld script */ GROUP(/x/lib-1.a)").unwrap();
    fs::write(folder.0.path().join("text.a"), "no archive").unwrap();
    for (arguments, problem, hint) in [
        (["--link-all", "lib.so"], "shared library", "--dylib ./lib.so"),
        (["--link-all", "program"], "executable", "objects"),
        (["--link-all", "thin.a"], "thin archive", "ar rcs"),
        (["--link-all", "x32.o"], "x32", "-m64"),
        (["--link-all", "script.a"], "linker script", "/x/lib-1.a"),
        (["--archive", "lib.o"], "is an object", "as a FILE"),
        (["--archive", "lib.so"], "shared library", "--dylib ./lib.so"),
        (["--archive", "script.a"], "linker script", "/x/lib-1.a"),
        (["--archive", "thin.a"], "thin archive", "ar rcs"),
        (["--archive", "text.a"], "not a static archive", "`ar`"),
    ] {
        let (code, error) = folder.refused(&[&["main.o"], &arguments[..]].concat());
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with(&format!("error: {}: ", arguments[1])), "{error}");
        let (message, rest) = error.split_once("\nhint: ").expect("a hint");
        assert!(message.contains(problem) && rest.contains(hint), "{error}");
    }
}

#[test]
fn a_library_that_cannot_be_opened_is_reported_with_the_dynamic_linkers_reason() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
    folder.archive("main.a", &["main.o"]);
    folder.compile("gcc", "lib.c", "int no(void); int lib(void) { return no(); }", &["-fPIC"]);
    folder.run("gcc", &["-shared", "lib.o", "-o", "lib.so"]);
    fs::write(folder.0.path().join("script.so"), "GROUP ( /lib/libx.so.6 /lib/libx.a )").unwrap();
    for (library, reason, hint) in [
        ("libnowhere.so", "No such file", "a name such as 'libm.so.6'"),
        ("lib.so", "No such file", "--dylib ./lib.so"),
        ("./lib.so", "undefined symbol: no", "an earlier --dylib"),
        ("./main.o", "cannot open './main.o'", "'./main.o' as a FILE"),
        ("./main.a", "cannot open './main.a'", "--archive ./main.a"),
        ("./script.so", "cannot open './script.so'", "--dylib /lib/libx.so.6"),
    ] {
        let (code, error) = folder.refused(&["main.o", "--dylib", library]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.starts_with(&format!("error: cannot open '{library}': ")), "{error}");
        let (message, rest) = error.split_once("\nhint: ").expect("a hint");
        assert!(message.contains(reason) && rest.contains(hint), "{error}");
    }
}

#[test]
fn relocations_out_of_reach_get_a_helpful_hint() {
    let variable = "__thread char big[20000]; int main(void) { return big[19999]; }";
    let far = "extern char far[]; int main(void) { return far[0]; }";
    let folder = Folder::new();
    folder.compile("gcc", "fixed.c", variable, &["-fno-pic"]);
    folder.compile("gcc", "free.c", variable, &["-fPIC"]);
    folder.compile("gcc", "far.c", far, &["-fno-pic"]);
    let (code, error) = folder.refused(&["fixed.o"]);
    assert!(code == Some(1) && error.contains("hint: compile with -fPIC: then"), "{error}");
    assert!(error.contains("fixed.o"), "{error}");
    assert_eq!(folder.code(&["free.o"]), Some(0));
    let (code, error) = folder.refused(&["far.o", "--abs", "far=0x123456789a"]);
    assert!(code == Some(1) && error.contains("-fPIC, or choose addresses that are"), "{error}");
    if is_installed(AARCH64) {
        let load = "extern long at; int main(void) { return at; }";
        folder.compile(AARCH64, "load.c", load, &["-O1", "-fno-pic"]);
        let (code, error) =
            folder.refused(&["load.o", "--slab-address", "0x10000000", "--abs", "at=0x10000003"]);
        assert!(code == Some(1) && error.contains("is not a multiple of"), "{error}");
        assert!(!error.contains("hint"), "{error}");
    }
}

#[test]
fn options_that_cannot_be_understood_are_bad_usage() {
    let folder = Folder::from_c(&[("main", "int main(void) { return 0; }")]);
    for options in [
        &["--abs", "x"][..],
        &["--abs", "x=y"],
        &["--alias", "=b"],
        &["--sectcreate", "name"],
        &["--slab-allocate", "1Tb"],
        &["--slab-address", "here"],
        &["--slab-address", "0x1001"],
        &["--slab-page-size", "3000"],
        &["--threads", "many"],
        &["--nonsense"],
    ] {
        let (code, error) = folder.refused(&[&["main.o"], options].concat());
        assert_eq!(code, Some(2), "{options:?}: {error}");
        assert!(error.starts_with("error: "), "{error}");
    }
    assert_eq!(folder.refused(&[]).0, Some(2));
}

#[test]
fn a_slab_that_is_too_small_is_an_error() {
    let folder = Folder::from_c(&[("main", "char big[100000]; int main(void) { return big[0]; }")]);
    let slab = ["--slab-allocate", "10Kb", "--slab-address", "0x30000000"];
    let (code, error) = folder.refused(&[&["main.o"], &slab[..]].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("do not fit") && error.contains("--slab-allocate"), "{error}");
}

#[test]
fn code_of_another_architecture_is_linked_and_not_run() {
    if !is_installed(AARCH64) {
        return;
    }
    let folder = Folder::from_c(&[("native", "int native(void) { return 0; }")]);
    folder.compile(AARCH64, "main.c", "int main(void) { return 0; }", &[]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("aarch64") && error.contains("--no-exec"), "{error}");
    assert_eq!(folder.code(&["main.o", "--no-exec"]), Some(0));
    let (code, error) = folder.refused(&["main.o", "native.o", "--no-exec"]);
    let plainly =
        "native.o: it is for x86_64-unknown-linux-gnu, expected aarch64-unknown-linux-gnu,";
    assert!(code == Some(1) && error.contains(plainly), "{error}");
}

#[test]
fn symbols_in_errors_stand_as_in_the_source() {
    let folder = Folder::new();
    let source = "namespace outer { int inner(int); }\nint main() { return outer::inner(1); }";
    folder.compile("g++", "main.cc", source, &[]);
    let (code, error) = folder.refused(&["main.o"]);
    assert_eq!(code, Some(1));
    let line = "\n  outer::inner(int) [_ZN5outer5innerEi] (used by main.o)\n";
    assert!(error.contains(line), "{error}");
    let twice = "namespace outer { int inner(int n) { return n; } }";
    folder.compile("g++", "one.cc", twice, &[]);
    folder.compile("g++", "two.cc", twice, &[]);
    let (code, error) = folder.refused(&["main.o", "one.o", "two.o"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("outer::inner(int) [_ZN5outer5innerEi] is defined in"), "{error}");
    // Rust has both forms of mangled names.
    for (symbol, name) in [
        ("_ZN4demo3run17h0123456789abcdefE", "demo::run"),
        ("_RNvNtCs1234_4demo5inner3run", "demo::inner::run"),
    ] {
        let source = format!("void {symbol}(void); int main(void) {{ {symbol}(); }}");
        folder.compile("gcc", "rust.c", &source, &[]);
        let (code, error) = folder.refused(&["rust.o"]);
        assert_eq!(code, Some(1));
        assert!(error.contains(&format!("\n  {name} [{symbol}] (used by rust.o)\n")), "{error}");
    }
}

#[test]
fn libraries_of_compilers_are_reported_in_the_hint() {
    for (symbol, hint) in [
        ("__gcov_init", "-lgcov"),
        ("_gfortran_st_write", "-lgfortran"),
        ("GOMP_parallel", "-lgomp"),
        ("__tsan_init", "libtsan.so"),
        ("__asan_init", "libasan.so"),
        ("__ubsan_handle_add_overflow", "-lubsan"),
        ("__msan_init", "compile without it"),
        ("__atomic_load", "-latomic"),
        ("__kmpc_fork_call", "-lomp"),
        ("__llvm_profile_instrument_target", "libclang_rt.profile-x86_64.a"),
        ("llvm_gcov_init", "libclang_rt.profile-x86_64.a"),
    ] {
        let source = format!("void {symbol}(void); int main(void) {{ {symbol}(); return 0; }}");
        let folder = Folder::from_c(&[("main", &source)]);
        let (code, error) = folder.refused(&["main.o"]);
        assert_eq!(code, Some(1));
        let hint_text = error.split("hint: ").nth(1).unwrap_or_default();
        assert!(hint_text.contains(hint), "{symbol}: {error}");
    }
}

#[test]
fn a_relocation_of_pointer_authentication_is_reported_by_its_name() {
    if !is_installed("clang-19") {
        return;
    }
    let folder = Folder::new();
    let source = ".globl main\nmain: ret\n.data\n.quad main@AUTH(ia,42)\n";
    let for_aarch64 = ["--target=aarch64-linux-gnu", "-o", "main.o"];
    folder.compile("clang-19", "main.s", source, &for_aarch64);
    let (code, error) = folder.refused(&["main.o", "--no-exec"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("main.o(.data+0x0): relocation R_AARCH64_AUTH_ABS64"), "{error}");
}
