//! The handle of a control thread.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::inbox::{ControlMessage, Inbox};

/// A control thread. Dropping the handle ends the thread.
pub(crate) struct ControlThread {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl ControlThread {
    pub(super) fn new(inbox: Arc<Inbox>, thread: JoinHandle<()>) -> Self {
        ControlThread { inbox, thread: Some(thread) }
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.inbox.push(ControlMessage::Close);
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may hold the last reference.
        if thread.thread().id() != thread::current().id() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
