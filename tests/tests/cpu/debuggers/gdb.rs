//! Sessions of gdb.

use super::{BLUR, BLUR_LAUNCH, CUDA, Folder, ITEMS, ITEMS_LAUNCH, run};
use longshore_tests::world::command;

const GDB: &str = "gdb";

/// Runs gdb's commands on a run of an image.
fn gdb(folder: &Folder, program: &[String], commands: &[&str]) -> Option<String> {
    let mut gdb = folder.debugger(GDB);
    gdb.args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set width 0"]);
    gdb.args(["-ex", "set breakpoint pending on"]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    folder.session(gdb.arg("--args").args(program), &[])
}

#[test]
fn gdb_stops_at_a_line_of_a_kernel_in_each_format() {
    let Some(folder) = Folder::new(GDB) else { return };
    for (image, options) in folder.images(BLUR) {
        let commands = [
            "break k.c:11 if i == 1000",
            "run",
            "print *longshore_self",
            "print mean",
            "backtrace",
            "next",
            "print mean",
            "step",
            "info locals",
            "continue",
        ];
        let Some(said) = gdb(&folder, &run(image, options, BLUR_LAUNCH), &commands) else { return };
        let expect = |what: &str| assert!(said.contains(what), "{image} {options}: {what}: {said}");
        expect("k.c:11\n11\t  if (i < n) mean = sum(0, in[i], in + i) / 2;");
        expect("$1 = {item = {104, 0, 0}, group = {7, 0, 0}, items = {128, 1, 1}");
        expect("$2 = 0");
        expect("#0  __longshore_body_blur (");
        expect("n=2047");
        expect("longshore_plugin_host::execute");
        expect("$3 = 1000.5");
        expect("exited normally");
        // A helper thread may run the item; then its function is the end of the backtrace.
        let callers = ["longshore::main", "start_thread"];
        assert!(callers.iter().any(|caller| said.contains(caller)), "{image} {options}: {said}");
    }
}

#[test]
fn a_backtrace_of_the_waiting_thread_leads_to_the_programs_main() {
    let Some(folder) = Folder::new(GDB) else { return };
    for (image, options) in folder.images(BLUR) {
        let launch = "--groups 1 --items 4 --arg u64=4 --arg f32[8]=iota --arg out:f32[8]";
        let commands = ["break k.c:4", "run", "backtrace"];
        let Some(said) = gdb(&folder, &run(image, options, launch), &commands) else { return };
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
        let last = lines.last().copied().unwrap_or_default();
        assert!(lines[0].contains("sum (low=0, value=0, at=0x"), "{image} {options}: {said}");
        assert!(last.ends_with(" in main ()"), "{image} {options}: {said}");
    }
}

#[test]
fn gdb_shows_the_fault_of_a_kernel_before_it_is_an_error() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile(BLUR, "k.o", &["-c"]);
    // Memory without mapping surrounds buffers of this size.
    let launch = "--groups 512 --items 128 --arg u64=65536 --arg f32[65536]=iota \
                  --arg out:f32[65536]";
    // The group runs a second time to find the item.
    let one_thread = "set environment LONGSHORE_HOST_THREADS 1";
    let commands = [one_thread, "run", "info locals", "continue", "continue"];
    let Some(said) = gdb(&folder, &run("k.o", "--lazy", launch), &commands) else { return };
    let stopped = said.find("received signal SIGSEGV, Segmentation fault.");
    assert!(stopped.is_some_and(|at| said[at..].contains("in sum (low=0,")), "{said}");
    assert!(said.contains(", at k.c:4 in sum [SIGSEGV 11]"), "{said}");
}

/// Runs `longshore run --gdb` with lines of input.
fn longshore_gdb(folder: &Folder, kernel: &str, lines: &[&str]) -> Option<String> {
    image_in_gdb(folder, "k.o", kernel, lines)
}

fn image_in_gdb(folder: &Folder, image: &str, kernel: &str, lines: &[&str]) -> Option<String> {
    let mut session = folder.debugger(command());
    session.args(["run", image, "-k", kernel, "--gdb"]).args(ITEMS_LAUNCH.split_whitespace());
    // The command sets the variable itself. One thread runs all groups, in their order.
    session.env_remove("LONGSHORE_HOST_DEBUG").env("LONGSHORE_HOST_THREADS", "1");
    let lines = [&["set width 0", "set confirm off"][..], lines].concat();
    folder.session(&mut session, &lines)
}

