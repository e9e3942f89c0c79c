//! Constructors and destructors, as LLVM lowers them for NVPTX.
//!
//! For each function there is a constant that holds its address, `__init_array_object_<function>_<hash>_<priority>`,
//! and one kernel calls those that lie between `__init_array_start` and `__init_array_end`; for
//! destructors `fini` in place of `init`, and from the end to the start. Whoever loads the image writes
//! the table, sorted by priority, and the bounds. An image that was linked otherwise has a kernel that
//! needs neither.

use super::CudaImage;
use crate::driver::Driver;
use crate::driver::types::DevicePtr;
use longshore_plugin_api::{Error, ErrorCode, GlobalAddress, Result};
use longshore_plugin_streams::ModuleCore;

/// One of the two ends of an image's life.
pub(super) struct Step {
    pub(super) kernel: &'static str,
    what: &'static str,
    entries: &'static str,
    bounds: [&'static str; 2],
    /// So far before the table is the start that its kernel is told.
    start_offset: u64,
    /// Where code says that it failed.
    status: &'static str,
}

pub(super) const CONSTRUCTORS: Step = Step {
    kernel: "nvptx$device$init",
    what: "constructors",
    entries: "__init_array_object_",
    bounds: ["__init_array_start", "__init_array_end"],
    start_offset: 0,
    status: "__longshore_constructor_status",
};

pub(super) const DESTRUCTORS: Step = Step {
    kernel: "nvptx$device$fini",
    what: "destructors",
    entries: "__fini_array_object_",
    bounds: ["__fini_array_start", "__fini_array_end"],
    // LLVM 19's kernel calls nothing if the last function is the one at the start. One byte before it
    // no function begins, whichever way the kernel compares.
    start_offset: 1,
    status: "__longshore_destructor_status",
};

impl CudaImage {
    /// Runs a step's functions and waits for them.
    ///
    /// # Errors
    /// `BackendFailure` if the code says that it failed; `InvalidBinary` for functions without the kernel
    /// that calls them, or the other way round; those of the driver.
    pub(super) fn run_step(&self, module: &ModuleCore<Driver>, step: &Step) -> Result<()> {
        let Some(kernel) = module.function(step.kernel)? else {
            // Reading a large image takes longer than loading it.
            return match self.names_something(step.entries)
                && !self.functions_of(module, step)?.is_empty()
            {
                true => Err(lacks(step, step.kernel)),
                false => Ok(()),
            };
        };
        let functions = self.functions_of(module, step)?;
        if functions.is_empty() {
            module.run(kernel, step.what)?;
        } else {
            let table = Table::write(module, &functions)?;
            let ran = set_bounds(module, step, &table);
            let result = ran.and_then(|()| module.run(kernel, step.what));
            if result.is_err() {
                // The kernel may run all the same.
                module.settle();
            }
            let freed = module.free(table.start);
            result.and(freed)?;
        }
        module.check_status(step.status, step.what)
    }

    /// Addresses of the functions by ascending priority, else in the image's order.
    fn functions_of(&self, module: &ModuleCore<Driver>, step: &Step) -> Result<Vec<[u8; 8]>> {
        let mut functions = Vec::new();
        for variable in &self.contents().variables {
            let Some(rest) = variable.name.strip_prefix(step.entries) else { continue };
            let Some(place) = self.place_of(module, variable)? else {
                return Err(lacks(step, &variable.name));
            };
            let value = module.read(place)?;
            let address = value.first_chunk().ok_or_else(|| lacks(step, &variable.name))?;
            functions.push((priority(rest), *address));
        }
        functions.sort_by_key(|(priority, _)| *priority);
        Ok(functions.into_iter().map(|(_, address)| address).collect())
    }
}

fn set_bounds(module: &ModuleCore<Driver>, step: &Step, table: &Table) -> Result<()> {
    for (name, address) in step.bounds.into_iter().zip([table.start - step.start_offset, table.end])
    {
        let variable = module.variable(name)?.filter(|found| found.bytes == 8);
        let GlobalAddress { address: at, .. } = variable.ok_or_else(|| lacks(step, name))?;
        module.write(at, &address.to_le_bytes())?;
    }
    Ok(())
}

/// A table of functions in device memory.
struct Table {
    start: DevicePtr,
    end: DevicePtr,
}

impl Table {
    fn write(module: &ModuleCore<Driver>, functions: &[[u8; 8]]) -> Result<Table> {
        let bytes = functions.as_flattened();
        let start = module.allocate(bytes.len() as u64)?;
        match module.write(start, bytes) {
            Ok(()) => Ok(Table { start, end: start + bytes.len() as u64 }),
            Err(error) => module.free(start).and(Err(error)),
        }
    }
}

/// The number at the end of "<function>_<hash>_<priority>"; functions without one come last.
fn priority(rest: &str) -> u32 {
    let number = rest.rsplit_once('_').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(u32::MAX)
}

#[cold]
fn lacks(step: &Step, name: &str) -> Error {
    let message = format!("the image has {}, but '{name}' is not to be found", step.what);
    Error::new(ErrorCode::InvalidBinary, message)
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn a_function_without_a_priority_comes_last() {
        assert_eq!(priority("first_ee464691017b6605_101"), 101);
        assert_eq!(priority("f_65535"), 65535);
        assert_eq!(priority("strange"), u32::MAX);
        assert_eq!(priority("f_99999999999"), u32::MAX);
    }
}
