/*
 * longshore_device.h: kernels in C or C++ that mean the same on a CPU, an NVIDIA and an AMD GPU.
 *
 * Needs clang (14 to 22) and nothing else. `longshore cc` compiles for several targets at once; by hand:
 *
 *   x86-64, AArch64   clang -O3 -fPIC -c k.c -o k.o
 *   nvptx64           clang --target=nvptx64-nvidia-cuda -march=sm_90 -nogpulib -ffreestanding -O3 -S k.c -o k.ptx
 *   amdgcn            clang --target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -ffreestanding -O3 k.c -o k.co
 *
 * A kernel has one of two forms.
 *
 *   LONGSHORE_KERNEL(scale, (float factor, float *x, uint64_t n)) {
 *     uint64_t i = longshore_global_id(0);
 *     if (i < n) x[i] *= factor;
 *   }
 *
 * is what one work-item does. On a CPU the items of a group are a loop, which the compiler vectorises; with barriers
 * or sub-group operations, each item gets a stack of its own (a fiber), which is right and slow.
 *
 *   LONGSHORE_GROUP_KERNEL(reverse, (float *x), LONGSHORE_GROUP_SIZE(256, 1, 1)) {
 *     LONGSHORE_SHARED(float, tile, [256]);
 *     LONGSHORE_ITEMS { tile[longshore_item_id(0)] = x[longshore_global_id(0)]; }
 *     LONGSHORE_ITEMS { x[longshore_global_id(0)] = tile[255 - longshore_item_id(0)]; }
 *   }
 *
 * is what a work-group does. What is outside LONGSHORE_ITEMS is done by the group and must come out alike for all its
 * items; LONGSHORE_ITEMS is done by each item, and ends with a barrier. On a CPU it is a loop, on a GPU nothing but
 * the barrier. Such kernels are as fast on a CPU as loops can be.
 *
 * Inside a kernel, `longshore_self` stands for the item, or the group. Functions that ask for ids take it along:
 *
 *   LONGSHORE_FUNCTION float mine(LONGSHORE_SELF, const float *x) { return x[longshore_global_id(0)]; }
 *   ... mine(longshore_self, x) ...
 */
#ifndef LONGSHORE_DEVICE_H
#define LONGSHORE_DEVICE_H

#if !defined(__clang__)
#error "longshore_device.h needs clang, version 14 or later"
#endif
#pragma clang system_header

#include <stddef.h>
#include <stdint.h>

/* ---- Lists of parameters ------------------------------------------------------------------------------------- */

#define LONGSHORE_GLUE_(a, b) a##b
#define LONGSHORE_GLUE(a, b) LONGSHORE_GLUE_(a, b)
#define LONGSHORE_FIRST_(first, ...) first
#define LONGSHORE_SECOND_(first, second, ...) second
#define LONGSHORE_UNWRAP_(...) __VA_ARGS__

/* Calls m(0, p0) m(1, p1) ... for up to 32 parameters. */
#define LONGSHORE_EACH_(m, ...) __VA_OPT__(LONGSHORE_RESCAN_(LONGSHORE_EACH_STEP_(m, 0, __VA_ARGS__)))
#define LONGSHORE_EACH_STEP_(m, i, p, ...) \
  m(i, p) __VA_OPT__(LONGSHORE_EACH_AGAIN_ LONGSHORE_PARENS_(m, LONGSHORE_GLUE_(LONGSHORE_NEXT_, i), __VA_ARGS__))
