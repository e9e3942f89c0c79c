//! Tests for every memory manager of executed code: one list, instantiated by [`suite!`].

use super::support::*;
use super::*;
use crate::Error;

const ANSWER: i32 = 42;
const LOW_LIMIT: u64 = 1 << 31;

/// Instantiates the tests for a manager.
macro_rules! suite {
    ($manager:expr) => {
        $crate::memory::suite::suite!($manager;
            content_is_written_finalized_and_called
            protections_are_final_after_finalize_and_never_writable_and_executable
            working_memory_is_zero_at_first_and_has_the_size_of_the_content
            zero_fill_is_zero
            finalize_segments_are_gone_after_finalize
            deallocation_does_not_touch_memory_that_replaced_a_finalize_segment
            deallocate_gives_all_mappings_back
            dropping_an_in_flight_allocation_gives_all_mappings_back
            a_thousand_rounds_leave_the_mappings_as_they_were
            hostile_requests_are_errors_and_map_nothing
            an_empty_request_is_legal
            actions_run_in_order_and_are_undone_in_reverse
            actions_see_final_protections_and_finalize_segments
            allocations_are_deallocated_last_finalized_first
            a_failing_finalize_action_undoes_earlier_ones_and_frees_all_memory
            failing_deallocate_actions_stop_nothing
            unknown_allocations_are_errors_and_stop_nothing
            actions_may_use_the_manager
            low_placement_ends_below_two_gigabytes
            large_alignments_are_honoured
            megabytes_are_written_and_seen
            finalized_memory_outlives_its_manager
            many_threads_may_use_one_manager
            objects_that_are_linked_together_share_pages
            an_object_gives_back_the_pages_that_no_other_has_a_part_of
            a_failing_action_of_one_object_undoes_all_actions
            objects_are_deallocated_in_any_order
        );
    };
    ($manager:expr; $($test:ident)*) => {
        mod suite {
            $(
                #[test]
                fn $test() {
                    use super::*;
                    $crate::memory::suite::$test($manager);
                }
            )*
        }
    };
}
pub(crate) use suite;

