//! Queue pairs, as the threads of the library hold them.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_verbs::abi::{IBV_EVENT_QP_LAST_WQE_REACHED, IBV_QPS_RTR, IBV_QPS_RTS};

use super::attributes::Attributes;
use super::connection::QpConnection;
use super::failures::Failures;
use super::places::Places;
use super::queues::Queues;
use super::service::Service;
use crate::async_events::Element;
use crate::datagram::datagrams::Datagrams;
use crate::domain::Domain;
use crate::running::Running;

/// The taker of sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Sends {
    /// Nobody: the queue pair is in RESET, INIT or RTR.
    Refused,
    /// The queue pair holds them until it is connected.
    Held,
    /// The engine.
    Posted,
}

/// The part of a queue pair that the control thread and polling threads hold.
///
/// Locks are taken in this order: `attributes`, `connection`, `failures`.
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    /// In type UD, it only flushes receives and takes those that the program posts in ERR.
    pub(crate) engine: braid::QueuePair,
    pub(crate) datagrams: Option<Datagrams>,
    pub(super) domain: Arc<Domain>,
    pub(crate) running: Arc<Running>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) service: Service,
    pub(crate) places: Places,
    pub(super) sends: AtomicU8,
    pub(super) attributes: Mutex<Attributes>,
    pub(super) connection: Mutex<QpConnection>,
    pub(super) failures: Mutex<Failures>,
    pub(super) handle: Mutex<Option<Element>>,
    /// The program knows that the queue pair takes no more shared receives.
    pub(super) has_reported_last: AtomicBool,
}

// SAFETY: the pointer in `handle` is only compared, and handed to the program, while the object
// exists.
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

    pub(super) fn set_sends(&self, sends: Sends) {
        self.sends.store(sends as u8, Ordering::Release);
    }

    pub(super) fn attributes(&self) -> MutexGuard<'_, Attributes> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, QpConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(&self) -> MutexGuard<'_, Option<Element>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports an event to the program, unless the queue pair is being destroyed.
    pub(crate) fn report(&self, event: u32) {
        if let Some(element) = *self.handle() {
            self.running.events.push(event, element);
        }
    }

    /// Whether datagrams for the queue pair may arrive.
    pub(crate) fn takes_datagrams(&self) -> bool {
        matches!(self.attributes().state, IBV_QPS_RTR | IBV_QPS_RTS)
    }

    pub(crate) fn q_key(&self) -> u32 {
        self.attributes().given.qkey
    }

    /// Reports once that a queue pair in ERR takes no more receives from its shared queue (IBTA
    /// vol. 1, 11.6.3.2), whether the connection has ended first or the program has moved the queue
    /// pair to ERR.
    pub(crate) fn report_last_receive(&self) {
        if self.queues.srq.is_some() && !self.has_reported_last.swap(true, Ordering::Relaxed) {
            self.report(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }

    /// Whether the program wants to know when the send queue is drained.
    pub(crate) fn reports_drained(&self) -> bool {
        self.attributes().reports_drained
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.queues.leave();
        self.running.give_back(self.number);
    }
}
