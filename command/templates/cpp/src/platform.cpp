// "longshore.platform": facts about the devices, before they are opened.

#include "answer.hpp"
#include "error.hpp"
#include "plugin.hpp"

namespace {

void answer(uint32_t query, longshore_sink value) {
    switch (query) {
    case LONGSHORE_PLATFORM_INFO_NAME: return write_text(value, "Acme");
    case LONGSHORE_PLATFORM_INFO_VENDOR_NAME: return write_text(value, "Acme");
    // Your driver: its version.
    case LONGSHORE_PLATFORM_INFO_VERSION: return write_text(value, VERSION);
    default: throw failure(LONGSHORE_ERROR_INVALID_ENUMERATION, query, " is no platform query");
    }
}

void check_index(const longshore_platform &platform, uint32_t index) {
    if (index >= platform.device_count)
        throw failure(LONGSHORE_ERROR_INVALID_DEVICE, "there is no device " BACKEND ":", index,
                      ", the platform has ", platform.device_count);
}

// Your driver: answer each query from the driver's properties of the device. longshore_plugin.h
// has the type of each answer. Queries without an answer throw UNIMPLEMENTED, and unknown ones
// INVALID_ENUMERATION (P-20).
void answer(const longshore_platform &platform, uint32_t index, uint32_t query,
            longshore_sink value) {
    switch (query) {
    case LONGSHORE_DEVICE_INFO_TYPE:
        return write_number<uint32_t>(value, LONGSHORE_DEVICE_TYPE_GPU);
    case LONGSHORE_DEVICE_INFO_NAME:
    case LONGSHORE_DEVICE_INFO_PRODUCT_NAME: return write_text(value, "Acme device");
    // A name that no other device of the machine has (P-21): a UUID or a PCI address.
    case LONGSHORE_DEVICE_INFO_UID: return write_text(value, BACKEND "-" + std::to_string(index));
    case LONGSHORE_DEVICE_INFO_VENDOR: return write_text(value, "Acme");
    case LONGSHORE_DEVICE_INFO_DRIVER_VERSION: return write_text(value, VERSION);
    case LONGSHORE_DEVICE_INFO_NUM_COMPUTE_UNITS: return write_number<uint32_t>(value, 1);
    case LONGSHORE_DEVICE_INFO_MAX_WORK_GROUP_SIZE: return write_number<uint32_t>(value, 1024);
    case LONGSHORE_DEVICE_INFO_ADDRESS_BITS: return write_number<uint32_t>(value, 64);
    case LONGSHORE_DEVICE_INFO_MAX_MEM_ALLOC_SIZE:
    case LONGSHORE_DEVICE_INFO_GLOBAL_MEM_SIZE:
        return write_number<uint64_t>(value, platform.memory_bytes);
    // "Yes" is a promise that the suite tests: see P-79.
    case LONGSHORE_DEVICE_INFO_HOST_ACCESS:
    case LONGSHORE_DEVICE_INFO_UNIFIED_MEMORY: return write_number<uint8_t>(value, 0);
    default: break;
    }
    if (query <= LONGSHORE_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT ||
        (query >= LONGSHORE_DEVICE_INFO_UUID && query <= LONGSHORE_DEVICE_INFO_PROPERTIES))
        throw failure(LONGSHORE_ERROR_UNIMPLEMENTED, BACKEND ":", index, " does not answer query ",
                      query);
    throw failure(LONGSHORE_ERROR_INVALID_ENUMERATION, query, " is no device query");
}

longshore_error_object *info(longshore_platform *, uint32_t query, longshore_sink value) {
    return guarded([&] { answer(query, value); });
}

longshore_error_object *device_count(longshore_platform *platform, uint32_t *count) {
    *count = platform->device_count;
    return nullptr;
}

longshore_error_object *device_info(longshore_platform *platform, uint32_t index, uint32_t query,
                                    longshore_sink value) {
    return guarded([&] {
        check_index(*platform, index);
        answer(*platform, index, query, value);
    });
}

// Each device can be opened again, also while it is open (P-60).
longshore_error_object *open(longshore_platform *platform, uint32_t index,
                             longshore_device **device) {
    return guarded([&] {
        check_index(*platform, index);
        *device = new longshore_device(*platform, index);
    });
}

// The host has closed all devices. Your driver: end it, and close its library.
longshore_error_object *destroy(longshore_platform *platform) {
    delete platform;
    return nullptr;
}

} // namespace

// The functions in the order of the header.
const longshore_platform_table platform_table = {info, device_count, device_info, open, destroy};