#define LONGSHORE_EACH_AGAIN_() LONGSHORE_EACH_STEP_
#define LONGSHORE_PARENS_ ()
#define LONGSHORE_RESCAN_(...) LONGSHORE_RESCAN3_(LONGSHORE_RESCAN3_(LONGSHORE_RESCAN3_(__VA_ARGS__)))
#define LONGSHORE_RESCAN3_(...) LONGSHORE_RESCAN2_(LONGSHORE_RESCAN2_(LONGSHORE_RESCAN2_(__VA_ARGS__)))
#define LONGSHORE_RESCAN2_(...) LONGSHORE_RESCAN1_(LONGSHORE_RESCAN1_(LONGSHORE_RESCAN1_(__VA_ARGS__)))
#define LONGSHORE_RESCAN1_(...) __VA_ARGS__
#define LONGSHORE_NEXT_0 1
#define LONGSHORE_NEXT_1 2
#define LONGSHORE_NEXT_2 3
#define LONGSHORE_NEXT_3 4
#define LONGSHORE_NEXT_4 5
#define LONGSHORE_NEXT_5 6
#define LONGSHORE_NEXT_6 7
#define LONGSHORE_NEXT_7 8
#define LONGSHORE_NEXT_8 9
#define LONGSHORE_NEXT_9 10
#define LONGSHORE_NEXT_10 11
#define LONGSHORE_NEXT_11 12
#define LONGSHORE_NEXT_12 13
#define LONGSHORE_NEXT_13 14
#define LONGSHORE_NEXT_14 15
#define LONGSHORE_NEXT_15 16
#define LONGSHORE_NEXT_16 17
#define LONGSHORE_NEXT_17 18
#define LONGSHORE_NEXT_18 19
#define LONGSHORE_NEXT_19 20
#define LONGSHORE_NEXT_20 21
#define LONGSHORE_NEXT_21 22
#define LONGSHORE_NEXT_22 23
#define LONGSHORE_NEXT_23 24
#define LONGSHORE_NEXT_24 25
#define LONGSHORE_NEXT_25 26
#define LONGSHORE_NEXT_26 27
#define LONGSHORE_NEXT_27 28
#define LONGSHORE_NEXT_28 29
#define LONGSHORE_NEXT_29 30
#define LONGSHORE_NEXT_30 31
#define LONGSHORE_NEXT_31 32

/* Calls m(0, p0) ... for the parameters of a list in parentheses; (void) has none. */
#define LONGSHORE_PARAMETERS_(m, params) LONGSHORE_PARAMETERS2_(m, LONGSHORE_UNWRAP_ params)
#define LONGSHORE_PARAMETERS2_(m, ...) LONGSHORE_PARAMETERS3_(m, __VA_ARGS__)
#define LONGSHORE_PARAMETERS3_(m, ...) __VA_OPT__(LONGSHORE_PARAMETERS4_(m, __VA_ARGS__))
#define LONGSHORE_PARAMETERS4_(m, p, ...) \
  LONGSHORE_GLUE(LONGSHORE_PARAMETERS_OF_, LONGSHORE_IS_VOID_(p))(m, p __VA_OPT__(, ) __VA_ARGS__)
#define LONGSHORE_PARAMETERS_OF_0(m, ...) LONGSHORE_EACH_(m, __VA_ARGS__)
#define LONGSHORE_PARAMETERS_OF_1(m, ...)
#define LONGSHORE_IS_VOID_(p) LONGSHORE_SECOND_OF_(LONGSHORE_VOID_PROBE_##p(), 0, ~)
#define LONGSHORE_VOID_PROBE_void() ~, 1
#define LONGSHORE_SECOND_OF_(...) LONGSHORE_SECOND_(__VA_ARGS__)
#define LONGSHORE_FIRST_OF_(...) LONGSHORE_FIRST_(__VA_ARGS__)

/* The parameters behind another one. */
#define LONGSHORE_WITH_SELF_(self, params) (self LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_PARAMETER_, params))
#define LONGSHORE_COMMA_PARAMETER_(i, p) , p

/*
 * What is known of a parameter, of which C gives no name. A structure by value is LONGSHORE_BY_VALUE(type, name);
 * in C it is marked by `register`, so that it can be told apart.
 */
