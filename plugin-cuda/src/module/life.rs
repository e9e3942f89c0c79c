//! Constructors and destructors, as LLVM lowers them for NVPTX.
//!
//! For each function there is a constant with its address,
//! `__init_array_object_<function>_<hash>_<priority>`. One kernel calls the functions in a table
//! between `__init_array_start` and `__init_array_end`. Destructors have `fini` in place of `init`,
//! and are called from the end to the start. The loader of the image writes the table, sorted by
//! priority, and its bounds. An image that was linked in another way has a kernel that needs
//! neither.

use super::CudaImage;
use crate::driver::Driver;
use crate::driver::types::DevicePtr;
use longshore_plugin_api::{Error, ErrorCode, GlobalAddress, Result};
use longshore_plugin_streams::ModuleCore;

/// Constructors or destructors: one end of an image's life.
pub(super) struct LifePhase {
    pub(super) kernel: &'static str,
    what: &'static str,
    entries: &'static str,
    bounds: [&'static str; 2],
    /// Number of bytes before the table at which the start bound for the kernel lies.
    start_offset: u64,
    /// The variable in which device code reports a failure.
    status: &'static str,
}

pub(super) const CONSTRUCTORS: LifePhase = LifePhase {
    kernel: "nvptx$device$init",
    what: "constructors",
    entries: "__init_array_object_",
    bounds: ["__init_array_start", "__init_array_end"],
    start_offset: 0,
    status: "__longshore_constructor_status",
};

pub(super) const DESTRUCTORS: LifePhase = LifePhase {
    kernel: "nvptx$device$fini",
    what: "destructors",
    entries: "__fini_array_object_",
    bounds: ["__fini_array_start", "__fini_array_end"],
    // LLVM 19's kernel calls nothing if its last function is the one at the start bound. With a
    // bound 1 byte before the table, where no function begins, every way of comparing is right.
    start_offset: 1,
    status: "__longshore_destructor_status",
};

impl CudaImage {
    /// Runs the functions of a phase and waits for them.
    ///
    /// # Errors
    /// `BackendFailure` if the device code reports a failure; `InvalidBinary` for functions without
    /// the kernel that calls them, or a kernel without its bounds; errors of the driver.
    pub(super) fn run_phase(&self, module: &ModuleCore<Driver>, phase: &LifePhase) -> Result<()> {
        let Some(kernel) = module.function(phase.kernel)? else {
            // Searching the bytes first: reading a large image takes longer than loading it.
            return match self.names_something(phase.entries)
                && !self.functions_of(module, phase)?.is_empty()
            {
                true => Err(lacks(phase, phase.kernel)),
                false => Ok(()),
            };
        };
        let functions = self.functions_of(module, phase)?;
        if functions.is_empty() {
            module.run(kernel, phase.what)?;
        } else {
            let table = Table::write(module, &functions)?;
            let ran = set_bounds(module, phase, &table);
            let result = ran.and_then(|()| module.run(kernel, phase.what));
            if result.is_err() {
                // The kernel may still be running.
                module.wait_until_idle();
            }
            let freed = module.free(table.start);
            result.and(freed)?;
        }
        module.check_status(phase.status, phase.what)
    }

    /// Returns the functions' addresses by ascending priority, and in the image's order within a
    /// priority.
    fn functions_of(&self, module: &ModuleCore<Driver>, phase: &LifePhase) -> Result<Vec<[u8; 8]>> {
        let mut functions = Vec::new();
        for variable in &self.contents().variables {
            let Some(rest) = variable.name.strip_prefix(phase.entries) else { continue };
            let Some(place) = self.place_of(module, variable)? else {
                return Err(lacks(phase, &variable.name));
            };
            let value = module.read(place)?;
            let address = value.first_chunk().ok_or_else(|| lacks(phase, &variable.name))?;
            functions.push((priority(rest), *address));
        }
        functions.sort_by_key(|(priority, _)| *priority);
        Ok(functions.into_iter().map(|(_, address)| address).collect())
    }
}

fn set_bounds(module: &ModuleCore<Driver>, phase: &LifePhase, table: &Table) -> Result<()> {
    for (name, address) in
        phase.bounds.into_iter().zip([table.start - phase.start_offset, table.end])
    {
        let variable = module.variable(name)?.filter(|found| found.bytes == 8);
        let GlobalAddress { address: at, .. } = variable.ok_or_else(|| lacks(phase, name))?;
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

/// Returns the number at the end of `<function>_<hash>_<priority>`; `u32::MAX` without a number, so
/// that such functions come last.
fn priority(rest: &str) -> u32 {
    let number = rest.rsplit_once('_').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(u32::MAX)
}

#[cold]
fn lacks(phase: &LifePhase, name: &str) -> Error {
    let message = format!("the image has {}, but lacks '{name}'", phase.what);
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
