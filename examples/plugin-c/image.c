// The image format "ops": a small text file that describes a module.
//
//     longshore-ops 1
//     kernel NAME = OPERATION [GLOBAL] [VALUE]
//     global NAME BYTES [HEX]
//     constructor PRIORITY OPERATION [GLOBAL] [VALUE]
//     destructor PRIORITY OPERATION [GLOBAL] [VALUE]
//     checksum 16-HEX-DIGITS
//
// Lines end with '\n', one space separates words. A global is zero except for the bytes of HEX. An
// operand may be a global of a later line. The checksum is the FNV-1a hash of all bytes before its
// line, so that the plugin loads no damaged image.

#include "plugin.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char HEADER[] = "longshore-ops 1\n";
enum { CHECKSUM_LINE = 9 + 16 + 1 };

typedef struct reader {
    longshore_module *module;
    const uint8_t *at, *end; // the rest of the current line
    unsigned line;
    bool second_pass;
} reader;

static longshore_error_object *bad(const reader *reader, const char *what) {
    return fail(LONGSHORE_ERROR_INVALID_BINARY, "line %u of the ops image: %s", reader->line, what);
}

longshore_error_object *check_image(longshore_bytes image) {
    size_t header = sizeof HEADER - 1;
    if (image.bytes >= header && memcmp(image.data, HEADER, header) == 0)
        return NULL;
    return fail(LONGSHORE_ERROR_INVALID_BINARY,
                "the image of %zu bytes does not start with the line 'longshore-ops 1'",
                image.bytes);
}

static longshore_error_object *check_checksum(longshore_bytes image) {
    static const char DIGITS[] = "0123456789abcdef";
    size_t body = image.bytes - CHECKSUM_LINE; // its size is checked below
    if (image.bytes < sizeof HEADER - 1 + CHECKSUM_LINE ||
        memcmp(image.data + body, "checksum ", 9) != 0 || image.data[image.bytes - 1] != '\n')
        return fail(LONGSHORE_ERROR_INVALID_BINARY,
                    "the ops image of %zu bytes does not end with a checksum line", image.bytes);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < body; i++)
        hash = (hash ^ image.data[i]) * 0x100000001b3u;
    for (int i = 0; i < 16; i++)
        if (image.data[body + 9 + i] != (uint8_t)DIGITS[hash >> (60 - 4 * i) & 15])
            return fail(LONGSHORE_ERROR_INVALID_BINARY,
                        "the ops image is damaged: its checksum is not %016" PRIx64, hash);
    return NULL;
}

// Returns the next word of the line; empty at the end of the line.
static longshore_text word(reader *reader) {
    const uint8_t *start = reader->at;
    while (reader->at < reader->end && *reader->at != ' ')
        reader->at++;
    longshore_text found = {start, (size_t)(reader->at - start)};
    if (reader->at < reader->end)
        reader->at++;
    return found;
}

