/*
 * longshore_device.h: kernels in C or C++ with one meaning on CPUs, NVIDIA GPUs and AMD GPUs.
 *
 * The header needs clang 14 to 22, but no library and no vendor's headers. `longshore cc` compiles
 * a source for several targets at once. By hand, the commands are:
 *
 *     x86-64, AArch64   clang -O3 -fPIC -c k.c -o k.o
 *     nvptx64           clang --target=nvptx64-nvidia-cuda -march=sm_90 --cuda-feature=+ptx78
 *                             -nogpulib -ffreestanding -O3 -S k.c -o k.ptx
 *     amdgcn            clang --target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -ffreestanding
 *                             -O3 k.c -o k.co
 *
 * clang before 17 makes PTX from CUDA only, and clang before 16 makes code objects from HIP only:
 *
 *     nvptx64           clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc
 *                             -nocudalib -ffreestanding -O3 -S k.c -o k.ptx
 *     amdgcn            clang -x hip --cuda-device-only --offload-arch=gfx90a
 *                             --no-gpu-bundle-output -nogpuinc -nogpulib -ffreestanding
 *                             -O3 k.c -o k.co
 *
 * With these two commands the source is C++, and functions other than kernels must be
 * LONGSHORE_FUNCTION. With -ffp-contract=on, mathematical functions have the same bits as on CPUs.
 *
 * A kernel has one of two forms. The first form is the work of one work-item:
 *
 *     LONGSHORE_KERNEL(scale, (float factor, float *x, uint64_t n)) {
 *       uint64_t i = longshore_global_id(0);
 *       if (i < n) x[i] *= factor;
 *     }
 *
 * On a CPU a loop runs the items of a group, and the compiler vectorises it. With barriers or
 * sub-group operations, `longshore cc` divides the kernel into such loops. Other compilers do not,
 * and then each item gets a stack of its own (a fiber), which is correct but slow.
 *
 * The second form is the work of one work-group:
 *
 *     LONGSHORE_GROUP_KERNEL(reverse, (float *x), LONGSHORE_GROUP_SIZE(256, 1, 1)) {
 *       LONGSHORE_SHARED(float, tile, [256]);
 *       LONGSHORE_ITEMS { tile[longshore_item_id(0)] = x[longshore_global_id(0)]; }
 *       LONGSHORE_ITEMS { x[longshore_global_id(0)] = tile[255 - longshore_item_id(0)]; }
 *     }
 *
 * The group runs the code outside LONGSHORE_ITEMS, which must have the same result for all its
 * items. Each item runs the code inside LONGSHORE_ITEMS, which ends with a barrier. On a CPU
 * LONGSHORE_ITEMS is a loop; on a GPU it is only the barrier. Such kernels are as fast on a CPU as
 * loops can be.
 *
 * Inside a kernel, `longshore_self` stands for the item or the group. Functions that use this
 * header take it as a parameter:
 *
 *     LONGSHORE_FUNCTION float mine(LONGSHORE_SELF, const float *x) {
 *       return x[longshore_global_id(0)];
 *     }
 *     ... mine(longshore_self, x) ...
 *
 * The interface for kernels comes first. Kernels must not use definitions after "Details", nor any
 * name that ends in `_`.
 */
#ifndef LONGSHORE_DEVICE_H
#define LONGSHORE_DEVICE_H

#if !defined(__clang__)
#error "longshore_device.h needs clang, version 14 or later"
#endif
#pragma clang system_header

#include <stddef.h>
#include <stdint.h>

/* ---- Kernels and functions ------------------------------------------------------------------- */

/*
 * LONGSHORE_KERNEL(name, (parameters)) and LONGSHORE_GROUP_KERNEL(name, (parameters)) begin a
 * kernel. A kernel has at most 32 parameters; (void) means none. A third argument,
 * LONGSHORE_GROUP_SIZE(x, y, z), fixes the group size: the compiler then knows it, and a launch
 * must have groups of that size.
 *
 * A parameter is an integer, a floating-point number, a pointer, an enumeration, or
 * LONGSHORE_BY_VALUE(type, name) for a structure. Do not use `long double` or `wchar_t`: they
 * differ between targets.
 */
#define LONGSHORE_KERNEL(...) LONGSHORE_KERNEL_(__VA_ARGS__, )
#define LONGSHORE_GROUP_KERNEL(...) LONGSHORE_GROUP_KERNEL_(__VA_ARGS__, )
#define LONGSHORE_GROUP_SIZE(x, y, z) (x), (y), (z)
#define LONGSHORE_RESTRICT __restrict

/* A function that kernels call. Its first parameter is LONGSHORE_SELF if items call it, or
 * LONGSHORE_GROUP_SELF if a group calls it outside LONGSHORE_ITEMS. The caller passes
 * `longshore_self`. A function without this parameter is plain C. */
#define LONGSHORE_FUNCTION static inline LONGSHORE_ON_DEVICE_ LONGSHORE_UNUSED_
#define LONGSHORE_SELF struct longshore_self *longshore_self LONGSHORE_UNUSED_
#define LONGSHORE_GROUP_SELF const struct longshore_group *longshore_self LONGSHORE_UNUSED_

/* In a group kernel, the code that each item runs. `break` and `continue` end the item's part;
 * `return` and `goto` must not leave it. An item must only read variables declared outside. It
 * writes its own variables, LONGSHORE_SHARED, LONGSHORE_PRIVATE or global memory. Code outside
 * LONGSHORE_ITEMS must write only the group's variables. LONGSHORE_ITEMS_NOWAIT has no barrier:
 * the code after it must not use values that other items wrote in it. */
#define LONGSHORE_ITEMS LONGSHORE_ITEMS_
#define LONGSHORE_ITEMS_NOWAIT LONGSHORE_ITEMS_NOWAIT_
/*
 * LONGSHORE_ITEMS_NOWAIT for the items whose id in x is less than `count`, which may exceed the
 * number of items.
 *
 *     LONGSHORE_FIRST_ITEMS(n - begin) { y[begin + longshore_item_id(0)] = 0; }
 *
 * On a CPU `count` is the end of the loop. A condition inside the loop would be a mask, and on some
 * CPUs stores with masks are three times slower.
 */
#define LONGSHORE_FIRST_ITEMS(count) LONGSHORE_FIRST_ITEMS_(count)

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Ids and counts in dimension d = 0, 1 or 2: global ones are uint64_t, all others uint32_t. In a
 * group kernel, item ids and global ids need LONGSHORE_ITEMS; the rest is valid outside it too. */
#define longshore_item_id(d) longshore_item_id_(longshore_self, (d))
#define longshore_group_id(d) longshore_group_id_(longshore_self, (d))
#define longshore_group_items(d) longshore_group_items_(longshore_self, (d))
#define longshore_group_count(d) longshore_group_count_(longshore_self, (d))
#define longshore_global_id(d) ((uint64_t)longshore_group_id(d) * longshore_group_items(d) + longshore_item_id(d))
#define longshore_global_items(d) ((uint64_t)longshore_group_count(d) * longshore_group_items(d))
/* The item's index in its group (uint32_t), and the group's index in the launch (uint64_t).
 * Indices count x first, then y, then z. */
#define longshore_item_index()                                                                                        \
  ((longshore_item_id(2) * longshore_group_items(1) + longshore_item_id(1)) * longshore_group_items(0) +              \
   longshore_item_id(0))
#define longshore_group_index()                                                                                       \
  (((uint64_t)longshore_group_id(2) * longshore_group_count(1) + longshore_group_id(1)) *                             \
       longshore_group_count(0) +                                                                                     \
   longshore_group_id(0))

/* ---- Memory ---------------------------------------------------------------------------------- */

/* LONGSHORE_SHARED(float, tile, [16][17]); declares memory that the items of a group share. It
 * must stand in the kernel itself, outside loops and LONGSHORE_ITEMS. `tile` is the pointer to
 * which such an array decays. The initial contents are undefined. */
#define LONGSHORE_SHARED(type, name, dimensions) LONGSHORE_SHARED_(type, name, dimensions)

/* Shared memory whose size the launch gives: a void *, aligned to 16 bytes. */
#define longshore_dynamic_shared() longshore_dynamic_shared_(longshore_self)

/* LONGSHORE_PRIVATE(float, sum); in a group kernel, outside LONGSHORE_ITEMS, declares one
 * variable for each item. The variable keeps its value from one LONGSHORE_ITEMS to the next. An
 * item uses its own as longshore_private(sum). */
#define LONGSHORE_PRIVATE(type, name) LONGSHORE_PRIVATE_(type, name)
#define longshore_private(name) longshore_private_(name)
/* LONGSHORE_PRIVATE_ARRAY declares `count` variables for each item; an item uses its own as
 * longshore_private_of(sums, 0) and so on. On a CPU the variables of all items with the same
 * number are adjacent. */
#define LONGSHORE_PRIVATE_ARRAY(type, name, count) LONGSHORE_PRIVATE_ARRAY_(type, name, count)
#define longshore_private_of(name, number) longshore_private_of_(name, number)

/*
 * A prefix for a variable outside functions and namespaces. The host finds the variable by its
 * name, and the compiler assumes that its value changes between launches.
 *
 *     LONGSHORE_GLOBAL uint64_t hits;
 *     LONGSHORE_CONSTANT float weights[3] = {0.25f, 0.5f, 0.25f};
 *
 * Kernels must only read a LONGSHORE_CONSTANT. The compiler enforces this in C, but not in C++.
 */
#define LONGSHORE_GLOBAL LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_
#define LONGSHORE_CONSTANT LONGSHORE_CONSTANT_ LONGSHORE_EXPORT_

/* ---- Barriers -------------------------------------------------------------------------------- */

/* Waits for all items of the group; afterwards each item sees the earlier writes of all. Either
 * all items of the group must call it, or none: anything else ends the launch with an error on a
 * CPU, and is undefined on GPUs. It must not stand inside LONGSHORE_ITEMS. Outside, a group
 * needs it only after LONGSHORE_ITEMS_NOWAIT. */
#define longshore_barrier() LONGSHORE_STATEMENT_(LONGSHORE_NOTE_OF_BARRIER_, longshore_barrier_(longshore_self))

/* Waits for all items of the launch, which must be cooperative. It must not stand inside
 * LONGSHORE_ITEMS. On GPUs, two kernels of one program that call it must not run at the same
 * time. */
#define longshore_grid_barrier()                                                                                      \
  LONGSHORE_STATEMENT_(LONGSHORE_NOTE_GRID_BARRIER_, longshore_grid_barrier_(longshore_self))

/* ---- Sub-groups ------------------------------------------------------------------------------ */

/*
 * A sub-group is a set of items that exchange values without memory. It has 32 neighbouring items
 * on a CPU and on NVIDIA GPUs, and 32 or 64 on AMD GPUs. Inside LONGSHORE_ITEMS on a CPU it has one
 * item, because items in a loop have no neighbours. Kernels must read the width and be correct for
 * every width.
 *
 * A lane is an item's place in its sub-group. It is active until the item returns. All active lanes
 * of a sub-group must call an operation together. A value has at most 8 bytes.
 */
#define longshore_subgroup_width() longshore_width_(longshore_of_(longshore_self))
#define longshore_subgroup_lane() longshore_lane_(longshore_self)
#define longshore_subgroup_id() longshore_subgroup_id_(longshore_self)
#define longshore_subgroup_count() longshore_subgroup_count_(longshore_self)

/* The active lanes whose condition is true, as bits of a uint64_t; whether it is true for any
 * active lane; whether it is true for all active lanes. */
#define longshore_subgroup_ballot(condition) LONGSHORE_SUBGROUP_(longshore_ballot_(longshore_self, (condition) ? 1 : 0))
#define longshore_subgroup_any(condition) (longshore_subgroup_ballot(condition) != 0)
#define longshore_subgroup_all(condition) (longshore_subgroup_ballot(!(condition)) == 0)

/* The value of another lane, or the item's own value if that lane is not active. */
#define longshore_subgroup_shuffle(value, lane) LONGSHORE_SHUFFLE_(value, (uint32_t)(lane))
#define longshore_subgroup_broadcast(value, lane) LONGSHORE_SHUFFLE_(value, (uint32_t)(lane))
#define longshore_subgroup_shuffle_xor(value, mask) LONGSHORE_SHUFFLE_(value, longshore_subgroup_lane() ^ (uint32_t)(mask))
#define longshore_subgroup_shuffle_up(value, distance)                                                                \
  LONGSHORE_SHUFFLE_(value, longshore_subgroup_lane() - (uint32_t)(distance))
#define longshore_subgroup_shuffle_down(value, distance)                                                              \
  LONGSHORE_SHUFFLE_(value, longshore_subgroup_lane() + (uint32_t)(distance))

/*
 * Combinations of values: reduce_* takes all lanes, inclusive_* the lanes up to and including the
 * item's, exclusive_* the lanes before the item's. In the first lane, exclusive_* gives the
 * operation's identity: 0 for add, the type's greatest value for min, and so on.
 *
 * The operations add, min and max take 32-bit and 64-bit integers, float and double; and, or and
 * xor take integers. The order of floating-point additions differs between targets.
 */
#define longshore_subgroup_reduce_add(value) LONGSHORE_SUBGROUP_(longshore_scan_add_(longshore_self, (value), 0))
#define longshore_subgroup_reduce_min(value) LONGSHORE_SUBGROUP_(longshore_scan_min_(longshore_self, (value), 0))
#define longshore_subgroup_reduce_max(value) LONGSHORE_SUBGROUP_(longshore_scan_max_(longshore_self, (value), 0))
#define longshore_subgroup_reduce_and(value) LONGSHORE_SUBGROUP_(longshore_scan_and_(longshore_self, (value), 0))
#define longshore_subgroup_reduce_or(value) LONGSHORE_SUBGROUP_(longshore_scan_or_(longshore_self, (value), 0))
#define longshore_subgroup_reduce_xor(value) LONGSHORE_SUBGROUP_(longshore_scan_xor_(longshore_self, (value), 0))
#define longshore_subgroup_inclusive_add(value) LONGSHORE_SUBGROUP_(longshore_scan_add_(longshore_self, (value), 1))
#define longshore_subgroup_inclusive_min(value) LONGSHORE_SUBGROUP_(longshore_scan_min_(longshore_self, (value), 1))
#define longshore_subgroup_inclusive_max(value) LONGSHORE_SUBGROUP_(longshore_scan_max_(longshore_self, (value), 1))
#define longshore_subgroup_inclusive_and(value) LONGSHORE_SUBGROUP_(longshore_scan_and_(longshore_self, (value), 1))
#define longshore_subgroup_inclusive_or(value) LONGSHORE_SUBGROUP_(longshore_scan_or_(longshore_self, (value), 1))
#define longshore_subgroup_inclusive_xor(value) LONGSHORE_SUBGROUP_(longshore_scan_xor_(longshore_self, (value), 1))
#define longshore_subgroup_exclusive_add(value) LONGSHORE_SUBGROUP_(longshore_scan_add_(longshore_self, (value), 2))
#define longshore_subgroup_exclusive_min(value) LONGSHORE_SUBGROUP_(longshore_scan_min_(longshore_self, (value), 2))
#define longshore_subgroup_exclusive_max(value) LONGSHORE_SUBGROUP_(longshore_scan_max_(longshore_self, (value), 2))
#define longshore_subgroup_exclusive_and(value) LONGSHORE_SUBGROUP_(longshore_scan_and_(longshore_self, (value), 2))
#define longshore_subgroup_exclusive_or(value) LONGSHORE_SUBGROUP_(longshore_scan_or_(longshore_self, (value), 2))
#define longshore_subgroup_exclusive_xor(value) LONGSHORE_SUBGROUP_(longshore_scan_xor_(longshore_self, (value), 2))

