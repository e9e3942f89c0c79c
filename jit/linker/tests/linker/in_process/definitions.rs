//! Precedence among several definitions of a name, and the effect on the losing ones.

use longshore_jitlink::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope};
use longshore_jitlink::memory::{Lifetime, Protection};
use longshore_jitlink::session::{Removal, StaticArchive};
use longshore_jitlink::{Architecture, Library, Session};

use crate::in_process::support::{
    archive, assembly, c, failure, generator_of, library, session, value, variable,
};

/// Returns a graph with 8 bytes for each of these symbols, containing their numbers.
fn data_graph(symbols: &[(&str, Linkage)]) -> LinkGraph {
    let mut graph = LinkGraph::new("made", Architecture::X86_64);
    let section = graph.add_section(".data", Protection::ReadWrite, Lifetime::Standard);
    for (number, (name, linkage)) in symbols.iter().enumerate() {
        let content = Content::Bytes((number as u64).to_le_bytes().to_vec());
        let block = graph.add_block(section, content, 8);
        graph.add_symbol(NewSymbol {
            name,
            definition: Definition::Block(block, 0),
            size: 8,
            linkage: *linkage,
            scope: Scope::Default,
            callable: false,
        });
    }
    graph
}

#[test]
fn the_strong_one_of_two_definitions_in_one_object_counts() {
    for symbols in [
        [("pad", Linkage::Strong), ("x", Linkage::Weak), ("x", Linkage::Strong)],
        [("pad", Linkage::Strong), ("x", Linkage::Strong), ("x", Linkage::Weak)],
    ] {
        let expected = symbols.iter().rposition(|symbol| *symbol == ("x", Linkage::Strong));
        let library = library(&[]);
        let made = library.add_graph(move || data_graph(&symbols)).unwrap();
        assert_eq!(variable(&library, "x") as usize, expected.unwrap());
        made.remove(Removal::Unused).unwrap();
        assert_eq!(failure(library.lookup("x")), "undefined symbols: x");
        library.define_absolute("x", 1).unwrap();
    }
}

#[test]
fn the_larger_one_of_two_common_symbols_in_one_object_counts() {
    let graph = || {
        let assembled = assembly(".comm x,8,8; .comm y,4096,8");
        let mut bytes = assembled.to_vec();
        // Both symbols get the name of the second.
        let y = bytes.windows(3).position(|name| name == b"\0y\0").unwrap();
        bytes[y + 1] = b'x';
        bytes::Bytes::from(bytes)
    };
    let library = library(&[graph()]);
    let x = library.lookup("x").unwrap();
    // SAFETY: the larger symbol is in memory, which is zero at first.
    let last = unsafe { *((x + 4088) as *const u64) };
    assert_eq!(last, 0);
}

#[test]
fn a_common_symbol_counts_more_than_a_weak_definition() {
    let weak = c("-fPIC", "__attribute__((weak)) long buffer = 5;");
    let common = c("-fPIC -fcommon", "long buffer[100]; long f(void) { return buffer[0]; }");
    for objects in [[weak.clone(), common.clone()], [common, weak]] {
        assert_eq!(value(&library(&objects), "f"), 0);
    }
}

#[test]
fn a_common_symbol_that_is_larger_than_the_linked_one_is_an_error() {
    let common = |size: u32| {
        c("-fPIC -fcommon", &format!("long x[{size}]; long *f{size}(void) {{ return x; }}"))
    };
    let library = library(&[common(2)]);
    let x = library.lookup("x").unwrap();
    assert_eq!(
        failure(library.add_object("large.o", common(1000))),
        "symbol x is defined in 0.o and again in large.o"
    );
    let _small = library.add_object("small.o", common(1)).unwrap();
    assert_eq!(value(&library, "f1") as u64, x);
}

#[test]
fn a_graph_made_by_hand_gets_its_lost_symbols_back() {
    let library = library(&[]);
    let _made = library.add_graph(|| data_graph(&[("x", Linkage::Weak)])).unwrap();
    let strong = library.add_object("strong.o", c("-fPIC", "long x = 7;")).unwrap();
    strong.remove(Removal::Unused).unwrap();
    assert_eq!(variable(&library, "x"), 0);
}

#[test]
fn the_first_discarded_definition_is_the_next() {
    let library = library(&[]);
    let strong = library.add_object("strong.o", c("-fPIC", "long x = 7;")).unwrap();
    let [_one, _two] = [1, 2].map(|n| {
        let source = format!("__attribute__((weak)) long x = {n};");
        library.add_object("weak.o", c("-fPIC", &source)).unwrap()
    });
    strong.remove(Removal::Unused).unwrap();
    assert_eq!(variable(&library, "x"), 1);
}

