//! Payloads that a NIC writes before any software has looked at them.

use std::collections::HashSet;
use std::time::Duration;

use braid_transport::{DirectConfig, EndpointConfig, NicEpoch, Placement, QpConfig, SendOp};
use braid_wire::{Ack, PathId};

use crate::hosts::{MTU, Pair, Sent, wide};

const REST: Duration = Duration::from_millis(200);
const PLAIN: Placement = Placement::Staged { closes: None };

fn direct_pair() -> Pair {
    let direct = Some(DirectConfig { long: MTU, short: MTU, hold_down: REST });
    let endpoint = EndpointConfig { direct, ..EndpointConfig::default() };
    Pair::with(QpConfig { ask_every: 1, ..wide() }, endpoint)
}

fn epoch_of(sent: &Sent) -> NicEpoch {
    match sent.placement {
        Placement::Direct(epoch) => epoch,
        Placement::Staged { .. } => panic!("{sent:?} is staged"),
    }
}

fn closing(epoch: NicEpoch) -> Placement {
    Placement::Staged { closes: Some(epoch) }
}

/// The receiver's NIC and the driver's part in placing, over memory of one byte per segment.
struct Receiver {
    buffer: Vec<u8>,
    closed: HashSet<NicEpoch>,
}

impl Receiver {
    fn arrive(&mut self, pair: &mut Pair, sent: &Sent, payload: u8) -> Option<Ack> {
        let at = sent.header.offset as usize / usize::from(MTU);
        match sent.placement {
            Placement::Direct(epoch) if self.closed.contains(&epoch) => return None,
            Placement::Direct(_) => self.buffer[at] = payload,
            Placement::Staged { closes } => self.closed.extend(closes),
        }
        let cell = &mut self.buffer[at];
        pair.arrive_copying(sent, false, || *cell = payload)
    }
}

/// A packet is delayed, sent again, its message completed and the buffer used for something else;
/// then the original arrives. Returns the buffer before and after. `closes`: the receiver heeds
/// them.
fn release_late(closes: bool) -> [Vec<u8>; 2] {
    let mut pair = direct_pair();
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
    assert_eq!(again[0].placement, closing(epoch_of(&sent[1])));
    let ack = receiver.arrive(&mut pair, &again[0], 1).expect("it asks");
    pair.ack(&ack);
    assert_eq!((pair.completed(), &receiver.buffer), (1, &vec![1; 3]));

    receiver.buffer.fill(9);
    let before = receiver.buffer.clone();
    if !closes {
        receiver.closed.clear();
    }
    receiver.arrive(&mut pair, &sent[1], 1);
    [before, receiver.buffer]
}

#[test]
fn late_original_does_not_touch_the_buffer_that_its_retransmission_completed() {
    let [before, after] = release_late(true);
    assert_eq!(before, after);
    let [before, after] = release_late(false);
    assert_ne!(before, after, "nothing but the epoch keeps it out");
}

#[test]
fn direct_placement_is_off_by_default() {
    let mut pair = Pair::new(wide(), 1);
    pair.write(8);
    let sent = pair.send();
    pair.lose(sent[3].header.psn);
    assert!(sent.iter().chain(&pair.send()).all(|sent| sent.placement == PLAIN));
}

#[test]
fn only_the_payload_of_writes_is_placed_directly() {
    let mut pair = direct_pair();
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
    assert_eq!(pair.send().iter().map(epoch_of).filter(|f| f.number == 0).count(), 1);
}

#[test]
fn every_retransmission_names_the_epoch_of_the_first_transmission() {
    let mut pair = direct_pair();
    pair.write(1);
    let first = pair.send().remove(0);
    let mut paths = HashSet::new();
    for _ in 0..8 {
        pair.lose(first.header.psn);
        let again = pair.send().remove(0);
        assert_eq!(again.placement, closing(epoch_of(&first)));
        paths.insert(again.path);
    }
    assert!(paths.len() > 1, "whatever path they take");
    pair.begin_epoch(NicEpoch { path: first.path, number: 1 });
    pair.lose(first.header.psn);
    assert_eq!(pair.send()[0].placement, closing(epoch_of(&first)), "also when it is closed");
}

/// The placements of a burst of WRITEs by path.
fn on_path(pair: &mut Pair, path: PathId) -> Vec<Placement> {
    pair.write(8);
    pair.send().iter().filter(|sent| sent.path == path).map(|sent| sent.placement).collect()
}

#[test]
fn a_path_stages_until_its_next_epoch_and_the_end_of_its_hold_down() {
    let mut pair = direct_pair();
    pair.write(1);
    let first = pair.send().remove(0);
    let (path, old) = (first.path, epoch_of(&first));
    pair.lose(first.header.psn);
    pair.send();
    assert_eq!(on_path(&mut pair, path), [closing(old); 2], "the peer may not have heard");
    let other = PathId::new((path.get() + 1) % 4);
    let fresh = Placement::Direct(NicEpoch { path: other, number: 0 });
    assert_eq!(on_path(&mut pair, other), [fresh; 2]);
    pair.begin_epoch(NicEpoch { path, number: 1 });
    assert_eq!(on_path(&mut pair, path), [PLAIN; 2]);
    pair.pass(REST);
    let new = Placement::Direct(NicEpoch { path, number: 1 });
    assert_eq!(on_path(&mut pair, path), [new; 2]);
}