/* ---- Atomics --------------------------------------------------------------------------------- */

/* Memory orders, as in C11. */
#define LONGSHORE_RELAXED __ATOMIC_RELAXED
#define LONGSHORE_ACQUIRE __ATOMIC_ACQUIRE
#define LONGSHORE_RELEASE __ATOMIC_RELEASE
#define LONGSHORE_ACQ_REL __ATOMIC_ACQ_REL
#define LONGSHORE_SEQ_CST __ATOMIC_SEQ_CST

/* Scopes: the items for which an operation is atomic and ordered. SYSTEM includes the host and
 * other devices. */
#define LONGSHORE_SCOPE_SYSTEM 0
#define LONGSHORE_SCOPE_DEVICE 1
#define LONGSHORE_SCOPE_GROUP 2
#define LONGSHORE_SCOPE_SUBGROUP 3
#define LONGSHORE_SCOPE_ITEM 4

/*
 * Operations on objects of 4 or 8 bytes. The functions load, store, exchange and compare_exchange
 * take integers, float, double and pointers. The functions add, sub, min and max take integers,
 * float and double; and, or and xor take integers.
 *
 * All except store and compare_exchange return the old value. compare_exchange returns whether *p
 * was equal to *expected. If not, it stores the old value in *expected; it does not fail
 * spuriously. Operations without _explicit have relaxed order and device scope.
 */
#define longshore_atomic_load(p) longshore_atomic_load_explicit(p, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_store(p, v) longshore_atomic_store_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_exchange(p, v)                                                                               \
  longshore_atomic_exchange_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_compare_exchange(p, expected, v)                                                             \
  longshore_atomic_compare_exchange_explicit(p, expected, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_add(p, v) longshore_atomic_add_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_sub(p, v) longshore_atomic_sub_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_min(p, v) longshore_atomic_min_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_max(p, v) longshore_atomic_max_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_and(p, v) longshore_atomic_and_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_or(p, v) longshore_atomic_or_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)
#define longshore_atomic_xor(p, v) longshore_atomic_xor_explicit(p, v, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE)

#define longshore_atomic_load_explicit(p, order, scope) LONGSHORE_ATOMIC_LOAD_(p, order, scope)
#define longshore_atomic_store_explicit(p, v, order, scope) LONGSHORE_ATOMIC_STORE_(p, v, order, scope)
#define longshore_atomic_exchange_explicit(p, v, order, scope) LONGSHORE_ATOMIC_EXCHANGE_(p, v, order, scope)
#define longshore_atomic_compare_exchange_explicit(p, expected, v, order, scope)                                      \
  LONGSHORE_ATOMIC_COMPARE_EXCHANGE_(p, expected, v, order, scope)
#define longshore_atomic_add_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(add, p, v, order, scope)
#define longshore_atomic_sub_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(sub, p, v, order, scope)
#define longshore_atomic_min_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(min, p, v, order, scope)
#define longshore_atomic_max_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(max, p, v, order, scope)
#define longshore_atomic_and_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(and, p, v, order, scope)
#define longshore_atomic_or_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(or, p, v, order, scope)
#define longshore_atomic_xor_explicit(p, v, order, scope) LONGSHORE_ATOMIC_FETCH_(xor, p, v, order, scope)

#define longshore_fence(order, scope) longshore_fence_((order), (scope))

/* ---- Messages and failures ------------------------------------------------------------------- */

/* Prints like C's printf, with at most 16 arguments, and returns nothing. On AMD GPUs an
 * argument of type char * is a text that ends with 0: a pointer to be printed must have the type
 * void *. */
#define longshore_printf(...) LONGSHORE_PRINTF_(__VA_ARGS__)

/* Ends the launch with an error, which names the condition, file and line, if the condition is
 * false. */
