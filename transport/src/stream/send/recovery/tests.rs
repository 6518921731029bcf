//! Each method against hand-worked sequences of packets and acknowledgements.

use std::time::Duration;

use braid_lb::{LbPolicy, PathSet};
use braid_wire::{PathId, Psn};

use super::*;
use crate::stream::send::segment::Echo;
use crate::stream::send::source::Next;
use crate::stream::send::window::Credit;

/// A stream of ten packets, PSN 100 to 109, sent 10 us apart on paths 0, 1, 0, 1, ..., with a loss
/// detector.
struct Stream {
    window: Window,
    detector: Detector,
    rails: Rails,
    /// Number of segments that were declared lost and are known to have come late.
    needless: usize,
    now: Time,
}

const FIRST: u64 = 100;
const STEP: Duration = Duration::from_micros(10);

impl Stream {
    fn new(recovery: LossRecovery, reorder_threshold: u32) -> Self {
        let config = QpConfig { recovery, reorder_threshold, ..QpConfig::default() };
        let mut stream = Stream {
            window: Window::new(Psn(FIRST)),
            detector: Detector::new(&config, reorder_threshold.into()),
            rails: PathSet::new(LbPolicy::ROUND_ROBIN, 2, 1).expect("two paths").into(),
            needless: 0,
            now: Time::from_nanos(1_000_000),
        };
        for index in 0..10 {
            let next = Next { source: 0, offset: 0, len: 1000 };
            stream.window.push(stream.now, next, PathId::new(index % 2), None);
            stream.now += STEP;
        }
        stream
    }

    /// Acknowledges all packets below `cumulative` and those in `beyond`; `echo` came last. Returns
    /// the segments that are now lost, by their distance from the first PSN.
    fn ack(&mut self, cumulative: u64, beyond: &[u64], echo: u64, spurious: u32) -> Vec<u64> {
        let echoed = *self.window.get(Psn(FIRST + echo)).expect("a packet in flight");
        let rtt = self.now - echoed.sent_at;
        let echo = Echo { path: echoed.path, stamp: echoed.sent_at.stamp() };
        self.acknowledge(cumulative, beyond, echo, rtt, spurious)
    }

    fn ack_echoing(&mut self, cumulative: u64, beyond: &[u64], echo: Echo) -> Vec<u64> {
        self.acknowledge(cumulative, beyond, echo, STEP, 0)
    }

    fn acknowledge(
        &mut self,
        cumulative: u64,
        beyond: &[u64],
        echo: Echo,
        rtt: Duration,
        spurious: u32,
    ) -> Vec<u64> {
        let cumulative = Psn(FIRST + cumulative);
        let ones = beyond.iter().map(|psn| FIRST + psn - cumulative.0);
        let word = ones.fold(0, |word, one| word | 1 << one);
        let arrived = |credit: &Credit<'_>| {
            let segment = credit.segment;
            if credit.certain {
                self.detector.on_arrival(self.now, segment, &mut self.rails);
            }
            if !segment.is_first_flight() {
                let (detector, rails) = (&mut self.detector, &mut self.rails);
                self.needless +=
                    usize::from(detector.on_presumed_acked(self.now, segment, echo, rails));
            }
        };
        let acked = self
            .window
            .ack(cumulative, &[word], echo, arrived)
            .expect("nothing beyond what was sent");
        self.detector.follow(self.now, &self.rails);
        let highest = beyond.iter().max().map_or(Psn(cumulative.0 - 1), |psn| Psn(FIRST + psn));
        let report = Report {
            now: self.now,
            cumulative,
            highest,
            early: acked.early,
            spurious,
            rtt,
            reorder_time: Duration::from_secs(1),
            overdue: Duration::from_millis(5),
        };
        let mut lost = Vec::new();
        let sent: Vec<_> = (0..10).map(|psn| self.order_of(psn)).collect();
        self.detector.detect(&report, &mut self.window, &mut |segment| {
            let psn = sent.iter().position(|order| *order == Some(segment.order));
            lost.push(psn.expect("a segment of the window") as u64);
        });
        lost
    }

    fn order_of(&self, psn: u64) -> Option<u64> {
        self.window.get(Psn(FIRST + psn)).map(|segment| segment.order)
    }

    /// Retransmits the segment that was lost first, on this path.
    fn resend(&mut self, path: u16) {
        let (psn, _) = self.window.peek_lost().expect("something is lost");
        self.window.resend(self.now, psn, PathId::new(path));
        self.now += STEP;
    }

    fn time_out(&mut self) -> u32 {
        let mut lost = 0;
        self.detector.on_timeout(self.now, &mut self.window, &mut |_| lost += 1);
        lost
    }
}

