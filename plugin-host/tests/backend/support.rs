//! Images built by the machine's compilers, and modules loaded from them.
#![allow(dead_code, reason = "each test binary uses its part")]

use longshore_plugin_api::{Backend, GlobalAddress, ImageBytes, Module, Result};
use longshore_plugin_host::{AllowedNames, HostBackend, LinkSettings};
use std::ffi::c_void;
use std::ops::Deref;
use std::process::Command;

/// The backend's module type.
pub(crate) type HostModule = <HostBackend as Backend>::Module;

/// Source with kernels, a global and thread-local variables.
pub(crate) const ADD: &str = "int calls = 40; static __thread int mine = 3; __thread int shown = 4;
    void add(void **a) { calls++; *(int *)a[0] = *(int *)a[1] + *(int *)a[2]; }
    void tls(void **a) { calls = mine + shown; }";

/// Source that adds a letter to `order` for each constructor, handler and destructor that has run.
pub(crate) const ORDER: &str = r#"#include <stdlib.h>
    char order[32]; static volatile int at; static char *sink = order;
    static void put(char c) { sink[at++] = c; }
    static void handler(void) { put('h'); }
    __attribute__((constructor)) static void last(void) { put('c'); atexit(handler); }
    __attribute__((constructor(200))) static void second(void) { put('b'); }
    __attribute__((constructor(101))) static void first(int argc, char **argv, char **envp) {
        put(argc > 0 && argv[0] && !argv[argc] && envp ? 'a' : '?'); }
    __attribute__((destructor(101))) static void end_last(void) { put('z'); }
    __attribute__((destructor(200))) static void end_second(void) { put('y'); }
    __attribute__((destructor)) static void end_first(void) { put('x'); }
    void redirect(void **a) { sink = *(char **)a[0]; at = 0; }
"#;

/// Compiles and links a shared object with the C compiler.
pub(crate) fn build(source: &str, flags: &[&str]) -> Vec<u8> {
    run_compiler("cc", "c", source, &[&["-shared", "-fPIC", "-O1"], flags].concat())
        .expect("a C compiler is there")
}

/// Runs a compiler on a source; `None` if the compiler is missing.
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

/// A module and its image's bytes.
pub(crate) struct Loaded {
    /// `None` after `unload`; dropped before its bytes.
    module: Option<HostModule>,
    _bytes: Vec<u8>,
}

/// Loads an image.
pub(crate) fn load(bytes: &[u8]) -> Result<Loaded> {
    load_with(bytes, None)
}

/// Loads an image whose members are linked at their first call.
pub(crate) fn load_lazily(bytes: &[u8]) -> Result<Loaded> {
    let bytes = bytes.to_vec();
    // SAFETY: as below.
    let module =
        HostModule::load_lazily(unsafe { ImageBytes::new(&bytes) }, &LinkSettings::default())?;
    Ok(Loaded { module: Some(module), _bytes: bytes })
}

/// Loads an image that may use further names of the process.
pub(crate) fn load_with(bytes: &[u8], symbols: Option<&str>) -> Result<Loaded> {
    let bytes = bytes.to_vec();
    let links = LinkSettings::new(AllowedNames::parse(symbols)?);
    // SAFETY: `Loaded` keeps the bytes until after the module is dropped.
    let module = HostModule::load(unsafe { ImageBytes::new(&bytes) }, &links)?;
    Ok(Loaded { module: Some(module), _bytes: bytes })
}

impl Deref for Loaded {
    type Target = HostModule;

    fn deref(&self) -> &HostModule {
        self.module.as_ref().expect("still there")
    }
}

impl Loaded {
    /// Unloads the module without running its destructors.
    pub(crate) fn unload(mut self) -> Result<()> {
        self.module.take().expect("still there").unload()
    }

    /// Calls a kernel without arguments.
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
        let GlobalAddress { address, bytes, .. } =
            self.global(name).expect("the image has the global");
        assert_eq!(bytes, 4, "{name}");
        // SAFETY: the address is a variable of the loaded image.
        unsafe { std::ptr::with_exposed_provenance::<i32>(address as usize).read() }
    }

    /// Writes an `int` of the image.
    pub(crate) fn set_int(&self, name: &str, value: i32) {
        let GlobalAddress { address, .. } = self.global(name).expect("the image has the global");
        // SAFETY: the address is a writable variable of the loaded image.
        unsafe { std::ptr::with_exposed_provenance_mut::<i32>(address as usize).write(value) }
    }

    /// Returns a variable of the image, of this type.
    pub(crate) fn global_at<T>(&self, name: &str) -> &T {
        let GlobalAddress { address, bytes, .. } =
            self.global(name).expect("the image has the global");
        assert!(bytes as usize >= size_of::<T>(), "{name}");
        // SAFETY: the address is a variable of the loaded image, at least as large, and aligned by
        // its compiler.
        unsafe { &*std::ptr::with_exposed_provenance::<T>(address as usize) }
    }

    /// Reads a text of the image.
    pub(crate) fn text(&self, name: &str) -> String {
        let GlobalAddress { address, .. } = self.global(name).expect("the image has the global");
        let start = std::ptr::with_exposed_provenance(address as usize);
        // SAFETY: the address is an array of the loaded image that ends with a NUL.
        unsafe { std::ffi::CStr::from_ptr(start) }.to_string_lossy().into_owned()
    }
}
