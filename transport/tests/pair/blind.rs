//! Payloads that a NIC writes before any software has looked at them.

use std::collections::HashSet;
use std::time::Duration;

use braid_transport::{BlindConfig, EndpointConfig, Fence, Placement, QpConfig, SendOp};
use braid_wire::{Ack, PathId};

use crate::hosts::{MTU, Pair, Sent};

const REST: Duration = Duration::from_millis(200);
const PLAIN: Placement = Placement::Staged { fence: None };

fn blind_pair() -> Pair {
    let blind = Some(BlindConfig { trusted: MTU, tried: MTU, rest: REST });
    let endpoint = EndpointConfig { blind, ..EndpointConfig::default() };
    Pair::with(QpConfig { ask_every: 1, ..QpConfig::default() }, endpoint)
}

fn fence_of(sent: &Sent) -> Fence {
    match sent.placement {
        Placement::Blind(fence) => fence,
        Placement::Staged { .. } => panic!("{sent:?} is staged"),
    }
}

fn fenced(fence: Fence) -> Placement {
    Placement::Staged { fence: Some(fence) }
}

/// The receiver's NIC and the driver's part in placing, over memory of one byte per segment.
struct Receiver {
    buffer: Vec<u8>,
    closed: HashSet<Fence>,
}

impl Receiver {
    fn arrive(&mut self, pair: &mut Pair, sent: &Sent, payload: u8) -> Option<Ack> {
        let at = sent.header.offset as usize / usize::from(MTU);
        match sent.placement {
            Placement::Blind(fence) if self.closed.contains(&fence) => return None,
            Placement::Blind(_) => self.buffer[at] = payload,
            Placement::Staged { fence } => self.closed.extend(fence),
        }
        let cell = &mut self.buffer[at];
        pair.arrive_copying(sent, false, || *cell = payload)
    }
}

/// A packet is delayed, sent again, its message completed and the buffer used for something else; then the
/// original arrives. Returns the buffer before and after. `fences`: the receiver heeds them.
fn release_late(fences: bool) -> [Vec<u8>; 2] {
    let mut pair = blind_pair();
    let mut receiver = Receiver { buffer: vec![0; 3], closed: HashSet::new() };
    pair.write(3);
    let sent = pair.send();
    for prompt in [&sent[0], &sent[2]] {
        let ack = receiver.arrive(&mut pair, prompt, 1).expect("it asks");
        pair.ack(&ack);
    }
    pair.lose(sent[1].header.psn);
    let again = pair.send();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].placement, fenced(fence_of(&sent[1])));
    let ack = receiver.arrive(&mut pair, &again[0], 1).expect("it asks");
    pair.ack(&ack);
    assert_eq!((pair.completed(), &receiver.buffer), (1, &vec![1; 3]));

    receiver.buffer.fill(9);
    let before = receiver.buffer.clone();
    if !fences {
        receiver.closed.clear();
    }
    receiver.arrive(&mut pair, &sent[1], 1);
    [before, receiver.buffer]
}

#[test]
fn a_late_original_does_not_touch_the_buffer_that_its_retransmission_completed() {
    let [before, after] = release_late(true);
    assert_eq!(before, after);
    let [before, after] = release_late(false);
    assert_ne!(before, after, "nothing but the fence keeps it out");
}

#[test]
fn nothing_is_blind_unless_asked_for() {
    let mut pair = Pair::new(QpConfig::default(), 1);
    pair.write(8);
    let sent = pair.send();
    pair.lose(sent[3].header.psn);
    assert!(sent.iter().chain(&pair.send()).all(|sent| sent.placement == PLAIN));
}

#[test]
fn only_the_payload_of_writes_is_blind() {
    let mut pair = blind_pair();
    let (remote, len) = (pair.remote(), u32::from(MTU));
    pair.post(SendOp::Write { remote, imm: None }, 0);
    pair.post(SendOp::Read { remote }, len);
    pair.post(SendOp::FetchAdd { remote, add: 1 }, 8);
    pair.post(SendOp::Send { imm: None }, len);
    let sent = pair.send();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|sent| sent.placement == PLAIN), "{sent:?}");
    pair.lose(sent[3].header.psn);
    assert_eq!(pair.send()[0].placement, PLAIN);
    pair.post(SendOp::Write { remote, imm: Some(3) }, len);
    assert_eq!(pair.send().iter().map(fence_of).filter(|f| f.generation == 0).count(), 1);
}

#[test]
fn every_retransmission_names_where_the_first_one_went() {
    let mut pair = blind_pair();
    pair.write(1);
    let first = pair.send().remove(0);
    let mut paths = HashSet::new();
    for _ in 0..8 {
        pair.lose(first.header.psn);
        let again = pair.send().remove(0);
        assert_eq!(again.placement, fenced(fence_of(&first)));
        paths.insert(again.path);
    }
    assert!(paths.len() > 1, "whatever path they take");
    pair.renew(first.path, 1);
    pair.lose(first.header.psn);
    assert_eq!(pair.send()[0].placement, fenced(fence_of(&first)), "also when it is closed");
}

/// The placements of a burst of WRITEs by path.
fn on_path(pair: &mut Pair, path: PathId) -> Vec<Placement> {
    pair.write(8);
    pair.send().iter().filter(|sent| sent.path == path).map(|sent| sent.placement).collect()
}

#[test]
fn a_path_stages_until_it_is_renewed_and_has_rested() {
    let mut pair = blind_pair();
    pair.write(1);
    let first = pair.send().remove(0);
    let (path, old) = (first.path, fence_of(&first));
    pair.lose(first.header.psn);
    pair.send();
    assert_eq!(on_path(&mut pair, path), [fenced(old); 2], "the peer may not have heard");
    let other = PathId::new((path.get() + 1) % 4);
    let fresh = Placement::Blind(Fence { path: other, generation: 0 });
    assert_eq!(on_path(&mut pair, other), [fresh; 2]);
    pair.renew(path, 1);
    assert_eq!(on_path(&mut pair, path), [PLAIN; 2]);
    pair.pass(REST);
    let new = Placement::Blind(Fence { path, generation: 1 });
    assert_eq!(on_path(&mut pair, path), [new; 2]);
}
