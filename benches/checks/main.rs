//! Kernels with checks beside the same kernels without, both on one thread of the CPU. Both images
//! are made by `longshore cc`.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use longshore::{Environment, Host, Program, Queue};
use longshore_benches::machine;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_conformance::TrustedImages;
use longshore_tests::items::{Argument, Launch};
use longshore_tests::world::{host_plugin, root};
use std::process::Command;

/// Greatest ratio of the times.
const MOST: f64 = 30.0;

/// A comparison of checked kernels with the same kernels without checks.
#[derive(Parser)]
struct Arguments {
    /// Part of the names of the kernels to measure.
    filter: Option<String>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A device with the kernels.
struct Side {
    program: Program,
    queue: Queue,
    _host: Host,
}

fn main() -> Result<()> {
    let filter = Arguments::parse().filter.unwrap_or_default();
    let [plain, checked] = [Side::new(false)?, Side::new(true)?];
    println!("{}", machine::load());
    let mut report = Report::new();
    for (what, launch) in launches().into_iter().filter(|it| it.1.kernel.contains(&filter)) {
        let sides = [&plain, &checked];
        let [expected, got] = sides.map(|side| side.results(&launch));
        ensure!(expected? == got?, "{what}: the results differ");
        let prepared = sides.map(|side| side.prepare(&launch));
        let [plain, checked] = prepared;
        let (plain, checked) = (plain?, checked?);
        let run = |run: &dyn Fn() -> Result<()>| run().expect("the kernel runs");
        let times = in_rounds([
            Some(Contender::new(3, || run(&plain))),
            Some(Contender::new(1, || run(&checked))),
        ]);
        let [Some(plain), Some(checked)] = times else { unreachable!("both are there") };
        let limit = Limit::from_floor("30 times", &plain, |time| time.mul_f64(MOST));
        report.row(what, Some(&plain), &checked, limit);
    }
    report.print();
    println!("{}", machine::load());
    Ok(())
}

impl Side {
    fn new(is_checked: bool) -> Result<Side> {
        let mut environment = Environment::empty().with("LONGSHORE_HOST_THREADS", "1");
        if is_checked {
            environment = environment.with("LONGSHORE_HOST_CHECK", "all");
        }
        let host = Host::builder()
            .with_environment(environment)
            .with_only_given_plugins()
            .with_plugin(host_plugin())
            .build()?;
        let device = host.default_device()?;
        let program = device.load_trusted(image(is_checked)?)?;
        Ok(Side { program, queue: device.queue()?, _host: host })
    }

    /// Returns the contents of the buffers after a launch.
    fn results(&self, launch: &Launch) -> Result<Vec<Vec<u8>>> {
        // SAFETY: the buffers have the numbers of elements among the arguments.
        Ok(unsafe { launch.run(&self.program, &self.queue) }?)
    }

    /// Returns a function that launches a kernel, with buffers that stay, and waits.
    fn prepare(&self, launch: &Launch) -> Result<impl Fn() -> Result<()> + use<'_>> {
        let prepared = launch.prepare(&self.program, &self.queue)?;
        // SAFETY: as above.
        Ok(move || Ok(unsafe { prepared.run(&self.queue) }?))
    }
}

/// Compiles the kernels by `longshore cc` with clang 19.
fn image(is_checked: bool) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("kernels.img");
    let command = host_plugin().with_file_name("longshore");
    let mut compile = Command::new(&command);
    compile.arg("cc").arg(root().join("benches/checks/kernels.c")).args(["--clang", "clang-19"]);
    if is_checked {
        compile.arg("--check");
    }
    let output = compile.arg("-o").arg(&image).output();
    let output = output.with_context(|| command.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", command.display());
    Ok(std::fs::read(image)?)
}

fn launches() -> Vec<(&'static str, Launch)> {
    let launch = |kernel: &str, groups: [u32; 3], items: [u32; 3], arguments| {
        let kernel = kernel.to_owned();
        Launch { kernel, groups, items, shared_bytes: 0, arguments }
    };
    let floats = |count: u32| {
        let values = (0..count).map(|index| (index % 1000) as f32 / 8.0);
        Argument::Buffer(values.flat_map(f32::to_ne_bytes).collect())
    };
    let words = |count: u32| {
        let values = (0..count).map(|index| index.wrapping_mul(0x9e37_79b9) >> 7);
        Argument::Buffer(values.flat_map(u32::to_ne_bytes).collect())
    };
    let float = |value: f32| Argument::Value(value.to_ne_bytes().to_vec());
    let word = |value: u32| Argument::Value(value.to_ne_bytes().to_vec());
    let million = 1 << 20;
    let row = [256, 1, 1];
    vec![
        (
            "y += a * x, 1,048,576 items",
            launch(
                "saxpy",
                [million / 256, 1, 1],
                row,
                vec![float(0.0), floats(million), floats(million), word(million)],
            ),
        ),
        (
            "a stencil of 3 values, 1,048,576 items",
            launch(
                "stencil",
                [million / 256, 1, 1],
                row,
                vec![floats(million), floats(million), word(million)],
            ),
        ),
        (
            "a transposition of 512 by 512 values",
            launch(
                "transpose",
                [32, 32, 1],
                [16, 16, 1],
                vec![floats(1 << 18), floats(1 << 18), word(512)],
            ),
        ),
        (
            "a histogram by atomics, 262,144 items",
            launch("histogram", [1024, 1, 1], row, vec![words(1 << 18), words(256), word(1 << 18)]),
        ),
        (
            "a chain of 100 divisions, 65,536 items",
            launch("divide", row, row, vec![floats(1 << 16), float(2.0), word(100)]),
        ),
        (
            "a sum of 262,144 values with barriers",
            launch("sum", [1024, 1, 1], row, vec![floats(1 << 18), floats(1024)]),
        ),
        (
            "a product of 256 by 256 matrices",
            launch(
                "multiply",
                [16, 16, 1],
                [16, 16, 1],
                vec![floats(1 << 16), floats(1 << 16), floats(1 << 16), word(256)],
            ),
        ),
    ]
}
