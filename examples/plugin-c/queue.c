// "longshore.queue": an in-order queue is a list of tasks and a thread that runs them.

#include "queue.h"
#include <stdlib.h>
#include <string.h>

typedef struct task task;

struct task {
    task *next;
    uint64_t number; // counts up in a queue, from 1
    longshore_error_object *(*run)(longshore_queue *queue, task *task);
    union {
        struct {
            const longshore_kernel *kernel;
            uint64_t arguments[MAX_ARGUMENTS];
        } launch;
        longshore_copy copy;
        longshore_fill fill;
        longshore_host_function function;
        record *record;
    } as;
    uint8_t pattern[]; // of a fill
};

struct longshore_queue {
    longshore_queue *next; // in the device's list
    longshore_device *device;
    pthread_t thread;
    pthread_mutex_t lock; // guards the fields below
    pthread_cond_t changed;
    task *first, **last;
    uint64_t queued, done;         // numbers of the last queued and finished task
    longshore_error_object *error; // the first unreported one
    uint64_t error_number;         // the number of its task
    bool given_up, ended;
};

// Waits for the next task and takes it; returns null after the last task.
static task *next_task(longshore_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->first && !queue->given_up)
        pthread_cond_wait(&queue->changed, &queue->lock);
    task *task = queue->first;
    if (task) {
        queue->first = task->next;
        if (!queue->first)
            queue->last = &queue->first;
    } else {
        queue->ended = true;
    }
    pthread_mutex_unlock(&queue->lock);
    return task;
}

static void finish_task(longshore_queue *queue, task *task, longshore_error_object *error) {
    pthread_mutex_lock(&queue->lock);
    if (error && !queue->error) {
        queue->error = error;
        queue->error_number = task->number;
        error = NULL;
    }
    queue->done = task->number;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    release(error);
    free(task);
}

static void *work(void *argument) {
    longshore_queue *queue = argument;
    for (task *task = next_task(queue); task; task = next_task(queue))
        finish_task(queue, task, task->run(queue, task));
    return NULL;
}

// Joins the threads of destroyed queues: only the ended threads, or all.
static void reap(longshore_device *device, bool all) {
    pthread_mutex_lock(&device->lock);
    longshore_queue **link = &device->queues, *ended = NULL;
    while (*link) {
        longshore_queue *queue = *link;
        pthread_mutex_lock(&queue->lock);
        bool take = queue->ended || all;
        pthread_mutex_unlock(&queue->lock);
        if (!take) {
            link = &queue->next;
            continue;
        }
        *link = queue->next;
        queue->next = ended;
        ended = queue;
    }
    pthread_mutex_unlock(&device->lock);
    while (ended) {
        longshore_queue *queue = ended;
        ended = queue->next;
        pthread_join(queue->thread, NULL);
        release(queue->error);
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->lock);
        free(queue);
    }
}

void join_queues(longshore_device *device) {
    reap(device, true);
}

longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue) {
    reap(device, false);
    longshore_queue *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->device = device;
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    int failed = pthread_create(&made->thread, NULL, work, made);
    if (failed) {
        pthread_cond_destroy(&made->changed);
        pthread_mutex_destroy(&made->lock);
        free(made);
        return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES, "no thread for a queue: %s",
                    strerror(failed));
    }
    pthread_mutex_lock(&device->lock);
    made->next = device->queues;
    device->queues = made;
    pthread_mutex_unlock(&device->lock);
    *queue = made;
    return NULL;
}

// Appends a task to the queue.
static void append(longshore_queue *queue, task *task) {
    pthread_mutex_lock(&queue->lock);
    task->next = NULL;
    task->number = ++queue->queued;
    *queue->last = task;
    queue->last = &task->next;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

// Leaves errors of work queued after the call for the next call.
static longshore_error_object *queue_synchronize(longshore_queue *queue) {
    longshore_error_object *error = NULL;
    pthread_mutex_lock(&queue->lock);
    const uint64_t target = queue->queued;
    while (queue->done < target)
        pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->error && queue->error_number <= target) {
        error = queue->error;
        queue->error = NULL;
    }
    pthread_mutex_unlock(&queue->lock);
    return error;
}

