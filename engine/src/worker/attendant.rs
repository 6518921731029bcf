//! Runs a worker while its application does something else.
//!
//! With [`crate::Progress::Application`] the threads that poll drive the worker. While none of them
//! polls, the attendant, a thread of the engine, drives it and sleeps between two arrivals. Two
//! drivers at once would only obstruct each other. So while the application polls, the attendant
//! sleeps until a timer fires, and each poll postpones the timer. Nothing else wakes it then,
//! because a wake-up costs the polling thread 25 us if both share a processor. One wake-up per
//! millisecond was the 99th percentile of a ping-pong.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braid_wire::Time;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::WorkerCell;
use super::neighbours::Neighbours;

/// The shortest time without a poll after which the attendant drives: the shortest retransmission
/// time-out. On most machines the system's tick is no longer than that. In a virtual machine a
/// timer that fires before the tick costs 13 us, a later one 1 us.
const ABSENCE: Duration = Duration::from_millis(4);
/// The same time in units of the time for which the engine spins, if that is longer: an engine that
/// spins for long expects work at long intervals.
const SPINS: u32 = 80;
/// The longest such time. It also holds while a thread of the application waits, because that
/// thread drives until it has what it waits for. Well below the longest retransmission time-out
/// (300 ms) and the interval of PINGs (500 ms).
const LONGEST_ABSENCE: Duration = Duration::from_millis(100);
const AT_ONCE: Duration = Duration::from_nanos(1);
/// Number of polls between two rounds of the attendant that show an application which drives. An
/// application that waits for events or looks at memory polls a few times for each message. The
/// attendant leaves the worker to the application for as long as it polls at all before the timer
/// fires. On a slow machine it polls seldom, and a second driver would take time from it.
const DRIVES: u64 = 16;
/// Packets after which the polls of an application that was away are judged. Something came while
/// it was away, so it seems to look at memory. Such an application polls a few times for each
/// message, and between two rounds of an attendant that waits for a processor it may poll
/// [`DRIVES`] times. Its polls take hardly any packets, however slow the machine is.
const PACKETS: u64 = 64;
/// Number of times that [`PACKETS`] doubles for an application that was away again after a short
/// time. The polls of a ping-pong take all acknowledgements that are packets of their own, as those
/// of RoCEv2 are, so it seems to drive. Each mistake delays a message until the timer fires.
const MOST_DOUBLINGS: u32 = 6;
/// A longer time in which the application drives is not short.
const LONG: Duration = Duration::from_secs(1);
/// A loop of polls takes at least one packet in this number.
const PART: u64 = 4;

/// The shortest time slice that the scheduler grants.
const LEAST_SLICE: Duration = Duration::from_micros(100);

/// Activity of the application that drives the worker.
pub(crate) struct PollActivity {
    /// Fires once nobody has polled for `absence`.
    timer: TimerFd,
    absence: Duration,
    /// Start of the last round while the worker is left to the application, in nanoseconds of the
    /// engine's clock.
    now: AtomicU64,
    /// The time from which a poll postpones the timer, in nanoseconds of the engine's clock.
    postpone_at: AtomicU64,

    /// Number of polls. Increments that get lost when threads poll at once do not matter.
    polls: AtomicU64,
    /// Number of packets received.
    taken: AtomicU64,
    /// Number of packets received by polls of the application.
    polled: AtomicU64,
    /// Value of `polls` at the attendant's last round.
    seen: AtomicU64,
    /// Number of threads of the application that drive until they have what they wait for.
    waiting: AtomicU32,
    /// Whether the attendant leaves the worker to the application until the timer fires.
    is_left: AtomicBool,
    /// Whether the timer fires later than after `absence`, because a thread waits.
    is_longer: AtomicBool,
}

impl PollActivity {
    /// Creates the record of an engine that looks for work for `spin` before it sleeps.
    ///
    /// # Errors
    /// The system has no timer left.
    pub(crate) fn new(spin: Duration) -> io::Result<Self> {
        Ok(PollActivity {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?,
            absence: spin.saturating_mul(SPINS).clamp(ABSENCE, LONGEST_ABSENCE),
            now: AtomicU64::new(0),
            postpone_at: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            is_left: AtomicBool::new(false),
            is_longer: AtomicBool::new(false),
        })
    }

    /// Records the start of a round of the worker. The time is only stored while the worker is left
    /// to the application, so that several workers do not take the cache line from each other.
    #[inline]
    pub(crate) fn round(&self, now: Time) {
        if self.is_left.load(Ordering::Relaxed) {
            self.now.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Records a poll of the application.
    #[inline]
    pub(crate) fn has_polled(&self) {
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let now = self.now.load(Ordering::Relaxed);
        if now >= self.postpone_at.load(Ordering::Relaxed) && self.is_left.load(Ordering::Relaxed) {
            self.postpone(now);
        }
    }

    /// Postpones the timer. Polls do so once per half of an absence, because it is a system call.
    #[cold]
    fn postpone(&self, now: u64) {
        self.postpone_at.store(now + self.absence.as_nanos() as u64 / 2, Ordering::Relaxed);
        self.fire_after(self.absence);
        if !self.is_left.load(Ordering::Acquire) {
            self.fire_after(AT_ONCE); // another thread has ended it meanwhile
        }
    }

    /// Records packets that a round has received. `polled`: the application ran the round by a
    /// poll.
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

    /// Runs `wait`, in which a thread of the application drives until it has what it waits for.
    pub(crate) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = wait();
        if self.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shorten();
        }
        result
    }

