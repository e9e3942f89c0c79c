//! First calls by many threads at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use longshore_jitlink::lazy::Reexport;
use longshore_jitlink::session::{Generated, Request};

use super::World;
use crate::in_process::support::{archive, c, value_of};

const THREADS: usize = 64;
const ENTRIES: usize = 1000;

/// The type of functions whose result depends on registers of both kinds, on the stack and on the
/// function itself.
type Function = extern "C" fn(i64, f64, i64, i64, i64, i64, i64, i64, f64) -> f64;

#[test]
fn sixty_four_threads_call_a_thousand_entries_first_and_each_is_made_once() {
    let world = World::new(&[]);
    let object = c(
        "-O1 -fPIC",
        "double NAME(long a, double x, long b, long c, long d, long e, long f, long g, double y)
         { static int calls; return __atomic_fetch_add(&calls, 1, 5) < 0 ? 0 : a * 1000000 + g * 100 + f + x * y; }",
    );
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    // Like a compiler, the generator makes an object for each requested function.
    world.implementations.add_generator(move |requests: &[Request<'_>]| {
        let functions = requests.iter().filter(|request| request.name.starts_with('F'));
        let make = |request: &Request<'_>| {
            counted.fetch_add(1, Ordering::Relaxed);
            Generated::Object {
                name: request.name.to_owned(),
                bytes: renamed(&object, request.name),
            }
        };
        Ok(functions.map(make).collect())
    });
    let name = |index: usize| format!("F{index:03}");
    let entries = (0..ENTRIES).map(|index| Reexport::new(format!("e{}", name(index)), name(index)));
    let _entries = world.try_add(entries).unwrap();
    let functions: Vec<Function> = (0..ENTRIES)
        .map(|index| {
            let address = world.library.lookup(&format!("e{}", name(index))).unwrap();
            // SAFETY: the object defines the function with this type.
            unsafe { std::mem::transmute::<usize, Function>(address as usize) }
        })
        .collect();
    let emitted = world.linked();
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (functions, barrier) = (&functions, &barrier);
            scope.spawn(move || {
                for function in functions {
                    barrier.wait();
                    let (a, x) = (thread as i64, thread as f64 / 4.0);
                    let result = function(a, x, 2, 3, 4, 5, 6, 7, 8.0);
                    assert_eq!(result, (a * 1_000_000 + 706) as f64 + x * 8.0);
                }
            });
        }
    });
    assert_eq!((made.load(Ordering::Relaxed), world.linked() - emitted), (ENTRIES, ENTRIES));
}

/// Returns an object whose function has another name of four bytes.
fn renamed(object: &[u8], name: &str) -> bytes::Bytes {
    let mut object = object.to_vec();
    let places: Vec<usize> =
        object.windows(4).enumerate().filter(|(_, w)| w == b"NAME").map(|(at, _)| at).collect();
    for place in places {
        object[place..place + 4].copy_from_slice(name.as_bytes());
    }
    object.into()
}

#[test]
fn threads_that_call_members_first_have_each_member_and_its_constructor_once() {
    const MEMBERS: usize = 50;
    let member = |index: usize| {
        let next = (index + 1) % MEMBERS;
        let source = format!(
            "long f{next}(long); static int constructed;
             __attribute__((constructor)) static void begin(void) {{ constructed++; }}
             long f{index}(long n) {{ return n ? f{next}(n - 1) + constructed : {index}; }}"
        );
        (format!("m{index}.o"), c("-O1 -fPIC", &source))
    };
    let members: Vec<_> = (0..MEMBERS).map(member).collect();
    let named: Vec<_> = members.iter().map(|(name, o)| (name.as_str(), o.clone())).collect();
    let world = World::new(&[]);
    let file = world.lazy.add_lazily(&world.library, "it.a", archive(&named)).unwrap();
    // SAFETY: the sources are sound to run.
    unsafe { file.initialize(Default::default()) }.unwrap();
    let (world, barrier) = (&world, &Barrier::new(16));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            scope.spawn(move || {
                let start = thread * 3;
                let name = format!("f{start}");
                barrier.wait();
                let result = value_of(&world.library, &name, 30);
                assert_eq!(result, 30 + ((start + 30) % MEMBERS) as i64);
            });
        }
    });
}
