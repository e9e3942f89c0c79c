//! Kernels of modules.

use crate::attributes::{capability, shared_bytes_optin};
use crate::cluster::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
use longshore_double_gpu::driver::function::{
    self, MAX_DYNAMIC_SHARED_SIZE_BYTES, current_function,
};
use longshore_double_gpu::driver::{Code, DriverResult, Out, broken, driver};
use std::ffi::{CString, c_char};

const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
/// Attributes that not all drivers have, with their defaults.
const OWN: [(u32, i32); 9] = [
    (2, 0),
    (7, 0),
    (PREFERRED_SHARED_MEMORY_CARVEOUT, -1),
    (10, 0),
    (11, 0),
    (12, 0),
    (13, 0),
    (NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0),
    (15, 0),
];

/// Stores the kernel's name, which lives as long as the process.
pub(crate) fn name(name: Out<*const c_char>, function: usize) -> DriverResult {
    let function = current_function(function)?;
    let text = CString::new(function.kernel.name.as_str()).unwrap_or_default();
    name.put(Box::leak(text.into_boxed_c_str()).as_ptr())
}

pub(crate) fn parameter(
    function: usize,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> DriverResult {
    let function = current_function(function)?;
    let argument = function.kernel.arguments.get(index).ok_or(Code::INVALID_VALUE)?;
    offset.put(argument.offset)?;
    bytes.put_if_wanted(argument.bytes);
    Ok(())
}

pub(crate) fn attribute(value: Out<i32>, which: u32, function: usize) -> DriverResult {
    function::attribute(value, which, function, &OWN)
}

pub(crate) fn set_attribute(function: usize, which: u32, value: i32) -> DriverResult {
    let function = current_function(function)?;
    let own = function.kernel.static_shared_bytes;
    let limit = u64::from(shared_bytes_optin(capability(&driver().settings)));
    match which {
        MAX_DYNAMIC_SHARED_SIZE_BYTES => match u64::try_from(value) {
            Ok(bytes) if bytes + own <= limit => {}
            _ => return Err(Code::INVALID_VALUE),
        },
        PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {}
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED if (0..=1).contains(&value) => {}
        _ => {
            let what = format!("attribute {which} of a function is set to {value}");
            return Err(broken(Code::INVALID_VALUE, what));
        }
    }
    function.set_attribute(which, value);
    Ok(())
}

pub(crate) fn load(function: usize) -> DriverResult {
    current_function(function).map(|_| ())
}
