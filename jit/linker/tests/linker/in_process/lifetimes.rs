//! The lifetime of linked code's memory, by the memory map of this process. The tests run one after
//! the other, since each reads the map.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use longshore_jitlink::debug::{DebugOptions, DebugSupport};
use longshore_jitlink::graph::{BlockId, Definition, LinkGraph};
use longshore_jitlink::memory::{
    ActionPair, AllocationRequest, FinalizedAllocation, InFlightAllocation, InProcessMemory,
    Lifetime, MemoryManager, Pending,
};
use longshore_jitlink::session::{Passes, Removal, SessionBuilder, Stage};
use longshore_jitlink::{Error, Session};

use crate::in_process::support::{self, assembly, c, failure, library_of, value};

static TURN: Mutex<()> = Mutex::new(());

fn serialize_tests() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the ranges of memory in which this process may execute.
fn executable_memory() -> Vec<Range<u64>> {
    mapped(|line| line.contains("r-xp"))
}

fn mapped(which: impl Fn(&str) -> bool) -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    maps.lines().filter(|line| which(line)).map(|line| range(line).unwrap()).collect()
}

fn is_mapped(address: u64) -> bool {
    mapped(|_| true).iter().any(|range| range.contains(&address))
}

fn block_of(graph: &LinkGraph, symbol: &str) -> BlockId {
    match graph.symbol_named(symbol.as_bytes()).unwrap().definition {
        Definition::Block(block, _) => block,
        other => panic!("{symbol} is {other:?}"),
    }
}

/// A memory manager of this process that counts live allocations and requested bytes.
#[derive(Default)]
struct Counting {
    memory: InProcessMemory,
    live: Arc<AtomicI64>,
    bytes: AtomicI64,
    fails: Arc<Mutex<bool>>,
}

struct Counted {
    inner: Option<Box<dyn InFlightAllocation>>,
    live: Arc<AtomicI64>,
    fails: Arc<Mutex<bool>>,
}

impl MemoryManager for Counting {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn allocate(&self, request: AllocationRequest<'_>) -> Pending<Box<dyn InFlightAllocation>> {
        let size = request.segments().map(|s| s.content_size + s.zero_fill_size).sum::<u64>();
        self.bytes.fetch_add(size as i64, Ordering::SeqCst);
        let pending = self.memory.allocate(request);
        let (live, fails) = (Arc::clone(&self.live), Arc::clone(&self.fails));
        Box::pin(async move {
            let inner = Some(pending.await?);
            live.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Counted { inner, live, fails }) as Box<dyn InFlightAllocation>)
        })
    }

    fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Pending<()> {
        self.live.fetch_sub(allocations.len() as i64, Ordering::SeqCst);
        self.memory.deallocate(allocations)
    }
}

impl InFlightAllocation for Counted {
    fn addresses(&self) -> &[u64] {
        self.inner.as_ref().unwrap().addresses()
    }

    fn working_memory(&mut self) -> Vec<&mut [u8]> {
        self.inner.as_mut().unwrap().working_memory()
    }

