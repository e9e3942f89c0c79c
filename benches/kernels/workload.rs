//! What all contenders do, on the same memory.

use crate::opencl::{Command, OpenCl};
use crate::openmp::OpenMp;
use crate::ours::Ours;
use anyhow::{Result, ensure};
use longshore_benches::rounds::{Contender, Times, in_rounds};

/// One kernel, or some that belong together, with their memory.
pub(crate) trait Workload {
    /// Returns its name, and the size.
    fn name(&self) -> String;

    /// What is done in one run, in units of 1e9.
    fn amount(&self) -> (f64, &'static str);

    /// Returns whether items wait for each other.
    fn has_barriers(&self) -> bool;

    /// Makes memory as before the first run.
    fn reset(&self, memory: &Ours);

    /// Returns whether memory is as after the first run.
    fn is_right(&self, memory: &Ours) -> bool;

    /// Queues the launches.
    fn launch(&self, ours: &Ours) -> longshore::Result<()>;

    /// Returns the same launches for PoCL.
    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>>;

    /// Runs the loops.
    fn run_loops(&self, openmp: &OpenMp);
}

/// Ours first, then PoCL, then OpenMP.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) amount: (f64, &'static str),
    pub(crate) has_barriers: bool,
    pub(crate) times: [Option<Times>; 3],
}

/// Checks everyone's results, then times everyone.
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
