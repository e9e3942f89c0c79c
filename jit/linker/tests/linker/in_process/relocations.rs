//! Relocations of x86-64: the output of compilers in every code model, and rare ones by hand.

use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::memory::Placement;
use longshore_jitlink::{Error, Session};

use object::LittleEndian;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::in_process::support::{
    add_cpp_runtime, assembly, c, c_compilers, compile, cpp, failure, library, library_of, value,
    variable,
};

/// Two files that use each other, data of each kind, tables of addresses and the C library.
const ONE: &str = r#"
    #include <string.h>
    #include <stdlib.h>
    extern long shared, zero[1000];
    extern char **environ;
    long other(long), weak_one(void) __attribute__((weak));
    static long counter = 3;
    static long step(long n) { return n + counter; }
    static long twice(long n) { return 2 * n; }
    long (*const table[])(long) = { step, twice, other };
    long (*changeable)(long) = other;
    const char *const names[] = { "alpha", "be", "gamma ray" };
    double scale = 1.5;
    long pick(long n) {
        switch (n) {
        case 0: return 10; case 1: return table[1](4); case 2: return shared; case 3: return zero[3];
        case 4: return 77; case 5: return counter; case 6: return -1; case 7: return other(2);
        }
        return 0;
    }
    long compute(void) {
        long sum = 0;
        for (volatile long n = 0; n < 3; n++) sum = sum * 10 + table[n](n + 1) + strlen(names[n]);
        for (volatile long n = 0; n < 9; n++) sum = sum * 3 + pick(n);
        counter++;
        shared += 2;
        zero[3]++;
        sum += changeable(1) + (weak_one ? weak_one() : 5) + (long)(scale * 2.0);
        char *copy = strdup(names[2]);
        sum += strcmp(copy, "gamma ray") == 0;
        free(copy);
        return sum + (environ != 0);
    }
"#;

const OTHER: &str = "
    extern long compute(void);
    long shared = 40, zero[1000];
    __attribute__((noinline)) static long inner(long n) { return n * n + zero[3]; }
    long other(long n) { return inner(n) + shared + (compute == 0); }
";

