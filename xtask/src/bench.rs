//! `cargo xtask bench`: the benchmarks, each beside its floor.
//!
//! The benchmarks of AMDGPU, checks, CUDA, executors, isolation, lazy re-exports, the linker,
//! kernels, MPI, OpenMP and Vulkan print their own tables with their peers. The benchmark of
//! instructions prints two backends side by side.
//!
//! The hot paths use criterion. A floor is the same work without Longshore, measured in the same
//! run. A group `<name>` has the benchmarks `floor` and `longshore`.

use crate::{intel_opencl, mathematics, process};
use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::Table;
use std::path::Path;
use std::process::Command;

/// The permitted distance of Longshore from the floor.
enum Target {
    /// The greatest difference, in nanoseconds.
    MoreNs(f64),
    /// The greatest ratio.
    Times(f64),
}

/// The permitted cost of a call of the C API above the same work by the library.
const PER_CALL: Target = Target::MoreNs(30.0);

/// Prefixes of group names, with the measured work and the target. The first match counts.
const GROUPS: [(&str, &str, Target); 20] = [
    ("boundary", "a call through the plugin's table", Target::MoreNs(0.8)),
    ("launch_and_wait", "an empty kernel on an idle queue, done", Target::MoreNs(150.0)),
    ("launch_queued", "an empty kernel, queued, 2 million/s", Target::MoreNs(500.0)),
    ("allocate_free", "allocate and free 1 MiB from the cache", Target::MoreNs(100.0)),
    ("tracked", "the same with memory tracking", Target::MoreNs(10e3)),
    ("copy_64B", "copy 64 B from host to device, done", Target::MoreNs(60.0)),
    ("copy_64MiB", "copy 64 MiB from host to device, done", Target::Times(1.02)),
    ("copy_tile", "copy 256 rows of 256 B to an array, done", Target::MoreNs(5e3)),
    ("discovery", "100 candidates that are not opened", Target::MoreNs(100.0 * 10e3)),
    ("open_host_device", "from nothing to an open device", Target::MoreNs(500e3)),
    ("capi_launch_and_wait", "olLaunchKernel without a queue, above Rust", PER_CALL),
    ("capi_launch_queued", "olLaunchKernel on a queue, above Rust", PER_CALL),
    ("capi_launch_with_arguments", "the same with arguments", PER_CALL),
    ("capi_copy_64B", "olMemcpy without a queue, above a plain copy", PER_CALL),
    ("capi_queued_copy_64B", "olMemcpy on a queue, above Rust", PER_CALL),
    ("capi_allocate_free", "olMemAlloc and olMemFree, above Rust", Target::MoreNs(2.0 * 30.0)),
    ("capi_event", "olCreateEvent, olSyncEvent, olDestroyEvent", Target::MoreNs(3.0 * 30.0)),
    ("capi_device_number", "olGetDeviceInfo of a number, above Rust", PER_CALL),
    ("capi_device_name", "olGetDeviceInfo of a text, above Rust", PER_CALL),
    ("", "other", Target::Times(1.0)),
];

/// A suite of benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The AMDGPU backend and HIP without it.
    Amdgpu,
    /// Kernels with checks, and without.
    Checks,
    /// The CUDA backend and the driver without it.
    Cuda,
    /// Executors, and the least cost of two processes.
    Executors,
    /// Calls, launches, copies, discovery.
    HotPaths,
    /// Instructions of the backends of CUDA and AMDGPU, on doubles of the drivers.
    Instructions,
    /// The CPU backend in a process of its own and in this one.
    Isolation,
    /// Kernels on the CPU, PoCL, Intel's OpenCL and OpenMP.
    Kernels,
    /// Functions linked at their first call.
    Lazy,
    /// The in-memory linker and other linkers.
    Linker,
    /// Mathematical functions for kernels, SLEEF and glibc's libmvec.
    Math,
    /// The MPI backend and MPI without it.
    Mpi,
    /// OpenMP programs on Longshore's libomptarget and on LLVM's.
    Openmp,
    /// The Vulkan backend and the driver without it.
    Vulkan,
}

/// Runs a suite and prints its times beside the floors. `filter` is a part of a name: of a workload
/// of the linker, a kernel, a mathematical function or an instruction count. For AMDGPU, CUDA, lazy
/// re-exports and Vulkan it is a part of a measurement's name.
///
/// # Errors
/// A failed benchmark, or unreadable results.
pub fn run(suite: Suite, filter: Option<&str>) -> Result<()> {
    match suite {
        Suite::Amdgpu => gpu("amdgpu", filter),
        Suite::Checks => {
            process::run(&mut process::cargo(["build", "--release", "-p", "longshore-command"]))?;
            with_plugin("host", &["checks"], filter)
        }
        Suite::Cuda => gpu("cuda", filter),
        Suite::HotPaths => hot_paths(),
        Suite::Instructions => instructions(filter),
        Suite::Kernels => kernels(filter),
        Suite::Executors => with_executor("executors", filter),
        Suite::Isolation => {
            build_plugin("host")?;
            with_executor("isolation", None)
        }
        Suite::Lazy => {
            build_plugin("host")?;
            with_executor("lazy", filter)
        }
        Suite::Math => mathematics::speed(filter),
        Suite::Linker => process::run(&mut benchmark(&["linker"], filter)),
        Suite::Mpi => {
            build_plugin("mpi")?;
            let packages = ["-p", "longshore-node", "-p", "longshore-command"];
            process::run(process::cargo(["build", "--release"]).args(packages))?;
            let examples = ["-p", "longshore-examples", "--examples"];
            process::run(process::cargo(["build", "--release"]).args(examples))?;
            with_plugin("host", &["mpi"], filter)
        }
        Suite::Openmp => {
            process::run(&mut process::cargo(["build", "--release", "-p", "longshore-openmp"]))?;
            with_plugin("host", &["openmp"], None)
        }
        Suite::Vulkan => with_plugin("vulkan", &["vulkan", "--features", "wgpu"], filter),
    }
}

