//! Kernels that read and write each element once: saxpy, triad and the stencil.

use crate::opencl::{Argument, Command, OpenCl};
use crate::openmp::OpenMp;
use crate::ours::Ours;
use crate::workload::Workload;
use anyhow::Result;
use longshore::Buffer;
use longshore_tests::kernels::{Form, elements, saxpy, small_floats, stencil, triad};

const FACTOR: f32 = 3.0;
/// Items in a group.
const ITEMS: u32 = 256;

pub(crate) struct Saxpy {
    form: Form,
    host: [Vec<f32>; 2],
    x: Buffer<f32>,
    y: Buffer<f32>,
}

pub(crate) struct Triad {
    host: [Vec<f32>; 2],
    b: Buffer<f32>,
    c: Buffer<f32>,
    a: Buffer<f32>,
}

pub(crate) struct Stencil {
    host: Vec<f32>,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

impl Saxpy {
    pub(crate) fn new(ours: &Ours, form: Form, n: usize) -> Saxpy {
        let host = [small_floats(1, n), small_floats(2, n)];
        let (x, y) = (ours.buffer(&host[0]), ours.buffer(&host[1]));
        Saxpy { form, host, x, y }
    }
}

impl Workload for Saxpy {
    fn name(&self) -> String {
        let form = match self.form {
            Form::Group => "",
            Form::Items => " of items",
        };
        format!("saxpy{form}, {}", mebibytes(&self.x))
    }

    fn amount(&self) -> (f64, &'static str) {
        (gigabytes(&self.x, 3.0), "GB/s")
    }

    fn has_barriers(&self) -> bool {
        false
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.y, &self.host[1]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.y) == saxpy(FACTOR, &self.host[0], &self.host[1])
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let n = self.x.len() as u64;
        let arguments = (FACTOR, &self.x, &self.y, n);
        // SAFETY: both buffers have n elements.
        unsafe { ours.kernels.launch("saxpy", self.form, elements(n, ITEMS), arguments) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let (factor, n) = (Argument::Float(FACTOR), Argument::Long(self.x.len() as u64));
        let arguments = [factor, Argument::from_buffer(&self.x), Argument::from_buffer(&self.y), n];
        Ok(vec![opencl.command("saxpy", grid(self.x.len()), &arguments)?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(f32, u64, u64, u64);
        let [x, y] = [&self.x, &self.y].map(|buffer| buffer.pointer().address());
        // SAFETY: pointers are numbers for the calling convention; both buffers have n elements.
        unsafe { openmp.function::<Loop>("saxpy")(FACTOR, x, y, self.x.len() as u64) }
    }
}

impl Triad {
    pub(crate) fn new(ours: &Ours, n: usize) -> Triad {
        let host = [small_floats(3, n), small_floats(4, n)];
        let (b, c, a) = (ours.buffer(&host[0]), ours.buffer(&host[1]), ours.buffer(&host[0]));
        Triad { host, b, c, a }
    }
}

impl Workload for Triad {
    fn name(&self) -> String {
        format!("triad, {}", mebibytes(&self.a))
    }

    fn amount(&self) -> (f64, &'static str) {
        (gigabytes(&self.a, 3.0), "GB/s")
    }

    fn has_barriers(&self) -> bool {
        false
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.a, &self.host[0]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.a) == triad(FACTOR, &self.host[0], &self.host[1])
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let n = self.a.len() as u64;
        let arguments = (FACTOR, &self.b, &self.c, &self.a, n);
        // SAFETY: the buffers have n elements.
        unsafe { ours.kernels.launch("triad", Form::Group, elements(n, ITEMS), arguments) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let [b, c, a] = [&self.b, &self.c, &self.a].map(Argument::from_buffer);
        let n = Argument::Long(self.a.len() as u64);
        let arguments = [Argument::Float(FACTOR), b, c, a, n];
        Ok(vec![opencl.command("triad", grid(self.a.len()), &arguments)?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(f32, u64, u64, u64, u64);
        let [b, c, a] = [&self.b, &self.c, &self.a].map(|buffer| buffer.pointer().address());
        // SAFETY: as for saxpy.
        unsafe { openmp.function::<Loop>("triad")(FACTOR, b, c, a, self.a.len() as u64) }
    }
}

impl Stencil {
    pub(crate) fn new(ours: &Ours, n: usize) -> Stencil {
        let host = small_floats(5, n);
        let (x, y) = (ours.buffer(&host), ours.buffer(&host));
        Stencil { host, x, y }
    }
}

impl Workload for Stencil {
    fn name(&self) -> String {
        format!("stencil, {}", mebibytes(&self.x))
    }

    fn amount(&self) -> (f64, &'static str) {
        (gigabytes(&self.x, 2.0), "GB/s")
    }

    fn has_barriers(&self) -> bool {
        false
    }

    fn reset(&self, memory: &Ours) {
        memory.write(&self.y, &self.host);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.y) == stencil(&self.host)
    }

    fn launch(&self, ours: &Ours) -> longshore::Result<()> {
        let n = self.x.len() as u64;
        let arguments = (&self.x, &self.y, n);
        // SAFETY: both buffers have n elements.
        unsafe { ours.kernels.launch("stencil", Form::Group, elements(n, ITEMS), arguments) }
    }

    fn commands(&self, opencl: &OpenCl) -> Result<Vec<Command>> {
        let n = Argument::Long(self.x.len() as u64);
        let arguments = [Argument::from_buffer(&self.x), Argument::from_buffer(&self.y), n];
        Ok(vec![opencl.command("stencil", grid(self.x.len()), &arguments)?])
    }

    fn run_loops(&self, openmp: &OpenMp) {
        type Loop = unsafe extern "C" fn(u64, u64, u64);
        let [x, y] = [&self.x, &self.y].map(|buffer| buffer.pointer().address());
        // SAFETY: as for saxpy.
        unsafe { openmp.function::<Loop>("stencil")(x, y, self.x.len() as u64) }
    }
}

fn grid(n: usize) -> ([u32; 3], [u32; 3]) {
    ([(n as u64).div_ceil(u64::from(ITEMS)) as u32, 1, 1], [ITEMS, 1, 1])
}

fn mebibytes(array: &Buffer<f32>) -> String {
    format!("arrays of {} MiB", array.len() >> 18)
}

/// Returns the size of `arrays` such arrays in gigabytes.
fn gigabytes(array: &Buffer<f32>, arrays: f64) -> f64 {
    (array.len() * 4) as f64 * arrays / 1e9
}
