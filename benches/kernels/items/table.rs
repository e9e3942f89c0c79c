//! The table of kernels that are written per item.

use super::Row;
use crate::report::{milliseconds, verdict};
use comfy_table::Table;
use longshore_benches::rounds::Times;

/// Greatest time of the items, as a factor of the faster peer's time.
const BY_PEER: f64 = 1.0;
/// Greatest time of the items, as a factor of the group form's time.
const BY_GROUP: f64 = 1.3;

/// Greatest time of the kernels in CUDA, as a factor of the items' time.
const CUDA_BY_ITEMS: f64 = 1.1;

/// Returns a table with times in milliseconds, and the items' times as factors of the others'.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "ms: best (median)",
        "items",
        "group form",
        "CUDA",
        "PoCL",
        "Intel",
        "items / faster peer",
        "target",
        "items / group form",
        "target",
        "CUDA / items",
        "target",
    ]);
    for row in rows {
        let [pocl, intel] = &row.peers;
        let faster = row.peers.iter().flatten().min_by_key(|times| times.best());
        let [by_peer, peer_target] = against(&row.items, faster, BY_PEER);
        let [by_group, group_target] = against(&row.items, Some(&row.group), BY_GROUP);
        let [by_items, items_target] = against(&row.cuda, Some(&row.items), CUDA_BY_ITEMS);
        table.add_row([
            row.name.to_owned(),
            milliseconds(&Some(row.items.clone())),
            milliseconds(&Some(row.group.clone())),
            milliseconds(&Some(row.cuda.clone())),
            milliseconds(pocl),
            milliseconds(intel),
            by_peer,
            peer_target,
            by_group,
            group_target,
            by_items,
            items_target,
        ]);
    }
    table
}

fn against(items: &Times, other: Option<&Times>, most: f64) -> [String; 2] {
    let Some(other) = other else { return ["-".to_owned(), "-".to_owned()] };
    let factor = items.best().as_secs_f64() / other.best().as_secs_f64();
    let of_medians = items.median().as_secs_f64() / other.median().as_secs_f64();
    let target = format!("x{most:.1} {}", verdict(factor <= most));
    [format!("x{factor:.2} (x{of_medians:.2})"), target]
}
