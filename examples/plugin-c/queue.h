// Records, the shared objects of queues and events.

#ifndef QUEUE_H
#define QUEUE_H

#include "sample.h"

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
