// What queues and events know of each other: records.

#ifndef QUEUE_H
#define QUEUE_H

#include "sample.h"

// One recording of an event on a queue. The event holds its last one; the queue that will reach it
// and the queues that wait for it hold it too, so that event and queues may go in any order.
typedef struct record record;

// A record that takes the place of the event's last one; null if the host is out of memory. For
// the event and for the caller, who owes it a `leave_record`.
record *new_record(longshore_event *event);
// The event's last record, null if there is none. The caller owes it a `leave_record`.
record *last_record(longshore_event *event);
// Reaches it, behind `failure`, which is null or stays the caller's.
void reach_record(record *record, const longshore_error_object *failure);
// Blocks until it is reached. The answer is a copy of the failure that it is behind, or null.
longshore_error_object *await_record(record *record);
void leave_record(record *record);

#endif // QUEUE_H
