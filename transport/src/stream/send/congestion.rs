//! Congestion control of a subflow: its controller, pacer and chunks.

use std::time::Duration;

use braid_cc::{AckSample, Controller, Loss, Metrics, Spurious, Subflow};
use braid_wire::{CreditNeed, Psn, Time};

use super::chunks::{ChunkAck, Chunks};
use super::credit::{CreditGate, GateState};
use super::pacer::Pacer;
use super::segment::Segment;
use super::send_limits::Block;
use crate::{QpConfig, Remote};

/// In seconds: a paced burst is at most what the rail carries in this time, or two packets. Linux
/// has 1 ms (`tcp_tso_autosize`). Together with what a late driver makes up for, that would fill a
/// queue of 2 ms. A quarter of it costs 4,000 system calls per second.
const BURST: f64 = 250e-6;
const LEAST_BURST: u32 = 2;
/// 32 batches of a UDP datapath: path policies ask for at most 32 quanta.
const LARGE_WINDOW: u64 = 2 << 20;

/// Limits of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// Segments per batch.
    pub(crate) batch: u32,
    /// Bytes in flight on the rail, of all streams to the same host. Divided by a stream's window,
    /// this is about the number of such streams, and their total rate limits the burst. If each of
    /// a thousand streams sent two packets at a time, they would leave in a thousand batches.
    pub(crate) in_flight: u64,
}

impl Most {
    /// Returns the burst of one of these streams, in segments.
    fn burst(self, bits_per_second: u64, window: u64, packet_bytes: u64) -> u32 {
        let streams = self.in_flight as f64 / window as f64;
        let packets = bits_per_second as f64 * streams.max(1.0) * BURST / (8 * packet_bytes) as f64;
        self.batch.min((packets as u32).max(LEAST_BURST))
    }
}

/// Invariant: `window` and `is_limited` are those of the controller. They are read again only after
/// an event was reported to it.
#[derive(Debug)]
pub(crate) struct Congestion {
    controller: Box<dyn Controller>,
    window: u64,
    /// Bytes of a full packet on the wire.
    packet: u64,
    /// Whether the controller has a rate or sends by credit.
    is_limited: bool,
    /// The account of credit, if the controller sends by credit.
    credit: Option<Box<CreditGate>>,
    /// Created once the controller has a rate, or a window smaller than a packet.
    pacer: Option<Box<Pacer>>,
    /// The chunks, if the controller wants reports of them.
    chunks: Option<Box<Chunks>>,
    /// Whether something else than the controller last made the stream stop sending.
    app_limited: bool,
}

impl Congestion {
    /// Visits the place in memory of the controller's first fields.
    pub(crate) fn state_of(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(std::ptr::from_ref(&*self.controller).cast(), 8);
    }

    pub(crate) fn new(config: &QpConfig, remote: &Remote) -> Self {
        let packet_bytes = Segment::wire_len(remote.mtu);
        let controller =
            config.cc.build(&Subflow { packet_bytes, oversubscription: remote.oversubscription });
        let Metrics { window, bits_per_second } = controller.metrics();
        let credit = controller.credit_terms();
        Congestion {
            window,
            packet: packet_bytes,
            is_limited: bits_per_second.is_some() || credit.is_some(),
            credit: credit.map(|terms| Box::new(CreditGate::new(terms, packet_bytes))),
            pacer: None,
            chunks: controller.chunk_bytes().map(|size| Box::new(Chunks::new(size))),
            controller,
            app_limited: true,
        }
    }

    /// Replaces the controller by a new one. What the peer knows of the credit stays valid.
    pub(crate) fn restart(&mut self, config: &QpConfig, remote: &Remote) {
        let credit = self.credit.take();
        *self = Congestion::new(config, remote);
        self.credit = credit;
    }

    /// The controller's metrics.
    pub(crate) fn metrics(&self) -> Metrics {
        self.controller.metrics()
    }

    /// The congestion window in bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The window that is divided into quanta. While the stream is app-limited, its window says
    /// nothing about what it will send next, so quanta are as long as those of a large window.
    pub(crate) fn window_in_use(&self) -> u64 {
        if self.app_limited { self.window.max(LARGE_WINDOW) } else { self.window }
    }

    /// Whether the window has room for this many bytes. A segment always fits an empty window,
    /// however small: the pacer makes up for the excess.
    pub(crate) fn has_room(&self, in_flight: u64, bytes: u64) -> bool {
        in_flight == 0 || in_flight.saturating_add(bytes) <= self.window
    }

