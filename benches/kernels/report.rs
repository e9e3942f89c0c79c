//! The tables.

use crate::launches::{self, Target};
use crate::workload::Row;
use comfy_table::Table;
use longshore_benches::rounds::Times;
use std::time::Duration;

/// The targets of a row, as factors of the speeds of the peers that are present.
pub(crate) struct Aim {
    pub(crate) pocl: Option<f64>,
    pub(crate) openmp: Option<f64>,
}

/// Returns a table with times in milliseconds, and the rate of work in the best time.
pub(crate) fn workloads(rows: &[(Row, Aim)]) -> Table {
    let mut table = Table::new();
    table.set_header([
        "ms: best (median)",
        "longshore",
        "",
        "PoCL",
        "OpenMP",
        "times PoCL",
        "target",
        "times OpenMP",
        "target",
    ]);
    for (row, aim) in rows {
        let [ours, pocl, openmp] = &row.times;
        let (amount, unit) = row.amount;
        let rate = ours.as_ref().map(|times| amount / times.best().as_secs_f64());
        let [by_pocl, pocl_target] = against(ours, pocl, aim.pocl);
        let [by_openmp, openmp_target] = against(ours, openmp, aim.openmp);
        table.add_row([
            row.name.clone(),
            milliseconds(ours),
            rate.map_or_else(String::new, |rate| format!("{rate:.1} {unit}")),
            milliseconds(pocl),
            milliseconds(openmp),
            by_pocl,
            pocl_target,
            by_openmp,
            openmp_target,
        ]);
    }
    table
}

/// Returns a table with the times of launches.
pub(crate) fn launches(rows: &[launches::Row]) -> Table {
    let mut table = Table::new();
    table.set_header(["best (median)", "longshore", "PoCL", "times PoCL", "target"]);
    for row in rows {
        let [ours, pocl] = &row.times;
        let (by_pocl, target) = match row.target {
            Target::TimesPocl(aim) => against(ours, pocl, Some(aim)).into(),
            Target::Ns(most) => {
                let took = ours.as_ref().map(|times| times.best().as_nanos() as f64);
                let met = took.is_some_and(|took| took <= most);
                ("-".to_owned(), format!("{} us {}", most / 1e3, verdict(met)))
            }
        };
        table.add_row([
            row.name.to_owned(),
            microseconds(ours),
            microseconds(pocl),
            by_pocl,
            target,
        ]);
    }
    table
}

/// Describes the speed of two threads relative to one.
pub(crate) fn scaling(one: &Times, two: &Times, aim: f64) -> String {
    let times = one.best().as_secs_f64() / two.best().as_secs_f64();
    let [one, two] = [one, two].map(|times| milliseconds(&Some(times.clone())));
    format!(
        "matrix multiply on 1 thread {one} ms, on 2 threads {two} ms: x{times:.2}, target x{aim} {}",
        verdict(times >= aim)
    )
}

fn against(ours: &Option<Times>, peer: &Option<Times>, aim: Option<f64>) -> [String; 2] {
    let (Some(ours), Some(peer)) = (ours, peer) else { return ["-".to_owned(), "-".to_owned()] };
    let times = peer.best().as_secs_f64() / ours.best().as_secs_f64();
    let by_median = peer.median().as_secs_f64() / ours.median().as_secs_f64();
    let target = aim.map_or("-".to_owned(), |aim| format!("x{aim} {}", verdict(times >= aim)));
    [format!("x{times:.2} (x{by_median:.2})"), target]
}

pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

pub(crate) fn milliseconds(times: &Option<Times>) -> String {
    shown(times, 1e3)
}

fn microseconds(times: &Option<Times>) -> String {
    shown(times, 1e6) + if times.is_some() { " us" } else { "" }
}

fn shown(times: &Option<Times>, per_second: f64) -> String {
    let number = |time: Duration| format!("{:.2}", time.as_secs_f64() * per_second);
    times.as_ref().map_or("-".to_owned(), |times| {
        format!("{} ({})", number(times.best()), number(times.median()))
    })
}
