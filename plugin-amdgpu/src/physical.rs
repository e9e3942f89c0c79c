//! Properties of a device that are known before it is opened.

use crate::driver::Driver;
use crate::driver::types::{Properties, Uuid, attribute};
use longshore_format_amdgpu::Target;
use longshore_plugin_api::{Error, ErrorCode, Result};
use longshore_plugin_streams::{
    Code, Driver as _, Facts, Failure, Features, Limits, driver_error, lines, text,
};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

/// AMD's vendor ID from PCI-SIG.
const VENDOR_ID: u32 = 0x1002;
/// Size in bytes of the device's name, with which properties begin in all versions.
const NAME_BYTES: usize = 256;

/// A device of HIP.
pub struct AmdgpuPhysical {
    pub(crate) ordinal: c_int,
    pub(crate) target: Target,
    facts: Arc<Facts>,
}

impl longshore_plugin_streams::Physical for AmdgpuPhysical {
    fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    fn ordinal(&self) -> i32 {
        self.ordinal
    }
}

impl AmdgpuPhysical {
    /// Queries the device's constant properties. `pools` is whether memory may come from pools.
    ///
    /// # Errors
    /// Errors of HIP; `BackendFailure` if HIP does not report the device's architecture.
    pub(crate) fn query(
        driver: &Arc<Driver>,
        ordinal: c_int,
        pools: bool,
    ) -> Result<AmdgpuPhysical> {
        let doing = format!("querying HIP device {ordinal}");
        let failed = |failure| driver_error(&**driver, &doing, failure);
        let ask = DeviceQueries { driver, ordinal };
        let number = |which| ask.attribute(which).map(|value| value.max(0) as u32).map_err(failed);
        // A feature that an older HIP does not know counts as absent.
        let optional = |which| match ask.attribute(which) {
            Err(failure) if failure.is(Code::INVALID_VALUE) => Ok(0),
            value => value.map(|value| value.max(0) as u32).map_err(failed),
        };
        let three = |which: [c_uint; 3]| -> Result<[u32; 3]> {
            Ok([number(which[0])?, number(which[1])?, number(which[2])?])
        };
        let target = ask.target().map_err(failed)?.ok_or_else(|| {
            let message = format!("{doing}: its properties name no architecture, such as gfx90a");
            Error::new(ErrorCode::BackendFailure, message)
        })?;
        let shared_bytes = u64::from(number(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?);
        let pci = ask.pci().ok();
        let name = ask.name().map_err(failed)?;
        let facts = Facts {
            backend: "amdgpu",
            vendor: "AMD",
            vendor_id: VENDOR_ID,
            driver: format!("HIP {}", driver.version_text()),
            architecture: target.to_string(),
            integrated: ask.optional(attribute::INTEGRATED).is_some_and(|yes| yes != 0),
            uuid: ask.uuid(pci.as_deref()),
            pci,
            memory_bytes: ask.memory_bytes().map_err(failed)?,
            clocks: [attribute::CLOCK_RATE, attribute::MEMORY_CLOCK_RATE]
                .map(|which| ask.megahertz(which)),
            half: true,
            limits: Limits {
                groups: three([
                    attribute::MAX_GRID_DIM_X,
                    attribute::MAX_GRID_DIM_Y,
                    attribute::MAX_GRID_DIM_Z,
                ])?,
                items: three([
                    attribute::MAX_BLOCK_DIM_X,
                    attribute::MAX_BLOCK_DIM_Y,
                    attribute::MAX_BLOCK_DIM_Z,
                ])?,
                group_items: number(attribute::MAX_THREADS_PER_BLOCK)?,
                shared_bytes,
                most_shared_bytes: shared_bytes,
                multiprocessors: number(attribute::MULTIPROCESSOR_COUNT)?,
            },
            features: Features {
                cooperative: optional(attribute::COOPERATIVE_LAUNCH)? != 0,
                managed: optional(attribute::MANAGED_MEMORY)? != 0,
                pools: pools && optional(attribute::MEMORY_POOLS_SUPPORTED)? != 0,
                clusters: false,
                pageable: optional(attribute::PAGEABLE_MEMORY_ACCESS)? != 0,
            },
            properties: ask.properties(),
            name,
        };
        Ok(AmdgpuPhysical { ordinal, target, facts: Arc::new(facts) })
    }
}

/// Queries about a device.
struct DeviceQueries<'a> {
    driver: &'a Driver,
    ordinal: c_int,
}

