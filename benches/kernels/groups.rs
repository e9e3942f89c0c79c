//! Kernels with barriers.

use crate::opencl::{Argument, Command, OpenCl};
use crate::openmp::OpenMp;
use crate::ours::Ours;
use crate::workload::Workload;
use anyhow::Result;
use longshore::Buffer;
use longshore_tests::kernels::{
    Form, GROUP, bodies, bytes, elements, histogram, integers, matmul, nbody_bounds, parts,
    prefix_sum, reduce, small_floats,
};

/// Number of groups, for kernels whose groups do a part each.
const PARTS: u32 = 64;
/// Number of bodies whose results are checked.
const CHECKED: usize = 64;

pub(crate) struct Matmul {
    n: u32,
    host: [Vec<f32>; 2],
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
}

pub(crate) struct Reduce {
    host: Vec<f32>,
    x: Buffer<f32>,
    sums: Buffer<f32>,
    result: Buffer<f32>,
}

pub(crate) struct Histogram {
    host: Vec<u8>,
    x: Buffer<u8>,
    bins: Buffer<u32>,
}

pub(crate) struct PrefixSum {
    host: Vec<u32>,
    x: Buffer<u32>,
    y: Buffer<u32>,
    sums: Buffer<u32>,
}

pub(crate) struct NBody {
    host: Vec<f32>,
    bodies: Buffer<f32>,
    pulls: Buffer<f32>,
}

impl Matmul {
    /// Creates the multiplication of n x n matrices.
    pub(crate) fn new(ours: &Ours, n: u32) -> Matmul {
        let count = n as usize * n as usize;
        let host = [small_floats(6, count), small_floats(7, count)];
        let (a, b, c) = (ours.buffer(&host[0]), ours.buffer(&host[1]), ours.buffer(&host[0]));
        Matmul { n, host, a, b, c }
    }
}

impl Workload for Matmul {
    fn name(&self) -> String {
        format!("matrix multiply, {0} x {0}", self.n)
    }

    fn amount(&self) -> (f64, &'static str) {
        (2.0 * f64::from(self.n).powi(3) / 1e9, "GFLOP/s")
    }

    fn has_barriers(&self) -> bool {
        true
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.c, &self.host[0]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.c) == matmul(&self.host[0], &self.host[1], [self.n as usize; 3])
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let n = self.n;
        let (grid, arguments) =
            (Form::Group.matmul_grid(n, n), (&self.a, &self.b, &self.c, n, n, n));
        // SAFETY: the matrices have n x n elements.
        unsafe { ours.kernels.launch("matmul", Form::Group, grid, arguments) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let [a, b, c] = [&self.a, &self.b, &self.c].map(Argument::from_buffer);
        let [m, n, k] = [self.n; 3].map(Argument::Int);
        let tiles = self.n.div_ceil(64);
        let grid = ([tiles, tiles, 1], [64, 8, 1]);
        Ok(vec![opencl.command("matmul", grid, &[a, b, c, m, n, k])?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64, u32, u32, u32);
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|buffer| buffer.pointer().address());
        // SAFETY: pointers are numbers for the calling convention; the matrices have n x n
        // elements.
        unsafe { openmp.function::<Loop>("matmul")(a, b, c, self.n, self.n, self.n) }
    }
}

impl Reduce {
    pub(crate) fn new(ours: &Ours, n: usize) -> Reduce {
        let host = small_floats(8, n);
        let (x, sums) = (ours.buffer(&host), ours.buffer(&[0.0; PARTS as usize]));
        Reduce { x, sums, result: ours.buffer(&[0.0]), host }
    }
}

impl Workload for Reduce {
    fn name(&self) -> String {
        format!("reduction, {} MiB", self.host.len() >> 18)
    }

    fn amount(&self) -> (f64, &'static str) {
        (self.host.len() as f64 * 4.0 / 1e9, "GB/s")
    }

    fn has_barriers(&self) -> bool {
        true
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.result, &[f32::NAN]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.result) == [reduce(&self.host)]
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let buffers = [&self.x, &self.sums, &self.result];
        // SAFETY: the buffers have n, PARTS and 1 elements.
        unsafe { ours.kernels.reduce(Form::Group, buffers, self.host.len() as u64, PARTS) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let [x, sums, sums_again, result] =
            [&self.x, &self.sums, &self.sums, &self.result].map(Argument::from_buffer);
        let n = Argument::Long(self.host.len() as u64);
        let first = opencl.command("reduce", grid(PARTS), &[x, sums, n])?;
        let count = Argument::Long(u64::from(PARTS));
        Ok(vec![first, opencl.command("reduce", grid(1), &[sums_again, result, count])?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64);
        let [x, result] = [&self.x, &self.result].map(|buffer| buffer.pointer().address());
        // SAFETY: as for the matrices.
        unsafe { openmp.function::<Loop>("reduce")(x, result, self.host.len() as u64) }
    }
}

impl Histogram {
    pub(crate) fn new(ours: &Ours, n: usize) -> Histogram {
        let host = bytes(9, n);
        Histogram { x: ours.buffer(&host), bins: ours.buffer(&[0; 256]), host }
    }
}

impl Workload for Histogram {
    fn name(&self) -> String {
        format!("histogram, {} MiB", self.host.len() >> 20)
    }

