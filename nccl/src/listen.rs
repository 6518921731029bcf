//! The listening communicator.

use std::sync::Arc;

use crate::comm::{Comm, RecvComm};
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::greeting::{greeting, wanted_listener};
use crate::handle::{Address, HANDLE_LEN};
use crate::traffic_class::TrafficClass;

/// The `listenComm` of NCCL.
pub(crate) struct ListenComm {
    context: Arc<DeviceContext>,
    number: u64,
    traffic_class: TrafficClass,
}

impl ListenComm {
    /// Starts to listen and returns the handle for connecting ranks.
    pub(crate) fn new(
        context: Arc<DeviceContext>,
        traffic_class: TrafficClass,
    ) -> (Self, [u8; HANDLE_LEN]) {
        let number = context.start_listening();
        let address = Address { engine: context.local_addr(), listener: number };
        (ListenComm { context, number, traffic_class }, address.to_handle())
    }

    /// Returns whether this process created the communicator.
    pub(crate) fn is_here(&self) -> bool {
        self.context.is_here()
    }

    /// Returns the communicator with the next connecting peer, or `None` if no peer has connected
    /// yet.
    ///
    /// # Errors
    /// If the system lacks a resource, the peer has gone in the meantime, or another process
    /// listens.
    pub(crate) fn accept(&self) -> Result<Option<Arc<Comm>>, Error> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        let Some(request) = self.context.next_request(self.number) else {
            return Ok(None);
        };
        if wanted_listener(request.private_data()).is_none() {
            request.reject();
            return Ok(None);
        }
        let recv = RecvComm::new(self.context.clone(), request.peer_addr())?;
        let qp = recv.queue_pair();
        self.traffic_class.apply(&qp);
        request.accept(&qp, &greeting(self.number))?;
        Ok(Some(Comm::recv(recv)))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        self.context.stop_listening(self.number);
    }
}
