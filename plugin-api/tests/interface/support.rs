//! A test environment for the sample plugin: builds a variant, opens it, and writes its images.

use longshore_plugin_api::abi::{self, Services};
use longshore_plugin_api::remote::{Incompatible, RemotePlatform, RemotePlugin};
use longshore_plugin_api::{Connected, Result};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sample plugin, built with some defines and opened.
pub(crate) struct Sample {
    library: libloading::Library,
    pub(crate) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sample {
    pub(crate) fn build(defines: &[&str]) -> Sample {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/plugin-c");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("liblongshore_plugin_sample.so");
        let built = Command::new("make")
            .arg("-C")
            .arg(sources)
            .arg(format!("DEFINES={}", defines.join(" ")))
            .arg(format!("LIBRARY={}", path.display()))
            .output()
            .expect("make");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // SAFETY: the library was just built from the sample, whose initialisers do nothing.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        Sample { library, path, _folder: folder }
    }

    /// Returns the plugin's checked entry. Objects made from it must be dropped before the sample.
    pub(crate) fn plugin(&self) -> Result<RemotePlugin, Incompatible> {
        // SAFETY: the symbol is the plugin's entry; the library outlives it, see above.
        unsafe {
            let entry = self.library.get::<*const abi::Entry>(b"longshore_plugin").unwrap();
            RemotePlugin::new(*entry)
        }
    }

    pub(crate) fn connect(&self) -> Connected<RemotePlatform> {
        let plugin = self.plugin().unwrap();
        // SAFETY: static services.
        unsafe { plugin.connect(&raw const SERVICES.0) }.unwrap()
    }

    pub(crate) fn platform(&self) -> RemotePlatform {
        match self.connect() {
            Connected::Platform(platform) => platform,
            Connected::NoDriver(reason) | Connected::NoDevice(reason) => panic!("{reason}"),
        }
    }
}

/// Returns an image of these lines, with its header and checksum.
pub(crate) fn image(lines: &[&str]) -> Vec<u8> {
    let mut text = String::from("longshore-ops 1\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    text.push_str(&format!("checksum {hash:016x}\n"));
    text.into_bytes()
}

struct Constant(Services);

// SAFETY: no context and only functions without state.
unsafe impl Sync for Constant {}

static SERVICES: Constant = Constant(Services {
    context: std::ptr::null_mut(),
    interface_major: abi::INTERFACE_MAJOR,
    interface_minor: abi::INTERFACE_MINOR,
    log_level: no_level,
    log: no_log,
    setting: device_setting,
    table: no_table,
});

unsafe extern "C" fn no_level(_context: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn no_log(_: *mut c_void, _: u32, _: abi::Text, _: abi::Text) {}

/// Answers the setting for two devices; all other settings are unset.
unsafe extern "C" fn device_setting(_: *mut c_void, name: abi::Text, value: abi::Sink) -> u32 {
    // SAFETY: the plugin passes a readable name and a sink of its own.
    unsafe {
        let asked = std::slice::from_raw_parts(name.data, name.bytes) == b"DEVICES";
        if asked {
            (value.write)(value.context, b"2".as_ptr(), 1);
        }
        u32::from(asked)
    }
}

unsafe extern "C" fn no_table(_: *mut c_void, _: abi::Text, _: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}
