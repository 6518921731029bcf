//! The handshake between who posts work and who may be asleep.
//!
//! Both sides follow Dekker's rule. The poster makes its work visible, then asks whether anybody
//! sleeps; the sleeper says that it sleeps, then looks for work once more. With a sequentially
//! consistent fence between the two steps of each side at least one of them sees the other, so no
//! wake-up is lost, and a poster whose peer is awake pays for a fence and a load.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};

/// How many threads sleep, or are about to.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(AtomicU32);

impl Sleepers {
    /// The caller is about to sleep. It must look for work *after* this, and not sleep if it finds some.
    pub(crate) fn announce(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The caller is awake again.
    pub(crate) fn withdraw(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether somebody has to be woken for the work that the caller has just made visible.
    pub(crate) fn need_waking(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// What the next notification is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Interest {
    /// Solicited and failed completions only.
    Solicited = 1,
    /// All completions.
    Any = 2,
}

/// One notification, asked for in advance (`ibv_req_notify_cq`): it goes off once, then has to be
/// armed again.
#[derive(Debug, Default)]
pub(crate) struct Arming(AtomicU8);

impl Arming {
    /// Asks to be notified. The caller must look for completions *after* this. Interest in any
    /// completion is not narrowed by a later interest in solicited ones.
    pub(crate) fn arm(&self, interest: Interest) {
        self.0.fetch_max(interest as u8, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether the completion that the caller has just made visible is the one to notify of.
    pub(crate) fn goes_off(&self, solicited: bool) -> bool {
        fence(Ordering::SeqCst);
        let wanted = if solicited { Interest::Solicited } else { Interest::Any } as u8;
        self.0.load(Ordering::Relaxed) >= wanted && self.0.swap(0, Ordering::AcqRel) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_notification_goes_off_once() {
        let arming = Arming::default();
        assert!(!arming.goes_off(true));
        arming.arm(Interest::Any);
        assert!(arming.goes_off(false));
        assert!(!arming.goes_off(false));
    }

    #[test]
    fn solicited_interest_ignores_the_rest_and_does_not_narrow() {
        let arming = Arming::default();
        arming.arm(Interest::Solicited);
        assert!(!arming.goes_off(false));
        assert!(arming.goes_off(true));
        arming.arm(Interest::Any);
        arming.arm(Interest::Solicited);
        assert!(arming.goes_off(false));
    }
}

/// Run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// The poster's work and the event descriptor, as plain flags.
    struct World {
        work: AtomicBool,
        raised: AtomicBool,
    }

    fn world() -> Arc<World> {
        Arc::new(World { work: AtomicBool::new(false), raised: AtomicBool::new(false) })
    }

    #[test]
    fn a_sleeper_misses_no_work() {
        loom::model(|| {
            let (world, sleepers) = (world(), Arc::new(Sleepers::default()));
            let poster = {
                let (world, sleepers) = (world.clone(), sleepers.clone());
                thread::spawn(move || {
                    world.work.store(true, Ordering::Release);
                    if sleepers.need_waking() {
                        world.raised.store(true, Ordering::Release);
                    }
                })
            };
            sleepers.announce();
            let found = world.work.load(Ordering::Acquire);
            poster.join().unwrap();
            assert!(found || world.raised.load(Ordering::Acquire), "asleep for ever");
            sleepers.withdraw();
        });
    }

    #[test]
    fn an_armed_queue_misses_no_completion() {
        loom::model(|| {
            let (world, arming) = (world(), Arc::new(Arming::default()));
            let poster = {
                let (world, arming) = (world.clone(), arming.clone());
                thread::spawn(move || {
                    world.work.store(true, Ordering::Release);
                    if arming.goes_off(false) {
                        world.raised.store(true, Ordering::Release);
                    }
                })
            };
            arming.arm(Interest::Any);
            let found = world.work.load(Ordering::Acquire);
            poster.join().unwrap();
            assert!(found || world.raised.load(Ordering::Acquire), "waits for ever");
        });
    }
}
