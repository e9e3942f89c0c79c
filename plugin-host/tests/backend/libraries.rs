//! Names of the process and its libraries in relocatable images.

use crate::relocatable::{FIXED, archive, compile_cpp, error, in_every_way, object, ran};
use crate::support::{load, load_with, run_compiler};
use longshore_plugin_api::{ErrorCode, Module};

#[test]
fn functions_of_the_list_can_be_used() {
    let source = "#include <assert.h>
        #include <math.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        char text[64]; unsigned __int128 big = 7;
        static int order(const void *a, const void *b) { return *(char *)a - *(char *)b; }
        void k(void **a) { volatile double x = 0.25; volatile unsigned __int128 d = 2; char *copy = strdup(\"cab\");
            assert(copy); qsort(copy, 3, 1, order);
            snprintf(text, sizeof text, \"%s %.2f %d\", copy, sqrt(x) + cos(0 * x), (int)(big / d)); free(copy); }";
    for (how, image) in in_every_way(source) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        module.call("k");
        assert_eq!(module.text("text"), "abc 1.50 3", "{how}");
    }
}

#[test]
fn all_undefined_symbols_are_named_with_what_to_do() {
    let one = object("void alone(void); void k(void **a) { alone(); }", &[]);
    let two = object(
        "extern int together; int getenv(void); int use(void **a) { return together + getenv(); }",
        &[],
    );
    let refused = error(&archive(&[&one, &two]));
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    for part in ["alone", "together", "getenv", "part0.o", "part1.o", "LONGSHORE_HOST_SYMBOLS"] {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
}

#[test]
fn other_names_of_the_process_can_be_allowed() {
    let source =
        "#include <stdlib.h>\nint found; void k(void **a) { found = getenv(\"PATH\") != 0; }";
    let image = object(source, &[]);
    assert_eq!(error(&image).code(), ErrorCode::LinkFailure);
    for allowed in ["getenv", "environ,getenv", "get*", "*"] {
        let module = load_with(&image, Some(allowed)).unwrap();
        module.call("k");
        assert_eq!(module.int("found"), 1, "{allowed}");
    }
}

#[test]
fn undefined_names_are_distinguished_by_their_remedy() {
    let source = "int of_program(void); __attribute__((visibility(\"hidden\"))) unsigned long strlen(const char *);
        int misspelt(void); int __longshore_own(void);
        int k(void **a) { return of_program() + strlen(*a) + misspelt() + __longshore_own(); }";
    let image = object(source, &["-fno-builtin"]);
    let refused = load_with(&image, Some("of_*")).err().unwrap();
    assert_eq!(refused.code(), ErrorCode::LinkFailure);
    for part in [
        "misspelt (used by the image): an object or archive must define the name",
        "of_program (used by the image): allowed, but the process does not export it (link the program with -rdynamic)",
        "strlen (used by the image): it is hidden, so an object of the image must define it",
        "__longshore_own (used by the image): names that start with __longshore_ are",
    ] {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
}

#[test]
fn the_message_about_thousands_of_undefined_names_is_short() {
    let calls: String =
        (0..3000).map(|n| format!("void undefined_{n}(void); undefined_{n}();")).collect();
    let refused = error(&object(&format!("void k(void **a) {{ {calls} }}"), &[]));
    let message = refused.message();
    assert!(message.contains("undefined_") && message.contains(", and 2992 more: "), "{refused}");
    assert!(message.len() < 1500, "{} bytes", message.len());
}

#[test]
fn data_of_the_process_that_may_change_is_not_copied() {
    let streams = "#include <iostream>
        struct First { First() { std::cerr << \"\"; } } first;
        extern \"C\" { int out; void k(void **) { std::cout << std::flush; out = 7; } }";
    let counts = "#include <memory>
        extern \"C\" { int out;
          void k(void **) { auto one = std::make_shared<int>(5), other = one; out = *other + one.use_count(); } }";
    let works = |how: &str, image: &[u8]| {
        let module = ran(image);
        module.call("k");
        assert_eq!(module.int("out"), 7, "{how}");
    };
    for (source, datum) in [(streams, "_ZSt4c"), (counts, "__libc_single_threaded")] {
        for (how, image) in compile_cpp(source, &[FIXED]) {
            let Err(refused) = load(&image) else {
                // This compiler reads the addresses of data from a table anyway.
                assert!(how.contains("clang") && how.contains("-O0"), "{how}");
                works(&how, &image);
                continue;
            };
            assert_eq!(refused.code(), ErrorCode::LinkFailure, "{how}");
            for part in [datum, "is data of the process that may change", "compile with -fPIC"] {
                assert!(refused.message().contains(part), "{how}: {refused}");
            }
        }
        for (how, image) in compile_cpp(source, &[&["-fPIC"], &["-fPIE"]]) {
            works(&how, &image);
        }
    }
    let own = "extern char **environ; char ***k(void **a) { return &environ; }";
    let image = object(own, &["-fno-pic"]);
    let refused = load_with(&image, Some("environ")).err().unwrap();
    assert!(refused.message().contains("'environ' is data of the process"), "{refused}");
    load_with(&object(own, &[]), Some("environ")).unwrap();
}

#[test]
fn exceptions_and_casts_work_however_the_object_was_compiled() {
    let source = r#"#include <functional>
        #include <new>
        #include <stdexcept>
        #include <string>
        #include <typeinfo>
        struct Base { virtual ~Base() {} }; struct Virtual : virtual Base {}; struct Derived : Base {};
        struct Both : Virtual, Derived {};
        struct Failure : std::runtime_error { using runtime_error::runtime_error; };
        template <class F> int caught(F f) {
            try { f(); }
            catch (int) { return 1; }
            catch (const char *) { return 2; }
            catch (const Failure &) { return 3; }
            catch (const std::out_of_range &) { return 4; }
            catch (const std::bad_cast &) { return 5; }
            catch (const std::bad_function_call &) { return 6; }
            catch (const std::bad_alloc &) { return 7; }
            return 0; }
        extern "C" { int failed;
          void expect(int line, bool holds) { if (!holds && !failed) failed = line; }
          void k(void **) {
            Derived derived; Base *base = &derived; Both both; Virtual *side = &both;
            const char *text = "x"; std::function<void()> none; std::string empty;
            expect(1, dynamic_cast<Derived *>(base) && !dynamic_cast<Virtual *>(base));
            expect(2, dynamic_cast<Derived *>(side) == &both);
            expect(3, typeid(*base) == typeid(Derived) && typeid(int) != typeid(const char *));
            expect(4, caught([] { throw 5; }) == 1 && caught([&] { throw text; }) == 2);
            expect(5, caught([] { throw Failure("x"); }) == 3 && caught([&] { empty.at(5); }) == 4);
            expect(6, caught([&] { (void)dynamic_cast<Virtual &>(*base); }) == 5);
            expect(7, caught([&] { none(); }) == 6 && caught([] { throw std::bad_alloc(); }) == 7);
            int *held = new (std::nothrow) int(3);
            expect(8, *held == 3 && std::min(std::string::npos, std::string::size_type(3)) == 3);
            delete held; } }"#;
    for (how, image) in compile_cpp(source, &[&["-fPIC"], &["-fPIE"], FIXED]) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        module.run_constructors().unwrap();
        module.call("k");
        assert_eq!(module.int("failed"), 0, "{how}");
    }
}

#[test]
fn the_standard_library_s_streams_locales_and_expressions_work() {
    let source = r#"#include <iomanip>
        #include <iostream>
        #include <list>
        #include <locale>
        #include <map>
        #include <random>
        #include <regex>
        #include <sstream>
        extern "C" { int done;
          void k(void **) {
            std::stringstream stream; stream.imbue(std::locale::classic());
            stream << std::hex << std::setw(4) << 255 << ' ' << 1.5 << std::endl;
            std::string word; double number; stream >> word >> number;
            std::wstringstream wide; wide << L"x" << 5;
            std::map<std::string, std::list<int>> map; map["x"].push_back(5);
            std::mt19937 engine(5); std::uniform_int_distribution<int> one(1, 1);
            done = word == "ff" && number == 1.5 && wide.str() == L"x5"
                && std::regex_match("abc123", std::regex("[a-z]+\\d+"))
                && map["x"].front() == 5 && one(engine) == 1 && std::cout.good(); } }"#;
    for compiler in ["g++", "clang++-19"] {
        let Some(image) = run_compiler(compiler, "cc", source, &["-c", "-fPIC", "-O0"]) else {
            eprintln!("skipped: no {compiler}");
            continue;
        };
        let module = load(&image).unwrap_or_else(|error| panic!("{compiler}: {error}"));
        module.run_constructors().unwrap();
        module.call("k");
        assert_eq!(module.int("done"), 1, "{compiler}");
    }
}

#[test]
fn kernels_on_several_threads_wait_for_one_another() {
    let source = "#include <pthread.h>
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t all_are_there = PTHREAD_COND_INITIALIZER;
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        int counted, prepared; static int there;
        static void prepare(void) { prepared++; }
        void k(void **a) {
            pthread_once(&once, prepare);
            for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&mutex); counted++; pthread_mutex_unlock(&mutex); }
            pthread_mutex_lock(&mutex);
            if (++there == 4) pthread_cond_broadcast(&all_are_there);
            while (there < 4) pthread_cond_wait(&all_are_there, &mutex);
            pthread_mutex_unlock(&mutex); }";
    for (how, image) in in_every_way(source) {
        let module = load(&image).unwrap_or_else(|error| panic!("{how}: {error}"));
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| module.call("k"))));
        assert_eq!((module.int("counted"), module.int("prepared")), (4000, 1), "{how}");
    }
}

