//! Images: formats, containers, the choice of an image and its life.
//!
//! An [`Image`](crate::Image) owns the bytes of device code. [`Image::read`](crate::Image::read)
//! reads a file of at most 4 GiB. `Image::from` copies a slice, and takes over a `Vec` or a memory
//! map. Clones and entries of a container share the storage.
//!
//! # Formats and containers
//!
//! [`Image::format`](crate::Image::format) recognises the bytes. The plugins of this project take:
//!
//! | backend | formats |
//! | --- | --- |
//! | `host` | ELF shared objects, relocatable objects, archives of relocatable objects |
//! | `cuda` | PTX, cubin, fatbin |
//! | `amdgpu` | code objects |
//! | `vulkan` | SPIR-V, WGSL |
//!
//! The first three also take LLVM bitcode for their devices, which the library compiles:
//! `docs/bitcode-images.md`.
//!
//! For every backend, [`Image::entries`](crate::Image::entries) opens containers: LLVM's
//! OffloadBinary, clang's offload bundle, compressed or not, and ELF files with sections of these.
//! A container has at most 1024 images, 256 MiB of decompressed bytes, and a depth of four.
//!
//! ```
//! use longshore::{Image, OffloadImage, write_offload_binary};
//!
//! let wgsl = b"@compute @workgroup_size(1) fn main() {}";
//! let vulkan = OffloadImage::new(wgsl).with_triple("spirv-unknown-vulkan");
//! let cuda = OffloadImage::new(b".version 8.0").with_arch("sm_90");
//! let container = Image::from(write_offload_binary(&[vulkan, cuda]));
//!
//! let entries = container.entries()?.expect("an OffloadBinary is a container");
//! assert_eq!(entries[0].image.bytes(), wgsl);
//! assert_eq!((entries.len(), entries[1].arch.as_str()), (2, "sm_90"));
//! # Ok::<(), longshore::Error>(())
//! ```
//!
//! # The choice
//!
//! [`Device::load`](crate::Device::load) loads the image itself if the plugin
//! [accepts](crate::Device::accepts) it. Else the plugin scores the entries of the container by
//! contents, triple and architecture. The highest score wins; among equals, code of the device
//! precedes bitcode, and the first entry wins. If the plugin refuses all entries, the error
//! `InvalidBinary` has the reason for each. [`Device::suits`](crate::Device::suits) makes this
//! choice without loading, and [`Host::device_for`](crate::Host::device_for) opens the first device
//! for which it succeeds.
//!
//! # Life
//!
//! `load` chooses the image, has the plugin load it, runs its constructors, and returns the
//! [`Program`](crate::Program). With [lazy linking](crate::LoadOptions::with_lazy_linking), the
//! first launch of a kernel links it.
//!
//! [`Program::unload`](crate::Program::unload), the drop of the last handle to the program, and the
//! close of its device unload the image:
//!
//! 1. The library waits for the queues that use the program.
//! 2. Destructors run, in reverse order.
//! 3. The totals of the device receive the image's memory-pool tracker.
//! 4. The library reads the profile and writes it to a file.
//! 5. Program and globals leave the tables of the device.
//! 6. The plugin unloads the image, and the library frees the bytes.
//!
//! After a step that fails, the later ones still run. `unload` returns the first error and logs the
//! rest.
//!
//! # Safety
//!
//! An image is code. Its constructors, resolvers and destructors run without a launch, on the CPU
//! inside the program and unchecked. `load` is therefore `unsafe`: the caller vouches for the
//! image, as for a library that the program opens.
//! [`Device::load_verified`](crate::Device::load_verified) is safe, since it refuses images that
//! the backend does not verify. A launch is always `unsafe`: the caller vouches for the arguments,
//! and for all addresses that the kernel accesses.
