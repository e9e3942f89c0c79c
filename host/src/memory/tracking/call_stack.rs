//! Call stacks of allocating calls.

use std::backtrace::Backtrace;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Beginnings of the names of this library's allocating functions. Used in builds without source
/// locations; in builds with them the names may lack their paths.
const OWN: [&str; 8] = [
    "std::backtrace",
    "longshore::memory::tracking::call_stack::CallStack",
    "longshore::memory::tracking::DeviceTracker",
    "longshore::memory::device_memory::DeviceMemory",
    "longshore::memory::buffer::Buffer",
    "longshore::device::Device::",
    "longshore::device::Device>",
    "longshore::device::memory::",
];

/// Part of the name of the runtime's function that calls `main` or a thread's function.
const RUNTIME: &str = "__rust_begin_short_backtrace";

/// The functions that were active at an allocation, innermost first. Cloning is cheap. Formatting
/// looks up the functions' names, which can take milliseconds.
///
/// The formatted stack starts at the program's own call and ends at `main` or the thread's
/// function, as far as names are available. A call stack equals only its clones.
#[derive(Clone, Debug)]
pub struct CallStack {
    captured: Arc<Backtrace>,
    /// Source location of the program's call into this library.
    call: &'static Location<'static>,
}

impl CallStack {
    /// Captures the call stack of the caller. `call` is the location of the program's call into
    /// this library.
    pub(crate) fn capture(call: &'static Location<'static>) -> CallStack {
        CallStack { captured: Arc::new(Backtrace::force_capture()), call }
    }
}

impl PartialEq for CallStack {
    fn eq(&self, other: &CallStack) -> bool {
        Arc::ptr_eq(&self.captured, &other.captured)
    }
}

impl Eq for CallStack {}

impl fmt::Display for CallStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&trimmed(&self.captured.to_string(), self.call))
    }
}

/// A frame of a backtrace as text.
struct Frame<'a> {
    name: &'a str,
    /// The lines with source locations: "             at src/main.rs:3:5".
    places: Vec<&'a str>,
}

/// Returns a backtrace in the format of `std` without the frames of this library, up to the frame
/// with the location `call`, and without the frames of the runtime. Text of another form is
/// returned unchanged.
fn trimmed(text: &str, call: &Location<'_>) -> String {
    let frames = frames(text);
    let place = format!("{}:{}:", call.file(), call.line());
    let is_call = |frame: &Frame<'_>| frame.places.iter().any(|at| at.contains(&place));
    let is_own = |frame: &Frame<'_>| {
        let name = frame.name.trim_start_matches('<');
        OWN.iter().any(|own| name.starts_with(own))
    };
    let by_name = || frames.iter().position(|frame| !is_own(frame));
    let first = frames.iter().position(is_call).or_else(by_name).unwrap_or(frames.len());
    let program = frames[first..].iter().take_while(|frame| !frame.name.contains(RUNTIME));
    let lines = program.enumerate().flat_map(|(index, Frame { name, places })| {
        let places = places.iter().map(|place| format!("{place}\n"));
        std::iter::once(format!("{index:>4}: {name}\n")).chain(places)
    });
    let kept: String = lines.collect();
    if kept.is_empty() { text.to_owned() } else { kept }
}

/// Splits a backtrace into frames. Each starts with a line such as `   3: name`.
fn frames(text: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in text.lines() {
        let named = line.trim_start().split_once(": ");
        let name = named.filter(|(index, _)| index.parse::<u32>().is_ok()).map(|(_, name)| name);
        match (name, frames.last_mut()) {
            (Some(name), _) => frames.push(Frame { name, places: Vec::new() }),
            (None, Some(frame)) => frame.places.push(line),
            (None, None) => {}
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "   0: std::backtrace::Backtrace::create
             at /rustc/abc/library/std/src/backtrace.rs:331:13
   1: longshore::memory::tracking::DeviceTracker::allocated
   2: <longshore::device::Device>::allocate_for
             at ./host/src/device/memory.rs:51:9
   3: longshore::device::memory::<impl longshore::device::Device>::allocate
   4: app::fill
             at ./src/main.rs:7:13
   5: app::main
             at ./src/main.rs:3:5
   6: core::ops::function::FnOnce::call_once
   7: std::sys::backtrace::__rust_begin_short_backtrace
   8: main
";

    #[test]
    fn the_frames_of_the_library_and_of_the_runtime_are_left_out() {
        let expected = "   0: app::fill
             at ./src/main.rs:7:13
   1: app::main
             at ./src/main.rs:3:5
   2: core::ops::function::FnOnce::call_once
";
        assert_eq!(trimmed(WHOLE, Location::caller()), expected);
    }

    #[test]
    fn the_place_of_the_call_is_known_where_names_are_short() {
        let call = Location::caller();
        let frames = format!("   3: fill\n             at ./{call}\n   4: main\n");
        let text =
            format!("   0: create\n             at b.rs:1:2\n   1: new\n   2: allocate\n{frames}");
        let expected = frames.replacen("   3: ", "   0: ", 1).replace("   4: ", "   1: ");
        assert_eq!(trimmed(&text, call), expected);
    }

    #[test]
    fn frames_of_the_library_further_out_stay() {
        let text = "   0: app::callback\n   1: longshore::device::Device::close\n   2: app::main\n";
        assert_eq!(trimmed(text, Location::caller()), text);
    }

    #[test]
    fn a_backtrace_of_another_form_stays_as_it_is() {
        for text in
            ["", "unsupported backtrace", "#0 app::main at src/main.rs", " 0: std::backtrace"]
        {
            assert_eq!(trimmed(text, Location::caller()), text);
        }
    }

    #[test]
    fn a_captured_stack_names_the_callers() {
        #[inline(never)]
        fn a_function_with_a_name() -> CallStack {
            std::hint::black_box(CallStack::capture(Location::caller()))
        }
        let stack = a_function_with_a_name();
        assert_eq!(stack, stack.clone());
        assert_ne!(stack, a_function_with_a_name());
        let first = stack.to_string().lines().next().unwrap_or_default().to_owned();
        assert!(first.starts_with("   0: ") && first.contains("a_function_with_a_name"), "{stack}");
        assert!(!stack.to_string().contains(RUNTIME), "{stack}");
    }
}
