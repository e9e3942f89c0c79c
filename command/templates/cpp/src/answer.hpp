// Texts, answers to queries, and settings.

#ifndef ANSWER_HPP
#define ANSWER_HPP

#include <longshore_plugin.h>
#include <string>
#include <string_view>

// Returns the text of the interface for a string that lives longer.
inline longshore_text text(std::string_view string) {
    return {reinterpret_cast<const uint8_t *>(string.data()), string.size()};
}

inline std::string_view view(longshore_text text) {
    return {reinterpret_cast<const char *>(text.data), text.bytes};
}

inline void write_text(longshore_sink sink, std::string_view text) {
    sink.write(sink.context, reinterpret_cast<const uint8_t *>(text.data()), text.size());
}

// Writes a number in the type of the query, such as `write_number<uint32_t>(value, 1)`.
template <typename Number>
void write_number(longshore_sink sink, Number number) {
    sink.write(sink.context, reinterpret_cast<const uint8_t *>(&number), sizeof number);
}

// Returns the number that the user has set as LONGSHORE_<BACKEND>_<NAME>, else `otherwise`. Throws
// INVALID_VALUE for a value that is no number up to `most`.
uint64_t setting(const longshore_services &services, const std::string &name, uint64_t most,
                 uint64_t otherwise);

#endif // ANSWER_HPP
