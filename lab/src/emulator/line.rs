//! One queue and the wire behind it.

use std::collections::VecDeque;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::network::{HEADER_BYTES, Link, Reordering};
use super::packet;

/// The fate of a packet at its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet passed.
    Passed,
    /// The packet passed with a congestion mark.
    Marked,
    /// The queue was full.
    Dropped,
    /// The packet was lost behind the queue.
    Lost,
}

/// The passage of one packet through the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The link.
    pub link: u16,
    /// The sending host.
    pub from: u16,
    /// The length on the link, in bytes.
    pub bytes: u32,
    /// The arrival at the queue, since the network was made.
    pub at: Duration,
    /// The time in the queue.
    pub waited: Duration,
    /// The time by which the emulator was late because it had to wait for a processor.
    pub late: Duration,
    /// The fate of the packet.
    pub fate: Fate,
}

/// A queue and the wire behind it. Packets leave the queue in the order of their arrival, at the
/// rate of the link. The time at which a packet leaves is known when it arrives, so that no event
/// is needed.
pub(super) struct QueuedLink {
    link: Link,
    index: u16,
    /// The time at which the last packet so far has left the queue.
    free_at: Duration,
    /// The packets on the link, in the order in which they are due.
    held: VecDeque<(Duration, Passage, Box<[u8]>)>,
    rng: Pcg64Mcg,
}

