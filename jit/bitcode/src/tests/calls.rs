//! The times of compilations, and the threads that compile.

use std::sync::Barrier;
use std::time::Duration;

use crate::Bitcode;
use longshore_jitlink::lazy::{LazyReexports, Source};

use super::support::{World, bitcode, call, changed, compiler, library, session};

const PROGRAM: &str = "static long count; const char *name(void) { return \"name\"; }
    __attribute__((noinline)) static long own(long n) { return n + 1; }
    __attribute__((visibility(\"hidden\"), noinline)) long hidden(long n) { return own(n) + 1; }
    long counted(long n) { return count += n; }
    long one(long n) { return n < 0 ? hidden(n) : n; }
    long two(long n) { return hidden(n); }
    long never(long n) { return two(n) + counted(n); }";

#[test]
fn a_function_is_compiled_when_it_is_called() {
    let Some(world) = World::from_texts(&[("c", "-O0 -fPIC", PROGRAM)]) else { return };
    world.library.lookup("never").unwrap();
    assert_eq!((world.compiled(), world.session.times().objects), (0, 1));
    assert_eq!((world.call("one", 5), world.compiled()), (5, 1));
    // With `hidden`, which `two` calls, and `own`, which `hidden` calls.
    assert_eq!((world.call("two", 5), world.compiled()), (7, 4));
    assert_eq!((world.call("one", -5), world.compiled()), (-3, 4));
    // With the variables.
    assert_eq!((world.call("counted", 3), world.compiled()), (3, 6));
    assert_eq!((world.call("counted", 3), world.compiled()), (6, 6));
}

#[test]
fn definitions_are_known_without_compiling() {
    let Some(world) = World::from_texts(&[("c", "-O0 -fPIC", PROGRAM)]) else { return };
    let mut names: Vec<String> =
        world.files.all_defined().unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["counted", "name", "never", "one", "two"]);
    assert!(world.files.defined("two").unwrap().unwrap().callable);
    assert_eq!(world.files.defined("hidden").unwrap(), None);
    assert_eq!(world.files.defined("count").unwrap(), None);
    assert!(world.library.lookup("hidden").is_err() && world.library.lookup("own").is_err());
    assert_eq!(world.compiled(), 0);
}

#[test]
fn many_threads_that_call_one_function_first_have_it_compiled_once() {
    let Some(world) = World::from_texts(&[("c", "-O0 -fPIC", PROGRAM)]) else { return };
    let barrier = Barrier::new(64);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(world.call("two", 1), 3);
            });
        }
    });
    assert_eq!(world.compiled(), 3);
}

#[test]
fn functions_that_are_called_at_once_are_compiled_at_once() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return eprintln!("skipped: there is one processor");
    }
    // A compilation waits for the start of another one.
    let both = Barrier::new(2);
    let compiler = changed(move |_, compile| {
        both.wait();
        compile()
    });
    let Some(compiler) = compiler else { return };
    let source = "long one(long n) { return n + 1; } long two(long n) { return n + 2; }";
    let world = World::by(&compiler, &[("c", "-O0 -fPIC", source)]);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(world.call("one", 1), 2));
        scope.spawn(|| assert_eq!(world.call("two", 1), 3));
    });
    assert_eq!(world.compiled(), 2);
}

#[test]
fn a_module_without_entries_is_compiled_as_it_is_looked_up() {
    let Some(compiler) = compiler() else { return };
    let session = session();
    let bytes = bitcode(compiler.version(), ("c", "-O0 -fPIC", PROGRAM));
    let module = Bitcode::for_session(&session, &compiler, "it.bc", &bytes).unwrap();
    let library = library(&session);
    library.add_generator(module.clone());
    assert_eq!(call(&library, "two", 1), 3);
    // Only pieces that `two` refers to.
    assert_eq!(module.compiled(), 3);
    assert_eq!((call(&library, "never", 1), module.compiled()), (4, 6));
}

#[test]
fn an_object_added_with_a_module_finds_its_hidden_symbols() {
    let Some(compiler) = compiler() else { return };
    let session = session();
    let bytes = bitcode(compiler.version(), ("c", "-O0 -fPIC", PROGRAM));
    let module = Bitcode::for_session(&session, &compiler, "it.bc", &bytes).unwrap();
    let user = "__attribute__((visibility(\"hidden\"))) long hidden(long);
        long user(long n) { return hidden(n) * 2; }";
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("user.c");
    std::fs::write(&source, user).unwrap();
    let object = source.with_extension("o");
    let mut clang = std::process::Command::new(format!("clang-{}", compiler.version()));
    let made = clang.args(["-c", "-fPIC", "-o"]).arg(&object).arg(&source).status().unwrap();
    assert!(made.success());
    let (lazy, library) = (LazyReexports::for_session(&session).unwrap(), library(&session));
    let addition = lazy.lazily(&library, "it");
    let addition = addition.object("user.o", std::fs::read(object).unwrap().into()).unwrap();
    let source: std::sync::Arc<dyn Source> = std::sync::Arc::new(module);
    let _files = addition.source(source).add().unwrap();
    assert_eq!(call(&library, "user", 1), 6);
}

#[test]
fn a_slow_compiler_delays_only_calls_that_need_it() {
    let compiler = changed(|functions, compile| {
        if functions.contains(&&b"slow"[..]) {
            std::thread::sleep(Duration::from_secs(3));
        }
        compile()
    });
    let Some(compiler) = compiler else { return };
    let source = "long slow(long n) { return n + 1; } long quick(long n) { return n + 2; }";
    let world = World::by(&compiler, &[("c", "-O0 -fPIC", source)]);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| world.call("slow", 1));
        std::thread::sleep(Duration::from_millis(300));
        // The session is not locked during a compilation.
        assert_eq!(world.call("quick", 1), 3);
        assert!(!slow.is_finished());
        assert_eq!(slow.join().unwrap(), 2);
    });
}
