//! Optimistic acknowledgements (RFC 9000, section 21.4): a peer that acknowledges segments that it
//! has not received is found out. An honest peer never is, and is not slowed down.

use std::time::Duration;

use braid_cc::{CcConfig, FixedWindow};
use braid_transport::{
    Admit, EndpointConfig, LossRecovery, QpConfig, QpState, RemoteAddr, SendOp, Status,
};
use braid_wire::{
    Ack, Bitmap, Control, ControlKind, DataHeader, FinalAck, Opcode, QpId, Stream, Time, Token,
};

use crate::end::End;
use crate::hosts::{MTU, Pair, Sent, wide};
use crate::kit::{self, NAME, Wire};

/// Segments that may be in flight.
const IN_FLIGHT: u32 = 64;
const FIRST: u32 = 0xFF_FFF0;
/// Segments of a WRITE.
const SEGMENTS: u32 = 1024;
/// Segments after which a test gives up.
const ENOUGH: u64 = 1 << 14;
const SEEDS: u8 = 40;

fn pair(skip_key: Option<[u8; 16]>, recovery: LossRecovery) -> Pair {
    let window = u64::from(IN_FLIGHT) * (u64::from(MTU) + 60);
    let cc = CcConfig::new(FixedWindow { window });
    let config = QpConfig { recovery, cc, ..wide() };
    Pair::with(config, EndpointConfig { skip_key, ..EndpointConfig::default() })
}

fn withholding(seed: u8) -> Pair {
    pair(Some([seed; 16]), LossRecovery::default())
}

/// An acknowledgement of a peer that has received nothing.
fn optimistic_ack(now: Time, cumulative: u64, beyond: &[u64]) -> Ack {
    let cumulative = (u64::from(FIRST) + cumulative) as u32;
    let bitmap = Bitmap::new(beyond.iter().copied().collect());
    Ack { highest: 0, bitmap, ..kit::ack(NAME, Stream::Requests, cumulative, now.stamp()) }
}

/// Sends while the peer acknowledges. `acks` gets the number of segments that the peer has
/// acknowledged so far. Returns the number of segments that were sent.
fn send_on(
    pair: &mut Pair,
    mut sent: u64,
    mut acks: impl FnMut(u64) -> Vec<(u64, Vec<u64>)>,
) -> u64 {
    let mut acked = sent;
    while pair.sender_state() == QpState::ReadyToSend && sent < ENOUGH {
        pair.completed();
        pair.keep_writing(SEGMENTS);
        sent += pair.send_all().len() as u64;
        for (cumulative, beyond) in acks(acked) {
            pair.pass(Duration::from_micros(1));
            pair.ack(&optimistic_ack(pair.now, cumulative, &beyond));
            sent += pair.send_all().len() as u64;
            acked = cumulative;
        }
    }
    sent
}

#[test]
fn optimistic_acks_gain_little() {
    let window = u64::from(IN_FLIGHT);
    let strides = [1, 7, window / 2, window];
    let mut most = 0;
    for (seed, stride) in (0..SEEDS).flat_map(|seed| strides.map(|stride| (seed, stride))) {
        let mut pair = withholding(seed);
        let sent = send_on(&mut pair, 0, |acked| vec![(acked + stride, vec![])]);
        most = most.max(sent);
        let statuses = pair.statuses();
        assert_eq!(
            pair.counters().untrue_acks,
            1,
            "seed {seed}, {stride} at a time: {sent} segments"
        );
        assert!(!statuses.contains(&Status::Success), "{statuses:?}");
    }
    println!("{} bytes at most for acknowledgements of nothing", most * u64::from(MTU));
    assert!(most <= 64 + window, "{most} segments");
}

#[test]
fn optimistic_acks_gain_no_more_than_was_received_honestly() {
    let mut most = 0.0_f64;
    for seed in 0..SEEDS {
        let mut pair = withholding(seed);
        let received = 200 + 50 * u64::from(seed);
        let honest = Link::new(Duration::from_micros(10)).carry(&mut pair, received);
        let sent = send_on(&mut pair, honest, |acked| vec![(acked + 16, vec![])]);
        assert_eq!(pair.counters().untrue_acks, 1, "seed {seed}: {sent} segments");
        let (optimistic, bound) = (sent - honest, honest + 2 * u64::from(IN_FLIGHT));
        assert!(optimistic <= bound, "seed {seed}: {optimistic} segments more after {honest}");
        most = most.max(optimistic as f64 / honest as f64);
    }
    println!("{most:.2} times as much as it had received, at most");
}

#[test]
fn guesses_of_skipped_segments_are_soon_wrong() {
    // Leaves out one in nine, moves up to it, and acknowledges it: right if that one is withheld.
    let mut total = 0;
    for seed in 0..SEEDS {
        let mut pair = withholding(seed);
        total += send_on(&mut pair, 0, |acked| vec![(acked, vec![0x1FE]), (acked + 9, vec![])]);
        assert_eq!(pair.counters().untrue_acks, 1, "seed {seed}");
    }
    let mean = total / u64::from(SEEDS);
    println!("{} bytes on average for guesses", mean * u64::from(MTU));
    assert!(mean <= 4 * (64 + u64::from(IN_FLIGHT)), "{mean} segments");
}

fn end(seed: u8) -> End {
    let endpoint = EndpointConfig { skip_key: Some([seed; 16]), ..EndpointConfig::default() };
    End::within(FIRST, QpConfig { max_rd_atomic: 16, ..wide() }, endpoint)
}

