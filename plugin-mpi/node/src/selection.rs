//! The user's selection of backends and devices, as it holds on a node.

/// Sets the variables of selection for this process: the node's own, or else the program's without
/// their entries for devices of nodes.
///
/// # Safety
/// No other thread runs.
pub(crate) unsafe fn apply() {
    let pairs = [
        ("LONGSHORE_NODE_BACKEND", "LONGSHORE_BACKEND", ','),
        ("LONGSHORE_NODE_DEVICES", "LONGSHORE_DEVICES", ';'),
    ];
    for (own, common, separator) in pairs {
        let text = |name| std::env::var(name).ok();
        let chosen = text(own).or_else(|| text(common).map(|all| without_nodes(&all, separator)));
        // SAFETY: guaranteed by the caller.
        unsafe {
            match chosen.filter(|chosen| !chosen.trim().is_empty()) {
                Some(chosen) => std::env::set_var(common, chosen),
                None => std::env::remove_var(common),
            }
        }
    }
}

fn without_nodes(all: &str, separator: char) -> String {
    let is_of_node = |entry: &str| {
        let name = entry.trim().trim_start_matches('!').trim_start();
        name.split(':').next().is_some_and(|backend| backend.trim().eq_ignore_ascii_case("mpi"))
    };
    let kept = all.split(separator).filter(|entry| !is_of_node(entry));
    kept.collect::<Vec<_>>().join(&separator.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_for_devices_of_nodes_are_the_programs_alone() {
        assert_eq!(without_nodes("mpi", ','), "");
        assert_eq!(without_nodes("mpi,host , vulkan", ','), "host , vulkan");
        assert_eq!(without_nodes("mpi:0,2; !MPI:*x*;vulkan:*", ';'), "vulkan:*");
        assert_eq!(without_nodes("mpix:0", ';'), "mpix:0");
    }
}
