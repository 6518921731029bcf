//! The listening communicator, and accepting.

use std::sync::Arc;

use crate::comm::{Comm, RecvComm};
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::greeting::greeting;
use crate::handle::{Address, HANDLE_LEN};

/// What NCCL holds as `listenComm`.
pub(crate) struct ListenComm {
    context: Arc<DeviceContext>,
    number: u64,
}

impl ListenComm {
    /// Takes connections of those who have the handle.
    pub(crate) fn new(context: Arc<DeviceContext>) -> (Self, [u8; HANDLE_LEN]) {
        let number = context.start_listening();
        let address = Address { engine: context.local_addr(), listener: number };
        (ListenComm { context, number }, address.to_handle())
    }

    /// Whether this process has made it.
    pub(crate) fn is_here(&self) -> bool {
        self.context.is_here()
    }

    /// The communicator with the next peer that wants to connect; `None`: none has come so far.
    ///
    /// # Errors
    /// A resource of the system is missing, the peer went away meanwhile, or another process
    /// listens.
    pub(crate) fn accept(&self) -> Result<Option<Arc<Comm>>, Error> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        let Some(request) = self.context.next_request(self.number) else {
            return Ok(None);
        };
        let recv = RecvComm::new(self.context.clone(), request.peer_addr())?;
        request.accept(&recv.queue_pair(), &greeting(self.number))?;
        Ok(Some(Comm::recv(recv)))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        self.context.stop_listening(self.number);
    }
}