#[test]
fn fifo_path_knows_a_loss_by_the_next_packet_of_the_same_path() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    // PSNs 1 and 3 of path 1 say nothing about 0 of path 0; 2 of path 0 does.
    assert_eq!(stream.ack(0, &[1, 3], 3, 0), []);
    assert_eq!(stream.ack(0, &[1, 2, 3], 2, 0), [0]);
    assert_eq!(stream.ack(0, &[1, 2, 3, 8], 8, 0), [4, 6]);
}

#[test]
fn fifo_path_does_not_confuse_a_retransmission_with_its_original() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    assert_eq!(stream.ack(0, &[2], 2, 0), [0]);
    stream.resend(1);
    // PSN 0 arrives. If that is the original, it says nothing about path 1; only an echo would.
    assert_eq!(stream.ack(1, &[2], 2, 0), []);
    // An echo of the retransmission shows that what path 1 carried before is lost.
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    assert_eq!(stream.ack(0, &[2], 2, 0), [0]);
    stream.resend(1);
    assert_eq!(stream.ack(1, &[2], 0, 0), [1, 3, 5, 7, 9]);
}

#[test]
fn fifo_path_leaves_a_silent_path_to_the_time_out() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    assert_eq!(stream.ack(0, &[1, 3, 5, 7, 9], 9, 0), []);
    stream.now += Duration::from_millis(5);
    assert_eq!(stream.ack(0, &[1, 3, 5, 7, 9], 9, 0), [0, 2, 4, 6, 8]);
}

#[test]
fn fifo_path_learns_from_a_late_packet_how_long_to_wait_on_its_path() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    assert_eq!(stream.ack(0, &[2], 2, 0), [0]);
    // The packet arrives before its retransmission, 30 us late: from now on the window is 45 us.
    stream.now += 3 * STEP;
    assert_eq!(stream.ack(1, &[2], 0, 0), []);
    assert_eq!(stream.needless, 1);
    assert_eq!(stream.ack(1, &[2, 6], 6, 0), [], "4 may be late");
    stream.now += 4 * STEP;
    assert_eq!(stream.ack(1, &[2, 6], 6, 0), []);
    assert_eq!(stream.ack(1, &[2, 6, 3], 3, 0), [1], "path 1 keeps order as far as is known");
    stream.now += 2 * STEP;
    assert_eq!(stream.ack(1, &[2, 3, 6], 6, 0), [4]);
}

#[test]
fn fifo_path_learns_from_an_echo_that_a_retransmission_was_needless() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    let first = *stream.window.get(Psn(FIRST)).expect("the first packet");
    assert_eq!(stream.ack(0, &[2], 2, 0), [0]);
    let resent_at = stream.now;
    stream.resend(1);
    let original = Echo { path: first.path, stamp: first.sent_at.stamp() };
    assert_eq!(stream.ack_echoing(1, &[2], original), []);
    assert_eq!((stream.needless, stream.rails.reordering().is_any()), (1, true));
    // The retransmission arrives as well, which changes nothing.
    let again = Echo { path: PathId::new(1), stamp: resent_at.stamp() };
    assert!(stream.detector.on_duplicates(stream.now, again, 1, &mut stream.rails));
}

#[test]
fn fifo_path_learns_from_a_duplicate_which_path_was_late() {
    let mut stream = Stream::new(LossRecovery::FifoPath, 48);
    assert_eq!(stream.ack(0, &[2], 2, 0), [0]);
    let resent_at = stream.now;
    stream.resend(1);
    // The segment has arrived, but it is not known by which transmission.
    assert_eq!(stream.ack(1, &[2], 2, 0), []);
    assert_eq!((stream.needless, stream.rails.reordering().is_any()), (0, false));
    let again = Echo { path: PathId::new(1), stamp: resent_at.stamp() };
    assert!(!stream.detector.on_duplicates(stream.now, again, 1, &mut stream.rails));
    assert!(!stream.rails.reordering().window(PathId::new(0)).is_zero());
}

