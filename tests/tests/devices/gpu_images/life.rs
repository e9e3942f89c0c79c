//! Constructors and destructors from clang, in images of all forms.

use super::{Check, SOURCE, Setting};
use longshore::{Error, ErrorCode, Grid};
use longshore_conformance::TrustedImages;

pub(super) const CHECKS: &[Check] = &[
    ("one destructor alone is run", one_destructor_is_run),
    ("constructors run by priority", constructors_run_by_priority),
    ("constructors see globals that the program prepares", constructors_see_prepared_globals),
    ("kernels and globals run, and symbols are the program's", the_program_runs),
];

fn the_program_runs(setting: &Setting<'_>) {
    for image in setting.forms(SOURCE) {
        setting.runs(&image, 5);
        let program = setting.device.load_trusted(&image[..]).unwrap();
        let mut names: Vec<_> =
            program.symbols().unwrap().into_iter().map(|symbol| symbol.0).collect();
        names.sort();
        assert_eq!(names, ["add", "counter", "weigh", "weights"]);
        let add = program.kernel("add").unwrap();
        assert_eq!(add.attributes().argument_sizes.as_deref(), Some(&[8][..]));
        drop(add);
        program.unload().unwrap();
    }
}

fn one_destructor_is_run(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GLOBAL uint64_t *volatile place;
LONGSHORE_KERNEL(remember, (uint64_t *p)) { place = p; }
__attribute__((destructor)) static void only(void) { *place = 77; }
";
    for image in setting.forms(SOURCE) {
        let queue = setting.device.queue().unwrap();
        let out = setting.device.buffer_of(&queue, &[0u64]).unwrap();
        let program = setting.device.load_trusted(&image[..]).unwrap();
        let remember = program.kernel("remember").unwrap();
        // SAFETY: `remember` keeps the pointer until the program is unloaded; `out` lives longer.
        unsafe { queue.launch_and_wait(&remember, Grid::default(), (&out,)).unwrap() };
        drop(remember);
        program.unload().unwrap();
        assert_eq!(out.to_vec(&queue).unwrap(), [77]);
    }
}

fn constructors_run_by_priority(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GLOBAL volatile uint64_t order;
static void add(uint64_t digit) { order = order * 10 + digit; }
__attribute__((constructor)) static void last(void) { add(4); }
__attribute__((constructor(300))) static void third(void) { add(3); }
__attribute__((constructor(101))) static void first(void) { add(1); }
__attribute__((constructor(102))) static void second(void) { add(2); }
LONGSHORE_KERNEL(nop, (void)) { (void)longshore_self; }
";
    for image in setting.forms(SOURCE) {
        let queue = setting.device.queue().unwrap();
        let program = setting.device.load_trusted(&image[..]).unwrap();
        assert_eq!(program.global("order").unwrap().read::<u64>(&queue).unwrap(), 1234);
        program.unload().unwrap();
    }
}

fn constructors_see_prepared_globals(setting: &Setting<'_>) {
    const SOURCE: &str = "
LONGSHORE_GLOBAL volatile uint64_t given;
LONGSHORE_GLOBAL volatile uint64_t seen;
__attribute__((constructor)) static void look(void) { seen = given + 1; }
LONGSHORE_KERNEL(nop, (void)) { (void)longshore_self; }
";
    for image in setting.forms(SOURCE) {
        let queue = setting.device.queue().unwrap();
        // SAFETY: the source, above, adds a number to another one.
        let program = unsafe {
            setting
                .device
                .load_prepared(&image[..], |program| program.global("given")?.write(&queue, 41u64))
        };
        let program = program.unwrap();
        assert_eq!(program.global("seen").unwrap().read::<u64>(&queue).unwrap(), 42);
        program.unload().unwrap();
        let mut kept = None;
        // SAFETY: as above.
        let failed = unsafe {
            setting.device.load_prepared(&image[..], |program| {
                kept = Some(program.clone());
                Err(Error::new(ErrorCode::InvalidValue, "the caller's reason"))
            })
        };
        assert_eq!(failed.err().unwrap().code(), ErrorCode::InvalidValue);
        let error = kept.unwrap().global("seen").err().unwrap();
        assert_eq!(error.code(), ErrorCode::Uninitialized, "the image is unloaded");
    }
}
