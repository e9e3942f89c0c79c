//! Launches.

use super::context::Context;
use super::function::{Function, product};
use super::object::{self, Object};
use super::{Code, DriverResult, In, LaunchRefusal, broken, driver, machine, occupancy, stream};
use crate::protocol::{Fault, Launch, Reply, Request};
use std::ffi::c_void;

/// Tags in the list of extras.
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;

/// The size of a launch.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of groups in each dimension.
    pub groups: [u32; 3],
    /// Number of items of a group in each dimension.
    pub items: [u32; 3],
    /// Number of groups of a cluster in each dimension, for devices with clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a group, in bytes.
    pub shared_bytes: u32,
    /// Whether all groups must run at once.
    pub is_cooperative: bool,
}

impl Shape {
    /// Creates a shape from groups, items and shared memory, which suffice for most launches.
    pub fn new(groups: [u32; 3], items: [u32; 3], shared_bytes: u32) -> Shape {
        Shape { groups, items, cluster: [1; 3], shared_bytes, is_cooperative: false }
    }

    /// Returns the shape of a cooperative launch.
    pub fn cooperative(self) -> Shape {
        Shape { is_cooperative: true, ..self }
    }
}

/// The arguments of a launch: an array of pointers to their values, or extras.
#[derive(Clone, Copy)]
pub struct Values {
    /// Array of pointers.
    pub pointers: In<usize>,
    /// Extras.
    pub extra: In<usize>,
    /// Tag that ends the extras.
    pub extra_end: usize,
}

impl Values {
    /// Creates the values of a launch without extras.
    pub fn new(pointers: In<usize>) -> Values {
        Values { pointers, extra: In::none(), extra_end: 0 }
    }
}

/// Enqueues a kernel in a stream.
pub fn launch(function: usize, shape: Shape, stream: usize, values: Values) -> DriverResult {
    let (context, stream) = stream::for_work(stream)?;
    let function = object::get::<Function>(function)?;
    if function.context_handle() != context.handle {
        let what = format!("a function of another {}", driver().vendor.scope());
        return Err(broken(code_of(LaunchRefusal::OtherContext), what));
    }
    check(&function, &shape)?;
    let module = function.module()?;
    let arguments = arguments(&function, values)?;
    let asks = stream.asks();
    if let Some(work) = driver().vendor.work_of(&module, &function.kernel.name) {
        stream.push(move |context| {
            let done = work().and_then(|request| match request {
                None => Ok(()),
                Some(request) => run(&request, asks),
            });
            note(context, done);
        })?;
        return Ok(());
    }
    let launch = Request::Launch(Launch {
        module: module.number,
        kernel: function.kernel.name.clone(),
        groups: shape.groups,
        items: shape.items,
        shared_bytes: u64::from(shape.shared_bytes),
        cooperative: shape.is_cooperative,
        arguments,
    });
    stream.push(move |context| note(context, run(&launch, asks)))?;
    Ok(())
}

/// Runs a kernel. Registered memory is synchronised before and after.
fn run(launch: &Request, ask: impl Fn(&Request) -> Reply) -> Result<(), Fault> {
    let _ = driver().calls.enter("kernel");
    let registrations = machine().map(|machine| machine.blocks.registrations());
    let registrations = registrations.unwrap_or_default();
    registrations.iter().for_each(|registration| registration.to_device());
    let reply = ask(launch);
    registrations.iter().for_each(|registration| registration.to_host());
    reply.map(|_| ())
}

fn note(context: &Context, done: Result<(), Fault>) {
    if let Err(fault) = done {
        context.fail(&fault);
    }
}

