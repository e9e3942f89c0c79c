//! Features of images: kernels, globals, constructors, destructors, instrumentation.

use crate::support::{ADD, Loaded, ORDER, build, load, run_compiler};
use longshore_plugin_api::{ErrorCode, Module, ProfileSectionKind, SymbolKind};

fn ran(image: &[u8]) -> Loaded {
    let module = load(image).expect("the image loads");
    module.run_constructors().expect("its constructors run");
    module
}

fn error(image: &[u8]) -> longshore_plugin_api::Error {
    load(image).err().expect("the image is refused")
}

#[test]
fn a_kernel_gets_the_addresses_of_its_arguments() {
    let module = load(&build(ADD, &[])).unwrap();
    let (mut sum, mut a, mut b) = (0i32, 2i32, 5i32);
    let mut arguments = [&mut sum, &mut a, &mut b].map(|value| (value as *mut i32).cast());
    module.call_with("add", &mut arguments);
    assert_eq!((sum, module.int("calls")), (7, 41));
}

#[test]
fn symbols_are_the_images_definitions_without_thread_locals() {
    let module = load(&build(ADD, &[])).unwrap();
    let mut symbols = module.symbols().unwrap();
    symbols.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("add".to_owned(), SymbolKind::Kernel),
        ("calls".to_owned(), SymbolKind::Global),
        ("tls".to_owned(), SymbolKind::Kernel),
    ];
    assert_eq!(symbols, expected);
    assert_eq!(module.kernel("malloc").err().unwrap().code(), ErrorCode::NotFound);
    assert_eq!(module.global("shown").err().unwrap().code(), ErrorCode::NotFound);
}

#[test]
fn a_kernel_has_a_code_size_and_a_global_its_size() {
    let module = load(&build("char text[77]; void k(void **a) { text[1] = 1; }", &[])).unwrap();
    assert!(module.kernel("k").unwrap().1.code_bytes > 0);
    assert_eq!(module.global("text").unwrap().bytes, 77);
}

#[test]
fn an_unknown_name_is_reported() {
    let module = load(&build(ADD, &[])).unwrap();
    let error = module.kernel("ad").err().unwrap();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert!(error.message().contains("'ad'"), "{error}");
}

#[test]
fn a_description_of_arguments_is_read_with_its_kernel() {
    let source = "void k(void **a) {} void none(void **a) {} void other(void **a) {}
        unsigned __longshore_arguments_k[] = {8, 4, 8};
        unsigned __longshore_arguments_none[] = {0};";
    let module = load(&build(source, &[])).unwrap();
    let sizes = |name| module.kernel(name).unwrap().1.argument_sizes;
    assert_eq!(sizes("k"), Some(vec![8, 4, 8]));
    assert_eq!(sizes("none"), Some(vec![]));
    assert_eq!(sizes("other"), None);
}

#[test]
fn the_wrong_kind_of_symbol_is_reported() {
    let module = load(&build(ADD, &[])).unwrap();
    assert_eq!(module.kernel("calls").err().unwrap().code(), ErrorCode::SymbolKind);
    assert_eq!(module.global("add").err().unwrap().code(), ErrorCode::SymbolKind);
}

#[test]
fn thread_local_variables_inside_an_image_work() {
    let module = load(&build(ADD, &[])).unwrap();
    module.call("tls");
    assert_eq!(module.int("calls"), 7);
    let fixed = load(&build(ADD, &["-ftls-model=initial-exec"])).unwrap();
    fixed.call("tls");
    assert_eq!(fixed.int("calls"), 7);
}

