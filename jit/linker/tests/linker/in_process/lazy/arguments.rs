//! Arguments and results of first calls, of every class of the calling convention. Implementations
//! and callers are C; a caller must get the same from the entry on its first call as from the
//! implementation.

use super::World;
use crate::in_process::support::{c, value};

/// Calls `CALL` through an entry, twice, and directly, and checks that the results are the same
/// bytes.
fn arrives(flags: &str, types: &str, function: &str, prototype: &str, call: &str, result: &str) {
    let flags = format!("-O1 -fPIC {flags}");
    let includes = "#include <stdarg.h>\n#include <string.h>\n";
    let function = format!("{includes}{types}\n{function}");
    let caller = format!(
        "{includes}{types}
         extern {prototype}; extern {entry_prototype};
         long caller(void) {{
             {result} first = {entry_call}; {result} later = {entry_call}; {result} direct = {call};
             return memcmp(&first, &direct, SIZE({result})) == 0 && memcmp(&later, &direct, SIZE({result})) == 0;
         }}",
        entry_prototype = prototype.replace("it(", "e_it("),
        entry_call = call.replace("it(", "e_it("),
    );
    // A long double has 16 bytes, and 10 bytes of them count.
    let size = "#define SIZE(type) (sizeof(type) == 16 && __alignof__(type) == 16 && IS_LONG_DOUBLE ? 10 : sizeof(type))\n";
    let long_double = if result == "long double" { 1 } else { 0 };
    let caller = format!("#define IS_LONG_DOUBLE {long_double}\n{size}{caller}");
    let world = World::new(&[c(&flags, &function)]);
    let _entries = world.add(&["it"]);
    world.library.set_link_order(&[&world.implementations]);
    let _caller = world.library.add_object("caller.o", c(&flags, &caller)).unwrap();
    assert_eq!(value(&world.library, "caller"), 1, "{prototype}");
}

#[test]
fn integers_and_doubles_in_all_registers_and_twenty_on_the_stack() {
    let types = "#define L(n) long a##n, double x##n\n#define U(n) n * a##n + x##n / n";
    let prototype = "double it(L(1),L(2),L(3),L(4),L(5),L(6),L(7),L(8),L(9),L(10),L(11),L(12),L(13),L(14),L(15),L(16),L(17),L(18),L(19),L(20))";
    let sum: Vec<String> = (1..=20).map(|n| format!("(U({n}))")).collect();
    let arguments: Vec<String> = (1..=20).map(|n| format!("{n}, {n}.25")).collect();
    arrives(
        "",
        types,
        &format!("{prototype} {{ return {}; }}", sum.join(" + ")),
        prototype,
        &format!("it({})", arguments.join(", ")),
        "double",
    );
}

#[test]
fn structures_by_value_and_one_returned_in_memory() {
    let types = "struct small { int a; float b; }; struct pair { double a; long b; }; struct large { long n[9]; double d; };";
    let prototype =
        "struct large it(struct large l, struct small s, struct pair p, int n, struct large m)";
    let body = "{ l.n[0] += s.a; l.n[8] += p.b * n; l.d += s.b + p.a + m.d + m.n[3]; return l; }";
    arrives(
        "",
        types,
        &format!("{prototype} {body}"),
        prototype,
        "it((struct large){{1,2,3,4,5,6,7,8,9}, 0.5}, (struct small){7, 1.5f}, (struct pair){2.25, 11}, 3, \
            (struct large){{9,8,7,6,5,4,3,2,1}, 0.125})",
        "struct large",
    );
}

#[test]
fn a_structure_returned_in_a_register_of_each_kind() {
    let types = "struct pair { double a; long b; };";
    let prototype = "struct pair it(long n, double x)";
    let function = format!("{prototype} {{ return (struct pair){{ x * n, n + 1 }}; }}");
    arrives("", types, &function, prototype, "it(6, 1.5)", "struct pair");
}

#[test]
fn long_doubles_on_the_stack_and_as_the_result() {
    let prototype = "long double it(long double a, int n, long double b)";
    let function = format!("{prototype} {{ return a * n + b; }}");
    arrives("", "", &function, prototype, "it(1.5L, 3, 0.0625L)", "long double");
}

#[test]
fn variadic_calls_say_how_many_vector_registers_they_use() {
    let prototype = "double it(int count, ...)";
    let body = "{ va_list l; va_start(l, count); double sum = 0;
        for (int n = 1; n <= count; n++) sum += n * (n % 2 ? va_arg(l, double) : va_arg(l, int)); va_end(l); return sum; }";
    arrives(
        "",
        "",
        &format!("{prototype} {body}"),
        prototype,
        "it(12, 1.5, 2, 3.5, 4, 5.5, 6, 7.5, 8, 9.5, 10, 11.5, 12)",
        "double",
    );
}

