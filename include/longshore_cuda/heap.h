/*
 * longshore_cuda/heap.h: `malloc` and `free` in kernels, for GPUs whose driver has no heap.
 * Part of longshore_cuda.h.
 *
 * The heap is a variable of the image, which exists only in images that use it. The sizes of
 * blocks are powers of two, from 32 bytes. The first 16 bytes of a block are the heap's own, and
 * the rest is aligned to 16 bytes. Freed blocks of a size form a list. All threads of the device
 * take and give blocks without waiting for each other.
 */
#ifndef LONGSHORE_CUDA_HEAP_H
#define LONGSHORE_CUDA_HEAP_H
#pragma clang system_header

/* As large as the heap that CUDA makes. */
#ifndef LONGSHORE_HEAP_BYTES
#define LONGSHORE_HEAP_BYTES (8 << 20)
#endif

/* A member of a template exists only where it is used. */
template <unsigned long long Bytes> struct longshore_heap_ {
  static_assert(Bytes >= 64 && Bytes % 16 == 0 && Bytes <= 1ull << 35, "LONGSHORE_HEAP_BYTES: 64 to 2^35, in steps of 16");
  static constexpr unsigned int sizes = 32, taken = 0x4c530000;

  struct alignas(16) Block {
    /* `taken` and the number of the size; only the latter in a freed block. */
    unsigned int state;
    /* The next block of the list: its index and 1, or 0. */
    unsigned int next;
  };
  static __device__ Block memory[Bytes / 16];
  /* Number of elements of `memory` that have been part of a block. */
  static __device__ unsigned int used;
  /* For each size the first block of its list, as in `next`. The upper half counts changes. */
  static __device__ unsigned long long first[sizes];

  LONGSHORE_METHOD_ static bool swap(unsigned long long *p, unsigned long long *seen, unsigned long long value) {
    return longshore_atomic_compare_exchange_explicit(p, seen, value, LONGSHORE_ACQ_REL, LONGSHORE_SCOPE_DEVICE);
  }

  /* Returns the index of a block from a list, or `none`. */
  static constexpr unsigned int none = 0xffffffff;
  LONGSHORE_METHOD_ static unsigned int take_freed(unsigned int size) {
    unsigned long long head = longshore_atomic_load_explicit(&first[size], LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE);
    while ((unsigned int)head != 0) {
      const unsigned int index = (unsigned int)head - 1;
      /* If another thread takes the block meanwhile, the swap fails. */
      const unsigned int next = longshore_atomic_load(&memory[index].next);
      if (swap(&first[size], &head, ((head >> 32) + 1) << 32 | next)) return index;
    }
    return none;
  }

  /* Returns the index of a new block, or `none`. */
  LONGSHORE_METHOD_ static unsigned int take_new(unsigned int size) {
    const unsigned long long elements = 2ull << size;
    unsigned int begin = longshore_atomic_load(&used);
    while (begin + elements <= Bytes / 16)
      if (longshore_atomic_compare_exchange_explicit(&used, &begin, begin + (unsigned int)elements, LONGSHORE_RELAXED,
                                                     LONGSHORE_SCOPE_DEVICE))
        return begin;
    return none;
  }

  LONGSHORE_METHOD_ static void *take(size_t bytes) {
    if (bytes > Bytes - 16) return nullptr;
    const unsigned long long last = (unsigned long long)bytes + 15;
    unsigned int size = last < 32 ? 0 : 59 - (unsigned int)__builtin_clzll(last);
    unsigned int index = take_freed(size);
    if (index == none) index = take_new(size);
    /* A block that is too large is better than none. */
    while (index == none && ++size < sizes) index = take_freed(size);
    if (index == none) return nullptr;
    longshore_atomic_store(&memory[index].state, taken | size);
    return &memory[index + 1];
  }

  LONGSHORE_METHOD_ static void give(void *p) {
    LONGSHORE_HERE_
    if (!p) return;
    const unsigned int index = (unsigned int)((Block *)p - memory) - 1;
    const unsigned int state = index < Bytes / 16 ? longshore_atomic_load(&memory[index].state) : 0;
    const unsigned int size = state % sizes;
    /* A pointer that `take` has not returned, or that was freed before. */
    if (state != (taken | size)) longshore_trap();
    longshore_atomic_store(&memory[index].state, size);
    unsigned long long head = longshore_atomic_load(&first[size]);
    do longshore_atomic_store(&memory[index].next, (unsigned int)head);
    while (!swap(&first[size], &head, ((head >> 32) + 1) << 32 | (index + 1)));
  }
};
template <unsigned long long Bytes>
__device__ typename longshore_heap_<Bytes>::Block longshore_heap_<Bytes>::memory[Bytes / 16];
template <unsigned long long Bytes> __device__ unsigned int longshore_heap_<Bytes>::used;
template <unsigned long long Bytes> __device__ unsigned long long longshore_heap_<Bytes>::first[sizes];

LONGSHORE_CUDA_ void *longshore_image_heap_take_(size_t bytes) {
  return longshore_heap_<LONGSHORE_HEAP_BYTES>::take(bytes);
}
LONGSHORE_CUDA_ void longshore_image_heap_give_(void *p) {
  longshore_heap_<LONGSHORE_HEAP_BYTES>::give(p);
}

#endif
