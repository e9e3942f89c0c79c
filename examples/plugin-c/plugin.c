// The plugin's entry and its platform: start reading here.

#include "plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The host reads this note before it opens the library.
LONGSHORE_PLUGIN_NOTE(BACKEND, "ops", DRIVER);

// The description is constant, and does not depend on a driver.
static void describe(longshore_description *description) {
    *description = (longshore_description){
        .backend = text(BACKEND),
        .name = text("Sample backend"),
        .version = text("1.0.0"),
        .vendor = text("Longshore"),
        .image_formats = text("ops"),
        .driver = text(DRIVER),
        // `platform_destroy` leaves no thread behind and C has no thread-local destructors.
        .unloadable = 1,
    };
}

static void log_debug(const longshore_services *services, const char *message) {
    if (services->log_level(services->context) >= LONGSHORE_LOG_LEVEL_DEBUG)
        services->log(services->context, LONGSHORE_LOG_LEVEL_DEBUG, text(BACKEND), text(message));
}

// A vendor's plugin opens its driver library here. A missing driver, or a driver without a device,
// is an outcome and not an error.
static longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                       longshore_platform **platform, longshore_sink reason) {
#ifdef ABORT_IN_CONNECT
    abort();
#endif
#ifdef NO_DRIVER
    *outcome = LONGSHORE_CONNECTION_NO_DRIVER;
    write_text(reason, DRIVER " is not installed");
    return NULL;
#endif
    uint64_t devices = 1, memory = 256u << 20;
    longshore_error_object *error = setting(services, "DEVICES", 16, &devices);
    if (!error)
        error = setting(services, "MEMORY", (uint64_t)1 << 40, &memory);
    if (error)
        return error;
    if (devices == 0) {
        *outcome = LONGSHORE_CONNECTION_NO_DEVICE;
        write_text(reason, "the setting DEVICES is 0");
        return NULL;
    }
    longshore_platform *made = malloc(sizeof *made);
    if (!made)
        return out_of_memory();
    *made = (longshore_platform){services, (uint32_t)devices, memory};
    log_debug(services, "connected");
    *platform = made;
    *outcome = LONGSHORE_CONNECTION_CONNECTED;
    return NULL;
}

static longshore_error_object *platform_info(longshore_platform *platform, uint32_t query,
                                             longshore_sink value) {
    (void)platform;
    switch (query) {
    case LONGSHORE_PLATFORM_INFO_NAME: write_text(value, "Sample"); return NULL;
    case LONGSHORE_PLATFORM_INFO_VENDOR_NAME: write_text(value, "Longshore"); return NULL;
    case LONGSHORE_PLATFORM_INFO_VERSION: write_text(value, "1.0.0"); return NULL;
    default:
        return fail(LONGSHORE_ERROR_INVALID_ENUMERATION, "%u is no platform query", query);
    }
}

static longshore_error_object *platform_device_count(longshore_platform *platform,
                                                     uint32_t *count) {
    *count = platform->device_count;
    return NULL;
}

static longshore_error_object *check_index(longshore_platform *platform, uint32_t index) {
    if (index < platform->device_count)
        return NULL;
    return fail(LONGSHORE_ERROR_INVALID_DEVICE,
                "there is no device " BACKEND ":%u, the platform has %u", index,
                platform->device_count);
}

