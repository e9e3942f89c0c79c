//! The log of linked objects (`-v`, `-vv`, `-vvv`).

use longshore_jitlink::graph::{Definition, LinkGraph};
use longshore_jitlink::memory::Lifetime;

/// Logs an object with its final contents: its name at level info, the places of its sections at
/// debug, its symbols and external symbols at trace.
pub(super) fn log(graph: &LinkGraph) {
    let object = graph.name();
    log::info!("linked {object}");
    if log::log_enabled!(log::Level::Debug) {
        log_sections(graph);
    }
    if log::log_enabled!(log::Level::Trace) {
        log_symbols(graph);
    }
}

fn log_sections(graph: &LinkGraph) {
    let object = graph.name();
    for block in graph.blocks().filter(|block| block.live && block.size > 0) {
        let section = graph.section(block.section);
        if section.lifetime != Lifetime::NoAlloc {
            let name = String::from_utf8_lossy(section.name);
            let end = block.address + block.size;
            log::debug!("{object}: {name} {} at {:#x}-{end:#x}", section.protection, block.address);
        }
    }
}

fn log_symbols(graph: &LinkGraph) {
    let object = graph.name();
    for symbol in graph.symbols().filter(|symbol| !symbol.section_symbol && !symbol.name.is_empty())
    {
        let Definition::Block(block, offset) = symbol.definition else { continue };
        let block = graph.block(block);
        let has_memory = graph.section(block.section).lifetime != Lifetime::NoAlloc;
        if block.live && has_memory {
            let name = String::from_utf8_lossy(symbol.name);
            log::trace!("{object}: {name} at {:#x}", block.address + offset);
        }
    }
    for (symbol, address) in graph.externals() {
        let name = String::from_utf8_lossy(symbol.name);
        log::trace!("{object}: uses {name} at {address:#x}");
    }
}