#[test]
fn a_resolver_chooses_a_kernel() {
    let source = "int calls; static void chosen(void **a) { calls = 5; }
        static void *choose(void) { return (void *)chosen; }
        void k(void **a) __attribute__((ifunc(\"choose\")));
        void other(void **a) { k(a); }";
    let module = load(&build(source, &[])).unwrap();
    module.call("k");
    assert_eq!(module.int("calls"), 5);
    module.set_int("calls", 0);
    module.call("other");
    assert_eq!(module.int("calls"), 5);
}

#[test]
fn an_image_is_loaded_where_proc_is_not_mounted() {
    let source = "int calls; static void chosen(void **a) { calls = 5; }
        static void *choose(void) { return (void *)chosen; }
        void k(void **a) __attribute__((ifunc(\"choose\")));";
    let image = build(source, &[]);
    // SAFETY: this changes the file system only for this test's thread.
    let has_proc = unsafe {
        let (root, kind) = (c"/".as_ptr(), std::ptr::null());
        libc::unshare(libc::CLONE_NEWNS) != 0
            || libc::mount(kind, root, kind, libc::MS_REC | libc::MS_PRIVATE, kind.cast()) != 0
            || libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH) != 0
    };
    if has_proc {
        println!("/proc cannot be unmounted without the right to; nothing was tried");
        return;
    }
    for _ in 0..3 {
        let module = load(&image).unwrap();
        module.call("k");
        assert_eq!(module.int("calls"), 5);
        module.unload().unwrap();
    }
    let left = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let own = format!("longshore-{}-", std::process::id());
    assert!(!left.into_iter().any(|file| file.file_name().to_string_lossy().starts_with(&own)));
}

#[test]
fn constructors_and_destructors_run_once_in_order_and_only_in_their_step() {
    let module = load(&build(ORDER, &[])).unwrap();
    assert_eq!(module.text("order"), "");
    module.run_constructors().unwrap();
    assert_eq!(module.text("order"), "abc");
    module.run_destructors().unwrap();
    assert_eq!(module.text("order"), "abcxhyz");
    let mut written = [0u8; 32];
    let mut sink = written.as_mut_ptr();
    module.call_with("redirect", &mut [(&raw mut sink).cast()]);
    module.unload().unwrap();
    assert_eq!(written, [0; 32], "the loader ran something");
}

#[test]
fn failures_of_device_code_are_reported() {
    let source = "int __longshore_constructor_status, __longshore_destructor_status;
        __attribute__((constructor)) static void in(void) { __longshore_constructor_status = 3; }
        __attribute__((destructor)) static void out(void) { __longshore_destructor_status = 4; }";
    let module = load(&build(source, &[])).unwrap();
    let failed = module.run_constructors().unwrap_err();
    assert_eq!(failed.code(), ErrorCode::BackendFailure);
    assert!(failed.message().contains("__longshore_constructor_status is 3"), "{failed}");
    let failed = module.run_destructors().unwrap_err();
    assert!(failed.message().contains("__longshore_destructor_status is 4"), "{failed}");
}

#[test]
fn a_destructor_that_is_no_code_is_reported_and_the_others_run() {
    let source = "int ran; int data; static void good(void) { ran++; }
        __attribute__((section(\".fini_array\"), used)) static void *a = (void *)good;
        __attribute__((section(\".fini_array\"), used)) static void *b = &data;
        __attribute__((section(\".fini_array\"), used)) static void *c = 0;
        __attribute__((section(\".fini_array\"), used)) static void *d = (void *)good;";
    let module = ran(&build(source, &[]));
    let failed = module.run_destructors().unwrap_err();
    assert_eq!(failed.code(), ErrorCode::BackendFailure);
    assert!(failed.message().contains("DT_FINI_ARRAY["), "{failed}");
    assert_eq!(module.int("ran"), 2);
}

#[test]
fn two_images_with_the_same_names_stay_apart() {
    let image = build(ADD, &[]);
    let (one, two) = (load(&image).unwrap(), load(&image).unwrap());
    one.set_int("calls", 1);
    let mut x = 0i32;
    let place: *mut std::ffi::c_void = (&raw mut x).cast();
    two.call_with("add", &mut [place, place, place]);
    assert_eq!((one.int("calls"), two.int("calls")), (1, 41));
}

#[test]
fn an_image_uses_its_own_functions_and_not_the_programs() {
    let source = "int answer; int abs(int x) { return 77; }
        void k(void **a) { int (*volatile f)(int) = abs; answer = f(-1); }";
    let module = load(&build(source, &["-fno-builtin"])).unwrap();
    module.call("k");
    assert_eq!(module.int("answer"), 77);
}

#[test]
fn a_missing_symbol_is_named() {
    let image = build("void nowhere(void); void k(void **a) { nowhere(); }", &[]);
    let refused = error(&image);
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    assert!(refused.message().contains("nowhere"), "{refused}");
}

#[test]
fn a_missing_library_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libmissing-for-the-test.so");
    std::fs::write(&library, build("int x;", &["-Wl,-soname,libmissing-for-the-test.so"])).unwrap();
    let path = library.to_str().unwrap();
    let image = build("void k(void **a) {}", &["-Wl,--no-as-needed", "-Wl,-rpath,/tmp", path]);
    let refused = error(&image);
    assert_eq!(refused.code(), ErrorCode::NotFound);
    assert!(refused.message().contains("libmissing-for-the-test.so"), "{refused}");
}

#[test]
fn images_of_other_linkers_and_options_load() {
    let options: [&[&str]; 8] = [
        &["-Wl,--hash-style=sysv"],
        &["-Wl,--hash-style=both"],
        &["-Wl,-z,now", "-Wl,-z,relro"],
        &["-Wl,-z,norelro", "-Wl,-z,noseparate-code"],
        &["-Wl,-Bsymbolic"],
        &["-Wl,-z,max-page-size=0x200000"],
        &["-lm", "-lpthread", "-Wl,--no-as-needed"],
        &["-nostdlib"],
    ];
    for flags in options {
        let module = load(&build(ADD, flags)).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        assert_eq!(module.int("calls"), 40, "{flags:?}");
    }
    let lld: [&[&str]; 3] =
        [&[], &["-Wl,-z,pack-relative-relocs"], &["-Wl,--hash-style=sysv", "-Wl,-z,now"]];
    for flags in lld {
        let all = [&["-shared", "-fPIC", "-fuse-ld=lld"], flags].concat();
        let Some(image) = run_compiler("clang-19", "c", &format!("{ADD} int *p = &calls;"), &all)
        else {
            eprintln!("skipped: no clang-19");
            return;
        };
        let module = load(&image).unwrap_or_else(|error| panic!("lld {flags:?}: {error}"));
        assert_eq!(module.int("calls"), 40, "lld {flags:?}");
    }
}

#[test]
fn a_rust_library_is_an_image() {
    let source = "#[no_mangle] pub static mut SEEN: i32 = 0;
        #[no_mangle] pub unsafe extern \"C\" fn k(_: *mut *mut u8) {
            let text: Vec<String> = (0..5).map(|i| format!(\"{i}\")).collect();
            SEEN = text.join(\"\").len() as i32;
        }";
    let flags = ["--crate-type=cdylib", "--edition=2021", "-Awarnings"];
    let Some(image) = run_compiler("rustc", "rs", source, &flags) else {
        eprintln!("skipped: no rustc");
        return;
    };
    let module = ran(&image);
    module.call("k");
    assert_eq!(module.int("SEEN"), 5);
    module.run_destructors().unwrap();
    module.unload().unwrap();
}

#[test]
fn the_pool_tracker_is_read() {
    let source = "unsigned long long __omp_rtl_device_memory_pool_tracker[4] = {1, 2, 3, 4};";
    let tracker = load(&build(source, &[])).unwrap().pool_tracker().unwrap().unwrap();
    let read = [tracker.allocations, tracker.total_bytes, tracker.min_bytes, tracker.max_bytes];
    assert_eq!(read, [1, 2, 3, 4]);
    assert_eq!(load(&build(ADD, &[])).unwrap().pool_tracker().unwrap(), None);
}

#[test]
fn a_shared_object_that_records_values_is_refused_with_what_to_do() {
    let source = "void k(void **a) { __builtin_memcpy(a[0], a[1], *(long *)a[2]); }";
    let flags = ["-shared", "-fPIC", "-O1", "-noprofilelib", "-fprofile-generate"];
    let Some(image) = run_compiler("clang-19", "c", source, &flags) else {
        eprintln!("skipped: no clang-19");
        return;
    };
    let refused = load(&image).err().unwrap();
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    assert!(refused.message().contains("__llvm_profile_instrument_memop"), "{refused}");
    assert!(refused.message().contains("-mllvm -disable-vp"), "{refused}");
}

#[test]
fn profile_sections_are_read_from_memory() {
    let source = "int __llvm_profile_runtime; void k(void **a) { __asm__ volatile(\"\"); }";
    let flags = ["-shared", "-fPIC", "-O1", "-fprofile-instr-generate", "-nostdlib"];
    let Some(image) = run_compiler("clang-19", "c", source, &flags) else {
        eprintln!("skipped: no clang-19");
        return;
    };
    let module = load(&image).unwrap();
    for _ in 0..3 {
        module.call("k");
    }
    let sections = module.profile().unwrap();
    let counters = sections.iter().find(|s| s.kind == ProfileSectionKind::Counters).unwrap();
    assert_eq!(counters.contents, 3u64.to_le_bytes());
    let kinds: Vec<_> = sections.iter().map(|section| section.kind).collect();
    assert!(
        kinds.contains(&ProfileSectionKind::Data) && kinds.contains(&ProfileSectionKind::Names)
    );
    assert!(load(&build(ADD, &[])).unwrap().profile().unwrap().is_empty());
}
