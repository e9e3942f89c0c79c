// Device memory. Here it is memory of the host, so that a device address is a pointer.

#include "plugin.h"
#include <inttypes.h>
#include <stdlib.h>

struct allocation {
    allocation *next;
    uint32_t kind;
    uint64_t address;
};

// Your driver: one call for each kind of memory, and UNSUPPORTED for a kind that it lacks (P-32).
// The host caches freed memory, so the call need not be quick.
longshore_error_object *memory_allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address) {
    if (kind > LONGSHORE_MEMORY_MANAGED)
        return fail(LONGSHORE_ERROR_INVALID_ENUMERATION, "%u is no memory kind", kind);
    if (bytes > device->platform->memory_bytes || alignment > device->platform->memory_bytes)
        return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES,
                    "%" PRIu64 " bytes aligned to %" PRIu64 ", but " BACKEND ":%u has %" PRIu64
                    " bytes", bytes, alignment, device->index, device->platform->memory_bytes);
    allocation *made = malloc(sizeof *made);
    void *memory = NULL;
    if (!made || posix_memalign(&memory, alignment < 16 ? 16 : alignment, bytes)) {
        free(made);
        return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES, "the host has no %" PRIu64 " bytes", bytes);
    }
    *made = (allocation){.kind = kind, .address = (uint64_t)(uintptr_t)memory};
    pthread_mutex_lock(&device->lock);
    made->next = device->allocations;
    device->allocations = made;
    pthread_mutex_unlock(&device->lock);
    *address = made->address;
    return NULL;
}

// Your driver: its call may crash for an address that it does not know. The list of live
// allocations makes that an error (P-35).
longshore_error_object *memory_free(longshore_device *device, uint32_t kind, uint64_t address) {
    pthread_mutex_lock(&device->lock);
    allocation **link = &device->allocations;
    while (*link && ((*link)->address != address || (*link)->kind != kind))
        link = &(*link)->next;
    allocation *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&device->lock);
    if (!found)
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT,
                    "0x%" PRIx64 " is no live allocation of kind %u on " BACKEND ":%u", address,
                    kind, device->index);
    free((void *)(uintptr_t)address);
    free(found);
    return NULL;
}
