// A plugin with one answer beyond a bound, named by WRONG; all other answers are correct. A host
// that trusts the answer allocates more memory than its process may have, or reads unmapped memory.

#include "longshore_plugin.h"
#include <string.h>

LONGSHORE_PLUGIN_NOTE("absurd", "any", "");

#define IS(what) (!strcmp(WRONG, what))
enum { MIB = 1 << 20 };
static uint8_t page[MIB + 1];
static uint64_t next_address = MIB;

static longshore_text said(const char *text) {
    return (longshore_text){(const uint8_t *)text, strlen(text)};
}

static longshore_text nowhere(void) {
    return (longshore_text){page, (size_t)1 << 46};
}

static void write_text(longshore_sink sink, const char *text) {
    sink.write(sink.context, (const uint8_t *)text, strlen(text));
}

// Writes 4 GiB, in pieces of 1 MiB.
static void write_endless(longshore_sink sink) {
    for (int i = 0; i < 4096; i++)
        sink.write(sink.context, page, MIB);
}

static void *handle(void) { return page; }

static void describe(longshore_description *description) {
    *description = (longshore_description){
        said("absurd"), IS("description") ? nowhere() : said("Absurd"), said("1"), said(""),
        said("any"), said(""), 0, 0,
    };
}

static longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                       longshore_platform **platform, longshore_sink reason) {
    if (IS("log"))
        services->log(services->context, 1, said("absurd"), nowhere());
    if (IS("setting"))
        services->setting(services->context, nowhere(), reason);
    *platform = handle();
    *outcome = IS("reason") ? 1 : 0;
    if (IS("reason"))
        write_endless(reason);
    return NULL;
}

static longshore_error_object *info(longshore_platform *p, uint32_t query, longshore_sink value) {
    if (IS("info"))
        write_endless(value);
    write_text(value, "Absurd");
    return NULL;
}

static longshore_error_object *device_count(longshore_platform *platform, uint32_t *count) {
    *count = IS("devices") ? UINT32_MAX : 2;
    return NULL;
}

static longshore_error_object *device_info(longshore_platform *platform, uint32_t index,
                                           uint32_t query, longshore_sink value) {
    static longshore_error_object unknown = {LONGSHORE_ERROR_UNIMPLEMENTED};
    if (IS("device info"))
        write_endless(value);
    if (query != LONGSHORE_DEVICE_INFO_NAME && query != LONGSHORE_DEVICE_INFO_VENDOR)
        return &unknown;
    write_text(value, "Absurd");
    return NULL;
}

static longshore_error_object *open_device(longshore_platform *platform, uint32_t index,
                                           longshore_device **device) {
    *device = (longshore_device *)(page + index);
    return NULL;
}

static longshore_error_object *destroy_platform(longshore_platform *platform) { return NULL; }

static longshore_error_object *accepts(longshore_device *device, longshore_bytes image,
                                       uint32_t *accepted, longshore_sink reason) {
    *accepted = IS("acceptance") ? 7 : IS("refusal") ? 0 : 1;
    if (IS("refusal"))
        write_endless(reason);
    return NULL;
}

static longshore_error_object *allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address) {
    next_address = (next_address + 2 * alignment - 1) & -alignment;
    *address = IS("address 0") ? 0 : IS("odd address") ? 1 : IS("last address") ? -alignment
                                                                               : next_address;
    next_address += bytes;
    static uint64_t first, count;
    if (!count)
        first = *address;
    else if (strstr(WRONG, "same address"))
        *address = first;
    else if (strstr(WRONG, "address inside"))
        *address = first + alignment;
    else if (IS("addresses inside") || (IS("some addresses inside") && count < 4))
        *address = first + count * bytes;
    count++;
    return NULL;
}

static uint64_t freed;

static longshore_error_object *free_memory(longshore_device *d, uint32_t kind, uint64_t address) {
    freed++;
    return NULL;
}

static longshore_error_object *load(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module) {
    static longshore_error_object error;
    error = (longshore_error_object){
        LONGSHORE_ERROR_INVALID_BINARY, 0, 7, IS("vendor") ? nowhere() : said(""),
        IS("message") ? nowhere() : said("it is broken"), NULL,
    };
    *module = handle();
    return IS("vendor") || IS("message") ? &error : NULL;
}

static longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue) {
    *queue = handle();
    return NULL;
}

static longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                            longshore_event **event) {
    *event = handle();
    return NULL;
}

static longshore_error_object *device_call(longshore_device *device) { return NULL; }
static longshore_error_object *module_call(longshore_module *module) { return NULL; }
static longshore_error_object *queue_call(longshore_queue *queue) { return NULL; }
static longshore_error_object *event_call(longshore_event *event) { return NULL; }

static longshore_error_object *kernel(longshore_module *module, longshore_text name,
                                      longshore_kernel_info *kernel) {
    static uint32_t sizes[] = {8, 8};
    sizes[1] = IS("argument") ? UINT32_MAX : 8;
    *kernel = (longshore_kernel_info){
        .handle = handle(),
        .address = IS("code") ? UINT64_MAX : 4096,
        .code_bytes = 256,
        .argument_sizes = IS("odd sizes") ? (uint32_t *)(page + 1) : sizes,
        .argument_types = IS("odd types") ? (uint32_t *)(page + 1) : NULL,
        .declaration = IS("declaration") ? nowhere() : said(""),
        .argument_count = IS("arguments") ? UINT32_MAX : 2,
        .static_shared_bytes = IS("shared memory") ? UINT64_MAX : 0,
        .private_bytes = IS("private memory") ? UINT64_MAX : 0,
    };
    return NULL;
}

