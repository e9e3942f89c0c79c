//! The properties of a physical device, which are known without opening it.

use crate::features::Features;
use crate::instance::{Instance, Version};
use ash::vk;
use longshore_format_spirv::{Kernel, SubgroupSize};
use longshore_plugin_api::{DeviceInfo, DeviceType, Error, FpCapability, InfoValue, Result};
use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::sync::Arc;

/// A physical device and all its constant properties.
pub(crate) struct PhysicalDevice {
    pub(crate) instance: Arc<Instance>,
    pub(crate) raw: vk::PhysicalDevice,
    pub(crate) name: String,
    /// The lower of the instance's and the device's version.
    pub(crate) version: u32,
    pub(crate) properties: vk::PhysicalDeviceProperties,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    pub(crate) families: Families,
    pub(crate) driver_name: String,
    driver_info: String,
    uuid: [u8; 16],
    pci: Option<String>,
    compute_units: Option<u32>,
    extensions: Vec<CString>,
}

/// Limits of launches and allocations.
pub(crate) struct Limits {
    pub(crate) push_constant_bytes: u32,
    pub(crate) groups: [u32; 3],
    pub(crate) items: [u32; 3],
    pub(crate) group_items: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) storage_range: u64,
    pub(crate) uniform_range: u64,
    pub(crate) storage_alignment: u64,
    pub(crate) uniform_alignment: u64,
    pub(crate) allocation_bytes: u64,
    /// Largest size in bytes of a buffer and its memory, in any memory type.
    pub(crate) buffer_bytes: u64,
    /// Largest size in bytes of a buffer in host memory.
    pub(crate) host_allocation_bytes: u64,
    pub(crate) heap_bytes: u64,
    /// Granularity of imported host memory, if the device can import it.
    pub(crate) import_alignment: Option<u64>,
    pub(crate) subgroup_size: u32,
    pub(crate) subgroup_sizes: (u32, u32),
    /// Whether a kernel can require one of these sizes, and the largest number of sub-groups of a
    /// group then.
    pub(crate) requires_subgroup_sizes: bool,
    pub(crate) group_subgroups: u32,
    /// Nanoseconds per tick, and the number of valid bits of a timestamp.
    pub(crate) timestamp_period: f32,
    pub(crate) timestamp_bits: u32,
}

/// The queue families in use.
pub(crate) struct Families {
    /// The family for all work.
    pub(crate) compute: u32,
    pub(crate) compute_queues: u32,
    /// The family for copies alone, if one exists.
    pub(crate) transfer: Option<u32>,
}

/// The reason, as text for the user, that a physical device is passed over.
pub(crate) struct Unsuitable(pub(crate) String);

impl PhysicalDevice {
    /// Queries a physical device.
    pub(crate) fn query(
        instance: &Arc<Instance>,
        raw: vk::PhysicalDevice,
    ) -> Result<PhysicalDevice, Unsuitable> {
        let vk = &instance.raw;
        // SAFETY: the device belongs to this instance.
        let properties = unsafe { vk.get_physical_device_properties(raw) };
        let name = text(properties.device_name_as_c_str());
        let unsuitable = |why: String| Unsuitable(format!("{name} ({why})"));
        let version = properties.api_version.min(instance.version);
        if version < vk::API_VERSION_1_2 {
            let found = Version(properties.api_version);
            return Err(unsuitable(format!("version {found}, expected at least 1.2")));
        }
        // SAFETY: as above. A device whose extensions cannot be listed is used without them.
        let listed = unsafe { vk.enumerate_device_extension_properties(raw) }.unwrap_or_default();
        let extensions: Vec<CString> = listed
            .iter()
            .filter_map(|known| known.extension_name_as_c_str().ok().map(CStr::to_owned))
            .collect();
        let has = |name: &CStr| extensions.iter().any(|known| known.as_c_str() == name);
        let features = Features::query(vk, raw, version, has);
        if let Some(missing) = features.missing_basics() {
            return Err(unsuitable(format!("lacks the feature {missing}")));
        }
        // SAFETY: as above.
        let (memory, families) = unsafe {
            (
                vk.get_physical_device_memory_properties(raw),
                vk.get_physical_device_queue_family_properties(raw),
            )
        };
        let chosen = choose_families(&families)
            .ok_or_else(|| unsuitable("no queue family can compute".to_owned()))?;
        let extended = ExtendedProperties::query(vk, raw, version, has);
        let limits = limits(&properties, &extended, &memory, &families[chosen.compute as usize]);
        Ok(PhysicalDevice {
            instance: Arc::clone(instance),
            raw,
            version,
            limits,
            features,
            memory,
            families: chosen,
            driver_name: extended.driver_name,
            driver_info: extended.driver_info,
            uuid: extended.uuid,
            pci: extended.pci,
            compute_units: extended.compute_units,
            properties,
            extensions,
            name,
        })
    }