#[test]
fn run_gdb_goes_to_the_items_that_run_and_that_wait() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile(ITEMS, "k.o", &["-c"]);
    let lines = [
        "longshore item 0 3",
        "longshore items",
        "longshore item 0 1",
        "print mine",
        "print longshore_self->item",
        "backtrace",
        "longshore item 1,0,0 2,0,0",
        "next",
        "print mine",
        "longshore items",
        "longshore item 1",
        "continue",
        "longshore items",
    ];
    let Some(said) = longshore_gdb(&folder, "tree", &lines) else { return };
    let expect = |what: &str| assert!(said.contains(what), "{what}: {said}");
    expect("[kernel tree, group (0, 0, 0), item (0, 0, 0)]");
    expect("[kernel tree, group (0, 0, 0), item (3, 0, 0)]");
    expect("* thread 1 (longshore): kernel tree, group (0, 0, 0), item (3, 0, 0), at k.c:4");
    for item in 0..3 {
        expect(&format!(
            "  waiting for a barrier: kernel tree, group (0, 0, 0), item ({item}, 0, 0), at k.c:7"
        ));
    }
    expect("Waiting for a barrier: kernel tree, group (0, 0, 0), item (1, 0, 0)");
    expect("$1 = 10");
    expect("$2 = {1, 0, 0}");
    expect("[kernel tree, group (1, 0, 0), item (2, 0, 0)]");
    expect("$3 = 60");
    expect("item (1, 0, 0), at k.c:7");
    expect("Usage: longshore item GROUP ITEM");
    expect("argument 1: i32[8] = 30, 30, 30, 30, 110, 110, 110, 110");
    expect("exited normally");
    expect("The program does not run");
}

#[test]
fn run_gdb_goes_to_the_items_of_a_kernel_in_cuda() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile_cuda(CUDA, "k.img", &["-O0"]);
    let lines = [
        "longshore item 1 2",
        "print threadIdx.x + 10 * blockIdx.x + 100 * blockDim.x",
        "break k.cu:9 if threadIdx.x == 1",
        "continue",
        "print tile",
        "print i",
        "longshore items",
        "backtrace",
        "longshore item 0 4",
        "delete",
        "longshore item 3 1",
        "longshore items",
    ];
    let Some(said) = image_in_gdb(&folder, "k.img", "ns::sums<int>", &lines) else { return };
    let expect = |what: &str| assert!(said.contains(what), "{what}: {said}");
    expect("[kernel ns::sums<int>, group (0, 0, 0), item (0, 0, 0)]");
    expect("[kernel ns::sums<int>, group (1, 0, 0), item (2, 0, 0)]");
    expect("$1 = 412");
    expect("$2 = {4, 5, 6, 7}");
    expect("$3 = 5");
    expect(
        "* thread 1 (longshore): kernel ns::sums<int>, group (1, 0, 0), item (1, 0, 0), at k.cu:9",
    );
    expect(
        "waiting for a barrier: kernel ns::sums<int>, group (1, 0, 0), item (3, 0, 0), at k.cu:8",
    );
    expect("#0  ns::sums<int> (x=0x");
    expect("The group has items up to (3, 0, 0)");
    expect("Item (1, 0, 0) of group (3, 0, 0) did not start.");
    expect("The program does not run");
}

#[test]
fn run_gdb_stops_where_an_optimized_kernel_begins() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile_cuda(CUDA, "k.img", &[]);
    let lines = ["longshore item 0 2", "delete", "break k.cu:17", "continue"];
    let Some(said) = image_in_gdb(&folder, "k.img", "far", &lines) else { return };
    assert!(said.contains("k.cu:16"), "{said}");
    assert!(said.contains("The items have no function of their own"), "{said}");
    assert!(said.contains("Breakpoint 1") && said.contains("k.cu:17"), "{said}");
}

#[test]
fn run_gdb_shows_the_private_variables_of_items_in_a_region() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile(ITEMS, "k.o", &["-c"]);
    let lines = [
        "longshore private own",
        "longshore item 1 2",
        "longshore private own 1",
        "break k.c:17 if longshore_self->item[0] == 3",
        "continue",
        "longshore items",
        "longshore private own",
        "longshore private own 2,0,0",
        "longshore private own 4",
        "longshore private nothing",
        "print twice",
    ];
    let Some(said) = longshore_gdb(&folder, "grouped", &lines) else { return };
    let expect = |what: &str| assert!(said.contains(what), "{what}: {said}");
    expect("[kernel grouped, group (0, 0, 0)]");
    expect("The group runs, and none of its items: name an item");
    expect("[kernel grouped, group (1, 0, 0), item (2, 0, 0)]");
    expect("own of item (1, 0, 0): 15");
    expect("* thread 1 (longshore): kernel grouped, group (1, 0, 0), item (3, 0, 0), at k.c:17");
    expect("own of item (3, 0, 0): 21");
    expect("own of item (2, 0, 0): 18");
    expect("The group has items up to (3, 0, 0)");
    expect("The selected frame has no value of a variable 'nothing'");
    expect("$1 = 42");
}

#[test]
fn run_gdb_stops_in_a_kernel_of_the_host_form() {
    let Some(folder) = Folder::new(GDB) else { return };
    folder.compile(ITEMS, "k.o", &["-c"]);
    let lines = ["next", "next", "print *out", "longshore items"];
    let Some(said) = longshore_gdb(&folder, "plain", &lines) else { return };
    assert!(said.contains("plain (arguments=0x"), "{said}");
    assert!(said.contains("$1 = 7"), "{said}");
    assert!(said.contains("No thread runs an item of a kernel with debug information"), "{said}");
}
