//! # The Vulkan backend of Longshore
