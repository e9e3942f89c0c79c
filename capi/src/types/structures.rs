//! Structures, handles and types of callbacks.

use super::declare::{handles, structures};
use super::enumerations::*;
use super::trace::{Pointee, Shown, pointees};
use std::ffi::{c_char, c_void};

handles! {
    /// A platform: what one plugin offers. It lives until the last olShutDown.
    ol_platform_handle_t = ol_platform_impl_t;
    /// A device. It lives until the last olShutDown.
    ol_device_handle_t = ol_device_impl_t;
    /// Declared, and used by nothing.
    ol_context_handle_t = ol_context_impl_t;
    /// A queue, until olDestroyQueue.
    ol_queue_handle_t = ol_queue_impl_t;
    /// An event, until olDestroyEvent.
    ol_event_handle_t = ol_event_impl_t;
    /// A loaded image, until olDestroyProgram.
    ol_program_handle_t = ol_program_impl_t;
    /// A kernel or a global variable of a program, as long as that lives.
    ol_symbol_handle_t = ol_symbol_impl_t;
}

structures! {
    /// What went wrong. It lives as long as the process, and is never freed.
    ol_error_struct_t {
        /// The kind of error.
        Code: ol_errc_t,
        /// A text for people, never null.
        Details: *const c_char,
    }
    /// A place in the program, for errors to name. It is read during the call alone.
    ol_code_location_t {
        /// The function; may be null.
        FunctionName: *const c_char,
        /// The file; may be null.
        SourceFile: *const c_char,
        /// The line, from 1.
        LineNumber: u32,
        /// The column, from 1.
        ColumnNumber: u32,
    }
    /// A number for each dimension.
    ol_dimensions_t {
        /// The first.
        x: u32,
        /// The second.
        y: u32,
        /// The third.
        z: u32,
    }
    /// What olInit is given. It is read during the call alone.
    ol_init_args_t {
        /// The size of this structure in bytes.
        Size: usize,
        /// How many backends are named; 0 for all.
        NumPlatforms: u32,
        /// The backends to use. That of the host is used in any case.
        Platforms: *const ol_platform_backend_t,
    }
    /// How many work-groups of how many work-items run a kernel.
    ol_kernel_launch_size_args_t {
        /// How many dimensions are meant. All three are used whatever it says.
        Dimensions: usize,
        /// Work-groups, at least 1 in each dimension.
        NumGroups: ol_dimensions_t,
        /// Work-items of a group, at least 1 in each dimension.
        GroupSize: ol_dimensions_t,
        /// Dynamic shared memory of a group in bytes.
        DynSharedMemory: usize,
    }
    /// One more thing about a launch. It is read during the call alone.
    ol_kernel_launch_prop_t {
        /// What is said, and which type `data` points to.
        r#type: ol_kernel_launch_prop_type_t,
        /// Points to what is said.
        data: *mut c_void,
    }
}

/// Flags of `ol_device_fp_capability_flag_t`.
pub type ol_device_fp_capability_flags_t = u32;
/// Flags of `ol_memory_register_flag_t`.
pub type ol_memory_register_flags_t = u32;
/// Flags of `ol_mem_migration_flag_t`.
pub type ol_mem_migration_flags_t = u32;
/// What functions return: null if all went well.
pub type ol_result_t = *const ol_error_struct_t;

/// What olIterateDevices calls for each device, on its caller's thread; false ends that.
pub type ol_device_iterate_cb_t =
    Option<unsafe extern "C" fn(Device: ol_device_handle_t, UserData: *mut c_void) -> bool>;
/// What olLaunchHostFunction has called in a queue's order, on any thread.
pub type ol_host_function_cb_t = Option<unsafe extern "C" fn(UserData: *mut c_void)>;
/// Is called for what a device asks of the host.
pub type ol_platform_rpc_cb_t =
    Option<unsafe extern "C" fn(Port: *mut c_void, NumLanes: u32) -> u32>;

pointees!(ol_dimensions_t, ol_init_args_t, ol_kernel_launch_size_args_t, ol_kernel_launch_prop_t);
pointees!(ol_platform_backend_t, ol_code_location_t);

/// Shows callbacks, by their addresses.
macro_rules! callbacks {
    ($($kind:ty),*) => {$(
        impl Shown for $kind {
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
