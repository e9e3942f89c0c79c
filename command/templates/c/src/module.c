// "longshore.module": loaded images. The device has no kernels yet, and refuses all images.

#include "plugin.h"
#include <stdlib.h>

// Your driver: look for the magic bytes and the architecture of its images, and say in the refusal
// which of them is wrong. Return null for an image that `load_module` would try (P-37).
longshore_error_object *check_image(longshore_bytes image) {
    return fail(LONGSHORE_ERROR_INVALID_BINARY,
                "the image of %zu bytes is not for " BACKEND ", which has no image format yet",
                image.bytes);
}

// Your driver: load the image, without running its constructors. Malformed bytes do no harm, and
// leave nothing behind (P-38). The host keeps the bytes in place until `module_unload` (H-6).
// `loading` may be ignored.
longshore_error_object *load_module(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module) {
    (void)loading;
    longshore_error_object *error = check_image(image);
    if (error)
        return error;
    longshore_module *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->device = device;
    *module = made;
    return NULL;
}

// Your driver: fill `info` with the kernel's handle, and with the sizes of its arguments if the
// image describes them. The host checks launches against them (P-42).
static longshore_error_object *module_kernel(longshore_module *module, longshore_text name,
                                             longshore_kernel_info *info) {
    (void)module, (void)info;
    return fail(LONGSHORE_ERROR_NOT_FOUND, "the image has no kernel '%.*s'", (int)name.bytes,
                (const char *)name.data);
}

// Your driver: address and size of the variable. A kernel's name is SYMBOL_KIND here (P-41).
static longshore_error_object *module_global(longshore_module *module, longshore_text name,
                                             longshore_global_info *info) {
    (void)module, (void)info;
    return fail(LONGSHORE_ERROR_NOT_FOUND, "the image has no global '%.*s'", (int)name.bytes,
                (const char *)name.data);
}

// Your driver: one call of `visitor.visit` for each kernel and each global (P-41).
static longshore_error_object *module_symbols(longshore_module *module,
                                              longshore_symbol_visitor visitor) {
    (void)module, (void)visitor;
    return NULL;
}

// Your driver: run the constructors of the image by ascending priority, and wait for them (P-39).
static longshore_error_object *module_run_constructors(longshore_module *module) {
    (void)module;
    return NULL;
}

// Your driver: run all destructors in the reverse order, also if one fails (P-40).
static longshore_error_object *module_run_destructors(longshore_module *module) {
    (void)module;
    return NULL;
}

static longshore_error_object *module_unload(longshore_module *module) {
    free(module);
    return NULL;
}

const longshore_module_table module_table = {
    .kernel = module_kernel,
    .global = module_global,
    .symbols = module_symbols,
    .run_constructors = module_run_constructors,
    .run_destructors = module_run_destructors,
    .unload = module_unload,
};