static longshore_error_object *run_launch(longshore_queue *queue, task *task) {
    const longshore_kernel *kernel = task->as.launch.kernel;
    const operation *operation = &kernel->operation;
    return operation->type->run(operation, queue->device, task->as.launch.arguments);
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
static longshore_error_object *queue_launch(longshore_queue *queue,
                                            const longshore_launch *launch) {
    longshore_error_object *error = check_launch(queue, launch);
    if (error)
        return error;
    task *task = calloc(1, sizeof *task);
    if (!task)
        return out_of_memory();
    task->run = run_launch;
    task->as.launch.kernel = launch->kernel;
    for (uint32_t i = 0; i < launch->argument_count; i++)
        memcpy(&task->as.launch.arguments[i], launch->arguments[i], launch->argument_sizes[i]);
    append(queue, task);
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
    const longshore_copy *copy = &task->as.copy;
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

static longshore_error_object *queue_copy(longshore_queue *queue, const longshore_copy *copy) {
    if (copy->flags & ~(uint32_t)LONGSHORE_COPY_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "copy flags 0x%x are unknown", copy->flags);
    task *task = calloc(1, sizeof *task);
    if (!task)
        return out_of_memory();
    task->run = run_copy;
    task->as.copy = *copy;
    append(queue, task);
    return copy->flags & LONGSHORE_COPY_WAIT ? queue_synchronize(queue) : NULL;
}

static longshore_error_object *run_fill(longshore_queue *queue, task *task) {
    const longshore_fill *fill = &task->as.fill;
    unsigned char *to;
    longshore_error_object *error = memory_at(queue->device, LONGSHORE_ERROR_INVALID_ARGUMENT,
                                              fill->destination, fill->bytes, &to);
    for (uint64_t i = 0; !error && i < fill->bytes; i += fill->pattern.bytes)
        memcpy(to + i, task->pattern, fill->pattern.bytes);
    return error;
}

static longshore_error_object *queue_fill(longshore_queue *queue, const longshore_fill *fill) {
    const size_t pattern = fill->pattern.bytes;
    if (fill->flags & ~(uint32_t)LONGSHORE_FILL_WAIT)
        return fail(LONGSHORE_ERROR_UNSUPPORTED, "fill flags 0x%x are unknown", fill->flags);
    if (pattern == 0 || fill->bytes % pattern)
        return fail(LONGSHORE_ERROR_INVALID_SIZE, "a fill of %llu bytes with a pattern of %zu",
                    (unsigned long long)fill->bytes, pattern);
    task *task = calloc(1, sizeof *task + pattern);
    if (!task)
        return out_of_memory();
    task->run = run_fill;
    task->as.fill = *fill;
    memcpy(task->pattern, fill->pattern.data, pattern);
    append(queue, task);
    return fill->flags & LONGSHORE_FILL_WAIT ? queue_synchronize(queue) : NULL;
}

static longshore_error_object *run_function(longshore_queue *queue, task *task) {
    (void)queue;
    task->as.function.call(task->as.function.context);
    return NULL;
}

static longshore_error_object *queue_host_function(longshore_queue *queue,
                                                   longshore_host_function function) {
    task *task = calloc(1, sizeof *task);
    if (!task)
        return out_of_memory();
    task->run = run_function;
    task->as.function = function;
    append(queue, task);
    return NULL;
}

static longshore_error_object *run_wait(longshore_queue *queue, task *task) {
    (void)queue;
    longshore_error_object *failure = await_record(task->as.record);
    leave_record(task->as.record);
    return failure;
}

static longshore_error_object *queue_wait_event(longshore_queue *queue, longshore_event *event) {
    record *record = last_record(event);
    if (!record)
        return NULL;
    task *task = calloc(1, sizeof *task);
    if (!task) {
        leave_record(record);
        return out_of_memory();
    }
    task->run = run_wait;
    task->as.record = record;
    append(queue, task);
    return NULL;
}

static longshore_error_object *run_record(longshore_queue *queue, task *task) {
    pthread_mutex_lock(&queue->lock);
    reach_record(task->as.record, queue->error);
    pthread_mutex_unlock(&queue->lock);
    leave_record(task->as.record);
    return NULL;
}

static longshore_error_object *queue_record_event(longshore_queue *queue, longshore_event *event) {
    task *task = calloc(1, sizeof *task);
    record *record = task ? new_record(event) : NULL;
    if (!record) {
        free(task);
        return out_of_memory();
    }
    task->run = run_record;
    task->as.record = record;
    append(queue, task);
    return NULL;
}

static longshore_error_object *queue_is_idle(longshore_queue *queue, uint32_t *idle) {
    pthread_mutex_lock(&queue->lock);
    *idle = queue->done == queue->queued;
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

// The thread runs the queued work and ends; a later call joins it.
static longshore_error_object *queue_destroy(longshore_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->given_up = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

const longshore_queue_table queue_table = {
    .launch = queue_launch,
    .copy = queue_copy,
    .fill = queue_fill,
    .host_function = queue_host_function,
    .wait_event = queue_wait_event,
    .record_event = queue_record_event,
    .is_idle = queue_is_idle,
    .synchronize = queue_synchronize,
    .destroy = queue_destroy,
};
