//! How the kernels are launched.

use longshore::{ArgumentList, Buffer, Device, DevicePointer, Grid, Image, Kernel, Queue, Result};
use longshore_conformance::OwnImages;
use std::collections::BTreeMap;

/// The items of a group, where a kernel says how many.
pub const GROUP: u32 = 256;

const NAMES: [&str; 18] = [
    "empty",
    "saxpy",
    "saxpy_items",
    "triad",
    "triad_items",
    "stencil",
    "stencil_items",
    "matmul",
    "matmul_items",
    "reduce",
    "reduce_items",
    "histogram",
    "histogram_items",
    "prefix_sum_parts",
    "prefix_sum",
    "prefix_sum_items",
    "nbody",
    "nbody_items",
];

/// What a kernel is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// What a group does.
    Group,
    /// What an item does.
    Items,
}

impl Form {
    /// Both.
    pub const ALL: [Form; 2] = [Form::Group, Form::Items];

    fn suffix(self) -> &'static str {
        match self {
            Form::Group => "",
            Form::Items => "_items",
        }
    }

    /// For a product of m rows and n columns.
    pub fn matmul_grid(self, m: u32, n: u32) -> Grid {
        let (tile, items) = match self {
            Form::Group => (64, [64, 8, 1]),
            Form::Items => (16, [16, 16, 1]),
        };
        Grid::new([n.div_ceil(tile), m.div_ceil(tile), 1], items)
    }
}

/// An item for each of n elements, in groups of so many.
pub fn elements(n: u64, items: u32) -> Grid {
    let groups = n.div_ceil(u64::from(items));
    Grid::linear(u32::try_from(groups).expect("fewer groups than 2^32"), items)
}

/// So many groups of [`GROUP`] items.
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
    /// Those of [`Device::load`], [`longshore::Program::kernel`] and [`Device::queue`].
    pub fn new(device: &Device, image: impl Into<Image>) -> Result<Kernels> {
        let program = device.load_own(image)?;
        let kernel = |name: &str| Ok((name.to_owned(), program.kernel(name)?));
        let kernels = NAMES.into_iter().map(kernel).collect::<Result<_>>()?;
        Ok(Kernels { queue: device.queue()?, kernels })
    }

    /// Where launches go.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// One of the kernels.
    ///
    /// # Panics
    /// If there is none of the name.
    pub fn kernel(&self, name: &str) -> &Kernel {
        self.kernels.get(name).unwrap_or_else(|| panic!("there is no kernel '{name}'"))
    }

    /// Queues a launch of a kernel, in the form with that suffix.
    ///
    /// # Errors
    /// Those of [`Queue::launch`].
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

    /// Queues what writes the sum of n elements to `result`, by way of so many groups' `sums`.
    ///
    /// # Errors
    /// Those of [`Queue::launch`].
    ///
    /// # Safety
    /// The buffers have so many elements, and live until the queue has done this.
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

    /// Queues what writes the prefix sums of n elements of `x` to `y`, by way of so many groups' `sums`.
    ///
    /// # Errors
    /// Those of [`Queue::launch`].
    ///
    /// # Safety
    /// The buffers have so many elements, and live until the queue has done this.
    pub unsafe fn prefix_sum(
        &self,
        form: Form,
        [x, y, sums]: [&Buffer<u32>; 3],
        n: u64,
        groups: u32,
    ) -> Result<()> {
        const NOTHING: DevicePointer = DevicePointer(0);
        let count = u64::from(groups);
        // SAFETY: promised by the caller.
        unsafe {
            self.launch("prefix_sum_parts", Form::Group, parts(groups), (x, sums, n))?;
            self.launch("prefix_sum", form, parts(1), (sums, sums, NOTHING, count))?;
            self.launch("prefix_sum", form, parts(groups), (x, y, sums, n))
        }
    }
}
