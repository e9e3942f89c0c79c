// Device memory: an arena whose addresses are not host pointers.

#include "plugin.h"
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

struct allocation {
    allocation *next;
    uint32_t kind;
    uint64_t address, bytes;
};

// Device addresses come from a reserved, inaccessible range of the process's address space. So no
// other device, of this plugin or another, returns the same address. A program that uses such an
// address as a host pointer faults. A second mapping holds the contents.
longshore_error_object *memory_open(longshore_device *device) {
    uint64_t bytes = device->platform->memory_bytes;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *addresses = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (addresses != MAP_FAILED && memory != MAP_FAILED) {
        device->base = (uint64_t)(uintptr_t)addresses;
        device->memory = memory;
        return NULL;
    }
    if (addresses != MAP_FAILED)
        munmap(addresses, bytes);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES,
                "no %" PRIu64 " bytes of address space for the memory of " BACKEND ":%u", bytes,
                device->index);
}

void memory_close(longshore_device *device) {
    uint64_t bytes = device->platform->memory_bytes;
    munmap((void *)(uintptr_t)device->base, bytes);
    munmap(device->memory, bytes);
}

// First fit. `at` may wrap for an absurd alignment, and is then below the base.
static longshore_error_object *place(longshore_device *device, allocation *made,
                                     uint64_t alignment) {
    uint64_t end = device->base + device->platform->memory_bytes;
    uint64_t at = (device->base + alignment - 1) & ~(alignment - 1);
    allocation **link = &device->device_memory;
    for (; *link; link = &(*link)->next) {
        if (at >= device->base && at < (*link)->address && made->bytes <= (*link)->address - at)
            break;
        at = ((*link)->address + (*link)->bytes + alignment - 1) & ~(alignment - 1);
    }
    if (at < device->base || at > end || made->bytes > end - at)
        return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES,
                    "%" PRIu64 " bytes aligned to %" PRIu64 " do not fit into the memory of "
                    BACKEND ":%u, %" PRIu64 " bytes",
                    made->bytes, alignment, device->index, device->platform->memory_bytes);
    made->address = at;
    made->next = *link;
    *link = made;
    return NULL;
}

// Host and managed memory: the host can access it, and the device too, because its threads are host
// threads.
static longshore_error_object *take_from_host(longshore_device *device, allocation *made,
                                              uint64_t alignment) {
    void *memory = NULL;
    if (made->bytes > device->platform->memory_bytes ||
        posix_memalign(&memory, alignment, made->bytes))
        return fail(LONGSHORE_ERROR_OUT_OF_RESOURCES,
                    "the host has no %" PRIu64 " bytes aligned to %" PRIu64, made->bytes,
                    alignment);
    made->address = (uint64_t)(uintptr_t)memory;
    made->next = device->host_memory;
    device->host_memory = made;
    return NULL;
}

longshore_error_object *memory_allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address) {
    if (kind > LONGSHORE_MEMORY_MANAGED)
        return fail(LONGSHORE_ERROR_INVALID_ENUMERATION, "%u is no memory kind", kind);
    if (bytes == 0)
        return fail(LONGSHORE_ERROR_INVALID_SIZE, "an allocation of 0 bytes");
    if (alignment == 0 || (alignment & (alignment - 1)))
        return fail(LONGSHORE_ERROR_INVALID_ARGUMENT, "alignment %" PRIu64 ", no power of two",
                    alignment);
    allocation *made = malloc(sizeof *made);
    if (!made)
        return out_of_memory();
    *made = (allocation){.kind = kind, .bytes = bytes};
    uint64_t aligned = alignment < 16 ? 16 : alignment;
    pthread_mutex_lock(&device->lock);
    longshore_error_object *error = kind == LONGSHORE_MEMORY_DEVICE
                                        ? place(device, made, aligned)
                                        : take_from_host(device, made, aligned);
    pthread_mutex_unlock(&device->lock);
    if (error)
        free(made);
    else
        *address = made->address;
    return error;
}

longshore_error_object *memory_free(longshore_device *device, uint32_t kind, uint64_t address) {
    bool on_device = kind == LONGSHORE_MEMORY_DEVICE;
    pthread_mutex_lock(&device->lock);
    allocation **link = on_device ? &device->device_memory : &device->host_memory;
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
    if (!on_device)
        free((void *)(uintptr_t)address);
    free(found);
    return NULL;
}

static const allocation *holding(const allocation *list, uint64_t address, uint64_t bytes) {
    for (; list; list = list->next)
        if (address >= list->address && address - list->address <= list->bytes &&
            bytes <= list->bytes - (address - list->address))
            return list;
    return NULL;
}

longshore_error_object *memory_at(longshore_device *device, uint32_t code, uint64_t address,
                                  uint64_t bytes, unsigned char **pointer) {
    unsigned char *found = NULL;
    pthread_mutex_lock(&device->lock);
    if (holding(device->device_memory, address, bytes))
        found = device->memory + (address - device->base);
    else if (holding(device->host_memory, address, bytes))
        found = (unsigned char *)(uintptr_t)address;
    pthread_mutex_unlock(&device->lock);
    if (!found && bytes)
        return fail(code, "%" PRIu64 " bytes at 0x%" PRIx64 " are not memory of " BACKEND ":%u",
                    bytes, address, device->index);
    *pointer = found;
    return NULL;
}
