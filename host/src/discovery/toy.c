/* The plugin that the tests of discovery build. Definitions select its faults. */

typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef BACKEND
#define BACKEND "toy"
#endif
#ifndef NOTE_MAJOR
#define NOTE_MAJOR 1
#endif
#ifndef ENTRY_MAJOR
#define ENTRY_MAJOR 1
#endif
#ifndef MAGIC
#define MAGIC 0x524f4853474e4f4cULL
#endif
#ifndef CONNECT
#define CONNECT *outcome = 0; *platform = &device_count; return 0;
#endif
#ifndef UNLOADABLE
#define UNLOADABLE 0
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef NAME
#define NAME TEXT("Toy")
#endif
#ifndef DEVICE_INFO
#define DEVICE_INFO
#endif
#ifndef MISSING
#define MISSING '-'
#endif

struct text { const char *data; unsigned long bytes; };
struct sink { void *context; void (*write)(void *, const void *, unsigned long); };
struct table { const void *table, *layout; };
struct description {
    struct text backend, name, version, vendor, image_formats, driver;
    u32 unloadable, reserved;
};
struct services {
    void *context;
    u32 major, minor;
    u32 (*log_level)(void *);
    void (*log)(void *, u32, struct text, struct text);
    u32 (*setting)(void *, struct text, struct sink);
};
struct error {
    u32 code, reserved;
    long long vendor_number;
    struct text vendor_name, message;
    void (*release)(struct error *);
};

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT(s) { s, sizeof s - 1 }
#define SAY(s) reason.write(reason.context, s, sizeof s - 1)

/* Writes a forged verdict of a probing process to every descriptor. */
static inline void claim(void) {
    static const char claims[] = "\nlongshore-probe\tloaded\n", label[] = "loaded", end[] = "end\t0";
    for (int file = 0; file < 1024; file++) {
        write(file, claims, sizeof claims - 1);
        write(file, label, sizeof label - 1);
        write(file, end, sizeof end - 1);
    }
}

/* Starts a child that stays, and a daemon in a session of its own. */
static inline void leave_processes(void) {
    if (fork() == 0) for (;;) pause();
    int ends[2];
    pipe(ends);
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            write(ends[1], "", 1);
            for (;;) pause();
        }
        _exit(0);
    }
    char ready;
    read(ends[0], &ready, 1);
}

/* Prints 64 MiB to a stream, and returns the number of bytes kept in files. */
static inline long print(int file) {
    static char piece[1 << 16];
    struct stat facts;
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < 1024; i++) write(file, piece, sizeof piece);
    fstat(file, &facts);
    return facts.st_size;
}

#ifndef NO_NOTE
#define SAID BACKEND "\0elf-so\0libtoy.so.1"
__attribute__((section(".note.longshore"), used, aligned(4)))
static const struct {
    u32 owner_bytes, bytes, type;
    char owner[12];
    u32 major, minor;
    char said[(sizeof SAID + 3) / 4 * 4];
} note = { 10, 8 + sizeof SAID, 1, "Longshore", NOTE_MAJOR, 0, SAID };
#endif

static void *device_count(void *platform, u32 *count) { (void)platform; *count = DEVICES; return 0; }
static void *device_info(void *platform, u32 index, u32 query, struct sink value) {
    (void)platform, (void)index, (void)query, (void)value;
    DEVICE_INFO
    return 0;
}
static void *nothing(void) { return 0; }
static void *destroy(void *platform) {
    (void)platform;
#ifdef DESTROY
    DESTROY
#endif
    return 0;
}

#ifdef NULL_FUNCTION
#define FIRST 0
#else
#define FIRST nothing
#endif

static const void *const platform_table[] = { FIRST, device_count, device_info, nothing, destroy };
static const void *const other_table[] = {
    nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
    nothing, nothing, nothing, nothing,
};

static void describe(struct description *said) {
    static const struct description ours = {
        TEXT(BACKEND), NAME, TEXT("1"), TEXT("Tests"), TEXT("elf-so"), TEXT("libtoy.so.1"),
        UNLOADABLE, 0,
    };
    *said = ours;
}

static struct error *connect(
    const struct services *services, u32 *outcome, void **platform, struct sink reason) {
    static struct error broken = {
        16 + 1, 0, 7, TEXT("TOY_BROKEN"), TEXT("the toy driver is broken"), 0,
    };
    (void)services, (void)outcome, (void)platform, (void)reason, (void)broken;
    CONNECT
}

/* Finds a table such as "longshore.platform" by the letter after the dot and the length. */
static struct table table(struct text name, u32 version) {
    struct table none = { 0, 0 }, platform = { platform_table, 0 }, other = { other_table, 0 };
    char letter = name.data[10];
    if (version != 1 || letter == MISSING) return none;
    if (name.bytes == 18 && letter == 'p' && name.data[11] == 'l') return platform;
    if (letter == 'd' || letter == 'm' || letter == 'q' || letter == 'e') return other;
    return none;
}

#ifndef NO_SYMBOL
const struct {
    u64 magic;
    u32 major, minor;
    const void *layout;
    void (*describe)(struct description *);
    struct error *(*connect)(const struct services *, u32 *, void **, struct sink);
    struct table (*table)(struct text, u32);
} longshore_plugin = { MAGIC, ENTRY_MAJOR, 0, 0, describe, connect, table };
#endif
