//! The events of a device, which go before it.

use crate::backend::AnyEvent;
use crate::rundown::Rundown;
use std::sync::Arc;

/// An event of a plugin, until it is destroyed.
pub(crate) type EventCore = Rundown<AnyEvent>;

/// The events of a device, and some that were destroyed.
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
