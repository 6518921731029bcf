//! A link that injects faults into the datagrams of another link.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::fate::{Fate, corrupt};
use super::{Faults, FaultsError};
use crate::degradation::Degradation;
use crate::link::udp::cut::Cutter;
use crate::link::{
    AddrPair, DatagramBatch, Datagrams, Link, LinkCaps, LinkLosses, PortRefused, Reach, SendResult,
    Slice, Via,
};

/// The largest number of held bytes. Beyond it the link is full, which only a long delay causes.
const MAX_HELD: usize = 256 << 20;
/// The largest number of spare buffers.
const MAX_SPARE: usize = 256;

/// The numbers of datagrams with each fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FaultCounters {
    pub(crate) dropped: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
}

/// Another link with [`Faults`].
pub(crate) struct FaultyLink {
    inner: Box<dyn Link>,
    faults: Faults,
    /// The random numbers of the faults.
    rng: Pcg64,
    /// The random numbers of the flipped bits. They are separate because corruption takes a varying
    /// amount.
    flips: Pcg64,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    /// The number of held batches so far, which keeps batches of equal due time in order.
    holds: u64,
    pub(super) counters: FaultCounters,
    /// The faults of the current batch.
    fates: Vec<Fate>,
    /// Buffers of released batches, for reuse.
    spare: Vec<Vec<u8>>,
}

/// A batch that is held until it is due.
struct Held {
    due: Instant,
    order: u64,
    to: AddrPair,
    via: Via,
    segment_len: usize,
    ecn: bool,
    bytes: Vec<u8>,
}

impl Held {
    fn key(&self) -> (Instant, u64) {
        (self.due, self.order)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl FaultyLink {
    /// Injects faults into datagrams sent by `inner`. Datagrams that `inner` receives pass
    /// unchanged.
    ///
    /// # Errors
    ///
    /// See [`Faults::validate`].
    pub(crate) fn new(inner: Box<dyn Link>, faults: Faults) -> Result<FaultyLink, FaultsError> {
        faults.validate()?;
        Ok(FaultyLink {
            inner,
            faults,
            rng: Pcg64::seed_from_u64(faults.seed),
            flips: Pcg64::seed_from_u64(!faults.seed),
            held: BinaryHeap::new(),
            held_bytes: 0,
            holds: 0,
            counters: FaultCounters::default(),
            fates: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// Sends the due batches. Returns `false` if the inner link is full and a batch is overdue.
    fn release(&mut self) -> io::Result<bool> {
        if self.held.is_empty() {
            return Ok(true);
        }
        let now = Instant::now();
        while let Some(Reverse(held)) = self.held.peek() {
            if held.due > now {
                break;
            }
            let Held { to, via, segment_len, ecn, .. } = *held;
            let slices = [Slice::new(&held.bytes)];
            let sent =
                self.inner.send(&DatagramBatch { to, via, segment_len, ecn, slices: &slices });
            if sent.as_ref().is_ok_and(|sent| *sent != SendResult::Gone) {
                return Ok(false);
            }
            // A batch that cannot be sent is dropped, because it would block the others for ever.
            if let Some(Reverse(held)) = self.held.pop() {
                self.held_bytes -= held.bytes.len();
                self.recycle(held.bytes);
            }
            sent?;
        }
        Ok(true)
    }

    /// Draws the faults of the current batch. Returns whether it passes unchanged.
    fn draw_fates(&mut self, batch: &DatagramBatch<'_>) -> bool {
        let bytes = batch.slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.fates.clear();
        for _ in 0..bytes.div_ceil(batch.segment_len.max(1)) {
            self.fates.push(Fate::draw(&mut self.rng, &self.faults));
        }
        self.fates.iter().all(Fate::is_none)
    }

    /// Holds the remaining datagrams of a batch, each until it is due. Datagrams that are neither
    /// lost nor late stay one batch.
    fn spoil(&mut self, batch: &DatagramBatch<'_>) {
        let due = Instant::now() + self.faults.delay;
        let mut rest = self.buffer();
        let mut cutter = Cutter::new(batch);
        for index in 0..self.fates.len() {
            let fate = self.fates[index];
            let start = rest.len();
            if cutter.next_datagram(|slice| slice.append_to(&mut rest)) == 0 {
                break;
            }
            if fate.drop {
                self.counters.dropped += 1;
                rest.truncate(start);
                continue;
            }
            if fate.corrupt {
                self.counters.corrupted += 1;
                corrupt(&mut self.flips, &mut rest[start..]);
            }
            if let Some(wait) = fate.again {
                self.counters.duplicated += 1;
                self.hold_copy(due + wait, batch, &rest[start..]);
            }
            if let Some(wait) = fate.late {
                self.counters.reordered += 1;
                self.hold_copy(due + wait, batch, &rest[start..]);
                rest.truncate(start);
            }
        }
        self.hold(due, batch, rest);
    }

    fn hold_copy(&mut self, due: Instant, batch: &DatagramBatch<'_>, datagram: &[u8]) {
        let mut bytes = self.buffer();
        bytes.extend_from_slice(datagram);
        self.hold(due, batch, bytes);
    }

    fn hold(&mut self, due: Instant, batch: &DatagramBatch<'_>, bytes: Vec<u8>) {
        if bytes.is_empty() {
            self.recycle(bytes);
            return;
        }
        self.held_bytes += bytes.len();
        let DatagramBatch { to, via, segment_len, ecn, .. } = *batch;
        let order = self.holds;
        self.holds += 1;
        self.held.push(Reverse(Held { due, order, to, via, segment_len, ecn, bytes }));
    }

    fn buffer(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(bytes);
        }
    }
}

impl Link for FaultyLink {
    fn losses(&self) -> LinkLosses {
        let injected = self.counters.dropped + self.counters.corrupted;
        LinkLosses { injected, ..self.inner.losses() }
    }

    fn caps(&self) -> LinkCaps {
        self.inner.caps()
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.inner.pair(to)
    }

    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.inner.max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.inner.reach(to)
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<u32> {
        self.inner.roce_batch(to)
    }

    fn open_paths(&mut self, count: usize) -> io::Result<()> {
        self.inner.open_paths(count)
    }

    fn watch(&mut self, to: AddrPair) {
        self.inner.watch(to);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.inner.unwatch(to);
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.inner.use_ecn(to, ecn);
    }

    fn send(&mut self, batch: &DatagramBatch<'_>) -> io::Result<SendResult> {
        if !self.release()? || self.held_bytes >= MAX_HELD {
            return Ok(SendResult::Full);
        }
        let before = self.rng.clone();
        if self.draw_fates(batch) && self.faults.delay.is_zero() {
            let sent = self.inner.send(batch)?;
            if sent != SendResult::Gone {
                // The same batch is sent again and must meet the same faults.
                self.rng = before;
            }
            return Ok(sent);
        }
        self.spoil(batch);
        self.release()?;
        Ok(SendResult::Gone)
    }

    fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        self.release()?;
        self.inner.recv(sink)
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(PortRefused)) {
        self.inner.take_refused(sink);
    }

    fn degradations(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        self.inner.degradations(rail, to, all);
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        self.inner.readiness()
    }

    fn next_due(&self) -> Option<Instant> {
        let held = self.held.peek().map(|Reverse(held)| held.due);
        held.into_iter().chain(self.inner.next_due()).min()
    }
}
