//! The listening communicator of the RMA tables.

use std::sync::Arc;

use braid::ConnectionRequest;

use crate::device_context::DeviceContext;
use crate::handle::{Address, HANDLE_LEN};

/// A number under which ranks reach this one. It is valid until the last owner drops it: NCCL
/// closes the listening communicator when the group is connected, and the group connects later
/// contexts by the same number.
pub(super) struct Listening {
    context: Arc<DeviceContext>,
    number: u64,
}

impl Listening {
    pub(super) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    pub(super) fn address(&self) -> Address {
        Address { engine: self.context.local_addr(), listener: self.number }
    }

    /// Returns the next connection request. Does not wait.
    pub(super) fn next_request(&self) -> Option<ConnectionRequest> {
        self.context.next_request(self.number)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.context.stop_listening(self.number);
    }
}

/// The `listenComm` of NCCL.
pub(crate) struct RmaListener {
    pub(super) listening: Arc<Listening>,
    /// Version of the table.
    pub(super) table: u8,
}

impl RmaListener {
    /// Starts to listen and returns the handle for the other ranks.
    pub(crate) fn new(context: Arc<DeviceContext>, table: u8) -> (Self, [u8; HANDLE_LEN]) {
        let number = context.start_listening();
        let listening = Arc::new(Listening { context, number });
        let handle = listening.address().to_rma_handle(table);
        (RmaListener { listening, table }, handle)
    }

    /// Returns whether this process created the communicator.
    pub(crate) fn is_here(&self) -> bool {
        self.listening.context.is_here()
    }
}
