//! Kernels, and their launches.

use crate::arguments::{self, Declared, Slot, Values};
use crate::array::ArrayBase;
use crate::errors::Raise;
use crate::numbers;
use crate::process::{self, Held};
use crate::program::LoadedProgram;
use crate::queue::Queue;
use crate::queue_core::QueueCore;
use crate::wait;
use longshore::{Grid, RawArguments};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel, shared by its launchers.
pub(crate) struct KernelCore {
    kernel: Held<longshore::Kernel>,
    program: Arc<LoadedProgram>,
    declared: Option<Box<[Declared]>>,
    /// Whether a launch was done: the first one may link or compile code.
    is_warm: AtomicBool,
}

/// The way of a launch.
#[derive(Clone, Copy, PartialEq)]
enum Launched {
    /// No other thread of Python ran meanwhile.
    AtOnce,
    /// Other threads of Python may have run meanwhile.
    AmongOthers,
}

/// Groups, work-items of a group, and bytes of shared memory.
type Shape = ([u32; 3], [u32; 3], u64);

/// A kernel of a program. `kernel[groups, items]` is a launcher for that shape: both are numbers,
/// or tuples of up to three numbers. A third value is the size of dynamic shared memory in bytes.
///
/// Calls check number, types and ranges of the arguments by the image's description. They do not
/// check the kernel's accesses: a kernel that leaves its arrays can crash the program.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Kernel {
    core: Arc<KernelCore>,
    latest: Mutex<Option<(Shape, Py<Launcher>)>>,
}

impl Kernel {
    pub(crate) fn new(program: &Arc<LoadedProgram>, kernel: longshore::Kernel) -> Kernel {
        let declared = Declared::all(kernel.attributes());
        let core = KernelCore {
            kernel: Held::new(kernel),
            program: Arc::clone(program),
            declared,
            is_warm: AtomicBool::new(false),
        };
        Kernel { core: Arc::new(core), latest: Mutex::default() }
    }
}

#[pymethods]
impl Kernel {
    /// Returns the kernel's name.
    #[getter]
    fn name(&self) -> &str {
        self.core.kernel.name()
    }

    /// Returns the type of each argument, and the parameter in the source where the image has it.
    /// None if the image describes no arguments.
    #[getter]
    fn arguments(&self) -> Option<Vec<(String, Option<String>)>> {
        let row =
            |declared: &Declared| (declared.type_name(), declared.parameter().map(str::to_owned));
        Some(self.core.declared.as_ref()?.iter().map(row).collect())
    }

