// A plugin with all answers drawn from given bytes and then from a seed: counts, sizes, texts,
// addresses, errors. It keeps the promises that a host in the same process cannot check: pointers
// are readable up to the bounds of the interface, and host functions run once.

#include "longshore_plugin.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

LONGSHORE_PLUGIN_NOTE("seeded", "any", "");

static const uint8_t *given;
static size_t given_bytes;
static _Atomic size_t given_at;
static _Atomic uint64_t state;
static _Atomic uint64_t next_address = 1 << 20;
// Whether a seed is set. Without a seed all answers are ordinary.
static int is_seeded;

// Sets the bytes and the seed of the next answers.
LONGSHORE_EXPORT void seeded_answers(const uint8_t *bytes, size_t count, uint64_t seed) {
    given = bytes;
    given_bytes = count;
    given_at = 0;
    state = seed;
    next_address = 1 << 20;
    is_seeded = 1;
}

static uint64_t draw(void) {
    size_t at = atomic_fetch_add(&given_at, 1);
    if (at < given_bytes)
        return given[at];
    uint64_t number = atomic_fetch_add(&state, 0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return number ^ number >> 31;
}

static uint64_t below(uint64_t limit) { return draw() % limit; }

// Returns 1 once in `times` calls on average.
static int rarely(uint64_t times) { return is_seeded && below(times) == times - 1; }

static uint64_t number(void) {
    static const uint64_t edges[] = {
        0, 1, 2, 3, 7, 8, 16, 64, 255, 256, 1023, 1024, 1025, 4096, 32768, 32769, 65536,
        0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 1ull << 40, 0x7fffffffffffffff,
        0x8000000000000000, 0xfffffffffffffff8, 0xffffffffffffffff,
    };
    return rarely(4) ? draw() * 0x0101010101010101 : edges[below(sizeof edges / sizeof *edges)];
}

// Returns `value` in most calls, so that a program gets far, else any number.
static uint64_t usually(uint64_t value) { return rarely(6) ? number() : value; }

enum { PAGE = 1 << 20 };
static uint8_t page[PAGE];

// Returns a range of bytes. The range is readable unless it is beyond all bounds.
static longshore_bytes range(size_t most) {
    switch (below(24)) {
    case 0: return (longshore_bytes){NULL, number()};
    case 1: return (longshore_bytes){page, 0xffffffff + number() % 0x7fffffff00000000};
    case 2: return (longshore_bytes){page, SIZE_MAX - below(16)};
    case 3: return (longshore_bytes){page + 1, (size_t)PTRDIFF_MAX + below(2)};
    case 4: return (longshore_bytes){page, PAGE};
    default: return (longshore_bytes){page + below(1024), below(most + 1)};
    }
}

static longshore_text any_text(void) {
    longshore_bytes bytes = range(60);
    return (longshore_text){bytes.data, bytes.bytes};
}

static longshore_text usual_text(const char *usual) {
    return rarely(8) ? any_text() : (longshore_text){(const uint8_t *)usual, strlen(usual)};
}

static void release(longshore_error_object *error) { free(error); }

// Returns success in most calls, else an error.
static longshore_error_object *result(void) {
    if (!rarely(10))
        return NULL;
    longshore_error_object made = {
        .code = rarely(3) ? number() : 1 + below(24), .vendor_number = number(),
        .vendor_name = usual_text(""), .message = usual_text("an error of the seed"),
    };
    static longshore_error_object kept;
    longshore_error_object *error = rarely(4) ? &kept : malloc(sizeof made);
    made.release = error == &kept ? NULL : release;
    *error = made;
    return error;
}

static void write_any(longshore_sink sink, const void *usual, size_t bytes) {
    switch (below(12)) {
    case 0: break;
    case 1: {
        longshore_bytes any = range(40);
        sink.write(sink.context, any.data, any.bytes);
        break;
    }
    case 2:
        if (rarely(8))
            for (int i = 0; i < 5000; i++)
                sink.write(sink.context, page, PAGE);
        break;
    case 3:
        for (uint64_t pieces = below(100); pieces > 0; pieces--)
            sink.write(sink.context, page + below(1000), below(1000));
        break;
    default: sink.write(sink.context, usual, bytes);
    }
}

// Returns a handle whose memory is never read, sometimes null.
static void *handle(void) { return rarely(16) ? NULL : page + 8 * below(64); }

static longshore_error_object *give(void *place) {
    longshore_error_object *failed = result();
    if (!failed)
        *(void **)place = handle();
    return failed;
}

static longshore_error_object *info(longshore_platform *p, uint32_t query, longshore_sink value) {
    write_any(value, "Seeded", 6);
    return result();
}

static longshore_error_object *device_count(longshore_platform *platform, uint32_t *count) {
    *count = usually(1 + below(3));
    return result();
}

static longshore_error_object *device_info(longshore_platform *platform, uint32_t index,
                                           uint32_t query, longshore_sink value) {
    uint64_t words[4] = {usually(4), number(), number(), number()};
    static const uint8_t sizes[] = {1, 4, 8, 12, 16};
    size_t bytes = 4;
    switch (query) {
    case 2: case 3: case 4: case 5: case 6: case 0x1001: case 0x1002: case 0x1004:
        write_any(value, "seeded text", 11);
        return result();
    case 8: case 10: bytes = 12; break;
    case 16: case 17: case 18: case 0x1003: bytes = 8; break;
    case 29: case 30: case 31: case 32: case 0x1005: case 0x1006: bytes = 1; break;
    case 0x1000: bytes = 16; break;
    }
    write_any(value, words, rarely(12) ? sizes[below(5)] : bytes);
    return result();
}

static longshore_error_object *open_device(longshore_platform *platform, uint32_t index,
                                           longshore_device **device) {
    return give(device);
}

static longshore_error_object *destroy_platform(longshore_platform *p) { return result(); }

static longshore_error_object *accepts(longshore_device *device, longshore_bytes image,
                                       uint32_t *accepted, longshore_sink reason) {
    *accepted = usually(1 + below(2));
    write_any(reason, "it is not liked", 15);
    return result();
}

static longshore_error_object *allocate(longshore_device *device, uint32_t kind, uint64_t bytes,
                                        uint64_t alignment, uint64_t *address) {
    uint64_t room = (bytes > 1 << 30 ? 1 << 30 : bytes) + 2 * alignment;
    uint64_t start = atomic_fetch_add(&next_address, room);
    *address = usually((start + alignment - 1) & -alignment);
    return result();
}

static longshore_error_object *device_call(longshore_device *device) { return result(); }
static longshore_error_object *module_call(longshore_module *module) { return result(); }
static longshore_error_object *queue_call(longshore_queue *queue) { return result(); }
static longshore_error_object *event_call(longshore_event *event) { return result(); }

static longshore_error_object *free_memory(longshore_device *d, uint32_t kind, uint64_t address) {
    return result();
}

static longshore_error_object *load(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module) {
    return give(module);
}

static longshore_error_object *create_queue(longshore_device *device, longshore_queue **queue) {
    return give(queue);
}

static longshore_error_object *create_event(longshore_device *device, uint32_t timing,
                                            longshore_event **event) {
    return give(event);
}

static longshore_error_object *kernel(longshore_module *module, longshore_text name,
                                      longshore_kernel_info *kernel) {
    static uint32_t sizes[1 << 16], types[1 << 16];
    uint64_t count = rarely(4) ? number() : below(4);
    // Counts up to the arrays' length are readable; larger ones are made to exceed the bound.
    if (count > 1 << 16)
        count |= 0x80000000;
    static const uint32_t usual_types[] = {2, 3, 4, 0x40304};
    for (int i = 0; i < 4; i++) {
        sizes[i] = usually(8);
        types[i] = usually(usual_types[i]);
    }
    *kernel = (longshore_kernel_info){
        handle(), usually(4096), usually(256), rarely(3) ? NULL : sizes, rarely(3) ? NULL : types,
        rarely(3) ? any_text() : usual_text("(uint64_t n, float a, float *x)"), count,
        usually(1024), usually(0), usually(16), number(),
        {usually(0), usually(0), usually(0)},
    };
    if (rarely(16))
        kernel->argument_sizes = (const uint32_t *)(page + 1 + below(3));
    if (rarely(16))
        kernel->argument_types = (const uint32_t *)(page + 1 + below(3));
    return result();
}

static longshore_error_object *global(longshore_module *module, longshore_text name,
                                      longshore_global_info *global) {
    *global = (longshore_global_info){usually(1 << 12), usually(8)};
    return result();
}

static longshore_error_object *symbols(longshore_module *m, longshore_symbol_visitor visitor) {
    uint64_t count = rarely(256) ? (1 << 20) + below(3) : below(20);
    for (uint64_t i = 0; i < count; i++)
        visitor.visit(visitor.context, count < 64 ? any_text() : (longshore_text){page, 3},
                      rarely(8) ? number() : below(2));
    if (rarely(32))
        for (int i = 0; i < 100; i++)
            visitor.visit(visitor.context, (longshore_text){page, PAGE}, 0);
    return result();
}

static longshore_error_object *launch(longshore_queue *queue, const longshore_launch *launch) {
    return result();
}

static longshore_error_object *copy(longshore_queue *queue, const longshore_copy *copy) {
    return result();
}

static longshore_error_object *fill(longshore_queue *queue, const longshore_fill *fill) {
    return result();
}

static longshore_error_object *host_function(longshore_queue *q, longshore_host_function f) {
    longshore_error_object *failed = result();
    if (!failed)
        f.call(f.context);
    return failed;
}

static longshore_error_object *with_event(longshore_queue *queue, longshore_event *event) {
    return result();
}

static longshore_error_object *is_idle(longshore_queue *queue, uint32_t *idle) {
    *idle = rarely(3) ? number() : below(2);
    return result();
}

static longshore_error_object *is_complete(longshore_event *event, uint32_t *complete) {
    *complete = rarely(3) ? number() : below(2);
    return result();
}

static longshore_error_object *elapsed(longshore_event *start, longshore_event *end, int64_t *ns) {
    *ns = number();
    return result();
}

static longshore_error_object *pin(longshore_device *d, uint64_t at, uint64_t n, uint64_t *there) {
    *there = usually(at);
    return result();
}

static longshore_error_object *unpin(longshore_device *d, uint64_t address) { return result(); }

static longshore_error_object *can_access(longshore_device *a, longshore_device *b, uint32_t *yes) {
    *yes = usually(1);
    return result();
}

static longshore_error_object *enable(longshore_device *a, longshore_device *b) { return result(); }

static longshore_error_object *prefetch(longshore_queue *queue, uint64_t address, uint64_t bytes,
                                        uint32_t target) {
    return result();
}

static longshore_error_object *device_handle(longshore_device *device, uint64_t *handle) {
    *handle = number();
    return result();
}

static longshore_error_object *queue_handle(longshore_queue *queue, uint64_t *handle) {
    *handle = number();
    return result();
}

static longshore_error_object *optimal(longshore_device *device, longshore_kernel *kernel,
                                       uint64_t shared, uint32_t *items) {
    *items = usually(64);
    return result();
}

static longshore_error_object *cooperative(longshore_device *device, longshore_kernel *kernel,
                                           const uint32_t (*items)[3], uint64_t shared,
                                           uint32_t *groups) {
    *groups = usually(4);
    return result();
}

static longshore_error_object *score(longshore_device *device, longshore_bytes image,
                                     longshore_text triple, longshore_text arch, uint32_t *score) {
    *score = number();
    return result();
}

static longshore_error_object *code_target(longshore_device *device, longshore_sink triple,
                                           longshore_sink processor, longshore_sink features) {
    write_any(triple, "x86_64-unknown-linux-gnu", 24);
    write_any(processor, "generic", 7);
    write_any(features, "+avx2", 5);
    return result();
}

static longshore_error_object *set_logical_size(longshore_device *device, uint64_t address,
                                                uint64_t bytes) {
    return result();
}

static longshore_error_object *import_memory(longshore_device *device, uint32_t kind,
                                             uint64_t address, uint64_t bytes) {
    return result();
}

static longshore_error_object *pool_tracker(longshore_module *module,
                                            longshore_pool_tracker *tracker, uint32_t *present) {
    *tracker = (longshore_pool_tracker){number(), number(), number(), number()};
    *present = usually(1);
    return result();
}

// Visits the sections of a profile of one function, some of them with wrong values.
static longshore_error_object *profile(longshore_module *m, longshore_profile_visitor visitor) {
    uint64_t counters[4] = {7, 41, number(), number()}, record[8] = {0}, version = usually(10);
    uint8_t names[64] = "\x03\0abc";
    record[0] = number();
    record[1] = number();
    record[2] = usually(0x1000 - 0x2000);
    record[6] = usually(2);
    if (rarely(4))
        ((uint8_t *)record)[below(64)] = draw();
    if (rarely(4))
        names[below(64)] = draw();
    longshore_bytes contents[] = {
        {(uint8_t *)counters, rarely(6) ? below(33) : 16},
        {(uint8_t *)record, rarely(6) ? below(65) : 64},
        {names, rarely(2) ? below(65) : 5},
        {page, rarely(2) ? 0 : 64},
        {(uint8_t *)&version, rarely(6) ? below(9) : 8},
    };
    for (uint32_t kind = 0; kind < 5; kind++)
        if (!rarely(10))
            visitor.visit(visitor.context, usually(kind), usually(0x1000 * (kind + 1)),
                          rarely(16) ? range(1000) : contents[kind]);
    if (rarely(64))
        for (int i = 0; i < 100 * 100; i++)
            visitor.visit(visitor.context, number(), 0, (longshore_bytes){page, PAGE});
    return result();
}

#include "../tables.h"

static const longshore_peer_table peer_table = {can_access, enable};
static const longshore_prefetch_table prefetch_table = {prefetch};
static const longshore_driver_device_table driver_device_table = {device_handle, device_handle};
static const longshore_code_target_table code_target_table = {code_target};
static const longshore_driver_stream_table driver_stream_table = {queue_handle};

static longshore_table_ref table(longshore_text name, uint32_t version) {
    static const struct {
        const char *name;
        const void *table;
        int is_optional;
    } all[] = {
        {"platform", &platform_table, 0},   {"device", &device_table, 0},
        {"module", &module_table, 0},       {"queue", &queue_table, 0},
        {"event", &event_table, 0},         {"pinning", &pinning_table, 1},
        {"peer", &peer_table, 1},           {"prefetch", &prefetch_table, 1},
        {"occupancy", &occupancy_table, 1}, {"instrumentation", &instrumentation_table, 1},
        {"code_target", &code_target_table, 1},
        {"driver_device", &driver_device_table, 1}, {"driver_stream", &driver_stream_table, 1},
    };
    const size_t prefix = strlen("longshore.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (name.bytes == prefix + strlen(all[i].name) &&
            !memcmp(name.data + prefix, all[i].name, name.bytes - prefix) &&
            !rarely(all[i].is_optional ? 8 : 200))
            return (longshore_table_ref){all[i].table, NULL};
    return (longshore_table_ref){NULL, NULL};
}

static void describe(longshore_description *said) {
    *said = (longshore_description){
        rarely(40) ? any_text() : (longshore_text){(const uint8_t *)"seeded", 6},
        rarely(40) ? any_text() : usual_text(""), usual_text("1"), (longshore_text){NULL, 0},
        (longshore_text){(const uint8_t *)"any", 3}, (longshore_text){NULL, 0}, 0, number(),
    };
}

static void set_seed(void *context, const uint8_t *data, size_t bytes) {
    uint64_t seed = 0;
    for (size_t i = 0; i < bytes; i++)
        seed = 10 * seed + (data[i] - '0');
    state = seed;
    is_seeded = 1;
}

static longshore_error_object *connect(const longshore_services *services, uint32_t *outcome,
                                       longshore_platform **platform, longshore_sink reason) {
    // The test cannot call `seeded_answers` in an isolated plugin, so the seed is a setting.
    services->setting(services->context, (longshore_text){(const uint8_t *)"SEED", 4},
                      (longshore_sink){NULL, set_seed});
    for (size_t i = 0; i < 1024; i++)
        page[i] = i % 61 ? 'a' + i % 26 : draw();
    if (rarely(3))
        services->log(services->context, number(), any_text(), any_text());
    services->setting(services->context, any_text(), (longshore_sink){NULL, set_seed});
    *outcome = rarely(12) ? number() : 0;
    *platform = handle();
    write_any(reason, "no reason", 9);
    return result();
}

const longshore_entry longshore_plugin = {
    LONGSHORE_ENTRY_MAGIC, LONGSHORE_INTERFACE_MAJOR, LONGSHORE_INTERFACE_MINOR, NULL,
    describe, connect, table,
};
