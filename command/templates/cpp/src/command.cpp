// "longshore.queue": the commands, and the work that the device does for each.

#include "queue.hpp"
#include <cstring>
#include <vector>

namespace {

void check_flags(const char *command, uint32_t flags, uint32_t known) {
    if (flags & ~known)
        throw failure(LONGSHORE_ERROR_UNSUPPORTED, "flags ", flags, " of a ", command,
                      ", expected at most ", known);
}

void *pointer(uint64_t address) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

// Your driver: refuse unknown flags, a kernel of another device, and a shape or arguments that the
// kernel cannot have (P-47). Copy the values of the arguments, which the program may change after
// the call (P-46). Then push a task that launches the kernel.
longshore_error_object *launch(longshore_queue *queue, const longshore_launch *) {
    return guarded([&] {
        throw failure(LONGSHORE_ERROR_UNSUPPORTED, BACKEND ":", queue->device.index,
                      " has no kernels yet");
    });
}

longshore_error_object *copy(longshore_queue *queue, const longshore_copy *copy) {
    return guarded([&] {
        check_flags("copy", copy->flags, LONGSHORE_COPY_WAIT);
        queue->push([copy = *copy] {
            // Your driver: `source_device` and `destination_device` are null for memory of the
            // host.
            if (copy.bytes)
                std::memmove(pointer(copy.destination), pointer(copy.source), copy.bytes);
        });
        if (copy->flags & LONGSHORE_COPY_WAIT)
            queue->synchronize();
    });
}

longshore_error_object *fill(longshore_queue *queue, const longshore_fill *fill) {
    return guarded([&] {
        check_flags("fill", fill->flags, LONGSHORE_FILL_WAIT);
        // The pattern is copied before the call returns (P-46).
        std::vector<uint8_t> pattern(fill->pattern.data, fill->pattern.data + fill->pattern.bytes);
        queue->push([fill = *fill, pattern] {
            auto *to = static_cast<uint8_t *>(pointer(fill.destination));
            for (uint64_t i = 0; i < fill.bytes; i += pattern.size())
                std::memcpy(to + i, pattern.data(), pattern.size());
        });
        if (fill->flags & LONGSHORE_FILL_WAIT)
            queue->synchronize();
    });
}

longshore_error_object *host_function(longshore_queue *queue, longshore_host_function function) {
    return guarded([&] { queue->push([function] { function.call(function.context); }); });
}

longshore_error_object *wait_event(longshore_queue *queue, longshore_event *event) {
    return guarded([&] {
        auto record = event->last();
        if (!record)
            return;
        queue->push([record] {
            if (auto failure = record->wait())
                throw *failure;
        });
    });
}

longshore_error_object *record_event(longshore_queue *queue, longshore_event *event) {
    return guarded([&] { queue->record(*event); });
}

longshore_error_object *is_idle(longshore_queue *queue, uint32_t *idle) {
    return guarded([&] { *idle = queue->is_idle(); });
}

longshore_error_object *synchronize(longshore_queue *queue) {
    return guarded([&] { queue->synchronize(); });
}

// Queued work still runs; the device joins the thread later (P-52).
longshore_error_object *destroy(longshore_queue *queue) {
    return guarded([&] { queue->give_up(); });
}

} // namespace

// The functions in the order of the header.
const longshore_queue_table queue_table = {
    launch,       copy,    fill,        host_function, wait_event,
    record_event, is_idle, synchronize, destroy,
};
