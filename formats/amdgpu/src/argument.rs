//! Arguments of kernels.

use serde::Deserialize;
use std::fmt;

/// A part of the memory from which a kernel reads its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Argument {
    /// Offset in bytes from the start of that memory.
    #[serde(rename = ".offset")]
    pub offset: u32,
    /// Size in bytes.
    #[serde(rename = ".size")]
    pub bytes: u32,
    /// The contents of this part.
    #[serde(rename = ".value_kind")]
    pub kind: ArgumentKind,
}

macro_rules! kinds {
    ($($name:literal $kind:ident $doc:literal,)*) => {
        /// The contents of an argument. Kinds that begin with `Hidden` are passed by the runtime
        /// instead of the program.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
        #[serde(from = "String")]
        #[non_exhaustive]
        pub enum ArgumentKind {
            $(#[doc = $doc] $kind,)*
            /// Another kind, by its name in the code object.
            Other(String),
        }

        impl From<String> for ArgumentKind {
            /// Converts a code object's name of a kind to the kind.
            fn from(name: String) -> ArgumentKind {
                match name.as_str() {
                    $($name => ArgumentKind::$kind,)*
                    _ => ArgumentKind::Other(name),
                }
            }
        }

        impl ArgumentKind {
            /// Returns the kind's name in the code object: "by_value", "hidden_block_count_x".
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(ArgumentKind::$kind => $name,)*
                    ArgumentKind::Other(name) => name,
                }
            }
        }
    };
}

kinds! {
    "by_value" ByValue "A value.",
    "global_buffer" GlobalBuffer "An address of global memory.",
    "dynamic_shared_pointer" DynamicSharedPointer "An offset of dynamic shared memory.",
    "sampler" Sampler "The address of a sampler's description.",
    "image" Image "The address of an image's description.",
    "pipe" Pipe "The address of a pipe.",
    "queue" Queue "The address of a queue.",
    "hidden_none" HiddenNone "An unused place.",
    "hidden_global_offset_x" HiddenGlobalOffsetX "The number of the first work-item in x.",
    "hidden_global_offset_y" HiddenGlobalOffsetY "The number of the first work-item in y.",
    "hidden_global_offset_z" HiddenGlobalOffsetZ "The number of the first work-item in z.",
    "hidden_block_count_x" HiddenBlockCountX "The number of full groups in x.",
    "hidden_block_count_y" HiddenBlockCountY "The number of full groups in y.",
    "hidden_block_count_z" HiddenBlockCountZ "The number of full groups in z.",
    "hidden_group_size_x" HiddenGroupSizeX "The work-items of a group in x.",
    "hidden_group_size_y" HiddenGroupSizeY "The work-items of a group in y.",
    "hidden_group_size_z" HiddenGroupSizeZ "The work-items of a group in z.",
    "hidden_remainder_x" HiddenRemainderX "The work-items of the partial group in x.",
    "hidden_remainder_y" HiddenRemainderY "The work-items of the partial group in y.",
    "hidden_remainder_z" HiddenRemainderZ "The work-items of the partial group in z.",
    "hidden_grid_dims" HiddenGridDims "The number of the grid's dimensions.",
    "hidden_printf_buffer" HiddenPrintfBuffer "The address of the buffer of OpenCL's `printf`.",
    "hidden_hostcall_buffer" HiddenHostcallBuffer "The address of the buffer for host calls.",
    "hidden_heap_v1" HiddenHeapV1 "The address of the heap of `malloc`.",
    "hidden_default_queue" HiddenDefaultQueue "A queue that kernels launch to.",
    "hidden_completion_action" HiddenCompletionAction "The completion action of device launches.",
    "hidden_multigrid_sync_arg" HiddenMultigridSyncArg "The address of data that syncs grids.",
    "hidden_dynamic_lds_size" HiddenDynamicLdsSize "The size of dynamic shared memory.",
    "hidden_private_base" HiddenPrivateBase "The upper half of addresses of private memory.",
    "hidden_shared_base" HiddenSharedBase "The upper half of addresses of shared memory.",
    "hidden_queue_ptr" HiddenQueuePtr "The queue that the kernel was launched to.",
}

impl ArgumentKind {
    /// Returns whether the runtime passes the argument instead of the program.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.name().starts_with("hidden_")
    }
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_the_code_object() {
        for (name, kind, is_hidden) in [
            ("by_value", ArgumentKind::ByValue, false),
            ("hidden_queue_ptr", ArgumentKind::HiddenQueuePtr, true),
            ("hidden_of_tomorrow", ArgumentKind::Other("hidden_of_tomorrow".into()), true),
            ("tensor", ArgumentKind::Other("tensor".into()), false),
        ] {
            assert_eq!(ArgumentKind::from(name.to_owned()), kind);
            assert_eq!((kind.to_string().as_str(), kind.is_hidden()), (name, is_hidden));
        }
    }
}
