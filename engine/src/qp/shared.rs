//! The state that the posting threads and the worker of a queue pair share.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use braid_transport::{PdId, PostError, QpError, QpState, RecvWr, SendWr};
use braid_wire::QpId;

use super::options::QpOptions;
use crate::cq::{Attached, CqShared};
use crate::qp_numbers::QpNumber;
use crate::ring::Ring;
use crate::signals::Signals;
use crate::srq::SrqShared;

/// A work request between the posting thread and the worker.
#[derive(Debug)]
pub(crate) struct PostedSend {
    pub(crate) wr: SendWr,
    pub(crate) inline: Option<u32>,
}

/// A request of another thread to the worker, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Asked {
    /// Move the queue pair to ERR: a completion queue has overrun.
    Overrun = 1,
    /// Repeat the ACCEPT: the peer has repeated its CONNECT.
    Repeat = 2,
}

/// A set of [`Asked`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks(u8);

impl Asks {
    pub(crate) fn is_for(self, what: Asked) -> bool {
        self.0 & what as u8 != 0
    }
}

/// Invariants: a ring never holds more than the queue's `outstanding`, which never exceeds the
/// ring's capacity. So a push after a successful [`Depth::reserve`] succeeds. Only the holder of
/// the worker's lock pops, changes `state` and releases depth.
pub(crate) struct QpShared {
    pub(crate) id: QpId,
    /// The index in the tables.
    place: u16,
    pub(crate) pd: PdId,
    pub(crate) max_sge: usize,
    pub(crate) max_inline: usize,
    pub(crate) send_ring: Ring<PostedSend>,
    pub(crate) recv_ring: Ring<RecvWr>,
    pub(crate) sends: Depth,
    pub(crate) recvs: Depth,
    /// The shared receive queue, which replaces `recv_ring`.
    pub(crate) srq: Option<Arc<SrqShared>>,
    /// The signals of the worker.
    pub(crate) signals: Arc<Signals>,
    pub(crate) send_cq: Arc<CqShared>,
    pub(crate) recv_cq: Arc<CqShared>,
    /// Requests of other threads to the worker, see [`Asked`].
    asked: AtomicU8,
    state: AtomicU8,
    /// The traffic class of the next connection.
    traffic_class: AtomicU8,
    /// The reason for ERR.
    error: Mutex<Option<QpError>>,
    /// Inline buffers that are free.
    pub(crate) free_inline: Ring<u32>,
}

impl QpShared {
    pub(crate) fn new(
        number: QpNumber,
        pd: PdId,
        signals: Arc<Signals>,
        options: &QpOptions,
    ) -> Self {
        let (sends, recvs) = (options.config.max_send_wr, options.config.max_recv_wr);
        let free_inline = Ring::new(sends as usize);
        for index in 0..sends {
            // The ring has a place for each buffer.
            let _ = free_inline.push(index);
        }
        QpShared {
            id: number.id,
            place: number.place,
            pd,
            max_sge: options.max_sge,
            max_inline: options.max_inline,
            send_ring: Ring::new(sends as usize),
            // A ring that stays empty needs no room.
            recv_ring: Ring::new(if options.srq.is_some() { 1 } else { recvs as usize }),
            sends: Depth::new("send", sends),
            recvs: Depth::new("recv", recvs),
            srq: options.srq.as_ref().map(|srq| srq.shared().clone()),
            signals,
            send_cq: options.send_cq.shared().clone(),
            recv_cq: options.recv_cq.shared().clone(),
            asked: AtomicU8::new(0),
            state: AtomicU8::new(QpState::Reset as u8),
            traffic_class: AtomicU8::new(0),
            error: Mutex::default(),
            free_inline,
        }
    }

    pub(crate) fn traffic_class(&self) -> u8 {
        self.traffic_class.load(Ordering::Relaxed)
    }

    pub(crate) fn set_traffic_class(&self, traffic_class: u8) {
        self.traffic_class.store(traffic_class, Ordering::Relaxed);
    }

    /// Releases the places of receives that have ended.
    pub(crate) fn release_recvs(&self, count: u32) {
        match &self.srq {
            Some(srq) => srq.release(count),
            None => self.recvs.release(count),
        }
    }

    /// The index in the worker's table.
    pub(crate) fn index(&self) -> usize {
        self.place.into()
    }

    pub(crate) fn number(&self) -> QpNumber {
        QpNumber { id: self.id, place: self.place }
    }

    /// Requests `what` from the worker.
    pub(crate) fn ask(&self, what: Asked) {
        self.asked.fetch_or(what as u8, Ordering::Release);
        self.ring();
    }

    /// Wakes the worker to read the rings and the requests.
    pub(crate) fn ring(&self) {
        self.signals.ring(self.index());
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_asked(&self) -> Asks {
        let nothing = self.asked.load(Ordering::Relaxed) == 0;
        Asks(if nothing { 0 } else { self.asked.swap(0, Ordering::AcqRel) })
    }

    pub(crate) fn state(&self) -> QpState {
        QpState::from_u8(self.state.load(Ordering::Acquire)).unwrap_or(QpState::Error)
    }

    /// Stores the error before the state, so that a reader of ERR finds the error.
    pub(crate) fn set_state(&self, state: QpState, error: Option<QpError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        self.state.store(state as u8, Ordering::Release);
    }

    pub(crate) fn error(&self) -> Option<QpError> {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attached for QpShared {
    fn on_overrun(&self) {
        self.ask(Asked::Overrun);
    }
}

/// The number of outstanding work requests of one queue. A work request is outstanding from posting
/// until its completion is in the completion queue. An unsignalled one is outstanding until it has
/// ended.
pub(crate) struct Depth {
    queue: &'static str,
    capacity: u32,
    outstanding: AtomicU32,
}

impl Depth {
    pub(crate) fn new(queue: &'static str, capacity: u32) -> Self {
        Depth { queue, capacity, outstanding: AtomicU32::new(0) }
    }

    /// Reserves one place.
    pub(crate) fn reserve(&self) -> Result<(), PostError> {
        // On overflow the count exceeds the capacity for a moment. In that moment only posts fail
        // that would have failed just before.
        if self.outstanding.fetch_add(1, Ordering::Acquire) < self.capacity {
            return Ok(());
        }
        self.release(1);
        Err(PostError::QueueFull { capacity: self.capacity, queue: self.queue })
    }

    /// Releases places.
    pub(crate) fn release(&self, count: u32) {
        self.outstanding.fetch_sub(count, Ordering::Release);
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.load(Ordering::Acquire)
    }
}