    /// Whether a thread of the application drives until it has what it waits for.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Sets the timer to one absence, because no thread waits any more.
    fn shorten(&self) {
        if self.is_longer.load(Ordering::SeqCst) && self.is_longer.swap(false, Ordering::SeqCst) {
            self.fire_after(self.absence);
        }
    }

    /// Hands the worker to the attendant, because the application is about to wait for something
    /// other than this engine. If the attendant has left the worker at the same moment, it drives
    /// once the timer fires.
    pub(crate) fn ends(&self) {
        if self.is_left.load(Ordering::Relaxed) && self.is_left.swap(false, Ordering::AcqRel) {
            self.fire_after(AT_ONCE);
        }
    }

    /// Wakes the attendant, because the engine stops.
    pub(crate) fn stops(&self) {
        self.is_left.store(false, Ordering::Release);
        self.fire_after(AT_ONCE);
    }

    /// Whether the application has polled since the attendant ran its last round.
    pub(crate) fn is_new(&self) -> bool {
        self.polls.load(Ordering::Relaxed) != self.seen.load(Ordering::Relaxed)
    }

    /// Leaves the worker to the application, which has just polled, and returns once it no longer
    /// drives. Returns whether it has stopped polling without handing the worker over.
    fn watch(&self, stop: &AtomicBool) -> bool {
        let (mut absence, mut is_absent) = (self.absence, false);
        self.postpone_at.store(0, Ordering::Relaxed);
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
                self.shorten(); // a thread that stopped waiting may have had nothing to shorten
            }
            // Checked last: `ends` may have set the timer before the call above postponed it.
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
struct Evidence<'a> {
    activity: &'a PollActivity,
    /// The number of packets after which the polls are judged, if something came while the
    /// application was away.
    judged_after: Option<u64>,
    /// Packets received, and those received by polls, when the application was last judged.
    before: (u64, u64),
}

impl<'a> Evidence<'a> {
    fn new(activity: &'a PollActivity, judged_after: Option<u64>) -> Self {
        Evidence { activity, judged_after, before: activity.packets() }
    }

    /// Returns whether the application drives. Called after each round of the attendant.
    fn is_over(&mut self) -> bool {
        let polls = self.activity.polls.load(Ordering::Relaxed);
        let since = polls.wrapping_sub(self.activity.seen.swap(polls, Ordering::Relaxed));
        if self.activity.waiting.load(Ordering::Acquire) > 0 {
            return true;
        }
        match self.judged_after {
            Some(packets) => self.takes_its_part(packets),
            None => since >= DRIVES,
        }
    }

    /// Whether polls have received the share of a loop of polls, in at least this many packets.
    fn takes_its_part(&mut self, packets: u64) -> bool {
        let now = self.activity.packets();
        let (taken, polled) =
            (now.0.wrapping_sub(self.before.0), now.1.wrapping_sub(self.before.1));
        if taken < packets {
            return false;
        }
        self.before = now;
        polled * PART >= taken
    }
}

/// The absences of an application in which something came, each soon after it began to drive.
#[derive(Default)]
struct Absences(u32);

impl Absences {
    /// Records that the application stopped driving after `drove`. `is_missed`: whether something
    /// came while it was away. Returns the number of packets after which its polls are judged.
    fn record(&mut self, is_missed: bool, drove: Duration) -> Option<u64> {
        if !is_missed || drove >= LONG {
            self.0 = 0;
        }
        is_missed.then(|| {
            let packets = PACKETS << self.0;
            self.0 = (self.0 + 1).min(MOST_DOUBLINGS);
            packets
        })
    }
}

/// Drives `worker` while the application does not, until `stop` is set and this thread is woken. As
/// a driver it looks for work for `spin` before it sleeps.
pub(crate) fn attend(
    worker: &WorkerCell,
    activity: &PollActivity,
    spin: Duration,
    stop: &AtomicBool,
) {
    sleep_exactly();
    run_at_once();
    let neighbours = Neighbours::new(Instant::now());
    let mut absences = Absences::default();
    while !stop.load(Ordering::Acquire) {
        let start = Instant::now();
        let is_missed = activity.watch(stop) && worker.control().progress();
        let judged_after = absences.record(is_missed, start.elapsed());
        let mut evidence = Evidence::new(activity, judged_after);
        worker.drive_unless(
            spin,
            None,
            |now, worked| match worked {
                _ if worker.has_one_processor() => true,
                true => neighbours.are_busy(now),
                false => neighbours.want_processor(now),
            },
            || {
                let is_over = evidence.is_over() || stop.load(Ordering::Acquire);
                is_over.then_some(())
            },
        );
    }
}

