//! The works of a completion queue of Python.

use std::collections::VecDeque;
use std::sync::Mutex;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::slot::lock;
use crate::work::{Consequences, Waiter};

/// Works that were posted to a queue, each until it is taken.
#[derive(Default)]
pub(crate) struct QueueState(Mutex<Works>);

#[derive(Default)]
struct Works {
    in_flight: FxHashMap<u64, Py<PyAny>>,
    /// The ended ones, in the order of their completions.
    ended: VecDeque<Py<PyAny>>,
    waiters: Vec<Waiter>,
}

/// The next ended work of a queue.
pub(crate) enum Next {
    Ended(Py<PyAny>),
    /// Work is in flight.
    Later,
    /// Nothing is in flight.
    Nothing,
}

impl QueueState {
    pub(crate) fn add(&self, id: u64, work: Py<PyAny>) {
        lock(&self.0).in_flight.insert(id, work);
    }

    /// Removes a work that was not posted.
    pub(crate) fn remove(&self, id: u64) {
        let removed = lock(&self.0).in_flight.remove(&id);
        drop(removed);
    }

    pub(crate) fn on_ended(&self, id: u64, consequences: &mut Consequences) {
        let mut works = lock(&self.0);
        if let Some(work) = works.in_flight.remove(&id) {
            works.ended.push_back(work);
            consequences.waiters.append(&mut works.waiters);
        }
    }

    pub(crate) fn next(&self) -> Next {
        let mut works = lock(&self.0);
        match works.ended.pop_front() {
            Some(work) => Next::Ended(work),
            None if works.in_flight.is_empty() => Next::Nothing,
            None => Next::Later,
        }
    }

    /// Whether [`QueueState::next`] need not wait.
    pub(crate) fn is_ready(&self) -> bool {
        let works = lock(&self.0);
        !works.ended.is_empty() || works.in_flight.is_empty()
    }

    /// The numbers of works in flight and of ended ones.
    pub(crate) fn len(&self) -> (usize, usize) {
        let works = lock(&self.0);
        (works.in_flight.len(), works.ended.len())
    }

    /// Adds a future to be resolved with the next end. Returns it if none needs to be waited for.
    pub(crate) fn watch(&self, waiter: Waiter) -> Option<Waiter> {
        let mut works = lock(&self.0);
        if !works.ended.is_empty() || works.in_flight.is_empty() {
            return Some(waiter);
        }
        works.waiters.push(waiter);
        None
    }
}
