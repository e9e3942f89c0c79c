//! Frames: exceptions of C++, panics and backtraces pass through linked code.

use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind};

use longshore_jitlink::Library;
use longshore_jitlink::session::Removal;

use super::support::{
    add_cpp_runtime, c, call, cpp, define_trace, library, traced, value, value_of,
};

const THROWS: &str = "
    extern \"C\" void trace(int);
    struct Failure { long n; };
    struct Guard { ~Guard() { trace(1); } };
    extern \"C\" long thrower(long n) { Guard guard; if (n > 0) throw Failure{n}; return 5; }";
const PASSES: &str = "
    extern \"C\" void trace(int);
    extern \"C\" long thrower(long);
    struct OtherGuard { ~OtherGuard() { trace(2); } };
    extern \"C\" long passer(long n) { OtherGuard guard; return thrower(n) + 1; }";
const CATCHES: &str = "
    struct Failure { long n; };
    extern \"C\" long passer(long);
    extern \"C\" long catcher(long n) { try { return passer(n); } catch (Failure &f) { return f.n * 100; } }";

fn with_cpp(objects: &[bytes::Bytes]) -> Library {
    let library = library(objects);
    define_trace(&library);
    add_cpp_runtime(&library);
    library
}

#[test]
fn an_exception_is_caught_in_another_object() {
    for [throws, passes, catches] in [
        ["-fPIC", "-fPIC", "-fPIC"],
        ["-fPIC", "-fno-pic", "-fPIC"],
        ["-fno-pic", "-fPIC", "-fno-pic"],
        ["-fno-pic -O2", "-fno-pic -O2", "-fno-pic -O2"],
        ["-fPIC -mcmodel=large", "-fPIC -mcmodel=large", "-fPIC -mcmodel=large"],
        ["-fPIC -O2 -fno-plt -ffunction-sections", "-fPIC -O2", "-fPIC -O2 -fno-plt"],
    ] {
        // With code that is not position-independent, all memory must lie low.
        let library = with_cpp(&[cpp(throws, THROWS), cpp(passes, PASSES), cpp(catches, CATCHES)]);
        assert_eq!(value_of(&library, "catcher", 3), 300, "{throws}, {passes}, {catches}");
        assert_eq!(traced(), "1 2 ");
        assert_eq!(value_of(&library, "catcher", 0), 6);
        assert_eq!(traced(), "1 2 ");
    }
}

#[test]
fn an_exception_of_the_run_time_library_is_caught_by_its_base_class() {
    let source = "
        #include <stdexcept>
        #include <string>
        #include <vector>
        extern \"C\" long f() {
            try { return std::vector<long>().at(4); }
            catch (const std::exception &error) { return std::string(error.what()).size() > 10; } }";
    assert_eq!(value(&with_cpp(&[cpp("-fPIC", source)]), "f"), 1);
}

#[test]
fn exceptions_work_after_an_unrelated_object_has_been_removed() {
    let library = with_cpp(&[]);
    // The objects share no data, so that none uses another: in position-independent code, the
    // reference to the personality function is a COMDAT group, and all objects use the first one's.
    let add = |name: &str, source: &str| library.add_object(name, cpp("-fno-pic", source)).unwrap();
    let before = add(
        "before.o",
        "extern \"C\" long before(long n) { try { if (n) throw 1; return 3; } catch (int) { return 4; } }",
    );
    let _throws = add("throws.o", THROWS);
    let _passes = add("passes.o", PASSES);
    let _catches = add("catches.o", CATCHES);
    let after = add(
        "after.o",
        "extern \"C\" long after(long n) { try { if (n) throw 1; return 3; } catch (int) { return 4; } }",
    );
    assert_eq!(value_of(&library, "before", 1), 4);
    assert_eq!(value_of(&library, "catcher", 3), 300);
    assert_eq!(value_of(&library, "after", 1), 4);
    before.remove(Removal::Unused).unwrap();
    after.remove(Removal::Unused).unwrap();
    assert_eq!(value_of(&library, "catcher", 4), 400);
    let _again = add(
        "again.o",
        "extern \"C\" long before(long n) { try { if (n) throw 1; return 3; } catch (int) { return 5; } }",
    );
    assert_eq!(value_of(&library, "before", 1), 5);
    assert_eq!(value_of(&library, "catcher", 5), 500);
}

extern "C-unwind" fn panics(number: i64) -> i64 {
    if number > 0 {
        std::panic::panic_any(number);
    }
    0
}

#[test]
fn a_panic_passes_through_linked_frames_and_runs_their_destructors() {
    let library = with_cpp(&[cpp("-fPIC", PASSES)]);
    library.define_absolute("thrower", panics as *const () as u64).unwrap();
    let passer = library.lookup("passer").unwrap();
    // SAFETY: the source defines the function with this type.
    let passer: extern "C-unwind" fn(i64) -> i64 = unsafe { std::mem::transmute(passer as usize) };
    let payload = catch_unwind(AssertUnwindSafe(|| passer(8))).unwrap_err();
    assert_eq!(payload.downcast_ref::<i64>(), Some(&8));
    assert_eq!(traced(), "2 ");
}

extern "C" fn frames_above() -> i64 {
    // Frames of linked code have no names, but they add to the number of frames.
    Backtrace::force_capture().to_string().lines().filter(|line| line.contains(": ")).count() as i64
}

#[test]
fn a_backtrace_passes_through_linked_frames() {
    let source = "
        long frames_above(void);
        __attribute__((noipa)) long inner(void) { return frames_above(); }
        __attribute__((noipa)) long middle(void) { volatile long buffer[9]; buffer[3] = inner(); return buffer[3]; }
        long outer(void) { volatile long result = middle(); return result; }";
    for flags in [
        "-fPIC -O2",
        "-fno-pic -O0",
        "-fPIC -O2 -fno-plt -fomit-frame-pointer",
        "-fPIC -mcmodel=large",
    ] {
        let library = library(&[c(&format!("{flags} -fno-optimize-sibling-calls"), source)]);
        library.define_absolute("frames_above", frames_above as *const () as u64).unwrap();
        let frames = [
            frames_above as *const () as u64,
            library.lookup("inner").unwrap(),
            library.lookup("outer").unwrap(),
        ]
        .map(call);
        assert_eq!(frames, [frames[0], frames[0] + 1, frames[0] + 3], "{flags}");
    }
}
