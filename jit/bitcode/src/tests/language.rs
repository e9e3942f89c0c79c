//! Features of C and LLVM in modules that are compiled piece by piece.

use super::support::{World, compiler};

/// Compiles a module and calls its `long run(long)`.
#[track_caller]
fn check(source: &str, argument: i64, expected: i64) {
    for flags in ["-O0 -fPIC", "-O1 -fPIE", "-O1 -fno-pic"] {
        let Some(world) = World::from_texts(&[("c", flags, source)]) else { return };
        world.initialize();
        assert_eq!(world.call("run", argument), expected, "{flags}");
    }
}

#[test]
fn local_functions_and_variables_are_shared_by_the_pieces() {
    check(
        "static long count = 40;
         __attribute__((noinline)) static long add(long n) { return count += n; }
         long one(long n) { return add(n); }
         long run(long n) { long a = one(n), b = add(n); return a + b - count; }",
        1,
        41,
    );
}

#[test]
fn local_names_do_not_clash_with_other_modules() {
    const ONE: &str = "static long count = 1;
        __attribute__((noinline)) static long own(long n) { count += n; return count; }
        long two(long); long run(long n) { return own(n) * 1000 + two(n); }";
    const TWO: &str = "static long count = 500;
        __attribute__((noinline)) static long own(long n) { count -= n; return count; }
        long two(long n) { return own(n); }";
    for flags in ["-O0 -fPIC", "-O1 -fPIC"] {
        let Some(world) = World::from_texts(&[("c", flags, ONE), ("c", flags, TWO)]) else {
            return;
        };
        assert_eq!((world.call("run", 2), world.call("run", 2)), (3498, 5496));
    }
}

#[test]
fn texts_and_tables_of_constants_are_found() {
    check(
        r#"#include <string.h>
        static const long table[] = { 3, 1, 4, 1, 5 };
        static const char *const names[] = { "zero", "one", "two" };
        __attribute__((noinline)) static long size(long n) { return strlen(names[n]); }
        long run(long n) { return size(n) * 100 + table[n] * 10 + strlen("ab"); }"#,
        0,
        432,
    );
}

#[test]
fn pointers_to_functions_in_variables_equal_pointers_in_code() {
    check(
        "typedef long (*function)(long);
         __attribute__((noinline)) static long one(long n) { return n + 1; }
         long two(long n) { return n + 2; }
         function table[] = { one, two };
         long compare(function f, function g) { return f == table[0] && g == table[1]; }
         long run(long n) { return table[0](n) * 100 + table[1](n) * 10 + compare(one, two); }",
        1,
        231,
    );
}

