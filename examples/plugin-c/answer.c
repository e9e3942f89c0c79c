// Texts, answers to queries, and settings.

#include "plugin.h"
#include <stdlib.h>
#include <string.h>

longshore_text text(const char *string) {
    return (longshore_text){(const uint8_t *)string, strlen(string)};
}

bool same_text(longshore_text a, longshore_text b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

void write_text(longshore_sink sink, const char *string) {
    sink.write(sink.context, (const uint8_t *)string, strlen(string));
}

// A sink for short answers.
typedef struct short_text {
    char data[32];
    size_t bytes;
    bool fits;
} short_text;

static void append(void *context, const uint8_t *data, size_t bytes) {
    short_text *into = context;
    into->fits = into->fits && bytes < sizeof into->data - into->bytes;
    if (into->fits && bytes) {
        memcpy(into->data + into->bytes, data, bytes);
        into->bytes += bytes;
    }
}

// Plugins ask the host for settings: the host knows when the environment is not trusted.
longshore_error_object *setting(const longshore_services *services, const char *name,
                                uint64_t most, uint64_t *value) {
    short_text answer = {.fits = true};
    if (!services->setting(services->context, text(name), (longshore_sink){&answer, append}))
        return NULL;
    char *end = answer.data;
    unsigned long long number = strtoull(answer.data, &end, 10);
    if (!answer.fits || end == answer.data || *end || answer.data[0] == '-' || number > most)
        return fail(LONGSHORE_ERROR_INVALID_VALUE,
                    "the setting %s of " BACKEND " is '%s', expected a number up to %llu", name,
                    answer.data, (unsigned long long)most);
    *value = number;
    return NULL;
}

void write_u32(longshore_sink sink, uint32_t value) {
    sink.write(sink.context, (const uint8_t *)&value, sizeof value);
}

void write_u64(longshore_sink sink, uint64_t value) {
    sink.write(sink.context, (const uint8_t *)&value, sizeof value);
}

void write_bool(longshore_sink sink, uint8_t value) {
    sink.write(sink.context, &value, sizeof value);
}

void write_dimensions(longshore_sink sink, uint32_t each) {
    uint32_t value[3] = {each, each, each};
    sink.write(sink.context, (const uint8_t *)value, sizeof value);
}
