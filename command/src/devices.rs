//! `longshore devices`.

use crate::common::{CommonOptions, no_device};
use crate::device_facts::{self, DeviceFacts};
use crate::failure::Failure;
use crate::{output, table};
use clap::Args;
use longshore::units;
use longshore::{DeviceEntry, DeviceInfo};

/// List the usable devices, the preferred one first
#[derive(Args)]
pub(crate) struct Devices {
    /// Print all facts that the devices report as JSON
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(crate) fn execute(&self, common: &CommonOptions) -> Result<(), Failure> {
        let host = common.host()?;
        let devices = host.devices();
        if self.json {
            let facts: Vec<_> = devices.iter().map(DeviceFacts::new).collect();
            output::print_json(&facts)?;
        }
        if devices.is_empty() {
            return Err(no_device(&host));
        }
        if self.json {
            return Ok(());
        }
        let header =
            ["DEVICE", "NAME", "KIND", "ARCHITECTURE", "COMPUTE UNITS", "MEMORY", "DRIVER"];
        output::print(&table::render(header, devices.iter().map(row).collect()))
    }
}

fn row(device: &DeviceEntry) -> [String; 7] {
    let facts = device.facts();
    let text = |query| {
        let reply = device.info(query).ok();
        reply.and_then(|reply| reply.as_text().map(str::to_owned)).unwrap_or_default()
    };
    let number = |query| device.info(query).ok().and_then(|reply| reply.as_u64());
    let units = number(DeviceInfo::NumComputeUnits).map(|count| count.to_string());
    let memory = number(DeviceInfo::GlobalMemSize).map(units::bytes);
    [
        device_facts::id(device),
        facts.name.clone(),
        device_facts::kind_name(facts.kind).to_owned(),
        text(DeviceInfo::Architecture),
        units.unwrap_or_default(),
        memory.unwrap_or_default(),
        text(DeviceInfo::DriverVersion),
    ]
}
