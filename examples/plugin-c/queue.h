// Queues and their tasks; records, the shared objects of queues and events.

#ifndef QUEUE_H
#define QUEUE_H

#include "plugin.h"

typedef struct task task;

// Work of a queue. A task is the first member of a structure from `calloc`, which also has the
// data of the work; the queue frees it.
struct task {
    task *next;
    uint64_t number; // counts up in a queue, from 1
    // Does the work, on the queue's thread.
    longshore_error_object *(*run)(longshore_queue *queue, task *task);
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

// Appends a task to the queue.
void append_task(longshore_queue *queue, task *task);
// Blocks until all tasks are done, and returns the first error that was not reported before.
longshore_error_object *queue_synchronize(longshore_queue *queue);

// command.c: the work that the device does
longshore_error_object *queue_launch(longshore_queue *queue, const longshore_launch *launch);
longshore_error_object *queue_copy(longshore_queue *queue, const longshore_copy *copy);
longshore_error_object *queue_fill(longshore_queue *queue, const longshore_fill *fill);

// A recording of an event on a queue. The event holds its last record. The queue that will reach a
// record holds it, and so do waiting queues: events and queues may end in any order.
typedef struct record record;

// Creates a record that replaces the last record of the event; null if the host is out of memory.
// The event and the caller hold it; the caller releases it with `leave_record`.
record *new_record(longshore_event *event);
// Returns the event's last record, or null. The caller releases it with `leave_record`.
record *last_record(longshore_event *event);
// Marks the record as reached, after `failure`, which is null or remains the property of the
// caller.
void reach_record(record *record, const longshore_error_object *failure);
// Blocks until the record is reached. Returns a copy of the failure before it, or null.
longshore_error_object *await_record(record *record);
void leave_record(record *record);

#endif // QUEUE_H
