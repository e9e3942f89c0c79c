/*
 * longshore_cuda/host_types.h: the enumerations and structures of CUDA's and HIP's runtime. The
 * structures that kernels may have as parameters have the vendors' layout. Part of
 * longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_HOST_TYPES_H
#define LONGSHORE_CUDA_HOST_TYPES_H
#pragma clang system_header

#define LONGSHORE_HOST_ERRORS_(api)                                                                                   \
  api##ErrorInvalidValue = 1, api##ErrorMemoryAllocation = 2, api##ErrorInitializationError = 3,                      \
  api##ErrorCudartUnloading = 4, api##ErrorProfilerDisabled = 5, api##ErrorInvalidConfiguration = 9,                  \
  api##ErrorInvalidPitchValue = 12, api##ErrorInvalidSymbol = 13, api##ErrorInvalidHostPointer = 16,                  \
  api##ErrorInvalidDevicePointer = 17, api##ErrorInvalidTexture = 18, api##ErrorInvalidMemcpyDirection = 21,          \
  api##ErrorInsufficientDriver = 35, api##ErrorMissingConfiguration = 52, api##ErrorInvalidDeviceFunction = 98,       \
  api##ErrorNoDevice = 100, api##ErrorInvalidDevice = 101, api##ErrorInvalidKernelImage = 200,                        \
  api##ErrorDeviceUninitialized = 201, api##ErrorMapBufferObjectFailed = 205, api##ErrorNoKernelImageForDevice = 209, \
  api##ErrorECCUncorrectable = 214, api##ErrorUnsupportedLimit = 215, api##ErrorInvalidSource = 300,                  \
  api##ErrorFileNotFound = 301, api##ErrorSharedObjectInitFailed = 303, api##ErrorOperatingSystem = 304,              \
  api##ErrorInvalidResourceHandle = 400, api##ErrorIllegalState = 401, api##ErrorSymbolNotFound = 500,                \
  api##ErrorNotReady = 600, api##ErrorIllegalAddress = 700, api##ErrorLaunchOutOfResources = 701,                     \
  api##ErrorLaunchTimeout = 702, api##ErrorPeerAccessAlreadyEnabled = 704, api##ErrorPeerAccessNotEnabled = 705,      \
  api##ErrorSetOnActiveProcess = 708, api##ErrorContextIsDestroyed = 709, api##ErrorAssert = 710,                     \
  api##ErrorHostMemoryAlreadyRegistered = 712, api##ErrorHostMemoryNotRegistered = 713,                               \
  api##ErrorLaunchFailure = 719, api##ErrorCooperativeLaunchTooLarge = 720, api##ErrorNotPermitted = 800,             \
  api##ErrorNotSupported = 801, api##ErrorSystemNotReady = 802, api##ErrorSystemDriverMismatch = 803,                 \
  api##ErrorStreamCaptureUnsupported = 900, api##ErrorStreamCaptureInvalidated = 901, api##ErrorUnknown = 999
enum cudaError_t { cudaSuccess = 0, LONGSHORE_HOST_ERRORS_(cuda) };
typedef enum cudaError_t cudaError;
enum hipError_t { hipSuccess = 0, hipErrorOutOfMemory = 2, LONGSHORE_HOST_ERRORS_(hip) };

#define LONGSHORE_HOST_ENUM_(api)                                                                                     \
  enum api##MemcpyKind {                                                                                              \
    api##MemcpyHostToHost,                                                                                            \
    api##MemcpyHostToDevice,                                                                                          \
    api##MemcpyDeviceToHost,                                                                                          \
    api##MemcpyDeviceToDevice,                                                                                        \
    api##MemcpyDefault                                                                                                \
  };                                                                                                                  \
  enum api##Flag { api##EventDefault = 0, api##EventBlockingSync = 1, api##EventDisableTiming = 2, api##StreamDefault = 0,\
         api##StreamNonBlocking = 1, api##HostAllocDefault = 0, api##HostAllocPortable = 1, api##HostAllocMapped = 2, \
         api##HostAllocWriteCombined = 4, api##MemAttachGlobal = 1, api##DeviceScheduleAuto = 0, api##DeviceMapHost = 8,\
         api##HostMallocDefault = 0, api##HostMallocMapped = 2, api##HostMallocPortable = 1, api##HostRegisterDefault = 0,\
         api##DeviceBlockingSync = 4, api##DeviceScheduleBlockingSync = 4, api##CpuDeviceId = -1 };                   \
  enum api##FuncCache { api##FuncCachePreferNone, api##FuncCachePreferShared, api##FuncCachePreferL1, api##FuncCachePreferEqual };\
  enum api##FuncAttribute { api##FuncAttributeMaxDynamicSharedMemorySize = 8,                                         \
                            api##FuncAttributePreferredSharedMemoryCarveout = 9 };                                    \
  enum api##SharedMemConfig { api##SharedMemBankSizeDefault, api##SharedMemBankSizeFourByte, api##SharedMemBankSizeEightByte };\
  enum api##Limit { api##LimitStackSize, api##LimitPrintfFifoSize, api##LimitMallocHeapSize };                        \
  enum api##MemoryAdvise { api##MemAdviseSetReadMostly = 1, api##MemAdviseSetPreferredLocation = 3,                   \
                           api##MemAdviseSetAccessedBy = 5 };                                                         \
  enum api##StreamCaptureMode { api##StreamCaptureModeGlobal, api##StreamCaptureModeThreadLocal, api##StreamCaptureModeRelaxed };\
  typedef struct longshore_stream_ *api##Stream_t;                                                                    \
  typedef struct longshore_event_ *api##Event_t;                                                                      \
  typedef struct longshore_graph_ *api##Graph_t;                                                                      \
  typedef struct longshore_graph_exec_ *api##GraphExec_t;                                                             \
  typedef struct longshore_array_ *api##Array_t;                                                                      \
  typedef void (*api##HostFn_t)(void *);                                                                              \
  struct api##DeviceProp {                                                                                            \
    char name[256], gcnArchName[256], luid[8];                                                                        \
    struct { char bytes[16]; } uuid;                                                                                  \
    unsigned int luidDeviceNodeMask;                                                                                  \
    size_t totalGlobalMem, sharedMemPerBlock, totalConstMem, memPitch, textureAlignment, texturePitchAlignment,       \
        sharedMemPerBlockOptin, sharedMemPerMultiprocessor, reservedSharedMemPerBlock, surfaceAlignment;              \
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor,        \
        multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode, concurrentKernels,  \
        ECCEnabled, pciBusID, pciDeviceID, pciDomainID, asyncEngineCount, unifiedAddressing, memoryClockRate,         \
        memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor, managedMemory, cooperativeLaunch,                   \
        cooperativeMultiDeviceLaunch, concurrentManagedAccess, pageableMemoryAccess, isMultiGpuBoard,                 \
        persistingL2CacheMaxSize, accessPolicyMaxWindowSize, regsPerMultiprocessor, maxBlocksPerMultiProcessor,       \
        deviceOverlap, tccDriver, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported,           \
        multiGpuBoardGroupID, hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio, computePreemptionSupported,\
        canUseHostPointerForRegisteredMem, pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost,    \
        hostRegisterSupported, hostRegisterReadOnlySupported, sparseCudaArraySupported, memoryPoolsSupported,         \
        timelineSemaphoreInteropSupported, gpuDirectRDMASupported, ipcEventSupported, clusterLaunch,                  \
        unifiedFunctionPointers, clockInstructionRate, maxSharedMemoryPerMultiProcessor, maxTexture1D, maxTexture2D[2],\
        maxTexture3D[3], maxTexture1DLayered[2], maxTexture2DLayered[3], maxSurface1D, maxSurface2D[2],               \
        maxSurface3D[3];                                                                                              \
  };                                                                                                                  \
  __host__ const char *api##GetErrorString(api##Error_t);                                                             \
  __host__ const char *api##GetErrorName(api##Error_t);
LONGSHORE_HOST_ENUM_(cuda)
LONGSHORE_HOST_ENUM_(hip)

/* The structures that these enumerations are members of. */
#define LONGSHORE_HOST_STRUCTS_(api)                                                                                  \
  struct api##Extent { size_t width, height, depth; };                                                                \
  struct api##Pos { size_t x, y, z; };                                                                                \
  struct api##PitchedPtr { void *ptr; size_t pitch, xsize, ysize; };                                                  \
  static __host__ inline api##Extent make_##api##Extent(size_t width, size_t height, size_t depth) {                  \
    return {width, height, depth};                                                                                    \
  }                                                                                                                   \
  static __host__ inline api##Pos make_##api##Pos(size_t x, size_t y, size_t z) { return {x, y, z}; }                 \
  static __host__ inline api##PitchedPtr make_##api##PitchedPtr(void *ptr, size_t pitch, size_t xsize, size_t ysize) {\
    return {ptr, pitch, xsize, ysize};                                                                                \
  }                                                                                                                   \
  struct api##Memcpy3DParms {                                                                                         \
    api##Array_t srcArray;                                                                                            \
    api##Pos srcPos;                                                                                                  \
    api##PitchedPtr srcPtr;                                                                                           \
    api##Array_t dstArray;                                                                                            \
    api##Pos dstPos;                                                                                                  \
    api##PitchedPtr dstPtr;                                                                                           \
    api##Extent extent;                                                                                               \
    api##MemcpyKind kind;                                                                                             \
  };                                                                                                                  \
  enum api##MemoryType { api##MemoryTypeUnregistered, api##MemoryTypeHost, api##MemoryTypeDevice, api##MemoryTypeManaged };\
  struct api##PointerAttributes { int type, device; void *devicePointer, *hostPointer; int isManaged, allocationFlags; };\
  struct api##FuncAttributes {                                                                                        \
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;                                                           \
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes,               \
        preferredShmemCarveout;                                                                                       \
  };                                                                                                                  \
  enum api##ChannelFormatKind { api##ChannelFormatKindSigned, api##ChannelFormatKindUnsigned,                         \
                                api##ChannelFormatKindFloat, api##ChannelFormatKindNone };                            \
  struct api##ChannelFormatDesc { int x, y, z, w; api##ChannelFormatKind f; };                                        \
  template <class T> __host__ api##ChannelFormatDesc api##CreateChannelDesc();                                        \
  __host__ api##ChannelFormatDesc api##CreateChannelDesc(int, int, int, int, api##ChannelFormatKind);                 \
  enum api##ResourceType { api##ResourceTypeArray, api##ResourceTypeMipmappedArray, api##ResourceTypeLinear,          \
                           api##ResourceTypePitch2D };                                                                \
  struct api##ResourceDesc {                                                                                          \
    api##ResourceType resType;                                                                                        \
    union {                                                                                                           \
      struct { api##Array_t array; } array;                                                                           \
      struct { void *mipmap; } mipmap;                                                                                \
      struct { void *devPtr; api##ChannelFormatDesc desc; size_t sizeInBytes; } linear;                               \
      struct { void *devPtr; api##ChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;              \
    } res;                                                                                                            \
  };                                                                                                                  \
  enum api##TextureAddressMode { api##AddressModeWrap, api##AddressModeClamp, api##AddressModeMirror,                 \
                                 api##AddressModeBorder };                                                            \
  enum api##TextureFilterMode { api##FilterModePoint, api##FilterModeLinear };                                        \
  enum api##TextureReadMode { api##ReadModeElementType, api##ReadModeNormalizedFloat };                               \
  struct api##TextureDesc {                                                                                           \
    api##TextureAddressMode addressMode[3];                                                                           \
    api##TextureFilterMode filterMode;                                                                                \
    api##TextureReadMode readMode;                                                                                    \
    int sRGB;                                                                                                         \
    float borderColor[4];                                                                                             \
    int normalizedCoords;                                                                                             \
    unsigned int maxAnisotropy;                                                                                       \
    api##TextureFilterMode mipmapFilterMode;                                                                          \
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;                                                  \
  };                                                                                                                  \
  enum api##MemLocationType { api##MemLocationTypeInvalid, api##MemLocationTypeDevice, api##MemLocationTypeHost };    \
  struct api##MemLocation { api##MemLocationType type; int id; };                                                     \
  enum api##MemAllocationType { api##MemAllocationTypeInvalid, api##MemAllocationTypePinned };                        \
  enum api##MemAllocationHandleType { api##MemHandleTypeNone, api##MemHandleTypePosixFileDescriptor };                \
  struct api##MemPoolProps {                                                                                          \
    api##MemAllocationType allocType;                                                                                 \
    api##MemAllocationHandleType handleTypes;                                                                         \
    api##MemLocation location;                                                                                        \
    void *win32SecurityAttributes;                                                                                    \
    size_t maxSize;                                                                                                   \
  };                                                                                                                  \
  typedef struct longshore_pool_ *api##MemPool_t;                                                                     \
  typedef struct longshore_node_ *api##GraphNode_t;                                                                   \
  struct api##KernelNodeParams {                                                                                      \
    void *func;                                                                                                       \
    dim3 gridDim, blockDim;                                                                                           \
    unsigned int sharedMemBytes;                                                                                      \
    void **kernelParams, **extra;                                                                                     \
  };                                                                                                                  \
  struct api##MemsetParams { void *dst; size_t pitch; unsigned int value, elementSize; size_t width, height; };       \
  struct api##HostNodeParams { api##HostFn_t fn; void *userData; };                                                   \
  enum api##AccessProperty { api##AccessPropertyNormal, api##AccessPropertyStreaming, api##AccessPropertyPersisting };\
  struct api##AccessPolicyWindow {                                                                                    \
    void *base_ptr;                                                                                                   \
    size_t num_bytes;                                                                                                 \
    float hitRatio;                                                                                                   \
    api##AccessProperty hitProp, missProp;                                                                            \
  };                                                                                                                  \
  enum api##LaunchAttributeID {                                                                                       \
    api##LaunchAttributeIgnore, api##LaunchAttributeAccessPolicyWindow, api##LaunchAttributeCooperative,              \
    api##LaunchAttributeSynchronizationPolicy, api##LaunchAttributeClusterDimension,                                  \
    api##LaunchAttributeClusterSchedulingPolicyPreference, api##LaunchAttributeProgrammaticStreamSerialization,       \
    api##LaunchAttributeProgrammaticEvent, api##LaunchAttributePriority                                               \
  };                                                                                                                  \
  union api##LaunchAttributeValue {                                                                                   \
    char pad[64];                                                                                                     \
    api##AccessPolicyWindow accessPolicyWindow;                                                                       \
    int cooperative, priority, programmaticStreamSerializationAllowed;                                                \
    struct { unsigned int x, y, z; } clusterDim;                                                                      \
  };                                                                                                                  \
  struct api##LaunchAttribute { api##LaunchAttributeID id; api##LaunchAttributeValue val; };                          \
  struct api##LaunchConfig_t {                                                                                        \
    dim3 gridDim, blockDim;                                                                                           \
    size_t dynamicSmemBytes;                                                                                          \
    api##Stream_t stream;                                                                                             \
    api##LaunchAttribute *attrs;                                                                                      \
    unsigned int numAttrs;                                                                                            \
  };                                                                                                                  \
  typedef api##LaunchAttributeID api##StreamAttrID;                                                                   \
  typedef api##LaunchAttributeValue api##StreamAttrValue, api##KernelNodeAttrValue;                                   \
  struct api##IpcMemHandle_t { char reserved[64]; };                                                                  \
  struct api##IpcEventHandle_t { char reserved[64]; };
