use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use braid_transport::AddrPair;
use braid_wire::PathId;

use super::fate::FLIPS;
use super::link::FaultCounters;
use super::*;
use crate::link::{DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, SendResult, Slice, Via};

/// Records each batch that is sent: destination, source port and datagrams.
#[derive(Clone, Default)]
struct Recorder {
    sent: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
    full: Arc<Mutex<bool>>,
}

const SEGMENT: usize = 32;
const TO: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4791);

impl Link for Recorder {
    fn losses(&self) -> LinkLosses {
        LinkLosses::default()
    }

    fn caps(&self) -> LinkCaps {
        LinkCaps {
            batch_segments: 16,
            batch_bytes: 65_507,
            receive_buffer: 1 << 20,
            has_hops: false,
            congestion_marks: false,
        }
    }
    fn local_addr(&self) -> SocketAddr {
        TO
    }
    fn max_datagram(&self, _to: AddrPair) -> io::Result<usize> {
        Ok(1472)
    }
    fn open_paths(&mut self, _count: usize) -> io::Result<()> {
        Ok(())
    }
    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        if *self.full.lock().unwrap() {
            return Ok(SendResult::Full);
        }
        assert_eq!((batch.to.remote, batch.via), (TO, Via::Path(PathId::new(3))));
        let mut bytes = Vec::new();
        batch.slices.iter().for_each(|slice| slice.append_to(&mut bytes));
        let datagrams = bytes.chunks(batch.segment_len).map(<[u8]>::to_vec).collect();
        self.sent.lock().unwrap().push(datagrams);
        Ok(SendResult::Gone)
    }
    fn recv(&mut self, _sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        Ok(0)
    }
    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        None
    }
}

fn link(faults: Faults) -> (FaultyLink, Recorder) {
    let recorder = Recorder::default();
    (FaultyLink::new(Box::new(recorder.clone()), faults).unwrap(), recorder)
}

/// Datagram `number` of a test, which begins with its number.
fn datagram(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn send(link: &mut FaultyLink, numbers: std::ops::Range<u32>) -> SendResult {
    let bytes: Vec<u8> = numbers.flat_map(datagram).collect();
    let (a, b) = bytes.split_at(10);
    let slices = [Slice::new(a), Slice::new(b)];
    let via = Via::Path(PathId::new(3));
    link.send(&DatagramBatch {
        to: TO.into(),
        via,
        segment_len: SEGMENT,
        ecn: true,
        slices: &slices,
    })
    .unwrap()
}

/// Sends `batches` batches of eight, waits for all late ones, and returns the sent datagrams.
fn run(faults: Faults, batches: u32) -> (Vec<Vec<u8>>, FaultCounters) {
    let (mut link, recorder) = link(faults);
    for batch in 0..batches {
        assert_eq!(send(&mut link, batch * 8..batch * 8 + 8), SendResult::Gone);
    }
    drain(&mut link);
    let sent = recorder.sent.lock().unwrap().concat();
    (sent, link.counters)
}

fn drain(link: &mut FaultyLink) {
    while let Some(due) = link.next_due() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        assert_eq!(link.recv(&mut |_| ()).unwrap(), 0);
    }
}

#[test]
fn ranges_are_checked() {
    assert!(Faults::default().validate().is_ok());
    assert!(Faults { seed: 3, ..Faults::default() }.is_none());
    assert!(!Faults { delay: Duration::from_nanos(1), ..Faults::default() }.is_none());
    for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let faults = Faults { corrupt: value, ..Faults::default() };
        let message = faults.validate().unwrap_err().to_string();
        assert!(message.contains("corrupt") && message.contains("0 to 1"), "{message}");
    }
    let faults = Faults { delay: Duration::from_secs(11), ..Faults::default() };
    let message = faults.validate().unwrap_err().to_string();
    assert_eq!(message, "fault `delay` is 11s; at most 10s is possible");
}

