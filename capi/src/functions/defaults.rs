//! Default answers to queries about devices: the interface promises an answer to each query, even
//! if the plugin has none.

use crate::info::InfoReply;
use longshore::{DeviceEntry, DeviceInfo, Error, ErrorCode};

/// Returns whether this error of a plugin means that the plugin has no answer.
pub(crate) fn is_none(error: &Error) -> bool {
    use ErrorCode::{InvalidEnumeration, Unimplemented, Unsupported};
    matches!(error.code(), Unimplemented | Unsupported | InvalidEnumeration)
}

/// Returns the answer to a query without one from the plugin: 0, 1 for counts that cannot be less,
/// or a text that is not empty. The device has the smallest set of abilities. The native width of
/// vectors is 1 element, as in LLVM's plugins. `None` for a query outside the interface.
pub(crate) fn reply(entry: &DeviceEntry, query: DeviceInfo) -> Option<InfoReply> {
    let text = |text: &str| Some(InfoReply::Text(text.to_owned()));
    let other = |query: DeviceInfo| entry.info(query).ok();
    let facts = entry.facts();
    match query {
        DeviceInfo::Name => text(&format!("{}:{}", facts.backend, facts.index)),
        DeviceInfo::Uid => text(&format!("{}-{}", facts.backend, facts.index)),
        DeviceInfo::ProductName => {
            let name = other(DeviceInfo::Name);
            text(name.as_ref().and_then(|name| name.as_text()).unwrap_or("unknown"))
        }
        DeviceInfo::Vendor | DeviceInfo::DriverVersion => text("unknown"),
        DeviceInfo::MaxWorkGroupSize | DeviceInfo::MaxWorkSize | DeviceInfo::NumComputeUnits => {
            Some(InfoReply::U32(1))
        }
        DeviceInfo::MaxWorkGroupSizePerDimension | DeviceInfo::MaxWorkSizePerDimension => {
            Some(InfoReply::Dimensions([1; 3]))
        }
        DeviceInfo::NativeVectorWidthChar
        | DeviceInfo::NativeVectorWidthShort
        | DeviceInfo::NativeVectorWidthInt
        | DeviceInfo::NativeVectorWidthLong
        | DeviceInfo::NativeVectorWidthFloat
        | DeviceInfo::NativeVectorWidthDouble => Some(InfoReply::U32(1)),
        DeviceInfo::VendorId
        | DeviceInfo::MaxClockFrequency
        | DeviceInfo::MemoryClockRate
        | DeviceInfo::SingleFpConfig
        | DeviceInfo::DoubleFpConfig
        | DeviceInfo::HalfFpConfig
        | DeviceInfo::NativeVectorWidthHalf => Some(InfoReply::U32(0)),
        DeviceInfo::AddressBits => Some(InfoReply::U32(usize::BITS)),
        DeviceInfo::MaxMemAllocSize => {
            let total = other(DeviceInfo::GlobalMemSize).and_then(|total| total.as_u64());
            Some(InfoReply::U64(total.unwrap_or(0)))
        }
        DeviceInfo::GlobalMemSize | DeviceInfo::WorkGroupLocalMemSize => Some(InfoReply::U64(0)),
        DeviceInfo::SingleFpSupport
        | DeviceInfo::DoubleFpSupport
        | DeviceInfo::HalfFpSupport
        | DeviceInfo::CooperativeLaunchSupport => Some(InfoReply::Bool(false)),
        _ => None,
    }
}