LONGSHORE_HOST_STRUCTS_(cuda)
LONGSHORE_HOST_STRUCTS_(hip)

typedef struct hipDeviceProp hipDeviceProp_t;
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, hipTextureObject_t, hipSurfaceObject_t;
typedef unsigned long long cudaGraphConditionalHandle;
enum cudaComputeMode { cudaComputeModeDefault, cudaComputeModeExclusive, cudaComputeModeProhibited, cudaComputeModeExclusiveProcess };
enum cudaDeviceAttr { cudaDevAttrIntegrated = 18, cudaDevAttrComputeMode = 20, cudaDevAttrMaxThreadsPerMultiProcessor = 39, cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10, cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76, cudaDevAttrCooperativeLaunch = 95, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97 };
enum hipDeviceAttribute_t { hipDeviceAttributeMaxThreadsPerBlock = 1, hipDeviceAttributeMultiprocessorCount = 16, hipDeviceAttributeWarpSize = 10, hipDeviceAttributeCooperativeLaunch = 26, hipDeviceAttributeMaxSharedMemoryPerBlock = 74, hipDeviceAttributeManagedMemory = 55 };
/* Types of elements, for the functions of libraries. */
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_C_32F = 4, CUDA_C_64F = 5, CUDA_R_8U = 8, CUDA_R_32I = 10, CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28, CUDA_R_8F_E5M2 = 29 };
typedef cudaDataType_t cudaDataType, cublasDataType_t;

#endif
