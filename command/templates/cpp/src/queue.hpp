// Queues, events, and the records that they share.

#ifndef QUEUE_HPP
#define QUEUE_HPP

#include "error.hpp"
#include "plugin.hpp"
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

using Clock = std::chrono::steady_clock;

// A recording of an event on a queue. The event, the queue that will reach the record and waiting
// queues share it, so that events and queues may end in any order (P-52).
class Record {
public:
    // Marks the record as reached, after the failure that was pending in its queue.
    void reach(std::optional<Failure> pending);
    // Blocks until the record is reached. Returns the failure before it.
    std::optional<Failure> wait();
    // Returns the time at which the record was reached, if it was.
    std::optional<Clock::time_point> reached_at();

private:
    std::mutex lock; // guards the members below
    std::condition_variable changed;
    std::optional<Clock::time_point> at;
    std::optional<Failure> failure;
};

struct longshore_event {
    longshore_event(longshore_device &device, bool timing) : device(device), timing(timing) {}

    // Returns the last record; null without one.
    std::shared_ptr<Record> last();
    void set_last(std::shared_ptr<Record> record);

    longshore_device &device;
    const bool timing;

private:
    std::mutex lock; // guards `record`
    std::shared_ptr<Record> record;
};

// An in-order queue: a list of tasks, and a thread that runs them.
struct longshore_queue {
    explicit longshore_queue(longshore_device &device);
    // Waits for the queued work.
    ~longshore_queue();

    // Queues work. Its exception becomes the pending error.
    void push(std::function<void()> task);
    // Queues a task that reaches the event's next record.
    void record(longshore_event &event);
    bool is_idle();
    // Blocks until all queued work is done, and throws the pending error, once (P-48).
    void synchronize();
    // Lets the thread end after the queued work. Does not wait.
    void give_up();
    bool has_ended();

    longshore_device &device;

private:
    void work();
    void finish(std::optional<Failure> failure);

    std::mutex lock; // guards the members below
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    uint64_t queued = 0, done = 0;   // numbers of tasks
    std::optional<Failure> pending;  // the first failure that was not reported
    uint64_t pending_task = 0;       // the number of its task
    bool given_up = false, ended = false;
    std::thread thread; // after all members that it uses
};

#endif // QUEUE_HPP
