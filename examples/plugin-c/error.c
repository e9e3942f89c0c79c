// Errors.

#include "plugin.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct owned_error {
    longshore_error_object object; // first, so that both have the same address
    char message[512];
} owned_error;

static void release_owned(longshore_error_object *error) {
    free(error);
}

// Every error names the object, the wrong value, and the expected values.
longshore_error_object *fail(uint32_t code, const char *format, ...) {
    owned_error *error = calloc(1, sizeof *error);
    if (!error)
        return out_of_memory();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    error->object.code = code;
    error->object.message = text(error->message);
    error->object.release = release_owned;
    return &error->object;
}

// A constant error: it needs no memory and no release.
longshore_error_object *out_of_memory(void) {
    static longshore_error_object error = {
        .code = LONGSHORE_ERROR_OUT_OF_RESOURCES,
        .message = {(const uint8_t *)"the host is out of memory", 25},
    };
    return &error;
}

longshore_error_object *copy_of(const longshore_error_object *error) {
    if (!error)
        return NULL;
    return fail(error->code, "%.*s", (int)error->message.bytes, (const char *)error->message.data);
}

// Releases errors that the plugin does not pass on.
void release(longshore_error_object *error) {
    if (error && error->release)
        error->release(error);
}
