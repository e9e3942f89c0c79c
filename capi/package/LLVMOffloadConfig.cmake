# The C API of LLVM Offload, on Longshore: targets LLVMOffload::LLVMOffload and LLVMOffload::static.

get_filename_component(_llvm_offload_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_llvm_offload_include "${_llvm_offload_prefix}/include" "${_llvm_offload_prefix}/include/offload")

if(NOT TARGET LLVMOffload::LLVMOffload)
  add_library(LLVMOffload::LLVMOffload SHARED IMPORTED)
  set_target_properties(LLVMOffload::LLVMOffload PROPERTIES
    IMPORTED_LOCATION "${_llvm_offload_prefix}/lib/libLLVMOffload.so.23.1"
    IMPORTED_SONAME "libLLVMOffload.so.23.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_llvm_offload_include}")
endif()

if(NOT TARGET LLVMOffload::static)
  add_library(LLVMOffload::static STATIC IMPORTED)
  set_target_properties(LLVMOffload::static PROPERTIES
    IMPORTED_LOCATION "${_llvm_offload_prefix}/lib/libLLVMOffload.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_llvm_offload_include}"
    INTERFACE_LINK_LIBRARIES "gcc_s;pthread;m;dl")
endif()

unset(_llvm_offload_include)
unset(_llvm_offload_prefix)
