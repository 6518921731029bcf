//! Completions of queue pairs that were reset: programs do not see them, as with drivers of NICs,
//! which remove them from the completion queue.
//!
//! A reset puts a mark into the queue. What a poll finds before the mark is of before the reset.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid::{Completion, QpId, Status, Work};

use crate::routes::Routes;

/// No queue pair has this number.
const MARK: u32 = 0;

/// The marks in a completion queue.
#[derive(Default)]
pub(crate) struct Resets {
    /// The queue pair of each mark, by the number that programs know.
    numbers: Mutex<Vec<u32>>,
    /// How many there are, for polls, which find none as a rule.
    count: AtomicUsize,
}

impl Resets {
    /// A queue pair was reset: it adds no completions of before any more.
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
        };
        // In a queue that has overrun, no completion comes after those that are there.
        if !queue.push_mark(mark) {
            numbers.pop();
            self.count.store(numbers.len(), Ordering::Release);
        }
    }

    /// Whether what was polled is a mark, or a completion before one of its queue pair.
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