fn check(function: &Function, shape: &Shape) -> DriverResult {
    if let Some(misfit) = misfit(function, shape) {
        return Err(code_of(misfit));
    }
    driver().vendor.check_launch(function, shape)?;
    let groups_of_each =
        occupancy::groups(function, product(shape.items) as u32, u64::from(shape.shared_bytes));
    let most = u64::from(groups_of_each) * u64::from(machine()?.multiprocessors);
    if shape.is_cooperative && product(shape.groups) > most {
        return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

fn misfit(function: &Function, shape: &Shape) -> Option<LaunchRefusal> {
    let is_too_wide = |sizes: [u32; 3], most: [u32; 3]| {
        sizes.into_iter().zip(most).any(|(size, most)| size > most)
    };
    let (limits, items) = (&function.limits, product(shape.items));
    let required = function.kernel.required_group;
    let conditions = [
        (shape.groups.contains(&0), LaunchRefusal::NoGroups),
        (shape.items.contains(&0), LaunchRefusal::NoItems),
        (is_too_wide(shape.groups, limits.groups), LaunchRefusal::TooManyGroups),
        (is_too_wide(shape.items, limits.items_by_dimension), LaunchRefusal::LargeGroups),
        (items > u64::from(limits.items), LaunchRefusal::LargeGroups),
        (required.is_some_and(|required| required != shape.items), LaunchRefusal::OtherGroups),
        (items > function.most_items(), LaunchRefusal::TooManyItems),
        (
            u64::from(shape.shared_bytes) > function.most_dynamic_shared_bytes(),
            LaunchRefusal::TooMuchSharedMemory,
        ),
    ];
    conditions.into_iter().find(|(is_so, _)| *is_so).map(|(_, misfit)| misfit)
}

fn code_of(misfit: LaunchRefusal) -> Code {
    driver().vendor.code_of_misfit(misfit)
}

/// Returns the values of the arguments, with the sizes from the image.
fn arguments(function: &Function, values: Values) -> DriverResult<Vec<Vec<u8>>> {
    let arguments = &function.kernel.arguments;
    if !values.extra.is_null() {
        return packed_arguments(function, values);
    }
    if arguments.is_empty() {
        return Ok(Vec::new());
    }
    let pointers = values.pointers.list(arguments.len())?;
    let missing = |index: usize| {
        let what = format!("argument {index} of '{}' is null", function.kernel.name);
        broken(Code::INVALID_VALUE, what)
    };
    let mut contents = Vec::with_capacity(arguments.len());
    for (index, (pointer, argument)) in pointers.into_iter().zip(arguments).enumerate() {
        if pointer == 0 {
            return Err(missing(index));
        }
        let start = std::ptr::with_exposed_provenance::<u8>(pointer);
        // SAFETY: the program passed a pointer to each argument's value.
        let value = unsafe { std::slice::from_raw_parts(start, argument.bytes) };
        contents.push(value.to_vec());
    }
    Ok(contents)
}

/// Returns the values from one buffer, in the device's layout.
fn packed_arguments(function: &Function, values: Values) -> DriverResult<Vec<Vec<u8>>> {
    let extra = values.extra.list(5)?;
    let (buffer, size) = match extra[..] {
        [EXTRA_BUFFER, buffer, EXTRA_SIZE, size, end] if end == values.extra_end => (buffer, size),
        _ => return Err(broken(Code::INVALID_VALUE, "invalid extras of a launch")),
    };
    let size = std::ptr::with_exposed_provenance::<c_void>(size).cast::<usize>();
    // SAFETY: the program passed the buffer, and the place of its size.
    let buffer = unsafe {
        let start = std::ptr::with_exposed_provenance::<u8>(buffer);
        std::slice::from_raw_parts(start, size.read_unaligned())
    };
    let places = function.kernel.arguments.iter();
    let contents = places.map(|argument| {
        let bytes = buffer.get(argument.offset..argument.offset + argument.bytes);
        bytes.map(<[u8]>::to_vec)
    });
    contents
        .collect::<Option<_>>()
        .ok_or_else(|| broken(Code::INVALID_VALUE, "the buffer of arguments is too short"))
}
