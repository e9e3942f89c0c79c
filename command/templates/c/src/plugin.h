// Declarations for all files of the plugin.

#ifndef PLUGIN_H
#define PLUGIN_H

#define _DEFAULT_SOURCE // for clock_gettime and posix_memalign under -std=c99

#include <longshore_plugin.h>
#include <pthread.h>
#include <stdbool.h>

// The backend's name, as in the name of the file.
#define BACKEND "acme"
// The version of the plugin itself.
#define VERSION "0.1.0"
// The file name of the driver's library, such as "libcuda.so.1". Empty: the plugin needs none.
// The host shows the name where the library is missing.
#define DRIVER ""
// The names of the image formats that the device takes, separated by commas.
#define IMAGE_FORMATS "acme"

// A handle of the interface is a pointer to one of these types: C completes the types that
// longshore_plugin.h only declares. Put the driver's own handles beside these fields.
struct longshore_platform {
    const longshore_services *services;
    uint32_t device_count;
    uint64_t memory_bytes; // of each device
};

typedef struct allocation allocation; // memory.c

struct longshore_device {
    longshore_platform *platform;
    uint32_t index;
    pthread_mutex_t lock;    // guards the fields below
    allocation *allocations; // live ones, in no order
    longshore_queue *queues; // with threads that are not joined yet
};

struct longshore_module {
    longshore_device *device;
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
longshore_error_object *memory_allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address);
longshore_error_object *memory_free(longshore_device *device, uint32_t kind, uint64_t address);

// platform.c, device.c, module.c, queue.c, event.c: tables, and functions for the other files
extern const longshore_platform_table platform_table;
extern const longshore_device_table device_table;
extern const longshore_module_table module_table;
extern const longshore_queue_table queue_table;
extern const longshore_event_table event_table;
longshore_error_object *open_device(longshore_platform *platform, uint32_t index,
                                    longshore_device **device);
longshore_error_object *check_image(longshore_bytes image);
longshore_error_object *load_module(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module);
longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue);
longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                     longshore_event **event);
void join_queues(longshore_device *device);

#endif // PLUGIN_H