impl QueuedLink {
    pub(super) fn new(index: u16, link: Link) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(index.into());
        QueuedLink { link, index, free_at: Duration::ZERO, held: VecDeque::new(), rng }
    }

    /// Takes a packet. Returns an entry for the trace if the packet does not arrive.
    pub(super) fn take(&mut self, now: Duration, from: u16, packet: &mut [u8]) -> Option<Passage> {
        let bytes = packet.len() as u64 + HEADER_BYTES;
        let waited = self.free_at.saturating_sub(now);
        let queued = self.bytes_in(waited);
        let mut passage = Passage {
            link: self.index,
            from,
            bytes: bytes as u32,
            at: now,
            waited,
            late: Duration::ZERO,
            fate: Fate::Passed,
        };
        if queued + bytes > self.link.queue {
            passage.fate = Fate::Dropped;
            return Some(passage);
        }
        if self.link.mark.is_some_and(|threshold| queued > threshold) && packet::mark(packet) {
            passage.fate = Fate::Marked;
        }
        self.free_at = self.free_at.max(now) + self.time_of(bytes);
        if self.link.loss_percent > 0 && self.rng.random_ratio(self.link.loss_percent, 100) {
            passage.fate = Fate::Lost;
            return Some(passage);
        }
        let due = self.free_at + self.delay();
        let later = self.held.iter().rev().take_while(|(other, ..)| *other > due).count();
        self.held.insert(self.held.len() - later, (due, passage, (&*packet).into()));
        None
    }

    /// The delay of the next packet from the end of the queue to the other end of the link.
    fn delay(&mut self) -> Duration {
        let usual = self.link.delay;
        match self.link.reordering {
            Reordering::None => usual,
            Reordering::Jitter(most) => usual - most + most.mul_f64(2.0 * self.rng.random::<f64>()),
            Reordering::Skip(percent) => {
                if self.rng.random_ratio(percent, 100) {
                    Duration::ZERO
                } else {
                    usual
                }
            }
        }
    }

    /// The next packet that is due, with its entry for the trace.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<(Passage, Box<[u8]>)> {
        let due = self.next_due().filter(|due| *due <= now)?;
        let (_, passage, packet) = self.held.pop_front()?;
        Some((Passage { late: now - due, ..passage }, packet))
    }

    /// The time at which the next packet is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.held.front().map(|(due, ..)| *due)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 8 * 1_000_000_000 / self.link.rate.bits())
    }

    fn bytes_in(&self, time: Duration) -> u64 {
        (time.as_nanos() * u128::from(self.link.rate.bits()) / 8_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    /// A packet of 1000 bytes with Ethernet takes 1 ms.
    const LINK: Link = Link {
        rate: Rate::from_bits(8_000_000),
        queue: 3000,
        delay: Duration::from_millis(10),
        mark: Some(1500),
        reordering: Reordering::None,
        loss_percent: 0,
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn capable() -> Vec<u8> {
        let mut packet = vec![0; 1000 - HEADER_BYTES as usize];
        packet[..2].copy_from_slice(&[0x45, 2]);
        packet
    }

    #[test]
    fn packets_leave_at_the_rate_and_arrive_after_the_delay() {
        let mut line = QueuedLink::new(0, LINK);
        for _ in 0..2 {
            assert_eq!(line.take(ms(5), 7, &mut capable()), None);
        }
        assert_eq!(line.next_due(), Some(ms(16)));
        assert!(line.pop_due(ms(15)).is_none(), "too early");
        let (first, _) = line.pop_due(ms(16)).expect("it is due");
        assert_eq!((first.waited, first.late, first.from, first.bytes), (ms(0), ms(0), 7, 1000));
        let (second, _) = line.pop_due(ms(20)).expect("it is due");
        assert_eq!((second.waited, second.late), (ms(1), ms(3)));
        assert!(line.take(ms(30), 7, &mut capable()).is_none());
        assert_eq!(line.next_due(), Some(ms(41)), "an idle link saves nothing up");
    }

    /// When 100 packets arrive that come 1 ms apart, in the order in which they came.
    fn arrivals(reordering: Reordering) -> Vec<Duration> {
        let mut line = QueuedLink::new(0, Link { reordering, ..LINK });
        for at in 0..100 {
            assert_eq!(line.take(ms(at), 0, &mut capable()), None);
        }
        let mut passed = Vec::new();
        while let Some(due) = line.next_due() {
            let (passage, _) = line.pop_due(due).expect("it is due");
            assert!(passed.last().is_none_or(|(_, before)| *before <= due));
            passed.push((passage.at, due));
        }
        passed.sort();
        passed.into_iter().map(|(_, due)| due).collect()
    }

    #[test]
    fn packets_overtake_each_other_by_as_much_as_the_link_says() {
        let usual = |index: usize| ms(index as u64 + 11);
        let jittered = arrivals(Reordering::Jitter(ms(5)));
        let differs = |index: usize| jittered[index].abs_diff(usual(index));
        assert!((0..100).all(|index| differs(index) <= ms(5)));
        assert!((0..100).filter(|index| differs(*index) > ms(3)).count() > 10);
        let skipping = arrivals(Reordering::Skip(25));
        let without = (0..100).filter(|index| skipping[*index] == usual(*index) - LINK.delay);
        assert!((15..35).contains(&without.count()));
        assert!((0..100).all(|index| skipping[index] >= usual(index) - LINK.delay));
        assert!((0..100).all(|index| arrivals(Reordering::None)[index] == usual(index)));
    }

    #[test]
    fn lost_packets_occupy_the_link_and_the_others_arrive() {
        let mut line = QueuedLink::new(0, Link { loss_percent: 20, ..LINK });
        let lost: Vec<_> =
            (0..1000).filter_map(|at| line.take(ms(at), 0, &mut capable())).collect();
        assert!(lost.iter().all(|passage| passage.fate == Fate::Lost));
        assert!((150..250).contains(&lost.len()), "{}", lost.len());
        let passed = std::iter::from_fn(|| line.pop_due(ms(2000))).count();
        assert_eq!(passed + lost.len(), 1000);
    }

    #[test]
    fn the_queue_marks_above_its_threshold_and_drops_at_its_tail() {
        let mut line = QueuedLink::new(0, LINK);
        let dropped: Vec<_> = (0..5).filter_map(|_| line.take(ms(0), 0, &mut capable())).collect();
        assert_eq!(dropped.len(), 2);
        assert!(dropped.iter().all(|passage| passage.fate == Fate::Dropped));
        let passed: Vec<_> = std::iter::from_fn(|| line.pop_due(ms(100))).collect();
        let fates = passed.iter().map(|(passage, _)| passage.fate);
        assert_eq!(fates.collect::<Vec<_>>(), [Fate::Passed, Fate::Passed, Fate::Marked]);
        assert_eq!([passed[0].1[1], passed[2].1[1]], [2, 3]);
        // Half of a packet has drained: still no room for a whole one.
        let mut line = QueuedLink::new(0, LINK);
        (0..3).for_each(|_| assert_eq!(line.take(ms(0), 0, &mut capable()), None));
        assert!(line.take(Duration::from_micros(500), 0, &mut capable()).is_some());
        assert!(line.take(ms(1), 0, &mut capable()).is_none());
    }
}
