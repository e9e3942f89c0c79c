//! The platform: the number of devices of the CPU, and their properties.

use crate::check::{Checker, Kinds};
use crate::cpu::Cpu;
use crate::execute::Pool;
use crate::kernel::{MOST_GROUP_ITEMS, SHARED_BYTES};
use crate::{HostBackend, HostDevice, LinkSettings, physical};
use longshore_plugin_api::{
    DeviceInfo, DeviceType, Error, ErrorCode, InfoValue, Platform, PlatformInfo, Result,
};
use std::sync::Arc;

/// Most devices of the CPU.
const MOST_DEVICES: u32 = 64;

/// Memory clock, the same value as LLVM's host plugin: only the firmware knows the true clock.
const MEMORY_CLOCK_MHZ: u32 = 64;

/// The CPU as a platform of one or more equal devices.
///
/// LLVM: the platform of backend `OL_PLATFORM_BACKEND_HOST`, which has 4 devices.
pub struct HostPlatform {
    devices: u32,
    cpu: Arc<Cpu>,
    links: LinkSettings,
    pool: Arc<Pool>,
    checker: Option<Arc<Checker>>,
}

/// The user's settings.
#[derive(Default)]
pub(crate) struct Settings {
    /// `DEVICES`: the number of devices of the CPU; 1 by default.
    pub(crate) devices: Option<String>,
    /// `SYMBOLS`: additional names that images may use
    /// ([`AllowedNames`](crate::AllowedNames)).
    pub(crate) symbols: Option<String>,
    /// `THREADS`: the number of threads of a launch; by default the number of cores.
    pub(crate) threads: Option<String>,
    /// `CHECK`: the kinds of errors of kernels to look for; none by default.
    pub(crate) check: Option<String>,
    /// `PIN`: whether the threads stay on their cores; 0 by default.
    pub(crate) pin: Option<String>,
    /// `DEBUG`: the receivers of reports on linked code ([`LinkSettings`]); none by default.
    pub(crate) debug: Option<String>,
}

impl HostPlatform {
    /// Creates the platform for these settings.
    ///
    /// # Errors
    /// `InvalidValue` for a malformed setting.
    pub(crate) fn connect(settings: &Settings) -> Result<HostPlatform> {
        let devices = settings.devices.as_deref().map_or(Ok(1), parse_devices)?;
        let links = LinkSettings::parse(settings.symbols.as_deref(), settings.debug.as_deref())?;
        let cpu = Arc::new(Cpu::read());
        let pool = Pool::new(settings.threads.as_deref(), settings.pin.as_deref(), cpu.cores)?;
        let checker = Kinds::parse(settings.check.as_deref())?.map(Checker::new);
        Ok(HostPlatform { devices, cpu, links, pool, checker })
    }
}

impl Platform<HostBackend> for HostPlatform {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        let answer = match query {
            PlatformInfo::Name => std::env::consts::ARCH,
            PlatformInfo::VendorName => "Longshore",
            PlatformInfo::Version => env!("CARGO_PKG_VERSION"),
            query => return Err(query.unanswered_by("the CPU")),
        };
        Ok(answer.to_owned())
    }

    fn device_count(&self) -> u32 {
        self.devices
    }

    /// Returns a property of a device. All except [`DeviceInfo::FreeMemory`] are computed once, at
    /// their first query.
    fn device_info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let cpu = &*self.cpu;
        let text = |text: &str| InfoValue::Text(text.to_owned());
        let value = match query {
            DeviceInfo::Type => InfoValue::U32(DeviceType::Host as u32),
            DeviceInfo::Name | DeviceInfo::ProductName => text(&cpu.name),
            DeviceInfo::Uid => InfoValue::Text(format!("host-{index}")),
            DeviceInfo::Uuid => InfoValue::Uuid(cpu.uuid(index)),
            DeviceInfo::Vendor => text(&cpu.vendor),
            DeviceInfo::VendorId => InfoValue::U32(cpu.vendor_id.ok_or_else(|| none(query))?),
            DeviceInfo::DriverVersion => text(env!("CARGO_PKG_VERSION")),
            DeviceInfo::Architecture => text(std::env::consts::ARCH),
            DeviceInfo::Properties => text(cpu.properties()),
            DeviceInfo::NumComputeUnits => InfoValue::U32(cpu.cores),
            DeviceInfo::MaxClockFrequency => InfoValue::U32(cpu.clock_mhz()),
            DeviceInfo::MemoryClockRate => InfoValue::U32(MEMORY_CLOCK_MHZ),
            DeviceInfo::AddressBits => InfoValue::U32(usize::BITS),
            DeviceInfo::CooperativeLaunchSupport
            | DeviceInfo::HostAccess
            | DeviceInfo::UnifiedMemory => InfoValue::Bool(true),
            DeviceInfo::MaxMemAllocSize | DeviceInfo::GlobalMemSize => {
                InfoValue::U64(cpu.memory_bytes())
            }
            DeviceInfo::FreeMemory => InfoValue::U64(physical::free_bytes()),
            DeviceInfo::WorkGroupLocalMemSize => InfoValue::U64(SHARED_BYTES),
            _ => sizes(query).or_else(|| arithmetic(cpu, query)).ok_or_else(|| none(query))?,
        };
        Ok(value)
    }

    fn open(&self, index: u32) -> Result<HostDevice> {
        let (cpu, links) = (Arc::clone(&self.cpu), self.links.clone());
        let (pool, checker) = (Arc::clone(&self.pool), self.checker.clone());
        Ok(HostDevice::new(index, cpu, links, pool, checker))
    }
}