#[test]
fn the_out_of_order_window_decides_what_is_late_and_what_is_lost() {
    // PRO, figure 4: with wnd 3 and the newest at 6, everything older than 3 is lost.
    let mut stream = Stream::new(LossRecovery::OooWindow, 3);
    assert_eq!(stream.ack(0, &[3, 6], 6, 0), [0, 1, 2]);
    // A spurious retransmission adds one: 9 - 4 leaves 5, which 9 would have shown lost before.
    stream.resend(0);
    assert_eq!(stream.ack(1, &[3, 6, 9], 9, 1), [4]);
}

#[test]
fn a_retransmission_falls_out_of_the_window_only_after_as_many_others() {
    let mut stream = Stream::new(LossRecovery::OooWindow, 3);
    assert_eq!(stream.ack(0, &[3, 6], 6, 0), [0, 1, 2]);
    for _ in 0..3 {
        stream.resend(0);
    }
    // The second and third retransmission have overtaken the first, by less than the window.
    assert_eq!(stream.ack(0, &[1, 2, 3, 4, 5, 6], 6, 0), []);
}

#[test]
fn a_time_out_that_was_none_does_not_halve_the_out_of_order_window() {
    // The next arrival left before the time-out: the window is 6 again.
    let mut stream = Stream::new(LossRecovery::OooWindow, 6);
    assert_eq!(stream.time_out(), 2);
    assert_eq!(stream.ack(0, &[9], 9, 0), [2]);
    // The next arrival is the retransmission of the time-out: 3 of 10 may be late.
    let mut stream = Stream::new(LossRecovery::OooWindow, 6);
    assert_eq!(stream.time_out(), 2);
    stream.resend(0);
    assert_eq!(stream.ack(1, &[9], 0, 0), [2, 3, 4, 5, 6]);
}

#[test]
fn a_threshold_loses_what_so_many_others_have_overtaken() {
    let mut stream = Stream::new(LossRecovery::Sack, 3);
    assert_eq!(stream.ack(0, &[3], 3, 0), [0]);
    assert_eq!(stream.ack(0, &[3, 5], 5, 0), [1, 2]);
    // One spurious retransmission doubles the threshold.
    stream.resend(0);
    assert_eq!(stream.ack(1, &[3, 5, 9], 9, 1), []);
}

#[test]
fn nic_sr_resends_its_epsn_once_whatever_the_cause() {
    let mut stream = Stream::new(LossRecovery::NicSr, 48);
    assert_eq!(stream.ack(0, &[1], 1, 0), [0], "late or lost, it does not know");
    stream.resend(0);
    assert_eq!(stream.ack(0, &[1, 2, 3], 3, 0), []);
    assert_eq!(stream.ack(4, &[6], 6, 0), [4]);
    assert_eq!(stream.ack(4, &[6, 7], 7, 0), []);
    stream.resend(0);
    stream.now += Duration::from_micros(500);
    assert_eq!(stream.ack(4, &[6, 7, 8], 8, 0), [4], "NACKed again");
}

#[test]
fn go_back_n_goes_back_once_per_epsn() {
    let mut stream = Stream::new(LossRecovery::GoBackN, 48);
    assert_eq!(stream.ack(7, &[8], 8, 0), [7, 9]);
    stream.resend(0);
    stream.resend(0);
    assert_eq!(stream.ack(7, &[8], 8, 0), []);
    assert_eq!(stream.time_out(), 2, "a time-out goes back too");
}

#[test]
fn a_time_out_sends_two_again_to_learn_about_the_rest() {
    for method in [LossRecovery::OooWindow, LossRecovery::FifoPath, LossRecovery::Sack] {
        assert_eq!(Stream::new(method, 48).time_out(), 2, "{method}");
    }
}

#[test]
fn names_are_read_and_written_alike() {
    for method in LossRecovery::all() {
        assert_eq!(method.name().parse(), Ok(method));
    }
    let error = "rack".parse::<LossRecovery>().unwrap_err().to_string();
    assert_eq!(
        error,
        "no loss recovery is called `rack`; there is: ooo-window, fifo-path, sack, nic-sr, go-back-n"
    );
}