static bool is_number(longshore_text word, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < word.bytes; i++) {
        uint64_t digit = (uint64_t)word.data[i] - '0';
        if (digit > 9 || *value > (UINT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return word.bytes > 0;
}

static longshore_error_object *new_name(const reader *reader, longshore_text name) {
    if (name.bytes == 0)
        return bad(reader, "a name is missing");
    if (find_global(reader->module, name) || find_kernel(reader->module, name))
        return fail(LONGSHORE_ERROR_LINK_FAILURE,
                    "line %u of the ops image: '%.*s' is defined twice", reader->line,
                    (int)name.bytes, (const char *)name.data);
    return NULL;
}

static int hex_digit(uint8_t digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static longshore_error_object *fill_global(reader *reader, const global *global) {
    unsigned char *memory;
    longshore_error_object *error =
        memory_at(reader->module->device, LONGSHORE_ERROR_BACKEND_FAILURE, global->address,
                  global->bytes, &memory);
    if (error)
        return error;
    memset(memory, 0, global->bytes);
    longshore_text hex = word(reader);
    if (hex.bytes % 2 || hex.bytes / 2 > global->bytes)
        return bad(reader, "the initial bytes are not pairs of digits that fit into the global");
    for (size_t i = 0; i < hex.bytes; i += 2) {
        int high = hex_digit(hex.data[i]), low = hex_digit(hex.data[i + 1]);
        if (high < 0 || low < 0)
            return bad(reader, "the initial bytes are not lower-case hexadecimal");
        memory[i / 2] = (unsigned char)(high << 4 | low);
    }
    return NULL;
}

static longshore_error_object *read_global(reader *reader) {
    longshore_text name = word(reader);
    uint64_t bytes;
    longshore_error_object *error = new_name(reader, name);
    if (error)
        return error;
    if (!is_number(word(reader), &bytes) || bytes == 0)
        return bad(reader, "expected the size of the global in bytes");
    global *made = malloc(sizeof *made);
    if (!made)
        return out_of_memory();
    *made = (global){.name = name, .bytes = bytes};
    error = memory_allocate(reader->module->device, LONGSHORE_MEMORY_DEVICE, bytes, 16,
                            &made->address);
    if (error) {
        free(made);
        return error;
    }
    made->next = reader->module->globals;
    reader->module->globals = made;
    return fill_global(reader, made);
}

static longshore_error_object *read_operation(reader *reader, operation *operation) {
    longshore_text name = word(reader);
    operation->type = find_operation(name);
    if (!operation->type)
        return fail(LONGSHORE_ERROR_INVALID_BINARY,
                    "line %u of the ops image: '%.*s' is no operation of this device",
                    reader->line, (int)name.bytes, (const char *)name.data);
    if (operation->type->takes_global) {
        name = word(reader);
        operation->global = find_global(reader->module, name);
        if (!operation->global)
            return fail(LONGSHORE_ERROR_LINK_FAILURE,
                        "line %u of the ops image: the global '%.*s' is undefined", reader->line,
                        (int)name.bytes, (const char *)name.data);
        if (operation->global->bytes < 8)
            return bad(reader, "the operation needs a global of 8 bytes");
    }
    if (operation->type->takes_value && !is_number(word(reader), &operation->value))
        return bad(reader, "expected a number");
    return NULL;
}

static longshore_error_object *read_kernel(reader *reader) {
    longshore_text name = word(reader);
    operation operation = {0};
    longshore_error_object *error = new_name(reader, name);
    if (!error && !same_text(word(reader), text("=")))
        error = bad(reader, "expected 'kernel NAME = OPERATION'");
    if (!error)
        error = read_operation(reader, &operation);
    if (error)
        return error;
    longshore_kernel *made = malloc(sizeof *made);
    if (!made)
        return out_of_memory();
    *made = (longshore_kernel){reader->module->kernels, name, reader->module, operation};
    reader->module->kernels = made;
    return NULL;
}

// Constructors run by ascending priority, and with equal priority in the order of their lines;
// destructors run in the reverse order.
static longshore_error_object *read_hook(reader *reader, bool constructor) {
    uint64_t priority;
    operation operation = {0};
    if (!is_number(word(reader), &priority))
        return bad(reader, "expected a priority");
    longshore_error_object *error = read_operation(reader, &operation);
    if (!error && operation.type->argument_count)
        error = bad(reader, "the operation takes arguments, which only a launch has");
    if (error)
        return error;
    hook *made = malloc(sizeof *made);
    if (!made)
        return out_of_memory();
    hook **link = constructor ? &reader->module->constructors : &reader->module->destructors;
    while (*link && (constructor ? (*link)->priority <= priority : (*link)->priority > priority))
        link = &(*link)->next;
    *made = (hook){*link, priority, operation};
    *link = made;
    return NULL;
}

// The first pass reads globals, the second pass the lines that use them.
static longshore_error_object *read_line(reader *reader) {
    longshore_text kind = word(reader);
    bool is_global = same_text(kind, text("global"));
    longshore_error_object *error;
    if (is_global == reader->second_pass)
        return NULL;
    if (is_global)
        error = read_global(reader);
    else if (same_text(kind, text("kernel")))
        error = read_kernel(reader);
    else if (same_text(kind, text("constructor")))
        error = read_hook(reader, true);
    else if (same_text(kind, text("destructor")))
        error = read_hook(reader, false);
    else
        error = bad(reader, "expected a kernel, global, constructor or destructor");
    if (!error && reader->at != reader->end)
        error = bad(reader, "there are words too many");
    return error;
}

static longshore_error_object *read_lines(reader *reader, const uint8_t *at, const uint8_t *end) {
    longshore_error_object *error = NULL;
    for (reader->line = 2; at < end && !error; reader->line++) {
        const uint8_t *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            return bad(reader, "the line does not end");
        reader->at = at;
        reader->end = line_end;
        at = line_end + 1;
        error = read_line(reader);
    }
    return error;
}

longshore_error_object *read_image(longshore_module *module, longshore_bytes image) {
    longshore_error_object *error = check_image(image);
    if (!error)
        error = check_checksum(image);
    if (error)
        return error;
    const uint8_t *start = image.data + sizeof HEADER - 1;
    const uint8_t *end = image.data + image.bytes - CHECKSUM_LINE;
    reader reader = {.module = module};
    error = read_lines(&reader, start, end);
    reader.second_pass = true;
    return error ? error : read_lines(&reader, start, end);
}
