/* y = a * x + y on the first device that accepts the image, with the C API of LLVM Offload:
 *
 *   longshore cc kernels.c
 *   cc saxpy.c $(pkg-config --cflags --libs LLVMOffload) -o saxpy
 *   ./saxpy kernels.img
 */
#include <OffloadAPI.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1024, ITEMS = 128 };

/* An image, and the first device that accepts it. */
typedef struct {
  void *bytes;
  size_t size;
  ol_device_handle_t device;
} image_t;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

/* Ends the program if a call of the API has failed. */
static void check(ol_result_t result) {
  if (result != OL_SUCCESS) fail("error", result->Details);
}

static image_t read_image(const char *path) {
  image_t image = {NULL, 0, NULL};
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail(path, "the file cannot be opened");
  for (size_t room = 4096; !feof(file); room *= 2) {
    image.bytes = realloc(image.bytes, room);
    if (image.bytes == NULL) fail(path, "the file is too large");
    image.size += fread((char *)image.bytes + image.size, 1, room - image.size, file);
    if (ferror(file)) fail(path, "the file cannot be read");
  }
  fclose(file);
  return image;
}

/* Chooses the device and ends the iteration, if the device accepts the image. */
static bool choose(ol_device_handle_t device, void *image_to_load) {
  image_t *image = image_to_load;
  bool is_valid = false;
  check(olIsValidBinary(device, image->bytes, image->size, &is_valid));
  if (is_valid) image->device = device;
  return !is_valid;
}

int main(int argc, char **argv) {
  if (argc != 2) fail("usage", "saxpy IMAGE");
  image_t image = read_image(argv[1]);
  check(olInit(NULL));
  check(olIterateDevices(choose, &image));
  if (image.device == NULL) fail(argv[1], "no device accepts it; `longshore devices` lists the devices");
  const ol_device_handle_t device = image.device;

  ol_program_handle_t program;
  ol_symbol_handle_t saxpy;
  ol_queue_handle_t queue;
  check(olCreateProgram(device, image.bytes, image.size, &program));
  free(image.bytes);
  check(olGetSymbol(program, "saxpy", OL_SYMBOL_KIND_KERNEL, &saxpy));
  check(olCreateQueue(device, &queue));

  /* Host and device both access managed memory. */
  void *x_memory, *y_memory;
  check(olMemAlloc(device, OL_ALLOC_TYPE_MANAGED, N * sizeof(float), &x_memory));
  check(olMemAlloc(device, OL_ALLOC_TYPE_MANAGED, N * sizeof(float), &y_memory));
  float *x = x_memory, *y = y_memory;
  for (int i = 0; i < N; i++) x[i] = 1, y[i] = 2;

  uint64_t n = N;
  float a = 2.5f;
  void *arguments[] = {&n, &a, &x, &y};
  const size_t sizes[] = {sizeof n, sizeof a, sizeof x, sizeof y};
  const ol_kernel_launch_size_args_t shape = {1, {N / ITEMS, 1, 1}, {ITEMS, 1, 1}, 0};
  check(olLaunchKernel(queue, device, saxpy, &shape, NULL, 4, arguments, sizes));
  check(olSyncQueue(queue));

  char name[256];
  check(olGetDeviceInfo(device, OL_DEVICE_INFO_NAME, sizeof name, name));
  for (int i = 0; i < N; i++) {
    if (y[i] != 4.5f) fail(name, "a value is wrong");
  }
  printf("%d values are right on %s\n", N, name);

  check(olMemFree(y));
  check(olMemFree(x));
  check(olDestroyQueue(queue));
  check(olDestroyProgram(program));
  check(olShutDown());
  return EXIT_SUCCESS;
}
