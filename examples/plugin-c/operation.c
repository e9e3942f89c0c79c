// The built-in operations of the device: the code of kernels, constructors and destructors.

#include "plugin.h"
#include <string.h>

// Returns the memory behind a pointer of an operation: a wrong pointer is an error of the kernel.
static longshore_error_object *reach(longshore_device *device, uint64_t address, uint64_t bytes,
                                     unsigned char **pointer) {
    return memory_at(device, LONGSHORE_ERROR_BACKEND_FAILURE, address, bytes, pointer);
}

// Does the same for `count` elements of 4 bytes.
static longshore_error_object *reach_words(longshore_device *device, uint64_t address,
                                           uint64_t count, unsigned char **pointer) {
    return reach(device, address, count > UINT64_MAX / 4 ? UINT64_MAX : count * 4, pointer);
}

static longshore_error_object *reach_global(const operation *operation, longshore_device *device,
                                            uint64_t **global) {
    unsigned char *memory = NULL;
    longshore_error_object *error = reach(device, operation->global->address, 8, &memory);
    *global = (uint64_t *)(void *)memory; // globals are aligned to 16 bytes
    return error;
}

static longshore_error_object *run_nop(const operation *operation, longshore_device *device,
                                       const uint64_t *arguments) {
    (void)operation, (void)device, (void)arguments;
    return NULL;
}

static longshore_error_object *run_fail(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    (void)operation, (void)arguments;
    return fail(LONGSHORE_ERROR_BACKEND_FAILURE, "the operation 'fail' ran on " BACKEND ":%u",
                device->index);
}

// y[i] = a * x[i] + y[i] for n elements.
static longshore_error_object *run_saxpy(const operation *operation, longshore_device *device,
                                         const uint64_t *arguments) {
    (void)operation;
    const uint64_t n = arguments[0];
    float a;
    memcpy(&a, &arguments[1], sizeof a);
    unsigned char *x, *y;
    longshore_error_object *error = reach_words(device, arguments[2], n, &x);
    if (!error)
        error = reach_words(device, arguments[3], n, &y);
    if (error)
        return error;
    for (uint64_t i = 0; i < n; i++) {
        float xi, yi;
        memcpy(&xi, x + 4 * i, sizeof xi);
        memcpy(&yi, y + 4 * i, sizeof yi);
        yi = a * xi + yi;
        memcpy(y + 4 * i, &yi, sizeof yi);
    }
    return NULL;
}

// out[i] = i for n elements of 32 bits.
static longshore_error_object *run_iota(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    (void)operation;
    unsigned char *out;
    longshore_error_object *error = reach_words(device, arguments[0], arguments[1], &out);
    if (error)
        return error;
    for (uint64_t i = 0; i < arguments[1]; i++) {
        uint32_t value = (uint32_t)i;
        memcpy(out + 4 * i, &value, sizeof value);
    }
    return NULL;
}

// Stores six values of 1, 2, 4, 8, 4 and 8 bytes, each in its own 8 bytes of `out`.
static longshore_error_object *run_echo(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    const operation_type *type = operation->type;
    unsigned char *out;
    longshore_error_object *error = reach(device, arguments[0], 48, &out);
    if (error)
        return error;
    for (uint32_t i = 1; i < type->argument_count; i++)
        memcpy(out + 8 * (i - 1), &arguments[i], type->argument_sizes[i]);
    return NULL;
}

// Atomic, like a counter on a device: kernels of several queues may run this operation at once.
static longshore_error_object *run_bump(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    (void)arguments;
    uint64_t *global;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error)
        __atomic_fetch_add(global, 1, __ATOMIC_RELAXED);
    return error;
}

// *out = GLOBAL
static longshore_error_object *run_read(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    uint64_t *global;
    unsigned char *out;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error)
        error = reach(device, arguments[0], 8, &out);
    if (!error)
        memcpy(out, global, 8);
    return error;
}

static longshore_error_object *run_set(const operation *operation, longshore_device *device,
                                       const uint64_t *arguments) {
    (void)arguments;
    uint64_t *global;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error)
        *global = operation->value;
    return error;
}

// GLOBAL = GLOBAL * 10 + VALUE, which shows the order of operations.
static longshore_error_object *run_append(const operation *operation, longshore_device *device,
                                          const uint64_t *arguments) {
    (void)arguments;
    uint64_t *global;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error)
        *global = *global * 10 + operation->value;
    return error;
}

// GLOBAL = p
static longshore_error_object *run_remember(const operation *operation, longshore_device *device,
                                            const uint64_t *arguments) {
    uint64_t *global;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error)
        *global = arguments[0];
    return error;
}

// *GLOBAL = VALUE, if GLOBAL holds a pointer.
static longshore_error_object *run_poke(const operation *operation, longshore_device *device,
                                        const uint64_t *arguments) {
    (void)arguments;
    uint64_t *global;
    unsigned char *out = NULL;
    longshore_error_object *error = reach_global(operation, device, &global);
    if (!error && *global)
        error = reach(device, *global, 8, &out);
    if (!error && out)
        memcpy(out, &operation->value, 8);
    return error;
}

static const operation_type TYPES[] = {
    {"nop", false, false, 0, {0}, run_nop},
    {"fail", false, false, 0, {0}, run_fail},
    {"saxpy", false, false, 4, {8, 4, 8, 8}, run_saxpy},
    {"iota", false, false, 2, {8, 8}, run_iota},
    {"echo", false, false, 7, {8, 1, 2, 4, 8, 4, 8}, run_echo},
    {"bump", true, false, 0, {0}, run_bump},
    {"read", true, false, 1, {8}, run_read},
    {"remember", true, false, 1, {8}, run_remember},
    {"set", true, true, 0, {0}, run_set},
    {"append", true, true, 0, {0}, run_append},
    {"poke", true, true, 0, {0}, run_poke},
};

const operation_type *find_operation(longshore_text name) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (same_text(name, text(TYPES[i].name)))
            return &TYPES[i];
    return NULL;
}
