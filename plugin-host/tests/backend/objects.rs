//! Features of relocatable objects and archives as images, and refused objects.

use crate::is_all;
use crate::relocatable::{FIXED, archive, error, in_every_way, object, ran};
use crate::support;
use crate::support::{ADD, ORDER, load, run_compiler};
use longshore_plugin_api::{ErrorCode, Module, ProfileSectionKind, SymbolKind};

#[test]
fn kernels_and_globals_work_however_the_object_was_compiled() {
    for (how, image) in in_every_way(ADD) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        let (mut sum, mut a, mut b) = (0i32, 2i32, 5i32);
        let mut arguments = [&mut sum, &mut a, &mut b].map(|value| (value as *mut i32).cast());
        module.call_with("add", &mut arguments);
        assert_eq!((sum, module.int("calls")), (7, 41), "{how}");
        module.set_int("calls", 5);
        module.call_with("add", &mut arguments);
        assert_eq!(module.int("calls"), 6, "{how}");
        module.call("tls");
        assert_eq!(module.int("calls"), 7, "{how}");
    }
}

#[test]
fn constructors_and_destructors_run_once_in_order_and_only_in_their_step() {
    for (how, image) in in_every_way(ORDER) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(module.text("order"), "", "{how}");
        module.run_constructors().unwrap();
        assert_eq!(module.text("order"), "abc", "{how}");
        module.run_destructors().unwrap();
        assert_eq!(module.text("order"), "abchxyz", "{how}");
        let mut written = [0u8; 32];
        let mut sink = written.as_mut_ptr();
        module.call_with("redirect", &mut [(&raw mut sink).cast()]);
        module.unload().unwrap();
        assert_eq!(written, [0; 32], "{how}: unloading ran something");
    }
}

#[test]
fn handlers_are_forgotten_if_the_destructors_are_not_run() {
    let module = ran(&object(ORDER, &[]));
    let mut written = [0u8; 32];
    let mut sink = written.as_mut_ptr();
    module.call_with("redirect", &mut [(&raw mut sink).cast()]);
    module.unload().unwrap();
    assert_eq!(written, [0; 32]);
}

#[test]
fn objects_with_constructors_and_destructors_come_from_cpp() {
    let source = "#include <cstddef>
        #include <new>
        static char order[32]; static int at;
        struct Noted { char c; Noted(char c) : c(c) { order[at++] = c; } ~Noted() { order[at++] = c - 32; } };
        static Noted first('a'), second('b');
        inline Noted &late() { static Noted late('c'); return late; }
        extern \"C\" { char *shown = order; int caught;
          void k(void **a) { late(); Noted *held = new Noted('d'); delete held;
            try { throw 5; } catch (int thrown) { caught = thrown; } } }";
    for compiler in ["g++", "clang++-19"] {
        for position in [&["-fPIC"][..], FIXED] {
            let flags = [&["-c", "-O1"], position].concat();
            let Some(image) = run_compiler(compiler, "cc", source, &flags) else {
                eprintln!("skipped: no {compiler}");
                continue;
            };
            let module = ran(&image);
            module.call("k");
            assert_eq!(module.int("caught"), 5, "{compiler} {flags:?}");
            let shown = *module.global_at::<*const std::ffi::c_char>("shown");
            // SAFETY: this is an array of the image, whose last element is 0.
            let text = || unsafe { std::ffi::CStr::from_ptr(shown) }.to_str().unwrap().to_owned();
            assert_eq!(text(), "abcdD", "{compiler} {flags:?}");
            module.run_destructors().unwrap();
            assert_eq!(text(), "abcdDCBA", "{compiler} {flags:?}");
        }
    }
}

