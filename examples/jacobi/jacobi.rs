//! Steps of Jacobi's method on a square of cells, shared among all devices. Each device has some
//! rows, with a copy of the neighbours' nearest rows, which go from device to device after each
//! step. Events order the work of the devices, and no thread of the program waits before the end:
//! `jacobi IMAGE [COLUMNS [STEPS [FILE]]]`; the image is made from `kernel.c`.
//!
//! With nodes: `mpirun -n 1 jacobi kernel.img : -n 4 longshore-node`. `plain.c` is the same program
//! in plain MPI.

use longshore::{Buffer, Device, Event, Grid, Host, Image, Kernel, Queue, Result};
use std::time::Instant;

/// Items of a group. The columns are a multiple of it, or fewer.
const ITEMS: usize = 1024;

/// The rows of one device.
struct Part {
    queue: Queue,
    kernel: Kernel,
    /// The cells before and after each step, in turn, with the neighbours' nearest rows.
    cells: [Buffer<f64>; 2],
}

/// The size of a device's part, without the edge.
#[derive(Clone, Copy)]
struct Extent {
    columns: usize,
    rows: usize,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the first argument names an image");
    let columns = arguments.next().map_or(2048, |text| text.parse().expect("a number of columns"));
    let steps: usize =
        arguments.next().map_or(200, |text| text.parse().expect("a number of steps"));
    let host = Host::new()?;
    let devices: Vec<Device> =
        host.devices().iter().map(|entry| entry.open()).collect::<Result<_>>()?;
    let extent = Extent { columns, rows: columns / devices.len() };
    let image = Image::read(path)?;
    let parts = devices.iter().enumerate();
    let parts: Vec<Part> = parts
        .map(|(index, device)| Part::new(device, &image, extent, index))
        .collect::<Result<_>>()?;

    let start = Instant::now();
    (0..steps).try_for_each(|step| run(&parts, extent, step))?;
    parts.iter().try_for_each(|part| part.queue.synchronize())?;
    println!("{:.6} s for {steps} steps", start.elapsed().as_secs_f64());

    if let Some(file) = arguments.next() {
        let mut all = Vec::new();
        for part in &parts {
            let cells = part.cells[steps % 2].to_vec(&part.queue)?;
            let inner = &cells[extent.width()..extent.width() * (extent.rows + 1)];
            all.extend(inner.iter().flat_map(|cell| cell.to_le_bytes()));
        }
        std::fs::write(file, all).expect("the file can be written");
    }
    Ok(())
}

/// Submits one step of all parts to their queues.
fn run(parts: &[Part], extent: Extent, step: usize) -> Result<()> {
    let steps = parts.iter().map(|part| part.step(extent, step)).collect::<Result<Vec<Event>>>()?;
    for (index, part) in parts.iter().enumerate() {
        let (width, rows) = (extent.width(), extent.rows);
        let to = &part.cells[(step + 1) % 2];
        if index > 0 {
            let from = &parts[index - 1].cells[(step + 1) % 2];
            part.fetch(&steps[index - 1], (to, 0), (from, rows * width), width)?;
        }
        if let Some(below) = parts.get(index + 1) {
            let from = &below.cells[(step + 1) % 2];
            part.fetch(&steps[index + 1], (to, (rows + 1) * width), (from, width), width)?;
        }
    }
    Ok(())
}

impl Extent {
    /// Returns the number of cells of a row, with the edge.
    fn width(self) -> usize {
        self.columns + 2
    }
}

impl Part {
    fn new(device: &Device, image: &Image, extent: Extent, index: usize) -> Result<Self> {
        // SAFETY: the image has no code but the kernel of `kernel.c`.
        let program = unsafe { device.load(image.clone())? };
        let (queue, kernel) = (device.queue()?, program.kernel("jacobi")?);
        let rows = extent.rows * index..extent.rows * (index + 1) + 2;
        let cells: Vec<f64> = rows
            .flat_map(|row| (0..extent.width()).map(move |column| first(row, column)))
            .collect();
        let cells = [device.buffer_of(&queue, &cells)?, device.buffer_of(&queue, &cells)?];
        Ok(Self { queue, kernel, cells })
    }

    /// Submits one step of this part to its queue. The event is reached when the step is done.
    fn step(&self, extent: Extent, step: usize) -> Result<Event> {
        let items = extent.columns.min(ITEMS);
        let groups = [(extent.columns / items) as u32, extent.rows as u32, 1];
        let grid = Grid::new(groups, [items as u32, 1, 1]);
        let (from, to) = (&self.cells[step % 2], &self.cells[(step + 1) % 2]);
        let arguments = (from, to, extent.columns as u64);
        // SAFETY: the kernel takes (pointer, pointer, u64), and stays within the cells. A
        // neighbour has fetched its rows of `to`, two steps ago, before its last step, for which
        // this queue has waited.
        unsafe { self.queue.launch(&self.kernel, grid, arguments)? };
        self.queue.record()
    }

    /// Queues the copy of a row of a neighbour, after the neighbour's step.
    fn fetch(
        &self,
        after: &Event,
        (to, to_cell): (&Buffer<f64>, usize),
        (from, from_cell): (&Buffer<f64>, usize),
        cells: usize,
    ) -> Result<()> {
        self.queue.wait_for(after)?;
        let place = |buffer: &Buffer<f64>, cell: usize| buffer.pointer().offset(8 * cell as i64);
        // SAFETY: both ranges are rows of cells, which live until the end of the program.
        unsafe { self.queue.copy(place(to, to_cell), place(from, from_cell), 8 * cells as u64) }
    }
}

/// Returns the first value of a cell.
fn first(row: usize, column: usize) -> f64 {
    if row == 0 { 1.0 } else { ((row * 7 + column * 13) % 101) as f64 / 128.0 }
}