#define longshore_assert(condition)                                                                                   \
  ((condition) ? (void)0 : longshore_fail_(longshore_self, #condition, __FILE__, __LINE__))
/* Ends the launch with an error. */
#define longshore_trap() longshore_fail_(longshore_self, "longshore_trap", __FILE__, __LINE__)

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Functions for float and double, selected by the argument's type. sqrt, fma, floor, ceil and
 * abs are exact on all targets, and rsqrt is 1 / sqrt(x). On a CPU without instructions for fma,
 * floor or ceil, the compiler emits calls of the C library's functions. With clang before 18 it
 * also does so for sqrt of negative numbers, unless -fno-math-errno is given. longshore_math.h has
 * exp, log, sin and all other functions. */
#define longshore_sqrt(x) longshore_sqrt_(x)
#define longshore_rsqrt(x) longshore_rsqrt_(x)
#define longshore_fma(x, y, z) longshore_fma_((x), (y), (z))
#define longshore_floor(x) longshore_floor_(x)
#define longshore_ceil(x) longshore_ceil_(x)
/* These three take integers too. min and max of a NaN and a number return the number. */
#define longshore_min(x, y) longshore_min_((x), (y))
#define longshore_max(x, y) longshore_max_((x), (y))
#define longshore_abs(x) longshore_abs_(x)

/* ======== Details ============================================================================= */

/* `longshore cc` defines __LONGSHORE_SPIRV__, and makes SPIR-V of clang's bitcode. */
#if defined(__NVPTX__) || defined(__AMDGCN__) || defined(__LONGSHORE_SPIRV__)
#define LONGSHORE_GPU_CODE_
#endif

#ifdef __cplusplus
#define LONGSHORE_EXTERN_C_ extern "C"
#define LONGSHORE_BOOL_ bool
#else
#define LONGSHORE_EXTERN_C_ extern
#define LONGSHORE_BOOL_ _Bool
#endif
#define LONGSHORE_UNUSED_ __attribute__((unused))

#if defined(__AMDGCN__)
#define LONGSHORE_EXPORT_ __attribute__((used, visibility("protected")))
#else
#define LONGSHORE_EXPORT_ __attribute__((used, visibility("default")))
#endif

#if defined(__CUDA__) || defined(__HIP__)
#define LONGSHORE_ON_DEVICE_ __attribute__((device))
#define LONGSHORE_CONSTANT_ __attribute__((constant))
#elif defined(__cplusplus)
#define LONGSHORE_ON_DEVICE_
#define LONGSHORE_CONSTANT_ __attribute__((weak))
#else
#define LONGSHORE_ON_DEVICE_
/* The compiler does not fold a weak constant. */
#define LONGSHORE_CONSTANT_ const __attribute__((weak))
#endif

#define LONGSHORE_INLINE_ inline LONGSHORE_ON_DEVICE_ __attribute__((always_inline, unused))
#define LONGSHORE_OVERLOAD_ static LONGSHORE_INLINE_ __attribute__((overloadable))
#define LONGSHORE_OUTLINE_ static LONGSHORE_ON_DEVICE_ __attribute__((noinline, cold, unused))

/* The type of *p without qualifiers. */
#define LONGSHORE_VALUE_(p) __typeof__((__typeof__(*(p)))0)
/* m(type, tag, zero, greatest value, least value); tags tell types apart in names of symbols. */
#define LONGSHORE_FOR_INTEGERS_(m)                                                                                    \
  m(int, i32, 0, __INT_MAX__, -__INT_MAX__ - 1) m(long, i64, 0, __LONG_MAX__, -__LONG_MAX__ - 1)                      \
  m(long long, i64x, 0, __LONG_LONG_MAX__, -__LONG_LONG_MAX__ - 1)                                                    \
  m(unsigned, u32, 0, __INT_MAX__ * 2u + 1, 0) m(unsigned long, u64, 0, __LONG_MAX__ * 2ul + 1, 0)                    \
  m(unsigned long long, u64x, 0, __LONG_LONG_MAX__ * 2ull + 1, 0)
#define LONGSHORE_FOR_FLOATS_(m)                                                                                      \
  m(float, f32, 0, __builtin_inff(), -__builtin_inff()) m(double, f64, 0, __builtin_inf(), -__builtin_inf())

/* ---- Lists of parameters --------------------------------------------------------------------- */

#define LONGSHORE_GLUE_(a, b) a##b
#define LONGSHORE_GLUE(a, b) LONGSHORE_GLUE_(a, b)
#define LONGSHORE_FIRST_(first, ...) first
#define LONGSHORE_SECOND_(first, second, ...) second
#define LONGSHORE_REST_(first, ...) __VA_ARGS__
#define LONGSHORE_UNWRAP_(...) __VA_ARGS__

/* Expands to m(0, p0) m(1, p1) ... for up to 32 parameters. A macro for each number, because the
 * preprocessor scans arguments of nested macros again at each level. */
#define LONGSHORE_EACH_(m, ...) __VA_OPT__(LONGSHORE_EACH_0_(m, __VA_ARGS__, ))
#define LONGSHORE_EACH_0_(m, p, ...) m(0, p) __VA_OPT__(LONGSHORE_EACH_1_(m, __VA_ARGS__))
#define LONGSHORE_EACH_1_(m, p, ...) m(1, p) __VA_OPT__(LONGSHORE_EACH_2_(m, __VA_ARGS__))
#define LONGSHORE_EACH_2_(m, p, ...) m(2, p) __VA_OPT__(LONGSHORE_EACH_3_(m, __VA_ARGS__))
#define LONGSHORE_EACH_3_(m, p, ...) m(3, p) __VA_OPT__(LONGSHORE_EACH_4_(m, __VA_ARGS__))
#define LONGSHORE_EACH_4_(m, p, ...) m(4, p) __VA_OPT__(LONGSHORE_EACH_5_(m, __VA_ARGS__))
#define LONGSHORE_EACH_5_(m, p, ...) m(5, p) __VA_OPT__(LONGSHORE_EACH_6_(m, __VA_ARGS__))
#define LONGSHORE_EACH_6_(m, p, ...) m(6, p) __VA_OPT__(LONGSHORE_EACH_7_(m, __VA_ARGS__))
#define LONGSHORE_EACH_7_(m, p, ...) m(7, p) __VA_OPT__(LONGSHORE_EACH_8_(m, __VA_ARGS__))
#define LONGSHORE_EACH_8_(m, p, ...) m(8, p) __VA_OPT__(LONGSHORE_EACH_9_(m, __VA_ARGS__))
#define LONGSHORE_EACH_9_(m, p, ...) m(9, p) __VA_OPT__(LONGSHORE_EACH_10_(m, __VA_ARGS__))
#define LONGSHORE_EACH_10_(m, p, ...) m(10, p) __VA_OPT__(LONGSHORE_EACH_11_(m, __VA_ARGS__))
#define LONGSHORE_EACH_11_(m, p, ...) m(11, p) __VA_OPT__(LONGSHORE_EACH_12_(m, __VA_ARGS__))
#define LONGSHORE_EACH_12_(m, p, ...) m(12, p) __VA_OPT__(LONGSHORE_EACH_13_(m, __VA_ARGS__))
#define LONGSHORE_EACH_13_(m, p, ...) m(13, p) __VA_OPT__(LONGSHORE_EACH_14_(m, __VA_ARGS__))
#define LONGSHORE_EACH_14_(m, p, ...) m(14, p) __VA_OPT__(LONGSHORE_EACH_15_(m, __VA_ARGS__))
#define LONGSHORE_EACH_15_(m, p, ...) m(15, p) __VA_OPT__(LONGSHORE_EACH_16_(m, __VA_ARGS__))
#define LONGSHORE_EACH_16_(m, p, ...) m(16, p) __VA_OPT__(LONGSHORE_EACH_17_(m, __VA_ARGS__))
#define LONGSHORE_EACH_17_(m, p, ...) m(17, p) __VA_OPT__(LONGSHORE_EACH_18_(m, __VA_ARGS__))
#define LONGSHORE_EACH_18_(m, p, ...) m(18, p) __VA_OPT__(LONGSHORE_EACH_19_(m, __VA_ARGS__))
#define LONGSHORE_EACH_19_(m, p, ...) m(19, p) __VA_OPT__(LONGSHORE_EACH_20_(m, __VA_ARGS__))
#define LONGSHORE_EACH_20_(m, p, ...) m(20, p) __VA_OPT__(LONGSHORE_EACH_21_(m, __VA_ARGS__))
#define LONGSHORE_EACH_21_(m, p, ...) m(21, p) __VA_OPT__(LONGSHORE_EACH_22_(m, __VA_ARGS__))
#define LONGSHORE_EACH_22_(m, p, ...) m(22, p) __VA_OPT__(LONGSHORE_EACH_23_(m, __VA_ARGS__))
#define LONGSHORE_EACH_23_(m, p, ...) m(23, p) __VA_OPT__(LONGSHORE_EACH_24_(m, __VA_ARGS__))
#define LONGSHORE_EACH_24_(m, p, ...) m(24, p) __VA_OPT__(LONGSHORE_EACH_25_(m, __VA_ARGS__))
#define LONGSHORE_EACH_25_(m, p, ...) m(25, p) __VA_OPT__(LONGSHORE_EACH_26_(m, __VA_ARGS__))
#define LONGSHORE_EACH_26_(m, p, ...) m(26, p) __VA_OPT__(LONGSHORE_EACH_27_(m, __VA_ARGS__))
#define LONGSHORE_EACH_27_(m, p, ...) m(27, p) __VA_OPT__(LONGSHORE_EACH_28_(m, __VA_ARGS__))
#define LONGSHORE_EACH_28_(m, p, ...) m(28, p) __VA_OPT__(LONGSHORE_EACH_29_(m, __VA_ARGS__))
#define LONGSHORE_EACH_29_(m, p, ...) m(29, p) __VA_OPT__(LONGSHORE_EACH_30_(m, __VA_ARGS__))
#define LONGSHORE_EACH_30_(m, p, ...) m(30, p) __VA_OPT__(LONGSHORE_EACH_31_(m, __VA_ARGS__))
#define LONGSHORE_EACH_31_(m, p, ...) m(31, p) __VA_OPT__(LONGSHORE_kernels_have_at_most_32_parameters)

/* Expands to m(0, p0) ... for the parameters of a list in parentheses, and to nothing for
 * (void). */
#define LONGSHORE_PARAMETERS_(m, params) LONGSHORE_PARAMETERS2_(m, LONGSHORE_UNWRAP_ params)
#define LONGSHORE_PARAMETERS2_(m, ...) LONGSHORE_PARAMETERS3_(m, __VA_ARGS__)
#define LONGSHORE_PARAMETERS3_(m, ...)                                                                                \
  __VA_OPT__(LONGSHORE_GLUE(LONGSHORE_PARAMETERS_OF_, LONGSHORE_IS_VOID_(LONGSHORE_FIRST_(__VA_ARGS__, )))(m, __VA_ARGS__))
#define LONGSHORE_PARAMETERS_OF_0(m, ...) LONGSHORE_EACH_(m, __VA_ARGS__)
#define LONGSHORE_PARAMETERS_OF_1(m, ...)
#define LONGSHORE_IS_VOID_(p) LONGSHORE_IS_VOID2_(p)
#define LONGSHORE_IS_VOID2_(p) LONGSHORE_SECOND_OF_(LONGSHORE_VOID_PROBE_##p(), 0, ~)
#define LONGSHORE_VOID_PROBE_void() ~, 1
#define LONGSHORE_SECOND_OF_(...) LONGSHORE_SECOND_(__VA_ARGS__)
#define LONGSHORE_FIRST_OF_(...) LONGSHORE_FIRST_(__VA_ARGS__)

/* The parameters, after the additional first parameter `self`. */
#define LONGSHORE_WITH_SELF_(self, params) (self LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_PARAMETER_, params))
#define LONGSHORE_COMMA_PARAMETER_(i, p) , p
/* The parameters under the names longshore_argument_0 and so on, and these names alone. */
#define LONGSHORE_NAMED_(params) (LONGSHORE_NAMED2_(LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAMED_, params)))
#define LONGSHORE_NAMED2_(...) LONGSHORE_NAMED3_(__VA_ARGS__)
#define LONGSHORE_NAMED3_(...) LONGSHORE_GLUE(LONGSHORE_NAMED_OF_, __VA_OPT__(1))(__VA_ARGS__)
#define LONGSHORE_NAMED_OF_(...) void
#define LONGSHORE_NAMED_OF_1(...) LONGSHORE_REST_(__VA_ARGS__)
#define LONGSHORE_COMMA_NAMED_(i, p) , LONGSHORE_TYPE_(p) longshore_argument_##i
#define LONGSHORE_COMMA_NAME_(i, p) , longshore_argument_##i

/* The type and the kind of a parameter, whose name the preprocessor cannot separate in C. A
 * structure by value is LONGSHORE_BY_VALUE(type, name), and so is in C any type outside
 * LONGSHORE_PICK_. In C `register` marks it for the macros. A pointer's type is void *. Plain
 * char counts as signed, so that targets agree. */
#ifdef __cplusplus
#define LONGSHORE_BY_VALUE(type, name) type name
/* libstdc++ has structures with the names of some of clang's type traits, so the header avoids
 * such traits. `group` is `1` for integers, `2` for floating-point numbers, `3` for
 * enumerations, and `0` for other types, whose size is not computed. */
#define LONGSHORE_GROUP_OF_(T) (__is_integral(T) ? 1 : __is_floating_point(T) ? 2 : __is_enum(T) ? 3 : 0)
template <class T, int group> struct longshore_number_ {
  static const uint32_t kind = 5, target = 0;
};
template <class T> struct longshore_number_<T, 1> {
  static const uint32_t kind = __is_same(T, char) || (T)-1 < (T)0 ? 1 : 2;
  static const uint32_t target = kind << 8 | (uint32_t)sizeof(T) << 16;
};
template <class T> struct longshore_number_<T, 2> {
  static const uint32_t kind = 3, target = kind << 8 | (uint32_t)sizeof(T) << 16;
};
template <class T> struct longshore_number_<T, 3> {
  static const uint32_t kind = 2, target = kind << 8 | (uint32_t)sizeof(T) << 16;
};
/* The kind of a parameter; for a pointer to numbers, with the kind and size of the numbers. */
template <class P> struct longshore_target_ {
  static const uint32_t word = longshore_number_<P, LONGSHORE_GROUP_OF_(P)>::kind;
};
template <class T> struct longshore_target_<T *> {
  static const uint32_t word = 4 | longshore_number_<T, LONGSHORE_GROUP_OF_(T)>::target;
};
template <class T> struct longshore_target_<const T *> : longshore_target_<T *> {};
template <class T> struct longshore_target_<volatile T *> : longshore_target_<T *> {};
template <class T> struct longshore_target_<const volatile T *> : longshore_target_<T *> {};
template <class F> struct longshore_parameter_;
template <class P> struct longshore_parameter_<void (*)(P)> {
  typedef P type;
  static const uint32_t kind = longshore_target_<P>::word;
};
#define LONGSHORE_OF_PARAMETER_(p) longshore_parameter_<void (*)(p)>
#define LONGSHORE_TYPE_(p) LONGSHORE_OF_PARAMETER_(p)::type
#define LONGSHORE_KIND_(p) (LONGSHORE_OF_PARAMETER_(p)::kind)
#else
#define LONGSHORE_BY_VALUE(type, name) register __typeof__(type) name
#define LONGSHORE_IS_VALUE_(p) LONGSHORE_SECOND_OF_(LONGSHORE_REGISTER_PROBE_##p, 0, ~)
#define LONGSHORE_REGISTER_PROBE_register ~, 1,
#define LONGSHORE_VALUE_TYPE_(p) LONGSHORE_VALUE_TYPE2_(LONGSHORE_STRIP_##p)
#define LONGSHORE_STRIP_register
#define LONGSHORE_VALUE_TYPE2_(p) LONGSHORE_VALUE_TYPE3_(p)
#define LONGSHORE_VALUE_TYPE3_(p) LONGSHORE_FIRST_OF_(LONGSHORE_TAKE_##p, ~)
#define LONGSHORE_TAKE___typeof__(t) t,
#define LONGSHORE_TYPE_(p) LONGSHORE_GLUE(LONGSHORE_TYPE_OF_, LONGSHORE_IS_VALUE_(p))(p)
#define LONGSHORE_TYPE_OF_1(p) LONGSHORE_VALUE_TYPE_(p)
#define LONGSHORE_TYPE_OF_0(p)                                                                                        \
  __typeof__(LONGSHORE_PICK_(p, LONGSHORE_SAMPLE_, (longshore_other_types_need_LONGSHORE_BY_VALUE)0))
/* The type of every parameter that is not a number, thus of pointers. Other types cannot be
 * converted to it, and the compiler's error message shows this name. */
typedef void *longshore_other_types_need_LONGSHORE_BY_VALUE;
#define LONGSHORE_KIND_(p) LONGSHORE_GLUE(LONGSHORE_KIND_OF_, LONGSHORE_IS_VALUE_(p))(p)
#define LONGSHORE_KIND_OF_1(p) 5
#define LONGSHORE_KIND_OF_0(p) LONGSHORE_PICK_(p, LONGSHORE_KIND_OF_TYPE_, LONGSHORE_POINTER_KIND_(p))
#define LONGSHORE_SAMPLE_(type, kind) ((type)0)
#define LONGSHORE_KIND_OF_TYPE_(type, kind) (kind)
/* m(type, kind) for the parameter's type, or `other` for a pointer. */
#define LONGSHORE_PICK_(p, m, other)                                                                                  \
  __extension__ _Generic((void (*)(p))0, void (*)(_Bool): m(_Bool, 2), void (*)(char): m(char, 1),                    \
           void (*)(signed char): m(signed char, 1), void (*)(unsigned char): m(unsigned char, 2),                    \
           void (*)(short): m(short, 1), void (*)(unsigned short): m(unsigned short, 2), void (*)(int): m(int, 1),    \
           void (*)(unsigned): m(unsigned, 2), void (*)(long): m(long, 1),                                            \
           void (*)(unsigned long): m(unsigned long, 2), void (*)(long long): m(long long, 1),                        \
           void (*)(unsigned long long): m(unsigned long long, 2), void (*)(float): m(float, 3),                      \
           void (*)(double): m(double, 3) LONGSHORE_HALF_(m), default: other)
/* For targets with the type _Float16. Clang before 22 has it for AMD without __FLT16_MAX__. */
#if defined(__FLT16_MAX__) || defined(__AMDGCN__)
#define LONGSHORE_HALF_(m) , void (*)(_Float16): m(_Float16, 3)
#define LONGSHORE_TO_HALF_ , LONGSHORE_TO_(_Float16, 3)
#else
#define LONGSHORE_HALF_(m)
#define LONGSHORE_TO_HALF_
#endif
/* The kind of a pointer, with the kind and the bytes of its target if the target is a number. */
#define LONGSHORE_POINTER_KIND_(p)                                                                                    \
  __extension__ _Generic((void (*)(p))0, LONGSHORE_TO_(_Bool, 2), LONGSHORE_TO_(char, 1),                             \
           LONGSHORE_TO_(signed char, 1), LONGSHORE_TO_(unsigned char, 2), LONGSHORE_TO_(short, 1),                   \
           LONGSHORE_TO_(unsigned short, 2), LONGSHORE_TO_(int, 1), LONGSHORE_TO_(unsigned, 2),                       \
           LONGSHORE_TO_(long, 1), LONGSHORE_TO_(unsigned long, 2), LONGSHORE_TO_(long long, 1),                      \
           LONGSHORE_TO_(unsigned long long, 2), LONGSHORE_TO_(float, 3),                                             \
           LONGSHORE_TO_(double, 3) LONGSHORE_TO_HALF_, default: 4)
#define LONGSHORE_TO_(type, kind)                                                                                     \
  void (*)(type *): LONGSHORE_TO_KIND_(type, kind), void (*)(const type *): LONGSHORE_TO_KIND_(type, kind),           \
           void (*)(volatile type *): LONGSHORE_TO_KIND_(type, kind),                                                 \
           void (*)(const volatile type *): LONGSHORE_TO_KIND_(type, kind)
#define LONGSHORE_TO_KIND_(type, kind) (4 | (kind) << 8 | (uint32_t)sizeof(type) << 16)
#endif
#define LONGSHORE_BYTES_(p) ((uint32_t)sizeof(LONGSHORE_TYPE_(p)))

/* ---- Descriptions of kernels in an image ----------------------------------------------------- */

#define LONGSHORE_SIZE_(...) LONGSHORE_SIZE2_(__VA_ARGS__ __VA_OPT__(, ) 0, 0, 0, )
#define LONGSHORE_SIZE2_(x, y, z, ...) x, y, z
#define LONGSHORE_VOLUME_(x, y, z, ...) ((x) * (y) * (z))

/* Version, form, group size, number of arguments, bytes of text, flags; then size and kind of
 * each argument. For a pointer to numbers, bits 8 to 15 of the kind hold the kind of the
 * numbers, and bits 16 to 31 their size in bytes. */
#define LONGSHORE_DESCRIBE_(name, form, params, ...)                                                                  \
  __extension__ struct longshore_description_of_##name {                                                              \
    uint32_t head[8], arguments[0 LONGSHORE_PARAMETERS_(LONGSHORE_ONE_MORE_, params)][2];                             \
    char text[sizeof(#params)];                                                                                       \
  };                                                                                                                  \
  LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ const struct longshore_description_of_##name __longshore_kernel_##name;    \
  __extension__ LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_                                                                \
  const struct longshore_description_of_##name __longshore_kernel_##name = {                                          \
      {1, form, LONGSHORE_SIZE_(__VA_ARGS__), 0 LONGSHORE_PARAMETERS_(LONGSHORE_ONE_MORE_, params),                   \
       (uint32_t)sizeof(#params), 0},                                                                                 \
      {LONGSHORE_PARAMETERS_(LONGSHORE_DESCRIBE_ONE_, params)},                                                       \
      #params};
#define LONGSHORE_ONE_MORE_(i, p) +1
#define LONGSHORE_DESCRIBE_ONE_(i, p) {LONGSHORE_BYTES_(p), LONGSHORE_KIND_(p)},

/*
 * A note is a local constant of two words, kind and value. Its symbol names the function that
 * contains it: `__longshore_body_`, the kernel's name, and then
 *
 *     C, ELF     `.longshore_note`, and `.` and a number
 *                __longshore_body_scale.longshore_note.3
 *     C, PTX     `_$_longshore_note`, and a number
 *                __longshore_body_scale_$_longshore_note3
 *     C++, all   types, `E14longshore_note`, and `_` and a number
 *                _ZZL22__longshore_body_scaleP14longshore_selfE14longshore_note_3
 *
 * The number is present only if the function has several notes. In C++ the digits before
 * `__longshore_body_` are the length of this prefix and the name together. A note without
 * `__longshore_body_` is in another function of the program. It applies to all kernels, because
 * each may call that function.
 */
#define LONGSHORE_NOTE_(kind, value)                                                                                  \
  {                                                                                                                   \
    static const uint32_t longshore_note[2] __attribute__((used)) = {(kind), (value)};                                \
  }
#define LONGSHORE_NOTE_BARRIER_ 1
#define LONGSHORE_NOTE_SUBGROUP_ 2
#define LONGSHORE_NOTE_GRID_BARRIER_ 3
#define LONGSHORE_NOTE_SHARED_ 4
#define LONGSHORE_NOTE_DYNAMIC_SHARED_ 5
/* A barrier of a group kernel. On a CPU one thread runs the group, so the barrier waits for
 * nothing. */
#define LONGSHORE_NOTE_GROUP_BARRIER_ 6
#define LONGSHORE_NOTED_(kind, ...) __extension__({LONGSHORE_NOTE_(kind, 0) __VA_ARGS__; })
#define LONGSHORE_STATEMENT_(kind, ...) ((void)LONGSHORE_NOTED_(kind, __VA_ARGS__))

#define LONGSHORE_KERNEL_(name, params, ...) LONGSHORE_DEFINE_(name, 0, struct longshore_self, params, __VA_ARGS__)
#define LONGSHORE_GROUP_KERNEL_(name, params, ...)                                                                    \
  LONGSHORE_DEFINE_(name, 1, const struct longshore_group, params, __VA_ARGS__)
#define LONGSHORE_BODY_(name, type, params)                                                                           \
  static LONGSHORE_INLINE_ void __longshore_body_##name LONGSHORE_WITH_SELF_(type *longshore_self LONGSHORE_UNUSED_, params)

/* ---- On a CPU -------------------------------------------------------------------------------- */

#if !defined(LONGSHORE_GPU_CODE_)

struct longshore_work;

/* The functions of the runtime that kernels call. */
struct longshore_calls {
  void (*barrier)(struct longshore_work *);
  void (*grid_barrier)(struct longshore_work *);
  /* Returns the values of all lanes of the sub-group, and the active lanes in `present`. The
   * result is valid until the item has called `gather` twice more. */
  const uint64_t *(*gather)(struct longshore_work *, uint64_t value, uint64_t *present);
  void (*write)(struct longshore_work *, const char *text, uint64_t bytes);
  /* Ends the launch, because of the code before address `from`. Does not return. */
  void (*fail)(struct longshore_work *, const char *what, const char *file, uint32_t line, uint64_t from);
  /* A barrier for the items that have not returned. */
  void (*barrier_of_rest)(struct longshore_work *);
  /* `gather` among chosen lanes, which include the item's own. With 0, all lanes take part that
   * come here while the sub-group's other lanes wait elsewhere. The result is valid until the next
   * call. */
  const uint64_t *(*gather_of)(struct longshore_work *, uint64_t value, uint32_t lanes, uint64_t *present);
};

/* The part of a launch that one call of a kernel runs. */
struct longshore_work {
  /* The groups to run, numbered in x, then y, then z: `begin` to `end`, exclusive. */
  uint64_t begin, end;
  /* The shape of the launch. */
  uint32_t groups[3], items[3];
  /* If `traced`: the items to run, `first` to `last` (exclusive), and the last started item. */
  uint32_t first[3], last[3];
  uint32_t item[3];
  uint32_t traced;
  /* The last started group. */
  uint64_t group;
  /* Memory for LONGSHORE_SHARED in item kernels, and dynamic shared memory. */
  void *fixed, *dynamic;
  uint64_t fixed_bytes, dynamic_bytes;
  const struct longshore_calls *calls;
};

/* An item. In a group kernel, `item` is 0 outside LONGSHORE_ITEMS. */
struct longshore_self {
  uint32_t item[3], group[3], items[3], groups[3];
  /* Number of items in a sub-group: 1 in a group kernel. */
  uint32_t width;
  uint32_t fixed_used, traced;
  struct longshore_work *work;
};
/* A group, which runs the code outside LONGSHORE_ITEMS. */
struct longshore_group {
  struct longshore_self self;
  uint32_t is_group;
};

/*
 * Code for `longshore cc --check`, which defines LONGSHORE_CHECK: the runtime learns of the group's
 * variables, with their bounds, and of the places where items meet. There is a gap behind each
 * variable.
 */
#if defined(LONGSHORE_CHECK)
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ void *__longshore_check_shared(struct longshore_work *work, void *start,
                                                                        size_t bytes, const char *name);
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ void __longshore_check_begin_item(struct longshore_work *work);
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ uint32_t __longshore_check_begin_items(struct longshore_work *work);
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ uint32_t __longshore_check_end_items(struct longshore_work *work,
                                                                              uint32_t has_barrier);
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ void __longshore_check_group_barrier(struct longshore_work *work);
#define LONGSHORE_IS_CHECKED_ 1
#define LONGSHORE_GAP_ 64
#define LONGSHORE_CHECK_SHARED_(self, start, bytes, name)                                                             \
  __longshore_check_shared(longshore_of_(self)->work, (start), (bytes), name)
#define LONGSHORE_CHECK_PRIVATE_(name, count, stride)                                                                 \
  ;                                                                                                                   \
  void *const longshore_checked_##name LONGSHORE_UNUSED_ =                                                            \
      __longshore_check_shared(longshore_self->self.work, name, (size_t)(count) * (stride), #name)
#define LONGSHORE_BEGIN_ITEM_(work) __longshore_check_begin_item(work)
#define LONGSHORE_BEGIN_ITEMS_(group) (__longshore_check_begin_items((group)->self.work))
#define LONGSHORE_END_ITEMS_(group, has_barrier) ? 1 : __longshore_check_end_items((group)->self.work, (has_barrier))
#define LONGSHORE_CHECK_BARRIER_(group) __longshore_check_group_barrier((group)->self.work)
#else
#define LONGSHORE_IS_CHECKED_ 0
#define LONGSHORE_GAP_ 0
#define LONGSHORE_CHECK_SHARED_(self, start, bytes, name) (start)
#define LONGSHORE_CHECK_PRIVATE_(name, count, stride)
#define LONGSHORE_BEGIN_ITEM_(work) ((void)(work))
#define LONGSHORE_BEGIN_ITEMS_(group) 0
#define LONGSHORE_END_ITEMS_(group, has_barrier)
#define LONGSHORE_CHECK_BARRIER_(group) ((void)(group))
#endif

static LONGSHORE_INLINE_ struct longshore_self longshore_start_(struct longshore_work *work, uint32_t traced,
                                                                 uint32_t width, uint32_t x, uint32_t y, uint32_t z) {
  struct longshore_self self = {{0, 0, 0},
                                {0, 0, 0},
                                {x ? x : work->items[0], y ? y : work->items[1], z ? z : work->items[2]},
                                {work->groups[0], work->groups[1], work->groups[2]},
                                width,
                                0,
                                traced,
                                work};
  uint64_t rest = work->begin / self.groups[0];
  self.group[0] = (uint32_t)(work->begin % self.groups[0]);
  self.group[1] = (uint32_t)(rest % self.groups[1]);
  self.group[2] = (uint32_t)(rest / self.groups[1]);
  return self;
}

static LONGSHORE_INLINE_ void longshore_next_(struct longshore_self *self) {
  if (++self->group[0] != self->groups[0]) return;
  self->group[0] = 0;
  if (++self->group[1] != self->groups[1]) return;
  self->group[1] = 0;
  ++self->group[2];
}

static LONGSHORE_INLINE_ struct longshore_self longshore_item_(const struct longshore_self *group, uint32_t x,
                                                                uint32_t y, uint32_t z) {
  struct longshore_self self = *group;
  self.item[0] = x;
  self.item[1] = y;
  self.item[2] = z;
  if (self.traced) {
    ((volatile uint32_t *)self.work->item)[0] = x;
    ((volatile uint32_t *)self.work->item)[1] = y;
    ((volatile uint32_t *)self.work->item)[2] = z;
    LONGSHORE_BEGIN_ITEM_(self.work);
  }
  return self;
}

static LONGSHORE_INLINE_ struct longshore_self longshore_item_start_(const struct longshore_self *group, uint32_t x,
                                                                      uint32_t y, uint32_t z, uint32_t items_x,
                                                                      uint32_t items_y, uint32_t items_z) {
  return (struct longshore_self){{x, y, z},
                                 {group->group[0], group->group[1], group->group[2]},
                                 {items_x ? items_x : group->items[0], items_y ? items_y : group->items[1],
                                  items_z ? items_z : group->items[2]},
                                 {group->groups[0], group->groups[1], group->groups[2]},
                                 32,
                                 0,
                                 0,
                                 group->work};
}

/* Number of items in a sub-group of an item kernel. */
#define LONGSHORE_WIDTH_ 32u

/* Lets the optimizer see a use of a function that it cannot follow, so that the function keeps its
 * parameters and its result. */
#define LONGSHORE_KEEP_FUNCTION_(name) __asm__ volatile("" : : "r"(name))

/*
 * A function that all items of a group or sub-group call together. It stays a function, with this
 * symbol, so that `longshore cc` and the compiler of bitcode images find its calls. They replace
 * items that wait for each other by loops over the items. All other compilers call it.
 * Clang gives functions with `noduplicate` no `noinline`, but `optnone` implies it.
 */
#define LONGSHORE_TOGETHER_(result, name, symbol, parameters, ...)                                                    \
  static LONGSHORE_ON_DEVICE_ __attribute__((noinline, optnone, convergent, noduplicate, unused)) result name         \
      parameters __asm__(symbol);                                                                                     \
  static LONGSHORE_ON_DEVICE_ result name parameters {                                                                                     \
    LONGSHORE_KEEP_FUNCTION_(name);                                                                                   \
    __VA_ARGS__;                                                                                                      \
  }
/* The same for a function without side effects, which items call alone. */
#define LONGSHORE_APART_(result, name, symbol, parameters)                                                            \
  static LONGSHORE_ON_DEVICE_ __attribute__((noinline, const, unused)) result name parameters __asm__(symbol);        \
  static LONGSHORE_ON_DEVICE_ result name parameters

#define LONGSHORE_LOCAL_(i, p)                                                                                        \
  LONGSHORE_TYPE_(p) const longshore_argument_##i = *(LONGSHORE_TYPE_(p) const *)(arguments[i]);

/* The work of one item of a kernel of items, as a function of its own, which the version of the
 * kernel with recorded items calls. `longshore cc` makes loops from it. */
#define LONGSHORE_ITEM_1(name, params, ...)
#define LONGSHORE_ITEM_0(name, params, ...)                                                                           \
  static LONGSHORE_ON_DEVICE_ void longshore_item_of_##name(                                                          \
      void *const *arguments, const struct longshore_self *group, uint32_t x, uint32_t y,                             \
      uint32_t z) __asm__("__longshore_item_" #name);                                                                 \
  static LONGSHORE_ON_DEVICE_ __attribute__((noinline)) void longshore_item_of_##name(                                \
      void *const *arguments LONGSHORE_UNUSED_, const struct longshore_self *group, uint32_t x, uint32_t y,           \
      uint32_t z) {                                                                                                   \
    LONGSHORE_PARAMETERS_(LONGSHORE_LOCAL_, params)                                                                   \
    struct longshore_self item = longshore_item_start_(group, x, y, z, LONGSHORE_SIZE_(__VA_ARGS__));                 \
    __longshore_body_##name(&item LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAME_, params));                              \
  }

/* A kernel: its description, a fast version, and a version that records the current item. */
#define LONGSHORE_DEFINE_(name, form, type, params, ...)                                                              \
  LONGSHORE_DESCRIBE_(name, form, params, __VA_ARGS__)                                                                \
  LONGSHORE_BODY_(name, type, params);                                                                                \
  LONGSHORE_ITEM_##form(name, params, __VA_ARGS__)                                                                    \
  static LONGSHORE_INLINE_ void longshore_run_##name(void *const *arguments LONGSHORE_UNUSED_,                        \
                                                     struct longshore_work *work) {                                   \
    LONGSHORE_PARAMETERS_(LONGSHORE_LOCAL_, params)                                                                   \
    LONGSHORE_EACH_GROUP_(form, 0, __VA_ARGS__) {                                                                     \
      *(volatile uint64_t *)&work->group = group;                                                                     \
      LONGSHORE_RUN_##form(name, params)                                                                              \
    }                                                                                                                 \
  }                                                                                                                   \
  static LONGSHORE_ON_DEVICE_ __attribute__((noinline, cold)) void longshore_traced_##name(                           \
      void *const *arguments LONGSHORE_UNUSED_, struct longshore_work *work) {                                        \
    LONGSHORE_TRACED_LOCALS_##form(name, params)                                                                      \
    LONGSHORE_EACH_GROUP_(form, 1, __VA_ARGS__) {                                                                     \
      *(volatile uint64_t *)&work->group = group;                                                                     \
      LONGSHORE_TRACE_##form(name, params)                                                                            \
    }                                                                                                                 \
  }                                                                                                                   \
  LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ void name(void *const *arguments, struct longshore_work *work);            \
  LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_ void name(void *const *arguments, struct longshore_work *work) {             \
    if (LONGSHORE_IS_CHECKED_ || __builtin_expect(work->traced != 0, 0))                                              \
      longshore_traced_##name(arguments, work);                                                                       \
    else                                                                                                              \
      longshore_run_##name(arguments, work);                                                                          \
  }                                                                                                                   \
  LONGSHORE_BODY_(name, type, params)

#define LONGSHORE_EACH_GROUP_(form, traced, ...)                                                                      \
  const uint64_t end = work->end;                                                                                     \
  struct longshore_self self =                                                                                        \
      longshore_start_(work, traced, (form) ? 1 : LONGSHORE_WIDTH_, LONGSHORE_SIZE_(__VA_ARGS__));                    \
  for (uint64_t group = work->begin; group != end; ++group, longshore_next_(&self))

/* The vectoriser needs the loops over items: it cannot vectorise a loop that was unrolled
 * before. */
#define LONGSHORE_KEEP_LOOP_ _Pragma("clang loop unroll(disable)")
#define LONGSHORE_RUN_0(name, params)                                                                                 \
  for (uint32_t z = 0; z < self.items[2]; ++z)                                                                        \
    for (uint32_t y = 0; y < self.items[1]; ++y)                                                                      \
      LONGSHORE_KEEP_LOOP_                                                                                            \
      for (uint32_t x = 0; x < self.items[0]; ++x) {                                                                  \
        struct longshore_self item = longshore_item_(&self, x, y, z);                                                 \
        __longshore_body_##name(&item LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAME_, params));                          \
      }
#define LONGSHORE_RUN_1(name, params)                                                                                 \
  const struct longshore_group whole = {self, 1};                                                                     \
  __longshore_body_##name(&whole LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAME_, params));
/* The version with recorded items has the code of an item once, in its function. */
#define LONGSHORE_TRACED_LOCALS_0(name, params) LONGSHORE_KEEP_FUNCTION_(longshore_item_of_##name);
#define LONGSHORE_TRACED_LOCALS_1(name, params) LONGSHORE_PARAMETERS_(LONGSHORE_LOCAL_, params)
#define LONGSHORE_TRACE_0(name, params)                                                                               \
  for (uint32_t z = work->first[2]; z < work->last[2]; ++z)                                                           \
    for (uint32_t y = work->first[1]; y < work->last[1]; ++y)                                                         \
      for (uint32_t x = work->first[0]; x < work->last[0]; ++x) {                                                     \
        (void)longshore_item_(&self, x, y, z);                                                                        \
        longshore_item_of_##name(arguments, &self, x, y, z);                                                          \
      }
#define LONGSHORE_TRACE_1(name, params) LONGSHORE_RUN_1(name, params)

#define LONGSHORE_NOTE_OF_BARRIER_                                                                                    \
  (sizeof(*longshore_self) == sizeof(struct longshore_group) ? LONGSHORE_NOTE_GROUP_BARRIER_ : LONGSHORE_NOTE_BARRIER_)
static LONGSHORE_INLINE_ uint32_t longshore_at_most_(uint64_t count, uint32_t most) {
  return count < most ? (uint32_t)count : most;
}

#define LONGSHORE_ITEMS_                                                                                              \
  LONGSHORE_EACH_ITEM_(LONGSHORE_NOTED_(LONGSHORE_NOTE_GROUP_BARRIER_, 0u), longshore_self->self.items[0], 1)
#define LONGSHORE_ITEMS_NOWAIT_ LONGSHORE_EACH_ITEM_(0, longshore_self->self.items[0], 0)
#define LONGSHORE_FIRST_ITEMS_(count)                                                                                 \
  LONGSHORE_EACH_ITEM_(0, longshore_at_most_((count), longshore_self->self.items[0]), 0)
#define LONGSHORE_EACH_ITEM_(zero, count, has_barrier)                                                                \
  for (uint32_t longshore_end = (count), longshore_z = (zero) + LONGSHORE_BEGIN_ITEMS_(longshore_self);               \
       longshore_z < longshore_self->self.items[2] LONGSHORE_END_ITEMS_(longshore_self, has_barrier); ++longshore_z)  \
    for (uint32_t longshore_y = 0; longshore_y < longshore_self->self.items[1]; ++longshore_y)                        \
      LONGSHORE_KEEP_LOOP_                                                                                            \
      for (uint32_t longshore_x = 0; longshore_x < longshore_end; ++longshore_x)                                      \
        for (int longshore_once = 1; longshore_once; longshore_once = 0)                                              \
          for (struct longshore_self longshore_item =                                                                 \
                   longshore_item_(&longshore_self->self, longshore_x, longshore_y, longshore_z),                     \
                   *const longshore_self LONGSHORE_UNUSED_ = &longshore_item;                                         \
               longshore_once; longshore_once = 0)

LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_self *self) { return self; }
LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_group *group) {
  return &group->self;
}

static LONGSHORE_INLINE_ uint32_t longshore_item_id_(const struct longshore_self *self, int d) { return self->item[d]; }
#define longshore_group_id_(self, d) (longshore_of_(self)->group[d])
#define longshore_group_items_(self, d) (longshore_of_(self)->items[d])
#define longshore_group_count_(self, d) (longshore_of_(self)->groups[d])

LONGSHORE_OUTLINE_ void longshore_fail_at_(struct longshore_work *work, const char *what, const char *file,
                                           uint32_t line) {
  work->calls->fail(work, what, file, line, (uint64_t)__builtin_return_address(0));
  __builtin_unreachable();
}
#define longshore_fail_(self, what, file, line) longshore_fail_at_(longshore_of_(self)->work, (what), (file), (line))

/* The memory of a group's variable: `own` in a group kernel, else memory of the work that items
 * share. */
LONGSHORE_OVERLOAD_ void *longshore_shared_(const struct longshore_group *group, void *own, size_t bytes) {
  (void)group, (void)bytes;
  return own;
}
LONGSHORE_OVERLOAD_ void *longshore_shared_(struct longshore_self *self, void *own, size_t bytes) {
  (void)own;
  uint32_t at = self->fixed_used;
  self->fixed_used = at + (uint32_t)((bytes + 63) / 64 * 64) + LONGSHORE_GAP_;
  if (self->fixed_used > self->work->fixed_bytes)
    longshore_fail_at_(self->work, "LONGSHORE_SHARED: the group has less shared memory", __FILE__, __LINE__);
  return (char *)self->work->fixed + at;
}

#define LONGSHORE_SHARED_(type, name, dimensions)                                                                     \
  LONGSHORE_NOTE_(LONGSHORE_NOTE_SHARED_, sizeof(type dimensions))                                                    \
  char longshore_memory_of_##name[sizeof(*longshore_self) == sizeof(struct longshore_group)                           \
                                      ? sizeof(type dimensions) + LONGSHORE_GAP_                                      \
                                      : 1] __attribute__((aligned(64)));                                              \
  __typeof__(&(*(type(*) dimensions)0)[0]) const name = (__typeof__(&(*(type(*) dimensions)0)[0]))                    \
      LONGSHORE_CHECK_SHARED_(longshore_self,                                                                         \
                              longshore_shared_(longshore_self, longshore_memory_of_##name, sizeof(type dimensions)), \
                              sizeof(type dimensions), #name)

#define longshore_dynamic_shared_(self)                                                                               \
  LONGSHORE_NOTED_(LONGSHORE_NOTE_DYNAMIC_SHARED_, longshore_of_(self)->work->dynamic)

#define LONGSHORE_PRIVATE_(type, name)                                                                                \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wvla-extension\"")                            \
  type name[LONGSHORE_ALL_ITEMS_ + LONGSHORE_GAP_] __attribute__((aligned(64)))                                       \
  _Pragma("clang diagnostic pop") LONGSHORE_CHECK_PRIVATE_(name, LONGSHORE_ALL_ITEMS_, sizeof(*name))
#define LONGSHORE_ALL_ITEMS_                                                                                          \
  (longshore_self->self.items[0] * longshore_self->self.items[1] * longshore_self->self.items[2])
#define longshore_private_(name) (name[longshore_item_index()])
#define LONGSHORE_PRIVATE_ARRAY_(type, name, count)                                                                   \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wvla-extension\"")                            \
  type name[(count) + (LONGSHORE_IS_CHECKED_ ? 1 : 0)][LONGSHORE_ALL_ITEMS_] __attribute__((aligned(64)))             \
  _Pragma("clang diagnostic pop") LONGSHORE_CHECK_PRIVATE_(name, count, sizeof(*name))
#define longshore_private_of_(name, number) (name[number][longshore_item_index()])

/* One thread runs the items of LONGSHORE_ITEMS before the group's later code, so there is
 * nothing to wait for. */
LONGSHORE_OVERLOAD_ void longshore_barrier_(const struct longshore_group *group) { LONGSHORE_CHECK_BARRIER_(group); }
LONGSHORE_TOGETHER_(void, longshore_barrier_together_, "__longshore_barrier", (struct longshore_work * work),
                    work->calls->barrier(work))
LONGSHORE_TOGETHER_(void, longshore_grid_barrier_together_, "__longshore_grid_barrier_of_items",
                    (struct longshore_work * work), work->calls->grid_barrier(work))
LONGSHORE_OVERLOAD_ void longshore_barrier_(struct longshore_self *self) {
  if (self->width == 1) longshore_fail_at_(self->work, "longshore_barrier inside LONGSHORE_ITEMS", __FILE__, __LINE__);
  longshore_barrier_together_(self->work);
}
LONGSHORE_OVERLOAD_ void longshore_grid_barrier_(const struct longshore_group *group) {
  group->self.work->calls->grid_barrier(group->self.work);
}
LONGSHORE_OVERLOAD_ void longshore_grid_barrier_(struct longshore_self *self) {
  if (self->width == 1)
    longshore_fail_at_(self->work, "longshore_grid_barrier inside LONGSHORE_ITEMS", __FILE__, __LINE__);
  longshore_grid_barrier_together_(self->work);
}

/* One thread runs a group. Loads and stores remain atomic: plain ones say that items do not touch
 * the same element. */
#define LONGSHORE_ATOMIC_BY_ONE_THREAD_(scope) (!LONGSHORE_IS_CHECKED_ && (scope) >= LONGSHORE_SCOPE_GROUP)
#define LONGSHORE_ATOMIC_(name, order, scope, ...) __atomic_##name(__VA_ARGS__, (order))
#define LONGSHORE_ATOMIC_COMPARE_(order, scope, ...)                                                                  \
  __atomic_compare_exchange(__VA_ARGS__, 0, (order), LONGSHORE_FAILED_(order))
static LONGSHORE_INLINE_ void longshore_fence_(int order, int scope) {
  (void)scope;
  __atomic_thread_fence(order);
}

/* Gathered values. */
struct longshore_gathered_ {
  uint64_t present;
  const uint64_t *words;
};
static LONGSHORE_INLINE_ uint32_t longshore_width_(const struct longshore_self *self) { return self->width; }
static LONGSHORE_INLINE_ uint32_t longshore_lane_(struct longshore_self *longshore_self) {
  return longshore_item_index() % longshore_self->width;
}
LONGSHORE_APART_(uint32_t, longshore_subgroup_of_, "__longshore_subgroup_of", (uint32_t item_index)) {
  return item_index / LONGSHORE_WIDTH_;
}
static LONGSHORE_INLINE_ uint32_t longshore_subgroup_id_(struct longshore_self *longshore_self) {
  const uint32_t index = longshore_item_index();
  return longshore_self->width == 1 ? index : longshore_subgroup_of_(index);
}
static LONGSHORE_INLINE_ struct longshore_gathered_ longshore_gather_(struct longshore_work *work, uint64_t word) {
  struct longshore_gathered_ all;
  all.words = work->calls->gather(work, word, &all.present);
  return all;
}
static LONGSHORE_INLINE_ uint64_t longshore_take_(const struct longshore_gathered_ *all, uint32_t lane, size_t bytes) {
  (void)bytes;
  return all->words[lane];
}
static LONGSHORE_ON_DEVICE_ __attribute__((noinline, unused)) uint64_t
longshore_gather_ballot_(struct longshore_work *work, uint32_t condition) {
  const struct longshore_gathered_ all = longshore_gather_(work, condition);
  uint64_t holds = 0;
  for (uint32_t lane = 0; lane < LONGSHORE_WIDTH_; ++lane) holds |= (all.words[lane] & 1) << lane;
  return holds & all.present;
}
LONGSHORE_TOGETHER_(uint64_t, longshore_ballot_together_, "__longshore_ballot",
                    (struct longshore_work * work, uint32_t condition),
                    return longshore_gather_ballot_(work, condition))
static LONGSHORE_INLINE_ uint64_t longshore_ballot_(struct longshore_self *self, int condition) {
  if (self->width == 1) return (uint64_t)condition & 1;
  return longshore_ballot_together_(self->work, (uint32_t)condition);
}
/* For sources in CUDA and HIP: a barrier for the items that have not returned, and exchanges among
 * chosen lanes. */
LONGSHORE_TOGETHER_(void, longshore_barrier_of_rest_, "__longshore_barrier_of_rest", (struct longshore_work * work),
                    work->calls->barrier_of_rest(work))
static LONGSHORE_ON_DEVICE_ __attribute__((noinline, unused)) uint64_t
longshore_gather_ballot_of_(struct longshore_work *work, uint32_t condition, uint32_t lanes) {
  uint64_t present, holds = 0;
  const uint64_t *const words = work->calls->gather_of(work, condition, lanes, &present);
  for (uint32_t lane = 0; lane < LONGSHORE_WIDTH_; ++lane) holds |= (words[lane] & 1) << lane;
  return holds & present;
}
LONGSHORE_TOGETHER_(uint64_t, longshore_ballot_of_, "__longshore_ballot_of",
                    (struct longshore_work * work, uint32_t condition, uint32_t lanes),
                    return longshore_gather_ballot_of_(work, condition, lanes))
static LONGSHORE_ON_DEVICE_ __attribute__((noinline, unused)) uint64_t
longshore_gather_shuffle_of_(struct longshore_work *work, uint64_t word, uint32_t lane, uint32_t lanes) {
  uint64_t present;
  const uint64_t *const words = work->calls->gather_of(work, word, lanes, &present);
  return lane < LONGSHORE_WIDTH_ && (present >> lane & 1) ? words[lane] : word;
}
LONGSHORE_TOGETHER_(uint64_t, longshore_shuffle_of_, "__longshore_shuffle_of",
                    (struct longshore_work * work, uint64_t word, uint32_t lane, uint32_t lanes),
                    return longshore_gather_shuffle_of_(work, word, lane, lanes))

#define LONGSHORE_PRINTF_(...) longshore_print_(longshore_of_(longshore_self)->work, __VA_ARGS__)
LONGSHORE_OUTLINE_ __attribute__((format(printf, 2, 3))) void longshore_print_(struct longshore_work *work,
                                                                              const char *format, ...) {
  char text[512];
  __builtin_va_list arguments, again;
  __builtin_va_start(arguments, format);
  __builtin_va_copy(again, arguments);
  int bytes = __builtin_vsnprintf(text, sizeof(text), format, arguments);
  if (bytes >= (int)sizeof(text)) {
    char longer[(size_t)bytes + 1];
    __builtin_vsnprintf(longer, sizeof(longer), format, again);
    work->calls->write(work, longer, (uint64_t)bytes);
  } else if (bytes > 0) {
    work->calls->write(work, text, (uint64_t)bytes);
  }
  __builtin_va_end(again);
  __builtin_va_end(arguments);
}

#endif

/* ---- On a GPU -------------------------------------------------------------------------------- */

#if defined(LONGSHORE_GPU_CODE_)

/* Ids come from hardware registers; this structure holds the group size, which the compiler may
 * know. */
struct longshore_self {
  uint32_t items[3];
};
struct longshore_group {
  struct longshore_self self;
};

#if defined(__LONGSHORE_SPIRV__)
#define LONGSHORE_ENTRY_
#define LONGSHORE_LOCAL_MEMORY_ __attribute__((address_space(3), loader_uninitialized))
#elif defined(__CUDA__) || defined(__HIP__)
#define LONGSHORE_ENTRY_ __attribute__((global))
#define LONGSHORE_LOCAL_MEMORY_ __attribute__((shared))
#else
#if defined(__NVPTX__)
#define LONGSHORE_ENTRY_ __attribute__((nvptx_kernel))
#else
#define LONGSHORE_ENTRY_ __attribute__((amdgpu_kernel))
#endif
#define LONGSHORE_LOCAL_MEMORY_ __attribute__((address_space(3), loader_uninitialized))
#endif

/* The kernel's group size as an attribute, by which the compiler limits the registers of an
 * item. */
#if defined(__CUDA__)
#define LONGSHORE_LIMIT_(...) __VA_OPT__(__attribute__((launch_bounds(LONGSHORE_VOLUME2_(__VA_ARGS__)))))
#elif defined(__AMDGCN__) && (defined(__HIP__) || __clang_major__ >= 22)
#define LONGSHORE_LIMIT_(...)                                                                                         \
  __VA_OPT__(__attribute__((                                                                                          \
      amdgpu_flat_work_group_size(LONGSHORE_VOLUME2_(__VA_ARGS__), LONGSHORE_VOLUME2_(__VA_ARGS__)))))
#else
#define LONGSHORE_LIMIT_(...)
#endif
#define LONGSHORE_VOLUME2_(...) LONGSHORE_VOLUME_(__VA_ARGS__)

/* A kernel: its description, and an entry that calls the body. In C the entry cannot use the
 * parameters' names, so it has its own. The types are the same, except that every pointer is a
 * void *. */
#if defined(__LONGSHORE_SPIRV__)
/* The entry reads its arguments itself, so that no calling convention divides structures. */
#define LONGSHORE_DEFINE_(name, form, type, params, ...)                                                              \
  LONGSHORE_DESCRIBE_(name, form, params, __VA_ARGS__)                                                                \
  LONGSHORE_BODY_(name, type, params);                                                                                \
  LONGSHORE_EXTERN_C_ LONGSHORE_EXPORT_ void name(void);                                                              \
  LONGSHORE_EXPORT_ void name(void) {                                                                                 \
    LONGSHORE_PARAMETERS_(LONGSHORE_READ_, params)                                                                    \
    LONGSHORE_START_##form(LONGSHORE_SIZE_(__VA_ARGS__))                                                              \
    __longshore_body_##name(&self LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAME_, params));                              \
  }                                                                                                                   \
  LONGSHORE_BODY_(name, type, params)
#define LONGSHORE_READ_(i, p)                                                                                         \
  LONGSHORE_TYPE_(p) const longshore_argument_##i = *(LONGSHORE_TYPE_(p) const *)longshore_argument_(i);
#else
#define LONGSHORE_DEFINE_(name, form, type, params, ...)                                                              \
  LONGSHORE_DESCRIBE_(name, form, params, __VA_ARGS__)                                                                \
  LONGSHORE_BODY_(name, type, params);                                                                                \
  LONGSHORE_EXTERN_C_ LONGSHORE_ENTRY_ LONGSHORE_EXPORT_ LONGSHORE_LIMIT_(__VA_ARGS__)                                \
  void name LONGSHORE_NAMED_(params);                                                                                 \
  LONGSHORE_ENTRY_ LONGSHORE_EXPORT_ void name LONGSHORE_NAMED_(params) {                                             \
    LONGSHORE_START_##form(LONGSHORE_SIZE_(__VA_ARGS__))                                                              \
    __longshore_body_##name(&self LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_NAME_, params));                              \
  }                                                                                                                   \
  LONGSHORE_BODY_(name, type, params)
#endif
#define LONGSHORE_START_0(...) struct longshore_self self = longshore_start_(__VA_ARGS__);
#define LONGSHORE_START_1(...) const struct longshore_group self = {longshore_start_(__VA_ARGS__)};

#define LONGSHORE_NOTE_OF_BARRIER_ LONGSHORE_NOTE_BARRIER_
#define LONGSHORE_ITEMS_                                                                                              \
  for (int longshore_once = LONGSHORE_NOTED_(LONGSHORE_NOTE_GROUP_BARRIER_, 1); longshore_once;                             \
       longshore_once = 0, longshore_wait_for_group_())                                                               \
  LONGSHORE_ITEM_
#define LONGSHORE_ITEMS_NOWAIT_                                                                                       \
  for (int longshore_once = 1; longshore_once; longshore_once = 0) LONGSHORE_ITEM_
#define LONGSHORE_FIRST_ITEMS_(count)                                                                                 \
  for (int longshore_once = longshore_item_id_(&longshore_self->self, 0) < (count); longshore_once; longshore_once = 0)\
  LONGSHORE_ITEM_
#define LONGSHORE_ITEM_                                                                                               \
  for (struct longshore_self longshore_item = longshore_self->self, *longshore_self LONGSHORE_UNUSED_ = &longshore_item; \
       longshore_once; longshore_once = 0)

LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_self *self) { return self; }
LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_group *group) {
  return &group->self;
}
#define longshore_group_items_(self, d) (longshore_of_(self)->items[d])

