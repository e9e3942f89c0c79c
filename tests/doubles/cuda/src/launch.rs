//! Launches.

use crate::attributes::{self, MOST_ITEMS, MOST_ITEMS_BY_DIMENSION};
use crate::code::{Answer, Code};
use crate::context::Context;
use crate::driver::{broken, driver, machine};
use crate::function::{self, Function, product};
use crate::lists::Lists;
use crate::occupancy;
use crate::stream;
use crate::value::In;
use longshore_double_gpu::protocol::{Fault, Launch, Reply, Request};
use std::ffi::c_void;
use std::sync::Arc;

/// The most groups in x, and in y and z.
const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// The most groups of a cluster on all devices that have clusters, and on this one.
const MOST_CLUSTER: u64 = 8;
const MOST_LARGE_CLUSTER: u64 = 16;
/// What ends the list of extras, and what is in it.
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER: u32 = 4;

/// The size of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) groups: [u32; 3],
    pub(crate) items: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) is_cooperative: bool,
    pub(crate) cluster: [u32; 3],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    groups: [u32; 3],
    items: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    attributes: In<Attribute>,
    count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attribute {
    which: u32,
    padding: u32,
    /// 64 bytes, of which different attributes use different ones.
    value: [u32; 16],
}

/// The arguments of a launch: an array of pointers to their values, or extras.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    pub(crate) pointers: In<usize>,
    pub(crate) extra: In<usize>,
}

