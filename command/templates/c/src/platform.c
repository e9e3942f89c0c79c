// "longshore.platform": facts about the devices, before they are opened.

#include "plugin.h"
#include <stdio.h>
#include <stdlib.h>

static longshore_error_object *platform_info(longshore_platform *platform, uint32_t query,
                                             longshore_sink value) {
    (void)platform;
    switch (query) {
    case LONGSHORE_PLATFORM_INFO_NAME: write_text(value, "Acme"); return NULL;
    case LONGSHORE_PLATFORM_INFO_VENDOR_NAME: write_text(value, "Acme"); return NULL;
    // Your driver: its version.
    case LONGSHORE_PLATFORM_INFO_VERSION: write_text(value, VERSION); return NULL;
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

// A name that no other device of the machine has (P-21). Your driver: a UUID or a PCI address.
static void write_uid(longshore_sink value, uint32_t index) {
    char name[32];
    snprintf(name, sizeof name, "%s-%u", BACKEND, index);
    write_text(value, name);
}

// Your driver: answer each query from the driver's properties of the device. longshore_plugin.h
// has the type of each answer. Queries without an answer return UNIMPLEMENTED, and unknown ones
// INVALID_ENUMERATION (P-20).
static longshore_error_object *platform_device_info(longshore_platform *platform, uint32_t index,
                                                    uint32_t query, longshore_sink value) {
    longshore_error_object *error = check_index(platform, index);
    if (error)
        return error;
    switch (query) {
    case LONGSHORE_DEVICE_INFO_TYPE: write_u32(value, LONGSHORE_DEVICE_TYPE_GPU); break;
    case LONGSHORE_DEVICE_INFO_NAME:
    case LONGSHORE_DEVICE_INFO_PRODUCT_NAME: write_text(value, "Acme device"); break;
    case LONGSHORE_DEVICE_INFO_UID: write_uid(value, index); break;
    case LONGSHORE_DEVICE_INFO_VENDOR: write_text(value, "Acme"); break;
    case LONGSHORE_DEVICE_INFO_DRIVER_VERSION: write_text(value, VERSION); break;
    case LONGSHORE_DEVICE_INFO_NUM_COMPUTE_UNITS: write_u32(value, 1); break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_GROUP_SIZE: write_u32(value, 1024); break;
    case LONGSHORE_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION:
        write_dimensions(value, 1024);
        break;
    case LONGSHORE_DEVICE_INFO_ADDRESS_BITS: write_u32(value, 64); break;
    case LONGSHORE_DEVICE_INFO_MAX_MEM_ALLOC_SIZE:
    case LONGSHORE_DEVICE_INFO_GLOBAL_MEM_SIZE: write_u64(value, platform->memory_bytes); break;
    // "Yes" is a promise that the suite tests: see P-79.
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

// The host has closed all devices. Your driver: end it, and close its library.
static longshore_error_object *platform_destroy(longshore_platform *platform) {
    free(platform);
    return NULL;
}

const longshore_platform_table platform_table = {
    .info = platform_info,
    .device_count = platform_device_count,
    .device_info = platform_device_info,
    .open = platform_open,
    .destroy = platform_destroy,
};
