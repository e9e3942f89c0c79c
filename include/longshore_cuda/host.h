/*
 * longshore_cuda/host.h: the names of CUDA's and HIP's runtime that programs beside their kernels
 * use, as far as the compiler needs them. `longshore cc` compiles no code of the host, so these
 * functions have no definition. Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_HOST_H
#define LONGSHORE_CUDA_HOST_H
#pragma clang system_header

/* Names by which programs see that the runtime's headers are included. */
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define CUDA_VERSION 12040
/* Words of the runtime's headers without an effect here. */
#define CUDAAPI
#define CUDARTAPI
#define CUDART_CB
#define CUDA_CB

/* Numbers of cuFFT and hipFFT, which kernels have as parameters. */
typedef float cufftReal, hipfftReal;
typedef double cufftDoubleReal, hipfftDoubleReal;
typedef float2 cufftComplex, hipfftComplex;
typedef double2 cufftDoubleComplex, hipfftDoubleComplex;
/* Other types of vendors' libraries that are numbers or addresses. */
typedef int cufftHandle, CUdevice, hipDevice_t;
typedef unsigned long long CUdeviceptr;
typedef void *hipDeviceptr_t;

/* Names of vendors' libraries in code of the host: `longshore cc` declares them by their use, as
 * values that convert to all types. Functions of the host alone use them. */
template <bool, class T> struct longshore_where_ {};
template <class T> struct longshore_where_<true, T> { typedef T type; };
struct longshore_unknown_base_;
#define LONGSHORE_IS_UNKNOWN_(T) __is_base_of(longshore_unknown_base_, T)
/* A class of the program, such as a stream. */
#define LONGSHORE_IS_KNOWN_CLASS_(T) (__is_class(T) && !LONGSHORE_IS_UNKNOWN_(T))
#define LONGSHORE_IS_PAIR_(A, B) (LONGSHORE_IS_UNKNOWN_(A) || LONGSHORE_IS_UNKNOWN_(B))
#define LONGSHORE_UNKNOWN_OPERATOR_(result, op, condition)                                                            \
  template <class A, class B>                                                                                         \
  friend __host__ typename longshore_where_<(condition), result>::type operator op(const A &, const B &);
#define LONGSHORE_UNKNOWN_ASSIGNMENT_(op)                                                                             \
  template <class A, class B>                                                                                         \
  friend __host__ typename longshore_where_<LONGSHORE_IS_PAIR_(A, B), A>::type &operator op(A &, const B &);