pub(crate) fn launch(function: usize, shape: Shape, stream: usize, values: Values) -> Answer {
    let (_, stream) = stream::of_current(stream)?;
    let function = function::of_current(function)?;
    check(&function, &shape)?;
    let module = function.module()?;
    let arguments = arguments(&function, values)?;
    let asks = stream.asks();
    if let Some(lists) = Lists::of_kernel(&module, &function.kernel.name) {
        stream.push(move |context| {
            let called =
                lists.functions(&module).and_then(|functions| match functions.is_empty() {
                    true => Ok(()),
                    false => run(&Request::Call { module: module.number, functions }, asks),
                });
            if let Err(fault) = called {
                context.fail(&fault);
            }
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
    stream.push(move |context| {
        if let Err(fault) = run(&launch, asks) {
            context.fail(&fault);
        }
    })?;
    Ok(())
}

pub(crate) fn launch_config(config: In<Config>, function: usize, values: Values) -> Answer {
    let config = config.get()?;
    let mut shape = Shape {
        groups: config.groups,
        items: config.items,
        shared_bytes: config.shared_bytes,
        is_cooperative: false,
        cluster: [1; 3],
    };
    for attribute in config.attributes.list(config.count as usize)? {
        let [first, second, third, ..] = attribute.value;
        match attribute.which {
            ATTRIBUTE_COOPERATIVE => shape.is_cooperative = first != 0,
            ATTRIBUTE_CLUSTER => shape.cluster = [first, second, third],
            0..=18 => {}
            which => {
                let what = format!("{which} is no attribute of launches");
                return Err(broken(Code::INVALID_VALUE, what));
            }
        }
        let _no_bits_matter = attribute.padding;
    }
    launch(function, shape, config.stream, values)
}

/// Runs a kernel, with registered memory in agreement before and after.
fn run(launch: &Request, ask: impl Fn(&Request) -> Reply) -> Result<(), Fault> {
    let _ = driver().calls.enter("kernel");
    let registrations = Context::registrations();
    registrations.iter().for_each(|registration| registration.to_device());
    let reply = ask(launch);
    registrations.iter().for_each(|registration| registration.to_host());
    reply.map(|_| ())
}

fn check(function: &Arc<Function>, shape: &Shape) -> Answer {
    let has_zero = [shape.groups, shape.items, shape.cluster].as_flattened().contains(&0);
    let is_too_wide = |sizes: [u32; 3], most: [u32; 3]| {
        sizes.into_iter().zip(most).any(|(size, most)| size > most)
    };
    let items = product(shape.items);
    if has_zero
        || is_too_wide(shape.groups, MOST_GROUPS)
        || is_too_wide(shape.items, MOST_ITEMS_BY_DIMENSION)
        || items > u64::from(MOST_ITEMS)
    {
        return Err(Code::INVALID_VALUE);
    }
    let required = function.kernel.required_group;
    if required.is_some_and(|required| required != shape.items) {
        return Err(Code::INVALID_VALUE);
    }
    if items > function.most_items() {
        return Err(Code::LAUNCH_OUT_OF_RESOURCES);
    }
    if u64::from(shape.shared_bytes) > function.most_dynamic_shared_bytes() {
        return Err(Code::INVALID_VALUE);
    }
    check_cluster(function, shape)?;
    check_cooperative(function, shape, items)
}

fn check_cluster(function: &Function, shape: &Shape) -> Answer {
    let size = product(shape.cluster);
    if size == 1 {
        return Ok(());
    }
    let most = if function.allows_large_clusters() { MOST_LARGE_CLUSTER } else { MOST_CLUSTER };
    let divides = shape.groups.iter().zip(shape.cluster).all(|(all, of)| all.is_multiple_of(of));
    if !attributes::has_clusters(machine()?.capability) || size > most || !divides {
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    Ok(())
}

fn check_cooperative(function: &Function, shape: &Shape, items: u64) -> Answer {
    if !shape.is_cooperative {
        return Ok(());
    }
    let of_each = occupancy::groups(function, items as u32, u64::from(shape.shared_bytes))?;
    let most = u64::from(of_each) * u64::from(machine()?.multiprocessors);
    if product(shape.groups) > most {
        return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// The values, as long as the image says that they are.
fn arguments(function: &Function, values: Values) -> Answer<Vec<Vec<u8>>> {
    let sizes = &function.kernel.argument_sizes;
    if !values.extra.is_null() {
        return packed_arguments(function, values);
    }
    if sizes.is_empty() {
        return Ok(Vec::new());
    }
    let pointers = values.pointers.list(sizes.len())?;
    let missing = |index: usize| {
        let what = format!("argument {index} of '{}' is null", function.kernel.name);
        broken(Code::INVALID_VALUE, what)
    };
    let mut arguments = Vec::with_capacity(sizes.len());
    for (index, (pointer, size)) in pointers.into_iter().zip(sizes).enumerate() {
        if pointer == 0 {
            return Err(missing(index));
        }
        let start = std::ptr::with_exposed_provenance::<u8>(pointer);
        // SAFETY: the program passed a pointer to each argument's value.
        let value = unsafe { std::slice::from_raw_parts(start, *size as usize) };
        arguments.push(value.to_vec());
    }
    Ok(arguments)
}

/// The values in one buffer, as the device lays them out.
fn packed_arguments(function: &Function, values: Values) -> Answer<Vec<Vec<u8>>> {
    let extra = values.extra.list(5)?;
    let [EXTRA_BUFFER, buffer, EXTRA_SIZE, size, 0] = extra[..] else {
        return Err(broken(Code::INVALID_VALUE, "extras of a launch that there cannot be"));
    };
    let size = std::ptr::with_exposed_provenance::<c_void>(size).cast::<usize>();
    // SAFETY: the program passed the buffer, and the place of its size.
    let buffer = unsafe {
        let start = std::ptr::with_exposed_provenance::<u8>(buffer);
        std::slice::from_raw_parts(start, size.read_unaligned())
    };
    let sizes = &function.kernel.argument_sizes;
    let argument = |index: usize| {
        let start = function::offset_of(sizes, index);
        buffer.get(start..start + sizes[index] as usize).map(<[u8]>::to_vec)
    };
    let all: Option<Vec<_>> = (0..sizes.len()).map(argument).collect();
    all.ok_or_else(|| broken(Code::INVALID_VALUE, "the buffer of arguments is too short"))
}
