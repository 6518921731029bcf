//! The examples of the paper's figure 4 and further cases, packet by packet.

use braid_wire::{PathId, QpId, Stream, Token};

use super::*;
use crate::packet::Class;

/// A flow over two routes, as in figure 4: even PSNs take one, odd PSNs the other.
#[derive(Default)]
struct Tor {
    flow: Flow,
    look_back: bool,
}

const ROUTES: u32 = 2;
const ROOM: usize = 10;

impl Tor {
    /// Passes packets, and returns the ePSNs that are NACKed.
    fn pass(&mut self, psns: &[u32]) -> Vec<u32> {
        let mut nacked = Vec::new();
        for psn in psns {
            nacked.extend(self.flow.compensate(*psn, ROUTES).map(|blocked| blocked.epsn));
            self.flow.remember(RingEntry { psn: *psn, leaves: Ps::ZERO }, Ps::ZERO, ROOM);
        }
        nacked
    }

    /// Sends a NACK of the interface. Returns whether the acknowledgement still reports `highest`
    /// behind the switch.
    fn nack(&mut self, epsn: u32, highest: u32) -> bool {
        self.acknowledge(epsn, highest).highest == highest
    }

    /// Sends an acknowledgement of the interface for a packet in order, with nothing missing.
    fn ack(&mut self, epsn: u32) {
        let highest = epsn.wrapping_sub(1) & PSN_MASK;
        let ack = Ack { cumulative: epsn, highest, ..blank() };
        assert_eq!(self.filtered(ack.clone()), ack);
    }

    fn acknowledge(&mut self, epsn: u32, highest: u32) -> Ack {
        let word = 1 << (highest.wrapping_sub(epsn) & PSN_MASK);
        let bitmap = Bitmap::new([word].into_iter().collect());
        self.filtered(Ack { cumulative: epsn, highest, bitmap, ..blank() })
    }

    fn filtered(&mut self, mut ack: Ack) -> Ack {
        let packet = Packet::new(1, 0, 0, Class::Control, 64);
        self.flow.filter(&packet, &mut ack, ROUTES, self.look_back);
        ack
    }
}

fn blank() -> Ack {
    Ack {
        qp: QpId::new(2),
        token: Token(0),
        stream: Stream::Requests,
        cumulative: 0,
        highest: 0,
        nak: None,
        rnr_delay_us: 0,
        path: PathId::default(),
        stamp: 0,
        delay_ns: 0,
        received: 0,
        duplicates: 0,
        bitmap: Bitmap::default(),
        marks: Default::default(),
    }
}

#[test]
fn figure_4b_a_nack_passes_if_its_trigger_went_the_same_route() {
    let mut tor = Tor::default();
    tor.pass(&[0, 1, 3]);
    assert!(!tor.nack(2, 3), "3 took another route than 2");
    tor.pass(&[2, 6]);
    tor.ack(4);
    assert!(tor.nack(4, 6), "6 went the same route as 4");
}

#[test]
fn figure_4c_a_later_packet_of_the_same_route_sends_the_nack() {
    let mut tor = Tor::default();
    tor.pass(&[0, 1, 3]);
    assert!(!tor.nack(2, 3));
    assert!(tor.pass(&[5, 7]).is_empty());
    assert_eq!(tor.pass(&[4, 6, 8]), [2], "by 4, and once");
    assert!(tor.nack(2, 8), "the RNIC may say it again");
}

#[test]
fn the_expected_packet_itself_ends_the_waiting() {
    let mut tor = Tor::default();
    tor.pass(&[0, 1, 3]);
    assert!(!tor.nack(2, 3));
    assert!(tor.pass(&[5, 2, 4, 6]).is_empty());
}

#[test]
fn a_blocked_nack_becomes_a_plain_cumulative_acknowledgement() {
    let mut tor = Tor::default();
    tor.pass(&[0, 1, 3]);
    let ack = tor.acknowledge(2, 3);
    assert_eq!((ack.cumulative, ack.highest, ack.bitmap.is_empty()), (2, 1, true));
}

#[test]
fn an_acknowledgement_that_moves_the_epsn_is_no_nack() {
    let mut tor = Tor::default();
    tor.pass(&[0, 1, 3, 5, 2]);
    assert!(!tor.nack(2, 3));
    assert!(!tor.nack(2, 5));
    // PSN 2 fills the hole. PSN 4 is missing now, but no packet has arrived since, so nothing is
    // proven.
    assert!(!tor.nack(4, 5));
    assert_eq!(tor.flow.judged, Some((2, false)));
    tor.pass(&[6]);
    assert!(!tor.nack(4, 6), "tPSN is 5, the first beyond the ePSN that came");
    assert_eq!(tor.flow.judged, Some((4, false)));
}

/// A case outside the paper: packets that pass while the NACK is on the last hop.
#[test]
fn looking_back_sees_what_passed_before_the_nack_came() {
    for (look_back, needless) in [(false, vec![2]), (true, vec![])] {
        let mut tor = Tor { look_back, ..Tor::default() };
        tor.pass(&[0, 1, 3, 2]);
        assert!(!tor.nack(2, 3));
        assert_eq!(tor.pass(&[4]), needless, "look back: {look_back}");
    }
    for (look_back, passes) in [(false, false), (true, true)] {
        let mut tor = Tor { look_back, ..Tor::default() };
        tor.pass(&[0, 1, 3, 4]);
        assert_eq!(tor.nack(2, 3), passes, "4 has proved the loss; look back: {look_back}");
    }
}

#[test]
fn a_ring_that_forgot_the_trigger_lets_the_nack_pass() {
    let mut tor = Tor::default();
    tor.pass(&[1]);
    tor.flow.ring.clear();
    assert!(tor.nack(0, 1));
}

#[test]
fn the_ring_counts_what_has_left_the_switch() {
    let mut flow = Flow::default();
    let entry = |psn: u32| RingEntry { psn, leaves: Ps(psn.into()) };
    for psn in 0..20 {
        flow.remember(entry(psn), Ps(12), ROOM);
    }
    let psns: Vec<u32> = flow.ring.iter().map(|entry| entry.psn).collect();
    assert_eq!(psns, (3..20).collect::<Vec<u32>>(), "3 to 12 are on the last hop");
}

#[test]
fn psns_wrap() {
    let mut tor = Tor::default();
    tor.pass(&[PSN_MASK - 1, 0]);
    assert!(!tor.nack(PSN_MASK, 0), "0 is beyond the last PSN, and even");
    assert!(tor.pass(&[2]).is_empty());
    assert_eq!(tor.pass(&[1]), [PSN_MASK]);
}
