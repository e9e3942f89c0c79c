//! Sessions of lldb.

use super::{BLUR, BLUR_LAUNCH, Folder, run};

const LLDB: &str = "lldb-19";

/// Words of lldb for the loss of its own server, which holds the program. It happens now and then
/// on busy machines, after the program has ended.
const SERVER_LOST: &str = "lost connection";

const SESSIONS: usize = 3;

#[test]
fn lldb_stops_at_a_line_of_a_kernel_in_each_format() {
    let Some(folder) = Folder::new(LLDB) else { return };
    for (image, options) in folder.images(BLUR) {
        let Some(said) = session(&folder, image, options) else { return };
        let expect = |what: &str| assert!(said.contains(what), "{image} {options}: {what}: {said}");
        expect("-> 11  \t  if (i < n) mean = sum(0, in[i], in + i) / 2;");
        expect("(uint64_t) i = 200");
        expect("(float) mean = 0\n");
        expect("longshore_self->item[0] = 72");
        expect("longshore_self->group[0] = 1");
        expect("`blur [inlined] __longshore_body_blur(longshore_self=0x");
        expect("-> 12  \t  if (i < n) out[i] = mean;");
        expect("(float) mean = 200.5");
        expect("exited with status = 0");
        let callers = ["`main + ", "start_thread"];
        assert!(callers.iter().any(|caller| said.contains(caller)), "{image} {options}: {said}");
    }
}

/// Returns lldb's output in a session with an image; `None` if the system lets it trace no process.
fn session(folder: &Folder, image: &str, options: &str) -> Option<String> {
    let mut said = String::new();
    for _ in 0..SESSIONS {
        said = once(folder, image, options)?;
        if !said.contains(SERVER_LOST) {
            break;
        }
    }
    Some(said)
}

fn once(folder: &Folder, image: &str, options: &str) -> Option<String> {
    let mut lldb = folder.debugger(LLDB);
    lldb.args(["--no-lldbinit", "-b"]);
    for command in [
        "settings set plugin.jit-loader.gdb.enable on",
        "settings set target.disable-aslr false",
        // The debugger stops at all items, to evaluate the condition.
        "breakpoint set -f k.c -l 11 -c 'i == 200'",
        "run",
        "frame variable i mean longshore_self->item[0] longshore_self->group[0]",
        "bt",
        "next",
        "frame variable mean",
        "breakpoint disable",
        "continue",
    ] {
        lldb.args(["-o", command]);
    }
    lldb.arg("--").args(run(image, options, BLUR_LAUNCH));
    folder.session(&mut lldb, &[])
}
