// "longshore.device": an open device, the maker of modules, queues and events.

#include "answer.hpp"
#include "error.hpp"
#include "plugin.hpp"
#include "queue.hpp"

// Your driver: create its context here.
longshore_device::longshore_device(const longshore_platform &platform, uint32_t index)
    : platform(platform), index(index) {}

// The host has already unloaded, destroyed and freed all objects of the device (H-8). The threads
// of destroyed queues may still have work to finish. Your driver: end its context after them.
longshore_device::~longshore_device() {
    queues.clear();
}

longshore_queue *longshore_device::create_queue() {
    auto made = std::make_unique<longshore_queue>(*this);
    auto *queue = made.get();
    std::lock_guard guard(lock);
    queues.remove_if([](const auto &queue) { return queue->has_ended(); });
    queues.push_back(std::move(made));
    return queue;
}

namespace {

// A bad image is a refusal with a reason, and no error (P-37).
longshore_error_object *accepts(longshore_device *, longshore_bytes image, uint32_t *accepted,
                                longshore_sink reason) {
    return guarded([&] {
        try {
            check_image(image);
            *accepted = 1;
        } catch (const Failure &refusal) {
            *accepted = 0;
            write_text(reason, refusal.what());
        }
    });
}

longshore_error_object *allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                 uint64_t alignment, uint64_t *address) {
    return guarded([&] { *address = device->allocate(kind, bytes, alignment); });
}

longshore_error_object *free_memory(longshore_device *device, uint32_t kind, uint64_t address) {
    return guarded([&] { device->free(kind, address); });
}

// Your driver: load the image, without running its constructors. Malformed bytes do no harm, and
// leave nothing behind (P-38). The host keeps the bytes in place until `unload` (H-6). `loading`
// may be ignored.
longshore_error_object *load(longshore_device *device, longshore_bytes image, uint32_t,
                             longshore_module **module) {
    return guarded([&] {
        check_image(image);
        *module = new longshore_module{*device};
    });
}

longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue) {
    return guarded([&] { *queue = device->create_queue(); });
}

longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                     longshore_event **event) {
    return guarded([&] { *event = new longshore_event(*device, timing != 0); });
}

// UNSUPPORTED reports a missing feature, and the host works without it. Your driver: if containers
// have several images for a device, score them (P-61).
longshore_error_object *score(longshore_device *, longshore_bytes, longshore_text, longshore_text,
                              uint32_t *) {
    return guarded([] { throw failure(LONGSHORE_ERROR_UNSUPPORTED, "images are not scored"); });
}

// Only for devices that bind or measure whole allocations (P-63).
longshore_error_object *set_logical_size(longshore_device *, uint64_t, uint64_t) {
    return guarded([] {
        throw failure(LONGSHORE_ERROR_UNSUPPORTED,
                      "nothing depends on an allocation's logical size");
    });
}

// Your driver: register memory of the process, if kernels can reach it at its own address (P-65).
longshore_error_object *import_memory(longshore_device *, uint32_t, uint64_t, uint64_t) {
    return guarded([] {
        throw failure(LONGSHORE_ERROR_UNSUPPORTED, "the device cannot import memory of the host");
    });
}

longshore_error_object *close(longshore_device *device) {
    delete device;
    return nullptr;
}

} // namespace

// The functions in the order of the header.
const longshore_device_table device_table = {
    accepts, allocate,         free_memory,   load,  create_queue, create_event,
    score,   set_logical_size, import_memory, close,
};
