//! Queue pairs, as programs hold them.

mod attributes;
mod create;
mod failure;
mod link;
mod modify;
mod places;
mod transition;

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{ibv_qp, ibv_qp_ex};

use self::attributes::Attributes;
pub(crate) use self::attributes::MOST_PATIENCE;
use self::failure::Failures;
use self::places::Places;
use crate::acknowledgements::Acknowledgements;
use crate::async_events::Element;
use crate::cq::CompletionQueue;
use crate::datagram::Datagrams;
use crate::memory::Domain;
use crate::running::Running;
use crate::srq;
use crate::work_requests::Extension;

pub use self::create::{ibv_create_qp, ibv_destroy_qp};
pub use self::modify::{ibv_modify_qp, ibv_query_qp};

pub(crate) use self::create::{Limits, create};
pub(crate) use self::link::Link;

/// A queue pair as programs hold it.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) base: ibv_qp,
    /// `mutex`, `cond` and the count of events, which are libibverbs' own.
    reserved: [u64; 12],
    /// An `ibv_qp_ex` goes on with this.
    pub(crate) extension: Extension,
    pub(crate) shared: Arc<QueuePair>,
    pub(crate) acknowledgements: Acknowledgements,
}

const _: () = assert!(offset_of!(Qp, extension) == offset_of!(ibv_qp_ex, comp_mask));

impl Qp {
    /// The queue pair that a program names; null stays null.
    pub(crate) fn of(qp: *mut ibv_qp) -> *mut Qp {
        qp.cast()
    }
}

/// The transport service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// RC, and UC, which is served as if it were RC.
    Connected { reliable: bool },
    /// UD.
    Datagrams,
}

impl Service {
    pub(crate) fn is_reliable(self) -> bool {
        self == Service::Connected { reliable: true }
    }
}

/// Who takes sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Sends {
    /// Nobody: it is in RESET, INIT or RTR.
    Refused,
    /// They are held until it is connected.
    Held,
    /// The engine.
    Posted,
}

/// What the control thread, and whoever polls, hold on to.
///
/// Locks are taken in this order: `attributes`, `link`, `failures`.
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    /// Of type UD: only what the program posts in ERR, and what is flushed, goes by it.
    pub(crate) engine: braid::QueuePair,
    pub(crate) datagrams: Option<Datagrams>,
    domain: Arc<Domain>,
    pub(crate) running: Arc<Running>,
    pub(crate) send_cq: Arc<CompletionQueue>,
    pub(crate) recv_cq: Arc<CompletionQueue>,
    pub(crate) srq: Option<Arc<srq::Shared>>,
    pub(crate) service: Service,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    /// Every send has a completion.
    pub(crate) signals_all: bool,
    sends: AtomicU8,
    attributes: Mutex<Attributes>,
    link: Mutex<Link>,
    failures: Mutex<Failures>,
    handle: Mutex<Option<Element>>,
    /// Its queues do not count it any more.
    has_left: AtomicBool,
    /// The program was told that it takes no more of its shared receives.
    has_told_last: AtomicBool,
}

// SAFETY: the pointer in `handle` is only compared, and handed to the program, while the object exists.
unsafe impl Send for QueuePair {}
// SAFETY: as above, and behind a lock.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    pub(crate) fn sends(&self) -> Sends {
        match self.sends.load(Ordering::Acquire) {
            0 => Sends::Refused,
            1 => Sends::Held,
            _ => Sends::Posted,
        }
    }

    fn set_sends(&self, sends: Sends) {
        self.sends.store(sends as u8, Ordering::Release);
    }

    fn attributes(&self) -> MutexGuard<'_, Attributes> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self) -> MutexGuard<'_, Option<Element>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the program that this has happened to it, unless it is being destroyed.
    pub(crate) fn happened(&self, event: u32) {
        if let Some(element) = *self.handle() {
            self.running.events.push(event, element);
        }
    }

    /// It is destroyed, or was not made: its queues may be destroyed, whoever still holds on to it.
    pub(super) fn leave_queues(&self) {
        if self.has_left.swap(true, Ordering::AcqRel) {
            return;
        }
        self.send_cq.leave();
        self.recv_cq.leave();
        self.srq.iter().for_each(|srq| srq.leave());
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.leave_queues();
        self.running.give_back(self.number);
    }
}