// Unanswered queries return UNIMPLEMENTED, which the host passes on. longshore_plugin.h specifies
// the type of each answer.
static longshore_error_object *platform_device_info(longshore_platform *platform, uint32_t index,
                                                    uint32_t query, longshore_sink value) {
    longshore_error_object *error = check_index(platform, index);
    if (error)
        return error;
    char name[32];
    switch (query) {
    case LONGSHORE_DEVICE_INFO_TYPE: write_u32(value, LONGSHORE_DEVICE_TYPE_GPU); break;
    case LONGSHORE_DEVICE_INFO_NAME:
    case LONGSHORE_DEVICE_INFO_PRODUCT_NAME: write_text(value, "Sample device"); break;
    case LONGSHORE_DEVICE_INFO_UID:
        snprintf(name, sizeof name, "%s-%u", BACKEND, index);
        write_text(value, name);
        break;
    case LONGSHORE_DEVICE_INFO_VENDOR: write_text(value, "Longshore"); break;
    case LONGSHORE_DEVICE_INFO_DRIVER_VERSION: write_text(value, "1.0.0"); break;
    case LONGSHORE_DEVICE_INFO_ARCHITECTURE: write_text(value, "ops"); break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_GROUP_SIZE: write_u32(value, MAX_GROUP_ITEMS); break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION:
        write_dimensions(value, MAX_GROUP_ITEMS);
        break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_SIZE: write_u32(value, UINT32_MAX); break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_SIZE_PER_DIMENSION:
        write_dimensions(value, UINT32_MAX);
        break;
    case LONGSHORE_DEVICE_INFO_VENDOR_ID: write_u32(value, 0); break;
    case LONGSHORE_DEVICE_INFO_NUM_COMPUTE_UNITS: write_u32(value, 1); break;
    case LONGSHORE_DEVICE_INFO_ADDRESS_BITS: write_u32(value, 64); break;
    case LONGSHORE_DEVICE_INFO_MAX_MEM_ALLOC_SIZE:
    case LONGSHORE_DEVICE_INFO_GLOBAL_MEM_SIZE: write_u64(value, platform->memory_bytes); break;
    case LONGSHORE_DEVICE_INFO_WORK_GROUP_LOCAL_MEM_SIZE:
        write_u64(value, MAX_SHARED_BYTES);
        break;
    case LONGSHORE_DEVICE_INFO_SINGLE_FP_SUPPORT: write_bool(value, 1); break;
    case LONGSHORE_DEVICE_INFO_DOUBLE_FP_SUPPORT:
    case LONGSHORE_DEVICE_INFO_HALF_FP_SUPPORT:
    case LONGSHORE_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT:
    case LONGSHORE_DEVICE_INFO_HOST_ACCESS:
    case LONGSHORE_DEVICE_INFO_UNIFIED_MEMORY: write_bool(value, 0); break;
    default:
        if (query <= LONGSHORE_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT ||
            (query >= LONGSHORE_DEVICE_INFO_UUID && query <= LONGSHORE_DEVICE_INFO_PROPERTIES))
            return fail(LONGSHORE_ERROR_UNIMPLEMENTED, "%s:%u does not answer query %u", BACKEND,
                        index, query);
        return fail(LONGSHORE_ERROR_INVALID_ENUMERATION, "%u is no device query", query);
    }
    return NULL;
}

static longshore_error_object *platform_open(longshore_platform *platform, uint32_t index,
                                             longshore_device **device) {
    longshore_error_object *error = check_index(platform, index);
    return error ? error : open_device(platform, index, device);
}

// The host has closed all devices.
static longshore_error_object *platform_destroy(longshore_platform *platform) {
    free(platform);
    return NULL;
}

static const longshore_platform_table platform_table = {
    .info = platform_info,
    .device_count = platform_device_count,
    .device_info = platform_device_info,
    .open = platform_open,
    .destroy = platform_destroy,
};

// Tests build a plugin of a newer interface with MORE_TABLES, and one of an older interface with
// FEWER_TABLES.
#ifdef MORE_TABLES
#define MINOR (LONGSHORE_INTERFACE_MINOR + 1)

static uint32_t answer(void) {
    return 42;
}

static const struct {
    uint32_t (*answer)(void);
} future_table = {answer};
#else
#define MINOR LONGSHORE_INTERFACE_MINOR
#endif

// Unknown tables are null: a newer host then works without them.
static longshore_table_ref table(longshore_text name, uint32_t version) {
    static const struct {
        const char *name;
        const void *table;
    } tables[] = {
        {"longshore.platform", &platform_table},
        {"longshore.device", &device_table},
        {"longshore.module", &module_table},
        {"longshore.queue", &queue_table},
        {"longshore.event", &event_table},
#ifndef FEWER_TABLES
        {"longshore.instrumentation", &instrumentation_table},
#endif
#ifdef MORE_TABLES
        {"longshore.future", &future_table},
#endif
    };
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof *tables; i++)
        if (same_text(name, text(tables[i].name)))
            return (longshore_table_ref){tables[i].table, NULL};
    return (longshore_table_ref){NULL, NULL};
}

const longshore_entry longshore_plugin = {
    .magic = LONGSHORE_ENTRY_MAGIC,
    .interface_major = LONGSHORE_INTERFACE_MAJOR,
    .interface_minor = MINOR,
    .layout = NULL, // for plugins in Rust only
    .describe = describe,
    .connect = connect,
    .table = table,
};
