//! Lower bounds of a workload's time, from its start to the last acknowledgement at a sender.
//!
//! Every data packet is acknowledged at once. Switches store and forward. Nothing queues in the
//! fabric and nothing is lost. All times are in whole picoseconds.
//!
//! [`lone_flow`] is exact, and [`of_workload`] holds for all behaviour of hosts. [`permutation`]
//! and [`all_to_all`] are the OFAN paper's, so that its figures can be compared. They presume hosts
//! that send data and acknowledgements in turn, and distant receivers. A host that delays its
//! acknowledgements, and ends with its nearest neighbour, could be faster by less than a round
//! trip.

mod cuts;
mod general;
mod journey;

pub use cuts::at_best;
pub use general::{Alone, of_workload};

use crate::frames::Frames;
use crate::time::{Ps, Rate};

/// A route through a fabric of equal links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Speed of each link.
    pub rate: Rate,
    /// Delay of each link.
    pub delay: Ps,
    /// Number of links, at least 1.
    pub hops: u32,
}

/// The terms of the formulas in OFAN, appendix B.
struct Terms {
    /// Serialisation of a full data packet: `Td`.
    data: Ps,
    /// Serialisation of an acknowledgement: `Ta`.
    ack: Ps,
    /// Serialisation of the gap: `Tg`.
    gap: Ps,
    /// Propagation from end to end: `Tp`.
    propagation: Ps,
    /// Number of switches: `H - 1`.
    switches: u64,
}

impl Frames {
    fn terms(&self, path: &Path) -> Terms {
        Terms {
            data: path.rate.time_for(self.full()),
            ack: path.rate.time_for(self.ack),
            gap: path.rate.time_for(self.gap),
            propagation: path.delay * u64::from(path.hops),
            switches: u64::from(path.hops.max(1)) - 1,
        }
    }

    /// Returns the time that the data packets of a message occupy a link, including the gap after
    /// each.
    fn data_time(&self, rate: Rate, bytes: u64) -> Ps {
        let gap = rate.time_for(self.gap);
        let each = rate.time_for(self.each(bytes)) + gap;
        each * (self.packets(bytes) - 1) + rate.time_for(self.last(bytes)) + gap
    }

    /// Returns the time that the acknowledgements of a message occupy a link, including the gap
    /// after each.
    fn ack_time(&self, rate: Rate, bytes: u64) -> Ps {
        (rate.time_for(self.ack) + rate.time_for(self.gap)) * self.packets(bytes)
    }
}

/// Returns the delivery time of one message of `bytes` (at least 1), alone in the fabric.
pub fn delivery(frames: &Frames, path: &Path, bytes: u64) -> Ps {
    let terms = frames.terms(path);
    let last = path.rate.time_for(frames.last(bytes));
    let each = path.rate.time_for(frames.each(bytes));
    let sent = match frames.packets(bytes) {
        1 => last * terms.switches,
        // A shorter last packet waits behind a longer one at every switch.
        packets => (each + terms.gap) * (packets - 1) + each * terms.switches,
    };
    sent + last + terms.propagation
}

/// Returns the time of one message of `bytes` (at least 1), alone in the fabric: `m` packets back
/// to back, then the acknowledgement of the last one.
pub fn lone_flow(frames: &Frames, path: &Path, bytes: u64) -> Ps {
    let terms = frames.terms(path);
    let last = path.rate.time_for(frames.last(bytes));
    // The previous acknowledgement may still be leaving.
    let waits = match frames.packets(bytes) {
        1 => Ps::ZERO,
        _ => terms.ack.since(last),
    };
    delivery(frames, path, bytes) + waits + terms.ack * (terms.switches + 1) + terms.propagation
}

/// Returns the time of a permutation of messages of `bytes` (OFAN, appendix B), over routes of the
/// same length. Every host is a full sender and receiver at once. The last packet counts as a full
/// one.
///
/// Hosts first send data only, then data and acknowledgements in turn, then acknowledgements. The
/// paper prints the second limit of the last phase with the tail `(H - 1) T'd + Tp`, which gives
/// 17.263 us in its example. The 17.05694 us that it states come from `(H - 1) Ta + Tp`, the time
/// of an acknowledgement from the first switch on. The print is an error; this function uses the
/// latter.
pub fn permutation(frames: &Frames, path: &Path, bytes: u64) -> Ps {
    let terms = frames.terms(path);
    let m = frames.packets(bytes);
    let (data, ack) = (terms.data + terms.gap, terms.ack + terms.gap);
    let route = terms.propagation + terms.data * terms.switches;
    let i1 = route.0.div_ceil(data.0) + 1;
    if m < i1 {
        // No host has anything to send when the first packet arrives.
        return lone_flow(frames, path, m * u64::from(frames.payload));
    }
    let t_i1 = route + terms.data + data * (i1 - 1);
    let first = t_i1 + ack;
    let i2 = m - i1 + 1;
    let tail = terms.ack * terms.switches + terms.propagation;

    let in_turn = |i: u64| first + (data + ack) * (i - 1);
    // By acknowledgement. Those after i2 wait for one as well as for the i1 - 1 before it.
    let mut times: Vec<Ps> = (1..=i2).map(in_turn).collect();
    for i in i2 + 1..=m {
        let leaves = in_turn(i2) + ack * (i - i2);
        let acked = i.checked_sub(i1).map_or(Ps::ZERO, |before| times[before as usize] + tail);
        times.push(leaves.max(acked));
    }
    times[m as usize - 1]
}

