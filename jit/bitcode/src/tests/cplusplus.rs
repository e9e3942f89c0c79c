//! Features of C++ in modules that are compiled piece by piece.

use super::support::World;

/// Compiles modules and calls their `long run(long)`.
#[track_caller]
fn check(sources: &[&str], argument: i64, expected: i64) {
    for flags in ["-O0", "-O1", "-O2 -fvisibility=hidden"] {
        let flags = &format!("{flags} -fPIC -std=c++20");
        let texts: Vec<_> = sources.iter().map(|source| ("c++", flags.as_str(), *source)).collect();
        let Some(world) = World::from_texts(&texts) else { return };
        world.initialize();
        assert_eq!(world.call("run", argument), expected, "{flags}");
    }
}

#[test]
fn exceptions_pass_through_pieces_and_are_caught_by_their_types() {
    check(
        &[r#"
        #include <stdexcept>
        #include <string>
        #define SEEN __attribute__((visibility("default"), noinline))
        namespace { struct Own { long value; }; long unwound = 0; struct Local { ~Local() { unwound++; } }; }
        SEEN void thrower(long n) {
            Local local;
            if (n == 1) throw Own{40};
            if (n == 2) throw std::runtime_error("four");
            throw n;
        }
        SEEN long catcher(long n) {
            try { Local local; thrower(n); }
            catch (const Own &own) { return own.value; }
            catch (const std::exception &error) { return std::string(error.what()).size(); }
            catch (...) { return 900; }
            return -1;
        }
        extern "C" SEEN long run(long) { return catcher(1) + catcher(2) + catcher(3) + unwound * 10000; }
        "#],
        0,
        60944,
    );
}

#[test]
fn virtual_functions_and_run_time_types_belong_to_the_class() {
    check(
        &[r#"
        #include <typeinfo>
        struct Base { virtual long get() const { return 1; } virtual ~Base() {} };
        struct Derived : Base { long own; Derived(long n) : own(n) {} long get() const override { return own; } };
        __attribute__((noinline)) Base *make(long n) { return n ? new Derived(n) : new Base; }
        __attribute__((noinline)) long ask(Base *it) {
            long is_derived = dynamic_cast<Derived *>(it) != nullptr;
            return it->get() * 10 + is_derived + (typeid(*it) == typeid(Derived)) * 1000;
        }
        extern "C" __attribute__((visibility("default"))) long run(long n) {
            Base *one = make(n), *two = make(0);
            long sum = ask(one) + ask(two);
            delete one; delete two;
            return sum;
        }
        "#],
        5,
        1061,
    );
}

#[test]
fn a_variable_in_an_inline_function_is_one_and_is_initialized_once() {
    const HEADER: &str = r#"
        #define SEEN __attribute__((visibility("default")))
        extern long made; extern "C" long two(long);
        struct SEEN Counted { long value; Counted(long n) : value(n) { made++; } };
        SEEN inline Counted &counted() { static Counted it(100); return it; }
        template <class T> struct SEEN Holder { static long held; };
        template <class T> long Holder<T>::held = counted().value;
        "#;
    let one = format!(
        "{HEADER} long made = 0;
         extern \"C\" SEEN long run(long n) {{ counted().value += n; return two(n) * 10000 + made * 1000 + Holder<int>::held; }}"
    );
    let two = format!(
        "{HEADER} extern \"C\" SEEN long two(long) {{ return counted().value + Holder<int>::held * 0; }}"
    );
    check(&[&one, &two], 1, 1_011_100);
}

#[test]
fn objects_are_constructed_and_destroyed_in_order() {
    const SOURCE: &str = r#"
        #define SEEN __attribute__((visibility("default")))
        namespace { long trace; }
        struct Noted { long n; Noted(long n) : n(n) { trace = trace * 10 + n; } ~Noted() { trace = trace * 10 + n + 5; } };
        static Noted one(1); Noted two(2); thread_local Noted three(3);
        extern "C" SEEN long touch(long) { return three.n; }
        extern "C" SEEN long get(long) { return trace; }
        "#;
    for flags in ["-O0 -fPIC", "-O1 -fPIC -fvisibility=hidden"] {
        let Some(world) = World::from_texts(&[("c++", flags, SOURCE)]) else { return };
        world.initialize();
        assert_eq!(
            (world.call("get", 0), world.call("touch", 0), world.call("get", 0)),
            (12, 3, 123)
        );
        // SAFETY: the source is sound to run.
        unsafe { world.files.implementations().deinitialize() }.unwrap();
        assert!(world.call("get", 0).to_string().ends_with("76"), "{}", world.call("get", 0));
    }
}

#[test]
fn closures_coroutines_and_templates_work_as_functions_of_their_own() {
    check(
        &[r#"
        #include <algorithm>
        #include <coroutine>
        #include <functional>
        #include <vector>
        struct Counter {
            struct promise_type {
                long value = 0;
                Counter get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
                std::suspend_always initial_suspend() { return {}; }
                std::suspend_always final_suspend() noexcept { return {}; }
                std::suspend_always yield_value(long n) { value = n; return {}; }
                void return_void() {}
                void unhandled_exception() {}
            };
            std::coroutine_handle<promise_type> handle;
        };
        static Counter count(long n) { for (long i = 0; i < n; i++) co_yield i * i; }
        extern "C" __attribute__((visibility("default"))) long run(long n) {
            std::vector<long> all;
            Counter counter = count(n);
            while (counter.handle.resume(), !counter.handle.done()) all.push_back(counter.handle.promise().value);
            counter.handle.destroy();
            std::function<long(long)> twice = [&](long x) { return x * 2 + (long)all.size(); };
            std::sort(all.begin(), all.end(), [](long a, long b) { return a > b; });
            return twice(all.front());
        }
        "#],
        5,
        37,
    );
}