#define LONGSHORE_SHARED_(type, name, dimensions)                                                                     \
  LONGSHORE_NOTE_(LONGSHORE_NOTE_SHARED_, sizeof(type dimensions))                                                    \
  static LONGSHORE_LOCAL_MEMORY_ __attribute__((aligned(16))) type longshore_memory_of_##name dimensions;             \
  __typeof__(&(*(type(*) dimensions)0)[0]) const name =                                                               \
      (__typeof__(&(*(type(*) dimensions)0)[0]))longshore_memory_of_##name

#if defined(__CUDA__) || defined(__HIP__)
LONGSHORE_EXTERN_C_ __attribute__((shared, aligned(16))) char longshore_dynamic_memory_[];
#else
extern __attribute__((address_space(3), aligned(16))) char longshore_dynamic_memory_[];
#endif
#define longshore_dynamic_shared_(self)                                                                               \
  ((void)(self), LONGSHORE_NOTED_(LONGSHORE_NOTE_DYNAMIC_SHARED_, (void *)(char *)longshore_dynamic_memory_))

#define LONGSHORE_PRIVATE_(type, name) type name[1]
#define longshore_private_(name) (name[0])
#define LONGSHORE_PRIVATE_ARRAY_(type, name, count) type name[count]
#define longshore_private_of_(name, number) (name[number])

