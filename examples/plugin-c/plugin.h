// Declarations for all files of the sample plugin.
//
// The device of this plugin is fictitious: threads of the host play a fixed-function unit with its
// own memory. Where a vendor's plugin calls its driver, this one does the work itself.

#ifndef PLUGIN_H
#define PLUGIN_H

#define _DEFAULT_SOURCE // for MAP_ANONYMOUS and clock_gettime under -std=c99

#include "longshore_plugin.h"
#include <pthread.h>
#include <stdbool.h>

// Variants for the host's tests; a real plugin has none of them.
#ifndef BACKEND
#define BACKEND "sample"
#endif
#ifdef INTERFACE_MAJOR
#undef LONGSHORE_INTERFACE_MAJOR
#define LONGSHORE_INTERFACE_MAJOR INTERFACE_MAJOR
#endif
#ifdef NO_DRIVER
#define DRIVER "libsample-driver.so.1"
#else
#define DRIVER ""
#endif

// Limits of a launch on this device.
#define MAX_GROUP_ITEMS 1024
#define MAX_SHARED_BYTES 65536
#define MAX_ARGUMENTS 8

// A handle of the interface is a pointer to one of these types: C completes the types that
// longshore_plugin.h only declares.
struct longshore_platform {
    const longshore_services *services;
    uint32_t device_count;
    uint64_t memory_bytes; // of each device
};

typedef struct allocation allocation; // memory.c

struct longshore_device {
    longshore_platform *platform;
    uint32_t index;
    pthread_mutex_t lock;       // guards the fields below
    uint64_t base;              // first device address
    unsigned char *memory;      // contents of device memory
    allocation *device_memory;  // by ascending address
    allocation *host_memory;    // host and managed, in no order
    longshore_queue *queues;    // with threads that are not joined yet
};

// A global variable of a module.
typedef struct global {
    struct global *next;
    longshore_text name;
    uint64_t address, bytes;
} global;

typedef struct operation operation;

// An operation of the device, see operation.c.
typedef struct operation_type {
    const char *name;
    bool takes_global, takes_value; // operands, on the line of the image
    uint32_t argument_count;        // of a launch
    uint32_t argument_sizes[MAX_ARGUMENTS];
    // Runs the operation on this thread. `arguments` are `argument_count` zero-extended values.
    longshore_error_object *(*run)(const operation *operation, longshore_device *device,
                                   const uint64_t *arguments);
} operation_type;

// An operation with its operands, from a line of the image.
struct operation {
    const operation_type *type;
    global *global; // null if the type takes no global
    uint64_t value;
};

struct longshore_kernel {
    longshore_kernel *next;
    longshore_text name;
    longshore_module *module;
    operation operation;
};

// A constructor or destructor.
typedef struct hook {
    struct hook *next;
    uint64_t priority;
    operation operation;
} hook;

// All names are parts of the image, whose bytes the host keeps until `unload`.
struct longshore_module {
    longshore_device *device;
    longshore_kernel *kernels;
    global *globals;
    hook *constructors, *destructors; // in the order in which they run
};

// answer.c
longshore_text text(const char *string);
bool same_text(longshore_text a, longshore_text b);
void write_text(longshore_sink sink, const char *string);
void write_u32(longshore_sink sink, uint32_t value);
void write_u64(longshore_sink sink, uint64_t value);
void write_bool(longshore_sink sink, uint8_t value);
void write_dimensions(longshore_sink sink, uint32_t each);
// Reads a number that the user can set as LONGSHORE_<BACKEND>_<NAME>; `value` keeps its value
// without such a setting.
longshore_error_object *setting(const longshore_services *services, const char *name,
                                uint64_t most, uint64_t *value);

// error.c
longshore_error_object *fail(uint32_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Returns an error object with the same contents; null for null.
longshore_error_object *copy_of(const longshore_error_object *error);
void release(longshore_error_object *error);
longshore_error_object *out_of_memory(void);

// memory.c
longshore_error_object *memory_open(longshore_device *device);
void memory_close(longshore_device *device);
longshore_error_object *memory_allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address);
longshore_error_object *memory_free(longshore_device *device, uint32_t kind, uint64_t address);
// Returns the host pointer for `bytes` bytes at a device address inside one live allocation, or an
// error with this code.
longshore_error_object *memory_at(longshore_device *device, uint32_t code, uint64_t address,
                                  uint64_t bytes, unsigned char **pointer);

// operation.c
const operation_type *find_operation(longshore_text name);

// image.c
longshore_error_object *check_image(longshore_bytes image);
longshore_error_object *read_image(longshore_module *module, longshore_bytes image);

// device.c, module.c, queue.c, event.c: tables, and functions for the other files
extern const longshore_device_table device_table;
extern const longshore_module_table module_table;
extern const longshore_instrumentation_table instrumentation_table;
extern const longshore_queue_table queue_table;
extern const longshore_event_table event_table;
longshore_error_object *open_device(longshore_platform *platform, uint32_t index,
                                    longshore_device **device);
longshore_kernel *find_kernel(const longshore_module *module, longshore_text name);
global *find_global(const longshore_module *module, longshore_text name);
longshore_error_object *load_module(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module);
longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue);
longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                     longshore_event **event);
void join_queues(longshore_device *device);

#endif // PLUGIN_H
