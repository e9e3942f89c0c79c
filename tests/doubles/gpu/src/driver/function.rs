//! Kernels of modules.

use super::context::current;
use super::image::Kernel;
use super::module::Module;
use super::object::{self, Object};
use super::{Code, DriverResult, Limits, Out, Text, broken, driver};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of the attribute for a group's maximum of dynamic shared memory.
pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;

const MAX_THREADS_PER_BLOCK: u32 = 0;
const SHARED_SIZE_BYTES: u32 = 1;
const LOCAL_SIZE_BYTES: u32 = 3;
const NUM_REGS: u32 = 4;
const LANGUAGE_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;

/// A kernel, while its module is loaded.
pub struct Function {
    pub(crate) handle: usize,
    context: usize,
    module: usize,
    /// Facts about the kernel from its image.
    pub kernel: Kernel,
    /// Limits of the function's device.
    pub(crate) limits: Limits,
    /// Attributes that programs have set, by their numbers.
    set: Mutex<BTreeMap<u32, i32>>,
}

impl Object for Function {
    const KIND: &'static str = "function";

    fn context_handle(&self) -> usize {
        self.context
    }

    /// Returns `false`, as a function ends with its module.
    fn is_of_program(&self) -> bool {
        false
    }
}

impl Function {
    /// Creates the function of a kernel, which the module must have.
    pub(crate) fn new(handle: usize, module: &Module, name: &str) -> Function {
        let kernels = &module.contents.kernels;
        let kernel = kernels.iter().find(|kernel| kernel.name == name).cloned();
        Function {
            handle,
            context: module.context_handle(),
            module: module.handle,
            kernel: kernel.expect("only kernels of the module are asked for"),
            limits: module.limits,
            set: Mutex::default(),
        }
    }

    /// Returns the function's module.
    ///
    /// # Errors
    /// `INVALID_HANDLE`, a violation, if the module was unloaded.
    pub(crate) fn module(&self) -> DriverResult<Arc<Module>> {
        object::find(self.module)
            .ok_or_else(|| broken(Code::INVALID_HANDLE, "a function of a module that was unloaded"))
    }

    /// Returns a group's maximum of dynamic shared memory in bytes.
    pub(crate) fn most_dynamic_shared_bytes(&self) -> u64 {
        let plain = u64::from(self.limits.shared_bytes);
        let plain = plain.saturating_sub(self.kernel.static_shared_bytes);
        self.attribute(MAX_DYNAMIC_SHARED_SIZE_BYTES).map_or(plain, |bytes| bytes as u64)
    }

    /// Returns the maximum number of items in a group.
    pub(crate) fn most_items(&self) -> u64 {
        let most = u64::from(self.limits.items);
        let required = self.kernel.required_group.map(product);
        required.or(self.kernel.most_items).unwrap_or(most).min(most)
    }

    /// Returns the value to which a program has set an attribute.
    pub fn attribute(&self, which: u32) -> Option<i32> {
        self.set.lock().get(&which).copied()
    }

    /// Sets an attribute. The caller has checked the attribute and its value.
    pub fn set_attribute(&self, which: u32, value: i32) {
        self.set.lock().insert(which, value);
    }
}

/// Returns the product of three sizes.
pub fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(u64::from(*size)))
}

/// Stores the function with a name.
pub fn named(function: Out<usize>, module: usize, name: Text) -> DriverResult {
    current()?;
    let module = object::get::<Module>(module)?;
    let name = name.get()?;
    if !module.contents.kernels.iter().any(|kernel| kernel.name == name) {
        return Err(Code::NOT_FOUND);
    }
    function.put(handle_of(&module, &name))
}

/// Returns the handle of a kernel in a module; repeated calls return the same handle.
pub fn handle_of(module: &Arc<Module>, name: &str) -> usize {
    let mut functions = module.functions.lock();
    if let Some(handle) = functions.get(name) {
        return *handle;
    }
    let made = object::add(|handle| Function::new(handle, module, name));
    functions.insert(name.to_owned(), made.handle);
    made.handle
}

/// Returns the function of a handle from the current context.
///
/// # Errors
/// `INVALID_HANDLE`, a violation, for a function of another context; the context's failure.
pub fn current_function(handle: usize) -> DriverResult<Arc<Function>> {
    let context = current()?;
    let function = object::get::<Function>(handle)?;
    if function.context != context.handle {
        let scope = driver().vendor.scope();
        return Err(broken(Code::INVALID_HANDLE, format!("a function of another {scope}")));
    }
    Ok(function)
}

/// Stores an attribute by its number: one that all drivers have, or one from `own`, which has the
/// defaults.
pub fn attribute(value: Out<i32>, which: u32, function: usize, own: &[(u32, i32)]) -> DriverResult {
    let function = current_function(function)?;
    let own = own.iter().find(|(known, _)| *known == which);
    let number = match which {
        MAX_THREADS_PER_BLOCK => function.most_items() as i32,
        SHARED_SIZE_BYTES => function.kernel.static_shared_bytes as i32,
        LOCAL_SIZE_BYTES => function.kernel.private_bytes as i32,
        NUM_REGS => function.kernel.registers as i32,
        LANGUAGE_VERSION => function.module()?.contents.language,
        BINARY_VERSION => function.module()?.contents.machine_code,
        MAX_DYNAMIC_SHARED_SIZE_BYTES => function.most_dynamic_shared_bytes() as i32,
        _ => match own {
            Some((_, at_first)) => function.attribute(which).unwrap_or(*at_first),
            None => {
                let what = format!("unknown attribute of a function: {which}");
                return Err(broken(Code::INVALID_VALUE, what));
            }
        },
    };
    value.put(number)
}
