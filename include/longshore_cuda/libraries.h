/*
 * longshore_cuda/libraries.h: the numbers that headers of vendors' libraries bring with them.
 * `longshore cc` includes it for <cublas_v2.h>, <cufft.h>, <cusparse.h> and their relatives.
 */
#ifndef LONGSHORE_CUDA_LIBRARIES_H
#define LONGSHORE_CUDA_LIBRARIES_H
#pragma clang system_header

#include "complex.h"
#include "half.h"

#endif