impl DeviceQueries<'_> {
    fn attribute(&self, which: c_uint) -> std::result::Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: the output is a local variable, and none of the queried attributes is larger.
        unsafe { self.driver.hipDeviceGetAttribute(&mut value, which, self.ordinal) }?;
        Ok(value)
    }

    /// Returns an attribute that the device may lack.
    fn optional(&self, which: c_uint) -> Option<c_int> {
        self.attribute(which).ok()
    }

    fn megahertz(&self, which: c_uint) -> Option<u32> {
        let kilohertz = self.optional(which).filter(|rate| *rate > 0)?;
        Some(kilohertz as u32 / 1000)
    }

    /// Returns the processor with its features. Only HIP's properties have them, in a layout that
    /// depends on the version. The text can be recognized among all other contents.
    fn target(&self) -> std::result::Result<Option<Target>, Failure> {
        let mut properties = Box::new(Properties { bytes: [0; 8192] });
        // SAFETY: the output is a local variable, and as large as the structure of any version.
        unsafe {
            match self.driver.hipGetDevicePropertiesR0600(&mut *properties, self.ordinal) {
                Err(failure) if failure.result.is_none() => {
                    self.driver.hipGetDeviceProperties(&mut *properties, self.ordinal)
                }
                asked => asked,
            }
        }?;
        Ok(target_in(&properties.bytes[NAME_BYTES..]))
    }

    fn name(&self) -> std::result::Result<String, Failure> {
        text(|buffer, bytes| {
            // SAFETY: the buffer has `bytes` bytes.
            unsafe { self.driver.hipDeviceGetName(buffer, bytes, self.ordinal) }
        })
    }

    /// Returns the PCI address, such as "0000:65:00.0".
    fn pci(&self) -> std::result::Result<String, Failure> {
        let found = text(|buffer, bytes| {
            // SAFETY: the buffer has `bytes` bytes.
            unsafe { self.driver.hipDeviceGetPCIBusId(buffer, bytes, self.ordinal) }
        });
        found.map(|address| address.to_ascii_lowercase())
    }

    /// Returns the device's permanent ID, or else one made from its PCI address.
    fn uuid(&self, pci: Option<&str>) -> [u8; 16] {
        let mut uuid = Uuid::default();
        // SAFETY: the output is a local variable.
        let asked = unsafe { self.driver.hipDeviceGetUuid(&mut uuid, self.ordinal) };
        match asked.is_ok() && uuid.bytes.iter().all(u8::is_ascii_hexdigit) {
            true => uuid.bytes,
            false => place_uuid(pci, self.ordinal),
        }
    }

    fn memory_bytes(&self) -> std::result::Result<u64, Failure> {
        let mut bytes = 0;
        // SAFETY: the output is a local variable.
        unsafe { self.driver.hipDeviceTotalMem(&mut bytes, self.ordinal) }?;
        Ok(bytes as u64)
    }

    fn properties(&self) -> String {
        let known = [
            ("ecc", attribute::ECC_ENABLED),
            ("wavefront_size", attribute::WARP_SIZE),
            ("threads_per_compute_unit", attribute::MAX_THREADS_PER_MULTIPROCESSOR),
            ("registers_per_group", attribute::MAX_REGISTERS_PER_BLOCK),
            ("lds_bytes_per_group", attribute::MAX_SHARED_MEMORY_PER_BLOCK),
            ("lds_bytes_per_compute_unit", attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            ("constant_bytes", attribute::TOTAL_CONSTANT_MEMORY),
            ("l2_cache_bytes", attribute::L2_CACHE_SIZE),
            ("memory_bus_bits", attribute::MEMORY_BUS_WIDTH),
            ("concurrent_kernels", attribute::CONCURRENT_KERNELS),
            ("compute_mode", attribute::COMPUTE_MODE),
            ("managed_memory", attribute::MANAGED_MEMORY),
            ("concurrent_managed_access", attribute::CONCURRENT_MANAGED_ACCESS),
            ("pageable_memory_access", attribute::PAGEABLE_MEMORY_ACCESS),
            ("memory_pools", attribute::MEMORY_POOLS_SUPPORTED),
        ];
        lines(&known, |which| self.optional(which))
    }
}

/// Returns the first NUL-terminated text in the properties that is a target ID.
fn target_in(properties: &[u8]) -> Option<Target> {
    let mut texts = properties.split(|byte| *byte == 0);
    texts.find_map(|text| {
        let start = text.windows(3).position(|word| word == b"gfx")?;
        Target::parse(std::str::from_utf8(&text[start..]).ok()?).ok()
    })
}

/// Returns an ID for a device without one, from its PCI address or its number.
fn place_uuid(pci: Option<&str>, ordinal: c_int) -> [u8; 16] {
    let place = pci.map_or_else(|| format!("hip{ordinal}"), |pci| format!("pci{pci}"));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(place.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_found_wherever_it_stands() {
        let mut properties = vec![0u8; 2000];
        properties[300..304].copy_from_slice(&65536u32.to_le_bytes());
        assert_eq!(target_in(&properties), None);
        properties[1160..1182].copy_from_slice(b"gfx90a:sramecc+:xnack-");
        // The last byte of a number before the text.
        properties[1159] = 7;
        assert_eq!(target_in(&properties).unwrap().to_string(), "gfx90a:sramecc+:xnack-");
        assert_eq!(target_in(b"gfx-of-some-kind\0gfx1100\0").unwrap().to_string(), "gfx1100");
    }

    #[test]
    fn places_tell_devices_apart() {
        assert_eq!(&place_uuid(Some("0000:65:00.0"), 0), b"pci0000:65:00.0\0");
        assert_ne!(place_uuid(None, 0), place_uuid(None, 1));
    }
}
