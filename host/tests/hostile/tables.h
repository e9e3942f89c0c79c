// The interface tables of the hostile plugins. Included after the plugin's functions, which have
// the names of the entries.

static const longshore_platform_table platform_table = {info, device_count, device_info,
                                                        open_device, destroy_platform};
static const longshore_device_table device_table = {
    accepts,          allocate,      free_memory, load, create_queue, create_event, score,
    set_logical_size, import_memory, device_call};
static const longshore_module_table module_table = {kernel,      global,      symbols,
                                                    module_call, module_call, module_call};
static const longshore_queue_table queue_table = {launch, copy, fill, host_function, with_event,
                                                  with_event, is_idle, queue_call, queue_call};
static const longshore_event_table event_table = {is_complete, event_call, elapsed, event_call};
static const longshore_pinning_table pinning_table = {pin, unpin};
static const longshore_occupancy_table occupancy_table = {optimal, cooperative};
static const longshore_instrumentation_table instrumentation_table = {pool_tracker, profile};