/// A request beyond the granted number acknowledges the oldest response.
#[test]
fn requests_without_received_responses_gain_little() {
    let segments_each = 4;
    let mut most = 0;
    for seed in 0..SEEDS {
        let (mut end, mut sent) = (end(seed), 0);
        for request in 0..ENOUGH as u32 / segments_each {
            let RemoteAddr { addr: address, rkey } = end.remote();
            let header = end.segment(Opcode::ReadRequest, FIRST + request, 0, 0..0);
            let message_len = segments_each * u32::from(MTU);
            let (last, number) = (true, request);
            let header = DataHeader { address, rkey, message_len, number, last, ..header };
            let _ = end.arrive(&header);
            sent += end.send().len();
        }
        most = most.max(sent);
    }
    println!("{} bytes at most for requests alone", most * usize::from(MTU));
    // A segment that nothing follows yet, as the last of an answer, is not withheld: one of the
    // next 64 is.
    assert!(most <= 4 * 64, "{most} segments");
}

#[test]
fn response_behind_a_skipped_request_is_found_out() {
    let mut seen = 0;
    for seed in 0..SEEDS {
        let mut end = end(seed);
        let op = SendOp::Write { remote: end.remote(), imm: None };
        for _ in 0..16 {
            end.queue(op, u32::from(MTU));
        }
        end.queue(SendOp::Read { remote: end.remote() }, 0);
        let withheld = end.send().len() < 17;
        let answer = end.segment(Opcode::ReadResponse, FIRST, 0, 0..0);
        let answer = DataHeader { number: 16, ..answer };
        assert!(matches!(end.arrive(&answer), Admit::Take(_)));
        let done = end.completions();
        let all_well = done.iter().all(|done| done.status == Status::Success);
        assert_eq!((all_well, end.is_receiving()), (!withheld, !withheld), "seed {seed}: {done:?}");
        seen += u32::from(withheld);
    }
    assert!(seen > 0);
}

#[test]
fn ack_of_an_unsent_segment_ends_the_connection() {
    let mut pair = withholding(1);
    pair.write(4);
    assert!(pair.send().len() >= 3);
    pair.ack(&optimistic_ack(pair.now, 0, &[0b100_0000]));
    assert_eq!((pair.counters().untrue_acks, pair.sender_state()), (1, QpState::Error));
}

#[test]
fn released_segment_leaves_without_an_acknowledgement() {
    let mut seen = 0;
    for seed in 0..SEEDS {
        let mut pair = withholding(seed);
        pair.write(IN_FLIGHT);
        let withheld = IN_FLIGHT as usize - pair.send().len();
        assert!(pair.send().is_empty(), "seed {seed}: nothing is left but the skipped segment");
        pair.release_skipped();
        assert_eq!(pair.send().len(), withheld, "seed {seed}");
        seen += withheld;
    }
    assert!(seen > 0);
}

#[test]
fn disconnect_that_acknowledges_a_skipped_segment_is_ignored() {
    let mut seen = 0;
    for seed in 0..SEEDS {
        let mut pair = withholding(seed);
        pair.write(IN_FLIGHT);
        let withheld = pair.send().len() < IN_FLIGHT as usize;
        seen += u32::from(withheld);
        let requests = (FIRST + IN_FLIGHT) & 0xFF_FFFF;
        let last = FinalAck { requests, responses: FIRST, refusal: None };
        let (qp, from, token) = (QpId::new(2), QpId::new(2), Token(7));
        let kind = ControlKind::Disconnect(last);
        let disconnect = Control { kind, qp, from, token, stamp: 0 };
        assert_eq!(pair.control(&disconnect), !withheld, "seed {seed}");
    }
    assert!(seen > 0);
}

/// Carries packets in order, each of which takes so long, one every 100 ns.
struct Link {
    delay: Duration,
    /// When the next packet can leave.
    free_at: Time,
    packets: Wire<Sent>,
    acks: Wire<Ack>,
}

impl Link {
    fn new(delay: Duration) -> Self {
        let (packets, acks) = (Wire::default(), Wire::default());
        Link { delay, free_at: Time::ZERO, packets, acks }
    }

    /// Carries at least so many segments. Returns their number.
    fn carry(mut self, pair: &mut Pair, segments: u64) -> u64 {
        let mut sent = 0;
        loop {
            if sent < segments {
                pair.keep_writing(segments.min(u64::from(SEGMENTS)) as u32);
            }
            for packet in pair.send_all() {
                self.free_at = self.free_at.max(pair.now) + Duration::from_nanos(100);
                self.packets.send(self.free_at + self.delay, packet);
                sent += 1;
            }
            let next = self.packets.next_arrival().min(self.acks.next_arrival());
            if next == Time::FAR_FUTURE {
                return sent;
            }
            pair.now = pair.now.max(next);
            if let Some(ack) = self.packets.arrive(pair.now).and_then(|sent| pair.arrive(&sent)) {
                self.acks.send(pair.now + self.delay, ack);
            }
            while let Some(ack) = self.acks.arrive(pair.now) {
                pair.ack(&ack);
                pair.completed();
            }
        }
    }
}

#[test]
fn honest_peer_is_not_slowed_down() {
    let delay = Duration::from_micros(10);
    for recovery in LossRecovery::all() {
        let [without, with] = [None, Some([3; 16])].map(|key| {
            let mut pair = pair(key, recovery);
            let begin = pair.now;
            Link::new(delay).carry(&mut pair, 1 << 14);
            let counters = pair.counters();
            let trouble =
                [counters.retransmitted, counters.lost, counters.spurious, counters.timeouts];
            assert_eq!((trouble, counters.untrue_acks), ([0; 4], 0), "{recovery}");
            pair.now - begin
        });
        assert!(with <= without + 4 * delay, "{recovery}: {with:?}, {without:?} before");
    }
}