/// Returns the time of an all-to-all of `nodes`, a message of `bytes` for every ordered pair. The
/// paper describes it only in words, as propagation and host transmission delays. The formula is
/// `(n - 1) m (T'd + T'a) + 2 Tp + H Td + (H - 1) Ta`. The last packet of a message counts as a
/// full one.
pub fn all_to_all(frames: &Frames, path: &Path, nodes: u32, bytes: u64) -> Ps {
    let terms = frames.terms(path);
    let packets = frames.packets(bytes) * u64::from(nodes.saturating_sub(1));
    let in_turn = terms.data + terms.ack + terms.gap * 2;
    in_turn * packets
        + terms.propagation * 2
        + terms.data * (terms.switches + 1)
        + terms.ack * terms.switches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// OFAN: 4096 B payload, 62 B header, 64 B ACK, 20 B gap.
    pub(super) const OFAN: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    /// htsim: 64 B header, no gap.
    pub(super) const UEC: Frames = Frames { payload: 4096, header: 64, ack: 64, gap: 0 };
    /// Six links of 800 Gb/s and 0.5 us.
    pub(super) const SIX: Path =
        Path { rate: Rate::from_gbps(800), delay: Ps::from_nanos(500), hops: 6 };
    pub(super) const MIB: u64 = 1 << 20;

    #[test]
    fn the_permutation_takes_17_05694_us() {
        assert_eq!(permutation(&OFAN, &SIX, MIB), Ps(17_056_940));
    }

    #[test]
    fn the_uec_presets_bounds() {
        assert_eq!(permutation(&UEC, &SIX, MIB), Ps(16_974_720));
        assert_eq!(permutation(&UEC, &SIX, 16 * MIB), Ps(179_176_320));
        assert_eq!(all_to_all(&UEC, &SIX, 128, 64 << 10), Ps(92_084_480));
        assert_eq!(all_to_all(&UEC, &SIX, 128, MIB), Ps(1_379_559_680));
    }

    /// The paper states about 1.3 ms, which is about 220 round trips of 6.25 us.
    #[test]
    fn the_all_to_all_takes_about_1_39_ms() {
        assert_eq!(all_to_all(&OFAN, &SIX, 128, MIB), Ps(1_391_914_120));
    }

    #[test]
    fn a_lone_packet_is_stored_and_forwarded_six_times_each_way() {
        let one = Ps(6 * (41_580 + 500_000) + 6 * (640 + 500_000));
        assert_eq!(lone_flow(&OFAN, &SIX, 4096), one);
        let byte = Ps(6 * (630 + 500_000) + 6 * (640 + 500_000));
        assert_eq!(lone_flow(&OFAN, &SIX, 1), byte);
        assert_eq!(lone_flow(&OFAN, &SIX, MIB), one + Ps(255 * 41_780));
    }

    #[test]
    fn a_short_last_packet_waits_behind_the_longer_one() {
        // Packets of 2056 and 2041 bytes. The second leaves each switch right after the first: 5
        // longer frames, a gap and its own time.
        let data = 21_180 + 200 + 5 * 21_180 + 21_030 + 3_000_000;
        assert_eq!(delivery(&OFAN, &SIX, 4097), Ps(data));
        assert_eq!(lone_flow(&OFAN, &SIX, 4097), Ps(data + 6 * 640 + 3_000_000));
        // Packets of 40 and 25 bytes, shorter than an acknowledgement, which waits 190 ps for the
        // previous one.
        let small = Frames { payload: 64, header: 20, ..OFAN };
        let data = 600 + 200 + 5 * 600 + 450 + 3_000_000;
        assert_eq!(delivery(&small, &SIX, 65), Ps(data));
        assert_eq!(lone_flow(&small, &SIX, 65), Ps(data + 190 + 6 * 640 + 3_000_000));
    }

    /// A copy of the model in plain steps: frame by frame, link by link.
    fn step_by_step(frames: &Frames, path: &Path, bytes: u64) -> Ps {
        let gap = path.rate.time_for(frames.gap);
        let packets = frames.packets(bytes);
        let mut free = vec![Ps::ZERO; 2 * path.hops as usize];
        let mut last = Ps::ZERO;
        for packet in 1..=packets {
            let data = match packet == packets {
                true => frames.last(bytes),
                false => frames.each(bytes),
            };
            let mut at = Ps::ZERO;
            for (link, free) in free.iter_mut().enumerate() {
                let frame = if link < path.hops as usize { data } else { frames.ack };
                let sent = at.max(*free) + path.rate.time_for(frame);
                (*free, at) = (sent + gap, sent + path.delay);
            }
            last = at;
        }
        last
    }

    proptest! {
        #[test]
        fn a_lone_flow_is_exact(
            bytes in 1_u64..40_000, payload in 64_u16..9000, header in 20_u32..100,
            ack in 20_u32..85, gap in 0_u32..30, hops in 1_u32..7, gbps in 1_u64..900,
        ) {
            let frames = Frames { payload, header, ack, gap };
            let path = Path { rate: Rate::from_gbps(gbps), delay: Ps::from_nanos(500), hops };
            prop_assert_eq!(lone_flow(&frames, &path, bytes), step_by_step(&frames, &path, bytes));
        }

        /// Longer messages never take less time, and other flows never make them faster.
        #[test]
        fn the_permutation_grows_with_its_messages(packets in 1_u64..600) {
            let time = |packets: u64| permutation(&OFAN, &SIX, packets * 4096);
            prop_assert!(time(packets) < time(packets + 1));
            prop_assert!(time(packets) >= lone_flow(&OFAN, &SIX, packets * 4096));
        }
    }
}
