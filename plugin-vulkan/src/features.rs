//! Features of a device, and the features that modules need.

use crate::instance::Version;
use crate::validate::Layouts;
use ash::vk;
use longshore_format_spirv::{Atomic, FloatControl, Requirements};

/// The features and extensions of a device, as queried and as enabled.
pub(crate) struct Features {
    core: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
    atomic_float: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT<'static>,
    clock: vk::PhysicalDeviceShaderClockFeaturesKHR<'static>,
    workgroup_layout: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR<'static>,
    subgroup_operations: vk::SubgroupFeatureFlags,
    float_controls: vk::PhysicalDeviceFloatControlsProperties<'static>,
    version: u32,
}

// SAFETY: the structures' chains are null except during the calls that borrow them.
unsafe impl Send for Features {}
// SAFETY: as above.
unsafe impl Sync for Features {}

/// A feature that a module needs, by its name in Vulkan's specification, and its presence.
struct Need {
    feature: &'static str,
    present: bool,
}

impl Features {
    /// Queries a device. `has` returns whether the device has an extension.
    pub(crate) fn query(
        instance: &ash::Instance,
        device: vk::PhysicalDevice,
        version: u32,
        has: impl Fn(&std::ffi::CStr) -> bool,
    ) -> Features {
        let mut features = Features {
            core: vk::PhysicalDeviceFeatures::default(),
            v11: vk::PhysicalDeviceVulkan11Features::default(),
            v12: vk::PhysicalDeviceVulkan12Features::default(),
            v13: vk::PhysicalDeviceVulkan13Features::default(),
            atomic_float: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default(),
            clock: vk::PhysicalDeviceShaderClockFeaturesKHR::default(),
            workgroup_layout: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR::default(),
            subgroup_operations: vk::SubgroupFeatureFlags::empty(),
            float_controls: vk::PhysicalDeviceFloatControlsProperties::default(),
            version,
        };
        let mut all = vk::PhysicalDeviceFeatures2::default();
        all = all.push_next(&mut features.v11).push_next(&mut features.v12);
        if version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut features.v13);
        }
        if has(ash::ext::shader_atomic_float::NAME) {
            all = all.push_next(&mut features.atomic_float);
        }
        if has(ash::khr::shader_clock::NAME) {
            all = all.push_next(&mut features.clock);
        }
        if has(ash::khr::workgroup_memory_explicit_layout::NAME) {
            all = all.push_next(&mut features.workgroup_layout);
        }
        let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut subgroup)
            .push_next(&mut features.float_controls);
        // SAFETY: the device belongs to this instance; the chains live during the calls.
        unsafe {
            instance.get_physical_device_features2(device, &mut all);
            instance.get_physical_device_properties2(device, &mut properties);
        }
        let kind = properties.properties.device_type;
        features.core = all.features;
        features.subgroup_operations = subgroup.supported_operations;
        features.unchain();
        features.leave_out_what_costs(kind);
        features
    }

    /// Calls `body` with the chain that enables every present feature.
    pub(crate) fn enabled<R>(
        &self,
        body: impl FnOnce(&mut vk::PhysicalDeviceFeatures2<'_>) -> R,
    ) -> R {
        let (mut v11, mut v12, mut v13) = (self.v11, self.v12, self.v13);
        let (mut atomic_float, mut clock, mut layout) =
            (self.atomic_float, self.clock, self.workgroup_layout);
        let mut all = vk::PhysicalDeviceFeatures2::default().features(self.core);
        all = all.push_next(&mut v11).push_next(&mut v12);
        if self.version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut v13);
        }
        if self.has_atomic_float() {
            all = all.push_next(&mut atomic_float);
        }
        if self.has_clock() {
            all = all.push_next(&mut clock);
        }
        if self.has_workgroup_layout() {
            all = all.push_next(&mut layout);
        }
        body(&mut all)
    }

    /// Returns whether `VK_EXT_shader_atomic_float` has features to enable.
    pub(crate) fn has_atomic_float(&self) -> bool {
        let has = &self.atomic_float;
        let in_buffers = [
            has.shader_buffer_float32_atomics,
            has.shader_buffer_float32_atomic_add,
            has.shader_buffer_float64_atomics,
            has.shader_buffer_float64_atomic_add,
        ];
        let shared = [
            has.shader_shared_float32_atomics,
            has.shader_shared_float32_atomic_add,
            has.shader_shared_float64_atomics,
            has.shader_shared_float64_atomic_add,
        ];
        in_buffers.into_iter().chain(shared).any(|present| present != 0)
    }

    /// Returns whether `VK_KHR_shader_clock` has features to enable.
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.shader_subgroup_clock != 0 || self.clock.shader_device_clock != 0
    }

    /// Returns whether `VK_KHR_workgroup_memory_explicit_layout` has features to enable.
    pub(crate) fn has_workgroup_layout(&self) -> bool {
        self.workgroup_layout.workgroup_memory_explicit_layout != 0
    }

    /// Returns the name of a feature that the backend itself needs and the device lacks.
    pub(crate) fn missing_basics(&self) -> Option<&'static str> {
        let needs = [
            ("bufferDeviceAddress", self.v12.buffer_device_address),
            ("timelineSemaphore", self.v12.timeline_semaphore),
        ];
        needs.iter().find(|(_, present)| *present == 0).map(|(name, _)| *name)
    }

    /// Returns whether pipelines can require a size of sub-groups.
    pub(crate) fn has_subgroup_size_control(&self) -> bool {
        self.v13.subgroup_size_control != 0
    }

    /// Returns whether kernels can compute in double precision.
    pub(crate) fn has_float64(&self) -> bool {
        self.core.shader_float64 != 0
    }

    /// Returns whether kernels can compute in half precision.
    pub(crate) fn has_float16(&self) -> bool {
        self.v12.shader_float16 != 0
    }

    /// Returns whether the device zeroes shared memory for kernels that want it.
    pub(crate) fn zeroes_shared_memory(&self) -> bool {
        self.v13.shader_zero_initialize_workgroup_memory != 0
    }

    /// Returns the permitted layouts of blocks.
    pub(crate) fn layouts(&self) -> Layouts {
        Layouts {
            scalar: self.v12.scalar_block_layout != 0,
            standard_uniform: self.v12.uniform_buffer_standard_layout != 0,
        }
    }

    /// Returns the floating-point controls.
    pub(crate) fn float_controls(&self) -> &vk::PhysicalDeviceFloatControlsProperties<'static> {
        &self.float_controls
    }

    /// Returns the names of the features that a program may query, in a fixed order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        const WORTH_SHOWING: [u32; 16] =
            [9, 10, 11, 12, 22, 39, 4433, 4448, 4435, 4450, 4442, 5345, 6033, 5055, 4428, 6019];
        let needs = WORTH_SHOWING.iter().filter_map(|capability| self.need(*capability));
        needs.filter(|need| need.present).map(|need| need.feature).collect()
    }

    /// Returns the reason that a module cannot run here, with the name of the missing feature.
    pub(crate) fn lacking(&self, wanted: &Requirements) -> Option<String> {
        let newest = if self.version >= vk::API_VERSION_1_3 { (1, 6) } else { (1, 5) };
        if wanted.version > newest {
            let ((major, minor), device) = (wanted.version, Version(self.version));
            return Some(format!(
                "the module is SPIR-V {major}.{minor}; the device, of Vulkan {device}, takes up to \
                 {}.{}",
                newest.0, newest.1
            ));
        }
        let unknown = wanted.extensions.iter().find(|name| !self.has_extension(name));
        if let Some(name) = unknown {
            return Some(format!(
                "the module needs the extension {name}, which the device lacks or this backend has \
                 no use for"
            ));
        }
        let capability = wanted.capabilities.iter().find_map(|(number, name)| {
            match self.need(*number) {
                Some(Need { present: true, .. }) => None,
                Some(Need { feature, .. }) => Some(format!(
                    "the module needs the capability {name}, which is the feature {feature}, and the \
                     device lacks it"
                )),
                None => Some(format!(
                    "the module needs the capability {name}, which this backend has no use for"
                )),
            }
        });
        let atomics = || wanted.atomics.iter().filter_map(|atomic| self.atomic(*atomic));
        let controls = || wanted.float_controls.iter().filter_map(|one| self.float_control(*one));
        capability.or_else(|| {
            let lacking = atomics().chain(controls()).find(|need| !need.present)?;
            Some(format!(
                "the module needs the feature {}, and the device lacks it",
                lacking.feature
            ))
        })
    }

    /// Returns the feature that an atomic operation needs in addition to the capability.
    fn atomic(&self, wanted: Atomic) -> Option<Need> {
        let (v12, float) = (&self.v12, &self.atomic_float);
        let (feature, present) = match wanted {
            Atomic { float: false, bits: 64, shared: false, .. } => {
                ("shaderBufferInt64Atomics", v12.shader_buffer_int64_atomics)
            }
            Atomic { float: false, bits: 64, shared: true, .. } => {
                ("shaderSharedInt64Atomics", v12.shader_shared_int64_atomics)
            }
            Atomic { float: false, .. } => return None,
            Atomic { bits: 32, shared: false, adds: false, .. } => {
                ("shaderBufferFloat32Atomics", float.shader_buffer_float32_atomics)
            }
            Atomic { bits: 32, shared: false, adds: true, .. } => {
                ("shaderBufferFloat32AtomicAdd", float.shader_buffer_float32_atomic_add)
            }
            Atomic { bits: 32, shared: true, adds: false, .. } => {
                ("shaderSharedFloat32Atomics", float.shader_shared_float32_atomics)
            }
            Atomic { bits: 32, shared: true, adds: true, .. } => {
                ("shaderSharedFloat32AtomicAdd", float.shader_shared_float32_atomic_add)
            }
            Atomic { bits: 64, shared: false, adds: false, .. } => {
                ("shaderBufferFloat64Atomics", float.shader_buffer_float64_atomics)
            }
            Atomic { bits: 64, shared: false, adds: true, .. } => {
                ("shaderBufferFloat64AtomicAdd", float.shader_buffer_float64_atomic_add)
            }
            Atomic { bits: 64, shared: true, adds: false, .. } => {
                ("shaderSharedFloat64Atomics", float.shader_shared_float64_atomics)
            }
            Atomic { bits: 64, shared: true, adds: true, .. } => {
                ("shaderSharedFloat64AtomicAdd", float.shader_shared_float64_atomic_add)
            }
            // A feature of VK_EXT_shader_atomic_float2, which is not enabled.
            Atomic { .. } => ("shaderBufferFloat16Atomics", 0),
        };
        Some(Need { feature, present: present != 0 })
    }

    /// Returns the feature that a floating-point control needs.
    fn float_control(&self, wanted: FloatControl) -> Option<Need> {
        let has = &self.float_controls;
        let (feature, present) = match (wanted.mode, wanted.bits) {
            (4459, 16) => ("shaderDenormPreserveFloat16", has.shader_denorm_preserve_float16),
            (4459, 32) => ("shaderDenormPreserveFloat32", has.shader_denorm_preserve_float32),
            (4459, 64) => ("shaderDenormPreserveFloat64", has.shader_denorm_preserve_float64),
            (4460, 16) => {
                ("shaderDenormFlushToZeroFloat16", has.shader_denorm_flush_to_zero_float16)
            }
            (4460, 32) => {
                ("shaderDenormFlushToZeroFloat32", has.shader_denorm_flush_to_zero_float32)
            }
            (4460, 64) => {
                ("shaderDenormFlushToZeroFloat64", has.shader_denorm_flush_to_zero_float64)
            }
            (4461, 16) => (
                "shaderSignedZeroInfNanPreserveFloat16",
                has.shader_signed_zero_inf_nan_preserve_float16,
            ),
            (4461, 32) => (
                "shaderSignedZeroInfNanPreserveFloat32",
                has.shader_signed_zero_inf_nan_preserve_float32,
            ),
            (4461, 64) => (
                "shaderSignedZeroInfNanPreserveFloat64",
                has.shader_signed_zero_inf_nan_preserve_float64,
            ),
            (4462, 16) => ("shaderRoundingModeRTEFloat16", has.shader_rounding_mode_rte_float16),
            (4462, 32) => ("shaderRoundingModeRTEFloat32", has.shader_rounding_mode_rte_float32),
            (4462, 64) => ("shaderRoundingModeRTEFloat64", has.shader_rounding_mode_rte_float64),
            (4463, 16) => ("shaderRoundingModeRTZFloat16", has.shader_rounding_mode_rtz_float16),
            (4463, 32) => ("shaderRoundingModeRTZFloat32", has.shader_rounding_mode_rtz_float32),
            (4463, 64) => ("shaderRoundingModeRTZFloat64", has.shader_rounding_mode_rtz_float64),
            _ => return None,
        };
        Some(Need { feature, present: present != 0 })
    }

    /// Returns the first present feature of several, any of which suffices, else the first one.
    fn any<const COUNT: usize>(
        needs: [(&'static str, vk::Bool32); COUNT],
    ) -> (&'static str, vk::Bool32) {
        needs.into_iter().find(|(_, present)| *present != 0).unwrap_or(needs[0])
    }

    /// Returns the feature of an execution mode for any size of numbers.
    fn any_float_control(&self, mode: u32) -> (&'static str, vk::Bool32) {
        let needs = [32, 16, 64].map(|bits| self.float_control(FloatControl { mode, bits }));
        let needs =
            needs.map(|need| need.map_or(("", 0), |need| (need.feature, need.present.into())));
        Features::any(needs)
    }

    /// Returns whether modules may use an extension of SPIR-V. Its features are capabilities, which
    /// are checked separately.
    fn has_extension(&self, name: &str) -> bool {
        const OF_1_2: [&str; 13] = [
            "SPV_KHR_storage_buffer_storage_class",
            "SPV_KHR_variable_pointers",
            "SPV_KHR_16bit_storage",
            "SPV_KHR_8bit_storage",
            "SPV_KHR_physical_storage_buffer",
            "SPV_EXT_physical_storage_buffer",
            "SPV_KHR_vulkan_memory_model",
            "SPV_KHR_float_controls",
            "SPV_KHR_shader_ballot",
            "SPV_KHR_subgroup_vote",
            "SPV_KHR_no_integer_wrap_decoration",
            "SPV_EXT_descriptor_indexing",
            "SPV_KHR_device_group",
        ];
        const OF_1_3: [&str; 2] = ["SPV_KHR_non_semantic_info", "SPV_KHR_integer_dot_product"];
        OF_1_2.contains(&name)
            || (OF_1_3.contains(&name) && self.version >= vk::API_VERSION_1_3)
            || (name == "SPV_EXT_shader_atomic_float_add" && self.has_atomic_float())
            || (name == "SPV_KHR_shader_clock" && self.has_clock())
            || (name == "SPV_KHR_workgroup_memory_explicit_layout" && self.has_workgroup_layout())
    }

    /// Returns the feature behind a capability of SPIR-V; `None` for a capability that the backend
    /// does not know.
    fn need(&self, capability: u32) -> Option<Need> {
        use vk::SubgroupFeatureFlags as Subgroup;
        let subgroup =
            |feature, flag| (feature, u32::from(self.subgroup_operations.contains(flag)));
        let (core, v11, v12, v13) = (&self.core, &self.v11, &self.v12, &self.v13);
        let (feature, present) = match capability {
            // Every device has Matrix, Shader, ImageQuery and DerivativeControl.
            0 | 1 | 50 | 51 => ("shader", 1),
            9 => ("shaderFloat16", v12.shader_float16),
            10 => ("shaderFloat64", core.shader_float64),
            11 => ("shaderInt64", core.shader_int64),
            12 => Features::any([
                ("shaderBufferInt64Atomics", v12.shader_buffer_int64_atomics),
                ("shaderSharedInt64Atomics", v12.shader_shared_int64_atomics),
            ]),
            22 => ("shaderInt16", core.shader_int16),
            29 => (
                "shaderUniformBufferArrayDynamicIndexing",
                core.shader_uniform_buffer_array_dynamic_indexing,
            ),
            30 => (
                "shaderStorageBufferArrayDynamicIndexing",
                core.shader_storage_buffer_array_dynamic_indexing,
            ),
            39 => ("shaderInt8", v12.shader_int8),
            61 => subgroup("VK_SUBGROUP_FEATURE_BASIC_BIT", Subgroup::BASIC),
            62 | 4431 => subgroup("VK_SUBGROUP_FEATURE_VOTE_BIT", Subgroup::VOTE),
            63 => subgroup("VK_SUBGROUP_FEATURE_ARITHMETIC_BIT", Subgroup::ARITHMETIC),
            64 | 4423 => subgroup("VK_SUBGROUP_FEATURE_BALLOT_BIT", Subgroup::BALLOT),
            65 => subgroup("VK_SUBGROUP_FEATURE_SHUFFLE_BIT", Subgroup::SHUFFLE),
            66 => subgroup("VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT", Subgroup::SHUFFLE_RELATIVE),
            67 => subgroup("VK_SUBGROUP_FEATURE_CLUSTERED_BIT", Subgroup::CLUSTERED),
            68 => subgroup("VK_SUBGROUP_FEATURE_QUAD_BIT", Subgroup::QUAD),
            4428 => (
                "workgroupMemoryExplicitLayout",
                self.workgroup_layout.workgroup_memory_explicit_layout,
            ),
            4429 => (
                "workgroupMemoryExplicitLayout8BitAccess",
                self.workgroup_layout.workgroup_memory_explicit_layout8_bit_access,
            ),
            4430 => (
                "workgroupMemoryExplicitLayout16BitAccess",
                self.workgroup_layout.workgroup_memory_explicit_layout16_bit_access,
            ),
            4433 => ("storageBuffer16BitAccess", v11.storage_buffer16_bit_access),
            4434 => {
                ("uniformAndStorageBuffer16BitAccess", v11.uniform_and_storage_buffer16_bit_access)
            }
            4435 => ("storagePushConstant16", v11.storage_push_constant16),
            4441 => ("variablePointersStorageBuffer", v11.variable_pointers_storage_buffer),
            4442 => ("variablePointers", v11.variable_pointers),
            4448 => ("storageBuffer8BitAccess", v12.storage_buffer8_bit_access),
            4449 => {
                ("uniformAndStorageBuffer8BitAccess", v12.uniform_and_storage_buffer8_bit_access)
            }
            4450 => ("storagePushConstant8", v12.storage_push_constant8),
            // The capabilities are in the order of the modes.
            4464..=4468 => self.any_float_control(capability - 5),
            5055 => ("shaderSubgroupClock", self.clock.shader_subgroup_clock),
            5345 => ("vulkanMemoryModel", v12.vulkan_memory_model),
            5346 => ("vulkanMemoryModelDeviceScope", v12.vulkan_memory_model_device_scope),
            5347 => ("bufferDeviceAddress", v12.buffer_device_address),
            6016..=6019 => ("shaderIntegerDotProduct", v13.shader_integer_dot_product),
            6033 => Features::any([
                (
                    "shaderBufferFloat32AtomicAdd",
                    self.atomic_float.shader_buffer_float32_atomic_add,
                ),
                (
                    "shaderSharedFloat32AtomicAdd",
                    self.atomic_float.shader_shared_float32_atomic_add,
                ),
            ]),
            6034 => Features::any([
                (
                    "shaderBufferFloat64AtomicAdd",
                    self.atomic_float.shader_buffer_float64_atomic_add,
                ),
                (
                    "shaderSharedFloat64AtomicAdd",
                    self.atomic_float.shader_shared_float64_atomic_add,
                ),
            ]),
            _ => return None,
        };
        Some(Need { feature, present: present != 0 })
    }

    /// Clears the pointers of the query, whose structures have moved.
    fn unchain(&mut self) {
        self.v11.p_next = std::ptr::null_mut();
        self.v12.p_next = std::ptr::null_mut();
        self.v13.p_next = std::ptr::null_mut();
        self.atomic_float.p_next = std::ptr::null_mut();
        self.clock.p_next = std::ptr::null_mut();
        self.workgroup_layout.p_next = std::ptr::null_mut();
        self.float_controls.p_next = std::ptr::null_mut();
    }

    /// Clears features that slow all work down, or that only capture tools use.
    fn leave_out_what_costs(&mut self, kind: vk::PhysicalDeviceType) {
        // On a CPU, accesses beyond a buffer would reach the program's own memory.
        if kind != vk::PhysicalDeviceType::CPU {
            self.core.robust_buffer_access = 0;
        }
        self.v11.protected_memory = 0;
        self.v12.buffer_device_address_capture_replay = 0;
        self.v12.buffer_device_address_multi_device = 0;
        self.v13.robust_image_access = 0;
        self.v13.private_data = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        Features {
            core: vk::PhysicalDeviceFeatures::default(),
            v11: vk::PhysicalDeviceVulkan11Features::default(),
            v12: vk::PhysicalDeviceVulkan12Features::default(),
            v13: vk::PhysicalDeviceVulkan13Features::default(),
            atomic_float: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default(),
            clock: vk::PhysicalDeviceShaderClockFeaturesKHR::default(),
            workgroup_layout: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR::default(),
            subgroup_operations: vk::SubgroupFeatureFlags::empty(),
            float_controls: vk::PhysicalDeviceFloatControlsProperties::default(),
            version: vk::API_VERSION_1_3,
        }
    }

    fn requirements(capability: (u32, &str)) -> Requirements {
        let capabilities = vec![(capability.0, capability.1.to_owned())];
        Requirements { version: (1, 3), capabilities, ..Requirements::default() }
    }

    #[test]
    fn atomics_in_shared_memory_have_features_of_their_own() {
        let mut device = features();
        device.v12.shader_buffer_int64_atomics = 1;
        let atomic = |shared| Atomic { shared, float: false, adds: false, bits: 64 };
        let mut wanted = requirements((12, "Int64Atomics"));
        wanted.atomics.insert(atomic(false));
        assert_eq!(device.lacking(&wanted), None);
        wanted.atomics.insert(atomic(true));
        let lacking = device.lacking(&wanted).unwrap();
        assert!(lacking.contains("shaderSharedInt64Atomics"), "{lacking}");
        device.v12.shader_shared_int64_atomics = 1;
        assert_eq!(device.lacking(&wanted), None);
        let lacking = features().lacking(&wanted).unwrap();
        assert!(lacking.contains("shaderBufferInt64Atomics"), "{lacking}");
    }

    #[test]
    fn floating_point_is_controlled_by_size() {
        let mut device = features();
        device.float_controls.shader_denorm_preserve_float16 = 1;
        let mut wanted = requirements((4464, "DenormPreserve"));
        wanted.float_controls.insert(FloatControl { mode: 4459, bits: 16 });
        assert_eq!(device.lacking(&wanted), None);
        wanted.float_controls.insert(FloatControl { mode: 4459, bits: 32 });
        let lacking = device.lacking(&wanted).unwrap();
        assert!(lacking.contains("shaderDenormPreserveFloat32"), "{lacking}");
    }
}
