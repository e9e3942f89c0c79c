//! Vulkan's drivers on this machine, and the environment of tests on its devices.
//!
//! Tests run on every available device: the devices of the installed drivers, and SwiftShader.
//! SwiftShader is a driver for the CPU that lacks many features of lavapipe; `cargo xtask test
//! --install` puts it into the target folder.

mod tools;

pub use tools::{assembled, compile_kernel, glsl, linked_glsl, missing_tool};

use crate::world::root;
use longshore::{Device, Environment, Host, Result};
use longshore_conformance::{DeviceName, Setup};
use std::path::{Path, PathBuf};

const PLUGIN: &str = "liblongshore_plugin_vulkan.so";
/// Variable with drivers that the loader finds beside the installed ones.
const FURTHER_DRIVERS: &str = "VK_ADD_DRIVER_FILES";
/// Device files of the kernel's drivers for GPUs.
const GPU_FILES: [&str; 4] = ["/dev/dri", "/dev/dxg", "/dev/kfd", "/dev/nvidiactl"];
/// Folders in which the loader looks for drivers and layers.
const DATA_FOLDERS: [&str; 3] = ["/etc", "/usr/local/share", "/usr/share"];
/// Variables with the only drivers that the loader finds: the new and the old name.
const ONLY_DRIVERS: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// Adds SwiftShader to the drivers that the Vulkan loader finds in this process, unless the
/// variables of the environment already name drivers. On a machine without a GPU, leaves out the
/// drivers of GPUs, which take time to detect that. Must be the first call in `main`.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn choose_drivers() {
    let said = ONLY_DRIVERS.into_iter().chain([FURTHER_DRIVERS]);
    if said.into_iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    let has_gpu = GPU_FILES.iter().any(|file| Path::new(file).exists());
    let lavapipe = lavapipe().filter(|_| !has_gpu);
    let variable = if lavapipe.is_some() { ONLY_DRIVERS[0] } else { FURTHER_DRIVERS };
    let drivers: Vec<_> = lavapipe.into_iter().chain(swiftshader()).collect();
    if let Some(list) = std::env::join_paths(&drivers).ok().filter(|list| !list.is_empty()) {
        // SAFETY: promised by the caller.
        unsafe { std::env::set_var(variable, list) };
    }
}

/// Returns SwiftShader's manifest, if it is in the target folder.
pub fn swiftshader() -> Option<PathBuf> {
    let manifest = root().join("target/swiftshader/vk_swiftshader_icd.json");
    manifest.is_file().then_some(manifest)
}

/// Returns lavapipe's manifest from the loader's folders.
pub fn lavapipe() -> Option<PathBuf> {
    let folders = ["/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"];
    let files =
        folders.into_iter().filter_map(|folder| Path::new(folder).read_dir().ok()).flatten();
    let mut files = files.filter_map(|file| file.ok().map(|file| file.path()));
    files.find(|path| path.file_name().is_some_and(|name| is_lavapipe(&name.to_string_lossy())))
}

fn is_lavapipe(file: &str) -> bool {
    file.starts_with("lvp_icd") && file.ends_with(".json")
}

/// Returns the plugin, in the folder above this test's; `None` if it is not built.
pub fn plugin() -> Option<PathBuf> {
    let program = std::env::current_exe().expect("an executable has a path");
    let plugin = program.ancestors().nth(2)?.join(PLUGIN);
    plugin.is_file().then_some(plugin)
}

/// Returns the process's variables, with the pipeline cache beside the plugin instead of the
/// user's.
pub fn environment_without_layer() -> Environment {
    let environment = Environment::from_process();
    match plugin().as_deref().and_then(Path::parent) {
        Some(folder) => environment.with("LONGSHORE_CACHE", folder.join("vulkan-cache")),
        None => environment,
    }
}

/// Returns the same variables. If the validation layer is installed, each of its messages is an
/// error, which closing the device returns.
pub fn environment() -> Environment {
    let environment = environment_without_layer();
    if has_validation_layer() {
        environment.with("LONGSHORE_VULKAN_VALIDATION", "strict")
    } else {
        environment
    }
}

/// Returns whether the Khronos validation layer is in one of the loader's folders.
fn has_validation_layer() -> bool {
    const MANIFEST: &str = "vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
    DATA_FOLDERS.iter().any(|folder| Path::new(folder).join(MANIFEST).is_file())
}

/// Returns the devices of all drivers. Prints a line if there are no devices, or if the plugin is
/// not built.
///
/// # Errors
/// The errors of [`Host::new`].
pub fn devices() -> Result<Vec<DeviceName>> {
    let Some(plugin) = plugin() else {
        eprintln!("nothing is tried on Vulkan: {PLUGIN} is not built");
        return Ok(Vec::new());
    };
    let absent = [("lavapipe", lavapipe()), ("SwiftShader", swiftshader())];
    for (driver, _) in absent.iter().filter(|(_, manifest)| manifest.is_none()) {
        eprintln!("nothing is tried on {driver}: it is not installed");
    }
    if !has_validation_layer() {
        eprintln!("calls of Vulkan are not validated: the validation layer is not installed");
    }
    Setup::new()
        .with_environment(environment())
        .with_plugin(plugin)
        .with_backends("vulkan")
        .devices()
}

/// Opens one of [`devices`] with these variables. Blocks.
///
/// # Errors
/// The errors of [`Host::new`] and [`Host::device`].
///
/// # Panics
/// If the plugin is gone.
pub fn open(name: &DeviceName, environment: Environment) -> Result<Device> {
    let plugin = plugin().expect("it has listed its devices");
    let host =
        Host::builder().with_environment(environment).with_only_given_plugins().with_plugin(plugin);
    host.build()?.device(&format!("{}:{}", name.backend, name.index))
}
