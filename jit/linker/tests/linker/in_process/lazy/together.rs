//! Several objects, archives and other sources that are added lazily as parts of one program.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use longshore_jitlink::Result;
use longshore_jitlink::graph::Linkage;
use longshore_jitlink::lazy::{Defined, LazyFiles, Source};

use super::World;
use crate::in_process::support::{
    archive, c, cpp, define_trace, deinitialize, failure, initialize, traced, value, value_of,
    variable,
};

/// Returns a world whose library has these objects and this archive, added lazily together.
fn world(objects: &[(&str, &str)], members: &[(&str, &str)]) -> (World, LazyFiles) {
    let world = World::new(&[]);
    let mut addition = world.lazy.lazily(&world.library, "it");
    for (name, source) in objects {
        addition = addition.object(name, c("-O1 -fPIC", source)).unwrap();
    }
    let members: Vec<(&str, Bytes)> =
        members.iter().map(|(name, source)| (*name, c("-O1 -fPIC", source))).collect();
    if !members.is_empty() {
        addition = addition.archive("it.a", archive(&members)).unwrap();
    }
    let files = addition.add().unwrap();
    (world, files)
}

#[test]
fn each_object_is_linked_when_one_of_its_functions_is_called() {
    let (world, _) = world(
        &[
            ("one.o", "long two(long); long one(long n) { return n ? two(n) : 1; }"),
            ("two.o", "extern long of_three; long two(long n) { return of_three + n; }"),
            ("three.o", "long of_three = 30; long never(void) { return 0; }"),
            ("four.o", "long nowhere(void); long four(void) { return nowhere(); }"),
        ],
        &[],
    );
    assert_eq!((value_of(&world.library, "one", 0), world.linked()), (1, 3));
    // The further objects are `two.o`, and `three.o` for its variable.
    assert_eq!((value_of(&world.library, "one", 2), world.linked()), (32, 5));
    assert_eq!(variable(&world.library, "of_three"), 30);
}

#[test]
fn objects_and_members_find_each_others_hidden_symbols() {
    const HIDDEN: &str = "#pragma GCC visibility push(hidden)\n";
    let with = |source: &str| format!("{HIDDEN}{source}");
    let (world, _) = world(
        &[
            (
                "one.o",
                &with(
                    "long two(void), three(void);\n#pragma GCC visibility pop\nlong one(void) { return two() + three(); }",
                ),
            ),
            (
                "two.o",
                &with(
                    "extern long here; long here = 4; long two(void); long two(void) { return here; }",
                ),
            ),
        ],
        &[(
            "three.o",
            &with("extern long here; long three(void); long three(void) { return here + 10; }"),
        )],
    );
    assert_eq!(value(&world.library, "one"), 18);
    assert_eq!(failure(world.library.lookup("two")), "undefined symbols: two");
}

#[test]
fn objects_come_before_members_and_the_first_of_several_weak_definitions_counts() {
    let (world, files) = world(
        &[
            (
                "one.o",
                "__attribute__((weak)) long chosen(void) { return 1; } __attribute__((common)) long common;",
            ),
            ("two.o", "__attribute__((weak)) long chosen(void) { return 2; } long common = 7;"),
        ],
        &[
            ("three.o", "long chosen(void) { return 3; }"),
            ("four.o", "long common = 9; long four(void) { return common; }"),
        ],
    );
    assert_eq!((value(&world.library, "chosen"), variable(&world.library, "common")), (1, 7));
    assert_eq!(files.defined("chosen").unwrap().unwrap().linkage, Linkage::Weak);
    assert_eq!(files.defined("nothing").unwrap(), None);
    let mut names: Vec<String> =
        files.all_defined().unwrap().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["chosen", "common", "four"]);
}

#[test]
fn a_strong_definition_counts_wherever_it_stands() {
    let (world, _) = world(
        &[
            (
                "one.o",
                "__attribute__((weak)) long chosen(void) { return 1; } long one(void) { return chosen(); }",
            ),
            ("two.o", "long chosen(void) { return 2; }"),
        ],
        &[],
    );
    assert_eq!((value(&world.library, "one"), value(&world.library, "chosen")), (2, 2));
}

#[test]
fn duplicate_definitions_are_refused_and_leave_nothing_behind() {
    let world = World::new(&[]);
    let object = || c("-O1 -fPIC", "long twice(void) { return 0; }");
    let addition = world.lazy.lazily(&world.library, "it");
    let addition = addition.object("one.o", object()).unwrap().object("two.o", object()).unwrap();
    let refused = addition.add().map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("twice") && refused.contains("one.o") && refused.contains("two.o"),
        "{refused}"
    );
    assert_eq!(failure(world.library.lookup("twice")), "undefined symbols: twice");
}

#[test]
fn every_member_of_a_whole_archive_is_an_object() {
    let constructed =
        "void trace(int); __attribute__((constructor)) static void begin(void) { trace(5); }
        long five(void) { return 5; }";
    let members = archive(&[
        ("five.o", c("-O1 -fPIC", constructed)),
        ("six.o", c("-O1 -fPIC", "long six(void) { return 6; }")),
    ]);
    let world = World::new(&[]);
    define_trace(&world.library);
    let addition = world.lazy.lazily(&world.library, "it").file("it.a", &members).unwrap();
    let files = addition.add().unwrap();
    traced();
    // SAFETY: the sources are sound to run.
    unsafe { files.initialize(Default::default()) }.unwrap();
    assert_eq!((traced().as_str(), world.linked()), ("5 ", 1));
    assert_eq!(value(&world.library, "six"), 6);
}

