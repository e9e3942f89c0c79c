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

/* Numbers of cuFFT and hipFFT, which kernels have as parameters. */
typedef float cufftReal, hipfftReal;
typedef double cufftDoubleReal, hipfftDoubleReal;
typedef float2 cufftComplex, hipfftComplex;
typedef double2 cufftDoubleComplex, hipfftDoubleComplex;

/* Names of vendors' libraries in code of the host: `longshore cc` declares them by their use, as
 * values that convert to all types. */
#define LONGSHORE_UNKNOWN_OPERATOR_(type, op)                                                                         \
  template <class T> friend __host__ type operator op(const longshore_unknown_ &, const T &);                         \
  template <class T> friend __host__ type operator op(const T &, const longshore_unknown_ &);                         \
  friend __host__ type operator op(const longshore_unknown_ &, const longshore_unknown_ &);
struct longshore_unknown_ {
  longshore_unknown_() = default;
  template <class T> __host__ longshore_unknown_(const T &) {}
  template <class T> __host__ operator T() const;
  template <class... A> __host__ longshore_unknown_ operator()(A &&...) const;
  template <class T> __host__ longshore_unknown_ operator[](const T &) const;
  LONGSHORE_UNKNOWN_OPERATOR_(bool, ==)
  LONGSHORE_UNKNOWN_OPERATOR_(bool, !=)
  LONGSHORE_UNKNOWN_OPERATOR_(bool, <)
  LONGSHORE_UNKNOWN_OPERATOR_(bool, >)
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, |)
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, &)
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, +)
  LONGSHORE_UNKNOWN_OPERATOR_(longshore_unknown_, *)
  template <class S> friend __host__ S &operator<<(S &, const longshore_unknown_ &);
};

/* The functions that `kernel<<<grid, block>>>()` calls. */
extern "C" __host__ int cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_ stream = longshore_unknown_());
extern "C" __host__ int hipConfigureCall(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_ stream = longshore_unknown_());
extern "C" __host__ unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_ stream = longshore_unknown_());
extern "C" __host__ unsigned int __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, longshore_unknown_ stream = longshore_unknown_());

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600, cudaErrorNotSupported = 801, cudaErrorUnknown = 999, cudaErrorPeerAccessAlreadyEnabled = 704, cudaErrorCooperativeLaunchTooLarge = 720 };
typedef enum cudaError_t cudaError;
enum hipError_t { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorMemoryAllocation = 2, hipErrorNotReady = 600, hipErrorNotSupported = 801, hipErrorUnknown = 999, hipErrorPeerAccessAlreadyEnabled = 704 };
#define LONGSHORE_HOST_ENUM_(api)                                                                                     \
  enum api##MemcpyKind {                                                                                              \
    api##MemcpyHostToHost,                                                                                            \
    api##MemcpyHostToDevice,                                                                                          \
    api##MemcpyDeviceToHost,                                                                                          \
    api##MemcpyDeviceToDevice,                                                                                        \
    api##MemcpyDefault                                                                                                \
  };                                                                                                                  \
  enum api##Flag { api##EventDefault = 0, api##EventBlockingSync = 1, api##EventDisableTiming = 2, api##StreamDefault = 0,      \
         api##StreamNonBlocking = 1, api##HostAllocDefault = 0, api##HostAllocPortable = 1, api##HostAllocMapped = 2, \
         api##HostAllocWriteCombined = 4, api##MemAttachGlobal = 1, api##DeviceScheduleAuto = 0, api##DeviceMapHost = 8, \
         api##HostMallocDefault = 0, api##HostMallocMapped = 2, api##HostMallocPortable = 1, api##HostRegisterDefault = 0, \
         api##DeviceBlockingSync = 4, api##DeviceScheduleBlockingSync = 4, api##CpuDeviceId = -1 };                   \
  enum api##FuncCache { api##FuncCachePreferNone, api##FuncCachePreferShared, api##FuncCachePreferL1, api##FuncCachePreferEqual }; \
  enum api##FuncAttribute { api##FuncAttributeMaxDynamicSharedMemorySize = 8,                                         \
                            api##FuncAttributePreferredSharedMemoryCarveout = 9 };                                       \
  enum api##SharedMemConfig { api##SharedMemBankSizeDefault, api##SharedMemBankSizeFourByte, api##SharedMemBankSizeEightByte }; \
  enum api##Limit { api##LimitStackSize, api##LimitPrintfFifoSize, api##LimitMallocHeapSize };                        \
  enum api##MemoryAdvise { api##MemAdviseSetReadMostly = 1, api##MemAdviseSetPreferredLocation = 3,                   \
                           api##MemAdviseSetAccessedBy = 5 };                                                         \
  enum api##StreamCaptureMode { api##StreamCaptureModeGlobal, api##StreamCaptureModeThreadLocal, api##StreamCaptureModeRelaxed }; \
  typedef struct longshore_stream_ *api##Stream_t;                                                                    \
  typedef struct longshore_event_ *api##Event_t;                                                                      \
  typedef struct longshore_graph_ *api##Graph_t;                                                                      \
  typedef struct longshore_graph_exec_ *api##GraphExec_t;                                                             \
  typedef struct longshore_array_ *api##Array_t;                                                                      \
  typedef void (*api##HostFn_t)(void *);                                                                              \
  struct api##Extent { size_t width, height, depth; };                                                                \
  struct api##FuncAttributes { size_t sharedSizeBytes, constSizeBytes, localSizeBytes; int maxThreadsPerBlock, numRegs; }; \
  struct api##PointerAttributes { int type, device; void *devicePointer, *hostPointer; };                             \
  struct api##DeviceProp {                                                                                            \
    char name[256];                                                                                                   \
    size_t totalGlobalMem, sharedMemPerBlock, totalConstMem, memPitch, textureAlignment, sharedMemPerBlockOptin,      \
        sharedMemPerMultiprocessor;                                                                                   \
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor,        \
        multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode, concurrentKernels,  \
        ECCEnabled, pciBusID, pciDeviceID, pciDomainID, asyncEngineCount, unifiedAddressing, memoryClockRate,         \
        memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor, managedMemory, cooperativeLaunch,                   \
        cooperativeMultiDeviceLaunch, concurrentManagedAccess, pageableMemoryAccess, isMultiGpuBoard;                 \
    char gcnArchName[256];                                                                                            \
  };                                                                                                                  \
  __host__ const char *api##GetErrorString(api##Error_t);                                                             \
  __host__ const char *api##GetErrorName(api##Error_t);
LONGSHORE_HOST_ENUM_(cuda)
LONGSHORE_HOST_ENUM_(hip)

typedef struct hipDeviceProp hipDeviceProp_t;
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, hipTextureObject_t;
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess };
enum cudaDeviceAttr { cudaDevAttrIntegrated = 18, cudaDevAttrComputeMode = 20, cudaDevAttrMaxThreadsPerMultiProcessor = 39, cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10, cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76, cudaDevAttrCooperativeLaunch = 95, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum hipDeviceAttribute_t { hipDeviceAttributeMaxThreadsPerBlock = 1, hipDeviceAttributeMultiprocessorCount = 16, hipDeviceAttributeWarpSize = 10, hipDeviceAttributeCooperativeLaunch = 26, hipDeviceAttributeMaxSharedMemoryPerBlock = 74, hipDeviceAttributeManagedMemory = 55 };

#define LONGSHORE_UNKNOWN_TYPE_(name) typedef longshore_unknown_ name;
#define LONGSHORE_UNKNOWN_VALUE_(name) extern const longshore_unknown_ name;
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