#ifdef __cplusplus
#define LONGSHORE_BY_VALUE(type, name) type name
template <class F> struct longshore_parameter_;
template <class P> struct longshore_parameter_<void (*)(P)> {
  typedef P type;
  static const uint32_t kind = __is_pointer(P)                       ? 4
                               : __is_floating_point(P)              ? 3
                               : __is_integral(P) || __is_enum(P)    ? (__is_signed(P) ? 1 : 2)
                                                                     : 5;
};
#define LONGSHORE_OF_PARAMETER_(p) longshore_parameter_<void (*)(p)>
#define LONGSHORE_BYTES_(p) ((uint32_t)sizeof(LONGSHORE_OF_PARAMETER_(p)::type))
#define LONGSHORE_KIND_(p) (LONGSHORE_OF_PARAMETER_(p)::kind)
#define LONGSHORE_LOAD_(p, from) (*(const LONGSHORE_OF_PARAMETER_(p)::type *)(from))
#define LONGSHORE_AUTO_ auto
#else
#define LONGSHORE_BY_VALUE(type, name) register __typeof__(type) name
#define LONGSHORE_IS_VALUE_(p) LONGSHORE_SECOND_OF_(LONGSHORE_REGISTER_PROBE_##p, 0, ~)
#define LONGSHORE_REGISTER_PROBE_register ~, 1,
#define LONGSHORE_VALUE_TYPE_(p) LONGSHORE_VALUE_TYPE2_(LONGSHORE_STRIP_##p)
#define LONGSHORE_STRIP_register
#define LONGSHORE_VALUE_TYPE2_(p) LONGSHORE_VALUE_TYPE3_(p)
#define LONGSHORE_VALUE_TYPE3_(p) LONGSHORE_FIRST_OF_(LONGSHORE_TAKE_##p, ~)
#define LONGSHORE_TAKE___typeof__(t) t,
#define LONGSHORE_BYTES_(p) LONGSHORE_GLUE(LONGSHORE_BYTES_OF_, LONGSHORE_IS_VALUE_(p))(p)
#define LONGSHORE_BYTES_OF_1(p) ((uint32_t)sizeof(LONGSHORE_VALUE_TYPE_(p)))
#define LONGSHORE_BYTES_OF_0(p) ((uint32_t)sizeof(LONGSHORE_PICK_(p, LONGSHORE_SAMPLE_, (void *)0)))
#define LONGSHORE_KIND_(p) LONGSHORE_GLUE(LONGSHORE_KIND_OF_, LONGSHORE_IS_VALUE_(p))(p)
#define LONGSHORE_KIND_OF_1(p) 5
#define LONGSHORE_KIND_OF_0(p) LONGSHORE_PICK_(p, LONGSHORE_KIND_OF_TYPE_, 4)
#define LONGSHORE_LOAD_(p, from) LONGSHORE_GLUE(LONGSHORE_LOAD_OF_, LONGSHORE_IS_VALUE_(p))(p, from)
#define LONGSHORE_LOAD_OF_1(p, from) (*(const LONGSHORE_VALUE_TYPE_(p) *)(from))
#define LONGSHORE_LOAD_OF_0(p, from) \
  (*(__typeof__(LONGSHORE_PICK_(p, LONGSHORE_SAMPLE_, (void *)0)) const *)(from))
#define LONGSHORE_SAMPLE_(type, kind) ((type)0)
#define LONGSHORE_KIND_OF_TYPE_(type, kind) (kind)
/* m(type, kind) of the parameter's type, `other` if that is a pointer. */
#define LONGSHORE_PICK_(p, m, other)                                                                              \
  _Generic((void (*)(p))0, void (*)(_Bool): m(_Bool, 2), void (*)(char): m(char, ((char)-1 < 0 ? 1 : 2)),         \
           void (*)(signed char): m(signed char, 1), void (*)(unsigned char): m(unsigned char, 2),                \
           void (*)(short): m(short, 1), void (*)(unsigned short): m(unsigned short, 2), void (*)(int): m(int, 1), \
           void (*)(unsigned): m(unsigned, 2), void (*)(long): m(long, 1),                                        \
           void (*)(unsigned long): m(unsigned long, 2), void (*)(long long): m(long long, 1),                    \
           void (*)(unsigned long long): m(unsigned long long, 2), void (*)(float): m(float, 3),                  \
           void (*)(double): m(double, 3), default: other)
#define LONGSHORE_AUTO_ __auto_type
#endif

/* ---- What an image says of its kernels ------------------------------------------------------------------------ */

#ifdef __cplusplus
#define LONGSHORE_EXTERN_C_ extern "C"
#else
#define LONGSHORE_EXTERN_C_ extern
#endif
#define LONGSHORE_UNUSED_ __attribute__((unused))
#define LONGSHORE_INLINE_ inline __attribute__((always_inline, unused))

#if defined(__AMDGCN__)
#define LONGSHORE_EXPORT_ __attribute__((used, visibility("protected")))
#else
#define LONGSHORE_EXPORT_ __attribute__((used, visibility("default")))
#endif
#if defined(__CUDA__) || defined(__HIP__)
#define LONGSHORE_ON_DEVICE_ __attribute__((device))
#else
#define LONGSHORE_ON_DEVICE_
#endif

#define LONGSHORE_GROUP_SIZE(x, y, z) (x), (y), (z)
#define LONGSHORE_SIZE_X_(...) LONGSHORE_FIRST_OF_(__VA_ARGS__ __VA_OPT__(, ) 0)
#define LONGSHORE_SIZE_(...) LONGSHORE_SIZE2_(__VA_ARGS__ __VA_OPT__(, ) 0, 0, 0)
#define LONGSHORE_SIZE2_(x, y, z, ...) x, y, z

