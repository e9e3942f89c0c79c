// Launches, copies and fills: the work of the device. A queue runs it on its thread, see queue.c.
//
// Your driver: if its calls block until the work is done, call them in `run_copy` and `run_fill`,
// and keep queue.c and event.c. If the driver has queues and events of its own, these take the
// place of both files.

#include "queue.h"
#include <stdlib.h>
#include <string.h>

// A task is the first member, so that both have the same address.
typedef struct copy_task {
    task task;
    longshore_copy copy;
} copy_task;

typedef struct fill_task {
    task task;
    longshore_fill fill;
    uint8_t pattern[];
} fill_task;

// Your driver: refuse unknown flags, a kernel of another device, and a shape or arguments that the
// kernel cannot have (P-47). Copy the values of the arguments, which the program may change after
// the call (P-46). Then append a task that launches the kernel.
longshore_error_object *queue_launch(longshore_queue *queue, const longshore_launch *launch) {
    (void)launch;
    return fail(LONGSHORE_ERROR_UNSUPPORTED, BACKEND ":%u has no kernels yet",
                queue->device->index);
}

static longshore_error_object *run_copy(longshore_queue *queue, task *task) {
    (void)queue;
    const longshore_copy *copy = &((copy_task *)task)->copy;
    // Your driver: `source_device` and `destination_device` are null for memory of the host.
    if (copy->bytes)
        memmove((void *)(uintptr_t)copy->destination, (const void *)(uintptr_t)copy->source,
                copy->bytes);
    return NULL;
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
    (void)queue;
    const fill_task *work = (const fill_task *)task;
    unsigned char *to = (unsigned char *)(uintptr_t)work->fill.destination;
    for (uint64_t i = 0; i < work->fill.bytes; i += work->fill.pattern.bytes)
        memcpy(to + i, work->pattern, work->fill.pattern.bytes);
    return NULL;
}

// The pattern is copied before the call returns (P-46).
longshore_error_object *queue_fill(longshore_queue *queue, const longshore_fill *fill) {
    if (fill->flags & ~(uint32_t)LONGSHORE_FILL_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "fill flags 0x%x are unknown", fill->flags);
    fill_task *made = calloc(1, sizeof *made + fill->pattern.bytes);
    if (!made)
        return out_of_memory();
    made->task.run = run_fill;
    made->fill = *fill;
    memcpy(made->pattern, fill->pattern.data, fill->pattern.bytes);
    append_task(queue, &made->task);
    return fill->flags & LONGSHORE_FILL_WAIT ? queue_synchronize(queue) : NULL;
}
