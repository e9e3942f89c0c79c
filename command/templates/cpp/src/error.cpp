// Error objects.

#include "error.hpp"
#include <new>

namespace {

struct OwnedError : longshore_error_object {
    std::string text;
};

// A constant error, which needs no memory and no release (P-29).
longshore_error_object no_memory = {
    LONGSHORE_ERROR_OUT_OF_RESOURCES,
    0,
    0,
    {nullptr, 0},
    {reinterpret_cast<const uint8_t *>("the host is out of memory"), 25},
    nullptr,
};

} // namespace

Failure current_failure() {
    try {
        throw;
    } catch (const Failure &failure) {
        return failure;
    } catch (const std::bad_alloc &) {
        return Failure(LONGSHORE_ERROR_OUT_OF_RESOURCES, "the host is out of memory");
    } catch (const std::exception &error) {
        return Failure(LONGSHORE_ERROR_UNKNOWN, error.what());
    } catch (...) {
        return Failure(LONGSHORE_ERROR_UNKNOWN, "an exception of an unknown type");
    }
}

// Your driver: keep its name and number of an error in `vendor_name` and `vendor_number`.
longshore_error_object *error_of(const Failure &failure) noexcept {
    try {
        auto *made = new OwnedError{};
        made->text = failure.what();
        made->code = failure.code;
        made->message = {reinterpret_cast<const uint8_t *>(made->text.data()), made->text.size()};
        made->release = [](longshore_error_object *error) {
            delete static_cast<OwnedError *>(error);
        };
        return made;
    } catch (...) {
        return &no_memory;
    }
}

longshore_error_object *current_error() noexcept {
    try {
        return error_of(current_failure());
    } catch (...) {
        return &no_memory;
    }
}
