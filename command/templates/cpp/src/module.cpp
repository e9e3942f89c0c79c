// "longshore.module": loaded images. The device has no kernels yet, and refuses all images.

#include "answer.hpp"
#include "error.hpp"
#include "plugin.hpp"

// Your driver: look for the magic bytes and the architecture of its images, and say in the refusal
// which of them is wrong. Return for an image that `load` would try (P-37).
void check_image(longshore_bytes image) {
    throw failure(LONGSHORE_ERROR_INVALID_BINARY, "the image of ", image.bytes,
                  " bytes is not for " BACKEND ", which has no image format yet");
}

namespace {

// Your driver: fill `info` with the kernel's handle, and with the sizes of its arguments if the
// image describes them. The host checks launches against them (P-42).
longshore_error_object *kernel(longshore_module *, longshore_text name, longshore_kernel_info *) {
    return guarded([&] {
        throw failure(LONGSHORE_ERROR_NOT_FOUND, "the image has no kernel '", view(name), "'");
    });
}

// Your driver: address and size of the variable. A kernel's name is SYMBOL_KIND here (P-41).
longshore_error_object *global(longshore_module *, longshore_text name, longshore_global_info *) {
    return guarded([&] {
        throw failure(LONGSHORE_ERROR_NOT_FOUND, "the image has no global '", view(name), "'");
    });
}

// Your driver: one call of `visit` for each kernel and each global (P-41).
longshore_error_object *symbols(longshore_module *, longshore_symbol_visitor) {
    return nullptr;
}

// Your driver: run the constructors of the image by ascending priority, and wait for them (P-39).
longshore_error_object *run_constructors(longshore_module *) {
    return nullptr;
}

// Your driver: run all destructors in the reverse order, also if one fails (P-40).
longshore_error_object *run_destructors(longshore_module *) {
    return nullptr;
}

longshore_error_object *unload(longshore_module *module) {
    delete module;
    return nullptr;
}

} // namespace

// The functions in the order of the header.
const longshore_module_table module_table = {kernel,           global,          symbols,
                                             run_constructors, run_destructors, unload};
