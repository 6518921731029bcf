//! Communicators with a peer: the `sendComm` and `recvComm` of NCCL.

mod connection;
mod limits;
mod linger;
mod offer;
mod recv;
mod send;
mod tally;

use std::sync::{Arc, Weak};

use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::memory::{MemoryKind, MemoryUse, Registration};

pub(crate) use connection::Connection;
pub(crate) use limits::{MAX_RECVS, Sizes};
pub(crate) use linger::{Moment, waits_since};
pub(crate) use recv::{Buffer, RecvComm};
pub(crate) use send::{Message, SendComm};
pub(crate) use tally::Tally;

/// A communicator of either kind, with a ticket for each possible outstanding request.
///
/// NCCL holds its address and those of its tickets as requests, so it is shared and never moves.
pub(crate) struct Comm {
    end: End,
    tickets: Box<[Ticket]>,
}

enum End {
    Send(SendComm),
    Recv(RecvComm),
}

/// The `request` of NCCL.
pub(crate) struct Ticket {
    /// The communicator of the ticket.
    comm: Weak<Comm>,
    index: usize,
}

impl Comm {
    pub(crate) fn send(comm: SendComm) -> Arc<Self> {
        Comm::new(End::Send(comm), limits::MAX_REQUESTS)
    }

    pub(crate) fn recv(comm: RecvComm) -> Arc<Self> {
        Comm::new(End::Recv(comm), limits::MAX_GROUPS)
    }

    fn new(end: End, requests: usize) -> Arc<Self> {
        Arc::new_cyclic(|comm| {
            let ticket = |index| Ticket { comm: comm.clone(), index };
            Comm { end, tickets: (0..requests).map(ticket).collect() }
        })
    }

    /// Returns whether this process created the communicator.
    pub(crate) fn is_here(&self) -> bool {
        self.context().is_here()
    }

    fn context(&self) -> &Arc<DeviceContext> {
        match &self.end {
            End::Send(comm) => comm.context(),
            End::Recv(comm) => comm.context(),
        }
    }

    /// Returns the end, unless this is a forked child.
    fn end(&self) -> Result<&End, Error> {
        if self.is_here() { Ok(&self.end) } else { Err(Error::Forked) }
    }

    /// Returns the sending end.
    ///
    /// # Errors
    /// If the communicator receives, or another process created it.
    pub(crate) fn sender(&self) -> Result<&SendComm, Error> {
        match self.end()? {
            End::Send(comm) => Ok(comm),
            End::Recv(_) => Err(Error::WrongComm { is: "receive", needed: "send" }),
        }
    }

    /// Returns the receiving end.
    ///
    /// # Errors
    /// If the communicator sends, or another process created it.
    pub(crate) fn receiver(&self) -> Result<&RecvComm, Error> {
        match self.end()? {
            End::Recv(comm) => Ok(comm),
            End::Send(_) => Err(Error::WrongComm { is: "send", needed: "receive" }),
        }
    }

    /// Registers memory for this kind of communicator.
    ///
    /// # Errors
    /// If the length is 0, no key is left, or another process created the communicator.
    ///
    /// # Safety
    /// See [`crate::memory::RegionCache::register`].
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
    ) -> Result<Registration, Error> {
        let purpose = match self.end()? {
            End::Send(_) => MemoryUse::Send,
            End::Recv(_) => MemoryUse::Receive,
        };
        let context = self.context();
        // SAFETY: the caller vouches for the memory.
        let region = unsafe { context.regions.register(start, len, MemoryKind::Host, purpose) }?;
        Ok(Registration::new(region, context.clone()))
    }

    /// Returns NCCL's pointer for the request with this number.
    pub(crate) fn ticket(&self, index: usize) -> *const Ticket {
        &raw const self.tickets[index]
    }
}

impl Ticket {
    /// Returns whether the request is complete, with the lengths of its messages. A complete
    /// request has ended.
    ///
    /// # Errors
    /// If the communicator broke before the request was complete, is being closed, or was created
    /// by another process.
    pub(crate) fn test(&self) -> Result<Option<Sizes>, Error> {
        match self.comm.upgrade().ok_or(Error::StaleRequest)?.end()? {
            End::Send(comm) => comm.test(self.index),
            End::Recv(comm) => comm.test(self.index),
        }
    }
}
