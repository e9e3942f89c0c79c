//! The driver's compiler and linker.

use crate::device::Core;
use crate::driver::types::{Link, Module, jit, jit_input};
use crate::driver::{Driver, result};
use crate::settings::JitSettings;
use longshore_plugin_api::{Error, ErrorCode, Result};
use longshore_plugin_streams::{Call, Code, Failure};
use std::ffi::{CStr, c_uint, c_void};

/// Size in bytes of each of the driver's logs.
const LOG_BYTES: usize = 16 << 10;

/// Loads an image. PTX must end with NUL. Blocks.
///
/// # Errors
/// `InvalidBinary`, `CompileFailure` with the compiler's log, `LinkFailure` for undefined symbols,
/// errors of the driver.
pub(crate) fn load(device: &Core, image: &[u8]) -> Result<Module> {
    let mut module = Module::NULL;
    let mut options = Options::new(&device.device_data().jit);
    device.refuse_if_lost()?;
    let loaded = device.try_call(|driver| {
        let (count, names, values) = options.raw();
        // SAFETY: the image is whole, as its reader has checked, or text that ends with NUL. The
        // options and their buffers live during the call.
        unsafe {
            driver.cuModuleLoadDataEx(&mut module, image.as_ptr().cast(), count, names, values)
        }
    });
    options.judge(device, "loading an image", loaded)?;
    Ok(module)
}

/// Links relocatable objects to an image. Blocks.
///
/// # Errors
/// `LinkFailure` with the linker's log, errors of the driver.
pub(crate) fn link(device: &Core, objects: &[&[u8]]) -> Result<Vec<u8>> {
    let mut options = Options::new(&device.device_data().jit);
    device.refuse_if_lost()?;
    let mut linked = Vec::new();
    let result = device.try_call(|driver| {
        let (count, names, values) = options.raw();
        let mut link = Link::NULL;
        // SAFETY: the output is a local variable; the options and their buffers outlive the link.
        unsafe { driver.cuLinkCreate(count, names, values, &mut link) }?;
        let result = add_and_complete(driver, link, objects, &mut linked);
        // SAFETY: the link was created above, and its image was copied.
        let destroyed = unsafe { driver.cuLinkDestroy(link) };
        result.and(destroyed)
    });
    match result {
        Err(failure) if is_link_failure(failure) => {
            Err(options
                .logged(device.failed("linking objects", failure), Some(ErrorCode::LinkFailure)))
        }
        result => options.judge(device, "linking objects", result).map(|()| linked),
    }
}

fn add_and_complete(driver: &Driver, link: Link, objects: &[&[u8]], linked: &mut Vec<u8>) -> Call {
    for object in objects {
        let data = object.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the driver reads `object.len()` bytes during the call.
        unsafe {
            driver.cuLinkAddData(
                link,
                jit_input::CUBIN,
                data,
                object.len(),
                c"object".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        }?;
    }
    let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the outputs are local variables; the link owns the image until it is destroyed.
    unsafe {
        driver.cuLinkComplete(link, &mut image, &mut bytes)?;
        linked.extend_from_slice(std::slice::from_raw_parts(image.cast::<u8>(), bytes));
    }
    Ok(())
}

/// Returns whether this is the linker's result for objects that do not fit together.
fn is_link_failure(failure: Failure) -> bool {
    [result::INVALID_IMAGE, result::INVALID_PTX, result::NO_BINARY_FOR_GPU, result::UNKNOWN]
        .into_iter()
        .any(|result| failure.is(result))
}

/// Options for the driver's compiler, and its logs.
struct Options {
    names: Vec<c_uint>,
    values: Vec<*mut c_void>,
    error_log: Vec<u8>,
    info_log: Vec<u8>,
}

impl Options {
    fn new(settings: &JitSettings) -> Options {
        let mut options = Options {
            names: Vec::new(),
            values: Vec::new(),
            error_log: vec![0; LOG_BYTES],
            info_log: vec![0; LOG_BYTES],
        };
        let (errors, infos) = (options.error_log.as_mut_ptr(), options.info_log.as_mut_ptr());
        options.add(jit::ERROR_LOG_BUFFER, errors.cast());
        options.add_number(jit::ERROR_LOG_BUFFER_SIZE_BYTES, LOG_BYTES);
        options.add(jit::INFO_LOG_BUFFER, infos.cast());
        options.add_number(jit::INFO_LOG_BUFFER_SIZE_BYTES, LOG_BYTES);
        if let Some(level) = settings.optimization {
            options.add_number(jit::OPTIMIZATION_LEVEL, level as usize);
        }
        if settings.line_info {
            options.add_number(jit::GENERATE_LINE_INFO, 1);
        }
        if let Some(most) = settings.max_registers {
            options.add_number(jit::MAX_REGISTERS, most as usize);
        }
        options
    }

    /// Adds an option with a number, which the driver reads from the bits of the pointer.
    fn add_number(&mut self, name: c_uint, number: usize) {
        self.add(name, std::ptr::without_provenance_mut(number));
    }

    fn add(&mut self, name: c_uint, value: *mut c_void) {
        self.names.push(name);
        self.values.push(value);
    }

    /// Returns the number of options, their names and their values. The pointers are valid until an
    /// option is added.
    fn raw(&mut self) -> (c_uint, *mut c_uint, *mut *mut c_void) {
        (self.names.len() as c_uint, self.names.as_mut_ptr(), self.values.as_mut_ptr())
    }

    /// Logs the compiler's messages, and returns the error of a failed call with its log.
    fn judge(&self, device: &Core, doing: &str, result: Call) -> Result<()> {
        let said = text(&self.info_log);
        if !said.is_empty() {
            log::debug!("{doing}: {said}");
        }
        result.map_err(|failure| {
            let error = device.failed(doing, failure);
            // The image is the only argument that can be wrong.
            let is_image = failure.is(Code::INVALID_VALUE);
            let code = match self.is_about_symbols() {
                true => Some(ErrorCode::LinkFailure),
                false => is_image.then_some(ErrorCode::InvalidBinary),
            };
            self.logged(error, code)
        })
    }

    fn is_about_symbols(&self) -> bool {
        let said = text(&self.error_log);
        said.contains("Unresolved extern") || said.contains("Undefined reference")
    }

    /// Returns the error with the compiler's log.
    fn logged(&self, error: Error, code: Option<ErrorCode>) -> Error {
        let said = text(&self.error_log);
        let message = match said.is_empty() {
            true => error.message().to_owned(),
            false => format!("{}: {said}", error.message()),
        };
        let logged = Error::new(code.unwrap_or(error.code()), message);
        match error.vendor() {
            Some(vendor) => logged.with_vendor(vendor.name.clone(), vendor.number),
            None => logged,
        }
    }
}

/// Returns a log up to its NUL.
fn text(log: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(log).unwrap_or_default();
    text.to_string_lossy().trim().to_owned()
}