/* The number of waiting groups, and the number of completed barriers. */
#if !defined(__LONGSHORE_SPIRV__)
LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_ __attribute__((weak)) uint32_t __longshore_grid_barrier[2];
#endif

struct longshore_gathered_ {
  uint64_t present, own;
};

/* An argument of longshore_printf; the format is the first one. The kinds are `1` for an integer
 * of 4 bytes, `2` for an integer of 8 bytes, `3` for a double, `4` for a pointer, `5` for a
 * text. */
struct longshore_word_ {
  uint64_t word;
  uint32_t kind;
};
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(int v) { return (struct longshore_word_){(uint32_t)v, 1}; }
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(unsigned v) { return (struct longshore_word_){v, 1}; }
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(long v) { return (struct longshore_word_){(uint64_t)v, 2}; }
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(unsigned long v) { return (struct longshore_word_){v, 2}; }
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(long long v) {
  return (struct longshore_word_){(uint64_t)v, 2};
}
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(unsigned long long v) {
  return (struct longshore_word_){v, 2};
}
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(double v) {
  struct longshore_word_ word = {0, 3};
  __builtin_memcpy(&word.word, &v, sizeof(v));
  return word;
}
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(const volatile void *v) {
  return (struct longshore_word_){(uint64_t)v, 4};
}
LONGSHORE_OVERLOAD_ struct longshore_word_ longshore_word_of_(const char *v) {
  return (struct longshore_word_){(uint64_t)v, 5};
}

