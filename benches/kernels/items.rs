//! Kernels that are written per item, with barriers, and the same algorithms in group form, in CUDA
//! and in OpenCL C. All take the same arguments and groups.

mod table;
mod workloads;

use crate::opencl::{Argument, Command, ITEM_KERNELS, OpenCl, Runtime};
use crate::ours::{self, Ours};
use crate::there;
use anyhow::{Result, ensure};
use longshore::{Grid, Kernel, Program, RawArguments};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_tests::kernels::Form;
use std::any::Any;

/// Launches that belong together, and the check of their result.
struct Workload {
    launches: Vec<Launch>,
    outcome: Box<dyn Outcome>,
    _inputs: Box<dyn Any>,
}

/// A launch of one kernel, in any of its forms.
struct Launch {
    /// Name of the kernel in group form.
    group: &'static str,
    /// Name of the kernel in items form, and in OpenCL C.
    items: &'static str,
    /// Numbers of groups, and of items in a group.
    grid: ([u32; 3], [u32; 3]),
    arguments: Vec<Argument>,
}

/// The memory that a workload writes.
trait Outcome {
    /// Restores the memory to its state before the first run.
    fn reset(&self, memory: &Ours);

    /// Returns whether the memory has the results of one run.
    fn is_right(&self, memory: &Ours) -> bool;
}

/// A row of the table.
struct Row {
    name: &'static str,
    items: Times,
    group: Times,
    cuda: Times,
    /// Times of PoCL and of Intel's runtime.
    peers: [Option<Times>; 2],
}

/// Measures the workloads whose names contain `filter`; returns the table, or `None` if there are
/// no such workloads.
///
/// # Errors
/// An image that cannot be made, or a wrong result.
pub(crate) fn measure(filter: &str) -> Result<Option<String>> {
    let chosen = workloads::ALL.iter().filter(|(name, _)| name.contains(filter));
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        return Ok(None);
    }
    let ours = Ours::new(&ours::image_of_cc()?, None)?;
    // SAFETY: the compiler has just made the image of kernels of this repository.
    let cuda = unsafe { ours.device().load(ours::image_of_cuda()?) }?;
    let peers = [Runtime::Pocl, Runtime::Intel]
        .map(|runtime| there(&format!("{runtime} for items"), OpenCl::new(runtime, ITEM_KERNELS)));
    if let [_, Some(intel)] = &peers {
        println!("Intel: {}", intel.description);
    }
    let mut rows = Vec::new();
    for (name, make) in chosen {
        eprintln!("measuring {name}");
        rows.push(row(name, &make(&ours), &ours, &cuda, &peers)?);
    }
    Ok(Some(table::table(&rows).to_string()))
}

/// Checks all contenders' results, then times all contenders.
fn row(
    name: &'static str,
    workload: &Workload,
    ours: &Ours,
    cuda: &Program,
    peers: &[Option<OpenCl>; 2],
) -> Result<Row> {
    let run = |form| move || ours.finish(workload.launch(ours, form));
    let kernels = workload.launches.iter().map(|launch| cuda.kernel(launch.items));
    let kernels = kernels.collect::<longshore::Result<Vec<_>>>()?;
    let run_cuda = || ours.finish(workload.launch_kernels(ours, kernels.iter()));
    let mut commands = Vec::new();
    for peer in peers {
        commands.push(peer.as_ref().map(|peer| workload.commands(peer)).transpose()?);
    }
    let run_peer = |index: usize| {
        let (opencl, commands) = (peers[index].as_ref(), commands[index].as_ref());
        opencl.zip(commands).map(|(opencl, commands)| move || opencl.run(commands))
    };
    let check = |who: &str, run: &dyn Fn()| -> Result<()> {
        workload.outcome.reset(ours);
        run();
        ensure!(workload.outcome.is_right(ours), "{name}: the result of {who} is wrong");
        Ok(())
    };
    check("the items", &run(Form::Items))?;
    check("the group form", &run(Form::Group))?;
    check("CUDA", &run_cuda)?;
    for (index, peer) in peers.iter().enumerate() {
        if let (Some(peer), Some(run)) = (peer, run_peer(index)) {
            check(&peer.runtime.to_string(), &run)?;
        }
    }
    workload.outcome.reset(ours);
    let [items, group, cuda, pocl, intel] = in_rounds([
        Some(Contender::new(1, run(Form::Items))),
        Some(Contender::new(1, run(Form::Group))),
        Some(Contender::new(1, run_cuda)),
        run_peer(0).map(|run| Contender::new(1, run)),
        run_peer(1).map(|run| Contender::new(1, run)),
    ]);
    let (Some(items), Some(group), Some(cuda)) = (items, group, cuda) else {
        unreachable!("both are there")
    };
    Ok(Row { name, items, group, cuda, peers: [pocl, intel] })
}

impl Workload {
    fn new(launches: Vec<Launch>, outcome: impl Outcome + 'static, inputs: impl Any) -> Workload {
        Workload { launches, outcome: Box::new(outcome), _inputs: Box::new(inputs) }
    }

    /// Queues the launches in a form of ours.
    fn launch(&self, ours: &Ours, form: Form) -> longshore::Result<()> {
        let kernels = self.launches.iter().map(|launch| match form {
            Form::Group => ours.kernels.kernel(launch.group),
            Form::Items => ours.kernels.kernel(launch.items),
        });
        self.launch_kernels(ours, kernels)
    }

    /// Queues the launches with these kernels.
    fn launch_kernels<'k>(
        &self,
        ours: &Ours,
        kernels: impl Iterator<Item = &'k Kernel>,
    ) -> longshore::Result<()> {
        self.launches.iter().zip(kernels).try_for_each(|(launch, kernel)| {
            let (pointers, sizes): (Vec<_>, Vec<_>) =
                launch.arguments.iter().map(Argument::value).unzip();
            let (groups, items) = launch.grid;
            // SAFETY: the values live as long as `launch`. The buffers live as long as this
            // workload, and have the numbers of elements among the arguments.
            unsafe {
                let arguments = RawArguments::new(&pointers, &sizes)?;
                ours.kernels.queue().launch(kernel, Grid::new(groups, items), arguments)
            }
        })
    }

    /// Returns the launches for a runtime of OpenCL.
    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let command =
            |launch: &Launch| opencl.command(launch.items, launch.grid, &launch.arguments);
        self.launches.iter().map(command).collect()
    }
}