    /// Returns whether the device has an extension.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.extensions.iter().any(|known| known.as_c_str() == name)
    }

    /// Returns the size of sub-groups that a pipeline must require, if the kernel depends on the
    /// size and the device has several.
    pub(crate) fn subgroup_size_to_require(&self, kernel: &Kernel) -> Option<u32> {
        let wanted = match kernel.subgroup_size {
            SubgroupSize::Any => None,
            SubgroupSize::Usual => Some(self.limits.subgroup_size),
            SubgroupSize::Required(size) => Some(size),
        };
        wanted.filter(|_| self.can_require_subgroup_size())
    }

    /// Returns whether a pipeline can require a size of sub-groups, and the device has several.
    pub(crate) fn can_require_subgroup_size(&self) -> bool {
        let (least, most) = self.limits.subgroup_sizes;
        self.features.has_subgroup_size_control()
            && self.limits.requires_subgroup_sizes
            && least != most
    }

    /// Returns a property of the device.
    ///
    /// # Errors
    /// `Unimplemented` for properties that Vulkan does not report.
    pub(crate) fn info(&self, index: u32, query: DeviceInfo) -> Result<InfoValue> {
        let limits = &self.limits;
        let text = |text: &str| InfoValue::Text(text.to_owned());
        let items = limits.items;
        let value = match query {
            DeviceInfo::Type => InfoValue::U32(self.device_type() as u32),
            DeviceInfo::Name | DeviceInfo::ProductName => text(&self.name),
            DeviceInfo::Uid => InfoValue::Text(format!("vulkan-{index}-{}", hex(&self.uuid))),
            DeviceInfo::Uuid => InfoValue::Uuid(self.uuid),
            DeviceInfo::Vendor => InfoValue::Text(vendor(self.properties.vendor_id)),
            DeviceInfo::VendorId => InfoValue::U32(self.properties.vendor_id),
            DeviceInfo::DriverVersion => {
                InfoValue::Text(format!("{} {}", self.driver_name, self.driver_info))
            }
            DeviceInfo::Architecture => {
                let (version, next) = (self.version, vk::API_VERSION_1_3);
                text(if version >= next { "vulkan1.3" } else { "vulkan1.2" })
            }
            DeviceInfo::Properties => InfoValue::Text(self.more_properties()),
            DeviceInfo::PciAddress => text(self.pci.as_ref().ok_or_else(|| none(query))?),
            DeviceInfo::NumComputeUnits => {
                InfoValue::U32(self.compute_units.ok_or_else(|| none(query))?)
            }
            DeviceInfo::MaxWorkGroupSize => InfoValue::U32(limits.group_items),
            DeviceInfo::MaxWorkGroupSizePerDimension => InfoValue::Dimensions(items),
            DeviceInfo::MaxWorkSize => {
                InfoValue::U32(limits.groups[0].saturating_mul(limits.group_items))
            }
            DeviceInfo::MaxWorkSizePerDimension => {
                InfoValue::Dimensions(std::array::from_fn(|axis| {
                    limits.groups[axis].saturating_mul(items[axis])
                }))
            }
            DeviceInfo::AddressBits => InfoValue::U32(64),
            DeviceInfo::MaxMemAllocSize => InfoValue::U64(limits.allocation_bytes),
            DeviceInfo::GlobalMemSize => InfoValue::U64(limits.heap_bytes),
            DeviceInfo::FreeMemory => InfoValue::U64(self.free_bytes().ok_or_else(|| none(query))?),
            DeviceInfo::WorkGroupLocalMemSize => InfoValue::U64(limits.shared_bytes.into()),
            DeviceInfo::CooperativeLaunchSupport
            | DeviceInfo::HostAccess
            | DeviceInfo::UnifiedMemory => InfoValue::Bool(false),
            _ => self.arithmetic(query).ok_or_else(|| none(query))?,
        };
        Ok(value)
    }

    fn device_type(&self) -> DeviceType {
        match self.properties.device_type {
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceType::IntegratedGpu,
            vk::PhysicalDeviceType::CPU => DeviceType::Cpu,
            _ => DeviceType::Gpu,
        }
    }

    /// Returns properties of floating point. Vulkan does not report native widths of vectors.
    fn arithmetic(&self, query: DeviceInfo) -> Option<InfoValue> {
        let (features, controls) = (&self.features, self.features.float_controls());
        let config = |preserve, rte, rtz, denorm| {
            let bits = [
                (preserve, FpCapability::InfNan),
                (rte, FpCapability::RoundToNearest),
                (rtz, FpCapability::RoundToZero),
                (denorm, FpCapability::Denorm),
            ];
            let present = bits.iter().filter(|(present, _)| *present != 0);
            InfoValue::U32(present.fold(0, |set, (_, bit)| set | *bit as u32))
        };
        let lacks = |has: bool| (!has).then_some(InfoValue::U32(0));
        Some(match query {
            DeviceInfo::SingleFpSupport => InfoValue::Bool(true),
            DeviceInfo::DoubleFpSupport => InfoValue::Bool(features.has_float64()),
            DeviceInfo::HalfFpSupport => InfoValue::Bool(features.has_float16()),
            DeviceInfo::SingleFpConfig => config(
                controls.shader_signed_zero_inf_nan_preserve_float32,
                controls.shader_rounding_mode_rte_float32,
                controls.shader_rounding_mode_rtz_float32,
                controls.shader_denorm_preserve_float32,
            ),
            DeviceInfo::DoubleFpConfig => lacks(features.has_float64()).unwrap_or_else(|| {
                config(
                    controls.shader_signed_zero_inf_nan_preserve_float64,
                    controls.shader_rounding_mode_rte_float64,
                    controls.shader_rounding_mode_rtz_float64,
                    controls.shader_denorm_preserve_float64,
                )
            }),
            DeviceInfo::HalfFpConfig => lacks(features.has_float16()).unwrap_or_else(|| {
                config(
                    controls.shader_signed_zero_inf_nan_preserve_float16,
                    controls.shader_rounding_mode_rte_float16,
                    controls.shader_rounding_mode_rtz_float16,
                    controls.shader_denorm_preserve_float16,
                )
            }),
            _ => return None,
        })
    }

    /// Returns the number of bytes that the device can still allocate, if it reports them
    /// (VK_EXT_memory_budget).
    fn free_bytes(&self) -> Option<u64> {
        if !self.has(ash::ext::memory_budget::NAME) {
            return None;
        }
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: the device belongs to this instance and has the extension.
        unsafe { self.instance.raw.get_physical_device_memory_properties2(self.raw, &mut memory) };
        let heap = device_heap(&self.memory)?;
        Some(budget.heap_budget[heap].saturating_sub(budget.heap_usage[heap]))
    }

    /// Returns one `name=value` per line.
    fn more_properties(&self) -> String {
        let (limits, mut lines) = (&self.limits, String::new());
        let (least, most) = limits.subgroup_sizes;
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(lines, "{name}={value}");
        };
        line("vulkan_version", &Version(self.properties.api_version));
        line("device_id", &format_args!("{:#x}", self.properties.device_id));
        line("subgroup_size", &limits.subgroup_size);
        line("subgroup_sizes", &format_args!("{least}..{most}"));
        line("push_constant_bytes", &limits.push_constant_bytes);
        line("max_groups", &format_args!("{:?}", limits.groups));
        line("storage_buffer_bytes", &limits.storage_range);
        line("storage_buffer_alignment", &limits.storage_alignment);
        line("compute_queues", &self.families.compute_queues);
        line("transfer_queue", &self.families.transfer.is_some());
        line("imports_host_memory", &limits.import_alignment.is_some());
        line("managed_memory", &managed_type(&self.memory).is_some());
        line("features", &self.features.names().join(","));
        lines.trim_end().to_owned()
    }
}