#[test]
fn symbols_are_the_visible_ones_of_the_image() {
    let source =
        "int calls = 40; static int own; __attribute__((visibility(\"hidden\"))) int hidden;
        int zero[9]; const char text[77] = \"x\"; extern void abort(void); __thread int mine;
        __attribute__((visibility(\"hidden\"))) void helper(void) { own++; hidden++; mine++; }
        void k(void **a) { helper(); if (own > 9) abort(); }
        unsigned __longshore_arguments_k[] = {8, 4};
        __asm__(\".globl label\\nlabel:\");";
    for flags in [&[][..], &["-fcommon"], &["-fdata-sections"]] {
        let module = load(&object(source, flags)).unwrap();
        let mut symbols = module.symbols().unwrap();
        symbols.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = symbols.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let expected = [
            ("calls", SymbolKind::Global),
            ("k", SymbolKind::Kernel),
            ("text", SymbolKind::Global),
            ("zero", SymbolKind::Global),
        ];
        assert_eq!(names, expected, "{flags:?}");
        let sizes = ["calls", "text", "zero"].map(|name| module.global(name).unwrap().bytes);
        assert_eq!(sizes, [4, 77, 36], "{flags:?}");
        let attributes = module.kernel("k").unwrap().1;
        assert_eq!(attributes.argument_sizes, Some(vec![8, 4]));
        assert!(attributes.code_bytes > 0);
        assert_eq!(module.kernel("calls").err().unwrap().code(), ErrorCode::SymbolKind);
        assert_eq!(module.global("k").err().unwrap().code(), ErrorCode::SymbolKind);
        assert_eq!(module.kernel("abort").err().unwrap().code(), ErrorCode::NotFound);
        assert_eq!(module.global("hidden").err().unwrap().code(), ErrorCode::NotFound);
    }
}

#[test]
fn a_resolver_chooses_a_kernel() {
    let source = "int calls; static void chosen(void **a) { calls = 5; }
        static void *choose(void) { return (void *)chosen; }
        void k(void **a) __attribute__((ifunc(\"choose\")));
        void other(void **a) { k(a); }";
    for (how, image) in in_every_way(source) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        module.call("k");
        assert_eq!(module.int("calls"), 5, "{how}");
        module.set_int("calls", 0);
        module.call("other");
        assert_eq!(module.int("calls"), 5, "{how}");
        // Without the ABI's mark, the object with resolvers is damaged: the load would run them.
        let mut damaged = image.clone();
        damaged[7] = 0;
        assert!(error(&damaged).message().contains("'k' has a resolver"), "{how}");
    }
}

#[test]
fn a_resolver_that_chooses_nothing_is_an_error() {
    let source = "static void *choose(void) { return 0; } void some(void **a) {}
        static void *chosen(void) { return (void *)some; }
        void before(void **a) __attribute__((ifunc(\"chosen\")));
        void k(void **a) __attribute__((ifunc(\"choose\")));";
    let text = "the resolver of 'k' chose no function";
    for (how, image) in in_every_way(source) {
        let refused = error(&image);
        assert_eq!((refused.code(), refused.message()), (ErrorCode::InvalidBinary, text), "{how}");
    }
    let shared = load(&support::build(source, &[])).unwrap();
    let refused = shared.kernel("k").err().unwrap();
    assert_eq!((refused.code(), refused.message()), (ErrorCode::InvalidBinary, text));
    shared.call("before");
}

#[test]
fn data_without_a_type_is_a_global_if_its_size_is_known() {
    let source = "__asm__(\".data\\n.globl sized\\n.globl label\\nlabel:\\nsized: .long 5\\n.size sized, 4\");";
    for image in [object(source, &[]), support::build(source, &[])] {
        let module = load(&image).unwrap();
        assert_eq!(module.symbols().unwrap(), [("sized".to_owned(), SymbolKind::Global)]);
        assert_eq!(module.int("sized"), 5);
    }
}

#[test]
fn more_than_two_gigabytes_are_not_supported() {
    let image =
        object("char one[1ul << 30], other[1ul << 30]; char *k(void **a) { return one; }", &[]);
    let refused = error(&image);
    assert_eq!(refused.code(), ErrorCode::Unsupported);
    assert!(refused.message().contains("2 GiB"), "{refused}");
}

#[test]
fn the_members_of_an_archive_use_one_another() {
    let first =
        "int log_of[9], at; int second(int x); int first(int x) { return x ? second(x - 1) : 1; }
        __attribute__((constructor(300))) static void in(void) { log_of[at++] = 3; }
        void k(void **a) { log_of[at++] = first(5); }";
    let second = "extern int log_of[9], at; int first(int x); int second(int x) { return x ? first(x - 1) : 2; }
        __attribute__((constructor(200))) static void in(void) { log_of[at++] = 2; }
        __attribute__((constructor(400))) static void later(void) { log_of[at++] = 4; }
        void unreferenced(void **a) { }";
    for position in [&["-fPIC"][..], FIXED] {
        let module = ran(&archive(&[&object(first, position), &object(second, position)]));
        module.call("k");
        module.call("unreferenced");
        assert_eq!(*module.global_at::<[i32; 5]>("log_of"), [2, 3, 4, 2, 0]);
    }
}

#[test]
fn two_definitions_of_a_name_in_an_archive_are_refused() {
    let one = object("int twice = 1;", &[]);
    let refused = error(&archive(&[&one, &one]));
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    assert!(refused.message().contains("twice"), "{refused}");
    assert!(refused.message().contains("part0.o") && refused.message().contains("part1.o"));
}

#[test]
fn two_loads_stay_apart() {
    let image = object(ADD, &[]);
    let (one, two) = (load(&image).unwrap(), load(&image).unwrap());
    one.set_int("calls", 1);
    let mut x = 0i32;
    let place: *mut std::ffi::c_void = (&raw mut x).cast();
    two.call_with("add", &mut [place, place, place]);
    assert_eq!((one.int("calls"), two.int("calls")), (1, 41));
}

#[test]
fn failures_of_device_code_are_reported() {
    let source = "int __longshore_constructor_status, __longshore_destructor_status;
        __attribute__((constructor)) static void in(void) { __longshore_constructor_status = 3; }
        __attribute__((destructor)) static void out(void) { __longshore_destructor_status = 4; }";
    let module = load(&object(source, &[])).unwrap();
    let failed = module.run_constructors().unwrap_err();
    assert_eq!(failed.code(), ErrorCode::BackendFailure);
    assert!(failed.message().contains("__longshore_constructor_status is 3"), "{failed}");
    let failed = module.run_destructors().unwrap_err();
    assert!(failed.message().contains("__longshore_destructor_status is 4"), "{failed}");
}

#[test]
fn other_files_than_relocatable_objects_are_called_by_their_kind() {
    let refusal = |image: &[u8]| {
        let refused = error(image);
        assert_eq!(refused.code(), ErrorCode::InvalidBinary, "{refused}");
        refused.message().to_owned()
    };
    let own = object(ADD, &[]);
    let mut other = own.clone();
    other[18..20].copy_from_slice(&243u16.to_le_bytes());
    assert!(refusal(&other).contains("RISC-V (machine 243), this device is"));
    assert!(refusal(&archive(&[&other])).contains("part0.o"));
    assert!(refusal(&archive(&[&own, &other])).contains("'part1.o': the image is for RISC-V"));
    assert!(refusal(b"!<arch>\n").contains("empty"));
    assert!(refusal(b"!<thin>\n").contains("thin"));
    assert!(refusal(&archive(&[b"text"])).contains("part0.o"));
    let shared = support::build(ADD, &[]);
    assert!(refusal(&archive(&[&shared])).contains("ET_DYN"));
    let program = run_compiler("cc", "c", "int main(void) { return 0; }", &["-no-pie"]).unwrap();
    assert!(refusal(&program).contains("ET_EXEC"));
    if let Some(bitcode) = run_compiler("clang-19", "c", ADD, &["-c", "-emit-llvm"]) {
        assert!(refusal(&bitcode).contains("bitcode"));
        assert!(refusal(&archive(&[&bitcode])).contains("bitcode"));
        assert!(
            refusal(&archive(&[&own, &bitcode])).contains("'part1.o': the image is LLVM bitcode")
        );
    }
    if let Some(foreign) = run_compiler("aarch64-linux-gnu-gcc", "c", ADD, &["-c"]) {
        assert_eq!(load(&foreign).is_err(), cfg!(target_arch = "x86_64"));
    }
}

#[test]
fn a_constructor_that_is_no_code_of_the_image_is_refused() {
    for list in [".init_array", ".fini_array", ".ctors"] {
        let source = format!(
            "extern int abs(int); int data;
            __attribute__((section(\"{list}\"), used)) static void *a = &data;"
        );
        let refused = error(&object(&source, &[]));
        assert_eq!(refused.code(), ErrorCode::InvalidBinary);
        assert!(refused.message().contains(&format!("({list})[0]")), "{refused}");
    }
}

#[test]
fn thread_local_variables_at_a_fixed_place_are_refused_with_what_to_do() {
    let source = "__thread int mine; void k(void **a) { mine++; }";
    let refused = error(&object(source, &["-fno-pic"]));
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    assert!(refused.message().contains("mine"), "{refused}");
}

#[test]
fn the_pool_tracker_is_read() {
    let source = "unsigned long long __omp_rtl_device_memory_pool_tracker[4] = {1, 2, 3, 4};";
    let tracker = load(&object(source, &[])).unwrap().pool_tracker().unwrap().unwrap();
    let read = [tracker.allocations, tracker.total_bytes, tracker.min_bytes, tracker.max_bytes];
    assert_eq!(read, [1, 2, 3, 4]);
    assert_eq!(load(&object(ADD, &[])).unwrap().pool_tracker().unwrap(), None);
}

#[test]
fn profile_sections_are_read_from_memory() {
    let source = "void k(void **a) { __asm__ volatile(\"\"); }";
    for generate in ["-fprofile-instr-generate", "-fprofile-generate"] {
        let flags = ["-c", "-fPIC", "-O1", generate];
        let Some(image) = run_compiler("clang-19", "c", source, &flags) else {
            eprintln!("skipped: no clang-19");
            return;
        };
        let module = load(&image).unwrap();
        (0..3).for_each(|_| module.call("k"));
        let sections = module.profile().unwrap();
        let counters = sections.iter().find(|s| s.kind == ProfileSectionKind::Counters).unwrap();
        assert_eq!(counters.contents, 3u64.to_le_bytes());
        let kinds: Vec<_> = sections.iter().map(|section| section.kind).collect();
        for kind in [ProfileSectionKind::Data, ProfileSectionKind::Names] {
            assert!(kinds.contains(&kind), "{generate}: {kinds:?}");
        }
        // With front-end instrumentation, the records imply the version.
        let section =
            sections.iter().find(|section| section.kind == ProfileSectionKind::RawVersion);
        let version = section.and_then(|section| section.contents.first_chunk()).copied();
        let variant = if generate == "-fprofile-generate" { 1 << 56 } else { 0 };
        assert_eq!(version.map(u64::from_le_bytes), Some(10 | variant), "{generate}");
    }
    assert!(load(&object(ADD, &[])).unwrap().profile().unwrap().is_empty());
}

#[test]
fn an_object_cut_off_anywhere_is_refused() {
    for image in [object(ORDER, &[]), archive(&[&object(ORDER, &[])])] {
        for length in (0..image.len()).step_by(8) {
            if let Ok(module) = load(&image[..length]) {
                module.unload().expect("what loads unloads");
            }
        }
        for length in [0, 8, 64, image.len() / 2, image.len() - 64] {
            assert_eq!(error(&image[..length]).code(), ErrorCode::InvalidBinary, "{length}");
        }
    }
}

#[test]
fn no_single_bit_makes_the_linker_crash() {
    // An archive has few bits outside of its members.
    let position_independent = object(ORDER, &[]);
    for image in [&position_independent, &object(ORDER, FIXED), &archive(&[&position_independent])]
    {
        let (mut loaded, mut refused) = (0, 0);
        let mut image = image.clone();
        for bit in (0..image.len() * 8).step_by(if is_all() { 7 } else { 23 }) {
            image[bit / 8] ^= 1 << (bit % 8);
            match load(&image) {
                Ok(module) => {
                    module.symbols().expect("symbols can be listed");
                    module.profile().expect("profiles can be read");
                    module.unload().expect("what loads unloads");
                    loaded += 1;
                }
                Err(error) => {
                    // A bit may request a valid but unsupported feature, such as memory that is
                    // writable and executable.
                    let right =
                        [ErrorCode::InvalidBinary, ErrorCode::LinkFailure, ErrorCode::Unsupported];
                    assert!(right.contains(&error.code()), "bit {bit}: {error}");
                    refused += 1;
                }
            }
            image[bit / 8] ^= 1 << (bit % 8);
        }
        eprintln!("{} bytes: {loaded} flips load, {refused} are refused", image.len());
        assert!(loaded > 0 && refused > 0);
    }
}

#[test]
fn the_place_of_a_damaged_relocation_is_reported() {
    let source = "extern int abs(int); int k(void **a) { return abs(3); }";
    let image = object(source, &["-fno-builtin"]);
    // A relocation's type is the low half of its second word.
    let headers = u64::from_le_bytes(image[40..48].try_into().unwrap()) as usize;
    let header = (headers..image.len()).step_by(64).find(|at| image[at + 4] == 4).unwrap();
    let table = u64::from_le_bytes(image[header + 24..header + 32].try_into().unwrap()) as usize;
    let mut damaged = image.clone();
    damaged[table + 8] = 0xee;
    let refused = error(&damaged);
    assert_eq!(refused.code(), ErrorCode::InvalidBinary);
    assert!(refused.message().contains("(.text+0x"), "{refused}");
}
