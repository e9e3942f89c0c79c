// "longshore.module" and "longshore.instrumentation".

#include "plugin.h"
#include <stdlib.h>
#include <string.h>

// Releases all resources of a module, also of a partly loaded one.
static longshore_error_object *module_unload(longshore_module *module) {
    longshore_error_object *first = NULL;
    while (module->globals) {
        global *gone = module->globals;
        module->globals = gone->next;
        longshore_error_object *error =
            memory_free(module->device, LONGSHORE_MEMORY_DEVICE, gone->address);
        if (first)
            release(error);
        else
            first = error;
        free(gone);
    }
    while (module->kernels) {
        longshore_kernel *gone = module->kernels;
        module->kernels = gone->next;
        free(gone);
    }
    hook *lists[] = {module->constructors, module->destructors};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            hook *gone = lists[i];
            lists[i] = gone->next;
            free(gone);
        }
    free(module);
    return first;
}

// The plugin has nothing to defer, so `loading` has no effect.
longshore_error_object *load_module(longshore_device *device, longshore_bytes image,
                                    uint32_t loading, longshore_module **module) {
    (void)loading;
    longshore_module *made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory();
    made->device = device;
    longshore_error_object *error = read_image(made, image);
    if (error) {
        release(module_unload(made));
        return error;
    }
    *module = made;
    return NULL;
}

longshore_kernel *find_kernel(const longshore_module *module, longshore_text name) {
    longshore_kernel *found = module->kernels;
    while (found && !same_text(found->name, name))
        found = found->next;
    return found;
}

global *find_global(const longshore_module *module, longshore_text name) {
    global *found = module->globals;
    while (found && !same_text(found->name, name))
        found = found->next;
    return found;
}

static longshore_error_object *no_symbol(longshore_text name, const char *kind, bool is_other) {
    return fail(is_other ? LONGSHORE_ERROR_SYMBOL_KIND : LONGSHORE_ERROR_NOT_FOUND,
                is_other ? "the symbol '%.*s' is no %s" : "the image has no symbol '%.*s', a %s",
                (int)name.bytes, (const char *)name.data, kind);
}

static longshore_error_object *module_kernel(longshore_module *module, longshore_text name,
                                             longshore_kernel_info *info) {
    longshore_kernel *found = find_kernel(module, name);
    if (!found)
        return no_symbol(name, "kernel", find_global(module, name) != NULL);
    const operation_type *type = found->operation.type;
    *info = (longshore_kernel_info){
        .handle = found,
        .argument_sizes = type->argument_sizes,
        .argument_count = type->argument_count,
    };
    return NULL;
}

static longshore_error_object *module_global(longshore_module *module, longshore_text name,
                                             longshore_global_info *info) {
    const global *found = find_global(module, name);
    if (!found)
        return no_symbol(name, "global", find_kernel(module, name) != NULL);
    *info = (longshore_global_info){found->address, found->bytes};
    return NULL;
}

static longshore_error_object *module_symbols(longshore_module *module,
                                              longshore_symbol_visitor visitor) {
    for (const longshore_kernel *k = module->kernels; k; k = k->next)
        visitor.visit(visitor.context, k->name, LONGSHORE_SYMBOL_KERNEL);
    for (const global *g = module->globals; g; g = g->next)
        visitor.visit(visitor.context, g->name, LONGSHORE_SYMBOL_GLOBAL);
    return NULL;
}

static longshore_error_object *module_run_constructors(longshore_module *module) {
    longshore_error_object *error = NULL;
    for (const hook *h = module->constructors; h && !error; h = h->next)
        error = h->operation.type->run(&h->operation, module->device, NULL);
    return error;
}

// A failed destructor does not stop the others; the first failure is reported.
static longshore_error_object *module_run_destructors(longshore_module *module) {
    longshore_error_object *first = NULL;
    for (const hook *h = module->destructors; h; h = h->next) {
        longshore_error_object *error = h->operation.type->run(&h->operation, module->device, NULL);
        if (first)
            release(error);
        else
            first = error;
    }
    return first;
}

const longshore_module_table module_table = {
    .kernel = module_kernel,
    .global = module_global,
    .symbols = module_symbols,
    .run_constructors = module_run_constructors,
    .run_destructors = module_run_destructors,
    .unload = module_unload,
};

// Globals with the names of the compilers' instrumentation. A plugin offers this optional table if
// it has data for it.
static longshore_error_object *instrumentation_pool_tracker(longshore_module *module,
                                                            longshore_pool_tracker *tracker,
                                                            uint32_t *present) {
    const global *found = find_global(module, text("__omp_rtl_device_memory_pool_tracker"));
    *present = found && found->bytes == sizeof *tracker;
    if (!*present)
        return NULL;
    unsigned char *memory;
    longshore_error_object *error = memory_at(module->device, LONGSHORE_ERROR_BACKEND_FAILURE,
                                              found->address, found->bytes, &memory);
    if (!error)
        memcpy(tracker, memory, sizeof *tracker);
    return error;
}

static longshore_error_object *instrumentation_profile(longshore_module *module,
                                                       longshore_profile_visitor visitor) {
    static const struct {
        const char *name;
        uint32_t kind;
    } sections[] = {
        {"__llvm_prf_cnts", LONGSHORE_PROFILE_SECTION_COUNTERS},
        {"__llvm_prf_data", LONGSHORE_PROFILE_SECTION_DATA},
        {"__llvm_prf_names", LONGSHORE_PROFILE_SECTION_NAMES},
        {"__llvm_prf_bits", LONGSHORE_PROFILE_SECTION_BITMAP},
        {"__llvm_profile_raw_version", LONGSHORE_PROFILE_SECTION_RAW_VERSION},
    };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const global *found = find_global(module, text(sections[i].name));
        if (!found)
            continue;
        unsigned char *memory;
        longshore_error_object *error = memory_at(module->device, LONGSHORE_ERROR_BACKEND_FAILURE,
                                                  found->address, found->bytes, &memory);
        if (error)
            return error;
        visitor.visit(visitor.context, sections[i].kind, found->address,
                      (longshore_bytes){memory, found->bytes});
    }
    return NULL;
}

const longshore_instrumentation_table instrumentation_table = {
    .pool_tracker = instrumentation_pool_tracker,
    .profile = instrumentation_profile,
};
