//! Sessions for processes that are not this one.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_jitlink::debug::{DebugOptions, DebugSupport};
use longshore_jitlink::graph::{Content, Definition, LinkGraph, Linkage, NewSymbol, Scope};
use longshore_jitlink::memory::{InProcessMemory, Lifetime, MemoryManager, Pending, Protection};
use longshore_jitlink::process::{Facts, Handler, InProcess, ProcessCalls, TargetProcess};
use longshore_jitlink::session::{MainArguments, SessionBuilder};
use longshore_jitlink::{Architecture, Error, Result, Session};

use crate::processes::support::failure;

/// A process with properties of its own, and memory of this one.
struct Other {
    facts: Facts,
    memory: Arc<InProcessMemory>,
}

impl Other {
    /// Creates a process for AArch64, with functions at addresses that are invalid here.
    fn new() -> Self {
        let mut names: Vec<String> =
            InProcess::new().unwrap().facts().symbols.keys().cloned().collect();
        names.sort();
        let symbols = names.into_iter().zip((0x7000_0000_0000..).step_by(16));
        let facts = Facts {
            triple: "aarch64-unknown-linux-gnu".to_owned(),
            architecture: Architecture::Aarch64,
            page_size: 4096,
            is_this_process: false,
            symbols: symbols.collect(),
        };
        Self { facts, memory: Arc::default() }
    }

    fn session(self) -> SessionBuilder {
        Session::builder().with_process(Arc::new(self))
    }
}

impl ProcessCalls for Other {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    unsafe fn call(&self, _: u64, _: &[u8]) -> Pending<Vec<u8>> {
        Box::pin(async { Err(Error::ProcessGone { how: "it was never there".to_owned() }) })
    }
}

impl TargetProcess for Other {
    fn memory(&self) -> Arc<dyn MemoryManager> {
        self.memory.clone()
    }

    fn serve(&self, _: u64, _: Handler) -> Result<()> {
        Ok(())
    }

    fn disconnect(&self) -> Result<()> {
        Ok(())
    }
}

fn build(session: SessionBuilder) -> Result<Session> {
    // SAFETY: the process does not exist, so nothing is executed.
    unsafe { session.build() }
}

/// Returns data for AArch64 with one symbol.
fn graph() -> LinkGraph {
    let mut graph = LinkGraph::new("it", Architecture::Aarch64);
    let section = graph.add_section(".data", Protection::ReadWrite, Lifetime::Standard);
    let block = graph.add_block(section, Content::Bytes(vec![1, 2, 3, 4, 5, 6, 7, 8]), 8);
    graph.add_symbol(NewSymbol {
        name: "datum",
        definition: Definition::Block(block, 4),
        size: 4,
        linkage: Linkage::Strong,
        scope: Scope::Default,
        callable: false,
    });
    graph
}

#[test]
fn code_is_linked_for_the_architecture_of_the_process() {
    let session = build(Other::new().session()).unwrap();
    assert_eq!(session.architecture(), Architecture::Aarch64);
    let library = session.create_library("program");
    let _object = library.add_graph(graph).unwrap();
    let datum = library.lookup("datum").unwrap();
    // SAFETY: the memory is this process's, and the graph is still linked.
    assert_eq!(unsafe { *(datum as *const [u8; 4]) }, [5, 6, 7, 8]);
}

#[test]
fn stand_ins_belong_to_the_process() {
    let other = Other::new();
    let symbols: HashMap<String, u64> = other.facts.symbols.clone();
    let library = build(other.session()).unwrap().create_library("program");
    for (name, stands_in) in [
        ("__tls_get_addr", "__longshore_tls_get_addr"),
        ("__cxa_atexit", "__longshore_cxa_atexit"),
        ("pthread_atfork", "__longshore_pthread_atfork"),
    ] {
        assert_eq!(library.lookup(name).unwrap(), symbols[stands_in], "{name}");
    }
}

#[test]
fn operations_of_this_process_alone_are_refused_for_another_one() {
    let debug = DebugSupport::new(DebugOptions { gdb: true, ..DebugOptions::default() }).unwrap();
    let refused = failure(build(Other::new().session().with_debug(debug)));
    assert!(refused.contains("of this process only"), "{refused}");
    let reserve = longshore_orc_rt::static_tls_reserve!(64).unwrap();
    let refused = failure(build(Other::new().session().with_static_tls(reserve)));
    assert!(refused.contains("sets its own aside"), "{refused}");
    let refused = failure(build(Other::new().session().with_architecture(Architecture::X86_64)));
    assert!(refused.contains("executes Aarch64, the session links for X86_64"), "{refused}");
}

#[test]
fn a_process_without_what_code_needs_is_refused() {
    let mut other = Other::new();
    other.facts.symbols.remove("__longshore_register_frames");
    let refused = failure(build(other.session()));
    assert!(refused.contains("has no __longshore_register_frames"), "{refused}");
}

#[test]
fn a_session_without_execution_runs_nothing() {
    let session = Session::builder().build_without_execution().unwrap();
    assert!(failure(session.main_arguments(&[])).contains("built without execution"));
    let library = session.create_library("program");
    // SAFETY: nothing is run.
    let ran = unsafe { library.run_main(0, MainArguments::default()) };
    assert!(failure(ran).contains("built without execution"));
}