/* Version, form, group size, number of arguments, bytes of text, flags; then size and kind of each argument. */
#define LONGSHORE_DESCRIBE_(name, form, params, ...)                                                              \
  struct longshore_description_of_##name {                                                                        \
    uint32_t head[8], arguments[0 LONGSHORE_PARAMETERS_(LONGSHORE_ONE_MORE_, params)][2];                         \
    char text[sizeof(#params)];                                                                                   \
  };                                                                                                              \
  LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ const struct longshore_description_of_##name __longshore_kernel_##name; \
  LONGSHORE_ON_DEVICE_ LONGSHORE_EXPORT_ const struct longshore_description_of_##name __longshore_kernel_##name = { \
      {1, form, LONGSHORE_SIZE_(__VA_ARGS__), 0 LONGSHORE_PARAMETERS_(LONGSHORE_ONE_MORE_, params),               \
       (uint32_t)sizeof(#params), 0},                                                                             \
      {LONGSHORE_PARAMETERS_(LONGSHORE_DESCRIBE_ONE_, params)},                                                   \
      #params};
#define LONGSHORE_ONE_MORE_(i, p) +1
#define LONGSHORE_DESCRIBE_ONE_(i, p) {LONGSHORE_BYTES_(p), LONGSHORE_KIND_(p)},

/* A note: a constant whose name says which function it belongs to. */
#define LONGSHORE_NOTE_(kind, value)                                                                              \
  {                                                                                                               \
    static const uint32_t longshore_note[2] __attribute__((used)) = {(kind), (value)};                           \
  }
#define LONGSHORE_NOTE_BARRIER_ 1
#define LONGSHORE_NOTE_SUBGROUP_ 2
#define LONGSHORE_NOTE_GRID_BARRIER_ 3
#define LONGSHORE_NOTE_SHARED_ 4
#define LONGSHORE_NOTE_DYNAMIC_SHARED_ 5

/* ---- On a CPU ------------------------------------------------------------------------------------------------- */

#if !defined(__NVPTX__) && !defined(__AMDGCN__)

struct longshore_work;

/* What kernels ask of the runtime. */
struct longshore_calls {
  void (*barrier)(struct longshore_work *);
  void (*grid_barrier)(struct longshore_work *);
  /* Gives the values of all items of the sub-group, and which are there. */
  const uint64_t *(*gather)(struct longshore_work *, uint64_t value, uint64_t *present);
  void (*write)(struct longshore_work *, const char *text, uint64_t bytes);
  /* Ends the launch. Does not return. */
  void (*fail)(struct longshore_work *, const char *what, const char *file, uint32_t line);
};

/* What a kernel is called with, beside its arguments. */
struct longshore_work {
  /* The groups to be run, numbered in x, then y, then z. */
  uint64_t begin, end;
  /* The shape of the launch. */
  uint32_t groups[3], items[3];
  /* If `traced`: the items to be run, and the last one that was begun. */
  uint32_t first[3], last[3];
  uint32_t item[3];
  uint32_t traced;
  /* The last group that was begun. */
  uint64_t group;
  /* Shared memory: that of LONGSHORE_SHARED in kernels of items, and the dynamic one. */
  void *fixed, *dynamic;
  uint64_t fixed_bytes, dynamic_bytes;
  const struct longshore_calls *calls;
};

/* An item; of a group that runs LONGSHORE_ITEMS, `item` is 0 outside of it. */
struct longshore_self {
  uint32_t item[3], group[3], items[3], groups[3];
  uint32_t fixed_used, traced;
  struct longshore_work *work;
};
/* A group that runs what is outside of LONGSHORE_ITEMS. */
struct longshore_group {
  struct longshore_self self;
  uint32_t is_group;
};

#define LONGSHORE_FUNCTION static inline __attribute__((unused))
#define LONGSHORE_SELF struct longshore_self *longshore_self

static LONGSHORE_INLINE_ struct longshore_self longshore_start_(struct longshore_work *work, uint32_t traced,
                                                                 uint32_t x, uint32_t y, uint32_t z) {
  struct longshore_self self = {{0, 0, 0}, {0, 0, 0}, {x ? x : work->items[0], y ? y : work->items[1],
                                z ? z : work->items[2]}, {work->groups[0], work->groups[1], work->groups[2]}, 0,
                                traced, work};
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
  }
  return self;
}

#define LONGSHORE_LOCAL_(i, p) const LONGSHORE_AUTO_ longshore_argument_##i = LONGSHORE_LOAD_(p, arguments[i]);
#define LONGSHORE_COMMA_LOCAL_(i, p) , longshore_argument_##i

/* A kernel: its description, a version that is fast and one that says which item it is at. */
#define LONGSHORE_DEFINE_(name, form, type, loop, params, ...)                                                    \
  LONGSHORE_DESCRIBE_(name, form, params, __VA_ARGS__)                                                            \
  static LONGSHORE_INLINE_ void __longshore_body_##name LONGSHORE_WITH_SELF_(type *longshore_self LONGSHORE_UNUSED_, params);       \
  static LONGSHORE_INLINE_ void longshore_run_##name(void *const *arguments LONGSHORE_UNUSED_,                    \
                                                     struct longshore_work *work, uint32_t traced) {                                           \
    LONGSHORE_PARAMETERS_(LONGSHORE_LOCAL_, params)                                                               \
    const uint64_t end = work->end;                                                                               \
    struct longshore_self self = longshore_start_(work, traced, LONGSHORE_SIZE_(__VA_ARGS__));                    \
    for (uint64_t group = work->begin; group != end; ++group, longshore_next_(&self)) {                           \
      *(volatile uint64_t *)&work->group = group;                                                                 \
      loop(name, params)                                                                                          \
    }                                                                                                             \
  }                                                                                                               \
  static __attribute__((noinline, cold)) void longshore_traced_##name(void *const *arguments,                     \
                                                                      struct longshore_work *work) {              \
    longshore_run_##name(arguments, work, 1);                                                                     \
  }                                                                                                               \
  LONGSHORE_EXTERN_C_ void name(void *const *arguments, struct longshore_work *work);                              \
  LONGSHORE_EXPORT_ void name(void *const *arguments, struct longshore_work *work) {                                                \
    if (__builtin_expect(work->traced != 0, 0))                                                                   \
      longshore_traced_##name(arguments, work);                                                                   \
    else                                                                                                          \
      longshore_run_##name(arguments, work, 0);                                                                   \
  }                                                                                                               \
  static LONGSHORE_INLINE_ void __longshore_body_##name LONGSHORE_WITH_SELF_(type *longshore_self LONGSHORE_UNUSED_, params)

