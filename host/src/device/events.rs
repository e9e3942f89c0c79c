//! The events of a device. They are destroyed before the device.

use crate::backend::AnyEvent;
use crate::rundown::Rundown;
use std::sync::Arc;

/// An event of a plugin; closed once the event is destroyed.
pub(crate) type EventCore = Rundown<AnyEvent>;

/// The events of a device, among them destroyed ones that are not pruned yet.
#[derive(Default)]
pub(super) struct Events {
    cores: Vec<Arc<EventCore>>,
    prune_at: usize,
}

impl Events {
    pub(super) fn add(&mut self, core: &Arc<EventCore>) {
        if self.cores.len() >= self.prune_at {
            self.cores.retain(|core| !core.is_closed());
            self.prune_at = (2 * self.cores.len()).max(64);
        }
        self.cores.push(Arc::clone(core));
    }

    pub(super) fn close(&mut self) {
        for core in self.cores.drain(..) {
            drop(core.take());
        }
    }
}
