// "longshore.queue": an in-order queue is a list of tasks and a thread that runs them.

#include "queue.h"
#include <stdlib.h>
#include <string.h>

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

void append_task(longshore_queue *queue, task *task) {
    pthread_mutex_lock(&queue->lock);
    task->next = NULL;
    task->number = ++queue->queued;
    *queue->last = task;
    queue->last = &task->next;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

// Leaves errors of work queued after the call for the next call.
longshore_error_object *queue_synchronize(longshore_queue *queue) {
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

// A host function, or a record to reach or to wait for.
typedef struct order {
    task task; // first, so that both have the same address
    longshore_host_function function;
    record *record;
} order;

static order *new_order(longshore_error_object *(*run)(longshore_queue *, task *)) {
    order *made = calloc(1, sizeof *made);
    if (made)
        made->task.run = run;
    return made;
}

static longshore_error_object *run_function(longshore_queue *queue, task *task) {
    (void)queue;
    longshore_host_function function = ((order *)task)->function;
    function.call(function.context);
    return NULL;
}

static longshore_error_object *queue_host_function(longshore_queue *queue,
                                                   longshore_host_function function) {
    order *order = new_order(run_function);
    if (!order)
        return out_of_memory();
    order->function = function;
    append_task(queue, &order->task);
    return NULL;
}

static longshore_error_object *run_wait(longshore_queue *queue, task *task) {
    (void)queue;
    record *record = ((order *)task)->record;
    longshore_error_object *failure = await_record(record);
    leave_record(record);
    return failure;
}

static longshore_error_object *queue_wait_event(longshore_queue *queue, longshore_event *event) {
    record *record = last_record(event);
    if (!record)
        return NULL;
    order *order = new_order(run_wait);
    if (!order) {
        leave_record(record);
        return out_of_memory();
    }
    order->record = record;
    append_task(queue, &order->task);
    return NULL;
}

static longshore_error_object *run_record(longshore_queue *queue, task *task) {
    record *record = ((order *)task)->record;
    pthread_mutex_lock(&queue->lock);
    reach_record(record, queue->error);
    pthread_mutex_unlock(&queue->lock);
    leave_record(record);
    return NULL;
}

static longshore_error_object *queue_record_event(longshore_queue *queue, longshore_event *event) {
    order *order = new_order(run_record);
    record *record = order ? new_record(event) : NULL;
    if (!record) {
        free(order);
        return out_of_memory();
    }
    order->record = record;
    append_task(queue, &order->task);
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
