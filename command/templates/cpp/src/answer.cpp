// Settings.

#include "answer.hpp"
#include "error.hpp"
#include "plugin.hpp"
#include <charconv>
#include <new>

namespace {

// An answer of the host. No exception may leave the function that the host calls.
struct Answer {
    std::string text;
    bool is_complete = true;
};

void append(void *context, const uint8_t *data, size_t bytes) {
    auto &answer = *static_cast<Answer *>(context);
    try {
        answer.text.append(reinterpret_cast<const char *>(data), bytes);
    } catch (...) {
        answer.is_complete = false;
    }
}

} // namespace

// Plugins ask the host for settings: the host knows when the environment is not trusted (P-17).
uint64_t setting(const longshore_services &services, const std::string &name, uint64_t most,
                 uint64_t otherwise) {
    Answer answer;
    if (!services.setting(services.context, text(name), {&answer, append}))
        return otherwise;
    if (!answer.is_complete)
        throw std::bad_alloc();
    uint64_t number = 0;
    const char *end = answer.text.data() + answer.text.size();
    auto [at, error] = std::from_chars(answer.text.data(), end, number);
    if (error != std::errc() || at != end || number > most)
        throw failure(LONGSHORE_ERROR_INVALID_VALUE, "the setting ", name, " of " BACKEND " is '",
                      answer.text, "', expected a number up to ", most);
    return number;
}
