// Device memory. Here it is memory of the host, so that a device address is a pointer.

#include "error.hpp"
#include "plugin.hpp"
#include <algorithm>
#include <cstdlib>

void FreeMemory::operator()(void *memory) const noexcept {
    std::free(memory);
}

// Your driver: one call for each kind of memory, and UNSUPPORTED for a kind that it lacks (P-32).
// The host caches freed memory, so the call need not be quick.
uint64_t longshore_device::allocate(uint32_t kind, uint64_t bytes, uint64_t alignment) {
    if (kind > LONGSHORE_MEMORY_MANAGED)
        throw failure(LONGSHORE_ERROR_INVALID_ENUMERATION, kind, " is no memory kind");
    void *memory = nullptr;
    if (std::max(bytes, alignment) > platform.memory_bytes ||
        posix_memalign(&memory, std::max<uint64_t>(alignment, 16), bytes))
        throw failure(LONGSHORE_ERROR_OUT_OF_RESOURCES, bytes, " bytes aligned to ", alignment,
                      ", but " BACKEND ":", index, " has ", platform.memory_bytes, " bytes");
    HostMemory owned(memory);
    uint64_t address = reinterpret_cast<uintptr_t>(memory);
    std::lock_guard guard(lock);
    allocations.emplace(std::pair(kind, address), std::move(owned));
    return address;
}

// Your driver: its call may crash for an address that it does not know. The map of live
// allocations makes that an error (P-35).
void longshore_device::free(uint32_t kind, uint64_t address) {
    std::lock_guard guard(lock);
    if (!allocations.erase({kind, address}))
        throw failure(LONGSHORE_ERROR_INVALID_ARGUMENT, "address ", address,
                      " is no live allocation of kind ", kind, " on " BACKEND ":", index);
}