#[test]
fn without_faults_trains_pass_whole() {
    let (mut link, recorder) = link(Faults::default());
    assert_eq!(send(&mut link, 0..8), SendResult::Gone);
    let whole: Vec<Vec<u8>> = (0..8).map(datagram).collect();
    assert_eq!(*recorder.sent.lock().unwrap(), [whole]);
}

#[test]
fn the_seed_decides() {
    let faults = Faults { drop: 0.1, corrupt: 0.1, duplicate: 0.1, seed: 7, ..Faults::default() };
    let sorted = |seed| {
        let (mut sent, counters) = run(Faults { seed, ..faults }, 200);
        sent.sort();
        (sent, counters)
    };
    assert!(sorted(7) == sorted(7), "not deterministic");
    assert!(sorted(7) != sorted(8), "the seed does nothing");
}

#[test]
fn losses_are_as_many_as_asked_for() {
    let (sent, counters) = run(Faults { drop: 0.1, seed: 1, ..Faults::default() }, 1250);
    // With 10,000 datagrams, five standard deviations are 150.
    assert!((850..1150).contains(&counters.dropped), "{counters:?}");
    assert_eq!(sent.len() as u64, 10_000 - counters.dropped);
    assert!(sent.is_sorted(), "what is left keeps its order");
}

#[test]
fn everything_may_be_lost() {
    let (sent, counters) = run(Faults { drop: 1.0, ..Faults::default() }, 10);
    assert_eq!((sent.len(), counters.dropped), (0, 80));
}

#[test]
fn corrupted_datagrams_differ_in_a_few_bits() {
    let (sent, counters) = run(Faults { corrupt: 1.0, ..Faults::default() }, 100);
    assert_eq!((sent.len(), counters.corrupted), (800, 800));
    for (number, bytes) in sent.iter().enumerate() {
        let clean = datagram(number as u32);
        let flips = clean.iter().zip(bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(FLIPS.contains(&flips), "{flips} flips");
    }
}

#[test]
fn reordering_loses_nothing() {
    let (mut sent, counters) = run(Faults { reorder: 0.3, seed: 2, ..Faults::default() }, 100);
    assert!((150..330).contains(&counters.reordered), "{counters:?}");
    assert!(!sent.is_sorted());
    sent.sort();
    assert_eq!(sent, (0..800).map(datagram).collect::<Vec<_>>());
}

#[test]
fn duplicates_come_twice() {
    let faults = Faults { duplicate: 1.0, reorder: 0.5, ..Faults::default() };
    let (mut sent, counters) = run(faults, 20);
    assert_eq!((sent.len(), counters.duplicated), (320, 160));
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), 160);
}

#[test]
fn delay_keeps_trains_whole_and_in_order() {
    let delay = Duration::from_millis(3);
    let (mut link, recorder) = link(Faults { delay, ..Faults::default() });
    let start = Instant::now();
    send(&mut link, 0..8);
    send(&mut link, 8..16);
    assert!(link.next_due().unwrap() >= start + delay);
    assert!(recorder.sent.lock().unwrap().is_empty());
    drain(&mut link);
    assert!(start.elapsed() >= delay);
    let whole = [0..8, 8..16].map(|numbers| numbers.map(datagram).collect::<Vec<_>>());
    assert_eq!(*recorder.sent.lock().unwrap(), whole);
}

#[test]
fn a_full_link_loses_nothing() {
    let (mut link, recorder) = link(Faults { corrupt: 0.5, seed: 5, ..Faults::default() });
    *recorder.full.lock().unwrap() = true;
    assert_eq!(send(&mut link, 0..8), SendResult::Gone, "held back, for it has been spoilt");
    assert_eq!(send(&mut link, 8..16), SendResult::Full);
    *recorder.full.lock().unwrap() = false;
    assert_eq!(send(&mut link, 8..16), SendResult::Gone);
    assert_eq!(recorder.sent.lock().unwrap().concat().len(), 16);
    assert!(link.next_due().is_none());
}
