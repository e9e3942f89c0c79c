//! The state of the process: registered libraries, devices, requirements and policy.

use crate::abi::{BinaryDescriptor, requires};
use crate::backlog::Backlog;
use crate::debug::{self, debug};
use crate::device::OmpDevice;
use crate::library::Library;
use crate::settings::{self, info as kinds, wants};
use crate::{dump, gpu, libomp, loading, message, ompt, profile, variables};
use longshore::{Host, Image};
use parking_lot::Mutex;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The policy for regions that cannot run on a device. LLVM: `OffloadPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// All regions run on the host.
    Disabled,
    /// A region that cannot run on its device ends the program.
    Mandatory,
}

static LIBRARIES: Mutex<Vec<Arc<Library>>> = Mutex::new(Vec::new());
/// The list of devices; null before the first. A list is never freed, as readers take no lock; each
/// is longer than the one before it.
static DEVICES: AtomicPtr<Vec<&'static OmpDevice>> = AtomicPtr::new(null_mut());
/// Libraries that were registered since the devices were listed.
static UNLISTED: Backlog = Backlog::new();
/// Whether clang 20 or a later version compiled the library that was registered last.
static IS_RECENT: AtomicBool = AtomicBool::new(false);
static REQUIREMENTS: AtomicI64 = AtomicI64::new(0);
/// Whether all libraries were unregistered, as at the end of the program.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Number of registered libraries and of calls of `__tgt_rtl_init`.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// The host, with the numbers of its entries that are devices of OpenMP already.
struct Known {
    host: Host,
    listed: Vec<bool>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Returns the registered libraries, in the order of their registration.
pub(crate) fn libraries() -> Vec<Arc<Library>> {
    LIBRARIES.lock().clone()
}

/// Registers a library. Opens no plugin unless the process has a tool, which expects all devices
/// to be initialized now. LLVM: `__tgt_register_lib`.
///
/// # Safety
/// The descriptor and all it points at stay readable until [`unregister`].
pub(crate) unsafe fn register(descriptor: *const BinaryDescriptor) {
    // SAFETY: promised by the caller.
    let library = Arc::new(unsafe { Library::read(descriptor) });
    library.requirements().for_each(require);
    IS_RECENT.store(library.is_recent, Ordering::Relaxed);
    LIBRARIES.lock().push(library);
    HAS_ENDED.store(false, Ordering::Release);
    UNLISTED.note();
    add_user();
    listed().iter().for_each(|device| device.note_registered());
    if ompt::expects_tool() {
        ompt::connect();
    }
    if ompt::is_active() {
        // libomp has asked for the number of devices before the tool had its callbacks.
        devices().iter().for_each(|device| device.report());
    }
}

/// Returns whether clang 20 or a later version compiled the library that was registered last. It
/// decides between texts of LLVM 19 and 22.
pub(crate) fn is_recent() -> bool {
    IS_RECENT.load(Ordering::Relaxed)
}

/// Unregisters a library and unloads its images. Blocks. LLVM: `__tgt_unregister_lib`.
pub(crate) fn unregister(descriptor: *const BinaryDescriptor) {
    let is_one = LIBRARIES.lock().len() == 1;
    if is_one && wants(kinds::TABLE) && policy() != Some(Policy::Disabled) {
        // The tables at the end include devices on which no region ran.
        devices();
    }
    let mut libraries = LIBRARIES.lock();
    let place = libraries.iter().position(|known| known.descriptor == descriptor as usize);
    let Some(place) = place else { return };
    let library = libraries.remove(place);
    let is_last = libraries.is_empty();
    HAS_ENDED.store(is_last, Ordering::Release);
    drop(libraries);
    if is_last && wants(kinds::TABLE) {
        dump::tables_at_end(listed());
    }
    listed().iter().for_each(|device| loading::unload(device, &library));
    if is_last {
        log::debug!("the last library with target regions was unregistered");
        listed().iter().for_each(|device| device.events.finalize(device.number));
    }
    remove_user();
}

/// Returns whether all libraries were unregistered: the program ends, or has closed the last shared
/// object with target regions. Threads may still start constructs of a program that ends.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::Acquire)
}

/// Counts a user of the library, and prints a debug line for the first one.
pub(crate) fn add_user() {
    if USERS.fetch_add(1, Ordering::Relaxed) == 0 {
        debug!("Init offload library!");
    }
}

/// Ends the use of a user, and prints a debug line for the last one.
pub(crate) fn remove_user() {
    let remove = |users: usize| users.checked_sub(1);
    if USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, remove) == Ok(1) {
        debug!("Deinit offload library!");
    }
}

/// Adds the flags of a `requires` directive. Ends the program if libraries disagree.
pub(crate) fn require(flags: i64) {
    let before = REQUIREMENTS.load(Ordering::Relaxed);
    if before == 0 {
        REQUIREMENTS.store(flags, Ordering::Relaxed);
        return;
    }
    let clauses = [
        (requires::REVERSE_OFFLOAD, "reverse_offload"),
        (requires::UNIFIED_ADDRESS, "unified_address"),
        (requires::UNIFIED_SHARED_MEMORY, "unified_shared_memory"),
    ];
    for (flag, clause) in clauses {
        if (before ^ flags) & flag != 0 {
            message::fatal(
                2,
                format_args!("'#pragma omp requires {clause}' not used consistently!"),
            );
        }
    }
    REQUIREMENTS.store(before | flags, Ordering::Relaxed);
}

/// Returns the flags of all `requires` directives.
pub(crate) fn requirements() -> i64 {
    REQUIREMENTS.load(Ordering::Relaxed)
}

/// Returns whether mapped data stays in host memory on a device.
#[inline]
pub(crate) fn uses_host_memory(device: &OmpDevice) -> bool {
    requirements() & requires::UNIFIED_SHARED_MEMORY != 0 && device.shares_memory
}

/// Returns the devices. The first call, and the first after a registration, looks for devices and
/// blocks.
#[inline]
pub(crate) fn devices() -> &'static [&'static OmpDevice] {
    if UNLISTED.count() != 0 {
        list_devices();
    }
    listed()
}

/// Returns the devices that were found so far.
#[inline]
fn listed() -> &'static [&'static OmpDevice] {
    // SAFETY: a list that is not null is never freed.
    unsafe { DEVICES.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
}

/// Lists the devices for the libraries registered since the last call. While offloading is disabled
/// the host is the only device, and no plugin is opened.
#[cold]
fn list_devices() {
    let mut known = KNOWN.lock();
    let count = UNLISTED.count();
    if count != 0 {
        if !settings::disables_devices() {
            add_devices(&mut known);
        }
        UNLISTED.settle(count);
    }
    drop(known);
    listed().iter().for_each(|device| device.report());
}

/// Adds the devices that accept an image of a registered library.
fn add_devices(known: &mut Option<Known>) {
    let libraries = libraries();
    let images: Vec<Image> = libraries.iter().flat_map(|library| library.owned_images()).collect();
    if images.is_empty() {
        return;
    }
    if known.is_none() {
        let _profile = profile::routine("void initRuntime()", || None);
        debug::log_records();
        variables::log_without_effect();
        match Host::builder().with_environment(gpu::host_environment()).build() {
            Ok(host) => {
                let listed = vec![false; host.devices().len()];
                *known = Some(Known { host, listed });
            }
            Err(error) => {
                // A selection that the user made has an error; the program may not be silent about
                // it.
                if !settings::demands_devices() {
                    message::message(format_args!("target regions run on the host: {error}"));
                }
                note_no_host(format!("{error}"));
                return;
            }
        }
    }
    let Some(known) = known.as_mut() else { return };
    let before = listed();
    let mut devices = before.to_vec();
    for (place, entry) in known.host.devices().iter().enumerate() {
        if known.listed[place] || !may_accept(entry, &images) {
            continue;
        }
        match OmpDevice::open(devices.len(), entry) {
            Ok(device) => {
                if images.iter().any(|image| accepts(&device, image)) {
                    known.listed[place] = true;
                    devices.push(Box::leak(Box::new(device)));
                }
            }
            Err(error) => log::warn!("opening {}: {error}", entry.name()),
        }
    }
    if devices.is_empty() {
        note_no_host(match known.host.devices() {
            [] => known.host.why_no_device(),
            some => {
                let names: Vec<_> = some.iter().map(|entry| entry.name()).collect();
                let targets = targets(&images).join(", ");
                format!(
                    "the program's images ({targets}) are for none of the devices of this \
                     machine: {}",
                    names.join(", ")
                )
            }
        });
    }
    if devices.len() > before.len() {
        DEVICES.store(Box::into_raw(Box::new(devices)), Ordering::Release);
    }
}

/// Returns whether the plugin behind a device lists the format of an image.
fn may_accept(entry: &longshore::DeviceEntry, images: &[Image]) -> bool {
    let formats = &entry.plugin().image_formats;
    images.iter().any(|image| {
        let name = image.format().name();
        // The library compiles bitcode itself.
        name.starts_with("offload-")
            || name == "bitcode"
            || formats.split(',').any(|format| format.trim() == name)
    })
}

/// Returns the targets of images: triples with architectures, or formats where no container has
/// them.
fn targets(images: &[Image]) -> Vec<String> {
    let mut targets = Vec::new();
    for image in images {
        match image.entries() {
            Ok(Some(entries)) => {
                targets.extend(
                    entries.iter().map(|entry| {
                        format!("{} {}", entry.triple, entry.arch).trim_end().to_owned()
                    }),
                );
            }
            _ => targets.push(image.format().name().to_owned()),
        }
    }
    targets.sort();
    targets.dedup();
    targets
}

fn accepts(device: &OmpDevice, image: &Image) -> bool {
    use longshore::Acceptance;
    matches!(device.device.suits(image.bytes()), Ok(Acceptance::Accepted | Acceptance::Verified))
}

static ABSENCE: OnceLock<String> = OnceLock::new();

fn note_no_host(reason: String) {
    log::info!("no device: {reason}");
    let _ = ABSENCE.set(reason);
}

/// Returns the reason for having no device, if there was a search.
pub(crate) fn absence() -> Option<&'static str> {
    ABSENCE.get().map(String::as_str)
}

/// Returns the policy that the environment sets; `None` for the default, which is mandatory for a
/// program with devices and disabled without. LLVM: `OffloadPolicy::get`.
#[inline]
pub(crate) fn policy() -> Option<Policy> {
    static POLICY: OnceLock<Option<Policy>> = OnceLock::new();
    // libomp reads `OMP_TARGET_OFFLOAD`; without libomp the default holds.
    *POLICY.get_or_init(|| match libomp::target_offload().unwrap_or(1) {
        0 => Some(Policy::Disabled),
        1 => None,
        _ => Some(Policy::Mandatory),
    })
}