/// Returns the index of a memory type that is local to the device and that the host can access
/// coherently.
pub(crate) fn managed_type(memory: &vk::PhysicalDeviceMemoryProperties) -> Option<usize> {
    use vk::MemoryPropertyFlags as Flags;
    let wanted = Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    memory.memory_types_as_slice().iter().position(|kind| kind.property_flags.contains(wanted))
}

/// Properties from chained structures.
struct ExtendedProperties {
    driver_name: String,
    driver_info: String,
    uuid: [u8; 16],
    pci: Option<String>,
    compute_units: Option<u32>,
    allocation_bytes: u64,
    import_alignment: Option<u64>,
    subgroup_size: u32,
    subgroup_sizes: (u32, u32),
    requires_subgroup_sizes: bool,
    group_subgroups: u32,
}

impl ExtendedProperties {
    fn query(
        instance: &ash::Instance,
        raw: vk::PhysicalDevice,
        version: u32,
        has: impl Fn(&CStr) -> bool,
    ) -> ExtendedProperties {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut id = vk::PhysicalDeviceIDProperties::default();
        let mut maintenance3 = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default();
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
        let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut sms = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        let mut amd = vk::PhysicalDeviceShaderCorePropertiesAMD::default();
        let (has_pci, has_import) =
            (has(ash::ext::pci_bus_info::NAME), has(ash::ext::external_memory_host::NAME));
        let (has_sms, has_amd) =
            (has(ash::nv::shader_sm_builtins::NAME), has(ash::amd::shader_core_properties::NAME));
        let newer = version >= vk::API_VERSION_1_3;
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut driver)
            .push_next(&mut id)
            .push_next(&mut maintenance3)
            .push_next(&mut subgroup);
        if newer {
            all = all.push_next(&mut maintenance4).push_next(&mut sizes);
        }
        if has_pci {
            all = all.push_next(&mut pci);
        }
        if has_import {
            all = all.push_next(&mut import);
        }
        if has_sms {
            all = all.push_next(&mut sms);
        }
        if has_amd {
            all = all.push_next(&mut amd);
        }
        // SAFETY: the device belongs to this instance and knows the chained structures.
        unsafe { instance.get_physical_device_properties2(raw, &mut all) };
        let address = || {
            let (domain, bus) = (pci.pci_domain, pci.pci_bus);
            format!("{domain:04x}:{bus:02x}:{:02x}.{:x}", pci.pci_device, pci.pci_function)
        };
        let amd_units = amd.shader_engine_count
            * amd.shader_arrays_per_engine_count
            * amd.compute_units_per_shader_array;
        let buffer_bytes = if newer { maintenance4.max_buffer_size } else { u64::MAX };
        let one_size = (subgroup.subgroup_size, subgroup.subgroup_size);
        ExtendedProperties {
            driver_name: text(driver.driver_name_as_c_str()),
            driver_info: text(driver.driver_info_as_c_str()),
            uuid: id.device_uuid,
            pci: has_pci.then(address),
            compute_units: [sms.shader_sm_count, amd_units].into_iter().find(|units| *units > 0),
            allocation_bytes: maintenance3.max_memory_allocation_size.min(buffer_bytes),
            import_alignment: has_import.then_some(import.min_imported_host_pointer_alignment),
            subgroup_size: subgroup.subgroup_size,
            subgroup_sizes: if newer {
                (sizes.min_subgroup_size, sizes.max_subgroup_size)
            } else {
                one_size
            },
            requires_subgroup_sizes: sizes
                .required_subgroup_size_stages
                .contains(vk::ShaderStageFlags::COMPUTE),
            group_subgroups: sizes.max_compute_workgroup_subgroups,
        }
    }
}