#define LONGSHORE_KERNEL(name, params, ...) \
  LONGSHORE_DEFINE_(name, 0, struct longshore_self, LONGSHORE_LOOP_, params, __VA_ARGS__)
#define LONGSHORE_LOOP_(name, params)                                                                             \
  const uint32_t first[3] = {traced ? work->first[0] : 0, traced ? work->first[1] : 0,                            \
                             traced ? work->first[2] : 0};                                                        \
  const uint32_t last[3] = {traced ? work->last[0] : self.items[0], traced ? work->last[1] : self.items[1],       \
                            traced ? work->last[2] : self.items[2]};                                              \
  for (uint32_t z = first[2]; z < last[2]; ++z)                                                                   \
    for (uint32_t y = first[1]; y < last[1]; ++y)                                                                 \
      for (uint32_t x = first[0]; x < last[0]; ++x) {                                                             \
        struct longshore_self item = longshore_item_(&self, x, y, z);                                             \
        __longshore_body_##name(&item LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_LOCAL_, params));                     \
      }

#define LONGSHORE_GROUP_KERNEL(name, params, ...) \
  LONGSHORE_DEFINE_(name, 1, const struct longshore_group, LONGSHORE_WHOLE_, params, __VA_ARGS__)
#define LONGSHORE_WHOLE_(name, params)                                                                            \
  const struct longshore_group whole = {self, 1};                                                                    \
  __longshore_body_##name(&whole LONGSHORE_PARAMETERS_(LONGSHORE_COMMA_LOCAL_, params));

