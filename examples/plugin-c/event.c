// "longshore.event".

#include "queue.h"
#include <stdlib.h>
#include <time.h>

struct record {
    pthread_mutex_t lock; // guards the fields below
    pthread_cond_t changed;
    unsigned holders;
    bool reached;
    int64_t nanoseconds; // time at which the record was reached
    longshore_error_object *failure; // the first pending error before the record
};

struct longshore_event {
    longshore_device *device;
    bool timing;
    pthread_mutex_t lock; // guards `last`
    record *last;
};

longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                     longshore_event **event) {
    longshore_event *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->device = device;
    made->timing = timing != 0;
    pthread_mutex_init(&made->lock, NULL);
    *event = made;
    return NULL;
}

record *new_record(longshore_event *event) {
    record *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->holders = 2;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    pthread_mutex_lock(&event->lock);
    record *before = event->last;
    event->last = made;
    pthread_mutex_unlock(&event->lock);
    leave_record(before);
    return made;
}

record *last_record(longshore_event *event) {
    pthread_mutex_lock(&event->lock);
    record *last = event->last;
    if (last) {
        pthread_mutex_lock(&last->lock);
        last->holders++;
        pthread_mutex_unlock(&last->lock);
    }
    pthread_mutex_unlock(&event->lock);
    return last;
}

void reach_record(record *record, const longshore_error_object *failure) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&record->lock);
    record->failure = copy_of(failure);
    record->reached = true;
    record->nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    pthread_cond_broadcast(&record->changed);
    pthread_mutex_unlock(&record->lock);
}

longshore_error_object *await_record(record *record) {
    pthread_mutex_lock(&record->lock);
    while (!record->reached)
        pthread_cond_wait(&record->changed, &record->lock);
    pthread_mutex_unlock(&record->lock);
    return copy_of(record->failure); // the failure no longer changes
}

void leave_record(record *record) {
    if (!record)
        return;
    pthread_mutex_lock(&record->lock);
    bool free_it = --record->holders == 0;
    pthread_mutex_unlock(&record->lock);
    if (!free_it)
        return;
    release(record->failure);
    pthread_cond_destroy(&record->changed);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

static bool was_reached(record *record, int64_t *nanoseconds) {
    pthread_mutex_lock(&record->lock);
    bool reached = record->reached;
    *nanoseconds = record->nanoseconds;
    pthread_mutex_unlock(&record->lock);
    return reached;
}

static longshore_error_object *event_is_complete(longshore_event *event, uint32_t *complete) {
    record *last = last_record(event);
    int64_t nanoseconds;
    *complete = !last || was_reached(last, &nanoseconds);
    leave_record(last);
    return NULL;
}

static longshore_error_object *event_synchronize(longshore_event *event) {
    record *last = last_record(event);
    longshore_error_object *failure = last ? await_record(last) : NULL;
    leave_record(last);
    return failure;
}

// Stores the time at which the queue reached the event's last record. Returns false if the event
// has no record, or if the record is not reached yet.
static bool reached_at(longshore_event *event, int64_t *nanoseconds) {
    record *last = last_record(event);
    bool reached = last && was_reached(last, nanoseconds);
    leave_record(last);
    return reached;
}

static longshore_error_object *event_elapsed(longshore_event *start, longshore_event *end,
                                             int64_t *nanoseconds) {
    if (!start->timing || !end->timing)
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT, "the %s event was made without timing",
                    start->timing ? "end" : "start");
    if (start->device != end->device)
        return fail(LONGSHORE_ERROR_INVALID_DEVICE, "the events are of two devices, %u and %u",
                    start->device->index, end->device->index);
    int64_t from, to;
    if (!reached_at(start, &from) || !reached_at(end, &to))
        return fail(LONGSHORE_ERROR_INVALID_EVENT,
                    "an event was not recorded, or is not complete");
    *nanoseconds = to - from;
    return NULL;
}

static longshore_error_object *event_destroy(longshore_event *event) {
    leave_record(event->last);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return NULL;
}

const longshore_event_table event_table = {
    .is_complete = event_is_complete,
    .synchronize = event_synchronize,
    .elapsed_ns = event_elapsed,
    .destroy = event_destroy,
};
