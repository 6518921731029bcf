//! Armed notifications of completions.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// The receiver of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Interest {
    /// The descriptor, for completions that failed or that the peer marked as solicited.
    Solicited = 1,
    /// The descriptor, for every completion.
    Any = 2,
    /// The threads that wait at the queue.
    Waiters = 4,
}

/// Notifications. Each fires once and then has to be armed again (`ibv_req_notify_cq`).
#[derive(Debug, Default)]
pub(crate) struct Arming(AtomicU8);

/// The receivers to notify.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct GoesOff {
    pub(crate) descriptor: bool,
    pub(crate) waiters: bool,
}

impl Arming {
    /// Arms a notification. The caller must look for completions *after* this. Interest in all
    /// completions is not narrowed by a later interest in solicited ones.
    pub(crate) fn arm(&self, interest: Interest) {
        self.0.fetch_or(interest as u8, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The receivers to notify of the completion that the caller has just made visible.
    pub(crate) fn go_off(&self, solicited: bool) -> GoesOff {
        fence(Ordering::SeqCst);
        let armed = self.0.load(Ordering::Relaxed);
        if armed == 0 { GoesOff::default() } else { self.disarm(armed, solicited) }
    }

    fn disarm(&self, armed: u8, solicited: bool) -> GoesOff {
        let descriptor = Interest::Any as u8 | Interest::Solicited as u8;
        let wanted = if solicited { descriptor } else { Interest::Any as u8 };
        let told = if armed & wanted != 0 { descriptor } else { 0 } | Interest::Waiters as u8;
        let armed = self.0.fetch_and(!told, Ordering::AcqRel) & told;
        GoesOff {
            descriptor: armed & descriptor != 0,
            waiters: armed & Interest::Waiters as u8 != 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const DESCRIPTOR: GoesOff = GoesOff { descriptor: true, waiters: false };
    const WAITERS: GoesOff = GoesOff { descriptor: false, waiters: true };
    const NOBODY: GoesOff = GoesOff { descriptor: false, waiters: false };

    #[test]
    fn a_notification_goes_off_once() {
        for (interest, told) in [(Interest::Any, DESCRIPTOR), (Interest::Waiters, WAITERS)] {
            let arming = Arming::default();
            assert_eq!(arming.go_off(true), NOBODY);
            arming.arm(interest);
            assert_eq!(arming.go_off(false), told);
            assert_eq!(arming.go_off(false), NOBODY);
        }
    }

    #[test]
    fn solicited_interest_ignores_the_rest_and_does_not_narrow() {
        let arming = Arming::default();
        arming.arm(Interest::Solicited);
        arming.arm(Interest::Waiters);
        assert_eq!(arming.go_off(false), WAITERS);
        assert_eq!(arming.go_off(true), DESCRIPTOR);
        arming.arm(Interest::Any);
        arming.arm(Interest::Solicited);
        assert_eq!(arming.go_off(false), DESCRIPTOR);
        assert_eq!(arming.go_off(true), NOBODY);
    }
}

/// Run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::wake::Event;
    use crate::wake::model::{Flag, Work};
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn an_armed_queue_misses_no_completion() {
        loom::model(|| {
            let (work, flag) = (Work::new(), Arc::new(Flag::new().unwrap()));
            let arming = Arc::new(Arming::default());
            let poster = {
                let (work, arming, flag) = (work.clone(), arming.clone(), flag.clone());
                thread::spawn(move || {
                    work.finish();
                    if arming.go_off(false).descriptor {
                        flag.raise();
                    }
                })
            };
            arming.arm(Interest::Any);
            if !work.is_done() {
                flag.sleep();
            }
            poster.join().unwrap();
        });
    }
}
