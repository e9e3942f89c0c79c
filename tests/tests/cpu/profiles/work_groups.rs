//! Profiles of work-group kernels, whose groups count on all cores at once.

use super::{COMPILERS, Form, Instrumentation, ProfiledImage};
use longshore::{Grid, Image};
use longshore_conformance::TrustedImages;

/// Kernels in which each item takes `steps` steps, every tenth a rare one: with a loop over items,
/// with regions, and on fibers.
const SOURCE: &str = r#"
#include "longshore_device.h"
LONGSHORE_FUNCTION __attribute__((noinline)) void step(volatile uint32_t *sink) { *sink = 1; }
LONGSHORE_FUNCTION __attribute__((noinline)) void rare(volatile uint32_t *sink) { *sink = 2; }
LONGSHORE_FUNCTION void walk(uint32_t *sink, uint32_t steps) {
  for (uint32_t i = 0; i < steps; ++i) if (i % 10 == 7) rare(sink); else step(sink);
}
LONGSHORE_KERNEL(items, (uint32_t *sinks, uint32_t steps)) { walk(&sinks[longshore_global_id(0)], steps); }
LONGSHORE_GROUP_KERNEL(regions, (uint32_t *sinks, uint32_t steps)) {
  LONGSHORE_ITEMS { walk(&sinks[longshore_global_id(0)], steps); }
}
LONGSHORE_KERNEL(fibers, (uint32_t *sinks, uint32_t steps)) {
  longshore_barrier();
  walk(&sinks[longshore_global_id(0)], steps);
}
"#;
const GROUPS: u64 = 300;
const ITEMS: u64 = 32;
const STEPS: u64 = 50;

#[test]
fn counts_of_work_groups_on_all_cores_are_exact_and_two_loads_add_up() {
    for compiler in COMPILERS.iter().filter(|compiler| compiler.is_there()) {
        for instrumentation in Instrumentation::BOTH {
            for form in [Form::Object, Form::SharedObject] {
                let include = longshore_tests::world::root().join("include");
                let flags = ["-I", include.to_str().unwrap()];
                let counted =
                    ProfiledImage::with_flags(compiler, instrumentation, form, SOURCE, &flags);
                for loads in 1..=2 {
                    run_all(&counted);
                    let shown = counted.shown();
                    let count = |function: &str| {
                        let is_it = |name: &str| name.rsplit([':', ';']).next() == Some(function);
                        shown.iter().find(|(name, _)| is_it(name)).map(|(_, counts)| counts[0])
                    };
                    let kernels = 3;
                    let walks = loads * kernels * GROUPS * ITEMS;
                    let what = format!("{}, {loads} loads: {shown:?}", counted.what);
                    assert_eq!(count("rare"), Some(walks * STEPS / 10), "{what}");
                    assert_eq!(count("step"), Some(walks * STEPS / 10 * 9), "{what}");
                }
            }
        }
    }
}

fn run_all(counted: &ProfiledImage) {
    let environment = longshore::Environment::empty()
        .with("LONGSHORE_PROFILE_FILE", counted.profile.as_os_str())
        .with("LONGSHORE_HOST_THREADS", "4");
    let host = counted.world.host().with_environment(environment).build().unwrap();
    let device = host.default_device().unwrap();
    let program = device.load_trusted(Image::read(&counted.image).unwrap()).unwrap();
    let queue = device.queue().unwrap();
    let sinks = device.buffer_of(&queue, &vec![0u32; (GROUPS * ITEMS) as usize]).unwrap();
    for name in ["items", "regions", "fibers"] {
        let kernel = program.kernel(name).unwrap();
        let grid = Grid::linear(GROUPS as u32, ITEMS as u32);
        // SAFETY: one element for each item.
        unsafe { queue.launch(&kernel, grid, (&sinks, STEPS as u32)).unwrap() };
    }
    queue.synchronize().unwrap();
    program.unload().unwrap();
}