#[test]
fn mutexes_and_call_once_of_cpp_work() {
    let source = "#include <condition_variable>
        #include <mutex>
        #include <shared_mutex>
        #include <thread>
        static std::mutex mutex; static std::recursive_mutex again; static std::shared_mutex shared;
        static std::once_flag once; static std::condition_variable changed;
        extern \"C\" { int calls;
          void k(void **) {
            std::call_once(once, [] { calls += 100; });
            std::lock_guard<std::recursive_mutex> one(again), two(again);
            std::shared_lock<std::shared_mutex> reader(shared);
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait_for(lock, std::chrono::milliseconds(1), [] { return true; });
            calls++; changed.notify_all(); } }";
    for (how, image) in compile_cpp(source, &[&["-fPIC", "-std=c++17"]]) {
        let module = ran(&image);
        module.call("k");
        module.call("k");
        assert_eq!(module.int("calls"), 102, "{how}");
    }
}

/// Tests GCC's OpenMP runtime, which no other test loads.
#[test]
fn openmp_of_gcc_is_used_when_the_program_has_loaded_it_for_itself() {
    let source = "#include <omp.h>
        int threads;
        void k(void **a) {
            omp_set_num_threads(3);
            #pragma omp parallel
            { if (omp_get_thread_num() == 2) threads = omp_get_num_threads(); } }";
    let Some(image) = run_compiler("gcc", "c", source, &["-c", "-fPIC", "-O1", "-fopenmp"]) else {
        eprintln!("skipped: no gcc");
        return;
    };
    let refused = error(&image);
    for part in ["GOMP_parallel", "omp_get_thread_num", "the program has loaded its OpenMP runtime"]
    {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
    // SAFETY: this is a library of the system, which stays open.
    let runtime =
        unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if runtime.is_null() {
        eprintln!("skipped: no libgomp.so.1");
        return;
    }
    let module = load(&image).unwrap();
    module.call("k");
    assert_eq!(module.int("threads"), 3);
}
