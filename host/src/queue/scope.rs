//! Copies that borrow memory of the program and do not block.

use super::Queue;
use super::core::QueueCore;
use crate::memory::{BufferSlice, Element, element};
use longshore_plugin_api::Result;
use std::marker::PhantomData;
use std::sync::Arc;

/// A scope of [`Queue::scope`], in which copies borrow memory of the program until the scope ends.
pub struct Scope<'scope, 'env: 'scope> {
    queue: &'scope Queue,
    /// Invariant, as in `std::thread::Scope`: `'scope` cannot be shortened to a borrow that ends
    /// inside the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Queue {
    /// Calls `body` with a scope for copies that borrow memory of the program, and do not block.
    /// Then blocks until all queued work is done, also if `body` fails or panics. So no borrow can
    /// end before its copy, whatever `body` does with the values that it gets; there is no guard
    /// that a program could forget. The closure may also launch kernels on the queue.
    ///
    /// ```
    /// # let host = longshore::Host::new()?;
    /// # if host.devices().is_empty() { return Ok(()) }
    /// # let device = host.default_device()?;
    /// # let queue = device.queue()?;
    /// let buffer = device.buffer::<f32>(&queue, 4)?;
    /// let (values, mut results) = (vec![1.0, 2.0, 3.0, 4.0], [0.0; 2]);
    /// queue.scope(|scope| {
    ///     scope.write(&buffer, &values)?;
    ///     // Launches of kernels, which the copies precede and follow.
    ///     scope.read(buffer.slice(2..)?, &mut results)
    /// })?;
    /// assert_eq!(results, [3.0, 4.0]);
    /// # Ok::<(), longshore::Error>(())
    /// ```
    ///
    /// Memory of the closure itself ends too early:
    ///
    /// ```compile_fail,E0597
    /// # use longshore::{Buffer, Queue, Result};
    /// # fn write(queue: &Queue, buffer: &Buffer<f32>) -> Result<()> {
    /// queue.scope(|scope| {
    ///     let values = vec![1.0, 2.0];
    ///     scope.write(buffer, &values)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// Errors of `body`; else errors of [`Queue::synchronize`].
    pub fn scope<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.refuse_inside("waiting for a scope")?;
        let unwinding = Finish(self.core());
        let scope = Scope { queue: self, scope: PhantomData, env: PhantomData };
        let result = body(&scope);
        std::mem::forget(unwinding);
        let finished = self.core().finish();
        let result = result?;
        finished.map_err(|error| self.device.core().explain(error))?;
        self.core().take_pending_error()?;
        Ok(result)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Returns the queue of the scope.
    pub fn queue(&self) -> &'scope Queue {
        self.queue
    }

    /// Queues a copy of `values` to the start of a buffer or slice. Does not wait for the copy,
    /// unless the buffer's zeros are queued on another queue.
    ///
    /// # Errors
    /// `InvalidSize` if there are more values than elements; errors of [`Queue::copy_from_host`].
    pub fn write<'a, T: Element>(
        &'scope self,
        to: impl Into<BufferSlice<'a, T>>,
        values: &'scope [T],
    ) -> Result<()> {
        let (to, bytes) = (to.into(), element::bytes(values));
        to.fits(values.len())?;
        to.buffer().order_zeros(self.queue)?;
        let from = bytes.as_ptr().expose_provenance() as u64;
        self.queue.queue_write(to.pointer(), to.device(), from, bytes.len() as u64)
    }

    /// Queues a copy of the start of a buffer or slice to `values`. Does not wait, as for
    /// [`Scope::write`].
    ///
    /// # Errors
    /// As for [`Scope::write`].
    pub fn read<'a, T: Element>(
        &'scope self,
        from: impl Into<BufferSlice<'a, T>>,
        values: &'scope mut [T],
    ) -> Result<()> {
        let from = from.into();
        from.fits(values.len())?;
        from.buffer().order_zeros(self.queue)?;
        let bytes = element::bytes_mut(values);
        let to = bytes.as_mut_ptr().expose_provenance() as u64;
        self.queue.queue_read(from.pointer(), from.device(), to, bytes.len() as u64)
    }
}

/// A guard of the unwinding of a scope's body.
struct Finish<'a>(&'a Arc<QueueCore>);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.finish() {
            log::error!("a scope of a queue, while a panic unwinds: {error}");
        }
    }
}