#[test]
fn constructors_and_destructors_of_objects_have_one_order() {
    let object = |n: i32, priority: i32| {
        let source = format!(
            "void trace(int); __attribute__((constructor({priority}))) static void begin(void) {{ trace({n}); }}
             __attribute__((destructor({priority}))) static void end(void) {{ trace(-{n}); }}"
        );
        (format!("{n}.o"), source)
    };
    let objects = [object(1, 300), object(2, 200), object(3, 400)];
    let objects = objects.each_ref().map(|(name, source)| (name.as_str(), source.as_str()));
    let (world, files) = world(&objects, &[]);
    define_trace(&world.library);
    traced();
    // SAFETY: the sources are sound to run.
    unsafe { files.initialize(Default::default()) }.unwrap();
    deinitialize(files.implementations());
    assert_eq!(traced(), "2 1 3 -3 -1 -2 ");
}

const TAKEN: &str = "
    long f(void) { return 1; } long g(void);
    __attribute__((visibility(\"hidden\"))) long hidden(void) { return 2; }
    static long local(void) { return 3; }
    void *table[] = { f, g, hidden, local };
    void *of_f(void) { return f; } void *of_hidden(void) { return hidden; }
    long calls(void) { return f() + hidden() + local(); }
    long end; __attribute__((destructor)) void finish(void) { end = f(); }";

#[test]
fn a_function_has_its_entrys_address_in_its_own_object_too() {
    let member = "long f(void); long g(void) { return 4; } void *f_of_g(void) { return f; }";
    let (world, files) = world(&[("f.o", TAKEN)], &[("g.o", member)]);
    let address = |name: &str| value(&world.library, name) as u64;
    let entry = world.library.lookup("f").unwrap();
    assert_eq!([address("of_f"), address("f_of_g")], [entry; 2]);
    let table = world.library.lookup("table").unwrap();
    // SAFETY: the object has four words there.
    let table = unsafe { std::slice::from_raw_parts(table as *const u64, 4) };
    assert_eq!(table[..2], [entry, world.library.lookup("g").unwrap()]);
    // A function that other objects do not see has no entry.
    assert_eq!(address("of_hidden"), table[2]);
    assert_eq!(table[2], files.implementations().lookup("hidden").unwrap());
    assert_eq!(value(&world.library, "calls"), 6);
    initialize(files.implementations());
    deinitialize(files.implementations());
    assert_eq!(variable(&world.library, "end"), 1);
}

/// A source that makes an object for each requested function, `f0`, `f1`, ..., each of which calls
/// the one before it by a hidden name.
struct Maker {
    made: AtomicUsize,
}

impl Maker {
    fn number(name: &str) -> Option<usize> {
        name.trim_start_matches("hidden_").strip_prefix('f')?.parse().ok()
    }
}

impl Source for Maker {
    fn name(&self) -> &str {
        "maker"
    }

    fn defined(&self, name: &str) -> Result<Option<Defined>> {
        let is_function = !name.starts_with("hidden_") && Self::number(name).is_some();
        Ok(is_function.then_some(Defined {
            callable: true,
            linkage: Linkage::Strong,
            thread_local: false,
            indirect: false,
            size: 0,
            content: None,
        }))
    }

    fn all_defined(&self) -> Result<Vec<(String, Defined)>> {
        Ok(Vec::new())
    }

    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>> {
        let mut numbers: Vec<usize> = names.filter_map(Self::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let object = |number: usize| {
            self.made.fetch_add(1, Ordering::Relaxed);
            let hidden = "__attribute__((visibility(\"hidden\"))) long hidden_f";
            let (declared, before) = match number.checked_sub(1) {
                Some(before) => (format!("{hidden}{before}(void);"), format!("hidden_f{before}()")),
                None => (String::new(), "0".to_owned()),
            };
            let source = format!(
                "{declared} {hidden}{number}(void) {{ return 1 + {before}; }}
                 long f{number}(void) {{ return hidden_f{number}(); }}"
            );
            (format!("maker({number})"), c("-O1 -fPIC", &source))
        };
        Ok(numbers.into_iter().map(object).collect())
    }

    fn initial_objects(&self) -> Result<Vec<(String, Bytes)>> {
        let source = "extern \"C\" long f0(); extern \"C\" long ready; long ready = f0() + 40;";
        Ok(vec![("maker(initial)".to_owned(), cpp("-O1 -fPIC", source))])
    }

    fn answers_weak(&self) -> bool {
        true
    }
}

#[test]
fn a_source_makes_its_pieces_when_they_are_asked_for() {
    let world = World::new(&[]);
    let maker = Arc::new(Maker { made: AtomicUsize::new(0) });
    let made = || maker.made.load(Ordering::Relaxed);
    let weak = "__attribute__((weak)) long f1(void); long asks(void) { return f1 ? f1() : -1; }";
    let files = world
        .lazy
        .lazily(&world.library, "it")
        .object("weak.o", c("-O1 -fPIC", weak))
        .unwrap()
        .source(Arc::clone(&maker) as Arc<dyn Source>)
        .add()
        .unwrap();
    world.library.lookup("f3").unwrap();
    assert_eq!(made(), 0);
    // `f3` calls `f2`, `f2` calls `f1`, and `f1` calls `f0`, by names that other objects do not
    // see.
    assert_eq!((value(&world.library, "f3"), made()), (4, 4));
    assert_eq!((value(&world.library, "asks"), made()), (2, 4));
    assert_eq!(failure(world.library.lookup("hidden_f3")), "undefined symbols: hidden_f3");
    assert_eq!(failure(files.implementations().lookup("ready")), "undefined symbols: ready");
    // SAFETY: the sources are sound to run.
    unsafe { files.initialize(Default::default()) }.unwrap();
    initialize(files.implementations());
    assert_eq!(variable(files.implementations(), "ready"), 41);
}
