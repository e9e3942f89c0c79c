//! wgpu as a peer.

use crate::kernels::EMPTY;
use anyhow::{Context, Result};

/// A device of wgpu with the empty kernel.
pub(crate) struct WebGpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
}

impl WebGpu {
    /// Opens the device with this name.
    pub(crate) fn new(name: &str) -> Result<WebGpu> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: wgpu::Backends::VULKAN,
            flags: wgpu::InstanceFlags::empty(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
        let mut adapters = adapters.into_iter();
        let adapter = adapters.find(|adapter| adapter.get_info().name == name);
        let adapter = adapter.with_context(|| format!("it does not know '{name}'"))?;
        let limits = wgpu::DeviceDescriptor {
            required_limits: adapter.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&limits))?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(EMPTY.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("empty"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Ok(WebGpu { device, queue, pipeline })
    }

    pub(crate) fn launch_and_wait(&self) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        pass.dispatch_workgroups(1, 1, 1);
        drop(pass);
        let submitted = self.queue.submit([encoder.finish()]);
        let wait = wgpu::PollType::Wait { submission_index: Some(submitted), timeout: None };
        self.device.poll(wait).expect("it ends");
    }
}