    /// Returns the largest number of work-items of a group; None without a limit.
    #[getter]
    fn max_group_items(&self) -> Option<u32> {
        Some(self.core.kernel.attributes().max_group_items).filter(|most| *most != 0)
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<Launcher>> {
        let shape = shape(key)?;
        if let Some((known, launcher)) = self.latest.lock().as_ref()
            && *known == shape
        {
            return Ok(launcher.clone_ref(py));
        }
        let (groups, items, shared) = shape;
        let grid = Grid::new(groups, items).with_shared_bytes(shared);
        let launcher = Py::new(py, Launcher { core: Arc::clone(&self.core), grid, shape })?;
        let former = self.latest.lock().replace((shape, launcher.clone_ref(py)));
        // The drop of an object can run code of Python, so the lock is free again.
        drop(former);
        Ok(launcher)
    }

    fn __repr__(&self) -> String {
        let list = |declared: &[Declared]| {
            let texts = declared
                .iter()
                .map(|it| it.parameter().map_or_else(|| it.type_name(), str::to_owned));
            texts.collect::<Vec<_>>().join(", ")
        };
        let declared = self.core.declared.as_deref().map_or_else(|| "...".to_owned(), list);
        format!("<longshore.Kernel {}({declared})>", self.core.kernel.name())
    }
}

/// A kernel with the shape of its launches. A call queues a launch and returns at once.
///
/// Keywords: `queue`, else the device's default queue takes the launch. `wait=True` runs the kernel
/// before the call returns, which is quickest for short kernels on an idle queue of the CPU.
#[pyclass(frozen, module = "longshore")]
pub(crate) struct Launcher {
    core: Arc<KernelCore>,
    grid: Grid,
    shape: Shape,
}

#[pymethods]
impl Launcher {
    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        process::check(py)?;
        let core = &*self.core;
        let device = &core.program.device;
        let (queue, wait) = match keywords {
            Some(keywords) => options(py, core, keywords)?,
            None => (None, false),
        };
        let queue: &Arc<QueueCore> = match &queue {
            Some(queue) => &queue.get().core,
            None => &device.default_queue(py)?,
        };
        queue.check(py)?;
        let count = arguments.len();
        if let Some(declared) = &core.declared
            && declared.len() != count
        {
            return Err(wrong_count(core, declared.len(), count));
        }
        let mut values = Values::default();
        let items: SmallVec<[Bound<'_, PyAny>; 16]> = arguments.iter().collect();
        let mut arrays: SmallVec<[&ArrayBase; 16]> = SmallVec::new();
        for (index, item) in items.iter().enumerate() {
            let declared = core.declared.as_ref().map(|declared| &declared[index]);
            let slot = Slot { kernel: core.kernel.name(), index, declared };
            arrays.extend(arguments::push(&mut values, slot, item, device)?);
        }
        let note_all = || {
            arrays.iter().for_each(|array| array.storage.users.note(queue));
            core.program.users.note(queue);
        };
        note_all();
        let launched = core.launch(py, queue, self.grid, &values, wait)?;
        if launched == Launched::AmongOthers {
            note_all();
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        let (groups, items, shared) = self.shape;
        let shared = if shared == 0 { String::new() } else { format!(", {shared}") };
        format!("<longshore.Launcher {}[{groups:?}, {items:?}{shared}]>", self.core.kernel.name())
    }
}

impl KernelCore {
    #[inline]
    fn launch(
        &self,
        py: Python<'_>,
        queue: &QueueCore,
        grid: Grid,
        values: &Values,
        wait: bool,
    ) -> PyResult<Launched> {
        let launch = || {
            values.with(|pointers, sizes, types| {
                // SAFETY: each pointer is that of a value of its size. The program vouches for the
                // kernels of its images; the arguments fit the description. The library keeps its
                // own memory until the work is done, `Storage` keeps memory of other libraries.
                unsafe {
                    let raw = RawArguments::new(pointers, sizes)?.with_types(types)?;
                    match wait {
                        true => queue.queue().launch_and_wait(&self.kernel, grid, raw),
                        false => queue.queue().launch(&self.kernel, grid, raw),
                    }
                }
            })
        };
        // A launch on the CPU does not block, unless it is the first one.
        let is_brief =
            self.program.device.is_host_accessible && !wait && self.is_warm.load(Ordering::Relaxed);
        if is_brief {
            return launch().raise(py).map(|()| Launched::AtOnce);
        }
        if wait && !py.detach(|| queue.queue().is_idle()).raise(py)? {
            wait::for_queue(py, queue)?;
        }
        py.detach(launch).raise(py)?;
        self.is_warm.store(true, Ordering::Relaxed);
        Ok(Launched::AmongOthers)
    }
}

/// Reads the keywords of a launch: `queue` and `wait`.
///
/// # Errors
/// `TypeError` for another keyword, or a value of a wrong type.
fn options<'py>(
    py: Python<'py>,
    core: &KernelCore,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<(Option<Bound<'py, Queue>>, bool)> {
    let mut known = 0;
    let mut queue = None;
    if let Some(given) = keywords.get_item(intern!(py, "queue"))? {
        known += 1;
        if !given.is_none() {
            queue = Some(given.cast_into::<Queue>().map_err(|error| {
                let given = crate::layout::named(&error.into_inner());
                PyTypeError::new_err(format!("queue of type {given}; expected longshore.Queue"))
            })?);
        }
    }
    let mut wait = false;
    if let Some(given) = keywords.get_item(intern!(py, "wait"))? {
        known += 1;
        wait = given.is_truthy()?;
    }
    if keywords.len() == known {
        return Ok((queue, wait));
    }
    let unknown = keywords.keys().iter().map(|key| key.to_string());
    let unknown = unknown.filter(|key| key != "queue" && key != "wait").collect::<Vec<_>>();
    let message = format!(
        "kernel '{}' got the keyword {}; expected queue and wait, and arguments without names",
        core.kernel.name(),
        unknown.join(", ")
    );
    Err(PyTypeError::new_err(message))
}

#[cold]
fn wrong_count(core: &KernelCore, expected: usize, given: usize) -> PyErr {
    let list = core.declared.iter().flatten();
    let list = list.map(|it| it.parameter().map_or_else(|| it.type_name(), str::to_owned));
    let list: Vec<_> = list.collect();
    let message = format!(
        "kernel '{}' takes {expected} arguments ({}), {given} were given",
        core.kernel.name(),
        list.join(", ")
    );
    PyTypeError::new_err(message)
}

/// Reads the shape of a launch.
///
/// # Errors
/// `TypeError` for another object, `OverflowError` for a number beyond 32 bits.
#[inline]
fn shape(key: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let wrong = || {
        PyTypeError::new_err(
            "a launch needs kernel[groups, items] or kernel[groups, items, shared_bytes], each of \
             groups and items an int or a tuple of up to 3",
        )
    };
    let key = key.cast::<PyTuple>().map_err(|_| wrong())?;
    let count = key.len();
    if count != 2 && count != 3 {
        return Err(wrong());
    }
    let dimensions = |value: Bound<'_, PyAny>| -> PyResult<[u32; 3]> {
        if let Ok(parts) = value.cast::<PyTuple>() {
            if !(1..=3).contains(&parts.len()) {
                return Err(wrong());
            }
            let mut found = [1; 3];
            for (into, part) in found.iter_mut().zip(parts.iter()) {
                *into = number(&part)?;
            }
            return Ok(found);
        }
        Ok([number(&value)?, 1, 1])
    };
    let shared = match count {
        3 => key.get_item(2)?.extract().map_err(|_| wrong())?,
        _ => 0,
    };
    Ok((dimensions(key.get_item(0)?)?, dimensions(key.get_item(1)?)?, shared))
}

#[inline]
fn number(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    match numbers::integer(value, 4, false) {
        Some(Ok(number)) => Ok(number as u32),
        Some(Err(())) => {
            let message = format!("a launch with {value} groups or items; expected 1 to 2^32 - 1");
            Err(PyOverflowError::new_err(message))
        }
        None => {
            let given = crate::layout::named(value);
            let message = format!("a launch with groups or items of type {given}; expected int");
            Err(PyTypeError::new_err(message))
        }
    }
}