/* sizeof does not run the call, but the compiler compares the arguments with the format. */
#define LONGSHORE_PRINTF_(...)                                                                                        \
  __extension__({                                                                                                     \
    const struct longshore_word_ longshore_words[] = {LONGSHORE_EACH_(LONGSHORE_WORD_, __VA_ARGS__)};                 \
    (void)sizeof(__builtin_printf(__VA_ARGS__));                                                                      \
    (void)sizeof(char[sizeof(longshore_words) <= 17 * sizeof(longshore_words[0]) ? 1 : -1]);                          \
    longshore_print_(longshore_words, sizeof(longshore_words) / sizeof(longshore_words[0]));                          \
  })
#define LONGSHORE_WORD_(i, p) longshore_word_of_(p),
#define longshore_fail_(self, what, file, line) ((void)(self), longshore_fail_at_((what), (file), (line)))

#endif

/* ---- On an NVIDIA GPU ------------------------------------------------------------------------ */

#if defined(__NVPTX__)

/* Functions of the compiler and the driver, by their assembler names: these are the same in all
 * versions. */
#define LONGSHORE_OUTSIDE_ LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_
LONGSHORE_OUTSIDE_ int longshore_shfl_(int mask, int value, int lane, int clamp) __asm__("llvm.nvvm.shfl.sync.idx.i32");
LONGSHORE_OUTSIDE_ int longshore_vote_(int mask, LONGSHORE_BOOL_ condition) __asm__("llvm.nvvm.vote.ballot.sync");
LONGSHORE_OUTSIDE_ int longshore_vprintf_(const char *format, const void *arguments) __asm__("vprintf");
LONGSHORE_OUTSIDE_ __attribute__((noreturn)) void longshore_assertfail_(const char *what, const char *file, uint32_t line,
                                                                       const char *function, size_t character_bytes)
    __asm__("__assertfail");

static LONGSHORE_INLINE_ struct longshore_self longshore_start_(uint32_t x, uint32_t y, uint32_t z) {
  return (struct longshore_self){{x ? x : (uint32_t)__nvvm_read_ptx_sreg_ntid_x(),
                                  y ? y : (uint32_t)__nvvm_read_ptx_sreg_ntid_y(),
                                  z ? z : (uint32_t)__nvvm_read_ptx_sreg_ntid_z()}};
}
static LONGSHORE_INLINE_ uint32_t longshore_item_id_(const struct longshore_self *self, int d) {
  (void)self;
  return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_tid_x()
                    : d == 1 ? __nvvm_read_ptx_sreg_tid_y()
                             : __nvvm_read_ptx_sreg_tid_z());
}
#define longshore_group_id_(self, d) ((void)(self), longshore_group_id_in_(d))
static LONGSHORE_INLINE_ uint32_t longshore_group_id_in_(int d) {
  return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_ctaid_x()
                    : d == 1 ? __nvvm_read_ptx_sreg_ctaid_y()
                             : __nvvm_read_ptx_sreg_ctaid_z());
}
#define longshore_group_count_(self, d) ((void)(self), longshore_group_count_in_(d))
static LONGSHORE_INLINE_ uint32_t longshore_group_count_in_(int d) {
  return (uint32_t)(d == 0   ? __nvvm_read_ptx_sreg_nctaid_x()
                    : d == 1 ? __nvvm_read_ptx_sreg_nctaid_y()
                             : __nvvm_read_ptx_sreg_nctaid_z());
}

static LONGSHORE_INLINE_ void longshore_wait_for_group_(void) { __syncthreads(); }

static LONGSHORE_INLINE_ void longshore_fence_(int order, int scope) {
  if (order == LONGSHORE_RELAXED || scope == LONGSHORE_SCOPE_ITEM) {
    __asm__ volatile("" ::: "memory");
  } else if (order == LONGSHORE_SEQ_CST) {
    if (scope == LONGSHORE_SCOPE_SYSTEM) __asm__ volatile("fence.sc.sys;" ::: "memory");
    else if (scope == LONGSHORE_SCOPE_DEVICE) __asm__ volatile("fence.sc.gpu;" ::: "memory");
    else __asm__ volatile("fence.sc.cta;" ::: "memory");
  } else {
    if (scope == LONGSHORE_SCOPE_SYSTEM) __asm__ volatile("fence.acq_rel.sys;" ::: "memory");
    else if (scope == LONGSHORE_SCOPE_DEVICE) __asm__ volatile("fence.acq_rel.gpu;" ::: "memory");
    else __asm__ volatile("fence.acq_rel.cta;" ::: "memory");
  }
}

/* The compiler's operations are used with relaxed order and device scope, because clang before
 * 20 ignores both. Fences add other orders, and the functions below add system scope. The
 * compiler's loads and stores have system scope in any case. */
#define LONGSHORE_ATOMIC_(name, order, scope, ...) __atomic_##name(__VA_ARGS__, __ATOMIC_RELAXED)
#define LONGSHORE_ATOMIC_EXCHANGED_(order, scope, p, v, old)                                                          \
  ((scope) == LONGSHORE_SCOPE_SYSTEM ? longshore_system_exchange_((volatile void *)(p), (v), (old), sizeof(*(v)))     \
                                     : __atomic_exchange(p, v, old, __ATOMIC_RELAXED))
