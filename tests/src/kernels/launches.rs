//! Launches of the kernels.

use longshore::{ArgumentList, Buffer, Device, DevicePointer, Grid, Image, Kernel, Queue, Result};
use longshore_conformance::TrustedImages;
use std::collections::BTreeMap;

/// Number of items in a group, for kernels with a fixed size.
pub const GROUP: u32 = 256;
/// Number of elements in a block of the kernel `bitonic_sort`.
pub const SORTED: u32 = 2 * GROUP;
/// Distance of the farthest neighbour of the kernel `stencil_shared`.
pub const RADIUS: usize = 4;

const NAMES: [&str; 27] = [
    "empty",
    "saxpy",
    "saxpy_items",
    "triad",
    "triad_items",
    "stencil",
    "stencil_items",
    "matmul",
    "matmul_16",
    "matmul_items",
    "reduce",
    "reduce_items",
    "histogram",
    "histogram_items",
    "prefix_sum_parts",
    "prefix_sum_parts_items",
    "prefix_sum",
    "prefix_sum_1",
    "prefix_sum_items",
    "tree_sum",
    "tree_sum_items",
    "stencil_shared",
    "stencil_shared_items",
    "bitonic_sort",
    "bitonic_sort_items",
    "nbody",
    "nbody_items",
];

/// The form in which a kernel is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Function for a whole group.
    Group,
    /// Function for an item.
    Items,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 2] = [Form::Group, Form::Items];

    fn suffix(self) -> &'static str {
        match self {
            Form::Group => "",
            Form::Items => "_items",
        }
    }

    /// Returns the grid for a product of `m` rows and `n` columns.
    pub fn matmul_grid(self, m: u32, n: u32) -> Grid {
        let (tile, items) = match self {
            Form::Group => (64, [64, 8, 1]),
            Form::Items => (16, [16, 16, 1]),
        };
        Grid::new([n.div_ceil(tile), m.div_ceil(tile), 1], items)
    }
}

/// Returns the grid with an item for each of `n` elements, in groups of `items` items.
pub fn elements(n: u64, items: u32) -> Grid {
    let groups = n.div_ceil(u64::from(items));
    Grid::linear(u32::try_from(groups).expect("fewer groups than 2^32"), items)
}

/// Returns the grid of `groups` groups of [`GROUP`] items.
pub fn parts(groups: u32) -> Grid {
    Grid::linear(groups, GROUP)
}

/// The kernels of an image, and a queue for them.
pub struct Kernels {
    queue: Queue,
    kernels: BTreeMap<String, Kernel>,
}

impl AsRef<Queue> for Kernels {
    fn as_ref(&self) -> &Queue {
        &self.queue
    }
}

impl Kernels {
    /// Loads an image.
    ///
    /// # Errors
    /// The errors of [`Device::load`], [`longshore::Program::kernel`] and [`Device::queue`].
    pub fn new(device: &Device, image: impl Into<Image>) -> Result<Kernels> {
        let program = device.load_trusted(image)?;
        let kernel = |name: &str| Ok((name.to_owned(), program.kernel(name)?));
        let kernels = NAMES.into_iter().map(kernel).collect::<Result<_>>()?;
        Ok(Kernels { queue: device.queue()?, kernels })
    }

    /// Returns the queue for launches.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns a kernel by its name.
    ///
    /// # Panics
    /// If the image has no such kernel.
    pub fn kernel(&self, name: &str) -> &Kernel {
        self.kernels.get(name).unwrap_or_else(|| panic!("there is no kernel '{name}'"))
    }

    /// Queues a launch of a kernel, in the form with that suffix.
    ///
    /// # Errors
    /// The errors of [`Queue::launch`].
    ///
    /// # Safety
    /// As for [`Queue::launch`].
    pub unsafe fn launch(
        &self,
        name: &str,
        form: Form,
        grid: Grid,
        arguments: impl ArgumentList,
    ) -> Result<()> {
        let kernel = self.kernel(&format!("{name}{}", form.suffix()));
        // SAFETY: promised by the caller.
        unsafe { self.queue.launch(kernel, grid, arguments) }
    }

    /// Queues the launches that write the sum of `n` elements to `result`. The first launch writes
    /// the sums of the groups to `sums`.
    ///
    /// # Errors
    /// The errors of [`Queue::launch`].
    ///
    /// # Safety
    /// The buffers have enough elements, and live until the queue has done this work.
    pub unsafe fn reduce(
        &self,
        form: Form,
        [x, sums, result]: [&Buffer<f32>; 3],
        n: u64,
        groups: u32,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe {
            self.launch("reduce", form, parts(groups), (x, sums, n))?;
            self.launch("reduce", form, parts(1), (sums, result, u64::from(groups)))
        }
    }

    /// Queues the launches that write the prefix sums of `n` elements of `x` to `y`. The first
    /// launch writes the sums of the groups to `sums`.
    ///
    /// # Errors
    /// The errors of [`Queue::launch`].
    ///
    /// # Safety
    /// The buffers have enough elements, and live until the queue has done this work.
    pub unsafe fn prefix_sum(
        &self,
        form: Form,
        buffers: [&Buffer<u32>; 3],
        n: u64,
        groups: u32,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.prefix_sum_by("prefix_sum", form, buffers, n, groups) }
    }

    /// Does the same as [`Kernels::prefix_sum`], by the items' algorithm in group form.
    ///
    /// # Errors
    /// The errors of [`Queue::launch`].
    ///
    /// # Safety
    /// As for [`Kernels::prefix_sum`].
    pub unsafe fn prefix_sum_1(
        &self,
        buffers: [&Buffer<u32>; 3],
        n: u64,
        groups: u32,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.prefix_sum_by("prefix_sum_1", Form::Group, buffers, n, groups) }
    }

    unsafe fn prefix_sum_by(
        &self,
        name: &str,
        form: Form,
        [x, y, sums]: [&Buffer<u32>; 3],
        n: u64,
        groups: u32,
    ) -> Result<()> {
        const NOTHING: DevicePointer = DevicePointer(0);
        let count = u64::from(groups);
        // SAFETY: promised by the caller.
        unsafe {
            self.launch("prefix_sum_parts", form, parts(groups), (x, sums, n))?;
            self.launch(name, form, parts(1), (sums, sums, NOTHING, count))?;
            self.launch(name, form, parts(groups), (x, y, sums, n))
        }
    }
}
