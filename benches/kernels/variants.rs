//! Kernels from bitcode beside their variants: the time of kernels, of loading and of launching.

use crate::ours::Ours;
use crate::report::milliseconds;
use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use longshore::{Buffer, Device, Grid, Kernel, KernelVariant, LoadOptions, Program, Queue};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_tests::world::root;
use std::cell::Cell;
use std::process::Command;

/// Numbers that each kernel reads.
const NUMBERS: u32 = 1 << 22;
const WIDTH: u32 = 2048;
const RADIUS: u32 = 2;
const COEFFICIENTS: u32 = 8;
const BUCKETS: u32 = 64;
const ITEMS: u32 = 256;
/// Number of launches in a sample.
const LAUNCHES: u32 = 1000;
/// Flags of clang for bitcode that it has not optimized, and that it has.
const SOURCES: [(&str, &[&str]); 3] = [
    ("", &["-O3", "-Xclang", "-disable-llvm-passes"]),
    (", clang -O2", &["-O2"]),
    (", clang -O1", &["-O1"]),
];

/// The memory of all kernels.
struct Memory {
    x: Buffer<f32>,
    y: Buffer<f32>,
    coefficients: Buffer<f32>,
    whole: Buffer<u32>,
    result: Buffer<u32>,
}

/// A kernel with the arguments of its launches.
struct Case {
    name: &'static str,
    variant: KernelVariant,
    launch: fn(&Queue, &Kernel, &Memory) -> longshore::Result<()>,
}

/// Measures the kernels whose names contain `filter`; returns the table, or `None` if there are no
/// such kernels.
///
/// # Errors
/// Bitcode that cannot be made or loaded, or a variant with another result.
pub(crate) fn measure(ours: &Ours, filter: &str) -> Result<Option<Table>> {
    let mut cases = cases();
    cases.retain(|case| format!("variant of {}", case.name).contains(filter));
    if cases.is_empty() {
        return Ok(None);
    }
    let device = ours.device();
    let variants = cases.iter().map(|case| case.variant.clone());
    let options = variants.fold(LoadOptions::new(), LoadOptions::with_variant);
    let queue = device.queue()?;
    let memory = Memory::new(device, &queue)?;
    let mut table = Table::new();
    table.set_header(["ms: best (median)", "kernel", "variant", "kernel / variant"]);
    for (about, flags) in SOURCES {
        let source = bitcode(flags)?;
        let programs =
            [load(device, &source, &LoadOptions::new())?, load(device, &source, &options)?];
        for case in &cases {
            let [kernel, variant] = measure_case(case, &programs, &queue, &memory)?;
            table.add_row(row(&format!("{}{about}", case.name), kernel, variant));
        }
    }
    let source = bitcode(SOURCES[0].1)?;
    let loads = measure_loads(device, &source, &options)?;
    table.add_row(row("loading with 1 and with all variants", loads.0, loads.1));
    let programs = [load(device, &source, &LoadOptions::new())?, load(device, &source, &options)?];
    for (about, divisor) in [("a fitting", BUCKETS), ("no fitting", BUCKETS + 1)] {
        let [plain, with_variants] = measure_launches(&programs, divisor, &queue, &memory)?;
        let about = format!("{LAUNCHES} launches of 1 item, {about} variant");
        table.add_row(row(&about, plain, with_variants));
    }
    Ok(Some(table))
}

/// Times launches that do almost nothing, in programs without and with variants.
fn measure_launches(
    programs: &[Program; 2],
    divisor: u32,
    queue: &Queue,
    memory: &Memory,
) -> Result<[Times; 2]> {
    let [plain, with_variants] = [programs[0].kernel("bucket")?, programs[1].kernel("bucket")?];
    let run = |kernel: Kernel| {
        move || {
            for _ in 0..LAUNCHES {
                let arguments = (&memory.whole, &memory.result, divisor);
                // SAFETY: the memory has a number for the item.
                let launched =
                    unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 1), arguments) };
                launched.expect("the kernel runs");
            }
        }
    };
    let [plain, with_variants] = in_rounds([
        Some(Contender::new(1, run(plain))),
        Some(Contender::new(1, run(with_variants))),
    ]);
    plain.zip(with_variants).map(|(plain, other)| [plain, other]).context("both are there")
}

/// Times loads that compile: with one variant for a value that no other load has, and with further
/// variants.
fn measure_loads(device: &Device, source: &[u8], options: &LoadOptions) -> Result<(Times, Times)> {
    let divisor = Cell::new(BUCKETS);
    let run = |options: LoadOptions| {
        let divisor = &divisor;
        move || {
            divisor.set(divisor.get() + 1);
            let variant = KernelVariant::for_kernel("bucket").with_argument(2, divisor.get());
            let options = options.clone().with_variant(variant);
            drop(load(device, source, &options).expect("the kernels are compiled"));
        }
    };
    let [one, all] = in_rounds([
        Some(Contender::new(1, run(LoadOptions::new()))),
        Some(Contender::new(1, run(options.clone()))),
    ]);
    one.zip(all).context("both are there")
}