static longshore_error_object unsupported = {LONGSHORE_ERROR_UNSUPPORTED};

static longshore_error_object *score(longshore_device *device, longshore_bytes image,
                                     longshore_text triple, longshore_text arch, uint32_t *score) {
    return &unsupported;
}

static longshore_error_object *set_logical_size(longshore_device *device, uint64_t address,
                                                uint64_t bytes) {
    return &unsupported;
}

static longshore_error_object *import_memory(longshore_device *device, uint32_t kind,
                                             uint64_t address, uint64_t bytes) {
    return &unsupported;
}

static longshore_error_object *global(longshore_module *module, longshore_text name,
                                      longshore_global_info *global) {
    *global = (longshore_global_info){IS("end of a global") ? UINT64_MAX : 4096,
                                      IS("global") ? UINT64_MAX : 8 + freed};
    return NULL;
}

static longshore_error_object *symbols(longshore_module *module,
                                       longshore_symbol_visitor visitor) {
    // 16 times the bound, so that a host that does not stop at the bound is noticed.
    for (uint64_t i = 0; IS("symbols") && i < 16 * MIB; i++)
        visitor.visit(visitor.context, said("symbol"), 0);
    if (IS("symbol"))
        visitor.visit(visitor.context, nowhere(), 0);
    for (int i = 0; IS("names of symbols") && i < 4096; i++)
        visitor.visit(visitor.context, (longshore_text){page, MIB}, 0);
    if (IS("null symbol"))
        visitor.visit(visitor.context, (longshore_text){NULL, 8}, 0);
    return NULL;
}

static longshore_error_object *pool_tracker(longshore_module *module,
                                            longshore_pool_tracker *tracker, uint32_t *present) {
    *present = 0;
    return NULL;
}

static longshore_error_object *profile(longshore_module *module,
                                       longshore_profile_visitor visitor) {
    for (int i = 0; IS("sections") && i < 16 * MIB; i++)
        visitor.visit(visitor.context, 0, 4096, (longshore_bytes){page, 8});
    for (int i = 0; IS("contents of sections") && i < 4096; i++)
        visitor.visit(visitor.context, 0, 4096, (longshore_bytes){page, MIB});
    if (IS("section"))
        visitor.visit(visitor.context, 0, 4096, (longshore_bytes){page, SIZE_MAX});
    if (IS("end of a section"))
        visitor.visit(visitor.context, 0, UINT64_MAX, (longshore_bytes){page, 8});
    return NULL;
}

static longshore_error_object *pin(longshore_device *d, uint64_t at, uint64_t n, uint64_t *there) {
    *there = IS("pinned address") ? 0 : at;
    return NULL;
}

static longshore_error_object *unpin(longshore_device *d, uint64_t address) { return NULL; }

static longshore_error_object *optimal(longshore_device *device, longshore_kernel *kernel,
                                       uint64_t shared, uint32_t *items) {
    *items = IS("items") ? 0 : 64;
    return NULL;
}

static longshore_error_object *cooperative(longshore_device *device, longshore_kernel *kernel,
                                           const uint32_t (*items)[3], uint64_t shared,
                                           uint32_t *groups) {
    *groups = 4;
    return NULL;
}

static longshore_error_object *launch(longshore_queue *queue, const longshore_launch *launch) {
    return NULL;
}

static longshore_error_object *copy(longshore_queue *queue, const longshore_copy *copy) {
    return NULL;
}

static longshore_error_object *fill(longshore_queue *queue, const longshore_fill *fill) {
    return NULL;
}

static longshore_error_object *host_function(longshore_queue *q, longshore_host_function f) {
    f.call(f.context);
    return NULL;
}

static longshore_error_object *with_event(longshore_queue *queue, longshore_event *event) {
    return NULL;
}

static longshore_error_object *is_idle(longshore_queue *queue, uint32_t *idle) {
    *idle = 1;
    return NULL;
}

static longshore_error_object *is_complete(longshore_event *event, uint32_t *complete) {
    *complete = 1;
    return NULL;
}

static longshore_error_object *elapsed(longshore_event *start, longshore_event *end, int64_t *ns) {
    *ns = 0;
    return NULL;
}

#include "../tables.h"

static longshore_table_ref table(longshore_text name, uint32_t version) {
    static const struct {
        const char *name;
        const void *table;
    } all[] = {
        {"longshore.platform", &platform_table},   {"longshore.device", &device_table},
        {"longshore.module", &module_table},       {"longshore.queue", &queue_table},
        {"longshore.event", &event_table},         {"longshore.pinning", &pinning_table},
        {"longshore.occupancy", &occupancy_table},
        {"longshore.instrumentation", &instrumentation_table},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (name.bytes == strlen(all[i].name) && !memcmp(name.data, all[i].name, name.bytes))
            return (longshore_table_ref){all[i].table, NULL};
    return (longshore_table_ref){NULL, NULL};
}

const longshore_entry longshore_plugin = {
    LONGSHORE_ENTRY_MAGIC, LONGSHORE_INTERFACE_MAJOR, LONGSHORE_INTERFACE_MINOR, NULL,
    describe, connect, table,
};
