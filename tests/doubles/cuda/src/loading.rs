//! Modules: the load of an image, and look-ups in it.

use crate::image::Image;
use crate::jit::{Jit, Options};
use longshore_double_gpu::driver::context::current;
use longshore_double_gpu::driver::function::handle_of;
use longshore_double_gpu::driver::module::{self, Module};
use longshore_double_gpu::driver::{Code, DriverResult, In, Out, broken, object};
use std::ffi::c_void;

const LAZY_LOADING: u32 = 2;

pub(crate) fn load(module: Out<usize>, image: In<c_void>, options: Options) -> DriverResult {
    current()?;
    let jit = Jit::new(options)?;
    let mut log = String::new();
    let loaded = module::load(module, || {
        let image = Image::at(image.address())?;
        image.check_complete()?;
        log = describe(&image);
        Ok(image.into())
    });
    match loaded {
        Ok(_) if jit.is_verbose => jit.inform(&log),
        Ok(_) => {}
        Err(refusal) => {
            jit.complain(&refusal.log);
            return Err(refusal.code);
        }
    }
    Ok(())
}

pub(crate) fn loading_mode(mode: Out<u32>) -> DriverResult {
    mode.put(LAZY_LOADING)
}

pub(crate) fn function_count(count: Out<u32>, module: usize) -> DriverResult {
    current()?;
    count.put(object::get::<Module>(module)?.contents.kernels.len() as u32)
}

pub(crate) fn enumerate(functions: *mut usize, count: u32, module: usize) -> DriverResult {
    current()?;
    let module = object::get::<Module>(module)?;
    if functions.is_null() {
        return Err(broken(Code::INVALID_VALUE, "functions are to be written to a null pointer"));
    }
    for (index, kernel) in module.contents.kernels.iter().take(count as usize).enumerate() {
        let handle = handle_of(&module, &kernel.name);
        // SAFETY: the program passed room for `count` handles.
        unsafe { functions.add(index).write_unaligned(handle) };
    }
    Ok(())
}

/// Returns the assembler's report about an accepted image.
fn describe(image: &Image) -> String {
    let arch = image.contents.arch.map(|arch| arch.to_string()).unwrap_or_default();
    let lines = image.contents.kernels.iter().map(|kernel| {
        let (name, registers) = (&kernel.name, kernel.registers.unwrap_or(0));
        let shared = kernel.static_shared_bytes.unwrap_or(0);
        format!(
            "ptxas info    : Compiling entry function '{name}' for '{arch}'\n\
             ptxas info    : Used {registers} registers, {shared} bytes smem\n"
        )
    });
    lines.collect()
}