fn row(name: &str, kernel: Times, variant: Times) -> [String; 4] {
    let ratio = kernel.best().as_secs_f64() / variant.best().as_secs_f64();
    let of_medians = kernel.median().as_secs_f64() / variant.median().as_secs_f64();
    let [kernel, variant] = [kernel, variant].map(|times| milliseconds(&Some(times)));
    [name.to_owned(), kernel, variant, format!("x{ratio:.2} (x{of_medians:.2})")]
}

/// Checks that both give the same result, then times both.
fn measure_case(
    case: &Case,
    programs: &[Program; 2],
    queue: &Queue,
    memory: &Memory,
) -> Result<[Times; 2]> {
    eprintln!("measuring a variant of {}", case.name);
    let [kernel, variant] = [programs[0].kernel(case.name)?, programs[1].kernel(case.name)?];
    let result = |kernel: &Kernel| -> Result<(Vec<f32>, Vec<u32>)> {
        memory.y.fill(queue, 0.0)?;
        memory.result.fill(queue, 0)?;
        (case.launch)(queue, kernel, memory)?;
        Ok((memory.y.to_vec(queue)?, memory.result.to_vec(queue)?))
    };
    let name = case.name;
    ensure!(result(&kernel)? == result(&variant)?, "the variant of {name} has another result");
    let run =
        |kernel: Kernel| move || (case.launch)(queue, &kernel, memory).expect("the kernel runs");
    let [kernel, variant] =
        in_rounds([Some(Contender::new(4, run(kernel))), Some(Contender::new(4, run(variant)))]);
    kernel.zip(variant).map(|(kernel, variant)| [kernel, variant]).context("both are there")
}

fn cases() -> Vec<Case> {
    // SAFETY of all launches: the memory has the numbers that the kernel accesses.
    vec![
        Case {
            name: "polynomial",
            variant: KernelVariant::for_kernel("polynomial").with_argument(3, COEFFICIENTS),
            launch: |queue, kernel, memory| {
                let arguments = (&memory.x, &memory.y, &memory.coefficients, COEFFICIENTS);
                // SAFETY: see above.
                unsafe { queue.launch_and_wait(kernel, linear(), arguments) }
            },
        },
        Case {
            name: "blur",
            variant: KernelVariant::for_kernel("blur")
                .with_group_items([ITEMS, 1, 1])
                .with_argument(2, WIDTH)
                .with_argument(3, RADIUS),
            launch: |queue, kernel, memory| {
                let (rows, border) = (NUMBERS / WIDTH, 2 * RADIUS);
                let grid = Grid::new([WIDTH / ITEMS, rows - border, 1], [ITEMS, 1, 1]);
                let arguments = (&memory.x, &memory.y, WIDTH, RADIUS);
                // SAFETY: see above; `x` has room for a border.
                unsafe { queue.launch_and_wait(kernel, grid, arguments) }
            },
        },
        Case {
            name: "bucket",
            variant: KernelVariant::for_kernel("bucket").with_argument(2, BUCKETS),
            launch: |queue, kernel, memory| {
                let arguments = (&memory.whole, &memory.result, BUCKETS);
                // SAFETY: see above.
                unsafe { queue.launch_and_wait(kernel, linear(), arguments) }
            },
        },
        Case {
            name: "sums",
            variant: KernelVariant::for_kernel("sums").with_group_items([ITEMS, 1, 1]),
            launch: |queue, kernel, memory| {
                let arguments = (&memory.whole, &memory.result);
                // SAFETY: see above.
                unsafe { queue.launch_and_wait(kernel, linear(), arguments) }
            },
        },
    ]
}

fn linear() -> Grid {
    Grid::linear(NUMBERS / ITEMS, ITEMS)
}

fn load(device: &Device, source: &[u8], options: &LoadOptions) -> Result<Program> {
    // SAFETY: the benchmark's own kernels.
    Ok(unsafe { device.load_with(source, options) }?)
}

/// Compiles the kernels to bitcode.
fn bitcode(flags: &[&str]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("variants.bc");
    let mut compile = Command::new("clang-19");
    compile.args(flags).args(["-fPIC", "-emit-llvm", "-c", "-I"]).arg(root().join("include"));
    compile.arg("-o").arg(&file).arg(root().join("benches/kernels/variants.c"));
    ensure!(compile.status().context("clang-19")?.success(), "clang-19 cannot compile variants.c");
    Ok(std::fs::read(file)?)
}

impl Memory {
    fn new(device: &Device, queue: &Queue) -> Result<Memory> {
        let border = NUMBERS + 2 * RADIUS * (NUMBERS / WIDTH + WIDTH);
        let x: Vec<f32> = (0..border).map(|i| (i % 17) as f32 * 0.125).collect();
        let whole: Vec<u32> = (0..NUMBERS).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let coefficients = [0.5f32; COEFFICIENTS as usize];
        Ok(Memory {
            x: device.buffer_of(queue, &x)?,
            y: device.buffer(queue, NUMBERS as usize)?,
            coefficients: device.buffer_of(queue, &coefficients)?,
            whole: device.buffer_of(queue, &whole)?,
            result: device.buffer(queue, NUMBERS as usize)?,
        })
    }
}