#[test]
fn an_object_that_cannot_be_added_displaces_no_definition() {
    let library = library(&[c("-fPIC", "__attribute__((weak)) long x = 1; long y = 2;")]);
    let members =
        archive(&[("x.o", c("-fPIC", "long x = 3;")), ("y.o", c("-fPIC", "long y = 4;"))]);
    assert!(failure(library.add("it.a", members)).starts_with("symbol y is defined in 0.o"));
    assert_eq!((variable(&library, "x"), variable(&library, "y")), (1, 2));
}

#[test]
fn a_name_with_a_zero_in_it_is_refused() {
    let library = library(&[]);
    library.define_absolute("a", 1).unwrap();
    library.define_absolute("b", 2).unwrap();
    for refused in [library.define_absolute("a\0b", 3), library.define_alias("a\0b", "a")] {
        let expected = "program: \"a\\0b\" has a zero in it, expected a name without one";
        assert_eq!(failure(refused), expected);
    }
    let graph = library.add_graph(|| data_graph(&[("x\0y", Linkage::Strong)]));
    assert!(failure(graph).contains("has a zero in it"));
    assert_eq!(failure(library.lookup("a\0b")), "undefined symbols: a\0b");
}

#[test]
#[should_panic(expected = "a library of another session")]
fn a_link_order_is_of_libraries_of_one_session() {
    library(&[]).set_link_order(&[&library(&[])]);
}

fn two_libraries(session: &Session) -> [Library; 2] {
    let [user, other] = ["user", "other"].map(|name| session.create_library(name));
    user.set_link_order(&[&other]);
    [user, other]
}

#[test]
fn a_generator_does_not_replace_a_hidden_definition() {
    let session = session();
    let [user, other] = two_libraries(&session);
    let hidden = "__attribute__((visibility(\"hidden\"))) long f(void) { return 7; } long own(void) { return f(); }";
    let _f = other.add_object("f.o", c("-fPIC", hidden)).unwrap();
    other.add_generator(generator_of("f", 0x1000));
    assert_eq!(failure(user.lookup("f")), "undefined symbols: f");
    assert_eq!(value(&other, "own"), 7);
}

#[test]
fn a_generators_answer_does_not_replace_an_object_it_gave_as_well() {
    let library = library(&[]);
    let object = c("-fPIC", "long f(void) { return 7; }");
    library.add_generator(move |requests: &[longshore_jitlink::session::Request<'_>]| {
        use longshore_jitlink::session::Generated;
        let given = Generated::Object { name: "f.o".into(), bytes: object.clone() };
        let asked = requests.iter().position(|request| request.name == "f");
        let answers = asked.map(|index| [given, Generated::Address { index, address: 1 }]);
        Ok(answers.into_iter().flatten().collect())
    });
    assert_eq!(value(&library, "f"), 7);
}

const REFERS_HIDDEN: &str =
    "extern __attribute__((visibility(\"hidden\"))) long f(void); long g(void) { return f(); }";

#[test]
fn a_hidden_reference_is_to_an_object_of_its_own_library() {
    let session = session();
    let [user, other] = two_libraries(&session);
    let f = c("-fPIC", "long f(void) { return 3; }");
    let _other = other.add_object("other.o", f.clone()).unwrap();
    user.add_generator(generator_of("f", 0x1000));
    let _g = user.add_object("g.o", c("-fPIC", REFERS_HIDDEN)).unwrap();
    assert_eq!(failure(user.lookup("g")), "undefined symbols: f (used by g.o)");
    user.add_generator(StaticArchive::new("it.a", archive(&[("f.o", f)])).unwrap());
    assert_eq!(value(&user, "g"), 3);
}

#[test]
fn an_alias_is_followed_into_the_libraries_that_come_after() {
    let session = session();
    let [user, other] = two_libraries(&session);
    let source = "long f(void) { return 1; } long alias(void) { return 2; }";
    let _f = other.add_object("f.o", c("-fPIC", source)).unwrap();
    user.define_alias("alias", "f").unwrap();
    assert_eq!(value(&user, "alias"), 1);
    assert_eq!(value(&other, "alias"), 2);
}

#[test]
fn a_reference_into_a_discarded_group_is_an_error() {
    const GROUP: &str = ".section .text.a,\"axG\",@progbits,sig,comdat; .weak sig; sig: ret";
    let other = format!(
        "{GROUP}; .weak other; other: ret; .text; .globl f; f: mov other@GOTPCREL(%rip), %rax; ret"
    );
    let library = library(&[assembly(GROUP), assembly(&other)]);
    library.lookup("sig").unwrap();
    let error = failure(library.lookup("f"));
    assert!(error.contains("undefined symbols: other"), "{error}");
}