template <class M> struct longshore_unknown_of_;
typedef longshore_unknown_of_<long long> longshore_unknown_;
/* The operators, which only unknown operands find. */
struct longshore_unknown_base_ {
  LONGSHORE_UNKNOWN_OPERATOR_(bool, ==, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(bool, !=, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(bool, <, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(bool, >, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(bool, <=, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(bool, >=, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, |, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, &, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, ^, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, +, LONGSHORE_IS_PAIR_(A, B) && !LONGSHORE_IS_KNOWN_CLASS_(A))
  LONGSHORE_UNKNOWN_OPERATOR_(A, +, LONGSHORE_IS_UNKNOWN_(B) && LONGSHORE_IS_KNOWN_CLASS_(A))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, -, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, *, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, /, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, %, LONGSHORE_IS_PAIR_(A, B))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, <<, LONGSHORE_IS_PAIR_(A, B) && !LONGSHORE_IS_KNOWN_CLASS_(A))
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, >>, LONGSHORE_IS_PAIR_(A, B) && !LONGSHORE_IS_KNOWN_CLASS_(A))
  LONGSHORE_UNKNOWN_ASSIGNMENT_(|=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(&=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(^=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(+=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(-=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(*=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(/=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(%=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(<<=)
  LONGSHORE_UNKNOWN_ASSIGNMENT_(>>=)
  template <class S, class B>
  friend __host__ typename longshore_where_<LONGSHORE_IS_UNKNOWN_(B) && LONGSHORE_IS_KNOWN_CLASS_(S), S>::type &
  operator<<(S &, const B &);
};
/* The value of another type than an integer. */
template <class T, bool IsInteger> struct longshore_converted_ { static __host__ T from(long long); };
template <class T> struct longshore_converted_<T, true> {
  static constexpr __host__ T from(long long value) { return (T)value; }
};
/* A value without a constructor, so that `c ? x : 0` has one type. `M` gives its size. */
template <class M> struct longshore_unknown_of_ : longshore_unknown_base_ {
  longshore_unknown_of_() = default;
  constexpr __host__ longshore_unknown_of_(longshore_unknown_base_, M value) : value_(value) {}
  /* For `switch`. */
  constexpr __host__ operator int() const { return (int)value_; }
  template <class T, typename longshore_where_<!LONGSHORE_IS_UNKNOWN_(T), int>::type = 0>
  constexpr __host__ operator T() const {
    return longshore_converted_<T, __is_integral(T) || __is_enum(T)>::from((long long)value_);
  }
  template <class... A> __host__ longshore_unknown_ operator()(A &&...) const;
  template <class T> __host__ longshore_unknown_ operator[](const T &) const;
  __host__ longshore_unknown_ operator-() const;
  __host__ longshore_unknown_ operator~() const;
  __host__ longshore_unknown_ operator*() const;

private:
  M value_;
};
/* A type. Handles have the size of a pointer, and enumerations the size of a number. */
template <class M> struct longshore_unknown_type_ : longshore_unknown_of_<M> {
  longshore_unknown_type_() = default;
  template <class T> __host__ longshore_unknown_type_(const T &) {}
  template <class A, class B, class... C> __host__ longshore_unknown_type_(const A &, const B &, const C &...) {}
};
typedef longshore_unknown_type_<long long> longshore_unknown_handle_;

/* The functions that `kernel<<<grid, block>>>()` calls. */
extern "C" __host__ int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_handle_ stream = longshore_unknown_handle_());
extern "C" __host__ int hipConfigureCall(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_handle_ stream = longshore_unknown_handle_());
extern "C" __host__ unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_handle_ stream = longshore_unknown_handle_());
extern "C" __host__ unsigned int __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_handle_ stream = longshore_unknown_handle_());

#include "host_types.h"

#define LONGSHORE_UNKNOWN_TYPE_(name) typedef longshore_unknown_handle_ name;
#define LONGSHORE_UNKNOWN_ENUM_(name) typedef longshore_unknown_type_<int> name;
/* Each value is another constant, for the cases of a `switch`. */
#define LONGSHORE_UNKNOWN_VALUE_(name)                                                                                \
  static constexpr longshore_unknown_ name __attribute__((unused)) = {longshore_unknown_base_(), 100000 + __COUNTER__};
#define LONGSHORE_UNKNOWN_CALL_(name)                                                                                 \
  template <class... A> __host__ longshore_unknown_ name(A &&...);                                                    \
  __host__ longshore_unknown_ name(...);
#define LONGSHORE_UNKNOWN_TEMPLATE_(name)                                                                             \
  template <class... T, class... A> __host__ longshore_unknown_ name(A &&...);                                        \
  template <class... T> __host__ longshore_unknown_ name(...);

/* Calls with any arguments. The templates do not take arrays of variable length, and the other
 * functions do not take all objects. */
#define LONGSHORE_HOST_CALL_OF_(result, name)                                                                         \
  template <class... A> __host__ inline result name(A &&...) { return (result)0; }                                    \
  __host__ inline result name(...) { return (result)0; }
#define LONGSHORE_HOST_CALL_(name)                                                                                    \
  LONGSHORE_HOST_CALL_OF_(cudaError_t, cuda##name)                                                                    \
  LONGSHORE_HOST_CALL_OF_(hipError_t, hip##name)
LONGSHORE_HOST_CALL_(Malloc)
LONGSHORE_HOST_CALL_(MallocHost)
LONGSHORE_HOST_CALL_(MallocManaged)
LONGSHORE_HOST_CALL_(MallocPitch)
LONGSHORE_HOST_CALL_(MallocArray)
LONGSHORE_HOST_CALL_(MallocAsync)
LONGSHORE_HOST_CALL_(MallocFromPoolAsync)
LONGSHORE_HOST_CALL_(HostAlloc)
LONGSHORE_HOST_CALL_(HostMalloc)
LONGSHORE_HOST_CALL_(HostRegister)
LONGSHORE_HOST_CALL_(HostUnregister)
LONGSHORE_HOST_CALL_(HostGetDevicePointer)
LONGSHORE_HOST_CALL_(Free)
LONGSHORE_HOST_CALL_(FreeHost)
LONGSHORE_HOST_CALL_(HostFree)
LONGSHORE_HOST_CALL_(FreeArray)
LONGSHORE_HOST_CALL_(FreeAsync)
LONGSHORE_HOST_CALL_(Memcpy)
LONGSHORE_HOST_CALL_(MemcpyAsync)
LONGSHORE_HOST_CALL_(Memcpy2D)
LONGSHORE_HOST_CALL_(Memcpy2DAsync)
LONGSHORE_HOST_CALL_(MemcpyToSymbol)
LONGSHORE_HOST_CALL_(MemcpyFromSymbol)
LONGSHORE_HOST_CALL_(MemcpyToSymbolAsync)
LONGSHORE_HOST_CALL_(MemcpyFromSymbolAsync)
LONGSHORE_HOST_CALL_(MemcpyPeer)
LONGSHORE_HOST_CALL_(MemcpyPeerAsync)
LONGSHORE_HOST_CALL_(Memset)
LONGSHORE_HOST_CALL_(MemsetAsync)
LONGSHORE_HOST_CALL_(Memset2D)
LONGSHORE_HOST_CALL_(MemGetInfo)
LONGSHORE_HOST_CALL_(MemPrefetchAsync)
LONGSHORE_HOST_CALL_(MemAdvise)
LONGSHORE_HOST_CALL_(GetSymbolAddress)
LONGSHORE_HOST_CALL_(GetSymbolSize)
LONGSHORE_HOST_CALL_(DeviceSynchronize)
LONGSHORE_HOST_CALL_(DeviceReset)
LONGSHORE_HOST_CALL_(DeviceGetAttribute)
LONGSHORE_HOST_CALL_(DeviceSetLimit)
LONGSHORE_HOST_CALL_(DeviceGetLimit)
LONGSHORE_HOST_CALL_(DeviceSetCacheConfig)
LONGSHORE_HOST_CALL_(DeviceCanAccessPeer)
LONGSHORE_HOST_CALL_(DeviceEnablePeerAccess)
LONGSHORE_HOST_CALL_(DeviceDisablePeerAccess)
LONGSHORE_HOST_CALL_(DeviceGetStreamPriorityRange)
LONGSHORE_HOST_CALL_(GetLastError)
LONGSHORE_HOST_CALL_(PeekAtLastError)
LONGSHORE_HOST_CALL_(SetDevice)
LONGSHORE_HOST_CALL_(GetDevice)
LONGSHORE_HOST_CALL_(GetDeviceCount)
LONGSHORE_HOST_CALL_(GetDeviceProperties)
LONGSHORE_HOST_CALL_(ChooseDevice)
LONGSHORE_HOST_CALL_(DriverGetVersion)
LONGSHORE_HOST_CALL_(RuntimeGetVersion)
LONGSHORE_HOST_CALL_(SetDeviceFlags)
LONGSHORE_HOST_CALL_(StreamCreate)
LONGSHORE_HOST_CALL_(StreamCreateWithFlags)
LONGSHORE_HOST_CALL_(StreamCreateWithPriority)
LONGSHORE_HOST_CALL_(StreamDestroy)
LONGSHORE_HOST_CALL_(StreamSynchronize)
LONGSHORE_HOST_CALL_(StreamQuery)
LONGSHORE_HOST_CALL_(StreamWaitEvent)
LONGSHORE_HOST_CALL_(StreamAddCallback)
LONGSHORE_HOST_CALL_(StreamBeginCapture)
LONGSHORE_HOST_CALL_(StreamEndCapture)
LONGSHORE_HOST_CALL_(EventCreate)
LONGSHORE_HOST_CALL_(EventCreateWithFlags)
LONGSHORE_HOST_CALL_(EventDestroy)
LONGSHORE_HOST_CALL_(EventRecord)
LONGSHORE_HOST_CALL_(EventSynchronize)
LONGSHORE_HOST_CALL_(EventElapsedTime)
LONGSHORE_HOST_CALL_(EventQuery)
LONGSHORE_HOST_CALL_(LaunchKernel)
LONGSHORE_HOST_CALL_(LaunchCooperativeKernel)
LONGSHORE_HOST_CALL_(LaunchHostFunc)
LONGSHORE_HOST_CALL_(FuncSetAttribute)
LONGSHORE_HOST_CALL_(FuncSetCacheConfig)
LONGSHORE_HOST_CALL_(FuncGetAttributes)
LONGSHORE_HOST_CALL_(OccupancyMaxActiveBlocksPerMultiprocessor)
LONGSHORE_HOST_CALL_(OccupancyMaxPotentialBlockSize)
LONGSHORE_HOST_CALL_(GraphCreate)
LONGSHORE_HOST_CALL_(GraphInstantiate)
LONGSHORE_HOST_CALL_(GraphLaunch)
LONGSHORE_HOST_CALL_(GraphDestroy)
LONGSHORE_HOST_CALL_(GraphExecDestroy)
LONGSHORE_HOST_CALL_(ProfilerStart)
LONGSHORE_HOST_CALL_(ProfilerStop)
LONGSHORE_HOST_CALL_(PointerGetAttributes)
LONGSHORE_HOST_CALL_(ThreadSynchronize)
LONGSHORE_HOST_CALL_(ThreadExit)
LONGSHORE_HOST_CALL_(CreateTextureObject)
LONGSHORE_HOST_CALL_(DestroyTextureObject)
LONGSHORE_HOST_CALL_(ModuleLoad)
LONGSHORE_HOST_CALL_(ModuleGetFunction)
LONGSHORE_HOST_CALL_(ModuleLaunchKernel)
LONGSHORE_HOST_CALL_(CtxSynchronize)
LONGSHORE_HOST_CALL_(Init)
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) (kernel)<<<(grid), (block), (shared), (void *)(stream)>>>(__VA_ARGS__)

#endif