/// Runs the benchmark of a backend beside its driver.
fn gpu(backend: &str, filter: Option<&str>) -> Result<()> {
    build_plugin(backend)?;
    process::run(benchmark(&["gpu"], filter).args(["--backend", backend]))
}

/// Runs the benchmark of kernels, with the command, which compiles some of them. Intel's runtime is
/// installed below the target folder; without it, the benchmark leaves it out.
fn kernels(filter: Option<&str>) -> Result<()> {
    if intel_opencl::library().is_none()
        && let Err(error) = intel_opencl::install()
    {
        println!("without Intel's OpenCL runtime: {error:#}");
    }
    process::run(&mut process::cargo(["build", "--release", "-p", "longshore-command"]))?;
    with_plugin("host", &["kernels"], filter)
}

/// Runs a benchmark that starts executors.
fn with_executor(name: &str, filter: Option<&str>) -> Result<()> {
    process::run(&mut process::cargo(["build", "--release", "-p", "longshore-executor"]))?;
    process::run(&mut benchmark(&[name], filter))
}

/// Runs a benchmark that loads a backend's plugin.
fn with_plugin(backend: &str, suite: &[&str], filter: Option<&str>) -> Result<()> {
    build_plugin(backend)?;
    process::run(&mut benchmark(suite, filter))
}

fn build_plugin(backend: &str) -> Result<()> {
    let plugin = process::plugin_package(&format!("longshore-plugin-{backend}"));
    process::run(process::cargo(["build", "--release", "-p"]).arg(plugin))
}

/// Returns the command for a benchmark: `suite` is its name and the arguments for cargo.
fn benchmark(suite: &[&str], filter: Option<&str>) -> Command {
    let mut command = process::cargo(["bench", "-p", "longshore-benches", "--bench"]);
    command.args(suite).arg("--").args(filter);
    command
}

/// Runs the benchmark of instructions, with the plugins and the doubles of their drivers.
fn instructions(filter: Option<&str>) -> Result<()> {
    const PACKAGES: [&str; 5] = [
        "longshore-plugin-cuda",
        "longshore-plugin-amdgpu",
        "longshore-double-cuda",
        "longshore-double-hip",
        "longshore-double-gpu",
    ];
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    process::run(process::cargo(["build", "--release"]).args(packages))?;
    process::run(&mut benchmark(&["instructions"], filter))
}

fn hot_paths() -> Result<()> {
    process::run(&mut process::cargo(["build", "--release", "-p", "longshore-capi"]))?;
    with_plugin("host", &["hot_paths"], None)?;
    let mut rows = Vec::new();
    collect(&process::target_folder().join("criterion"), "", &mut rows)?;
    rows.sort_by(|a, b| a.group.cmp(&b.group));
    println!("{}", table(&rows));
    Ok(())
}

struct Row {
    group: String,
    floor_ns: f64,
    ours_ns: f64,
}

/// Finds every folder that holds results of `floor` and of `longshore`.
fn collect(folder: &Path, group: &str, rows: &mut Vec<Row>) -> Result<()> {
    if let (Some(floor_ns), Some(ours_ns)) =
        (median_ns(&folder.join("floor"))?, median_ns(&folder.join("longshore"))?)
    {
        rows.push(Row { group: group.to_owned(), floor_ns, ours_ns });
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let group = if group.is_empty() { name } else { format!("{group}/{name}") };
            collect(&entry.path(), &group, rows)?;
        }
    }
    Ok(())
}

/// Returns the median of the last run in nanoseconds, or `None` before the first run.
fn median_ns(benchmark: &Path) -> Result<Option<f64>> {
    let path = benchmark.join("new/estimates.json");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
    let estimates: serde_json::Value = serde_json::from_str(&text)?;
    let median = estimates["median"]["point_estimate"].as_f64();
    median.map(Some).with_context(|| format!("{} has no median", path.display()))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.set_header(["benchmark", "what", "floor", "longshore", "more", "times", "target", ""]);
    for row in rows {
        let known = GROUPS.iter().find(|(start, ..)| row.group.starts_with(start));
        let (_, what, target) = known.expect("the last group's name starts every name");
        let (more, times) = (row.ours_ns - row.floor_ns, row.ours_ns / row.floor_ns);
        let (aim, met) = match target {
            Target::MoreNs(most) => (format!("+{}", duration(*most)), more <= *most),
            Target::Times(most) => (format!("x{most}"), times <= *most),
        };
        table.add_row([
            row.group.clone(),
            (*what).to_owned(),
            duration(row.floor_ns),
            duration(row.ours_ns),
            duration(more),
            format!("x{times:.2}"),
            aim,
            if met { "met" } else { "missed" }.to_owned(),
        ]);
    }
    table
}

fn duration(ns: f64) -> String {
    match ns.abs() {
        size if size < 1e3 => format!("{ns:.1} ns"),
        size if size < 1e6 => format!("{:.2} us", ns / 1e3),
        _ => format!("{:.2} ms", ns / 1e6),
    }
}
