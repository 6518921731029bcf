//! The state that the posting threads and the worker of a queue pair share.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use braid_transport::{PdId, QpError, QpState, RecvWr, SendWr};
use braid_wire::QpId;

use crate::cq::{Attached, CqShared};
use crate::qp_numbers::QpNumber;
use crate::ring::Ring;
use crate::signals::Signals;
use crate::srq::SrqShared;
use crate::work_queue::WorkQueue;

/// A work request between the posting thread and the worker.
#[derive(Debug)]
pub(crate) struct PostedSend {
    pub(crate) wr: SendWr,
    pub(crate) inline: Option<u32>,
}

/// A request of another thread to the worker, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum WorkerRequest {
    /// Move the queue pair to ERR: a completion queue has overrun.
    Overrun = 1,
    /// Repeat the ACCEPT: the peer has repeated its CONNECT.
    Repeat = 2,
}

/// A set of [`WorkerRequest`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerRequests(u8);

impl WorkerRequests {
    pub(crate) fn contain(self, request: WorkerRequest) -> bool {
        self.0 & request as u8 != 0
    }
}

/// The queues of a new queue pair.
pub(crate) struct QpQueues {
    pub(crate) send_cq: Arc<CqShared>,
    pub(crate) recv_cq: Arc<CqShared>,
    /// The shared receive queue, which replaces the receive queue.
    pub(crate) srq: Option<Arc<SrqShared>>,
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
}

/// The places for inline data of a queue pair, one for each place in the send queue.
pub(crate) struct InlinePlaces {
    /// The largest number of bytes in a place.
    pub(crate) size: usize,
    free: Ring<u32>,
}

/// The state of a queue pair that one thread sets and any thread reads.
struct StateCell {
    state: AtomicU8,
    /// The reason for ERR.
    error: Mutex<Option<QpError>>,
}

/// The state that the posting threads and the worker of a queue pair share.
///
/// Only the holder of the worker's lock pops from the queues, releases their places and sets the
/// state.
pub(crate) struct QpShared {
    pub(crate) id: QpId,
    /// The index in the tables.
    place: u16,
    pub(crate) pd: PdId,
    pub(crate) max_sge: usize,
    pub(crate) sends: WorkQueue<PostedSend>,
    /// The receive queue. With a shared one it has no place.
    pub(crate) recvs: WorkQueue<RecvWr>,
    pub(crate) srq: Option<Arc<SrqShared>>,
    pub(crate) send_cq: Arc<CqShared>,
    pub(crate) recv_cq: Arc<CqShared>,
    pub(crate) inline: InlinePlaces,
    /// The signals of the worker.
    pub(crate) signals: Arc<Signals>,
    /// Requests of other threads to the worker, see [`WorkerRequest`].
    requests: AtomicU8,
    state: StateCell,
    /// The traffic class of the next connection.
    traffic_class: AtomicU8,
}

impl QpShared {
    /// Creates the state of a queue pair in RESET. Its work requests have up to `max_sge` elements
    /// or `max_inline` bytes of inline data.
    pub(crate) fn new(
        number: QpNumber,
        pd: PdId,
        queues: QpQueues,
        (max_sge, max_inline): (usize, usize),
        signals: Arc<Signals>,
    ) -> Self {
        let QpQueues { send_cq, recv_cq, srq, max_send_wr, max_recv_wr } = queues;
        QpShared {
            id: number.id,
            place: number.place,
            pd,
            max_sge,
            sends: WorkQueue::new("send", max_send_wr),
            recvs: WorkQueue::new("recv", if srq.is_some() { 0 } else { max_recv_wr }),
            srq,
            send_cq,
            recv_cq,
            inline: InlinePlaces::new(max_send_wr, max_inline),
            signals,
            requests: AtomicU8::new(0),
            state: StateCell::new(),
            traffic_class: AtomicU8::new(0),
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

    /// Makes a request to the worker.
    pub(crate) fn request(&self, request: WorkerRequest) {
        self.requests.fetch_or(request as u8, Ordering::Release);
        self.signals.ring(self.index());
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_requests(&self) -> WorkerRequests {
        let nothing = self.requests.load(Ordering::Relaxed) == 0;
        WorkerRequests(if nothing { 0 } else { self.requests.swap(0, Ordering::AcqRel) })
    }

    pub(crate) fn state(&self) -> QpState {
        self.state.get()
    }

    pub(crate) fn set_state(&self, state: QpState, error: Option<QpError>) {
        self.state.set(state, error);
    }

    /// The reason for ERR.
    pub(crate) fn error(&self) -> Option<QpError> {
        self.state.error()
    }
}

impl Attached for QpShared {
    fn on_overrun(&self) {
        self.request(WorkerRequest::Overrun);
    }
}

impl InlinePlaces {
    fn new(count: u32, size: usize) -> Self {
        let free = Ring::new(count as usize);
        for index in 0..count {
            // The ring has room for each place.
            let _ = free.push(index);
        }
        InlinePlaces { size, free }
    }

    /// Takes a free place. The caller has reserved one in the send queue.
    pub(crate) fn take(&self) -> u32 {
        let Some(index) = self.free.pop() else {
            unreachable!("there are as many inline buffers as places in the send queue");
        };
        index
    }

    /// Makes a place free again.
    pub(crate) fn give_back(&self, index: u32) {
        // The ring has room for each place.
        let _ = self.free.push(index);
    }
}

impl StateCell {
    fn new() -> Self {
        StateCell { state: AtomicU8::new(QpState::Reset as u8), error: Mutex::default() }
    }

    fn get(&self) -> QpState {
        QpState::from_u8(self.state.load(Ordering::Acquire)).unwrap_or(QpState::Error)
    }

    /// Stores the error before the state, so that a reader of ERR finds the error.
    fn set(&self, state: QpState, error: Option<QpError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        self.state.store(state as u8, Ordering::Release);
    }

    fn error(&self) -> Option<QpError> {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
