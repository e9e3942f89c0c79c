/* Runs launches as the plugin for CPUs does with loops over items. Reads them from the file of the
 * first argument, and writes for each a status and the contents of its buffers to that of the
 * second. */
#include "longshore_device.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void longshore_entry(void *const *, struct longshore_work *);

/* KERNELS */

static const struct {
  const char *name;
  longshore_entry *entry;
} kernels[] = {
/* TABLE */
};

enum { DONE = 0, NEEDS_STACKS = 1, FAILED = 2, MOST_ARGUMENTS = 32, SHARED_BYTES = 256 << 10 };
static jmp_buf end;
static void barrier(struct longshore_work *work) { longjmp(end, NEEDS_STACKS); }
static const uint64_t *gather(struct longshore_work *work, uint64_t value, uint64_t *present) {
  longjmp(end, NEEDS_STACKS);
}
static void write_text(struct longshore_work *work, const char *text, uint64_t bytes) {}
static void fail(struct longshore_work *work, const char *what, const char *file, uint32_t line, uint64_t from) {
  (void)from;
  fprintf(stderr, "%s:%u: %s\n", file, line, what);
  longjmp(end, FAILED);
}
static const struct longshore_calls calls = {barrier, barrier, gather, write_text, fail, barrier, 0};

static FILE *input, *output;
/* Memory as the plugin has it: aligned, and with some bytes behind the last one. */
static void *memory(uint64_t bytes) { return aligned_alloc(128, (bytes + 255) / 128 * 128); }
static uint64_t word(void) {
  uint64_t word;
  if (fread(&word, 8, 1, input) != 1) exit(3);
  return word;
}
static void *counted(uint64_t *count) {
  *count = word();
  void *bytes = memory(*count);
  if (fread(bytes, 1, *count, input) != *count) exit(3);
  return bytes;
}

static void run(const char *name) {
  struct longshore_work work = {0};
  for (int d = 0; d < 3; ++d) work.groups[d] = (uint32_t)word();
  for (int d = 0; d < 3; ++d) work.items[d] = (uint32_t)word();
  work.dynamic_bytes = word();
  work.end = (uint64_t)work.groups[0] * work.groups[1] * work.groups[2];
  work.fixed = memory(SHARED_BYTES), work.dynamic = memory(work.dynamic_bytes);
  work.fixed_bytes = SHARED_BYTES;
  work.calls = &calls;
  const uint64_t count = word();
  void *arguments[MOST_ARGUMENTS], *values[MOST_ARGUMENTS];
  uint64_t is_buffer[MOST_ARGUMENTS], bytes[MOST_ARGUMENTS];
  if (count > MOST_ARGUMENTS) exit(3);
  for (uint64_t i = 0; i < count; ++i) {
    is_buffer[i] = word();
    values[i] = counted(&bytes[i]);
    arguments[i] = is_buffer[i] ? &values[i] : values[i];
  }
  longshore_entry *entry = 0;
  for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i)
    if (!strcmp(kernels[i].name, name)) entry = kernels[i].entry;
  const int status = setjmp(end);
  if (status == DONE) entry(arguments, &work);
  fputc(status, output);
  for (uint64_t i = 0; i < count; ++i) {
    if (is_buffer[i]) fwrite(values[i], 1, bytes[i], output);
    free(values[i]);
  }
  free(work.fixed);
  free(work.dynamic);
}

int main(int count, char **files) {
  input = fopen(files[1], "rb"), output = fopen(files[2], "wb");
  if (!input || !output) return 1;
  for (int next; (next = fgetc(input)) != EOF;) {
    uint64_t bytes;
    ungetc(next, input);
    char *name = counted(&bytes);
    run(name);
    free(name);
  }
  return fclose(output) != 0;
}
