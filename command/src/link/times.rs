//! The times of a link (`--show-times`).

use crate::table;
use longshore::units::{bytes, duration};
use longshore_jitlink::session::LinkTimes;

/// Returns a table with a row for each step, and the number and size of the linked objects.
pub(super) fn table(times: &LinkTimes) -> String {
    let steps = [
        ("read", times.read),
        ("resolve", times.resolve),
        ("allocate", times.allocate),
        ("fix up", times.fix_up),
        ("finalize", times.finalize),
        ("total", times.total()),
    ];
    let mut rows: Vec<[String; 2]> =
        steps.map(|(step, time)| [step.to_owned(), duration(time)]).into();
    rows.push(["objects".to_owned(), times.objects.to_string()]);
    rows.push(["memory".to_owned(), bytes(times.bytes)]);
    table::render(["LINK", ""], rows)
}