    fn finalize(
        mut self: Box<Self>,
        actions: Vec<Vec<ActionPair>>,
    ) -> Pending<Vec<FinalizedAllocation>> {
        if std::mem::take(&mut *self.fails.lock().unwrap()) {
            let (name, problem) = ("it".into(), "it cannot be finalized".into());
            return Box::pin(std::future::ready(Err(Error::Memory { name, problem })));
        }
        // Each object is alive until it is deallocated.
        self.live.fetch_add(actions.len() as i64, Ordering::SeqCst);
        let pending = self.inner.take().unwrap().finalize(actions);
        drop(self);
        pending
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}

fn counting() -> (Arc<Counting>, SessionBuilder) {
    let memory = Arc::new(Counting::default());
    (Arc::clone(&memory), Session::builder().with_memory(memory))
}

fn passes(stage: Stage, pass: impl Fn(&mut LinkGraph) + Send + Sync + 'static) -> Passes {
    let mut passes = Passes::default();
    passes.add(stage, move |graph| {
        pass(graph);
        Ok(())
    });
    passes
}

#[test]
fn the_pages_of_a_section_for_finalization_are_gone_after_the_link() {
    let _serial = serialize_tests();
    let source = "
        long temporary[4096] __attribute__((section(\".data.temporary\"))) = { 5 };
        long *where = temporary;
        long f(void) { return 3; }";
    for (lifetime, expected) in [(Lifetime::Standard, true), (Lifetime::Finalize, false)] {
        let passes = passes(Stage::Prune, move |graph| {
            let section = graph.block(block_of(graph, "temporary")).section;
            graph.set_lifetime(section, lifetime);
            assert_eq!(graph.section(section).lifetime, lifetime);
        });
        let library = library_of(Session::builder().with_passes(passes), &[c("-fPIC", source)]);
        let temporary = support::variable(&library, "where") as u64;
        assert!(temporary != 0);
        assert_eq!([is_mapped(temporary), is_mapped(temporary + 32767)], [expected; 2]);
        assert_eq!(value(&library, "f"), 3);
    }
}

#[test]
fn code_for_finalization_is_gone_and_the_rest_stays() {
    let _serial = serialize_tests();
    let source = ".section .text.a,\"ax\"; .globl a; a: mov $1, %eax; ret; .section .text.b,\"ax\"; .globl b; b: mov $2, %eax; ret";
    let passes = passes(Stage::PostPrune, |graph| {
        graph.set_lifetime(graph.block(block_of(graph, "a")).section, Lifetime::Finalize);
    });
    let library = library_of(Session::builder().with_passes(passes), &[assembly(source)]);
    assert_eq!(value(&library, "b"), 2);
    assert!(!is_mapped(library.lookup("a").unwrap()));
}

#[test]
fn profilers_are_informed_of_no_code_that_is_gone() {
    let _serial = serialize_tests();
    let source = "long kept_by_it(void) { return 1; } long gone_after_it(void) { return 2; }";
    let passes = passes(Stage::PostPrune, |graph| {
        graph.set_lifetime(
            graph.block(block_of(graph, "gone_after_it")).section,
            Lifetime::Finalize,
        );
    });
    let folder = tempfile::TempDir::new().unwrap();
    let jitdump = Some(folder.path().to_owned());
    let debug = DebugSupport::new(DebugOptions { jitdump, ..DebugOptions::default() }).unwrap();
    let file = debug.jitdump().unwrap().to_owned();
    let library = library_of(
        Session::builder().with_passes(passes).with_debug(debug),
        &[c("-fPIC -ffunction-sections", source)],
    );
    assert_eq!(value(&library, "kept_by_it"), 1);
    let file = if file.is_dir() {
        std::fs::read_dir(file).unwrap().next().unwrap().unwrap().path()
    } else {
        file
    };
    let dump = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    assert!(dump.contains("kept_by_it") && !dump.contains("gone_after_it"));
}

const WITHOUT_MEMORY: &str = "
    .section .text.f,\"ax\"; .globl f; f: mov $3, %eax; ret
    .section .tools,\"\",@progbits; tools: .quad f + 2, 77
    .section .untouched,\"\",@progbits; untouched: .quad 99";

#[test]
fn content_without_memory_is_fixed_up_on_demand() {
    let _serial = serialize_tests();
    let seen = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&seen);
    let passes = passes(Stage::PostFixup, move |graph| {
        let tools = block_of(graph, "tools");
        assert_eq!(graph.block(tools).address, 0);
        let before = graph.content(tools).to_vec();
        let first = graph.fix_up_no_alloc(tools).unwrap().to_vec();
        let again = graph.fix_up_no_alloc(tools).unwrap().to_vec();
        assert_eq!((before[..8] == [0; 8], &first), (true, &again));
        *noted.lock().unwrap() = Some(first);
    });
    let library = library_of(Session::builder().with_passes(passes), &[assembly(WITHOUT_MEMORY)]);
    assert_eq!(value(&library, "f"), 3);
    let expected = [library.lookup("f").unwrap() + 2, 77].map(u64::to_le_bytes).concat();
    assert_eq!(seen.lock().unwrap().as_deref(), Some(&expected[..]));
}

#[test]
fn unchanged_blocks_stay_borrowed_from_the_object() {
    let _serial = serialize_tests();
    let passes = passes(Stage::PostFixup, |graph| {
        let within_object = |graph: &LinkGraph, symbol: &str| {
            let range = graph.object_bytes().as_ptr_range();
            range.contains(&graph.content(block_of(graph, symbol)).as_ptr())
        };
        assert!(within_object(graph, "untouched") && within_object(graph, "tools"));
        graph.fix_up_no_alloc(block_of(graph, "tools")).unwrap();
        assert!(within_object(graph, "untouched") && !within_object(graph, "tools"));
        assert_eq!(graph.content(block_of(graph, "untouched")), 99_u64.to_le_bytes());
    });
    let library = library_of(Session::builder().with_passes(passes), &[assembly(WITHOUT_MEMORY)]);
    assert_eq!(value(&library, "f"), 3);
}

#[test]
fn references_between_sections_without_memory_are_offsets() {
    // Debug information refers to its strings in this way.
    let _serial = serialize_tests();
    let source = ".globl f; f: mov $3, %eax; ret
        .section .one,\"\",@progbits; one: .long two + 4, two
        .section .two,\"\",@progbits; .quad 0; two: .quad 7";
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let passes = passes(Stage::PostFixup, move |graph| {
        let one = block_of(graph, "one");
        *noted.lock().unwrap() = graph.fix_up_no_alloc(one).unwrap().to_vec();
    });
    let library = library_of(Session::builder().with_passes(passes), &[assembly(source)]);
    assert_eq!(value(&library, "f"), 3);
    assert_eq!(*seen.lock().unwrap(), [12_u32, 8].map(u32::to_le_bytes).concat());
}

#[test]
fn debug_sections_cost_no_memory() {
    let _serial = serialize_tests();
    let source =
        "struct S { long n; struct S *next; } list[20]; long f(long n) { return list[n].n; }";
    let bytes_of = |flags: &str| {
        let (memory, session) = counting();
        library_of(session, &[c(flags, source)]).lookup("f").unwrap();
        memory.bytes.load(Ordering::SeqCst)
    };
    assert_eq!(bytes_of("-fPIC -g3"), bytes_of("-fPIC -g0"));
}

#[test]
fn a_section_that_a_pass_takes_the_memory_from_costs_none() {
    let _serial = serialize_tests();
    let source = "char large[100000] = { 1 }; long f(void) { return 3; }";
    let passes = passes(Stage::Prune, |graph| {
        graph.set_lifetime(graph.block(block_of(graph, "large")).section, Lifetime::NoAlloc);
    });
    let (memory, session) = counting();
    let library = library_of(session.with_passes(passes), &[c("-fPIC -fdata-sections", source)]);
    assert_eq!(value(&library, "f"), 3);
    assert!(memory.bytes.load(Ordering::SeqCst) < 1000);
}

#[test]
fn nothing_is_writable_and_executable() {
    let _serial = serialize_tests();
    let library = library_of(
        Session::builder(),
        &[c("-fPIC", "long x; const long y = 2; long f(void) { return x + y; }")],
    );
    assert_eq!(value(&library, "f"), 2);
    assert!(mapped(|line| line.contains("rwx")).is_empty());
    let [f, x, y] = ["f", "x", "y"].map(|name| library.lookup(name).unwrap());
    let has = |address: u64, access: &str| {
        mapped(|line| line.contains(access)).iter().any(|range| range.contains(&address))
    };
    assert!(has(f, " r-xp ") && has(x, " rw-p ") && has(y, " r--p "));
}

#[test]
fn a_link_that_fails_leaves_memory_as_it_was() {
    let _serial = serialize_tests();
    let user = c("-fPIC", "long g(void); long f(void) { return g() + 1; }");
    let cases = [
        (
            "undefined",
            c("-fPIC", "long nowhere(void); long g(void) { return nowhere(); }"),
            "nowhere",
        ),
        ("overflow", assembly(".globl g; g: ret; .data; .byte far"), "against far"),
        (
            "unsupported",
            assembly(".globl g; g: ret; .data; .reloc ., R_X86_64_COPY, g; .quad 0"),
            "R_X86_64_COPY",
        ),
    ];
    for (name, object, part) in cases {
        let (memory, session) = counting();
        let far = assembly(".globl far; .set far, 0x123456");
        let library = library_of(session, &[user.clone(), object, far]);
        let before = executable_memory();
        for _ in 0..2 {
            let error = failure(library.lookup("f"));
            assert!(error.contains(part), "{error}");
            assert_eq!(memory.live.load(Ordering::SeqCst), 0, "{name}");
        }
        assert_eq!(executable_memory(), before, "{name}");
    }
}

#[test]
fn a_link_that_cannot_be_finalized_gives_everything_back_and_works_the_next_time() {
    let _serial = serialize_tests();
    let (memory, session) = counting();
    let library = library_of(
        session,
        &[
            c("-fPIC", "long g(void); long f(void) { return g() + 1; }"),
            c("-fPIC", "__thread long x = 5; long g(void) { return x; }"),
        ],
    );
    let before = executable_memory();
    *memory.fails.lock().unwrap() = true;
    assert_eq!(failure(library.lookup("f")), "memory for it: it cannot be finalized");
    assert_eq!(memory.live.load(Ordering::SeqCst), 0);
    assert_eq!(executable_memory(), before);
    assert_eq!(value(&library, "f"), 6);
    assert_eq!(memory.live.load(Ordering::SeqCst), 2);
}

#[test]
fn a_removed_object_gives_its_memory_back_and_no_other() {
    let _serial = serialize_tests();
    let (memory, session) = counting();
    let library = library_of(session, &[c("-fPIC", "long kept(void) { return 1; }")]);
    let object = library.add_object("f.o", c("-fPIC", "long f(void) { return 2; }")).unwrap();
    assert_eq!((value(&library, "kept"), value(&library, "f")), (1, 2));
    let f = library.lookup("f").unwrap();
    assert!(is_mapped(f));
    object.remove(Removal::Unused).unwrap();
    assert!(!is_mapped(f));
    assert_eq!(memory.live.load(Ordering::SeqCst), 1);
    assert_eq!(value(&library, "kept"), 1);
}

#[test]
fn objects_that_were_linked_together_share_pages_and_are_removed_one_by_one() {
    let _serial = serialize_tests();
    let (memory, session) = counting();
    let library = library_of(session, &[]);
    let add = |name: &str, source: &str| {
        let large = format!("{source} char {name}_data[1 << 16] = {{1}};");
        library.add_object(name, c("-fPIC", &large)).unwrap()
    };
    let f = add("f", "long g(void); long f(void) { return g() + 1; }");
    let g = add("g", "extern char h_data[]; long g(void) { return h_data[0]; }");
    let h = add("h", "long h(void) { return 7; }");
    let [f_data, g_data, h_data] =
        ["f_data", "g_data", "h_data"].map(|name| library.lookup(name).unwrap());
    let [f_code, g_code, h_code] = ["f", "g", "h"].map(|name| library.lookup(name).unwrap());
    assert_eq!(value(&library, "f"), 2);
    let page = memory.page_size();
    assert!([f_code, g_code, h_code].iter().all(|code| code / page == f_code / page));
    let middle = |data: u64| data + (1 << 15);
    assert!([f_data, g_data, h_data].into_iter().all(|data| is_mapped(middle(data))));
    f.remove(Removal::Unused).unwrap();
    assert_eq!(memory.live.load(Ordering::SeqCst), 2);
    assert!(!is_mapped(middle(f_data)) && is_mapped(f_code), "the page of the code is of all");
    assert_eq!((value(&library, "g"), value(&library, "h")), (1, 7));
    g.remove(Removal::Unused).unwrap();
    assert!(!is_mapped(middle(g_data)) && is_mapped(middle(h_data)));
    assert_eq!(value(&library, "h"), 7);
    h.remove(Removal::Unused).unwrap();
    assert!([f_code, f_data, middle(h_data)].into_iter().all(|address| !is_mapped(address)));
    assert_eq!(memory.live.load(Ordering::SeqCst), 0);
}

#[test]
fn the_memory_of_a_session_is_given_back_with_its_last_handle() {
    let _serial = serialize_tests();
    let (memory, session) = counting();
    let library = library_of(session, &[c("-fPIC", "long f(void) { return 1; }")]);
    let copy = library.clone();
    let f = library.lookup("f").unwrap();
    drop(library);
    assert!(is_mapped(f));
    drop(copy);
    assert!(!is_mapped(f));
    assert_eq!(memory.live.load(Ordering::SeqCst), 0);
}
