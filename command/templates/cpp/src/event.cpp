// "longshore.event".

#include "queue.hpp"

void Record::reach(std::optional<Failure> pending) {
    std::lock_guard guard(lock);
    failure = std::move(pending);
    at = Clock::now();
    changed.notify_all();
}

std::optional<Failure> Record::wait() {
    std::unique_lock guard(lock);
    changed.wait(guard, [this] { return at.has_value(); });
    return failure;
}

std::optional<Clock::time_point> Record::reached_at() {
    std::lock_guard guard(lock);
    return at;
}

std::shared_ptr<Record> longshore_event::last() {
    std::lock_guard guard(lock);
    return record;
}

void longshore_event::set_last(std::shared_ptr<Record> next) {
    std::lock_guard guard(lock);
    record = std::move(next);
}

namespace {

// An event without a record is complete (P-51).
longshore_error_object *is_complete(longshore_event *event, uint32_t *complete) {
    return guarded([&] {
        auto last = event->last();
        *complete = !last || last->reached_at();
    });
}

// Each call returns the same failure, which stays pending in the queue (P-68).
longshore_error_object *synchronize(longshore_event *event) {
    return guarded([&] {
        auto last = event->last();
        if (auto failure = last ? last->wait() : std::nullopt)
            throw *failure;
    });
}

Clock::time_point reached_at(longshore_event &event) {
    auto last = event.last();
    auto at = last ? last->reached_at() : std::nullopt;
    if (!at)
        throw failure(LONGSHORE_ERROR_INVALID_EVENT,
                      "an event was not recorded, or is not complete");
    return *at;
}

longshore_error_object *elapsed_ns(longshore_event *start, longshore_event *end, int64_t *time) {
    return guarded([&] {
        if (!start->timing || !end->timing)
            throw failure(LONGSHORE_ERROR_INVALID_ARGUMENT, "an event was made without timing");
        if (&start->device != &end->device)
            throw failure(LONGSHORE_ERROR_INVALID_DEVICE, "the events are of two devices, ",
                          start->device.index, " and ", end->device.index);
        auto elapsed = reached_at(*end) - reached_at(*start);
        *time = std::chrono::nanoseconds(elapsed).count();
    });
}

longshore_error_object *destroy(longshore_event *event) {
    delete event;
    return nullptr;
}

} // namespace

// The functions in the order of the header.
const longshore_event_table event_table = {is_complete, synchronize, elapsed_ns, destroy};