pub(crate) fn content_is_written_finalized_and_called(memory: impl MemoryManager) {
    let (finalized, addresses) = finalized_code(&memory);
    assert_eq!(run(addresses[0]), ANSWER);
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn protections_are_final_after_finalize_and_never_writable_and_executable(
    memory: impl MemoryManager,
) {
    // In this order, an emulator whose host has no executable pages of its own cannot show two
    // segments as one.
    let protections = [Protection::ReadExecute, Protection::ReadWrite, Protection::Read];
    let segments = protections.map(|protection| standard(protection, 0x1234));
    let mut in_flight = allocate(&memory, &segments);
    let addresses = in_flight.addresses().to_vec();
    for working in in_flight.working_memory() {
        assert_eq!(access(working.as_ptr() as u64), "rw-");
    }
    assert!(addresses.iter().all(|address| !access(*address).contains('x')));
    let finalized = finalize(in_flight, Vec::new()).unwrap();
    for (address, protection) in addresses.iter().zip(protections) {
        assert_eq!(access(*address), protection.to_string());
        assert_eq!(access(*address + 0x1233), protection.to_string());
    }
    assert!(!maps().iter().any(|map| map.access.contains("wx")));
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn working_memory_is_zero_at_first_and_has_the_size_of_the_content(
    memory: impl MemoryManager,
) {
    let zeroes = SegmentRequest { zero_fill_size: 0x5000, ..standard(Protection::ReadWrite, 0) };
    let segments = [standard(Protection::Read, 1), zeroes, standard(Protection::Read, 0x12345)];
    let mut in_flight = allocate(&memory, &segments);
    let working = in_flight.working_memory();
    assert_eq!(working.iter().map(|content| content.len()).collect::<Vec<_>>(), [1, 0, 0x12345]);
    assert!(working.iter().all(|content| content.iter().all(|byte| *byte == 0)));
}

pub(crate) fn zero_fill_is_zero(memory: impl MemoryManager) {
    let segments =
        [SegmentRequest { zero_fill_size: 0x23456, ..standard(Protection::ReadWrite, 0x1001) }];
    let mut in_flight = allocate(&memory, &segments);
    let address = in_flight.addresses()[0];
    in_flight.working_memory()[0].fill(0xff);
    let finalized = finalize(in_flight, Vec::new()).unwrap();
    // SAFETY: the segment is `rw-` until it is deallocated below.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 0x1001 + 0x23456) };
    assert!(
        bytes[..0x1001].iter().all(|byte| *byte == 0xff)
            && bytes[0x1001..].iter().all(|byte| *byte == 0)
    );
    bytes.fill(1);
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn finalize_segments_are_gone_after_finalize(memory: impl MemoryManager) {
    alone(|| {
        let segments = alternating();
        let in_flight = allocate(&memory, &segments);
        let addresses = in_flight.addresses().to_vec();
        let finalized = finalize(in_flight, Vec::new()).unwrap();
        let mapped: Vec<bool> = addresses.iter().map(|address| find(*address).is_some()).collect();
        assert_eq!(mapped, segments.map(|segment| segment.lifetime == Lifetime::Standard));
        now(memory.deallocate(vec![finalized])).unwrap();
        assert!(addresses.iter().all(|address| find(*address).is_none()));
    });
}

pub(crate) fn deallocation_does_not_touch_memory_that_replaced_a_finalize_segment(
    memory: impl MemoryManager,
) {
    alone(|| {
        let in_flight = allocate(&memory, &alternating());
        let hole = in_flight.addresses()[1];
        let finalized = finalize(in_flight, Vec::new()).unwrap();
        let page = rustix::param::page_size();
        let other = longshore_orc_rt::pages::Mapping::map_at(
            hole as usize,
            page,
            rustix::mm::ProtFlags::READ,
        )
        .unwrap();
        now(memory.deallocate(vec![finalized])).unwrap();
        assert_eq!(access(other.address()), "r--");
    });
}

pub(crate) fn deallocate_gives_all_mappings_back(memory: impl MemoryManager) {
    alone(|| {
        let before = mapped_bytes();
        let segments = alternating();
        let allocations: Vec<FinalizedAllocation> =
            (0..3).map(|_| finalize(allocate(&memory, &segments), Vec::new()).unwrap()).collect();
        assert!(mapped_bytes() > before);
        now(memory.deallocate(allocations)).unwrap();
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn dropping_an_in_flight_allocation_gives_all_mappings_back(memory: impl MemoryManager) {
    alone(|| {
        let before = mapped_bytes();
        let in_flight = allocate(&memory, &alternating());
        let addresses = in_flight.addresses().to_vec();
        assert!(addresses.iter().all(|address| find(*address).is_some()));
        drop(in_flight);
        assert!(addresses.iter().all(|address| find(*address).is_none()));
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn a_thousand_rounds_leave_the_mappings_as_they_were(memory: impl MemoryManager) {
    alone(|| {
        let round = || now(memory.deallocate(vec![finalized_code(&memory).0])).unwrap();
        round();
        let (before, files) = (mapped_bytes(), open_files());
        (0..1000).for_each(|_| round());
        assert_eq!((mapped_bytes(), open_files()), (before, files));
    });
}

pub(crate) fn hostile_requests_are_errors_and_map_nothing(memory: impl MemoryManager) {
    let good = standard(Protection::ReadWrite, 8);
    let hostile = [
        SegmentRequest { content_size: 1 << 60, ..good },
        SegmentRequest { zero_fill_size: 1 << 60, ..good },
        SegmentRequest { content_size: u64::MAX, zero_fill_size: u64::MAX, ..good },
        SegmentRequest { alignment: 1 << 62, ..good },
        SegmentRequest { alignment: 0, ..good },
        SegmentRequest { alignment: 24, ..good },
        SegmentRequest { content_size: 0, ..good },
        SegmentRequest { lifetime: Lifetime::NoAlloc, ..good },
    ];
    alone(|| {
        let before = mapped_bytes();
        for segment in hostile {
            for placement in [Placement::Anywhere, Placement::Low] {
                let segments = [good, segment, good];
                let error = allocate_at(&memory, placement, &segments).err();
                assert!(matches!(error, Some(Error::Memory { .. })), "{segment:?}");
                assert_eq!(mapped_bytes(), before);
            }
        }
    });
}

pub(crate) fn an_empty_request_is_legal(memory: impl MemoryManager) {
    let log = Log::default();
    let mut in_flight = allocate(&memory, &[]);
    assert!(in_flight.addresses().is_empty() && in_flight.working_memory().is_empty());
    let finalized = finalize(in_flight, vec![pair(&log, "a")]).unwrap();
    now(memory.deallocate(vec![finalized])).unwrap();
    assert_eq!(log.take(), ["+a", "-a"]);
}

pub(crate) fn actions_run_in_order_and_are_undone_in_reverse(memory: impl MemoryManager) {
    let log = Log::default();
    let in_flight = allocate(&memory, &alternating());
    let finalized =
        finalize(in_flight, vec![pair(&log, "a"), pair(&log, "b"), pair(&log, "c")]).unwrap();
    assert_eq!(log.take(), ["+a", "+b", "+c"]);
    now(memory.deallocate(vec![finalized])).unwrap();
    assert_eq!(log.take(), ["-c", "-b", "-a"]);
}

pub(crate) fn actions_see_final_protections_and_finalize_segments(memory: impl MemoryManager) {
    let lifetime = Lifetime::Finalize;
    let code =
        SegmentRequest { lifetime, ..standard(Protection::ReadExecute, ACTION.len() as u64) };
    let mut in_flight = allocate(&memory, &[code, standard(Protection::ReadWrite, 8)]);
    in_flight.working_memory()[0].copy_from_slice(&ACTION);
    let (function, data) = (in_flight.addresses()[0], in_flight.addresses()[1]);
    let argument = data.to_ne_bytes().to_vec();
    let action = ActionPair {
        // SAFETY: the code that was written above is an action, and takes the address of a word.
        finalize: Some(unsafe { ActionCall::new(function, argument) }),
        deallocate: None,
    };
    let finalized = finalize(in_flight, vec![action]).unwrap();
    // SAFETY: the segment is `rw-` until it is deallocated below.
    let written = unsafe { *(data as *const u64) };
    assert_eq!(written, data, "the action has written its argument to the data");
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn allocations_are_deallocated_last_finalized_first(memory: impl MemoryManager) {
    let log = Log::default();
    let segments = alternating();
    let first = allocate(&memory, &segments);
    let second = allocate(&memory, &segments);
    let second = finalize(second, vec![pair(&log, "a"), pair(&log, "b")]).unwrap();
    let first = finalize(first, vec![pair(&log, "c"), pair(&log, "d")]).unwrap();
    log.take();
    now(memory.deallocate(vec![second, first])).unwrap();
    assert_eq!(log.take(), ["-d", "-c", "-b", "-a"]);
}

pub(crate) fn a_failing_finalize_action_undoes_earlier_ones_and_frees_all_memory(
    memory: impl MemoryManager,
) {
    alone(|| {
        let log = Log::default();
        let before = mapped_bytes();
        let in_flight = allocate(&memory, &alternating());
        let addresses = in_flight.addresses().to_vec();
        let failing = ActionPair { finalize: Some(log.failing("+c")), ..pair(&log, "c") };
        let error =
            finalize(in_flight, vec![pair(&log, "a"), pair(&log, "b"), failing, pair(&log, "d")])
                .unwrap_err();
        assert!(matches!(&error, Error::Action(messages) if messages.len() == 1), "{error}");
        assert!(error.to_string().ends_with("+c failed"), "{error}");
        assert_eq!(log.take(), ["+a", "+b", "+c", "-b", "-a"]);
        assert!(addresses.iter().all(|address| find(*address).is_none()));
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn failing_deallocate_actions_stop_nothing(memory: impl MemoryManager) {
    alone(|| {
        let log = Log::default();
        let before = mapped_bytes();
        let segments = alternating();
        let failing = |name| ActionPair { finalize: None, deallocate: Some(log.failing(name)) };
        let finalized = |actions| finalize(allocate(&memory, &segments), actions).unwrap();
        let first = finalized(vec![failing("a"), pair(&log, "b")]);
        let second = finalized(vec![pair(&log, "c"), failing("d")]);
        log.take();
        let error = now(memory.deallocate(vec![first, second])).unwrap_err();
        assert_eq!(log.take(), ["d", "-c", "-b", "a"]);
        let Error::Action(messages) = error else { panic!("{error}") };
        assert!(
            messages.len() == 2
                && messages[0].ends_with("d failed")
                && messages[1].ends_with("a failed")
        );
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn unknown_allocations_are_errors_and_stop_nothing(memory: impl MemoryManager) {
    alone(|| {
        let before = mapped_bytes();
        let (finalized, _) = finalized_code(&memory);
        let number = finalized.number();
        let allocations = vec![
            FinalizedAllocation::new(number + 1),
            finalized,
            FinalizedAllocation::new(u64::MAX),
        ];
        assert!(matches!(now(memory.deallocate(allocations)), Err(Error::Memory { .. })));
        assert_eq!(mapped_bytes(), before);
        let again = FinalizedAllocation::new(number);
        assert!(matches!(now(memory.deallocate(vec![again])), Err(Error::Memory { .. })));
    });
}

pub(crate) fn actions_may_use_the_manager(memory: impl MemoryManager) {
    unsafe extern "C" fn nested(argument: *const u8, _: usize) -> *mut std::ffi::c_char {
        // SAFETY: the test passes the address of a reference that it still holds.
        let memory = unsafe { *argument.cast::<*const &dyn MemoryManager>().read_unaligned() };
        now(memory.deallocate(vec![finalized_code(memory).0])).unwrap();
        std::ptr::null_mut()
    }
    let manager: &dyn MemoryManager = &memory;
    let argument = (&raw const manager).expose_provenance().to_ne_bytes().to_vec();
    // SAFETY: the function takes the argument that is made here.
    let action = Some(unsafe { ActionCall::new(nested as *const () as u64, argument) });
    let pair = ActionPair { finalize: action.clone(), deallocate: action };
    let finalized = finalize(allocate(&memory, &alternating()), vec![pair]).unwrap();
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn low_placement_ends_below_two_gigabytes(memory: impl MemoryManager) {
    let segments =
        [standard(Protection::ReadExecute, CODE.len() as u64), standard(Protection::Read, 0x5000)];
    let mut in_flight = allocate_at(&memory, Placement::Low, &segments).unwrap();
    in_flight.working_memory()[0].copy_from_slice(&CODE);
    let addresses = in_flight.addresses().to_vec();
    assert!(addresses[0] < addresses[1] && addresses[1] + 0x5000 < LOW_LIMIT, "{addresses:x?}");
    let finalized = finalize(in_flight, Vec::new()).unwrap();
    assert_eq!(run(addresses[0]), ANSWER);
    now(memory.deallocate(vec![finalized])).unwrap();

    let segments =
        [SegmentRequest { zero_fill_size: LOW_LIMIT - 1, ..standard(Protection::ReadWrite, 1) }];
    let error = allocate_at(&memory, Placement::Low, &segments).err();
    assert!(matches!(error, Some(Error::Memory { .. })));
}

pub(crate) fn large_alignments_are_honoured(memory: impl MemoryManager) {
    alone(|| {
        let before = mapped_bytes();
        for placement in [Placement::Anywhere, Placement::Low] {
            let aligned =
                SegmentRequest { alignment: 0x10000, ..standard(Protection::Read, 0x1001) };
            let more = SegmentRequest { alignment: 0x100000, ..aligned };
            let segments = [standard(Protection::ReadExecute, 8), aligned, more];
            let in_flight = allocate_at(&memory, placement, &segments).unwrap();
            let addresses = in_flight.addresses();
            assert!(addresses[1].is_multiple_of(0x10000), "{addresses:x?}");
            assert!(addresses[2].is_multiple_of(0x100000), "{addresses:x?}");
            drop(in_flight);
            assert_eq!(mapped_bytes(), before);
        }
    });
}

pub(crate) fn megabytes_are_written_and_seen(memory: impl MemoryManager) {
    let segments = [Protection::ReadExecute, Protection::Read, Protection::ReadWrite]
        .map(|p| standard(p, 3_456_789));
    let mut in_flight = allocate(&memory, &segments);
    let addresses = in_flight.addresses().to_vec();
    for (index, content) in in_flight.working_memory().into_iter().enumerate() {
        content.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251 + index) as u8);
    }
    let finalized = finalize(in_flight, Vec::new()).unwrap();
    for (index, address) in addresses.iter().enumerate() {
        // SAFETY: the segment is readable until it is deallocated below.
        let seen = unsafe { std::slice::from_raw_parts(*address as *const u8, 3_456_789) };
        assert!(seen.iter().enumerate().all(|(at, byte)| *byte == (at % 251 + index) as u8));
    }
    now(memory.deallocate(vec![finalized])).unwrap();
}

pub(crate) fn finalized_memory_outlives_its_manager(memory: impl MemoryManager) {
    let (_, addresses) = finalized_code(&memory);
    drop(memory);
    assert_eq!(run(addresses[0]), ANSWER);
}

pub(crate) fn many_threads_may_use_one_manager(memory: impl MemoryManager) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let (finalized, addresses) = finalized_code(&memory);
                    assert_eq!(run(addresses[0]), ANSWER);
                    now(memory.deallocate(vec![finalized])).unwrap();
                }
            });
        }
    });
}

pub(crate) fn objects_that_are_linked_together_share_pages(memory: impl MemoryManager) {
    let segments =
        [standard(Protection::ReadExecute, CODE.len() as u64), standard(Protection::ReadWrite, 8)];
    let mut in_flight = allocate_together(&memory, 10, &segments);
    let addresses = in_flight.addresses().to_vec();
    let page = |address: &u64| address / memory.page_size();
    let (code, data): (Vec<_>, Vec<_>) =
        addresses.chunks(2).map(|object| (page(&object[0]), page(&object[1]))).unzip();
    assert!(code.iter().all(|page| *page == code[0]) && data.iter().all(|page| *page == data[0]));
    assert_ne!(code[0], data[0]);
    for (index, content) in in_flight.working_memory().into_iter().enumerate() {
        if index % 2 == 0 { content.copy_from_slice(&CODE) } else { content.fill(index as u8) }
    }
    let finalized = now(in_flight.finalize(Vec::new())).unwrap();
    assert_eq!(finalized.len(), 10);
    for (index, object) in addresses.chunks(2).enumerate() {
        assert_eq!(run(object[0]), ANSWER);
        // SAFETY: the segment is `rw-` until it is deallocated below.
        let data = unsafe { *(object[1] as *const [u8; 8]) };
        assert_eq!(data, [2 * index as u8 + 1; 8]);
    }
    now(memory.deallocate(finalized)).unwrap();
}

pub(crate) fn an_object_gives_back_the_pages_that_no_other_has_a_part_of(
    memory: impl MemoryManager,
) {
    alone(|| {
        let before = mapped_bytes();
        let page = memory.page_size();
        // Each object has two and a half pages. The second one has the second half of page 3 and
        // pages 4 and 5.
        let segments = [standard(Protection::Read, page * 5 / 2)];
        let in_flight = allocate_together(&memory, 3, &segments);
        let start = in_flight.addresses()[0];
        let mut finalized = now(in_flight.finalize(Vec::new())).unwrap();
        let pages = || (0..8).map(|index| find(start + index * page).is_some());
        assert!(pages().all(|is_mapped| is_mapped));
        let last = finalized.pop().unwrap();
        now(memory.deallocate(vec![finalized.pop().unwrap()])).unwrap();
        assert_eq!(mapped_bytes(), before + 6 * page);
        assert!(pages().eq([true, true, true, false, false, true, true, true]));
        now(memory.deallocate(finalized)).unwrap();
        assert!(pages().eq([false, false, false, false, false, true, true, true]));
        now(memory.deallocate(vec![last])).unwrap();
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn a_failing_action_of_one_object_undoes_all_actions(memory: impl MemoryManager) {
    alone(|| {
        let log = Log::default();
        let before = mapped_bytes();
        let failing = ActionPair { finalize: Some(log.failing("+d")), ..pair(&log, "d") };
        let actions = vec![
            vec![pair(&log, "a"), pair(&log, "b")],
            vec![pair(&log, "c"), failing],
            vec![pair(&log, "e")],
        ];
        let in_flight = allocate_together(&memory, 3, &alternating());
        let error = now(in_flight.finalize(actions)).unwrap_err();
        assert!(error.to_string().ends_with("+d failed"), "{error}");
        assert_eq!(log.take(), ["+a", "+b", "+c", "+d", "-c", "-b", "-a"]);
        assert_eq!(mapped_bytes(), before);
    });
}

pub(crate) fn objects_are_deallocated_in_any_order(memory: impl MemoryManager) {
    alone(|| {
        let log = Log::default();
        let (before, files) = (mapped_bytes(), open_files());
        let in_flight = allocate_together(&memory, 4, &alternating());
        let actions = ["a", "b", "c", "d"].map(|name| vec![pair(&log, name)]);
        let mut finalized = now(in_flight.finalize(actions.to_vec())).unwrap();
        assert_eq!(log.take(), ["+a", "+b", "+c", "+d"]);
        now(memory.deallocate(vec![finalized.remove(2)])).unwrap();
        now(memory.deallocate(vec![finalized.remove(0), finalized.remove(1)])).unwrap();
        now(memory.deallocate(finalized)).unwrap();
        assert_eq!(log.take(), ["-c", "-d", "-a", "-b"]);
        assert_eq!((mapped_bytes(), open_files()), (before, files));
    });
}

/// An action that stores its argument's first eight bytes, an address, at that address, and
/// succeeds.
#[cfg(target_arch = "x86_64")]
const ACTION: [u8; 9] = [0x48, 0x8b, 0x07, 0x48, 0x89, 0x00, 0x31, 0xc0, 0xc3]; // mov rax,[rdi]; mov [rax],rax; xor eax,eax; ret
/// An action that stores its argument's first eight bytes, an address, at that address, and
/// succeeds.
#[cfg(target_arch = "aarch64")]
const ACTION: [u8; 16] =
    [0x01, 0, 0x40, 0xf9, 0x21, 0, 0, 0xf9, 0, 0, 0x80, 0xd2, 0xc0, 0x03, 0x5f, 0xd6]; // ldr x1,[x0]; str x1,[x1]; mov x0,#0; ret

/// Returns [`CODE`], finalized, and the addresses of its segments.
fn finalized_code(memory: &dyn MemoryManager) -> (FinalizedAllocation, Vec<u64>) {
    let segments =
        [standard(Protection::ReadExecute, CODE.len() as u64), standard(Protection::ReadWrite, 8)];
    let mut in_flight = allocate(memory, &segments);
    in_flight.working_memory()[0].copy_from_slice(&CODE);
    let addresses = in_flight.addresses().to_vec();
    (finalize(in_flight, Vec::new()).unwrap(), addresses)
}

/// Returns alternating segments of standard and finalize lifetime.
fn alternating() -> [SegmentRequest; 5] {
    let temporary = |segment| SegmentRequest { lifetime: Lifetime::Finalize, ..segment };
    [
        standard(Protection::ReadExecute, 8),
        temporary(standard(Protection::ReadExecute, 8)),
        standard(Protection::Read, 8),
        temporary(standard(Protection::ReadWrite, 8)),
        standard(Protection::ReadWrite, 8),
    ]
}

fn run(address: u64) -> i32 {
    // SAFETY: the address is that of `CODE`, in a segment that is `r-x`.
    let function =
        unsafe { std::mem::transmute::<*const (), extern "C" fn() -> i32>(address as *const ()) };
    function()
}
