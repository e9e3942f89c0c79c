// The plugin's entry, and the connection to the driver: start reading here.

#include "plugin.h"
#include <stdlib.h>

// The host reads this note before it opens the library, and opens only wanted backends.
LONGSHORE_PLUGIN_NOTE(BACKEND, IMAGE_FORMATS, DRIVER);

// Constant facts, the same as in the note (P-6). No driver is touched here.
static void describe(longshore_description *description) {
    *description = (longshore_description){
        .backend = text(BACKEND),
        .name = text("Acme backend"),
        .version = text(VERSION),
        .vendor = text("Acme"),
        .image_formats = text(IMAGE_FORMATS),
        .driver = text(DRIVER),
        // The plugin leaves no thread and no thread-local destructor behind (P-8). A driver often
        // does: then write 0, and the library stays loaded.
        .unloadable = 1,
    };
}

static void log_debug(const longshore_services *services, const char *message) {
    if (services->log_level(services->context) >= LONGSHORE_LOG_LEVEL_DEBUG)
        services->log(services->context, LONGSHORE_LOG_LEVEL_DEBUG, text(BACKEND), text(message));
}

// Your driver: open its library by `dlopen` here, at the earliest (P-14), and ask it for its
// devices. If the library is missing, set `*outcome` to LONGSHORE_CONNECTION_NO_DRIVER, and if
// there is no device, to LONGSHORE_CONNECTION_NO_DEVICE. In both cases write the reason to
// `reason`, and return null: neither is an error (P-15).
static longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                       longshore_platform **platform, longshore_sink reason) {
    uint64_t devices = 1, memory = (uint64_t)1 << 30;
    // The user sets LONGSHORE_ACME_DEVICES; the plugin does not read the environment (P-17).
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

// Optional tables, such as "longshore.pinning" and "longshore.peer", go into the same list. An
// unknown name gets null pointers, so that newer hosts work with this plugin (P-10).
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
    };
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof *tables; i++)
        if (same_text(name, text(tables[i].name)))
            return (longshore_table_ref){tables[i].table, NULL};
    return (longshore_table_ref){NULL, NULL};
}

const longshore_entry longshore_plugin = {
    .magic = LONGSHORE_ENTRY_MAGIC,
    .interface_major = LONGSHORE_INTERFACE_MAJOR,
    .interface_minor = LONGSHORE_INTERFACE_MINOR,
    .layout = NULL, // for plugins in Rust only
    .describe = describe,
    .connect = connect,
    .table = table,
};
