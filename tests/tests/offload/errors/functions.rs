//! The functions of the interface, called with words: all of their arguments fit into one.

use crate::errors::table::Mode;
use longshore_capi::*;
use std::ptr::null;

/// A function, and its twin that takes a place in the program.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
    call: fn(&[usize]) -> ol_result_t,
    twin: fn(&[usize], *const ol_code_location_t) -> ol_result_t,
}

/// Where twins are called from.
const PLACE: ol_code_location_t = ol_code_location_t {
    FunctionName: c"caller".as_ptr(),
    SourceFile: c"caller.c".as_ptr(),
    LineNumber: 12,
    ColumnNumber: 3,
};
/// As a message shows it.
pub(crate) const SHOWN_PLACE: &str = "in caller (caller.c:12:3)";

macro_rules! functions {
    ($($name:ident $twin:ident ($($parameter:ident)*);)*) => {
        pub(crate) const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            parameters: &[$(stringify!($parameter)),*],
            call: |_words| {
                let mut _words = _words.iter();
                // SAFETY: rows are about arguments that are looked at before they are used.
                unsafe { $name($(next(&mut _words, stringify!($parameter))),*) }
            },
            twin: |_words, place| {
                let mut _words = _words.iter();
                // SAFETY: as above.
                unsafe { $twin($(next(&mut _words, stringify!($parameter)),)* place) }
            },
        }),*];
    };
}

functions! {
    olInit olInitWithCodeLoc (InitArgs);
    olShutDown olShutDownWithCodeLoc ();
    olGetPlatformInfo olGetPlatformInfoWithCodeLoc (Platform PropName PropSize PropValue);
    olGetPlatformInfoSize olGetPlatformInfoSizeWithCodeLoc (Platform PropName PropSizeRet);
    olPlatformRegisterRPCCallback olPlatformRegisterRPCCallbackWithCodeLoc (Platform Callback);
    olIterateDevices olIterateDevicesWithCodeLoc (Callback UserData);
    olGetDeviceInfo olGetDeviceInfoWithCodeLoc (Device PropName PropSize PropValue);
    olGetDeviceInfoSize olGetDeviceInfoSizeWithCodeLoc (Device PropName PropSizeRet);
    olMemAlloc olMemAllocWithCodeLoc (Device Type Size AllocationOut);
    olMemAllocAligned olMemAllocAlignedWithCodeLoc (Device Type Size Alignment AllocationOut);
    olMemFree olMemFreeWithCodeLoc (Address);
    olGetMemInfo olGetMemInfoWithCodeLoc (Ptr PropName PropSize PropValue);
    olGetMemInfoSize olGetMemInfoSizeWithCodeLoc (Ptr PropName PropSizeRet);
    olMemRegister olMemRegisterWithCodeLoc (Device Ptr Size Flags PinnedPtr);
    olMemUnregister olMemUnregisterWithCodeLoc (Device Ptr Flags);
    olMemPrefetch olMemPrefetchWithCodeLoc (Queue Count Mems Sizes Flags);
    olMemcpy olMemcpyWithCodeLoc (Queue DstPtr DstDevice SrcPtr SrcDevice Size);
    olMemFill olMemFillWithCodeLoc (Queue Ptr PatternSize PatternPtr FillSize);
    olCreateQueue olCreateQueueWithCodeLoc (Device Queue);
    olDestroyQueue olDestroyQueueWithCodeLoc (Queue);
    olSyncQueue olSyncQueueWithCodeLoc (Queue);
    olQueryQueue olQueryQueueWithCodeLoc (Queue IsQueueWorkCompleted);
    olWaitEvents olWaitEventsWithCodeLoc (Queue Events NumEvents);
    olGetQueueInfo olGetQueueInfoWithCodeLoc (Queue PropName PropSize PropValue);
    olGetQueueInfoSize olGetQueueInfoSizeWithCodeLoc (Queue PropName PropSizeRet);
    olLaunchHostFunction olLaunchHostFunctionWithCodeLoc (Queue Callback UserData);
    olCreateEvent olCreateEventWithCodeLoc (Queue Flags Event);
    olDestroyEvent olDestroyEventWithCodeLoc (Event);
    olSyncEvent olSyncEventWithCodeLoc (Event);
    olGetEventInfo olGetEventInfoWithCodeLoc (Event PropName PropSize PropValue);
    olGetEventInfoSize olGetEventInfoSizeWithCodeLoc (Event PropName PropSizeRet);
    olGetEventElapsedTime olGetEventElapsedTimeWithCodeLoc (StartEvent EndEvent ElapsedTime);
    olCreateProgram olCreateProgramWithCodeLoc (Device ProgData ProgDataSize Program);
    olDestroyProgram olDestroyProgramWithCodeLoc (Program);
    olIsValidBinary olIsValidBinaryWithCodeLoc (Device ProgData ProgDataSize Valid);
    olGetSymbol olGetSymbolWithCodeLoc (Program Name Kind Symbol);
    olGetSymbolInfo olGetSymbolInfoWithCodeLoc (Symbol PropName PropSize PropValue);
    olGetSymbolInfoSize olGetSymbolInfoSizeWithCodeLoc (Symbol PropName PropSizeRet);
    olLaunchKernel olLaunchKernelWithCodeLoc (
        Queue Device Kernel LaunchSizeArgs Properties NumArgs ArgPtrs ArgSizes
    );
    olCalculateOptimalOccupancy olCalculateOptimalOccupancyWithCodeLoc (Device Kernel SharedMemory GroupSize);
    olGetKernelMaxCooperativeGroupCount olGetKernelMaxCooperativeGroupCountWithCodeLoc (
        Device Kernel LaunchSizeArgs MaxGroupCount
    );
    olGetPlatformCount olGetPlatformCountWithCodeLoc (NumPlatforms);
    olGetPlatform olGetPlatformWithCodeLoc (NumEntries Platforms);
    olGetDeviceCount olGetDeviceCountWithCodeLoc (Platform NumDevices);
    olGetDevice olGetDeviceWithCodeLoc (Platform NumEntries Devices);
    olWaitQueue olWaitQueueWithCodeLoc (Queue);
    olWaitEvent olWaitEventWithCodeLoc (Event);
}

impl Function {
    /// Returns the one of this name.
    pub(crate) fn named(name: &str) -> &'static Function {
        let found = FUNCTIONS.iter().find(|function| function.name == name);
        found.unwrap_or_else(|| panic!("there is no function {name}"))
    }

    /// Returns the place of a parameter.
    pub(crate) fn position(&self, parameter: &str) -> usize {
        let found = self.parameters.iter().position(|name| *name == parameter);
        found.unwrap_or_else(|| panic!("{} has no parameter {parameter}", self.name))
    }

    /// Calls it, or its twin from a place.
    pub(crate) fn call(&self, mode: Mode, words: &[usize]) -> ol_result_t {
        match mode {
            Mode::Twin => (self.twin)(words, &PLACE),
            _ => (self.call)(words),
        }
    }

    /// Calls the twin from nowhere.
    pub(crate) fn call_from_nowhere(&self, words: &[usize]) -> ol_result_t {
        (self.twin)(words, null())
    }
}

/// Returns the next word as what the function takes.
fn next<T>(words: &mut std::slice::Iter<usize>, parameter: &str) -> T {
    let word = words.next().unwrap_or_else(|| panic!("no word for {parameter}"));
    assert!(size_of::<T>() <= size_of::<usize>());
    // SAFETY: it is a pointer, a number of at most that size whose low bytes come first, or a function that may be null.
    unsafe { std::mem::transmute_copy(word) }
}
