//! Structures, handles and types of callbacks.

use super::declare::{handles, structures};
use super::enumerations::*;
use super::trace::{Pointee, TraceValue, pointees};
use std::ffi::{c_char, c_void};

handles! {
    /// A platform, provided by one plugin. Valid until the last olShutDown.
    ol_platform_handle_t = ol_platform_impl_t;
    /// A device. Valid until the last olShutDown.
    ol_device_handle_t = ol_device_impl_t;
    /// A context, which no function uses.
    ol_context_handle_t = ol_context_impl_t;
    /// A queue. Valid until olDestroyQueue or the last olShutDown.
    ol_queue_handle_t = ol_queue_impl_t;
    /// An event. Valid until olDestroyEvent or the last olShutDown.
    ol_event_handle_t = ol_event_impl_t;
    /// A loaded image. Valid until olDestroyProgram or the last olShutDown.
    ol_program_handle_t = ol_program_impl_t;
    /// A kernel or a global variable of a program. Valid as long as the program.
    ol_symbol_handle_t = ol_symbol_impl_t;
}

structures! {
    /// An error. Valid until the process ends; the program must not free it.
    ol_error_struct_t {
        /// Kind of the error.
        Code: ol_errc_t,
        /// Text for people, never null.
        Details: *const c_char,
    }
    /// A location in the program, which errors name. The library reads it only during the call.
    ol_code_location_t {
        /// Name of the function; may be null.
        FunctionName: *const c_char,
        /// Name of the file; may be null.
        SourceFile: *const c_char,
        /// Number of the line, from 1.
        LineNumber: u32,
        /// Number of the column, from 1.
        ColumnNumber: u32,
    }
    /// A number for each dimension.
    ol_dimensions_t {
        /// First dimension.
        x: u32,
        /// Second dimension.
        y: u32,
        /// Third dimension.
        z: u32,
    }
    /// The arguments of olInit. The library reads them only during the call.
    ol_init_args_t {
        /// Size of this structure in bytes.
        Size: usize,
        /// Number of the named backends; 0 for all backends.
        NumPlatforms: u32,
        /// Backends to use. The backend of the host is used in any case.
        Platforms: *const ol_platform_backend_t,
    }
    /// The numbers of work-groups and work-items of a launch.
    ol_kernel_launch_size_args_t {
        /// Number of dimensions. The library ignores it, and uses all three dimensions.
        Dimensions: usize,
        /// Number of work-groups, at least 1 in each dimension.
        NumGroups: ol_dimensions_t,
        /// Number of work-items of a group, at least 1 in each dimension.
        GroupSize: ol_dimensions_t,
        /// Size of the dynamic shared memory of a group in bytes.
        DynSharedMemory: usize,
    }
    /// A further property of a launch. The library reads it only during the call.
    ol_kernel_launch_prop_t {
        /// Kind of the property, and so the type behind `data`.
        r#type: ol_kernel_launch_prop_type_t,
        /// Pointer to the value of the property.
        data: *mut c_void,
    }
}

/// Flags of `ol_device_fp_capability_flag_t`.
pub type ol_device_fp_capability_flags_t = u32;
/// Flags of `ol_memory_register_flag_t`.
pub type ol_memory_register_flags_t = u32;
/// Flags of `ol_mem_migration_flag_t`.
pub type ol_mem_migration_flags_t = u32;
/// The result of a function: null for success, else a pointer to the error.
pub type ol_result_t = *const ol_error_struct_t;

/// A function that olIterateDevices calls for each device, on the thread of its caller. The
/// iteration ends when the function returns false.
pub type ol_device_iterate_cb_t =
    Option<unsafe extern "C" fn(Device: ol_device_handle_t, UserData: *mut c_void) -> bool>;
/// A function that olLaunchHostFunction runs in a queue's order, on any thread.
pub type ol_host_function_cb_t = Option<unsafe extern "C" fn(UserData: *mut c_void)>;
/// A function for requests of a device to the host.
pub type ol_platform_rpc_cb_t =
    Option<unsafe extern "C" fn(Port: *mut c_void, NumLanes: u32) -> u32>;

pointees!(ol_dimensions_t, ol_init_args_t, ol_kernel_launch_size_args_t, ol_kernel_launch_prop_t);
pointees!(ol_platform_backend_t, ol_code_location_t);

/// Implements the display of callbacks by their addresses.
macro_rules! callbacks {
    ($($kind:ty),*) => {$(
        impl TraceValue for $kind {
            fn show(&self, line: &mut String) {
                let address = self.map_or(std::ptr::null(), |function| function as *const c_void);
                address.show(line);
            }
        }
    )*};
}
callbacks!(ol_device_iterate_cb_t, ol_host_function_cb_t, ol_platform_rpc_cb_t);

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn fields_have_their_names_in_c() {
        let (r#type, data) = (OL_KERNEL_LAUNCH_PROP_TYPE_NONE, ptr::null_mut());
        let mut line = String::new();
        ol_kernel_launch_prop_t { r#type, data }.show(&mut line);
        let shown = ".type = OL_KERNEL_LAUNCH_PROP_TYPE_NONE, .data = nullptr";
        assert_eq!(line, format!("(struct ol_kernel_launch_prop_t){{{shown}}}"));
    }
}
