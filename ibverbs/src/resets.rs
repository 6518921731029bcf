//! Hides completions of queue pairs that were reset. Drivers of NICs remove them from the
//! completion queue.
//!
//! A reset puts a mark into the queue. Completions that a poll finds before the mark precede the
//! reset.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid::{Completion, QpId, Status, Work};

use crate::routes::Routes;

/// The number of marks, which no queue pair has.
const MARK: u32 = 0;

/// The marks in a completion queue.
#[derive(Default)]
pub(crate) struct Resets {
    /// The queue pair of each mark, by the number that programs know.
    numbers: Mutex<Vec<u32>>,
    /// The number of marks, so that a poll without marks takes no lock.
    count: AtomicUsize,
}

impl Resets {
    /// Marks the reset of a queue pair, which adds no earlier completions any more.
    pub(crate) fn reset(&self, number: u32, queue: &braid::CompletionQueue) {
        let mut numbers = self.numbers();
        numbers.push(number);
        self.count.store(numbers.len(), Ordering::Release);
        let mark = Completion {
            qp: QpId::new(MARK),
            wr_id: number.into(),
            work: Work::Recv,
            status: Status::Success,
            len: 0,
            imm: None,
            solicited: false,
            source: QpId::default(),
        };
        // A queue that has overrun takes no more completions.
        if !queue.push_mark(mark) {
            numbers.pop();
            self.count.store(numbers.len(), Ordering::Release);
        }
    }

    /// Whether the polled completion is a mark, or precedes the mark of its queue pair.
    pub(crate) fn hide(&self, completion: &Completion, routes: &Routes) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.look_up(completion, routes)
    }

    fn look_up(&self, completion: &Completion, routes: &Routes) -> bool {
        let mut numbers = self.numbers();
        if completion.qp.get() != MARK {
            return numbers.contains(&routes.get(completion.qp).number());
        }
        if let Some(at) = numbers.iter().position(|number| u64::from(*number) == completion.wr_id) {
            numbers.swap_remove(at);
            self.count.store(numbers.len(), Ordering::Release);
        }
        true
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
