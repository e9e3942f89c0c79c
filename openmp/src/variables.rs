//! Variables of LLVM's library that have no effect here.

use crate::settings;

/// Variables, each with the reason for having no effect, or with its replacement.
const WITHOUT_EFFECT: [(&str, &str); 25] = [
    ("LIBOMPTARGET_MAP_FORCE_ATOMIC", "copies of mapped data are always atomic"),
    ("LIBOMPTARGET_RECORD", RECORD),
    ("LIBOMPTARGET_RR_SAVE_OUTPUT", RECORD),
    ("LIBOMPTARGET_JIT_OPT_LEVEL", JIT),
    ("LIBOMPTARGET_JIT_SKIP_OPT", JIT),
    ("LIBOMPTARGET_JIT_PRE_OPT_IR_MODULE", JIT),
    ("LIBOMPTARGET_JIT_POST_OPT_IR_MODULE", JIT),
    ("LIBOMPTARGET_JIT_REPLACEMENT_MODULE", JIT),
    ("LIBOMPTARGET_JIT_REPLACEMENT_OBJECT", JIT),
    ("OFFLOAD_TRACK_ALLOCATION_TRACES", "set LONGSHORE_TRACK"),
    ("OFFLOAD_TRACK_NUM_KERNEL_LAUNCH_TRACES", "an error names its kernel"),
    ("LIBOMPTARGET_NUM_INITIAL_STREAMS", ON_DEMAND),
    ("LIBOMPTARGET_NUM_INITIAL_EVENTS", ON_DEMAND),
    ("LIBOMPTARGET_AMDGPU_NUM_HSA_QUEUES", HIP),
    ("LIBOMPTARGET_AMDGPU_HSA_QUEUE_SIZE", HIP),
    ("LIBOMPTARGET_AMDGPU_HSA_QUEUE_BUSY_TRACKING", HIP),
    ("LIBOMPTARGET_AMDGPU_MAX_ASYNC_COPY_BYTES", HIP),
    ("LIBOMPTARGET_AMDGPU_NUM_INITIAL_HSA_SIGNALS", HIP),
    ("LIBOMPTARGET_AMDGPU_STREAM_BUSYWAIT", HIP),
    ("LIBOMPTARGET_AMDGPU_USE_MULTIPLE_SDMA_ENGINES", HIP),
    ("OMPTARGET_QUERY_COUNT_MAX", QUERY),
    ("OMPTARGET_QUERY_COUNT_THRESHOLD", QUERY),
    ("OMPTARGET_QUERY_COUNT_BACKOFF_FACTOR", QUERY),
    ("OMP_TEAM_LIMIT", "set OMP_NUM_TEAMS"),
    ("OMPX_APU_MAPS", "unified shared memory is used where a program requires it"),
];

const RECORD: &str = "kernels are not recorded";
const JIT: &str = "the driver compiles PTX, and no image has LLVM's code";
const ON_DEMAND: &str = "queues and events are made on demand, and kept";
const HIP: &str = "HIP runs the queues of AMD's GPUs";
const QUERY: &str = "queries of regions with nowait have their own waiting time";

/// Logs each variable that is set and has no effect.
#[cold]
pub(crate) fn log_without_effect() {
    for (name, reason) in WITHOUT_EFFECT {
        if settings::text(name).is_some() {
            log::warn!("the variable {name} has no effect: {reason}");
        }
    }
}
