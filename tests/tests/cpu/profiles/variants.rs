//! Counters that do not count all parts of a function, and their readers.

use super::compilers::{COMPILERS, Compiler, Form, Instrumentation, output};
use super::{LAUNCHES, ProfiledImage, RARE, SOURCE, STEPS, THREADS, by_name};
use std::process::{Command, Stdio};

#[test]
fn profiles_that_say_when_functions_first_ran_are_written_too() {
    let newest = COMPILERS.iter().rev().filter(|compiler| compiler.version >= 18);
    for compiler in newest.filter(|compiler| compiler.is_there()) {
        let flags = ["-mllvm", "-pgo-temporal-instrumentation"];
        let form = Form::Object;
        let counted =
            ProfiledImage::with_flags(compiler, Instrumentation::Ir, form, SOURCE, &flags);
        let report = counted.run(1).pop().unwrap();
        let shown = counted.shown();
        let steps = THREADS * LAUNCHES * (STEPS - RARE) + 1;
        assert_eq!(shown["step"], [steps], "{}: {shown:?}", counted.what);
        assert_eq!(by_name(report.counters().unwrap()), shown, "{}", counted.what);
        let mut show = compiler.profdata();
        let show = show.args(["show", "--temporal-profile-traces"]).arg(counted.merged());
        let traces = output(show);
        let places: Vec<_> = ["count", "step", "rare", "at_end"]
            .map(|name| traces.find(&format!(" {name}\n")))
            .into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{traces}");
    }
}

#[test]
fn counters_of_a_byte_say_what_ran() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for option in ["-pgo-function-entry-coverage", "-pgo-block-coverage"] {
            if compiler.version < 18 && option == "-pgo-block-coverage" {
                continue;
            }
            for form in [Form::Object, Form::SharedObject] {
                says_what_ran(compiler, option, form);
            }
        }
    }
}

fn says_what_ran(compiler: &'static Compiler, option: &str, form: Form) {
    let source = format!("{SOURCE} void never(void **args) {{ step(0); }}");
    let flags = ["-mllvm", option];
    let counted = ProfiledImage::with_flags(compiler, Instrumentation::Ir, form, &source, &flags);
    let report = counted.run(2).pop().unwrap();
    let functions = by_name(report.counters().unwrap());
    let mut show = compiler.profdata();
    let covered = output(show.args(["show", "--covered"]).arg(counted.merged()));
    let what = format!("{} {option}: {functions:?}, {covered}", counted.what);
    for (function, ran) in [("count", 1), ("step", 1), ("rare", 1), ("never", 0)] {
        let counts = &functions[function];
        assert!(counts.contains(&ran) && !counts.contains(&(1 - ran)), "{function} of {what}");
        let is_covered = covered.lines().any(|line| line == function);
        assert_eq!(is_covered, ran == 1, "{function} of {what}");
    }
}

#[test]
fn the_coverage_of_conditions_is_shown_by_llvm_cov() {
    const CONDITION: &str = r"
        volatile int sink;
        __attribute__((noinline)) int both(int x, int y, int z) { return x && (y || z); }
        void count(void **args) {
            for (unsigned long i = 0; i < *(unsigned long *)args[0]; ++i)
                sink = both(i & 1, i & 2, i & 4);
        }";
    for compiler in COMPILERS.iter().filter(|it| it.version >= 18 && it.is_there()) {
        let cov = format!("llvm-cov-{}", compiler.version);
        if Command::new(&cov).arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("{cov} is not installed; left out");
            continue;
        }
        for form in [Form::Object, Form::SharedObject] {
            let flags = ["-fcoverage-mapping", "-fcoverage-mcdc"];
            let instrumentation = Instrumentation::FrontEnd;
            let counted =
                ProfiledImage::with_flags(compiler, instrumentation, form, CONDITION, &flags);
            counted.run(1);
            let profile = format!("-instr-profile={}", counted.merged().display());
            let mut show = Command::new(&cov);
            let shown =
                output(show.arg("show").arg(&counted.image).args([&profile, "--show-mcdc"]));
            assert!(shown.contains("MC/DC Coverage for Decision: 100.00%"), "{shown}");
        }
    }
}
