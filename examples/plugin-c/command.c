// Launches, copies and fills.

#include "queue.h"
#include <stdlib.h>
#include <string.h>

// A task is the first member, so that both have the same address.
typedef struct launch_task {
    task task;
    const longshore_kernel *kernel;
    uint64_t arguments[MAX_ARGUMENTS];
} launch_task;

typedef struct copy_task {
    task task;
    longshore_copy copy;
} copy_task;

typedef struct fill_task {
    task task;
    longshore_fill fill;
    uint8_t pattern[];
} fill_task;

static longshore_error_object *run_launch(longshore_queue *queue, task *task) {
    const longshore_kernel *kernel = ((launch_task *)task)->kernel;
    const operation *operation = &kernel->operation;
    return operation->type->run(operation, queue->device, ((launch_task *)task)->arguments);
}

static longshore_error_object *check_shape(const longshore_launch *launch) {
    uint64_t items = 1;
    for (int i = 0; i < 3; i++) {
        if (launch->groups[i] == 0 || launch->items[i] == 0)
            return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                        "dimension %d of the launch has %u groups of %u items, expected at least 1",
                        i, launch->groups[i], launch->items[i]);
        items = items > MAX_GROUP_ITEMS ? items : items * launch->items[i];
    }
    if (items > MAX_GROUP_ITEMS)
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                    "groups of %u x %u x %u items, the device has at most %u", launch->items[0],
                    launch->items[1], launch->items[2], MAX_GROUP_ITEMS);
    if (launch->cluster[0] || launch->cluster[1] || launch->cluster[2])
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "the device has no clusters of groups");
    if (launch->dynamic_shared_bytes > MAX_SHARED_BYTES)
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                    "%llu bytes of shared memory, the device has %u",
                    (unsigned long long)launch->dynamic_shared_bytes, MAX_SHARED_BYTES);
    return NULL;
}

static longshore_error_object *check_arguments(const longshore_launch *launch) {
    const longshore_kernel *kernel = launch->kernel;
    const operation_type *type = kernel->operation.type;
    if (launch->argument_count != type->argument_count)
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                    "kernel '%.*s' takes %u arguments, the launch has %u", (int)kernel->name.bytes,
                    (const char *)kernel->name.data, type->argument_count, launch->argument_count);
    for (uint32_t i = 0; i < type->argument_count; i++)
        if (launch->argument_sizes[i] != type->argument_sizes[i])
            return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                        "argument %u of kernel '%.*s' has %zu bytes, expected %u", i,
                        (int)kernel->name.bytes, (const char *)kernel->name.data,
                        launch->argument_sizes[i], type->argument_sizes[i]);
    return NULL;
}

static longshore_error_object *check_launch(const longshore_queue *queue,
                                            const longshore_launch *launch) {
    if (launch->flags & ~(uint32_t)LONGSHORE_LAUNCH_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED,
                    "launch flags 0x%x, this device has no flag but LAUNCH_WAIT", launch->flags);
    if (launch->kernel->module->device != queue->device)
        return fail(LONGSHORE_ERROR_INVALID_DEVICE, "a kernel of " BACKEND ":%u on a queue of "
                    BACKEND ":%u", launch->kernel->module->device->index, queue->device->index);
    longshore_error_object *error = check_shape(launch);
    return error ? error : check_arguments(launch);
}

// Captures the values of the arguments: the program may change them after the call.
longshore_error_object *queue_launch(longshore_queue *queue,
                                            const longshore_launch *launch) {
    longshore_error_object *error = check_launch(queue, launch);
    if (error)
        return error;
    launch_task *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->task.run = run_launch;
    made->kernel = launch->kernel;
    for (uint32_t i = 0; i < launch->argument_count; i++)
        memcpy(&made->arguments[i], launch->arguments[i], launch->argument_sizes[i]);
    append_task(queue, &made->task);
    return launch->flags & LONGSHORE_LAUNCH_WAIT ? queue_synchronize(queue) : NULL;
}

// Returns the host pointer for one end of a copy.
static longshore_error_object *end_of_copy(longshore_device *device, uint64_t address,
                                           uint64_t bytes, unsigned char **pointer) {
    if (device)
        return memory_at(device, LONGSHORE_ERROR_INVALID_ARGUMENT, address, bytes, pointer);
    *pointer = (unsigned char *)(uintptr_t)address;
    return NULL;
}

static longshore_error_object *run_copy(longshore_queue *queue, task *task) {
    (void)queue;
    const longshore_copy *copy = &((copy_task *)task)->copy;
    if (copy->bytes == 0)
        return NULL;
    unsigned char *to, *from;
    longshore_error_object *error =
        end_of_copy(copy->destination_device, copy->destination, copy->bytes, &to);
    if (!error)
        error = end_of_copy(copy->source_device, copy->source, copy->bytes, &from);
    if (!error)
        memmove(to, from, copy->bytes);
    return error;
}

longshore_error_object *queue_copy(longshore_queue *queue, const longshore_copy *copy) {
    if (copy->flags & ~(uint32_t)LONGSHORE_COPY_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "copy flags 0x%x are unknown", copy->flags);
    copy_task *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->task.run = run_copy;
    made->copy = *copy;
    append_task(queue, &made->task);
    return copy->flags & LONGSHORE_COPY_WAIT ? queue_synchronize(queue) : NULL;
}

static longshore_error_object *run_fill(longshore_queue *queue, task *task) {
    const fill_task *work = (const fill_task *)task;
    const longshore_fill *fill = &work->fill;
    unsigned char *to;
    longshore_error_object *error = memory_at(queue->device, LONGSHORE_ERROR_INVALID_ARGUMENT,
                                              fill->destination, fill->bytes, &to);
    for (uint64_t i = 0; !error && i < fill->bytes; i += fill->pattern.bytes)
        memcpy(to + i, work->pattern, fill->pattern.bytes);
    return error;
}

longshore_error_object *queue_fill(longshore_queue *queue, const longshore_fill *fill) {
    const size_t pattern = fill->pattern.bytes;
    if (fill->flags & ~(uint32_t)LONGSHORE_FILL_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "fill flags 0x%x are unknown", fill->flags);
    if (pattern == 0 || fill->bytes % pattern)
        return fail(LONGSHORE_ERROR_INVALID_SIZE, "a fill of %llu bytes with a pattern of %zu",
                    (unsigned long long)fill->bytes, pattern);
    fill_task *made = calloc(1, sizeof *made + pattern);
    if (!made)
        return out_of_memory();
    made->task.run = run_fill;
    made->fill = *fill;
    memcpy(made->pattern, fill->pattern.data, pattern);
    append_task(queue, &made->task);
    return fill->flags & LONGSHORE_FILL_WAIT ? queue_synchronize(queue) : NULL;
}
