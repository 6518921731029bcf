//! A gate that admits one thread at a time: to describe sends to a queue pair, or to read
//! completions of a queue. The thread stays inside over several calls.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Gate {
    is_taken: Mutex<bool>,
    given_back: Condvar,
}

impl Gate {
    pub(crate) fn take(&self) {
        let mut is_taken = self.lock();
        while *is_taken {
            is_taken = self.given_back.wait(is_taken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_taken = true;
    }

    pub(crate) fn give_back(&self) {
        *self.lock() = false;
        self.given_back.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
