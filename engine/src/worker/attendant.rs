//! Runs a worker while its application does something else.
//!
//! With [`crate::Progress::Application`] the threads that poll drive the worker. While none does, a thread of the engine drives it,
//! asleep between two arrivals. Two that drive at once would only be in each other's way: so while the application polls, this
//! thread sleeps until a timer fires, which who polls puts off before it does. It is never woken as long as somebody polls: to be
//! woken costs the one that polls 25 us where both share a processor, which once in a millisecond was the 99th
//! percentile of a ping-pong.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use braid_wire::Time;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::WorkerCell;

/// How long nobody drives at most: as long as the shortest retransmission time-out. The system's tick comes at least as often on most
/// machines, and to set a timer that fires before it costs 13 us in a virtual machine, a later one 1 us. Or longer, where the engine is
/// told to spin for longer than a part of that: then work is expected to come at longer intervals.
const ABSENCE: Duration = Duration::from_millis(4);
const SPINS: u32 = 80;
/// The longest, and the same while a thread of the application waits, which drives until it has what it waits for. Well below the longest
/// retransmission time-out (300 ms) and the interval of PINGs (500 ms).
const LONGEST_ABSENCE: Duration = Duration::from_millis(100);
const AT_ONCE: Duration = Duration::from_nanos(1);
/// An application that polls so often between two rounds of the attendant does not need it. One that waits for events, or looks at memory,
/// polls a few times for each. Left alone it is as long as it polls at all before the timer fires: on a slow machine that is seldom, and a
/// second thread that drives takes from the first.
const DRIVES: u64 = 16;
/// An application that was away while something came seems to look at memory. Then it polls a few
/// times for each message, and a few messages between two rounds of an attendant that waits for a
/// processor would be as many polls. What tells it from a loop of polls, however slow the machine
/// or the loop is: its polls take next to nothing. Of so many packets a loop takes at least this
/// part.
const PACKETS: u64 = 64;
const PART: u64 = 4;

/// The shortest time slice that the scheduler grants.
const LEAST_SLICE: Duration = Duration::from_micros(100);

/// What the application does for its worker.
pub(crate) struct Presence {
    /// Fires once nobody has polled for so long.
    timer: TimerFd,
    absence: Duration,
    /// In nanoseconds of the engine's clock: when the last round began of the worker that is left to the application, and from when on whoever polls puts the timer off.
    now: AtomicU64,
    put_off_at: AtomicU64,

    /// How often it has polled. Counts that get lost when threads poll at once do not matter.
    polls: AtomicU64,
    /// Packets that have been taken in, and those of them that its polls have.
    taken: AtomicU64,
    polled: AtomicU64,
    /// How often it had when the attendant ran its last round.
    seen: AtomicU64,
    /// Its threads that drive until they have what they wait for.
    waiting: AtomicU32,
    /// The attendant leaves the worker to the application, until the timer fires.
    is_left: AtomicBool,
    /// The timer fires later than after an absence, as long as a thread waits.
    is_longer: AtomicBool,
}

impl Presence {
    /// `spin`: how long the engine looks for work before it sleeps.
    ///
    /// # Errors
    /// The system has no timer for it.
    pub(crate) fn new(spin: Duration) -> io::Result<Self> {
        Ok(Presence {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?,
            absence: spin.saturating_mul(SPINS).clamp(ABSENCE, LONGEST_ABSENCE),
            now: AtomicU64::new(0),
            put_off_at: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            is_left: AtomicBool::new(false),
            is_longer: AtomicBool::new(false),
        })
    }

