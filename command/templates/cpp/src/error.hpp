// Failures, and the boundary that no exception leaves.

#ifndef ERROR_HPP
#define ERROR_HPP

#include <longshore_plugin.h>
#include <sstream>
#include <stdexcept>
#include <string>

// The failure of a call, or of the work of a queue. The message names the object, the wrong value
// and the expected one (P-28).
class Failure : public std::runtime_error {
public:
    Failure(uint32_t code, const std::string &message) : std::runtime_error(message), code(code) {}

    uint32_t code;
};

// Makes a failure whose message consists of these parts.
template <typename... Parts>
Failure failure(uint32_t code, const Parts &...parts) {
    std::ostringstream message;
    (message << ... << parts);
    return Failure(code, message.str());
}

// Returns the exception that is being handled as a failure.
Failure current_failure();
// Returns an error object for the exception that is being handled.
longshore_error_object *current_error() noexcept;
// Returns an error object for the host.
longshore_error_object *error_of(const Failure &failure) noexcept;

// Calls `body` and turns its exception into an error object: none leaves the plugin (P-26).
template <typename Body>
longshore_error_object *guarded(Body body) noexcept {
    try {
        body();
        return nullptr;
    } catch (...) {
        return current_error();
    }
}

#endif // ERROR_HPP