#define LONGSHORE_ATOMIC_COMPARE_(order, scope, p, expected, v)                                                       \
  ((scope) == LONGSHORE_SCOPE_SYSTEM                                                                                  \
       ? longshore_system_compare_((volatile void *)(p), (expected), (v), sizeof(*(v)))                               \
       : __atomic_compare_exchange(p, expected, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
#define LONGSHORE_ATOMIC_BY_LOOP_(scope) ((scope) == LONGSHORE_SCOPE_SYSTEM)

static LONGSHORE_INLINE_ void longshore_before_(int order, int scope) {
  if (order == LONGSHORE_SEQ_CST) longshore_fence_(LONGSHORE_SEQ_CST, scope);
  if (order == LONGSHORE_RELEASE || order == LONGSHORE_ACQ_REL) longshore_fence_(LONGSHORE_ACQ_REL, scope);
}
static LONGSHORE_INLINE_ void longshore_after_(int order, int scope) {
  if (order != LONGSHORE_RELAXED && order != LONGSHORE_RELEASE) longshore_fence_(LONGSHORE_ACQ_REL, scope);
}

static LONGSHORE_INLINE_ void longshore_system_exchange_(volatile void *p, const void *v, void *old, size_t bytes) {
  if (bytes == 4)
    __asm__ volatile("atom.exch.sys.b32 %0, [%1], %2;"
                     : "=r"(*(uint32_t *)old)
                     : "l"(p), "r"(*(const uint32_t *)v)
                     : "memory");
  else
    __asm__ volatile("atom.exch.sys.b64 %0, [%1], %2;"
                     : "=l"(*(uint64_t *)old)
                     : "l"(p), "l"(*(const uint64_t *)v)
                     : "memory");
}
static LONGSHORE_INLINE_ LONGSHORE_BOOL_ longshore_system_compare_(volatile void *p, void *expected, const void *v,
                                                                   size_t bytes) {
  if (bytes == 4) {
    const uint32_t wanted = *(uint32_t *)expected;
    __asm__ volatile("atom.cas.sys.b32 %0, [%1], %2, %3;"
                     : "=r"(*(uint32_t *)expected)
                     : "l"(p), "r"(wanted), "r"(*(const uint32_t *)v)
                     : "memory");
    return *(uint32_t *)expected == wanted;
  }
  const uint64_t wanted = *(uint64_t *)expected;
  __asm__ volatile("atom.cas.sys.b64 %0, [%1], %2, %3;"
                   : "=l"(*(uint64_t *)expected)
                   : "l"(p), "l"(wanted), "l"(*(const uint64_t *)v)
                   : "memory");
  return *(uint64_t *)expected == wanted;
}

/* Sub-groups. As on a CPU, an operation waits for all active lanes. */
#define longshore_width_(self) ((void)(self), 32u)
#define longshore_lane_(self) ((void)(self), (uint32_t)__nvvm_read_ptx_sreg_laneid())
#define longshore_ballot_(self, condition) ((void)(self), longshore_ballot_in_(condition))
static LONGSHORE_INLINE_ uint64_t longshore_ballot_in_(int condition) {
  return (uint32_t)longshore_vote_(-1, condition != 0);
}
static LONGSHORE_INLINE_ uint64_t longshore_from_lane_(uint64_t word, uint32_t lane, size_t bytes) {
  uint32_t low = (uint32_t)longshore_shfl_(-1, (int)(uint32_t)word, (int)(lane & 31), 31);
  if (bytes <= 4) return low;
  return (uint64_t)(uint32_t)longshore_shfl_(-1, (int)(uint32_t)(word >> 32), (int)(lane & 31), 31) << 32 | low;
}

static LONGSHORE_INLINE_ void longshore_fail_at_(const char *what, const char *file, uint32_t line) {
  longshore_assertfail_(what, file, line, "", 1);
}

/* Lays the arguments out like members of a structure. */
LONGSHORE_OUTLINE_ void longshore_print_(const struct longshore_word_ *words, size_t count) {
  /* Kernels in CUDA and HIP print up to 32 values. */
  uint64_t arguments[32];
  size_t at = 0;
  for (size_t i = 1; i < count; ++i) {
    const size_t bytes = words[i].kind == 1 ? 4 : 8;
    at = (at + bytes - 1) / bytes * bytes;
    for (size_t part = 0; part < bytes; part += 4)
      __builtin_memcpy((char *)arguments + at + part, (const char *)&words[i].word + part, 4);
    at += bytes;
  }
  longshore_vprintf_((const char *)words[0].word, arguments);
}

#endif

/* ---- On an AMD GPU --------------------------------------------------------------------------- */

#if defined(__AMDGCN__)

static LONGSHORE_INLINE_ struct longshore_self longshore_start_(uint32_t x, uint32_t y, uint32_t z) {
  return (struct longshore_self){{x ? x : (uint32_t)__builtin_amdgcn_workgroup_size_x(),
                                  y ? y : (uint32_t)__builtin_amdgcn_workgroup_size_y(),
                                  z ? z : (uint32_t)__builtin_amdgcn_workgroup_size_z()}};
}
static LONGSHORE_INLINE_ uint32_t longshore_item_id_(const struct longshore_self *self, int d) {
  (void)self;
  return (uint32_t)(d == 0   ? __builtin_amdgcn_workitem_id_x()
                    : d == 1 ? __builtin_amdgcn_workitem_id_y()
                             : __builtin_amdgcn_workitem_id_z());
}
#define longshore_group_id_(self, d) ((void)(self), longshore_group_id_in_(d))
static LONGSHORE_INLINE_ uint32_t longshore_group_id_in_(int d) {
  return (uint32_t)(d == 0   ? __builtin_amdgcn_workgroup_id_x()
                    : d == 1 ? __builtin_amdgcn_workgroup_id_y()
                             : __builtin_amdgcn_workgroup_id_z());
}
#define longshore_group_count_(self, d) (longshore_grid_items_(d) / longshore_group_items_(self, d))
static LONGSHORE_INLINE_ uint32_t longshore_grid_items_(int d) {
  return (uint32_t)(d == 0   ? __builtin_amdgcn_grid_size_x()
                    : d == 1 ? __builtin_amdgcn_grid_size_y()
                             : __builtin_amdgcn_grid_size_z());
}

static LONGSHORE_INLINE_ void longshore_wait_for_group_(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* The builtin takes only constants. */
#define LONGSHORE_FENCE_AMONG_(order)                                                                                 \
  switch (scope) {                                                                                                    \
    case LONGSHORE_SCOPE_SYSTEM: __builtin_amdgcn_fence(order, ""); break;                                            \
    case LONGSHORE_SCOPE_DEVICE: __builtin_amdgcn_fence(order, "agent"); break;                                       \
    case LONGSHORE_SCOPE_GROUP: __builtin_amdgcn_fence(order, "workgroup"); break;                                    \
    case LONGSHORE_SCOPE_SUBGROUP: __builtin_amdgcn_fence(order, "wavefront"); break;                                 \
    default: __builtin_amdgcn_fence(order, "singlethread"); break;                                                    \
  }
static LONGSHORE_INLINE_ void longshore_fence_(int order, int scope) {
  switch (order) {
    case LONGSHORE_RELAXED: break;
    case LONGSHORE_ACQUIRE: LONGSHORE_FENCE_AMONG_(__ATOMIC_ACQUIRE) break;
    case LONGSHORE_RELEASE: LONGSHORE_FENCE_AMONG_(__ATOMIC_RELEASE) break;
    case LONGSHORE_ACQ_REL: LONGSHORE_FENCE_AMONG_(__ATOMIC_ACQ_REL) break;
    default: LONGSHORE_FENCE_AMONG_(__ATOMIC_SEQ_CST) break;
  }
}

/* An operation without a scope has system scope. */
#if __has_builtin(__scoped_atomic_fetch_add)
#define LONGSHORE_ATOMIC_(name, order, scope, ...) __scoped_atomic_##name(__VA_ARGS__, (order), (scope))
#define LONGSHORE_ATOMIC_COMPARE_(order, scope, ...)                                                                  \
  __scoped_atomic_compare_exchange(__VA_ARGS__, 0, (order), LONGSHORE_FAILED_(order), (scope))
#else
#define LONGSHORE_ATOMIC_(name, order, scope, ...) __atomic_##name(__VA_ARGS__, (order))
#define LONGSHORE_ATOMIC_COMPARE_(order, scope, ...)                                                                  \
  __atomic_compare_exchange(__VA_ARGS__, 0, (order), LONGSHORE_FAILED_(order))
#endif

#if __has_builtin(__builtin_amdgcn_wavefrontsize)
#define longshore_width_(self) ((void)(self), (uint32_t)__builtin_amdgcn_wavefrontsize())
#else
#define longshore_width_(self) ((void)(self), (uint32_t)__AMDGCN_WAVEFRONT_SIZE)
#endif
#define longshore_lane_(self) ((void)(self), longshore_lane_in_())
static LONGSHORE_INLINE_ uint32_t longshore_lane_in_(void) {
  const uint32_t low = __builtin_amdgcn_mbcnt_lo(~0u, 0);
  return longshore_width_(0) == 32 ? low : (uint32_t)__builtin_amdgcn_mbcnt_hi(~0u, low);
}
#define longshore_ballot_(self, condition) ((void)(self), longshore_ballot_in_(condition))
static LONGSHORE_INLINE_ uint64_t longshore_ballot_in_(int condition) {
#if __has_builtin(__builtin_amdgcn_ballot_w64)
  return __builtin_amdgcn_ballot_w64(condition != 0);
#elif __has_builtin(__builtin_amdgcn_ballot_w32)
  return (uint32_t)__builtin_amdgcn_ballot_w32(condition != 0);
#else
  /* The predicate `33` is "not equal". */
  return __builtin_amdgcn_uicmp((unsigned)condition, 0u, 33);
#endif
}
static LONGSHORE_INLINE_ uint64_t longshore_from_lane_(uint64_t word, uint32_t lane, size_t bytes) {
  const int at = (int)(lane * 4);
  const uint32_t low = (uint32_t)__builtin_amdgcn_ds_bpermute(at, (int)(uint32_t)word);
  if (bytes <= 4) return low;
  return (uint64_t)(uint32_t)__builtin_amdgcn_ds_bpermute(at, (int)(uint32_t)(word >> 32)) << 32 | low;
}

/*
 * The address of the ring for messages, which the backend allocates; 0 drops all messages.
 *
 *     u32 capacity    of the records, in bytes
 *     u32 used        claimed bytes; more than the capacity if records were dropped
 *     records         each a multiple of 8 bytes:
 *       u32 bytes       of the record; written last, 0 before
 *       u32 arguments   the format is the first
 *       arguments       u32 kind (struct longshore_word_),
 *                       u32 bytes of the text with its 0, or 0 without a text,
 *                       u64 value
 *       texts           of the arguments that have one, in their order
 *
 * The backend reads the ring when it synchronises, and then sets `used` and the records to 0.
 */
LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_ __attribute__((weak)) uint64_t __longshore_printf_buffer;

static LONGSHORE_ON_DEVICE_ LONGSHORE_UNUSED_ uint32_t longshore_text_bytes_(struct longshore_word_ word) {
  const char *const text = word.kind == 5 ? (const char *)word.word : 0;
  uint32_t bytes = 0;
  while (text && text[bytes++]) {}
  return bytes;
}

LONGSHORE_OUTLINE_ void longshore_print_(const struct longshore_word_ *words, size_t count) {
  uint32_t *const ring = (uint32_t *)__longshore_printf_buffer;
  /* `used` of a full ring must not grow further, because it would overflow in time. */
  if (!ring || LONGSHORE_ATOMIC_(load_n, __ATOMIC_RELAXED, LONGSHORE_SCOPE_SYSTEM, ring + 1) > ring[0]) return;
  uint32_t bytes = (uint32_t)(8 + 16 * count);
  for (size_t i = 0; i < count; ++i) bytes += longshore_text_bytes_(words[i]);
  bytes = (bytes + 7) / 8 * 8;
  const uint32_t at = LONGSHORE_ATOMIC_(fetch_add, __ATOMIC_RELAXED, LONGSHORE_SCOPE_SYSTEM, ring + 1, bytes);
  if (at > ring[0] || bytes > ring[0] - at) return;

  uint32_t *const record = ring + 2 + at / 4;
  char *text = (char *)record + 8 + 16 * count;
  record[1] = (uint32_t)count;
  for (size_t i = 0; i < count; ++i) {
    uint32_t *const argument = record + 2 + 4 * i;
    argument[0] = words[i].kind;
    argument[1] = longshore_text_bytes_(words[i]);
    *(uint64_t *)(argument + 2) = words[i].word;
    for (uint32_t byte = 0; byte < argument[1]; ++byte) *text++ = ((const char *)words[i].word)[byte];
  }
  LONGSHORE_ATOMIC_(store_n, __ATOMIC_RELEASE, LONGSHORE_SCOPE_SYSTEM, record, bytes);
}

LONGSHORE_OUTLINE_ void longshore_fail_at_(const char *what, const char *file, uint32_t line) {
  const struct longshore_word_ words[] = {longshore_word_of_("%s:%u: failed: %s\n"), longshore_word_of_(file),
                                          longshore_word_of_(line), longshore_word_of_(what)};
  longshore_print_(words, 4);
  __builtin_trap();
}

#endif

/* ---- SPIR-V ---------------------------------------------------------------------------------- */

#if defined(__LONGSHORE_SPIRV__)

/* Functions without definitions, which `longshore cc` replaces by instructions. */
#define LONGSHORE_SPIRV_(result, name, parameters)                                                                    \
  LONGSHORE_EXTERN_C_ __attribute__((nothrow)) result longshore_##name##_ parameters __asm__("__longshore_spirv_" #name);
#define LONGSHORE_SPIRV_ID_(name)                                                                                     \
  LONGSHORE_EXTERN_C_ __attribute__((nothrow, const)) uint32_t longshore_spirv_##name##_(int d) __asm__(              \
      "__longshore_spirv_" #name);
#define LONGSHORE_SPIRV_TOGETHER_(result, name, parameters)                                                           \
  LONGSHORE_EXTERN_C_ __attribute__((nothrow, convergent, noduplicate)) result longshore_spirv_##name##_ parameters   \
      __asm__("__longshore_spirv_" #name);
LONGSHORE_EXTERN_C_ __attribute__((nothrow, const)) const void *longshore_argument_(int index) __asm__(
    "__longshore_spirv_argument");
LONGSHORE_SPIRV_ID_(item_id)
LONGSHORE_SPIRV_ID_(group_id)
LONGSHORE_SPIRV_ID_(group_items)
LONGSHORE_SPIRV_ID_(group_count)
LONGSHORE_SPIRV_ID_(lane)
LONGSHORE_SPIRV_ID_(width)
LONGSHORE_SPIRV_ID_(subgroup_id)
LONGSHORE_SPIRV_ID_(subgroup_count)
LONGSHORE_SPIRV_TOGETHER_(void, barrier, (void))
LONGSHORE_SPIRV_TOGETHER_(void, grid_barrier, (void))
LONGSHORE_SPIRV_TOGETHER_(uint64_t, ballot, (uint32_t condition))
LONGSHORE_SPIRV_TOGETHER_(uint32_t, shuffle, (uint32_t word, uint32_t lane))
LONGSHORE_SPIRV_(void, print, (const struct longshore_word_ *words, size_t count))
LONGSHORE_SPIRV_(void, fail_at, (const char *what, const char *file, uint32_t line))

static LONGSHORE_INLINE_ struct longshore_self longshore_start_(uint32_t x, uint32_t y, uint32_t z) {
  return (struct longshore_self){{x ? x : longshore_spirv_group_items_(0), y ? y : longshore_spirv_group_items_(1),
                                  z ? z : longshore_spirv_group_items_(2)}};
}
static LONGSHORE_INLINE_ uint32_t longshore_item_id_(const struct longshore_self *self, int d) {
  (void)self;
  return longshore_spirv_item_id_(d);
}
#define longshore_group_id_(self, d) ((void)(self), longshore_spirv_group_id_(d))
#define longshore_group_count_(self, d) ((void)(self), longshore_spirv_group_count_(d))
static LONGSHORE_INLINE_ void longshore_wait_for_group_(void) { longshore_spirv_barrier_(); }
static LONGSHORE_INLINE_ void longshore_fence_(int order, int scope) {
  (void)scope;
  __atomic_thread_fence(order);
}

/* All operations have the scope of the device. */
#define LONGSHORE_ATOMIC_(name, order, scope, ...) __atomic_##name(__VA_ARGS__, (order))
#define LONGSHORE_ATOMIC_COMPARE_(order, scope, ...)                                                                  \
  __atomic_compare_exchange(__VA_ARGS__, 0, (order), LONGSHORE_FAILED_(order))

#define longshore_width_(self) ((void)(self), longshore_spirv_width_(0))
#define longshore_lane_(self) ((void)(self), longshore_spirv_lane_(0))
#define longshore_ballot_(self, condition) ((void)(self), longshore_spirv_ballot_((condition) != 0))
static LONGSHORE_INLINE_ uint64_t longshore_from_lane_(uint64_t word, uint32_t lane, size_t bytes) {
  uint32_t low = longshore_spirv_shuffle_((uint32_t)word, lane);
  if (bytes <= 4) return low;
  return (uint64_t)longshore_spirv_shuffle_((uint32_t)(word >> 32), lane) << 32 | low;
}

#endif

/* ---- Atomics --------------------------------------------------------------------------------- */

#ifndef LONGSHORE_ATOMIC_BY_LOOP_
#define LONGSHORE_ATOMIC_EXCHANGED_(order, scope, ...) LONGSHORE_ATOMIC_(exchange, order, scope, __VA_ARGS__)
#define LONGSHORE_ATOMIC_BY_LOOP_(scope) 0
#define longshore_before_(order, scope) ((void)0)
#define longshore_after_(order, scope) ((void)0)
#endif
#ifndef LONGSHORE_ATOMIC_BY_ONE_THREAD_
#define LONGSHORE_ATOMIC_BY_ONE_THREAD_(scope) 0
#endif
#define LONGSHORE_FAILED_(order)                                                                                      \
  ((order) == __ATOMIC_RELEASE ? __ATOMIC_RELAXED : (order) == __ATOMIC_ACQ_REL ? __ATOMIC_ACQUIRE : (order))

#define LONGSHORE_ATOMIC_LOAD_(p, order, scope)                                                                       \
  __extension__({                                                                                                     \
    LONGSHORE_VALUE_(p) longshore_loaded;                                                                             \
    longshore_before_(order, scope);                                                                                  \
    LONGSHORE_ATOMIC_(load, order, scope, p, &longshore_loaded);                                                      \
    longshore_after_(order, scope);                                                                                   \
    longshore_loaded;                                                                                                 \
  })
#define LONGSHORE_ATOMIC_STORE_(p, v, order, scope)                                                                   \
  __extension__({                                                                                                     \
    LONGSHORE_VALUE_(p) longshore_stored = (v);                                                                       \
    longshore_before_(order, scope);                                                                                  \
    LONGSHORE_ATOMIC_(store, order, scope, p, &longshore_stored);                                                     \
  })
#define LONGSHORE_ATOMIC_EXCHANGE_(p, v, order, scope)                                                                \
  __extension__({                                                                                                     \
    LONGSHORE_VALUE_(p) longshore_stored = (v), longshore_old;                                                        \
    longshore_before_(order, scope);                                                                                  \
    LONGSHORE_ATOMIC_EXCHANGED_(order, scope, p, &longshore_stored, &longshore_old);                                  \
    longshore_after_(order, scope);                                                                                   \
    longshore_old;                                                                                                    \
  })
#define LONGSHORE_ATOMIC_COMPARE_EXCHANGE_(p, expected, v, order, scope)                                              \
  __extension__({                                                                                                     \
    LONGSHORE_VALUE_(p) longshore_stored = (v);                                                                       \
    longshore_before_(order, scope);                                                                                  \
    const LONGSHORE_BOOL_ longshore_done = LONGSHORE_ATOMIC_COMPARE_(order, scope, p, expected, &longshore_stored);   \
    longshore_after_(order, scope);                                                                                   \
    longshore_done;                                                                                                   \
  })
#define LONGSHORE_ATOMIC_FETCH_(name, p, v, order, scope)                                                             \
  longshore_fetch_##name##_((p), (LONGSHORE_VALUE_(p))(v), (order), (scope))

#define LONGSHORE_FETCH_LOOP_(T, next)                                                                                \
  T old, new_value;                                                                                                   \
  __atomic_load(p, &old, __ATOMIC_RELAXED);                                                                           \
  do {                                                                                                                \
    new_value = (next);                                                                                               \
  } while (!LONGSHORE_ATOMIC_COMPARE_(order, scope, p, &old, &new_value));
#define LONGSHORE_FETCH_(T, name, next, ...)                                                                          \
  LONGSHORE_OVERLOAD_ T longshore_fetch_##name##_(volatile T *p, T v, int order, int scope) {                         \
    T result;                                                                                                         \
    (void)scope;                                                                                                      \
    longshore_before_(order, scope);                                                                                  \
    if (LONGSHORE_ATOMIC_BY_ONE_THREAD_(scope)) {                                                                     \
      T old, new_value;                                                                                               \
      __atomic_load(p, &old, __ATOMIC_RELAXED);                                                                       \
      new_value = (next);                                                                                             \
      __atomic_store(p, &new_value, __ATOMIC_RELAXED);                                                                \
      result = old;                                                                                                   \
    } else if (LONGSHORE_ATOMIC_BY_LOOP_(scope)) {                                                                    \
      LONGSHORE_FETCH_LOOP_(T, next)                                                                                  \
      result = old;                                                                                                   \
    } else {                                                                                                          \
      __VA_ARGS__                                                                                                     \
    }                                                                                                                 \
    longshore_after_(order, scope);                                                                                   \
    return result;                                                                                                    \
  }
#define LONGSHORE_FETCH_BUILTIN_(T, name, next, builtin, value)                                                       \
  LONGSHORE_FETCH_(T, name, next, result = LONGSHORE_ATOMIC_(builtin, order, scope, p, value);)
#define LONGSHORE_FETCH_BY_LOOP_(T, name, next) LONGSHORE_FETCH_(T, name, next, LONGSHORE_FETCH_LOOP_(T, next) result = old;)
#define LONGSHORE_FETCH_INTEGER_(T, tag, zero, top, bottom)                                                           \
  LONGSHORE_FETCH_BUILTIN_(T, add, (T)(old + v), fetch_add, v)                                                        \
  LONGSHORE_FETCH_BUILTIN_(T, sub, (T)(old - v), fetch_sub, v)                                                        \
  LONGSHORE_FETCH_BUILTIN_(T, min, v < old ? v : old, fetch_min, v)                                                   \
  LONGSHORE_FETCH_BUILTIN_(T, max, v > old ? v : old, fetch_max, v)                                                   \
  LONGSHORE_FETCH_BUILTIN_(T, and, old & v, fetch_and, v)                                                             \
  LONGSHORE_FETCH_BUILTIN_(T, or, old | v, fetch_or, v)                                                               \
  LONGSHORE_FETCH_BUILTIN_(T, xor, old ^ v, fetch_xor, v)
#define LONGSHORE_FETCH_FLOAT_(T, tag, zero, top, bottom)                                                             \
  LONGSHORE_FETCH_BUILTIN_(T, add, old + v, fetch_add, v)                                                             \
  LONGSHORE_FETCH_BUILTIN_(T, sub, old - v, fetch_add, -v)                                                            \
  LONGSHORE_FETCH_BY_LOOP_(T, min, v < old || old != old ? v : old)                                                   \
  LONGSHORE_FETCH_BY_LOOP_(T, max, v > old || old != old ? v : old)
LONGSHORE_FOR_INTEGERS_(LONGSHORE_FETCH_INTEGER_)
LONGSHORE_FOR_FLOATS_(LONGSHORE_FETCH_FLOAT_)

/* ---- On both GPUs ---------------------------------------------------------------------------- */

#if defined(LONGSHORE_GPU_CODE_)

LONGSHORE_OVERLOAD_ void longshore_barrier_(const struct longshore_group *group) {
  (void)group;
  longshore_wait_for_group_();
}
LONGSHORE_OVERLOAD_ void longshore_barrier_(struct longshore_self *self) {
  (void)self;
  longshore_wait_for_group_();
}

#if defined(__LONGSHORE_SPIRV__)
#define longshore_grid_barrier_(self) ((void)(self), longshore_spirv_grid_barrier_())
#else
#define longshore_grid_barrier_(self)                                                                                 \
  longshore_grid_barrier_of_(longshore_group_count_(self, 0) * longshore_group_count_(self, 1) *                      \
                             longshore_group_count_(self, 2))
/* The last group to arrive resets the count and releases the others. */
LONGSHORE_OUTLINE_ void longshore_grid_barrier_of_(uint32_t groups) {
  longshore_fence_(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_DEVICE);
  longshore_wait_for_group_();
  if (longshore_item_id_(0, 0) == 0 && longshore_item_id_(0, 1) == 0 && longshore_item_id_(0, 2) == 0) {
    uint32_t *const waiting = &__longshore_grid_barrier[0], *const passed = &__longshore_grid_barrier[1];
    const uint32_t before = longshore_atomic_load(passed);
    if (longshore_atomic_add_explicit(waiting, 1, LONGSHORE_ACQ_REL, LONGSHORE_SCOPE_DEVICE) == groups - 1) {
      longshore_atomic_store(waiting, 0);
      longshore_atomic_add_explicit(passed, 1, LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
    } else {
      while (longshore_atomic_load_explicit(passed, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE) == before) {}
    }
  }
  longshore_wait_for_group_();
  longshore_fence_(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_DEVICE);
}
#endif

#define longshore_gather_(self, word) longshore_gather_in_(word)
static LONGSHORE_INLINE_ struct longshore_gathered_ longshore_gather_in_(uint64_t word) {
  struct longshore_gathered_ all = {longshore_ballot_(0, 1), word};
  return all;
}
static LONGSHORE_INLINE_ uint64_t longshore_take_(const struct longshore_gathered_ *all, uint32_t lane, size_t bytes) {
  return longshore_from_lane_(all->own, lane, bytes);
}

#endif

/* ---- Sub-groups ------------------------------------------------------------------------------ */

#if defined(__LONGSHORE_SPIRV__)
/* Items of a device's sub-group need not have adjacent indices. */
#define longshore_subgroup_id_(self) ((void)(self), longshore_spirv_subgroup_id_(0))
#elif defined(LONGSHORE_GPU_CODE_)
#define longshore_subgroup_id_(longshore_self)                                                                        \
  (((longshore_item_id_(longshore_self, 2) * longshore_group_items_(longshore_self, 1) +                              \
     longshore_item_id_(longshore_self, 1)) * longshore_group_items_(longshore_self, 0) +                             \
    longshore_item_id_(longshore_self, 0)) / longshore_width_(longshore_of_(longshore_self)))
#endif
#define LONGSHORE_WHOLE_SUBGROUPS_(longshore_self)                                                                    \
  ((longshore_group_items(0) * longshore_group_items(1) * longshore_group_items(2) + longshore_subgroup_width() - 1) / \
   longshore_subgroup_width())
#if defined(__LONGSHORE_SPIRV__)
/* Some drivers do not count a last sub-group that is not full. */
static LONGSHORE_INLINE_ uint32_t longshore_subgroups_(uint32_t whole) {
  const uint32_t counted = longshore_spirv_subgroup_count_(0);
  return counted > whole ? counted : whole;
}
#define longshore_subgroup_count_(longshore_self) longshore_subgroups_(LONGSHORE_WHOLE_SUBGROUPS_(longshore_self))
#else
#define longshore_subgroup_count_(longshore_self) LONGSHORE_WHOLE_SUBGROUPS_(longshore_self)
#endif
#define LONGSHORE_SUBGROUP_(...) LONGSHORE_NOTED_(LONGSHORE_NOTE_SUBGROUP_, __VA_ARGS__)

/* The statement expression has the value's type without qualifiers. */
#define LONGSHORE_SHUFFLE_(value, lane)                                                                               \
  LONGSHORE_SUBGROUP_(__typeof__(__extension__({ (value); })) longshore_shuffled = (value);                           \
                      uint64_t longshore_word = 0;                                                                    \
                      (void)sizeof(char[sizeof(longshore_shuffled) <= 8 ? 1 : -1]);                                   \
                      __builtin_memcpy(&longshore_word, &longshore_shuffled, sizeof(longshore_shuffled));             \
                      longshore_word = longshore_shuffle_word_(longshore_self, longshore_word, (lane),                \
                                                               sizeof(longshore_shuffled));                           \
                      __builtin_memcpy(&longshore_shuffled, &longshore_word, sizeof(longshore_shuffled));             \
                      longshore_shuffled)

#if defined(LONGSHORE_GPU_CODE_)
static LONGSHORE_INLINE_ uint64_t longshore_shuffle_word_(struct longshore_self *self, uint64_t word, uint32_t lane,
                                                          size_t bytes) {
  const uint32_t width = longshore_width_(self);
  const struct longshore_gathered_ all = longshore_gather_(self, word);
  const uint64_t taken = longshore_take_(&all, lane % width, bytes);
  (void)self;
  return lane < width && (all.present >> lane & 1) ? taken : word;
}
#else
LONGSHORE_TOGETHER_(uint64_t, longshore_shuffle_together_, "__longshore_shuffle",
                    (struct longshore_work * work, uint64_t word, uint32_t lane),
                    const struct longshore_gathered_ all = longshore_gather_(work, word);
                    return lane < LONGSHORE_WIDTH_ && (all.present >> lane & 1) ? all.words[lane] : word)
static LONGSHORE_INLINE_ uint64_t longshore_shuffle_word_(struct longshore_self *self, uint64_t word, uint32_t lane,
                                                          size_t bytes) {
  (void)bytes;
  return self->width == 1 ? word : longshore_shuffle_together_(self->work, word, lane);
}
#endif

/* `mode` is `0` for all lanes, `1` for the lanes up to the item's, `2` for the lanes before it.
 * `next` combines `old`, the result of earlier lanes, with `v`. */
#define LONGSHORE_SCAN_BODY_(T, identity, next)                                                                       \
  T old = (identity), v = value;                                                                                      \
  LONGSHORE_SCAN_STEPS_(identity, next)                                                                               \
  for (uint64_t rest = all.present; rest; rest &= rest - 1) {                                                         \
    const uint32_t from = (uint32_t)__builtin_ctzll(rest);                                                            \
    longshore_of_word_(&v, longshore_take_(&all, from, sizeof(v)));                                                   \
    if (mode == 0 || from < lane || (mode == 1 && from == lane)) old = (next);                                        \
  }                                                                                                                   \
  return old;
#if defined(__LONGSHORE_SPIRV__)
#define LONGSHORE_SCAN_(T, tag, name, identity, next)                                                                 \
  LONGSHORE_SPIRV_TOGETHER_(T, scan_##name##_##tag, (T value, int mode))                                              \
  LONGSHORE_OVERLOAD_ T longshore_scan_##name##_(struct longshore_self *self, T value, int mode) {                    \
    (void)self;                                                                                                       \
    return longshore_spirv_scan_##name##_##tag##_(value, mode);                                                       \
  }
#elif defined(LONGSHORE_GPU_CODE_)
#define LONGSHORE_SCAN_(T, tag, name, identity, next)                                                                 \
  LONGSHORE_OVERLOAD_ T longshore_scan_##name##_(struct longshore_self *self, T value, int mode) {                    \
    const uint32_t width = longshore_width_(self), lane = longshore_lane_(self);                                      \
    const struct longshore_gathered_ all = longshore_gather_(self, longshore_to_word_(value));                        \
    (void)self;                                                                                                       \
    LONGSHORE_SCAN_BODY_(T, identity, next)                                                                           \
  }
#else
#define LONGSHORE_SCAN_(T, tag, name, identity, next)                                                                 \
  static LONGSHORE_ON_DEVICE_ __attribute__((noinline, unused)) T longshore_gather_##name##_##tag##_(                 \
      struct longshore_work *work, T value, uint32_t lane, int mode) {                                                \
    const struct longshore_gathered_ all = longshore_gather_(work, longshore_to_word_(value));                        \
    LONGSHORE_SCAN_BODY_(T, identity, next)                                                                           \
  }                                                                                                                   \
  LONGSHORE_TOGETHER_(T, longshore_scan_##name##_##tag##_, "__longshore_scan_" #name "_" #tag,                        \
                      (struct longshore_work * work, T value, uint32_t lane, int mode),                               \
                      return longshore_gather_##name##_##tag##_(work, value, lane, mode))                             \
  LONGSHORE_OVERLOAD_ T longshore_scan_##name##_(struct longshore_self *self, T value, int mode) {                    \
    if (self->width == 1) return mode == 2 ? (T)(identity) : value;                                                   \
    return longshore_scan_##name##_##tag##_(self->work, value, longshore_lane_(self), mode);                          \
  }
#endif

/* With all lanes active, a GPU takes log2(width) steps. A CPU reads gathered values at no cost. */
#if defined(LONGSHORE_GPU_CODE_)
#define LONGSHORE_SCAN_STEPS_(identity, next)                                                                         \
  if (all.present == ~(uint64_t)0 >> (64 - width)) {                                                                  \
    for (uint32_t step = 1; step < width; step *= 2) {                                                                \
      const uint32_t from = mode == 0 ? lane ^ step : lane - step;                                                    \
      longshore_of_word_(&old, longshore_from_lane_(longshore_to_word_(v), from, sizeof(v)));                         \
      if (mode == 0 || lane >= step) v = (next);                                                                      \
    }                                                                                                                 \
    if (mode != 2) return v;                                                                                          \
    longshore_of_word_(&old, longshore_from_lane_(longshore_to_word_(v), lane - 1, sizeof(v)));                       \
    return lane == 0 ? (identity) : old;                                                                              \
  }
#else
#define LONGSHORE_SCAN_STEPS_(identity, next)
#endif

#define LONGSHORE_SCANS_(T, tag, zero, top, bottom)                                                                   \
  LONGSHORE_OVERLOAD_ uint64_t longshore_to_word_(T v) {                                                              \
    uint64_t word = 0;                                                                                                \
    __builtin_memcpy(&word, &v, sizeof(v));                                                                           \
    return word;                                                                                                      \
  }                                                                                                                   \
  LONGSHORE_OVERLOAD_ void longshore_of_word_(T *v, uint64_t word) { __builtin_memcpy(v, &word, sizeof(*v)); }        \
  LONGSHORE_SCAN_(T, tag, add, zero, (T)(old + v))                                                                    \
  LONGSHORE_SCAN_(T, tag, min, top, v < old ? v : old)                                                                \
  LONGSHORE_SCAN_(T, tag, max, bottom, v > old ? v : old)
#define LONGSHORE_BIT_SCANS_(T, tag, zero, top, bottom)                                                               \
  LONGSHORE_SCAN_(T, tag, and, (T)~(T)0, old & v)                                                                     \
  LONGSHORE_SCAN_(T, tag, or, zero, old | v)                                                                          \
  LONGSHORE_SCAN_(T, tag, xor, zero, old ^ v)
LONGSHORE_FOR_INTEGERS_(LONGSHORE_SCANS_)
LONGSHORE_FOR_FLOATS_(LONGSHORE_SCANS_)
LONGSHORE_FOR_INTEGERS_(LONGSHORE_BIT_SCANS_)

/* ---- Numbers --------------------------------------------------------------------------------- */

#if __has_builtin(__builtin_elementwise_sqrt)
#define longshore_sqrt_(x) __builtin_elementwise_sqrt(x)
#else
LONGSHORE_OVERLOAD_ float longshore_sqrt_(float x) { return __builtin_sqrtf(x); }
LONGSHORE_OVERLOAD_ double longshore_sqrt_(double x) { return __builtin_sqrt(x); }
#endif
LONGSHORE_OVERLOAD_ float longshore_rsqrt_(float x) { return 1.0f / longshore_sqrt_(x); }
LONGSHORE_OVERLOAD_ double longshore_rsqrt_(double x) { return 1.0 / longshore_sqrt_(x); }

#define LONGSHORE_COMMON_(x, y) __typeof__((x) + (y))
#if __has_builtin(__builtin_elementwise_fma)
#define longshore_fma_(x, y, z)                                                                                       \
  __builtin_elementwise_fma((LONGSHORE_COMMON_(x, (y) + (z)))(x), (LONGSHORE_COMMON_(x, (y) + (z)))(y),               \
                            (LONGSHORE_COMMON_(x, (y) + (z)))(z))
#else
LONGSHORE_OVERLOAD_ float longshore_fma_(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
LONGSHORE_OVERLOAD_ double longshore_fma_(double x, double y, double z) { return __builtin_fma(x, y, z); }
#endif
#define longshore_floor_(x) __builtin_elementwise_floor(x)
#define longshore_ceil_(x) __builtin_elementwise_ceil(x)
#define longshore_abs_(x) __builtin_elementwise_abs(x)
#define longshore_min_(x, y) __builtin_elementwise_min((LONGSHORE_COMMON_(x, y))(x), (LONGSHORE_COMMON_(x, y))(y))
#define longshore_max_(x, y) __builtin_elementwise_max((LONGSHORE_COMMON_(x, y))(x), (LONGSHORE_COMMON_(x, y))(y))

#include "longshore_math.h"

#endif
