//! Launches with attributes, such as clusters.

use crate::attributes::{capability, has_clusters};
use crate::code::INVALID_CLUSTER_SIZE;
use longshore_double_gpu::driver::function::{Function, product};
use longshore_double_gpu::driver::launch::{self, Shape, Values};
use longshore_double_gpu::driver::{Code, DriverResult, In, broken, driver};

/// Maximum number of groups in a cluster: on all devices with clusters, and on this one.
const MOST_CLUSTER: u64 = 8;
const MOST_LARGE_CLUSTER: u64 = 16;
/// Attribute of functions that allows `MOST_LARGE_CLUSTER` groups.
pub(crate) const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = 14;
/// Tag that ends the list of extras.
const EXTRA_END: usize = 0;

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER: u32 = 4;

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
    /// Value in 64 bytes, whose use depends on the attribute.
    value: [u32; 16],
}

/// Creates the arguments of a launch, by pointers or in a buffer.
pub(crate) fn values(pointers: In<usize>, extra: In<usize>) -> Values {
    Values { pointers, extra, extra_end: EXTRA_END }
}

pub(crate) fn launch_config(config: In<Config>, function: usize, values: Values) -> DriverResult {
    let config = config.get()?;
    let mut shape = Shape::new(config.groups, config.items, config.shared_bytes);
    for attribute in config.attributes.list(config.count as usize)? {
        let [first, second, third, ..] = attribute.value;
        match attribute.which {
            ATTRIBUTE_COOPERATIVE => shape.is_cooperative = first != 0,
            ATTRIBUTE_CLUSTER => shape.cluster = [first, second, third],
            0..=18 => {}
            which => {
                let what = format!("unknown attribute of a launch: {which}");
                return Err(broken(Code::INVALID_VALUE, what));
            }
        }
        let _no_bits_matter = attribute.padding;
    }
    launch::launch(function, shape, config.stream, values)
}

/// Checks the size of a launch's clusters.
///
/// # Errors
/// The launch's result for an impossible size.
pub(crate) fn check(function: &Function, shape: &Shape) -> DriverResult {
    let size = product(shape.cluster);
    if size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    if size == 1 {
        return Ok(());
    }
    let allows_more = function.attribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == Some(1);
    let most = if allows_more { MOST_LARGE_CLUSTER } else { MOST_CLUSTER };
    let divides = shape.groups.iter().zip(shape.cluster).all(|(all, of)| all.is_multiple_of(of));
    if !has_clusters(capability(&driver().settings)) || size > most || !divides {
        return Err(INVALID_CLUSTER_SIZE);
    }
    Ok(())
}
