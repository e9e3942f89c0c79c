// The plugin's entry, and the connection to the driver: start reading here.

#include "plugin.hpp"
#include "answer.hpp"
#include "error.hpp"

// The host reads this note before it opens the library, and opens only wanted backends.
LONGSHORE_PLUGIN_NOTE(BACKEND, IMAGE_FORMATS, DRIVER);

namespace {

// Constant facts, the same as in the note (P-6). No driver is touched here.
void describe(longshore_description *description) {
    *description = {};
    description->backend = text(BACKEND);
    description->name = text("Acme backend");
    description->version = text(VERSION);
    description->vendor = text("Acme");
    description->image_formats = text(IMAGE_FORMATS);
    description->driver = text(DRIVER);
    // The plugin leaves no thread and no thread-local destructor behind (P-8). A driver often
    // does: then write 0, and the library stays loaded.
    description->unloadable = 1;
}

void log_debug(const longshore_services &services, std::string_view message) {
    if (services.log_level(services.context) >= LONGSHORE_LOG_LEVEL_DEBUG)
        services.log(services.context, LONGSHORE_LOG_LEVEL_DEBUG, text(BACKEND), text(message));
}

// Your driver: open its library by `dlopen` here, at the earliest (P-14), and ask it for its
// devices. If the library is missing, set `*outcome` to LONGSHORE_CONNECTION_NO_DRIVER, and if
// there is no device, to LONGSHORE_CONNECTION_NO_DEVICE. In both cases write the reason to
// `reason`, and throw nothing: neither is an error (P-15).
longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                longshore_platform **platform, longshore_sink reason) {
    return guarded([&] {
        // The user sets LONGSHORE_ACME_DEVICES; the plugin does not read the environment (P-17).
        uint64_t devices = setting(*services, "DEVICES", 16, 1);
        uint64_t memory = setting(*services, "MEMORY", uint64_t(1) << 40, 1 << 30);
        if (devices == 0) {
            *outcome = LONGSHORE_CONNECTION_NO_DEVICE;
            write_text(reason, "the setting DEVICES is 0");
            return;
        }
        *platform = new longshore_platform{*services, uint32_t(devices), memory};
        *outcome = LONGSHORE_CONNECTION_CONNECTED;
        log_debug(*services, "connected");
    });
}

// Optional tables, such as "longshore.pinning" and "longshore.peer", go into the same list. An
// unknown name gets null pointers, so that newer hosts work with this plugin (P-10).
longshore_table_ref table(longshore_text name, uint32_t version) {
    const std::pair<std::string_view, const void *> tables[] = {
        {"longshore.platform", &platform_table}, {"longshore.device", &device_table},
        {"longshore.module", &module_table},     {"longshore.queue", &queue_table},
        {"longshore.event", &event_table},
    };
    for (const auto &[known, table] : tables)
        if (version == 1 && known == view(name))
            return {table, nullptr};
    return {nullptr, nullptr};
}

} // namespace

const longshore_entry longshore_plugin = {
    LONGSHORE_ENTRY_MAGIC,
    LONGSHORE_INTERFACE_MAJOR,
    LONGSHORE_INTERFACE_MINOR,
    nullptr, // a layout, for plugins in Rust only
    describe,
    connect,
    table,
};