    /// The worker runs a round, whoever drives it. Nobody asks when, unless it is left to the application: several workers would only
    /// take the line from each other.
    #[inline]
    pub(crate) fn round(&self, now: Time) {
        if self.is_left.load(Ordering::Relaxed) {
            self.now.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// The application has polled.
    #[inline]
    pub(crate) fn has_polled(&self) {
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let now = self.now.load(Ordering::Relaxed);
        if now >= self.put_off_at.load(Ordering::Relaxed) && self.is_left.load(Ordering::Relaxed) {
            self.put_off(now);
        }
    }

    /// Not with each poll, as it is a system call: halfway.
    #[cold]
    fn put_off(&self, now: u64) {
        self.put_off_at.store(now + self.absence.as_nanos() as u64 / 2, Ordering::Relaxed);
        self.fire_after(self.absence);
        if !self.is_left.load(Ordering::Acquire) {
            self.fire_after(AT_ONCE); // another thread has ended it meanwhile
        }
    }

    /// A round has taken packets in; `polled`: that of an application that polls.
    #[inline]
    pub(crate) fn has_taken(&self, packets: usize, polled: bool) {
        let add = |count: &AtomicU64| {
            let sum = count.load(Ordering::Relaxed).wrapping_add(packets as u64);
            count.store(sum, Ordering::Relaxed);
        };
        add(&self.taken);
        if polled {
            add(&self.polled);
        }
    }

    fn packets(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.polled.load(Ordering::Relaxed))
    }

    fn fire_after(&self, span: Duration) {
        let expiration = Expiration::OneShot(TimeSpec::from(span));
        let set = self.timer.set(expiration, TimerSetTimeFlags::empty());
        set.expect("a timer takes any time to come");
    }

    /// One of its threads drives until `wait` returns.
    pub(crate) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = wait();
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shorten();
        }
        result
    }

    /// Nobody waits any more: from now on an absence counts.
    fn shorten(&self) {
        if self.is_longer.load(Ordering::SeqCst) && self.is_longer.swap(false, Ordering::SeqCst) {
            self.fire_after(self.absence);
        }
    }

    /// The application is about to wait for something else than this engine. That the attendant has just gone, and does
    /// not hear of it, costs no more than until the timer fires.
    pub(crate) fn ends(&self) {
        if self.is_left.load(Ordering::Relaxed) && self.is_left.swap(false, Ordering::AcqRel) {
            self.fire_after(AT_ONCE);
        }
    }

    /// The engine stops: nobody drives it any more.
    pub(crate) fn stops(&self) {
        self.is_left.store(false, Ordering::Release);
        self.fire_after(AT_ONCE);
    }

    /// Whether the application has polled since the attendant ran its last round.
    pub(crate) fn is_new(&self) -> bool {
        self.polls.load(Ordering::Relaxed) != self.seen.load(Ordering::Relaxed)
    }

    /// Returns once nobody drives any more. The application has been there just now. The result: it
    /// has not polled for an absence, and has not said that it would not.
    fn watch(&self, stop: &AtomicBool) -> bool {
        let (mut absence, mut is_absent) = (self.absence, false);
        self.put_off_at.store(0, Ordering::Relaxed);
        self.fire_after(absence);
        self.is_left.store(true, Ordering::Release);
        while !stop.load(Ordering::Acquire) {
            if self.timer.wait().is_err() {
                continue; // a signal
            }
            if self.waiting.load(Ordering::Acquire) == 0 {
                is_absent = self.is_left.load(Ordering::Acquire);
                break;
            }
            if !self.is_longer.swap(true, Ordering::SeqCst) {
                absence = self.absence; // another has waited before
            }
            absence = (2 * absence).min(LONGEST_ABSENCE);
            self.fire_after(absence);
            if self.waiting.load(Ordering::SeqCst) == 0 {
                self.shorten(); // who has stopped waiting may have seen nothing to shorten
            }
            // Only now: what has ended before has had its timer put off just now.
            if !self.is_left.load(Ordering::Acquire) {
                break;
            }
        }
        self.is_left.store(false, Ordering::Release);
        self.is_longer.store(false, Ordering::Relaxed);
        self.seen.store(self.polls.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        is_absent
    }
}

/// Evidence for the attendant that the application drives.
struct Vigil<'a> {
    presence: &'a Presence,
    /// Something came while the application was away.
    is_missed: bool,
    /// Packets that had been taken in when they were last judged by, and those that polls had.
    before: (u64, u64),
}

impl<'a> Vigil<'a> {
    fn new(presence: &'a Presence, is_missed: bool) -> Self {
        Vigil { presence, is_missed, before: presence.packets() }
    }

    /// The attendant has run a round. Returns whether the application drives.
    fn is_over(&mut self) -> bool {
        let polls = self.presence.polls.load(Ordering::Relaxed);
        let since = polls.wrapping_sub(self.presence.seen.swap(polls, Ordering::Relaxed));
        if self.presence.waiting.load(Ordering::Acquire) > 0 {
            return true;
        }
        if self.is_missed { self.takes_its_part() } else { since >= DRIVES }
    }

    /// Whether polls have taken what those of a loop do.
    fn takes_its_part(&mut self) -> bool {
        let now = self.presence.packets();
        let (taken, polled) =
            (now.0.wrapping_sub(self.before.0), now.1.wrapping_sub(self.before.1));
        if taken < PACKETS {
            return false;
        }
        self.before = now;
        polled * PART >= taken
    }
}

/// Looks after `worker` until `stop` is set and this thread woken, from its sleep as a driver and by the timer. As a driver it looks for
/// work for as long as `spin` before it sleeps.
pub(crate) fn attend(worker: &WorkerCell, presence: &Presence, spin: Duration, stop: &AtomicBool) {
    sleep_exactly();
    run_at_once();
    while !stop.load(Ordering::Acquire) {
        let is_missed = presence.watch(stop) && worker.control().progress();
        let mut vigil = Vigil::new(presence, is_missed);
        worker.drive(spin, None, || {
            let is_over = vigil.is_over() || stop.load(Ordering::Acquire);
            is_over.then_some(())
        });
    }
}