fn limits(
    properties: &vk::PhysicalDeviceProperties,
    extended: &ExtendedProperties,
    memory: &vk::PhysicalDeviceMemoryProperties,
    family: &vk::QueueFamilyProperties,
) -> Limits {
    let limits = &properties.limits;
    let heap_bytes = device_heap(memory).map_or(0, |heap| memory.memory_heaps[heap].size);
    Limits {
        push_constant_bytes: limits.max_push_constants_size,
        groups: limits.max_compute_work_group_count,
        items: limits.max_compute_work_group_size,
        group_items: limits.max_compute_work_group_invocations,
        shared_bytes: limits.max_compute_shared_memory_size,
        storage_range: limits.max_storage_buffer_range.into(),
        uniform_range: limits.max_uniform_buffer_range.into(),
        storage_alignment: limits.min_storage_buffer_offset_alignment,
        uniform_alignment: limits.min_uniform_buffer_offset_alignment,
        allocation_bytes: extended.allocation_bytes.min(heap_bytes),
        buffer_bytes: extended.allocation_bytes,
        host_allocation_bytes: extended.allocation_bytes.min(host_heap_bytes(memory)),
        heap_bytes,
        import_alignment: extended.import_alignment,
        subgroup_size: extended.subgroup_size,
        subgroup_sizes: extended.subgroup_sizes,
        requires_subgroup_sizes: extended.requires_subgroup_sizes,
        group_subgroups: extended.group_subgroups,
        timestamp_period: limits.timestamp_period,
        timestamp_bits: family.timestamp_valid_bits,
    }
}