/// Returns the limits of groups and of their number, which only its type limits.
fn sizes(query: DeviceInfo) -> Option<InfoValue> {
    Some(match query {
        DeviceInfo::MaxWorkGroupSize => InfoValue::U32(MOST_GROUP_ITEMS),
        DeviceInfo::MaxWorkGroupSizePerDimension => InfoValue::Dimensions([MOST_GROUP_ITEMS; 3]),
        DeviceInfo::MaxWorkSize => InfoValue::U32(u32::MAX),
        DeviceInfo::MaxWorkSizePerDimension => InfoValue::Dimensions([u32::MAX; 3]),
        _ => return None,
    })
}

/// Returns properties of floating point and vectors.
fn arithmetic(cpu: &Cpu, query: DeviceInfo) -> Option<InfoValue> {
    let features = cpu.features();
    let number = match query {
        DeviceInfo::SingleFpConfig => features.float_config,
        DeviceInfo::DoubleFpConfig => features.float_config,
        DeviceInfo::HalfFpConfig => features.half_config(),
        DeviceInfo::NativeVectorWidthChar => features.small_integer_bytes,
        DeviceInfo::NativeVectorWidthShort => features.small_integer_bytes / 2,
        DeviceInfo::NativeVectorWidthInt => features.integer_bytes / 4,
        DeviceInfo::NativeVectorWidthLong => features.integer_bytes / 8,
        DeviceInfo::NativeVectorWidthFloat => features.float_bytes / 4,
        DeviceInfo::NativeVectorWidthDouble => features.float_bytes / 8,
        DeviceInfo::NativeVectorWidthHalf => features.half_bytes / 2,
        DeviceInfo::SingleFpSupport | DeviceInfo::DoubleFpSupport => {
            return Some(InfoValue::Bool(true));
        }
        DeviceInfo::HalfFpSupport => return Some(InfoValue::Bool(features.half_bytes > 0)),
        _ => return None,
    };
    Some(InfoValue::U32(number))
}

fn parse_devices(value: &str) -> Result<u32> {
    let number = value.trim().parse().ok().filter(|n| (1..=MOST_DEVICES).contains(n));
    number.ok_or_else(|| {
        let message = format!(
            "LONGSHORE_HOST_DEVICES is '{value}', expected a number from 1 to {MOST_DEVICES}"
        );
        Error::new(ErrorCode::InvalidValue, message)
    })
}

fn none(query: DeviceInfo) -> Error {
    query.unanswered_by("the CPU")
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::InfoType;

    fn connect(devices: Option<&str>) -> Result<HostPlatform> {
        let devices = devices.map(str::to_owned);
        HostPlatform::connect(&Settings { devices, ..Settings::default() })
    }

    #[test]
    fn every_query_is_answered_in_its_type() {
        let platform = connect(None).unwrap();
        for &query in DeviceInfo::ALL {
            let may_lack = matches!(query, DeviceInfo::PciAddress | DeviceInfo::VendorId);
            let answer = match platform.device_info(0, query) {
                Err(error) if may_lack => {
                    assert_eq!(error.code(), ErrorCode::Unimplemented);
                    continue;
                }
                answer => answer.unwrap(),
            };
            let kind = query.value_type();
            assert_eq!(InfoValue::from_bytes(kind, answer.to_bytes()).as_ref(), Ok(&answer));
            match kind {
                InfoType::Text => assert_ne!(answer.as_text(), Some(""), "{query:?}"),
                InfoType::U32 | InfoType::U64 if query != DeviceInfo::NativeVectorWidthHalf => {
                    assert_ne!(answer.as_u64(), Some(0), "{query:?}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_setting_says_how_many_devices_there_are() {
        assert_eq!(connect(None).unwrap().device_count(), 1);
        assert_eq!(connect(Some("4")).unwrap().device_count(), 4);
        for wrong in ["", "0", "65", "-1", "four", "4294967297"] {
            let error = connect(Some(wrong)).err().unwrap();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(&format!("'{wrong}'")), "{error}");
        }
    }

    #[test]
    fn devices_differ_in_identity_and_stay_the_same() {
        let platform = connect(Some("2")).unwrap();
        let again = connect(Some("3")).unwrap();
        for query in [DeviceInfo::Uuid, DeviceInfo::Uid] {
            let answer = |platform: &HostPlatform, i| platform.device_info(i, query).unwrap();
            assert_ne!(answer(&platform, 0), answer(&platform, 1));
            assert_eq!(answer(&platform, 1), answer(&again, 1));
        }
    }
}
