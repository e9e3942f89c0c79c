// The thread of a queue. Your driver: if it has queues of its own, they take the place of this
// file, and its events that of event.cpp. If its calls block until the work is done, keep both
// files, and change command.cpp alone.

#include "queue.hpp"

longshore_queue::longshore_queue(longshore_device &device)
    : device(device), thread([this] { work(); }) {}

longshore_queue::~longshore_queue() {
    give_up();
    thread.join();
}

void longshore_queue::work() {
    std::unique_lock guard(lock);
    for (;;) {
        changed.wait(guard, [this] { return !tasks.empty() || given_up; });
        if (tasks.empty())
            break;
        auto task = std::move(tasks.front());
        tasks.pop_front();
        guard.unlock();
        std::optional<Failure> failed;
        try {
            task();
        } catch (...) {
            failed = current_failure();
        }
        task = nullptr; // before the queue counts as idle
        guard.lock();
        finish(std::move(failed));
    }
    ended = true;
}

// Called under the lock.
void longshore_queue::finish(std::optional<Failure> failed) {
    done++;
    if (failed && !pending) {
        pending = std::move(failed);
        pending_task = done;
    }
    changed.notify_all();
}

void longshore_queue::push(std::function<void()> task) {
    std::lock_guard guard(lock);
    tasks.push_back(std::move(task));
    queued++;
    changed.notify_all();
}

void longshore_queue::record(longshore_event &event) {
    auto record = std::make_shared<Record>();
    push([this, record] {
        std::unique_lock guard(lock);
        auto failure = pending;
        guard.unlock();
        record->reach(std::move(failure));
    });
    event.set_last(std::move(record));
}

bool longshore_queue::is_idle() {
    std::lock_guard guard(lock);
    return done == queued;
}

// Leaves failures of work that is queued after the call for the next call.
void longshore_queue::synchronize() {
    std::unique_lock guard(lock);
    const uint64_t target = queued;
    changed.wait(guard, [&] { return done >= target; });
    if (pending && pending_task <= target) {
        Failure failure = *pending;
        pending.reset();
        throw failure;
    }
}

void longshore_queue::give_up() {
    std::lock_guard guard(lock);
    given_up = true;
    changed.notify_all();
}

bool longshore_queue::has_ended() {
    std::lock_guard guard(lock);
    return ended;
}