/// Returns the result of the program above when a system linker has linked the same objects.
fn expected() -> i64 {
    let print = "#include <stdio.h>
        long compute(void); int main(void) { printf(\"%ld\", compute()); return 0; }";
    let objects = [c("", ONE), c("", OTHER), c("", print)];
    crate::in_process::support::system_linked(&objects).parse().unwrap()
}

#[test]
fn every_code_model_computes_the_same_as_with_a_system_linker() {
    let expected = expected();
    for compiler in c_compilers() {
        for flags in [
            "-fPIC",
            "-fPIE",
            "-fno-pic",
            "-fPIC -fno-plt",
            "-fno-pic -fno-plt",
            "-fPIC -mcmodel=medium -mlarge-data-threshold=100",
            "-fno-pic -mcmodel=medium -mlarge-data-threshold=100",
            "-fPIC -mcmodel=large",
            "-fno-pic -mcmodel=large",
            "-fPIC -Wa,-mrelax-relocations=no",
            "-fno-pic -ffunction-sections -fdata-sections",
            "-fPIC -fcf-protection=full",
        ] {
            if compiler != "gcc" && (flags.contains("-Wa") || flags.contains("medium")) {
                continue;
            }
            for level in ["-O0", "-O2"] {
                let flags = format!("{flags} {level}");
                let objects = [ONE, OTHER].map(|source| compile(compiler, "c", &flags, source));
                let computed = value(&library(&objects), "compute");
                assert_eq!(computed, expected, "{compiler} {flags}");
            }
        }
    }
}

#[test]
fn objects_of_different_code_models_are_linked_together() {
    let expected = expected();
    let models = ["-fPIC", "-fno-pic", "-fPIC -mcmodel=large", "-fno-pic -mcmodel=large"];
    for one in models {
        for other in models {
            // Code that is not position-independent must lie low, and so must its targets.
            let session = Session::builder().with_placement(Placement::Low);
            let objects = [c(one, ONE), c(other, OTHER)];
            assert_eq!(
                value(&library_of(session, &objects), "compute"),
                expected,
                "{one}, {other}"
            );
        }
    }
}

#[test]
fn the_c_library_is_called_and_its_data_used_when_it_is_out_of_reach() {
    let expected = expected();
    for flags in
        ["-fPIC", "-fPIE", "-fPIC -fno-plt", "-fno-pic", "-fPIC -O2", "-fPIC -mcmodel=large"]
    {
        let session = Session::builder().with_placement(Placement::Low);
        let library = library_of(session, &[c(flags, ONE), c(flags, OTHER)]);
        let address = library.lookup("compute").unwrap();
        assert!(address < 1 << 31, "{address:#x}");
        assert_eq!(value(&library, "compute"), expected, "{flags}");
    }
}

#[test]
fn data_of_the_process_is_copied_for_code_that_needs_it_near() {
    let source = "#include <stdio.h>
        long f(void) { return fprintf(stderr, \"%s\", \"\"); }
        FILE **where(void) { return &stderr; }";
    let library = library(&[c("-fno-pic", source)]);
    assert_eq!(value(&library, "f"), 0);
    assert!((value(&library, "where") as u64) < 1 << 31);
}

#[test]
fn a_function_has_one_address_for_all_objects() {
    // Code that is not position-independent knows a function by the address of its stub.
    let source = "long compute(void); long NAME(void) { return (long)&compute; }";
    let compute = c("-fPIC", "long compute(void) { return 4; }");
    let objects = [
        c("-fno-pic", &source.replace("NAME", "one")),
        c("-fPIC", &source.replace("NAME", "two")),
        c("-fPIC -mcmodel=large", &source.replace("NAME", "three")),
        compute,
    ];
    let library = library_of(Session::builder().with_placement(Placement::Low), &objects);
    let address = library.lookup("compute").unwrap() as i64;
    assert_eq!(["one", "two", "three"].map(|name| value(&library, name)), [address; 3]);
}

const NEAR: &str = "long near_data = 10; long near(void) { return 20; }";

extern "C" fn far() -> i64 {
    1000
}

#[test]
fn addresses_at_the_ends_of_the_address_space_are_loaded_from_the_got() {
    let source =
        "extern char low, high; char *f(void) { return &low; } char *g(void) { return &high; }";
    let library = library(&[c("-fPIC -O1", source)]);
    library.define_absolute("low", 1).unwrap();
    library.define_absolute("high", u64::MAX).unwrap();
    assert_eq!(value(&library, "f"), 1);
    assert_eq!(value(&library, "g"), -1);
}

#[test]
fn relaxed_loads_of_every_form_compute_the_same() {
    let source = "
        .text
        .globl move; move: mov near_data@GOTPCREL(%rip), %rax; mov (%rax), %rax; ret
        .globl narrow; narrow: mov near_data@GOTPCREL(%rip), %eax; ret
        .globl extended; extended: mov near_data@GOTPCREL(%rip), %r11; mov (%r11), %rax; ret
        .globl call; call: sub $8, %rsp; call *near@GOTPCREL(%rip); add $8, %rsp; ret
        .globl jump; jump: jmp *near@GOTPCREL(%rip)
        .globl compare; compare: lea near_data(%rip), %rcx; xor %eax, %eax
            cmp near_data@GOTPCREL(%rip), %rcx; sete %al; ret
        .globl push; push: push near_data@GOTPCREL(%rip); pop %rax; mov (%rax), %rax; ret
        .globl add; add: xor %eax, %eax; add near_data@GOTPCREL(%rip), %rax; mov (%rax), %rax; ret
        .globl second; second: mov near_data@GOTPCREL+4(%rip), %eax; ret
    ";
    for placement in [Placement::Anywhere, Placement::Low] {
        let session = Session::builder().with_placement(placement);
        let library = library_of(session, &[assembly(source), c("-fPIC", NEAR)]);
        for (name, expected) in [
            ("move", 10),
            ("extended", 10),
            ("call", 20),
            ("jump", 20),
            ("compare", 1),
            ("push", 10),
            ("add", 10),
        ] {
            assert_eq!(value(&library, name), expected, "{name}");
        }
        let address = library.lookup("near_data").unwrap() as i64;
        assert_eq!(value(&library, "narrow"), address & 0xffff_ffff);
        assert_eq!(value(&library, "second"), address >> 32);
    }
}

#[test]
fn narrow_fields_hold_small_values() {
    let source = "
        .data
        .globl bytes; bytes: .reloc ., R_X86_64_8, small; .byte 0; .reloc ., R_X86_64_8, negative; .byte 0
        .reloc ., R_X86_64_16, small + 0x100; .word 0; .long small; .globl wide; wide: .quad small + 0x1000000000";
    let values = ".globl small, negative; .set small, 0x42; .set negative, -1";
    let library = library(&[assembly(source), assembly(values)]);
    assert_eq!(variable(&library, "bytes").to_le_bytes(), [0x42, 0xff, 0x42, 1, 0x42, 0, 0, 0]);
    assert_eq!(variable(&library, "wide"), 0x10_0000_0042);
}

#[test]
fn short_distances_are_computed() {
    let library = library(&[assembly(
        ".section .data.a,\"aw\"; .globl from; from:
         .reloc ., R_X86_64_PC8, to + 1; .byte 0; .byte 0
         .reloc ., R_X86_64_PC16, to; .word 0
         .reloc ., R_X86_64_PC32, to; .long 0
         .globl long_distance; long_distance: .reloc ., R_X86_64_PC64, from; .quad 0
         .section .data.b,\"aw\"; .globl to; to: .quad 0",
    )]);
    let from = library.lookup("from").unwrap();
    let distance = library.lookup("to").unwrap() as i64 - from as i64;
    let bytes = variable(&library, "from").to_le_bytes();
    assert_eq!(i64::from(bytes[0] as i8), distance + 1);
    assert_eq!(i64::from(i16::from_le_bytes([bytes[2], bytes[3]])), distance - 2);
    assert_eq!(i64::from(i32::from_le_bytes(bytes[4..].try_into().unwrap())), distance - 4);
    assert_eq!(variable(&library, "long_distance"), -8);
}

#[test]
fn offsets_from_the_got_find_slots_data_and_functions() {
    let source = "
        .text
        .macro got; lea _GLOBAL_OFFSET_TABLE_(%rip), %rdx; .endm
        .globl base32; base32: got; mov %rdx, %rax; ret
        .globl base64; base64: lea base64(%rip), %rcx
            movabs $_GLOBAL_OFFSET_TABLE_ - base64, %rax; add %rcx, %rax; ret
        .globl slot32; slot32: got; movslq 1f(%rip), %rcx; mov (%rdx, %rcx), %rax; ret
        1: .reloc ., R_X86_64_GOT32, target; .long 0
        .globl slot64; slot64: got; movabs $target@GOT, %rcx; mov (%rdx, %rcx), %rax; ret
        .globl slotplt64; slotplt64: got; mov 2f(%rip), %rcx; mov (%rdx, %rcx), %rax; ret
        2: .reloc ., R_X86_64_GOTPLT64, target; .quad 0
        .globl slotpc64; slotpc64: lea 3f(%rip), %rdx; mov 3f(%rip), %rcx; mov (%rdx, %rcx), %rax; ret
        3: .reloc ., R_X86_64_GOTPCREL64, target; .quad 0
        .globl offset; offset: got; movabs $local@GOTOFF, %rax; add %rdx, %rax; ret
        .globl call; call: got; movabs $target@PLTOFF, %rax; add %rdx, %rax; jmp *%rax
        .globl call_here; call_here: got; movabs $seven@PLTOFF, %rax; add %rdx, %rax; jmp *%rax
        .globl seven; seven: mov $7, %eax; ret
        .data; .globl local; local: .quad 5
    ";
    for placement in [Placement::Anywhere, Placement::Low] {
        let library = library_of(Session::builder().with_placement(placement), &[assembly(source)]);
        let target = far as *const () as u64;
        library.define_absolute("target", target).unwrap();
        for name in ["slot32", "slot64", "slotplt64", "slotpc64"] {
            assert_eq!(value(&library, name) as u64, target, "{name}");
        }
        assert_eq!(value(&library, "base32"), value(&library, "base64"));
        assert_eq!(value(&library, "offset") as u64, library.lookup("local").unwrap());
        assert_eq!(value(&library, "call"), 1000);
        assert_eq!(value(&library, "call_here"), 7);
    }
}

#[test]
fn sizes_of_symbols_are_computed() {
    let library = library(&[assembly(
        ".text; .globl small; small: mov $object@SIZE, %eax; ret
         .globl large; large: movabs $object@SIZE + 2, %rax; ret
         .data; .globl object; .type object, @object; .size object, 24; object: .skip 24",
    )]);
    assert_eq!(value(&library, "small"), 24);
    assert_eq!(value(&library, "large"), 26);
}

#[test]
fn the_size_of_a_symbol_of_another_object_is_an_error() {
    let library = library(&[
        assembly(".text; .globl f; f: mov $object@SIZE, %eax; ret"),
        assembly(".data; .globl object; .type object, @object; .size object, 24; object: .skip 24"),
    ]);
    let error = failure(library.lookup("f"));
    assert!(
        error.contains("R_X86_64_SIZE32 against object: the size of a symbol of another"),
        "{error}"
    );
}

#[test]
fn a_value_that_does_not_fit_is_an_error_with_place_symbol_and_range() {
    let cases = [
        (".byte 0; .reloc ., R_X86_64_8, target; .byte 0", "R_X86_64_8", 0x100, (-128, 255)),
        (
            ".byte 0; .reloc ., R_X86_64_16, target; .word 0",
            "R_X86_64_16",
            0x1_0000,
            (-0x8000, 0xffff),
        ),
        (".byte 0; .long target", "R_X86_64_32", 0x1_0000_0000, (0, 0xffff_ffff)),
        (
            ".byte 0; .reloc ., R_X86_64_32S, target; .long 0",
            "R_X86_64_32S",
            0x8000_0000,
            (-0x8000_0000, 0x7fff_ffff),
        ),
    ];
    for (source, kind, value, range) in cases {
        let target = format!(".globl target; .set target, {value}");
        let library =
            library(&[assembly(&format!(".data; .globl it; it: {source}")), assembly(&target)]);
        let Err(Error::Relocation(error)) = library.lookup("it") else { panic!("{kind}") };
        assert_eq!(error.place.to_string(), "0.o(.data+0x1)");
        assert_eq!((error.kind.as_str(), error.symbol.as_str()), (kind, "target"));
        let expected =
            longshore_jitlink::arch::Fault::OutOfRange { value, min: range.0, max: range.1 };
        assert_eq!(error.fault, expected);
        let text = error.to_string();
        for part in ["0.o(.data+0x1)", kind, "target", &range.0.to_string(), &range.1.to_string()] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
}

#[test]
fn a_distance_that_does_not_fit_is_an_error() {
    let library = library(&[
        assembly(".data; .globl it; it: .long target - ."),
        assembly(".globl target; .set target, 0x10"),
    ]);
    let Err(Error::Relocation(error)) = library.lookup("it") else { panic!() };
    assert_eq!((error.kind.as_str(), error.symbol.as_str()), ("R_X86_64_PC32", "target"));
    assert_eq!(error.place.to_string(), "0.o(.data+0x0)");
    let longshore_jitlink::arch::Fault::OutOfRange { value, min, max } = error.fault else {
        panic!()
    };
    assert!(value < min && (min, max) == (-0x8000_0000, 0x7fff_ffff));
}

#[test]
fn a_relocation_that_only_dynamic_linkers_know_is_an_error_with_its_name_and_place() {
    let library = library(&[assembly(
        ".text; .globl f; f: ret; .data; .quad 0; .reloc ., R_X86_64_COPY, f; .quad 0",
    )]);
    let error = failure(library.lookup("f"));
    assert_eq!(error, "0.o(.data+0x8): relocation R_X86_64_COPY is not supported");
}

#[test]
fn a_relocation_of_an_unknown_number_is_an_error_with_the_number() {
    let mut bytes = assembly(".data; .globl it; it: .quad it").to_vec();
    let relocations = {
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        file.section_by_name(".rela.data").unwrap().file_range().unwrap().0 as usize
    };
    assert_eq!(bytes[relocations + 8], 1);
    bytes[relocations + 8] = 254;
    let library = library(&[bytes.into()]);
    let error = failure(library.lookup("it"));
    assert_eq!(error, "0.o(.data+0x0): relocation number 254 is not supported");
}

#[test]
fn indirect_functions_are_resolved_once_and_have_one_address() {
    let definition = "
        static int resolved;
        static long one(void) { return 100; }
        static long two(void) { return 200; }
        static int want_two(void) { return 1; }
        static long (*resolve(void))(void) { resolved++; return want_two() ? two : one; }
        long chosen(void) __attribute__((ifunc(\"resolve\")));
        long (*const inside)(void) = chosen;
        long times(void) { return resolved; }
        long call_inside(void) { return chosen() + inside(); }
        long (*address_inside(void))(void) { return chosen; }";
    let user = "
        long chosen(void);
        long (*const outside)(void) = chosen;
        long call_outside(void) { return chosen() + outside(); }
        long (*address_outside(void))(void) { return chosen; }";
    for (defines, uses) in [
        ("-fPIC", "-fPIC"),
        ("-fno-pic", "-fno-pic"),
        ("-fPIC", "-fPIC -fno-plt"),
        ("-fPIC -mcmodel=large", "-fPIC -mcmodel=large"),
    ] {
        let library = library(&[c(defines, definition), c(uses, user)]);
        assert_eq!(value(&library, "call_outside"), 400, "{defines}");
        assert_eq!(value(&library, "call_inside"), 400);
        assert_eq!(value(&library, "chosen"), 200);
        assert_eq!(value(&library, "times"), 1);
        assert_eq!(value(&library, "address_inside"), value(&library, "address_outside"));
        assert_eq!(variable(&library, "inside"), variable(&library, "outside"));
    }
}

#[test]
fn merged_strings_keep_their_content() {
    let source = "const char *NAME(void) { static const char *const all[] = { \"tail of it\", \"of it\" }; return all[N]; }";
    let objects = [("one", "0"), ("two", "1")]
        .map(|(name, index)| c("-O2 -fPIC", &source.replace("NAME", name).replace('N', index)));
    let library = library(&objects);
    assert_eq!(crate::in_process::support::string_at(value(&library, "one")), "tail of it");
    assert_eq!(crate::in_process::support::string_at(value(&library, "two")), "of it");
}

#[test]
fn features_of_a_property_note_are_read() {
    let marked = c("-fcf-protection=full", "int f(void) { return 1; }");
    let unmarked = c("-fcf-protection=none", "int f(void) { return 1; }");
    let features = |object| LinkGraph::read("it.o", object).unwrap().property_features();
    // The features are IBT and SHSTK.
    assert_eq!(features(marked), 3);
    assert_eq!(features(unmarked), 0);
}

#[test]
fn code_of_cpp_with_virtual_functions_and_streams_runs() {
    let source = "
        #include <map>
        #include <memory>
        #include <sstream>
        #include <string>
        struct Shape { virtual ~Shape() = default; virtual long area() const = 0; };
        struct Square : Shape { long side; Square(long s) : side(s) {} long area() const override { return side * side; } };
        struct Oblong : Square { Oblong(long s) : Square(s) {} long area() const override { return 2 * Square::area(); } };
        std::map<std::string, std::unique_ptr<Shape>> shapes;
        extern \"C\" long area(void) {
            shapes[\"square\"] = std::make_unique<Square>(3);
            shapes[\"oblong\"] = std::make_unique<Oblong>(4);
            std::ostringstream text;
            for (auto &[name, shape] : shapes) text << shape->area() << dynamic_cast<Oblong *>(shape.get());
            long sum = 0;
            for (auto &[name, shape] : shapes) sum += shape->area() + name.size();
            return sum + (text.str().size() > 2) * 100;
        }";
    for flags in ["-fPIC -O0", "-fno-pic -O2", "-fPIC -O2 -mcmodel=large"] {
        let library = library(&[cpp(flags, source)]);
        add_cpp_runtime(&library);
        crate::in_process::support::initialize(&library);
        assert_eq!(value(&library, "area"), 153, "{flags}");
        crate::in_process::support::deinitialize(&library);
    }
}