/// Sets the timer slack of this thread to its minimum. Acknowledgements wait for some microseconds,
/// and by default the system adds 50 us to each sleep.
fn sleep_exactly() {
    const NANOSECONDS: libc::c_ulong = 1;
    // SAFETY: the call takes a number and affects this thread only. If it fails, sleeps are longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOSECONDS) };
}

/// Shortens the time slice of this thread. The thread runs for microseconds and then sleeps, and it
/// has to preempt a thread that looks at memory in a loop. The scheduler prefers the thread with
/// the shorter slice (EEVDF, Linux 6.12 and later). With an equal slice this thread would wait
/// until the slice of the other one is over, for milliseconds if the application uses every
/// processor.
fn run_at_once() {
    /// `struct sched_attr` of `sched_setattr(2)` in its first version.
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
    // SAFETY: the structure has the given size, and 0 means this thread. If a call fails, the slice
    // stays as it is.
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

    use super::*;

    /// Uses the longest absence, because threads of a busy machine seldom wait for that long.
    fn activity() -> PollActivity {
        let activity = PollActivity::new(LONGEST_ABSENCE).unwrap();
        assert_eq!(activity.absence, LONGEST_ABSENCE);
        activity
    }

    /// Polls for `span` while another thread watches. Returns whether that thread still watched at
    /// the end.
    fn is_watched_for(activity: &PollActivity, span: Duration) -> bool {
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            let watch = scope.spawn(|| activity.watch(&stop));
            while start.elapsed() < span {
                activity.round(Time::ZERO + start.elapsed());
                activity.has_polled();
                thread::sleep(Duration::from_millis(1));
            }
            !watch.is_finished() // it ends once the timer fires
        })
    }

    #[test]
    fn the_attendant_is_not_woken_while_somebody_polls_and_is_once_nobody_does() {
        let watched = || is_watched_for(&activity(), 3 * LONGEST_ABSENCE);
        assert!((0..5).any(|_| watched()));
    }

    /// Returns the remaining time of the timer after a wait of twenty absences.
    fn left_after_a_long_wait(activity: &PollActivity) -> Duration {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            activity.during(|| {
                scope.spawn(|| activity.watch(&stop));
                thread::sleep(20 * activity.absence);
            });
            match activity.timer.get().unwrap() {
                Some(Expiration::OneShot(left)) => left.into(),
                _ => Duration::ZERO, // it has fired
            }
        })
    }

    #[test]
    fn a_wait_that_took_long_makes_no_absence_longer() {
        let activity = PollActivity::new(Duration::ZERO).unwrap();
        // The timer that was set during the wait has 44 of its 64 ms left. It may be set at the
        // very moment at which the wait ends.
        assert!((0..5).any(|_| left_after_a_long_wait(&activity) <= activity.absence));
    }

    /// Returns whether the attendant leaves after `polls` polls, which have received `polled`
    /// packets while its own rounds have received `driven`.
    fn leaves(is_missed: bool, polls: u64, (polled, driven): (u64, u64)) -> bool {
        let activity = activity();
        let mut evidence = Evidence::new(&activity, is_missed.then_some(PACKETS));
        (0..polls).for_each(|_| activity.has_polled());
        activity.has_taken(polled as usize, true);
        activity.has_taken(driven as usize, false);
        evidence.is_over()
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
    fn repeated_absences_are_judged_by_more_packets_each_time() {
        let (mut absences, soon) = (Absences::default(), Duration::from_millis(8));
        let judged: Vec<_> = (0..8).filter_map(|_| absences.record(true, soon)).collect();
        assert_eq!(judged, [64, 128, 256, 512, 1024, 2048, 4096, 4096]);
        assert_eq!(absences.record(true, LONG), Some(PACKETS), "it drove for long");
        assert_eq!(absences.record(true, soon), Some(2 * PACKETS));
        assert_eq!(absences.record(false, soon), None);
        assert_eq!(absences.record(true, soon), Some(PACKETS), "it missed nothing before");
    }

    #[test]
    fn it_is_woken_when_the_application_ends_or_the_engine_stops() {
        let tell: [fn(&PollActivity, &AtomicBool); 2] = [
            |activity, _| activity.ends(),
            |activity, stop| {
                stop.store(true, Ordering::Release);
                activity.stops();
            },
        ];
        for tell in tell {
            let (activity, stop) = (activity(), AtomicBool::new(false));
            // During a wait the timer alone does not end the watch.
            activity.during(|| {
                thread::scope(|scope| {
                    let watch = scope.spawn(|| activity.watch(&stop));
                    while !activity.is_left.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    tell(&activity, &stop);
                    watch.join().unwrap();
                });
            });
        }
    }
}
