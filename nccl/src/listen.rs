//! The listening communicator, and accepting.

use std::sync::Arc;

use crate::comm::{Comm, RecvComm};
use crate::error::Error;
use crate::greeting::greeting;
use crate::handle::{Address, HANDLE_LEN};
use crate::hub::Hub;

/// What NCCL holds as `listenComm`.
pub(crate) struct ListenComm {
    hub: Arc<Hub>,
    number: u64,
}

impl ListenComm {
    /// Takes connections of those who have the handle.
    pub(crate) fn new(hub: Arc<Hub>) -> (Self, [u8; HANDLE_LEN]) {
        let number = hub.start_listening();
        let address = Address { engine: hub.local_addr(), listener: number };
        (ListenComm { hub, number }, address.to_handle())
    }

    /// The communicator with the next peer that wants to connect; `None`: none has come so far.
    ///
    /// # Errors
    /// A resource of the system is missing, or the peer went away meanwhile.
    pub(crate) fn accept(&self) -> Result<Option<Arc<Comm>>, Error> {
        let Some(request) = self.hub.next_request(self.number) else {
            return Ok(None);
        };
        let recv = RecvComm::new(self.hub.clone(), request.peer_addr())?;
        request.accept(&recv.queue_pair(), &greeting(self.number))?;
        Ok(Some(Comm::recv(recv)))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        self.hub.stop_listening(self.number);
    }
}