/// Acknowledgements wait for some microseconds, and without this the system lets this thread sleep for 50 more.
fn sleep_exactly() {
    const NANOSECONDS: libc::c_ulong = 1;
    // SAFETY: it takes a number, and concerns this thread alone. If it fails, sleeps are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOSECONDS) };
}

/// Shortens the time slice of this thread. It runs for microseconds and then sleeps, and is to
/// preempt a thread that looks at memory in a loop: the scheduler prefers who asks for less (EEVDF,
/// Linux 6.12 and later). Otherwise it waits until the slice of that thread is over, for
/// milliseconds where the application has every processor.
fn run_at_once() {
    /// `struct sched_attr` of `sched_setattr(2)` in its first version, as far as it says anything
    /// here.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let size = size_of::<Attributes>() as u32;
    let mut attributes = Attributes { size, ..Attributes::default() };
    // SAFETY: the structure is as long as is said, and 0 means this thread. If a call fails, the
    // slice stays as it is.
    unsafe {
        let at = &raw mut attributes;
        if libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) == 0
            && attributes.policy == libc::SCHED_OTHER as u32
        {
            (*at).runtime = LEAST_SLICE.as_nanos() as u64;
            libc::syscall(libc::SYS_sched_setattr, 0, at, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// The longest: the threads of a busy machine seldom wait for so long.
    fn presence() -> Presence {
        let presence = Presence::new(LONGEST_ABSENCE).unwrap();
        assert_eq!(presence.absence, LONGEST_ABSENCE);
        presence
    }

    /// Polls for `span` while another thread watches. Returns whether that was still watching at the end.
    fn is_watched_for(presence: &Presence, span: Duration) -> bool {
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            let watch = scope.spawn(|| presence.watch(&stop));
            while start.elapsed() < span {
                presence.round(Time::ZERO + start.elapsed());
                presence.has_polled();
                thread::sleep(Duration::from_millis(1));
            }
            !watch.is_finished() // and then it ends by itself
        })
    }

    #[test]
    fn the_attendant_is_not_woken_while_somebody_polls_and_is_once_nobody_does() {
        let watched = || is_watched_for(&presence(), 3 * LONGEST_ABSENCE);
        assert!((0..5).any(|_| watched()));
    }

    /// What is left of the timer once the application has waited for twenty absences.
    fn left_after_a_long_wait(presence: &Presence) -> Duration {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            presence.during(|| {
                scope.spawn(|| presence.watch(&stop));
                thread::sleep(20 * presence.absence);
            });
            match presence.timer.get().unwrap() {
                Some(Expiration::OneShot(left)) => left.into(),
                _ => Duration::ZERO, // it has fired
            }
        })
    }

    #[test]
    fn a_wait_that_took_long_makes_no_absence_longer() {
        let presence = Presence::new(Duration::ZERO).unwrap();
        // The timer that was set while it waited has 44 of its 64 ms to go; it may be set so in the very moment that the wait ends.
        assert!((0..5).any(|_| left_after_a_long_wait(&presence) <= presence.absence));
    }

    /// Whether an attendant leaves after an application has polled `polls` times, and its polls
    /// have taken so many packets and its own rounds so many.
    fn leaves(is_missed: bool, polls: u64, (polled, driven): (u64, u64)) -> bool {
        let presence = presence();
        let mut vigil = Vigil::new(&presence, is_missed);
        (0..polls).for_each(|_| presence.has_polled());
        presence.has_taken(polled as usize, true);
        presence.has_taken(driven as usize, false);
        vigil.is_over()
    }

    #[test]
    fn an_application_that_was_away_when_something_came_has_to_take_packets_with_its_polls() {
        assert!(leaves(false, DRIVES, (0, 0)) && !leaves(false, DRIVES - 1, (PACKETS, 0)));
        // A few polls for each of the messages between two rounds.
        assert!(!leaves(true, 4 * DRIVES, (0, 0)) && !leaves(true, 4 * DRIVES, (1, PACKETS)));
        assert!(!leaves(true, DRIVES, (PACKETS - 1, 0)), "too few to judge by");
        assert!(leaves(true, DRIVES, (PACKETS / PART, PACKETS - PACKETS / PART)));
    }

    #[test]
    fn it_is_woken_when_the_application_ends_or_the_engine_stops() {
        let tell: [fn(&Presence, &AtomicBool); 2] = [
            |presence, _| presence.ends(),
            |presence, stop| {
                stop.store(true, Ordering::Release);
                presence.stops();
            },
        ];
        for tell in tell {
            let (presence, stop) = (presence(), AtomicBool::new(false));
            // A thread that drives until it has what it waits for: then the timer alone does not end the watch.
            presence.during(|| {
                thread::scope(|scope| {
                    let watch = scope.spawn(|| presence.watch(&stop));
                    while !presence.is_left.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    tell(&presence, &stop);
                    watch.join().unwrap();
                });
            });
        }
    }
}
