//! The public interface as a program without `bytemuck` uses it: elements and arguments of its own,
//! getters, options of loading, refused deadlocks.

use longshore::{
    Argument, ArgumentKind, Device, DeviceEntry, DeviceInfo, DeviceType, Element, ErrorCode, Host,
    InfoValue, LoadOptions,
};
use longshore_conformance::{Fixtures, TrustedImages};
use longshore_tests::world::{World, copy_into, host_plugin};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Particle {
    position: [f32; 3],
    charge: i32,
}

// SAFETY: four numbers of 4 bytes, without padding.
unsafe impl Element for Particle {}

impl Argument for Particle {
    type Stored = Particle;
    const KIND: Option<ArgumentKind> = Some(ArgumentKind::Structure);

    fn stored(&self) -> Particle {
        *self
    }
}

fn host() -> (World, Host) {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = world.host().build().unwrap();
    (world, host)
}

#[test]
fn a_type_of_the_program_is_an_element() {
    let (_world, host) = host();
    let device = host.default_device().unwrap();
    let queue = device.queue().unwrap();
    let particles = [
        Particle { position: [1.0, -2.0, 0.5], charge: -1 },
        Particle { position: [f32::MAX, 0.0, 3.0], charge: i32::MAX },
    ];
    let buffer = device.buffer_of(&queue, &particles).unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), particles);
    buffer.fill(&queue, particles[1]).unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [particles[1]; 2]);
    let zeros = device.buffer::<Particle>(&queue, 3).unwrap().to_vec(&queue).unwrap();
    assert_eq!(zeros, [Particle { position: [0.0; 3], charge: 0 }; 3]);
}

/// Compares each getter with the reply to its query.
macro_rules! agreement {
    ($entry:expr, $device:expr; $($getter:ident: $query:ident => $value:ident),* $(,)?) => {{
        let (entry, device): (&DeviceEntry, &Device) = ($entry, $device);
        [$({
            let query = DeviceInfo::$query;
            let expected = entry.info(query);
            assert_eq!(entry.$getter().map(InfoValue::$value), expected, "{query:?}");
            // The free memory changes between two queries.
            if query != DeviceInfo::FreeMemory {
                assert_eq!(device.$getter().map(InfoValue::$value), expected, "{query:?}");
            }
            assert!(device.$getter().is_ok() || expected.is_err());
            query
        },)*]
    }};
}

#[test]
fn getters_agree_with_queries() {
    let (_world, host) = host();
    let entry = &host.devices()[0];
    let device = entry.open().unwrap();
    assert_eq!(entry.device_type(), Ok(DeviceType::Host));
    assert_eq!(device.device_type(), Ok(DeviceType::Host));
    assert_eq!(device.supports_host_access(), Ok(true));
    assert_eq!(device.supports_unified_memory(), Ok(true));
    let known = agreement!(entry, &device;
        device_name: Name => Text,
        product_name: ProductName => Text,
        uid: Uid => Text,
        vendor: Vendor => Text,
        driver_version: DriverVersion => Text,
        max_work_group_size: MaxWorkGroupSize => U32,
        max_work_group_size_per_dimension: MaxWorkGroupSizePerDimension => Dimensions,
        max_work_size: MaxWorkSize => U32,
        max_work_size_per_dimension: MaxWorkSizePerDimension => Dimensions,
        vendor_id: VendorId => U32,
        compute_units: NumComputeUnits => U32,
        max_clock_mhz: MaxClockFrequency => U32,
        memory_clock_mhz: MemoryClockRate => U32,
        address_bits: AddressBits => U32,
        max_allocation_bytes: MaxMemAllocSize => U64,
        global_memory_bytes: GlobalMemSize => U64,
        work_group_local_memory_bytes: WorkGroupLocalMemSize => U64,
        single_fp_config: SingleFpConfig => U32,
        double_fp_config: DoubleFpConfig => U32,
        half_fp_config: HalfFpConfig => U32,
        native_vector_width_i8: NativeVectorWidthChar => U32,
        native_vector_width_i16: NativeVectorWidthShort => U32,
        native_vector_width_i32: NativeVectorWidthInt => U32,
        native_vector_width_i64: NativeVectorWidthLong => U32,
        native_vector_width_f32: NativeVectorWidthFloat => U32,
        native_vector_width_f64: NativeVectorWidthDouble => U32,
        native_vector_width_f16: NativeVectorWidthHalf => U32,
        supports_single_fp: SingleFpSupport => Bool,
        supports_double_fp: DoubleFpSupport => Bool,
        supports_half_fp: HalfFpSupport => Bool,
        supports_cooperative_launch: CooperativeLaunchSupport => Bool,
        uuid: Uuid => Uuid,
        pci_address: PciAddress => Text,
        architecture: Architecture => Text,
        properties: Properties => Text,
        supports_host_access: HostAccess => Bool,
        supports_unified_memory: UnifiedMemory => Bool,
    );
    assert_eq!(entry.free_memory_bytes().is_ok(), entry.info(DeviceInfo::FreeMemory).is_ok());
    let mut known: HashSet<_> = known.into();
    known.extend([DeviceInfo::Type, DeviceInfo::FreeMemory]);
    let missing: Vec<_> = DeviceInfo::ALL.iter().filter(|query| !known.contains(query)).collect();
    assert!(missing.is_empty(), "queries without a getter: {missing:?}");
}

#[test]
fn options_of_loading_do_as_the_plain_calls() {
    let (_world, host) = host();
    let device = host.default_device().unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    let plain = device.load_trusted(&image[..]).unwrap();
    for options in [LoadOptions::new(), LoadOptions::new().with_lazy_linking(true)] {
        // SAFETY: the image is the suite's own.
        let loaded = unsafe { device.load_with(&image[..], &options) }.unwrap();
        assert_eq!(loaded.symbols().unwrap(), plain.symbols().unwrap(), "{options:?}");
    }
    let verified = LoadOptions::new().with_verification(true);
    // SAFETY: as above.
    let refused = unsafe { device.load_with(&image[..], &verified) }.err().unwrap();
    let expected = device.load_verified(&image[..]).err().unwrap();
    assert_eq!(refused, expected);
    assert_eq!(refused.code(), ErrorCode::Unsupported);
}

#[test]
fn a_wait_that_would_deadlock_is_unsupported_and_named() {
    let (_world, host) = host();
    let device = host.default_device().unwrap();
    let queue = Arc::new(device.queue().unwrap());
    let buffer = Arc::new(device.buffer_of(&queue, &[1u32; 4]).unwrap());
    let (sender, receiver) = channel();
    let (own, memory, owner) = (Arc::clone(&queue), Arc::clone(&buffer), device.clone());
    queue
        .host_function(move || {
            let behind = own.record().unwrap();
            let waits = [
                ("synchronizing a queue", own.synchronize()),
                ("waiting for an event", behind.synchronize()),
                ("copying memory and waiting for it", memory.write(&own, &[2])),
                ("filling memory and waiting for it", memory.fill(&own, 2)),
                ("closing a device", owner.close().map(drop)),
            ];
            sender.send(waits).unwrap();
        })
        .unwrap();
    for (call, result) in receiver.recv().unwrap() {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported, "{call}: {error}");
        assert!(error.message().starts_with(call), "{error}");
        assert!(error.message().contains("deadlock"), "{error}");
        assert!(error.message().contains("call it on another thread"), "{error}");
    }
    queue.synchronize().unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [1; 4]);
}