#[test]
fn integers_of_128_bits_and_a_complex_result() {
    let prototype = "_Complex double it(__int128 a, float f, __int128 b, __int128 c, __int128 d)";
    let function =
        format!("{prototype} {{ return (double)(a + 2 * b + 3 * c + 4 * d) + f * 1.0i; }}");
    arrives(
        "",
        "",
        &function,
        prototype,
        "it((__int128)1 << 90, 2.5f, 3, 4, 5)",
        "_Complex double",
    );
}

#[test]
fn vectors_as_wide_as_the_processor_has_them() {
    let mut widths = vec![(16, "-msse2")];
    widths.extend(std::arch::is_x86_feature_detected!("avx").then_some((32, "-mavx")));
    widths.extend(std::arch::is_x86_feature_detected!("avx512f").then_some((64, "-mavx512f")));
    for (bytes, flags) in widths {
        let lanes = bytes / 8;
        let types = format!("typedef double v __attribute__((vector_size({bytes})));");
        let prototype = "v it(v a, v b, v c, v d, v e, v f, v g, v h, v on_stack, double x)";
        let function = format!(
            "{prototype} {{ return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*on_stack + x; }}"
        );
        let vector = |start: usize| {
            let lanes: Vec<String> = (0..lanes).map(|lane| format!("{start}.{lane}")).collect();
            format!("(v){{{}}}", lanes.join(", "))
        };
        let arguments: Vec<String> = (1..10).map(vector).collect();
        let call = format!("it({}, 0.5)", arguments.join(", "));
        arrives(flags, &types, &function, prototype, &call, "v");
    }
}

#[test]
fn a_nested_function_keeps_its_frame_and_errno_is_the_callers() {
    // The frame of a nested function is passed in `r10`, as the static chain.
    let world = World::new(&[c(
        "-O1 -fPIC",
        "__asm__(\".globl chained; .type chained, @function; chained: mov %r10, %rax; ret\");
         #include <errno.h>
         long failing(void) { return errno; }",
    )]);
    let _entries = world.add(&["chained", "failing"]);
    let caller = c(
        "-O1 -fPIC",
        "#include <errno.h>
         extern char e_chained; long e_failing(void);
         long chain(void) { long result; __asm__ volatile(\"mov $1234, %%r10; call e_chained@PLT\" : \"=a\"(result)
             :: \"r10\", \"r11\", \"rcx\", \"rdx\", \"rsi\", \"rdi\", \"r8\", \"r9\", \"memory\"); return result; }
         long number(void) { errno = 33; return e_failing(); }",
    );
    let _caller = world.library.add_object("caller.o", caller).unwrap();
    assert_eq!(value(&world.library, "chain"), 1234);
    assert_eq!(value(&world.library, "number"), 33);
}

/// A test of values in caller-saved registers. GCC keeps values there across the call of a function
/// whose code it has seen to leave them alone. In the large code model that call goes through the
/// entry: the function's address is the same everywhere.
#[test]
fn values_that_a_caller_keeps_because_it_knows_the_function() {
    const COUNT: i64 = 15;
    /// Returns a caller that reads all of `p` before it calls `callee`, and adds the values up
    /// afterwards.
    fn caller(kind: &str, name: &str, callee: &str) -> String {
        let read: Vec<String> = (0..COUNT).map(|n| format!("v{n} = p[{n}]")).collect();
        let sum: Vec<String> = (0..COUNT).map(|n| format!("v{n} * {}", n + 1)).collect();
        let (read, sum) = (read.join(", "), sum.join(" + "));
        format!("{kind} {name}(const {kind} *p) {{ {kind} {read}; {callee}(); return {sum}; }}\n")
    }
    let callers = caller("long", "longs", "one") + &caller("double", "doubles", "two");
    let numbers: Vec<String> = (0..COUNT).map(|n| format!("{}", n * n + 3)).collect();
    let source = format!(
        "__attribute__((noinline)) void one(void) {{ __asm__ volatile(\"\" ::: \"memory\"); }}
         __attribute__((noinline)) void two(void) {{ __asm__ volatile(\"\" ::: \"memory\"); }}
         {callers}
         static long l[] = {{ {numbers} }};
         static double d[] = {{ {numbers} }};
         long sum_of_longs(void) {{ return longs(l); }}
         long sum_of_doubles(void) {{ return doubles(d); }}",
        numbers = numbers.join(", "),
    );
    let expected: i64 = (0..COUNT).map(|n| (n * n + 3) * (n + 1)).sum();
    for flags in ["-O2 -fno-pic -mcmodel=large", "-O2 -fno-pic"] {
        let world = World::new(&[]);
        let _file = world.lazy.add_lazily(&world.library, "it.o", c(flags, &source)).unwrap();
        for function in ["sum_of_longs", "sum_of_doubles"] {
            assert_eq!(value(&world.library, function), expected, "{function} with {flags}");
        }
    }
}