    fn amount(&self) -> (f64, &'static str) {
        (self.host.len() as f64 / 1e9, "GB/s")
    }

    fn has_barriers(&self) -> bool {
        true
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.bins, &[0; 256]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.bins) == histogram(&self.host)
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let arguments = (&self.x, &self.bins, self.host.len() as u64);
        // SAFETY: there are n bytes and 256 bins.
        unsafe { ours.kernels.launch("histogram", Form::Group, parts(PARTS), arguments) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let n = Argument::Long(self.host.len() as u64);
        let arguments = [Argument::from_buffer(&self.x), Argument::from_buffer(&self.bins), n];
        Ok(vec![opencl.command("histogram", grid(PARTS), &arguments)?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64);
        let (x, bins) = (self.x.pointer().address(), self.bins.pointer().address());
        // SAFETY: as for the matrices.
        unsafe { openmp.function::<Loop>("histogram")(x, bins, self.host.len() as u64) }
    }
}

impl PrefixSum {
    pub(crate) fn new(ours: &Ours, n: usize) -> PrefixSum {
        let host = integers(10, n);
        let (x, y, sums) = (ours.buffer(&host), ours.buffer(&host), ours.buffer(&[0; 1024]));
        PrefixSum { host, x, y, sums }
    }
}

impl Workload for PrefixSum {
    fn name(&self) -> String {
        format!("prefix sum, {} MiB", self.host.len() >> 18)
    }

    fn amount(&self) -> (f64, &'static str) {
        (self.host.len() as f64 * 12.0 / 1e9, "GB/s")
    }

    fn has_barriers(&self) -> bool {
        true
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.y, &self.host);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.y) == prefix_sum(&self.host)
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let buffers = [&self.x, &self.y, &self.sums];
        // SAFETY: the buffers have n, n and more than PARTS elements.
        unsafe { ours.kernels.prefix_sum(Form::Group, buffers, self.host.len() as u64, PARTS) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let [x, y, sums] = [&self.x, &self.y, &self.sums];
        let (all, none) = (|| Argument::Long(self.host.len() as u64), Argument::Int(0));
        let buffer = Argument::from_buffer::<u32>;
        let count = Argument::Long(u64::from(PARTS));
        Ok(vec![
            opencl.command("prefix_sum_parts", grid(PARTS), &[buffer(x), buffer(sums), all()])?,
            opencl.command(
                "prefix_sum",
                grid(1),
                &[buffer(sums), buffer(sums), buffer(sums), none, count],
            )?,
            opencl.command(
                "prefix_sum",
                grid(PARTS),
                &[buffer(x), buffer(y), buffer(sums), Argument::Int(1), all()],
            )?,
        ])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64, u64);
        let [x, y, sums] = [&self.x, &self.y, &self.sums].map(|b| b.pointer().address());
        // SAFETY: as for the matrices.
        unsafe { openmp.function::<Loop>("prefix_sum")(x, y, sums, self.host.len() as u64) }
    }
}

impl NBody {
    pub(crate) fn new(ours: &Ours, n: usize) -> NBody {
        let host = bodies(11, n);
        NBody { bodies: ours.buffer(&host), pulls: ours.buffer(&host), host }
    }

    fn count(&self) -> u64 {
        self.host.len() as u64 / 4
    }
}

impl Workload for NBody {
    fn name(&self) -> String {
        format!("n-body, {} bodies", self.count())
    }

    fn amount(&self) -> (f64, &'static str) {
        ((self.count() as f64).powi(2) / 1e9, "G pairs/s")
    }

    fn has_barriers(&self) -> bool {
        true
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.pulls, &self.host);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        let got = memory.read(&self.pulls);
        let bounds = nbody_bounds(&self.host, 0..CHECKED);
        let pairs = got.chunks(4).zip(&bounds).flat_map(|(got, bounds)| got.iter().zip(bounds));
        let is_near =
            |value: f32, bound: f64, tolerance: f64| (f64::from(value) - bound).abs() <= tolerance;
        pairs.into_iter().all(|(got, bound)| is_near(*got, bound.value, bound.tolerance))
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let arguments = (&self.bodies, &self.pulls, self.count());
        // SAFETY: both buffers have 4 elements for each body.
        unsafe {
            ours.kernels.launch("nbody", Form::Group, elements(self.count(), GROUP), arguments)
        }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let [bodies, pulls] = [&self.bodies, &self.pulls].map(Argument::from_buffer);
        let groups = self.count().div_ceil(u64::from(GROUP)) as u32;
        let arguments = [bodies, pulls, Argument::Long(self.count())];
        Ok(vec![opencl.command("nbody", grid(groups), &arguments)?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64);
        let [bodies, pulls] = [&self.bodies, &self.pulls].map(|b| b.pointer().address());
        // SAFETY: as for the matrices.
        unsafe { openmp.function::<Loop>("nbody")(bodies, pulls, self.count()) }
    }
}

fn grid(groups: u32) -> ([u32; 3], [u32; 3]) {
    ([groups, 1, 1], [GROUP, 1, 1])
}