/// Returns the largest heap that is local to the device.
fn device_heap(memory: &vk::PhysicalDeviceMemoryProperties) -> Option<usize> {
    let heaps = memory.memory_heaps_as_slice().iter().enumerate();
    heaps
        .filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .max_by_key(|(_, heap)| heap.size)
        .map(|(index, _)| index)
}

/// Returns the size in bytes of the largest heap that the host can access.
fn host_heap_bytes(memory: &vk::PhysicalDeviceMemoryProperties) -> u64 {
    use vk::MemoryPropertyFlags as Flags;
    let reached = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
    let kinds = memory.memory_types_as_slice().iter();
    kinds
        .filter(|kind| kind.property_flags.contains(reached))
        .map(|kind| memory.memory_heaps[kind.heap_index as usize].size)
        .max()
        .unwrap_or(0)
}

/// Returns a family for compute, preferably without graphics, and a family for copies alone.
fn choose_families(families: &[vk::QueueFamilyProperties]) -> Option<Families> {
    use vk::QueueFlags as Flags;
    let with = |wanted: Flags, unwanted: Flags| {
        families.iter().position(|family| {
            let flags = family.queue_flags;
            flags.contains(wanted) && !flags.intersects(unwanted) && family.queue_count > 0
        })
    };
    let compute =
        with(Flags::COMPUTE, Flags::GRAPHICS).or_else(|| with(Flags::COMPUTE, Flags::empty()))?;
    // Families for video and optical flow may support copies, but are not copy engines.
    let others = Flags::VIDEO_DECODE_KHR | Flags::VIDEO_ENCODE_KHR | Flags::OPTICAL_FLOW_NV;
    let transfer = with(Flags::TRANSFER, Flags::COMPUTE | Flags::GRAPHICS | others);
    Some(Families {
        compute: compute as u32,
        compute_queues: families[compute].queue_count,
        transfer: transfer.map(|index| index as u32),
    })
}

/// Returns the vendor's name for its number of PCI-SIG or Khronos.
fn vendor(id: u32) -> String {
    let known = match id {
        0x1002 | 0x1022 => "AMD",
        0x10de => "NVIDIA",
        0x8086 => "Intel",
        0x13b5 => "Arm",
        0x5143 => "Qualcomm",
        0x1010 => "Imagination Technologies",
        0x1ae0 => "Google",
        0x14e4 => "Broadcom",
        0x106b => "Apple",
        0x10005 => "Mesa",
        _ => return format!("vendor {id:#x}"),
    };
    known.to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn text(found: std::result::Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    found.unwrap_or_default().to_string_lossy().into_owned()
}

fn none(query: DeviceInfo) -> Error {
    query.unanswered_by("Vulkan")
}

#[cfg(test)]
mod tests {
    use super::choose_families;
    use ash::vk::{QueueFamilyProperties, QueueFlags as Flags};

    fn families(flags: &[Flags]) -> Vec<QueueFamilyProperties> {
        let family =
            |flags: &Flags| QueueFamilyProperties::default().queue_flags(*flags).queue_count(2);
        flags.iter().map(family).collect()
    }

    #[test]
    fn copies_go_to_a_copy_engine_and_not_to_one_for_video() {
        let all = Flags::GRAPHICS | Flags::COMPUTE | Flags::TRANSFER;
        let (compute, video) = (Flags::COMPUTE | Flags::TRANSFER, Flags::VIDEO_DECODE_KHR);
        let with = |flags: &[Flags]| {
            let chosen = choose_families(&families(flags)).unwrap();
            (chosen.compute, chosen.transfer)
        };
        assert_eq!(with(&[all]), (0, None));
        assert_eq!(with(&[all, video | Flags::TRANSFER, compute]), (2, None));
        assert_eq!(with(&[all, video | Flags::TRANSFER, compute, Flags::TRANSFER]), (2, Some(3)));
        assert!(choose_families(&families(&[Flags::TRANSFER, Flags::GRAPHICS])).is_none());
    }
}