    /// Checks whether the pacer and the credit allow a segment now.
    #[inline]
    pub(crate) fn check(&self, now: Time) -> Result<(), Block> {
        if self.pacer.as_ref().is_some_and(|pacer| !pacer.is_open(now)) {
            return Err(Block::Rate);
        }
        match &self.credit {
            None => Ok(()),
            Some(credit) => check_credit(credit, now),
        }
    }

    /// Whether the controller sends by credit of the receiver.
    #[inline]
    pub(crate) fn uses_credit(&self) -> bool {
        self.credit.is_some()
    }

    /// Number of segments that the pacer and the credit allow at once after the last one.
    pub(crate) fn burst_left(&self) -> u32 {
        let paced = self.pacer.as_ref().map_or(u32::MAX, |pacer| pacer.left());
        self.credit.as_ref().map_or(paced, |credit| paced.min(credit.segments_left()))
    }

    /// Time at which the next segment has to be considered again, if the pacer or missing credit
    /// holds one back.
    pub(crate) fn opens_at(&self) -> Option<Time> {
        let repeats_at = self.credit.as_ref().and_then(|credit| credit.repeats_at());
        repeats_at.or_else(|| self.pacer.as_ref()?.opens_at())
    }

    /// Whether a request for credit is due.
    pub(crate) fn asks_for_credit(&self, now: Time) -> bool {
        self.credit.as_ref().is_some_and(|credit| credit.gate(now) == GateState::Asks)
    }

    /// Bytes beyond which the length of the backlog does not matter to a request for credit.
    pub(crate) fn longest_backlog(&self) -> u64 {
        self.credit.as_ref().map_or(0, |credit| credit.longest_backlog())
    }

    /// Returns a request for credit that leaves now, see [`CreditGate::request`].
    pub(crate) fn request_credit(
        &mut self,
        now: Time,
        backlog: u64,
        patience: Duration,
    ) -> Option<(u64, CreditNeed)> {
        self.credit.as_mut().map(|credit| credit.request(now, backlog, patience))
    }

    /// Handles a grant of credit. Returns whether it is new.
    pub(crate) fn on_grant(&mut self, granted: u64) -> bool {
        self.credit.as_mut().is_some_and(|credit| credit.on_grant(granted))
    }

    /// Records why nothing more leaves for now. Returns whether an event was reported to the
    /// controller.
    pub(crate) fn on_blocked(&mut self, by: Block) -> bool {
        self.app_limited = !matches!(by, Block::Window | Block::Rate | Block::CreditRequest);
        if let Some(credit) = &mut self.credit {
            credit.hold(by == Block::Rate);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.hold(by == Block::Rate);
        }
        match (by, &mut self.chunks) {
            (Block::Nothing, Some(chunks)) => {
                chunks.end();
                self.report_chunks()
            }
            _ => false,
        }
    }

    /// Handles that all segments are acknowledged.
    pub(crate) fn on_all_acked(&mut self) {
        if self.app_limited
            && let Some(credit) = &mut self.credit
        {
            credit.on_idle();
        }
    }

    /// Charges the pacer for this many bytes and segments. `rtt`: about the time that they will be
    /// in flight, if that is known.
    pub(crate) fn on_sent(
        &mut self,
        now: Time,
        (bytes, segments): (u64, u32),
        most: Most,
        rtt: Option<Duration>,
    ) {
        if bytes > self.window {
            self.credit.iter_mut().for_each(|credit| credit.on_sent(bytes));
            // A window smaller than a packet means one packet in more than a round trip (Swift,
            // section 3.5).
            let slow = bits_per_second(self.window, rtt.unwrap_or_default());
            let rate = self.controller.rate(now).map_or(slow, |rate| rate.min(slow));
            self.pacer.get_or_insert_default().on_sent(now, (bytes, segments), rate, || 1);
        } else if self.is_limited {
            self.pace(now, (bytes, segments), most);
        }
    }

    #[inline(never)] // most streams have no rate
    fn pace(&mut self, now: Time, sent: (u64, u32), most: Most) {
        self.credit.iter_mut().for_each(|credit| credit.on_sent(sent.0));
        let Some(rate) = self.controller.rate(now) else { return };
        let (window, packet) = (self.window, self.packet);
        let burst = || most.burst(rate, window, packet);
        self.pacer.get_or_insert_default().on_sent(now, sent, rate, burst);
    }

