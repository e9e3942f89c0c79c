//! The library with the CPU backend: images, kernels, launches, profiles, memory.

mod bitcode_images;
mod containers;
mod cooperative_launches;
mod debugged_programs;
mod device_header;
mod guarded_code;
mod handles;
mod item_kernels;
mod item_loops;
mod item_strides;
mod kernel_faults;
mod kernels;
mod launch_checks;
mod lazy_bitcode;
mod lazy_images;
mod memory_tracking;
mod one_source;
mod profiles;
mod public_api;
mod random_kernels;
mod relocatable_images;
mod word_arguments;
mod work_groups;
