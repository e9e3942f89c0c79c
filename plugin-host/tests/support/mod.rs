//! Images built by the machine's compilers, and modules loaded from them.
#![allow(dead_code, reason = "each test binary uses its part")]

use longshore_plugin_api::{Backend, GlobalAddress, ImageBytes, Module, Result};
use longshore_plugin_host::HostBackend;
use std::ffi::c_void;
use std::ops::Deref;
use std::process::Command;

/// The backend's module type.
pub(crate) type HostModule = <HostBackend as Backend>::Module;

/// Compiles and links a shared object with the C compiler.
pub(crate) fn build(source: &str, flags: &[&str]) -> Vec<u8> {
    run_compiler("cc", "c", source, &[&["-shared", "-fPIC", "-O1"], flags].concat())
        .expect("a C compiler is there")
}

/// Runs a compiler on a source; `None` if there is no such compiler.
pub(crate) fn run_compiler(
    compiler: &str,
    extension: &str,
    source: &str,
    flags: &[&str],
) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("image").with_extension(extension), folder.path());
    let output = output.join("image.out");
    std::fs::write(&input, source).expect("the source can be written");
    let status =
        Command::new(compiler).arg(&input).arg("-o").arg(&output).args(flags).status().ok()?;
    assert!(status.success(), "{compiler} {flags:?} failed");
    Some(std::fs::read(output).expect("the compiler wrote its output"))
}

/// A module and the bytes that it was made from.
pub(crate) struct Loaded {
    /// `None` after `unload`; dropped before its bytes.
    module: Option<HostModule>,
    _bytes: Vec<u8>,
}

/// Loads an image.
pub(crate) fn load(bytes: &[u8]) -> Result<Loaded> {
    let bytes = bytes.to_vec();
    // SAFETY: `Loaded` keeps the bytes until after the module is gone.
    let module = HostModule::load(unsafe { ImageBytes::new(&bytes) })?;
    Ok(Loaded { module: Some(module), _bytes: bytes })
}

impl Deref for Loaded {
    type Target = HostModule;

    fn deref(&self) -> &HostModule {
        self.module.as_ref().expect("still there")
    }
}

impl Loaded {
    /// Unloads it without its destructors.
    pub(crate) fn unload(mut self) -> Result<()> {
        self.module.take().expect("still there").unload()
    }

    /// Calls a kernel without arguments' values.
    pub(crate) fn call(&self, name: &str) {
        self.call_with(name, &mut []);
    }

    /// Calls a kernel.
    pub(crate) fn call_with(&self, name: &str, arguments: &mut [*mut c_void]) {
        let (_kernel, attributes) = self.kernel(name).expect("the image has the kernel");
        // SAFETY: the test's image has a kernel of this name in LLVM's host form.
        unsafe {
            let entry: unsafe extern "C" fn(*mut *mut c_void) =
                std::mem::transmute(attributes.address as usize);
            entry(arguments.as_mut_ptr());
        }
    }

    /// Reads an `int` of the image.
    pub(crate) fn int(&self, name: &str) -> i32 {
        let GlobalAddress { address, bytes } = self.global(name).expect("the image has the global");
        assert_eq!(bytes, 4, "{name}");
        // SAFETY: a variable of the loaded image.
        unsafe { std::ptr::with_exposed_provenance::<i32>(address as usize).read() }
    }

    /// Writes an `int` of the image.
    pub(crate) fn set_int(&self, name: &str, value: i32) {
        let GlobalAddress { address, .. } = self.global(name).expect("the image has the global");
        // SAFETY: a writable variable of the loaded image.
        unsafe { std::ptr::with_exposed_provenance_mut::<i32>(address as usize).write(value) }
    }

    /// Reads a text of the image.
    pub(crate) fn text(&self, name: &str) -> String {
        let GlobalAddress { address, .. } = self.global(name).expect("the image has the global");
        let start = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: an array of the loaded image that ends with a NUL.
        unsafe { std::ffi::CStr::from_ptr(start) }.to_string_lossy().into_owned()
    }
}
