// Declarations for all files of the plugin.

#ifndef PLUGIN_HPP
#define PLUGIN_HPP

#include <longshore_plugin.h>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

// The backend's name, as in the name of the file.
#define BACKEND "acme"
// The version of the plugin itself.
#define VERSION "0.1.0"
// The file name of the driver's library, such as "libcuda.so.1". Empty: the plugin needs none.
// The host shows the name where the library is missing.
#define DRIVER ""
// The names of the image formats that the device takes, separated by commas.
#define IMAGE_FORMATS "acme"

// A handle of the interface is a pointer to one of these types: C++ completes the types that
// longshore_plugin.h only declares. Put the driver's own handles beside these members.
struct longshore_platform {
    const longshore_services &services;
    uint32_t device_count;
    uint64_t memory_bytes; // of each device
};

// memory.cpp: memory of the host, freed with its owner.
struct FreeMemory {
    void operator()(void *memory) const noexcept;
};
using HostMemory = std::unique_ptr<void, FreeMemory>;

struct longshore_device {
    longshore_device(const longshore_platform &platform, uint32_t index);
    // Waits for the threads of destroyed queues.
    ~longshore_device();

    uint64_t allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
    void free(uint32_t kind, uint64_t address);
    longshore_queue *create_queue();

    const longshore_platform &platform;
    const uint32_t index;

private:
    std::mutex lock; // guards the members below
    std::map<std::pair<uint32_t, uint64_t>, HostMemory> allocations; // by kind and address
    std::list<std::unique_ptr<longshore_queue>> queues; // with threads that may be running
};

struct longshore_module {
    longshore_device &device;
};

// module.cpp: throws INVALID_BINARY with the reason for an image that the device does not take.
void check_image(longshore_bytes image);

// Tables, each in the file of its name.
extern const longshore_platform_table platform_table;
extern const longshore_device_table device_table;
extern const longshore_module_table module_table;
extern const longshore_queue_table queue_table;
extern const longshore_event_table event_table;

#endif // PLUGIN_HPP
