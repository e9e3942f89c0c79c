//! Queries.

use super::context::{Context, if_supported, or_skip};
use super::{Check, behaviour_list, ensure, ensure_eq};
use longshore::{DeviceInfo, ErrorCode, InfoValue, PlatformInfo};
use longshore_plugin_api::{InfoType, Result};

behaviour_list! { "info":
    "every device query has an answer of its type, or none"
        ["P-20"] every_query_is_answered_in_its_type;
    "a device reports its name, vendor, driver and type"
        ["P-20"] a_device_reports_its_name;
    "answers are the same before and after opening" ["P-19"] answers_do_not_change_by_opening;
    "each device has a unique id of its own" ["P-21"] unique_ids_are_unique;
    "numbers are plausible" ["P-20"] numbers_are_plausible;
    "a platform replies to every query with a text" ["P-20"] a_platform_replies;
    "a device can be asked for its peers" ["P-56"] peers_can_be_asked_for;
    "the driver's handles of a device stay the same" ["P-80"] handles_of_the_driver_stay_the_same;
    "the target of a device's code stays the same" ["P-82"] the_target_of_code_stays_the_same;
}

fn every_query_is_answered_in_its_type(cx: &Context) -> Check {
    for query in DeviceInfo::ALL {
        if let Some(value) = answered(cx.device().info(*query))? {
            let expected = query.value_type();
            ensure!(has_type(&value, expected), "{query:?}: {value:?} is not {expected:?}");
        }
    }
    Ok(())
}

fn a_device_reports_its_name(cx: &Context) -> Check {
    for query in [DeviceInfo::Name, DeviceInfo::Vendor, DeviceInfo::DriverVersion] {
        let value = cx.device().info(query)?;
        let text = value.as_text().unwrap_or_default();
        ensure!(!text.is_empty(), "{query:?} is empty");
        ensure!(!text.contains('\0'), "{query:?} contains a NUL: {text:?}");
    }
    let kind = cx.device().info(DeviceInfo::Type)?.as_u64();
    ensure!(matches!(kind, Some(2..=4 | 0x1000)), "Type is {kind:?}, expected a DeviceType");
    Ok(())
}

fn answers_do_not_change_by_opening(cx: &Context) -> Check {
    let entry = cx.entry()?;
    for query in DeviceInfo::ALL.iter().filter(|query| **query != DeviceInfo::FreeMemory) {
        let (before, after) = (entry.info(*query), cx.device().info(*query));
        ensure_eq!(after.ok(), before.ok(), "{query:?}");
    }
    Ok(())
}

fn unique_ids_are_unique(cx: &Context) -> Check {
    let mut seen = Vec::new();
    for entry in cx.host().devices() {
        if let Some(uid) = answered(entry.info(DeviceInfo::Uid))? {
            ensure!(!seen.contains(&uid), "{} has the id {uid:?} of another", entry.name());
            seen.push(uid);
        }
    }
    Ok(())
}

fn numbers_are_plausible(cx: &Context) -> Check {
    let number = |query| -> Result<Option<u64>> {
        Ok(answered(cx.device().info(query))?.and_then(|value| value.as_u64()))
    };
    for query in [
        DeviceInfo::MaxWorkGroupSize,
        DeviceInfo::MaxWorkSize,
        DeviceInfo::NumComputeUnits,
        DeviceInfo::GlobalMemSize,
        DeviceInfo::MaxMemAllocSize,
    ] {
        ensure!(number(query)? != Some(0), "{query:?} is 0");
    }
    let bits = number(DeviceInfo::AddressBits)?;
    ensure!(matches!(bits, None | Some(32..=64)), "AddressBits is {bits:?}");
    let (free, total) = (number(DeviceInfo::FreeMemory)?, number(DeviceInfo::GlobalMemSize)?);
    if let (Some(free), Some(total)) = (free, total) {
        ensure!(free <= total, "{free} bytes are free, more than the total of {total}");
    }
    let per_dimension = answered(cx.device().info(DeviceInfo::MaxWorkGroupSizePerDimension))?;
    if let Some(InfoValue::Dimensions(most)) = per_dimension {
        ensure!(!most.contains(&0), "MaxWorkGroupSizePerDimension is {most:?}");
    }
    Ok(())
}

fn a_platform_replies(cx: &Context) -> Check {
    for entry in cx.host().devices() {
        for &query in PlatformInfo::ALL {
            let text = entry.platform_info(query)?;
            ensure!(!text.is_empty(), "{query:?} of {}'s platform is empty", entry.name());
        }
    }
    Ok(())
}

fn peers_can_be_asked_for(cx: &Context) -> Check {
    let other = cx.other()?;
    if if_supported(cx.device().can_access(other))? == Some(true) {
        cx.device().enable_access(other)?;
        cx.device().enable_access(other)?;
    }
    Ok(())
}

fn handles_of_the_driver_stay_the_same(cx: &Context) -> Check {
    let device = cx.device();
    let both = || Ok((device.driver_device()?, device.driver_context()?));
    let before: (u64, u64) = or_skip(both())?;
    cx.queue()?.synchronize()?;
    ensure_eq!(both()?, before, "the driver's handles of the device");
    Ok(())
}

fn the_target_of_code_stays_the_same(cx: &Context) -> Check {
    let device = cx.device();
    let before = or_skip(device.code_target())?;
    ensure!(before.triple.split('-').count() >= 3, "the triple is '{}'", before.triple);
    cx.queue()?.synchronize()?;
    ensure_eq!(device.code_target()?, before, "the target of code");
    Ok(())
}

/// Returns `None` if the device has no reply, which is not a failure.
fn answered(result: Result<InfoValue>) -> Result<Option<InfoValue>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == ErrorCode::Unimplemented => Ok(None),
        Err(error) => Err(error),
    }
}

fn has_type(value: &InfoValue, expected: InfoType) -> bool {
    matches!(
        (value, expected),
        (InfoValue::Text(_), InfoType::Text)
            | (InfoValue::Bool(_), InfoType::Bool)
            | (InfoValue::U32(_), InfoType::U32)
            | (InfoValue::U64(_), InfoType::U64)
            | (InfoValue::Dimensions(_), InfoType::Dimensions)
            | (InfoValue::Uuid(_), InfoType::Uuid)
    )
}
