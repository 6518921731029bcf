//! Communicators with a peer: what NCCL holds as `sendComm` and `recvComm`.

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
use crate::memory::Registration;

pub(crate) use limits::{MAX_RECVS, Sizes};
pub(crate) use recv::{Buffer, RecvComm};
pub(crate) use send::{Message, SendComm};

/// A communicator of either kind, with a ticket for each request that it can have outstanding.
///
/// NCCL holds its address, and those of its tickets as requests; so it is shared, and stays where it is.
pub(crate) struct Comm {
    end: End,
    tickets: Box<[Ticket]>,
}

enum End {
    Send(SendComm),
    Recv(RecvComm),
}

/// What NCCL holds as `request`.
pub(crate) struct Ticket {
    /// The communicator that this is a part of.
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

    /// Whether this process has made it.
    pub(crate) fn is_here(&self) -> bool {
        self.context().is_here()
    }

    fn context(&self) -> &Arc<DeviceContext> {
        match &self.end {
            End::Send(comm) => comm.context(),
            End::Recv(comm) => comm.context(),
        }
    }

    /// The end, unless it is the parent's of this process.
    fn end(&self) -> Result<&End, Error> {
        if self.is_here() { Ok(&self.end) } else { Err(Error::Forked) }
    }

    /// Its sending end.
    ///
    /// # Errors
    /// The communicator receives, or another process has made it.
    pub(crate) fn sender(&self) -> Result<&SendComm, Error> {
        match self.end()? {
            End::Send(comm) => Ok(comm),
            End::Recv(_) => Err(Error::WrongComm { is: "receive", needed: "send" }),
        }
    }

    /// Its receiving end.
    ///
    /// # Errors
    /// The communicator sends, or another process has made it.
    pub(crate) fn receiver(&self) -> Result<&RecvComm, Error> {
        match self.end()? {
            End::Recv(comm) => Ok(comm),
            End::Send(_) => Err(Error::WrongComm { is: "send", needed: "receive" }),
        }
    }

    /// Registers memory for this kind of communicator.
    ///
    /// # Errors
    /// No bytes, no key is left, or another process has made the communicator.
    ///
    /// # Safety
    /// As for [`crate::memory::RegionCache::register`].
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
    ) -> Result<Registration, Error> {
        let receives = matches!(self.end()?, End::Recv(_));
        let context = self.context();
        // SAFETY: the caller vouches for the memory.
        let region = unsafe { context.regions.register(start, len, receives) }?;
        Ok(Registration::new(region, context.clone()))
    }

    /// What NCCL gets for the request of this number.
    pub(crate) fn ticket(&self, index: usize) -> *const Ticket {
        &raw const self.tickets[index]
    }
}

impl Ticket {
    /// Whether the request is done, with the sizes of its messages. A request that is done is over.
    ///
    /// # Errors
    /// The communicator broke before the request was done, is being closed, or was made by another
    /// process.
    pub(crate) fn test(&self) -> Result<Option<Sizes>, Error> {
        match self.comm.upgrade().ok_or(Error::StaleRequest)?.end()? {
            End::Send(comm) => comm.test(self.index),
            End::Recv(comm) => comm.test(self.index),
        }
    }
}
