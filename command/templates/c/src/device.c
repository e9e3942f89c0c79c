// "longshore.device": an open device, the maker of modules, queues and events.

#include "plugin.h"
#include <stdlib.h>

// Your driver: create its context here. Each device can be opened again, also while it is open
// (P-60).
longshore_error_object *open_device(longshore_platform *platform, uint32_t index,
                                    longshore_device **device) {
    longshore_device *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->platform = platform;
    made->index = index;
    pthread_mutex_init(&made->lock, NULL);
    *device = made;
    return NULL;
}

// A bad image is a refusal with a reason, and no error (P-37).
static longshore_error_object *device_accepts(longshore_device *device, longshore_bytes image,
                                              uint32_t *accepted, longshore_sink reason) {
    (void)device;
    longshore_error_object *refusal = check_image(image);
    *accepted = !refusal;
    if (refusal)
        reason.write(reason.context, refusal->message.data, refusal->message.bytes);
    release(refusal);
    return NULL;
}

// UNSUPPORTED reports a missing feature, and the host works without it. Your driver: if containers
// have several images for a device, score them (P-61).
static longshore_error_object *device_score(longshore_device *device, longshore_bytes image,
                                            longshore_text triple, longshore_text arch,
                                            uint32_t *score) {
    (void)device, (void)image, (void)triple, (void)arch, (void)score;
    return fail(LONGSHORE_ERROR_UNSUPPORTED, "images are not scored");
}

// Only for devices that bind or measure whole allocations (P-63).
static longshore_error_object *device_set_logical_size(longshore_device *device, uint64_t address,
                                                       uint64_t bytes) {
    (void)device, (void)address, (void)bytes;
    return fail(LONGSHORE_ERROR_UNSUPPORTED, "nothing depends on an allocation's logical size");
}

// Your driver: register memory of the process, if kernels can reach it at its own address (P-65).
static longshore_error_object *device_import_memory(longshore_device *device, uint32_t kind,
                                                    uint64_t address, uint64_t bytes) {
    (void)device, (void)kind, (void)address, (void)bytes;
    return fail(LONGSHORE_ERROR_UNSUPPORTED, "the device cannot import memory of the host");
}

// The host has already unloaded, destroyed and freed all objects of the device (H-8). The threads
// of destroyed queues may still have work to finish. Your driver: end its context here.
static longshore_error_object *device_close(longshore_device *device) {
    join_queues(device);
    pthread_mutex_destroy(&device->lock);
    free(device);
    return NULL;
}

const longshore_device_table device_table = {
    .accepts = device_accepts,
    .allocate = memory_allocate,
    .free = memory_free,
    .load = load_module,
    .create_queue = create_queue,
    .create_event = create_event,
    .score = device_score,
    .set_logical_size = device_set_logical_size,
    .import_memory = device_import_memory,
    .close = device_close,
};
