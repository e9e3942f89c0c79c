//! The requests to a process.

use std::sync::Arc;

use longshore_jitlink::Session;
use longshore_jitlink::session::ProcessSymbols;

use crate::processes::support::{c, value};
use crate::processes::watched::{Plan, Watched};

/// Returns the requests for a link of `count` objects that use every service of the process.
fn messages(count: usize) -> Vec<String> {
    let process = Arc::new(Watched::new(Plan::Live));
    // SAFETY: the program is sound in this process.
    let session = unsafe { Session::builder().with_process(process.clone()).build() }.unwrap();
    let library = session.create_library("program");
    for index in 0..count {
        let source = format!(
            "#include <stdlib.h>
            extern void *__dso_handle; static __thread long x = {index};
            long f{next}(void) __attribute__((weak));
            __attribute__((constructor)) static void start(void) {{ x += labs(-2); }}
            long f{index}(void) {{ return x + (f{next} ? f{next}() : 0) + (__dso_handle != 0); }}",
            next = index + 1
        );
        let _object = library.add_object(&format!("{index}.o"), c("-fPIC", &source)).unwrap();
    }
    library.add_generator(ProcessSymbols);
    library.link_all().unwrap();
    crate::processes::support::initialize(&library);
    assert!(value(&library, "f0") > 0);
    crate::processes::support::deinitialize(&library);
    let before = process.notes().steps().len();
    drop((library, session));
    let steps = process.notes().steps();
    assert_eq!(steps[before..], ["__longshore_release", "deallocate"]);
    steps
}

#[test]
fn many_objects_need_no_more_messages_than_few() {
    let few = messages(3);
    let many = messages(30);
    assert_eq!(few, many);
}
