//! What kernels are called with.

use serde::Deserialize;
use std::fmt;

/// A part of the memory from which a kernel reads what it is called with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Argument {
    /// In bytes from the start of that memory.
    #[serde(rename = ".offset")]
    pub offset: u32,
    /// Its size.
    #[serde(rename = ".size")]
    pub bytes: u32,
    /// What stands there.
    #[serde(rename = ".value_kind")]
    pub kind: ArgumentKind,
}

macro_rules! kinds {
    ($($name:literal $kind:ident $doc:literal,)*) => {
        /// What stands in an argument. Those that a program does not pass, but the runtime, begin with
        /// `Hidden`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
        #[serde(from = "String")]
        #[non_exhaustive]
        pub enum ArgumentKind {
            $(#[doc = $doc] $kind,)*
            /// Another one, by its name in the code object.
            Other(String),
        }

        impl From<String> for ArgumentKind {
            /// Returns the kind that a code object calls so.
            fn from(name: String) -> ArgumentKind {
                match name.as_str() {
                    $($name => ArgumentKind::$kind,)*
                    _ => ArgumentKind::Other(name),
                }
            }
        }

        impl ArgumentKind {
            /// Its name in the code object: "by_value", "hidden_block_count_x".
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
    "hidden_none" HiddenNone "Nothing.",
    "hidden_global_offset_x" HiddenGlobalOffsetX "Where the numbers of work-items begin.",
    "hidden_global_offset_y" HiddenGlobalOffsetY "The same, second dimension.",
    "hidden_global_offset_z" HiddenGlobalOffsetZ "The same, third dimension.",
    "hidden_block_count_x" HiddenBlockCountX "Groups that are whole.",
    "hidden_block_count_y" HiddenBlockCountY "The same, second dimension.",
    "hidden_block_count_z" HiddenBlockCountZ "The same, third dimension.",
    "hidden_group_size_x" HiddenGroupSizeX "Work-items of a group.",
    "hidden_group_size_y" HiddenGroupSizeY "The same, second dimension.",
    "hidden_group_size_z" HiddenGroupSizeZ "The same, third dimension.",
    "hidden_remainder_x" HiddenRemainderX "Work-items of the group that is not whole.",
    "hidden_remainder_y" HiddenRemainderY "The same, second dimension.",
    "hidden_remainder_z" HiddenRemainderZ "The same, third dimension.",
    "hidden_grid_dims" HiddenGridDims "How many dimensions the grid has.",
    "hidden_printf_buffer" HiddenPrintfBuffer "Where `printf` of OpenCL writes to.",
    "hidden_hostcall_buffer" HiddenHostcallBuffer "Where the host is asked for services.",
    "hidden_heap_v1" HiddenHeapV1 "Where `malloc` takes memory from.",
    "hidden_default_queue" HiddenDefaultQueue "A queue that kernels launch to.",
    "hidden_completion_action" HiddenCompletionAction "Who waits for kernels that kernels launch.",
    "hidden_multigrid_sync_arg" HiddenMultigridSyncArg "By what grids wait for each other.",
    "hidden_dynamic_lds_size" HiddenDynamicLdsSize "The size of dynamic shared memory.",
    "hidden_private_base" HiddenPrivateBase "The upper half of addresses of private memory.",
    "hidden_shared_base" HiddenSharedBase "The upper half of addresses of shared memory.",
    "hidden_queue_ptr" HiddenQueuePtr "The queue that the kernel was launched to.",
}

impl ArgumentKind {
    /// Whether the runtime passes it, and not the program.
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
