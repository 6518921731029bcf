//! The registry of an open device: its queue pairs and flows of datagrams, by number.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use crate::connect::thread::ControlThread;
use crate::datagram::flow::Flow;
use crate::qp::queue_pair::QueuePair;
use crate::running::Running;

/// The engine of an open device with its queue pairs, and the thread that connects them.
pub(crate) struct Registry {
    /// Set once the thread runs. Dropped first, which ends the thread.
    pub(crate) thread: OnceLock<ControlThread>,
    pub(crate) running: Arc<Running>,
    pub(crate) flows: FlowTable,
    qps: RwLock<HashMap<u32, Weak<QueuePair>>>,
}

impl Registry {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        let (thread, flows, qps) = (OnceLock::new(), FlowTable::default(), RwLock::default());
        Registry { thread, running, flows, qps }
    }

    /// Gives up one reference to the registry. The last one ends the engine, which waits until the
    /// peers know. A thread of the program has to do so, because the process may end before the
    /// control thread does.
    pub(crate) fn release(self: Arc<Self>) {
        let inbox = self.running.inbox.clone();
        let turn = inbox.turn();
        let last = Arc::into_inner(self);
        drop(turn); // the control thread ends in its next turn
        drop(last);
    }

    pub(crate) fn enter(&self, qp: &Arc<QueuePair>) {
        let mut qps = self.qps.write().unwrap_or_else(PoisonError::into_inner);
        qps.insert(qp.number, Arc::downgrade(qp));
    }

    /// Removes a queue pair that is destroyed.
    pub(crate) fn leave(&self, number: u32) {
        self.qps.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    pub(crate) fn qp(&self, number: u32) -> Option<Arc<QueuePair>> {
        self.qps.read().unwrap_or_else(PoisonError::into_inner).get(&number)?.upgrade()
    }
}

/// The flows of datagrams, by the engine's numbers.
#[derive(Default)]
pub(crate) struct FlowTable(RwLock<HashMap<u32, Weak<Flow>>>);

impl FlowTable {
    pub(crate) fn enter(&self, flow: &Arc<Flow>) {
        let mut flows = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if flows.len() == flows.capacity() {
            flows.retain(|_, flow| flow.strong_count() > 0);
        }
        flows.insert(flow.id(), Arc::downgrade(flow));
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Flow>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id)?.upgrade()
    }
}