#define LONGSHORE_ITEMS LONGSHORE_NOTE_(LONGSHORE_NOTE_BARRIER_, 0) LONGSHORE_ITEMS_NOWAIT
#define LONGSHORE_ITEMS_NOWAIT                                                                                    \
  for (uint32_t longshore_z = 0; longshore_z < longshore_self->self.items[2]; ++longshore_z)                      \
    for (uint32_t longshore_y = 0; longshore_y < longshore_self->self.items[1]; ++longshore_y)                    \
      for (uint32_t longshore_x = 0; longshore_x < longshore_self->self.items[0]; ++longshore_x)                  \
        for (int longshore_once = 1; longshore_once;)                                                             \
          for (struct longshore_self longshore_item =                                                             \
                   longshore_item_(&longshore_self->self, longshore_x, longshore_y, longshore_z),                 \
                   *const longshore_self LONGSHORE_UNUSED_ = &longshore_item;                                                       \
               longshore_once; longshore_once = 0)

#define LONGSHORE_OVERLOAD_ static LONGSHORE_INLINE_ __attribute__((overloadable))

LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_self *self) { return self; }
LONGSHORE_OVERLOAD_ const struct longshore_self *longshore_of_(const struct longshore_group *group) {
  return &group->self;
}
LONGSHORE_OVERLOAD_ uint32_t longshore_item_of_(const struct longshore_self *self, int d) { return self->item[d]; }

#define longshore_item_id(d) longshore_item_of_(longshore_self, (d))
#define longshore_group_id(d) (longshore_of_(longshore_self)->group[d])
#define longshore_group_items(d) (longshore_of_(longshore_self)->items[d])
#define longshore_group_count(d) (longshore_of_(longshore_self)->groups[d])

/* The memory of a group's variable: the group's own, or the work's that items share. */
LONGSHORE_OVERLOAD_ void *longshore_shared_(const struct longshore_group *group, void *own, size_t bytes) {
  (void)group, (void)bytes;
  return own;
}
LONGSHORE_OVERLOAD_ void *longshore_shared_(struct longshore_self *self, void *own, size_t bytes) {
  (void)own;
  uint32_t at = self->fixed_used;
  self->fixed_used = at + (uint32_t)((bytes + 63) / 64 * 64);
  if (self->fixed_used > self->work->fixed_bytes)
    self->work->calls->fail(self->work, "LONGSHORE_SHARED: a group has no more shared memory", __FILE__, __LINE__);
  return (char *)self->work->fixed + at;
}

#define LONGSHORE_SHARED(type, name, dimensions)                                                                  \
  LONGSHORE_NOTE_(LONGSHORE_NOTE_SHARED_, sizeof(type dimensions))                                                \
  char longshore_memory_of_##name[sizeof(*longshore_self) == sizeof(struct longshore_group)                       \
                                      ? sizeof(type dimensions)                                                   \
                                      : 1] __attribute__((aligned(64)));                                          \
  __typeof__(&(*(type(*) dimensions)0)[0]) const name = (__typeof__(&(*(type(*) dimensions)0)[0]))                \
      longshore_shared_(longshore_self, longshore_memory_of_##name, sizeof(type dimensions))

#define longshore_barrier()                                                                                       \
  do {                                                                                                            \
    LONGSHORE_NOTE_(LONGSHORE_NOTE_BARRIER_, 0)                                                                   \
    longshore_barrier_(longshore_self);                                                                           \
  } while (0)
LONGSHORE_OVERLOAD_ void longshore_barrier_(struct longshore_self *self) { self->work->calls->barrier(self->work); }
/* What a group does outside of LONGSHORE_ITEMS comes after what its items did. */
LONGSHORE_OVERLOAD_ void longshore_barrier_(const struct longshore_group *group) { (void)group; }

#define LONGSHORE_PRIVATE(type, name)                                                                             \
  type name[longshore_self->self.items[0] * longshore_self->self.items[1] * longshore_self->self.items[2]]        \
      __attribute__((aligned(64)))
#define longshore_private(name) (name[longshore_item_index()])

#endif

/* ---- Ids, the same everywhere --------------------------------------------------------------------------------- */

#define longshore_global_id(d) ((uint64_t)longshore_group_id(d) * longshore_group_items(d) + longshore_item_id(d))
#define longshore_global_items(d) ((uint64_t)longshore_group_count(d) * longshore_group_items(d))
#define longshore_item_index()                                                                                    \
  ((longshore_item_id(2) * longshore_group_items(1) + longshore_item_id(1)) * longshore_group_items(0) +          \
   longshore_item_id(0))
#define longshore_group_index()                                                                                   \
  (((uint64_t)longshore_group_id(2) * longshore_group_count(1) + longshore_group_id(1)) *                         \
       longshore_group_count(0) +                                                                                 \
   longshore_group_id(0))

#endif
