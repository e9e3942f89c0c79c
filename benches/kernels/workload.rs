//! The work that all contenders do on the same memory.

use crate::opencl::{Command, OpenCl};
use crate::openmp::OpenMp;
use crate::ours::Ours;
use anyhow::{Result, ensure};
use longshore_benches::rounds::{Contender, Times, in_rounds};

/// A kernel, or several that belong together, with their memory.
pub(crate) trait Workload {
    /// Returns the name and the size.
    fn name(&self) -> String;

    /// Returns the amount of work in one run, in 1e9 units, and the unit.
    fn amount(&self) -> (f64, &'static str);

    /// Returns whether the items wait for each other.
    fn has_barriers(&self) -> bool;

    /// Restores the memory to its state before the first run.
    fn reset(&self, memory: &Ours);

    /// Returns whether the memory has the results of one run.
    fn is_right(&self, memory: &Ours) -> bool;

    /// Queues the launches.
    fn launch(&self, ours: &Ours) -> longshore::Result<()>;

    /// Returns the same launches for PoCL.
    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>>;

    /// Runs the loops.
    fn run_loops(&self, openmp: &OpenMp);
}

/// A row of the table: Longshore's times first, then PoCL's, then OpenMP's.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) amount: (f64, &'static str),
    pub(crate) has_barriers: bool,
    pub(crate) times: [Option<Times>; 3],
}

/// Checks all contenders' results, then times all contenders.
pub(crate) fn measure(
    workload: &dyn Workload,
    ours: &Ours,
    opencl: Option<&OpenCl>,
    openmp: Option<&OpenMp>,
) -> Result<Row> {
    let commands = opencl.map(|opencl| workload.commands(opencl)).transpose()?.unwrap_or_default();
    let run_ours = || ours.finish(workload.launch(ours));
    let run_opencl = opencl.map(|opencl| || opencl.run(&commands));
    let run_openmp = openmp.map(|openmp| || workload.run_loops(openmp));
    let check = |who: &str, run: &dyn Fn()| -> Result<()> {
        workload.reset(ours);
        run();
        ensure!(workload.is_right(ours), "{} of {who} is wrong", workload.name());
        Ok(())
    };
    check("ours", &run_ours)?;
    run_opencl.as_ref().map_or(Ok(()), |run| check("PoCL", run))?;
    run_openmp.as_ref().map_or(Ok(()), |run| check("OpenMP", run))?;
    workload.reset(ours);
    let times = in_rounds([
        Some(Contender::new(1, run_ours)),
        run_opencl.map(|run| Contender::new(1, run)),
        run_openmp.map(|run| Contender::new(1, run)),
    ]);
    let (name, amount, has_barriers) =
        (workload.name(), workload.amount(), workload.has_barriers());
    Ok(Row { name, amount, has_barriers, times })
}