    pub(crate) fn follows_chunks(&self) -> bool {
        self.chunks.is_some()
    }

    /// Adds a segment that entered the window to its chunk.
    pub(crate) fn on_entered(&mut self, now: Time, psn: Psn, bytes: u64) {
        if let Some(chunks) = &mut self.chunks {
            chunks.on_sent(now, psn, bytes);
        }
    }

    /// Whether the last first transmission ended a chunk, so that the controller needs an
    /// acknowledgement soon.
    pub(crate) fn ends_chunk(&self) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.is_between())
    }

    /// Counts the first acknowledgement of a segment. Returns whether it belongs to a chunk.
    pub(crate) fn on_acked(&mut self, psn: Psn, arrival: ChunkAck) -> bool {
        self.chunks.as_mut().is_some_and(|chunks| chunks.on_acked(psn, arrival))
    }

    /// Ends the chunk: later segments belong to another.
    pub(crate) fn end_chunk(&mut self) {
        self.chunks.iter_mut().for_each(|chunks| chunks.end());
    }

    /// Reports complete chunks to the controller. Returns whether there were any.
    pub(crate) fn report_chunks(&mut self) -> bool {
        let Some(chunks) = &mut self.chunks else { return false };
        let mut told = false;
        while let Some(chunk) = chunks.pop() {
            self.controller.on_chunk(&chunk);
            told = true;
        }
        told
    }

    /// Drops the segments in flight, because they will not be acknowledged.
    pub(crate) fn forget(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.clear();
        }
    }

    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        self.controller.on_ack(ack);
    }

    pub(crate) fn on_loss(&mut self, loss: &Loss) {
        self.controller.on_loss(loss);
        self.credit.iter_mut().for_each(|credit| credit.on_lost(loss.bytes));
    }

    pub(crate) fn on_trimmed(&mut self, loss: &Loss) {
        self.controller.on_trimmed(loss);
        self.credit.iter_mut().for_each(|credit| credit.on_lost(loss.bytes));
    }

    pub(crate) fn on_spurious(&mut self, spurious: &Spurious) {
        self.controller.on_spurious(spurious);
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.controller.on_timeout(now);
    }

    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited
    }

    #[cold]
    fn follow_terms(&mut self) {
        self.is_limited = true;
        if let (Some(credit), Some(terms)) = (&mut self.credit, self.controller.credit_terms()) {
            credit.follow(terms);
        }
    }

    /// Reads the controller's window after an event was reported to it. Returns whether the window
    /// has changed.
    pub(crate) fn ask(&mut self) -> bool {
        let Metrics { window, bits_per_second } = self.controller.metrics();
        let before = std::mem::replace(&mut self.window, window);
        self.is_limited = bits_per_second.is_some();
        if self.credit.is_some() {
            self.follow_terms();
        }
        // Pacing debts from the time with a rate, or with a window smaller than a packet, are
        // cancelled.
        if self.pacer.is_some() && window >= self.packet && bits_per_second.is_none() {
            self.pacer = None;
        }
        before != window
    }
}

#[cold]
fn check_credit(credit: &CreditGate, now: Time) -> Result<(), Block> {
    match credit.gate(now) {
        GateState::Open => Ok(()),
        GateState::Asks => Err(Block::CreditRequest),
        GateState::Closed => Err(Block::Rate),
    }
}

/// The rate of one window per round trip; a window of 0 bytes counts as 1.
fn bits_per_second(window: u64, rtt: Duration) -> u64 {
    let bits = u128::from(window.max(1)) * 8 * Duration::from_secs(1).as_nanos();
    u64::try_from(bits / rtt.as_nanos().max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1500;
    const WINDOW: u64 = 10 * PACKET;

    /// Returns the burst of one of `streams` streams at 40 Mb/s each: 0.8 packets in 250 us.
    fn burst(streams: u64) -> u32 {
        Most { batch: 44, in_flight: streams * WINDOW }.burst(40_000_000, WINDOW, PACKET)
    }

    #[test]
    fn the_more_streams_a_rail_carries_the_longer_their_bursts_are() {
        assert_eq!([0, 1, 10, 30, 1000].map(burst), [2, 2, 8, 25, 44]);
    }
}