#[test]
fn aliases_of_functions_and_variables_are_the_same_objects() {
    check(
        "long value = 5;
         extern long same __attribute__((alias(\"value\")));
         long one(long n) { return n + value; }
         long other(long n) __attribute__((alias(\"one\")));
         static long third(long n) __attribute__((alias(\"one\")));
         long run(long n) { same = 7; return other(n) * 1000 + third(n) * 10 + value; }",
        1,
        8087,
    );
}

#[test]
fn functions_that_a_resolver_chooses_are_chosen() {
    check(
        "static long seven(long n) { return n + 7; }
         static long eight(long n) { return n + 8; }
         extern int chooses_eight; __attribute__((weak)) int chooses_eight = 1;
         static void *resolve(void) { return chooses_eight ? eight : seven; }
         long chosen(long n) __attribute__((ifunc(\"resolve\")));
         static long own(long n) __attribute__((ifunc(\"resolve\")));
         long one(long n) { return chosen(n) + own(n); }
         long run(long n) { return one(n) * 100 + chosen(n); }",
        1,
        1809,
    );
}

#[test]
fn labels_have_addresses_in_tables() {
    check(
        "long run(long n) {
            static void *const table[] = { &&one, &&two, &&done };
            long sum = 0;
            goto *table[n];
         one: sum += 1; goto *table[1];
         two: sum += 20; goto *table[2];
         done: return sum;
         }
         long other(long n) { return run(n); }",
        0,
        21,
    );
}

#[test]
fn variables_of_threads_are_each_threads_own() {
    check(
        "#include <pthread.h>
         static __thread long own = 3; __thread long seen = 4; static __thread long none;
         __attribute__((noinline)) static long add(long n) { none += n; return own += n; }
         static void *in_thread(void *n) { return (void *)(add((long)n) + seen + none); }
         long run(long n) {
            pthread_t thread; void *result;
            add(100); seen += 100;
            pthread_create(&thread, 0, in_thread, (void *)n);
            pthread_join(thread, &result);
            return (long)result + own + none;
         }",
        1,
        4 + 4 + 1 + 103 + 100,
    );
}

#[test]
fn lists_of_arguments_and_structures_by_value_arrive() {
    check(
        "#include <stdarg.h>
         struct large { long parts[9]; }; struct pair { double x; long y; };
         long sum(int count, ...) {
            va_list list; long sum = 0;
            va_start(list, count);
            for (int i = 0; i < count; i++) sum += i % 2 ? va_arg(list, long) : (long)va_arg(list, double);
            va_end(list);
            return sum;
         }
         struct large fill(struct large it, long n) { it.parts[8] += n; return it; }
         struct pair swap(struct pair it) { struct pair other = { it.y, (long)it.x }; return other; }
         long run(long n) {
            struct large it = { { 0, 0, 0, 0, 0, 0, 0, 0, 5 } };
            struct pair pair = { 2.5, 9 };
            pair = swap(pair);
            return sum(4, 1.5, 2L, 3.5, n) * 1000 + fill(it, n).parts[8] * 100 + pair.y * 10 + (long)pair.x;
         }",
        4,
        10929,
    );
}

#[test]
fn assembly_beside_functions_is_found_also_where_it_is_the_modules_own() {
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    check(
        r#"__asm__(".globl assembled\nassembled: lea 5(%rdi), %rax\nret\nown: lea 7(%rdi), %rax\nret\n");
         long assembled(long), own(long) __attribute__((visibility("hidden")));
         long one(long n) { return assembled(n); }
         long run(long n) { return one(n) * 10 + own(n); }"#,
        1,
        68,
    );
}

#[test]
fn weak_definitions_and_references_are_weak() {
    const ONE: &str = "__attribute__((weak)) long chosen(long n) { return n + 1; }
        __attribute__((weak)) long only(long n) { return n + 10; }
        extern long nowhere(long) __attribute__((weak)); extern long somewhere(long) __attribute__((weak));
        long run(long n) { return chosen(n) * 1000 + only(n) * 10 + (nowhere ? 5 : 0) + (somewhere ? 1 : 0); }";
    const TWO: &str = "__attribute__((weak)) long chosen(long n) { return n + 2; }
        long somewhere(long n) { return n; }";
    for flags in ["-O0 -fPIC", "-O1 -fPIC"] {
        let Some(world) = World::from_texts(&[("c", flags, ONE), ("c", flags, TWO)]) else {
            return;
        };
        assert_eq!(world.call("run", 1), 2111, "{flags}");
    }
}

#[test]
fn a_definition_for_the_optimizer_is_another_modules() {
    const ONE: &str = "inline long once(long n) { return n + 1; }
        long run(long n) { return once(n); }";
    const TWO: &str = "long once(long n) { return n + 2; }";
    for (flags, expected) in [("-O0 -fPIC", 3), ("-O1 -fPIC -fno-inline", 3)] {
        let Some(world) = World::from_texts(&[("c", flags, ONE), ("c", flags, TWO)]) else {
            return;
        };
        assert_eq!(world.call("run", 1), expected, "{flags}");
    }
}

#[test]
fn variables_that_several_modules_have_are_one() {
    const ONE: &str = "long common; long two(void); long run(long n) { common = n; return two(); }";
    const TWO: &str = "long common; long two(void) { return common + 1; }";
    let flags = "-O1 -fPIC -fcommon";
    let Some(world) = World::from_texts(&[("c", flags, ONE), ("c", flags, TWO)]) else { return };
    assert_eq!(world.call("run", 5), 6);
}

#[test]
fn the_bounds_of_a_section_enclose_all_its_variables() {
    check(
        "#define PART __attribute__((section(\"parts\"), used))
         static long one PART = 1; static long two PART = 20; long three PART = 300;
         extern long __start_parts[], __stop_parts[];
         __attribute__((noinline)) static long count(void) { return __stop_parts - __start_parts; }
         long run(long n) { long sum = 0; for (long *i = __start_parts; i < __stop_parts; i++) sum += *i; return sum * n + count(); }",
        10,
        3213,
    );
}

#[test]
fn constructors_and_destructors_run_and_call_uncompiled_functions() {
    const SOURCE: &str = "static long trace; long get(long n) { return trace; }
        void note(long n) { trace = trace * 10 + n; }
        __attribute__((constructor(200))) static void second(void) { note(2); }
        __attribute__((constructor(100))) static void first(void) { note(1); }
        __attribute__((destructor)) static void last(void) { note(9); }";
    for flags in ["-O0 -fPIC", "-O1 -fPIC"] {
        let Some(world) = World::from_texts(&[("c", flags, SOURCE)]) else { return };
        assert_eq!(world.compiled(), 0);
        world.initialize();
        assert_eq!(world.call("get", 0), 12);
        // SAFETY: the source is sound to run.
        unsafe { world.files.implementations().deinitialize() }.unwrap();
        assert_eq!(world.call("get", 0), 129);
    }
}

#[test]
fn constructors_of_what_was_asked_for_before_run_once() {
    const SOURCE: &str = "static long trace; long get(long n) { return trace; }
        __attribute__((constructor)) static void begin(void) { trace += 4; }";
    let Some(world) = World::from_texts(&[("c", "-O0 -fPIC", SOURCE)]) else { return };
    assert_eq!(world.call("get", 0), 0);
    world.initialize();
    world.initialize();
    assert_eq!(world.call("get", 0), 4);
}

/// A module as sanitizers and other languages write it.
const WITHOUT_NAMES: &str = r#"
@0 = private unnamed_addr constant [2 x i64] [i64 30, i64 40]
@1 = internal global i64 5
@table = constant ptr @2
@2 = private constant i64 600
define internal i64 @3(i64 %n) noinline { %a = load i64, ptr @1  %b = add i64 %a, %n  store i64 %b, ptr @1  ret i64 %b }
define i64 @run(i64 %n) {
  %a = call i64 @3(i64 %n)
  %p = getelementptr i64, ptr @0, i64 1
  %b = load i64, ptr %p
  %q = load ptr, ptr @table
  %c = load i64, ptr %q
  %d = add i64 %a, %b
  %e = add i64 %d, %c
  ret i64 %e
}
"#;

#[test]
fn globals_without_names_are_found() {
    let triple = format!("target triple = \"{}-unknown-linux-gnu\"\n", std::env::consts::ARCH);
    let source = [&triple, WITHOUT_NAMES].concat();
    let Some(compiler) = compiler() else { return };
    if compiler.version() < 16 {
        return eprintln!("skipped: clang {} does not read this text", compiler.version());
    }
    let world = World::by(&compiler, &[("ir", "-O0", &source)]);
    assert_eq!((world.call("run", 1), world.call("run", 1)), (646, 647));
}

#[test]
fn names_that_assemblers_keep_to_themselves_are_found() {
    check(
        "static long count __asm__(\".Lcount\") = 40;
         static long aLcount = 100, _Lcount = 200;
         static long own(long) __asm__(\".Lown\");
         __attribute__((noinline)) static long own(long n) { return count += n; }
         __attribute__((noinline)) static long aLown(long n) { return n + ++aLcount; }
         static long (*const functions[])(long) = { own, aLown };
         long one(long n) { return own(n) + functions[n](1) + _Lcount; }
         long run(long n) { return one(n) + aLown(n) - count; }",
        1,
        405,
    );
}
