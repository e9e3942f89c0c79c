/* Runs each kernel once, as the plugin for CPUs does with loops over items. Writes for each a
 * status and its outputs to the file of the first argument. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in longshore_device.h, whose macros are for clang. */
struct longshore_calls;
struct longshore_work {
  uint64_t begin, end;
  uint32_t groups[3], items[3];
  uint32_t first[3], last[3];
  uint32_t item[3];
  uint32_t traced;
  uint64_t group;
  void *fixed, *dynamic;
  uint64_t fixed_bytes, dynamic_bytes;
  const struct longshore_calls *calls;
};
struct longshore_calls {
  void (*barrier)(struct longshore_work *);
  void (*grid_barrier)(struct longshore_work *);
  const uint64_t *(*gather)(struct longshore_work *, uint64_t, uint64_t *);
  void (*write)(struct longshore_work *, const char *, uint64_t);
  void (*fail)(struct longshore_work *, const char *, const char *, uint32_t);
};
typedef void longshore_entry(void *const *, struct longshore_work *);

/* DATA */

struct kernel {
  longshore_entry *entry;
  const uint32_t *in;
  uint32_t n, a;
  int32_t b;
  uint64_t c;
  uint32_t f, groups[3], items[3];
  uint64_t dynamic_bytes, count;
};
static const struct kernel kernels[] = {
/* TABLE */
};

enum { SAME = 0, NEEDS_STACKS = 1, FAILED = 2, SHARED_BYTES = 64 << 10 };
static jmp_buf end;
static void barrier(struct longshore_work *work) { longjmp(end, NEEDS_STACKS); }
static const uint64_t *gather(struct longshore_work *work, uint64_t value, uint64_t *present) {
  longjmp(end, NEEDS_STACKS);
}
static void write_text(struct longshore_work *work, const char *text, uint64_t bytes) {}
static void fail(struct longshore_work *work, const char *what, const char *file, uint32_t line) {
  fprintf(stderr, "%s:%u: %s\n", file, line, what);
  longjmp(end, FAILED);
}
static const struct longshore_calls calls = {barrier, barrier, gather, write_text, fail};

static uint32_t run(const struct kernel *kernel, uint32_t *out, uint64_t *wide) {
  void *fixed = aligned_alloc(128, SHARED_BYTES);
  void *dynamic = aligned_alloc(128, (kernel->dynamic_bytes + 255) / 128 * 128);
  struct longshore_work work = {0};
  memcpy(work.groups, kernel->groups, sizeof(work.groups));
  memcpy(work.items, kernel->items, sizeof(work.items));
  work.end = (uint64_t)kernel->groups[0] * kernel->groups[1] * kernel->groups[2];
  work.fixed = fixed, work.dynamic = dynamic;
  work.fixed_bytes = SHARED_BYTES, work.dynamic_bytes = kernel->dynamic_bytes;
  work.calls = &calls;
  void *const arguments[] = {&out, &wide, (void *)&kernel->in, (void *)&kernel->n,
                             (void *)&kernel->a, (void *)&kernel->b, (void *)&kernel->c,
                             (void *)&kernel->f};
  int status = setjmp(end);
  if (status == 0) kernel->entry(arguments, &work);
  free(fixed);
  free(dynamic);
  return status;
}

int main(int count, char **arguments) {
  FILE *file = count > 1 ? fopen(arguments[1], "wb") : 0;
  if (!file) return 1;
  for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i) {
    const struct kernel *kernel = &kernels[i];
    uint32_t *out = malloc(kernel->count * 4);
    uint64_t *wide = malloc(kernel->count * 8);
    for (uint64_t at = 0; at < kernel->count; ++at) out[at] = UNWRITTEN, wide[at] = WIDE_UNWRITTEN;
    uint32_t status = run(kernel, out, wide);
    fwrite(&status, 4, 1, file);
    fwrite(out, 4, kernel->count, file);
    fwrite(wide, 8, kernel->count, file);
    free(out);
    free(wide);
  }
  return fclose(file) != 0;
}
