//! Kernels of modules.

use crate::code::{Answer, Code};
use crate::current::current;
use crate::driver::{broken, machine};
use crate::module::{self, Module};
use crate::object;
use crate::value::Out;
use longshore_cuda_image::Kernel;
use parking_lot::Mutex;
use std::ffi::{CString, c_char};
use std::sync::Arc;

/// Dynamic shared memory that needs no attribute to be set.
const PLAIN_SHARED_BYTES: u64 = 48 << 10;

const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const LOCAL_SIZE_BYTES: u32 = 3;
const NUM_REGS: u32 = 4;
const PTX_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: u32 = 14;

/// A kernel, while its module is loaded.
pub(crate) struct Function {
    pub(crate) handle: usize,
    context: usize,
    module: usize,
    pub(crate) kernel: Kernel,
    name: CString,
    settable: Mutex<Settable>,
}

/// What programs can set.
#[derive(Clone, Copy)]
struct Settable {
    dynamic_shared_bytes: u64,
    carveout: i32,
    large_clusters: i32,
}

impl Function {
    /// The kernel of this name, which the module has.
    pub(crate) fn new(handle: usize, module: &Module, name: &str) -> Function {
        let kernels = &module.contents.kernels;
        let kernel = kernels.iter().find(|kernel| kernel.name == name).cloned();
        let kernel = kernel.expect("only kernels of the module are asked for");
        let own = kernel.static_shared_bytes.unwrap_or(0);
        let settable = Settable {
            dynamic_shared_bytes: PLAIN_SHARED_BYTES.saturating_sub(own),
            carveout: -1,
            large_clusters: 0,
        };
        Function {
            handle,
            context: module.context_handle(),
            module: module.handle,
            name: CString::new(name).unwrap_or_default(),
            kernel,
            settable: Mutex::new(settable),
        }
    }

    pub(crate) fn context_handle(&self) -> usize {
        self.context
    }

    /// Its module.
    ///
    /// # Errors
    /// `INVALID_HANDLE`, a violation, if that was unloaded.
    pub(crate) fn module(&self) -> Answer<Arc<Module>> {
        module::of_function(self.module)
    }

    /// The most dynamic shared memory of a group.
    pub(crate) fn most_dynamic_shared_bytes(&self) -> u64 {
        self.settable.lock().dynamic_shared_bytes
    }

    /// The most items of a group.
    pub(crate) fn most_items(&self) -> u64 {
        let by_image = self.kernel.max_group_items.unwrap_or(1024);
        let required = self.kernel.required_group.map(product);
        required.unwrap_or(by_image).min(1024)
    }

    /// Registers of an item; what PTX does not tell is a guess.
    pub(crate) fn registers(&self) -> u32 {
        self.kernel.registers.unwrap_or(32)
    }

    /// Whether it may have clusters that not all devices have.
    pub(crate) fn allows_large_clusters(&self) -> bool {
        self.settable.lock().large_clusters != 0
    }
}

/// How many there are of three sizes.
pub(crate) fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(u64::from(*size)))
}

/// The function of a handle, in the context that is current.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, if it is of another context; what failed in the context.
pub(crate) fn of_current(handle: usize) -> Answer<Arc<Function>> {
    let context = current()?;
    let function = object::function(handle)?;
    if function.context != context.handle {
        return Err(broken(Code::INVALID_HANDLE, "a function of another context"));
    }
    Ok(function)
}

/// The name lives as long as the process.
pub(crate) fn name(name: Out<*const c_char>, function: usize) -> Answer {
    let function = of_current(function)?;
    name.put(Box::leak(function.name.clone().into_boxed_c_str()).as_ptr())
}

pub(crate) fn parameter(
    function: usize,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    let function = of_current(function)?;
    let sizes = &function.kernel.argument_sizes;
    let Some(size) = sizes.get(index) else { return Err(Code::INVALID_VALUE) };
    offset.put(offset_of(sizes, index))?;
    bytes.put_if_wanted(*size as usize);
    Ok(())
}

pub(crate) fn attribute(value: Out<i32>, which: u32, function: usize) -> Answer {
    let function = of_current(function)?;
    let settable = *function.settable.lock();
    let capability = machine()?.capability;
    let binary = (capability.0 * 10 + capability.1) as i32;
    let number = match which {
        MAX_THREADS_PER_BLOCK => function.most_items() as i32,
        SHARED_SIZE_BYTES => function.kernel.static_shared_bytes.unwrap_or(0) as i32,
        LOCAL_SIZE_BYTES => function.kernel.private_bytes.unwrap_or(0) as i32,
        NUM_REGS => function.registers() as i32,
        PTX_VERSION => {
            let (major, minor) = function.module()?.contents.ptx_version.unwrap_or((7, 8));
            (major * 10 + minor) as i32
        }
        BINARY_VERSION => binary,
        MAX_DYNAMIC_SHARED_SIZE_BYTES => settable.dynamic_shared_bytes as i32,
        PREFERRED_SHARED_MEMORY_CARVEOUT => settable.carveout,
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED => settable.large_clusters,
        2 | 7 | 10..=13 | 15 => 0,
        _ => {
            let what = format!("{which} is no attribute of functions");
            return Err(broken(Code::INVALID_VALUE, what));
        }
    };
    value.put(number)
}

pub(crate) fn set_attribute(function: usize, which: u32, value: i32) -> Answer {
    let function = of_current(function)?;
    let own = function.kernel.static_shared_bytes.unwrap_or(0);
    let limit = crate::attributes::shared_bytes_optin(machine()?.capability);
    let mut settable = function.settable.lock();
    match which {
        MAX_DYNAMIC_SHARED_SIZE_BYTES => match u64::try_from(value) {
            Ok(bytes) if bytes + own <= u64::from(limit) => settable.dynamic_shared_bytes = bytes,
            _ => return Err(Code::INVALID_VALUE),
        },
        PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
            settable.carveout = value;
        }
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED if (0..=1).contains(&value) => {
            settable.large_clusters = value;
        }
        _ => {
            let what = format!("attribute {which} of a function is set to {value}");
            return Err(broken(Code::INVALID_VALUE, what));
        }
    }
    Ok(())
}

pub(crate) fn load(function: usize) -> Answer {
    of_current(function).map(|_| ())
}

/// Arguments are aligned to their size, as far as that is a power of two.
pub(crate) fn offset_of(sizes: &[u32], index: usize) -> usize {
    let mut offset = 0usize;
    for (at, size) in sizes.iter().enumerate() {
        let alignment = 1usize << size.trailing_zeros().min(4);
        offset = offset.next_multiple_of(alignment.min(8));
        if at == index {
            break;
        }
        offset += *size as usize;
    }
    offset
}
