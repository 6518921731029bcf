//! The packets that wait to be sent: batches under construction, and batches for which the link had
//! no room.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use braid_transport::AddrPair;

use super::batch::{BatchBuilder, Shape};
use crate::counters::WorkerCounters;
use crate::link::{Link, LinkCaps, SendResult, Via};

/// The number of waiting batches above which packets of no connection are dropped. Their senders
/// repeat them.
const MAX_WAITING: usize = 64;

/// Data leaves first, and acknowledgements of the same round follow, as many as possible in one
/// batch. The peer that waits for data does not wait for a system call that carries none. Both
/// share a batch only if one batch takes all of them, because the peer also waits for an
/// acknowledgement that is sent together with a reply.
pub(super) struct PacketQueue {
    caps: LinkCaps,
    data: Box<BatchBuilder>,
    /// Acknowledgements, control and set-up packets.
    others: Box<BatchBuilder>,
    /// Complete batches, oldest first. There are more than a few only while the link is full.
    waiting: VecDeque<Box<BatchBuilder>>,
    // Boxes, because batches move between the lists all the time.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<BatchBuilder>>,
    counters: Arc<WorkerCounters>,
}

impl PacketQueue {
    pub(super) fn new(caps: LinkCaps, counters: Arc<WorkerCounters>) -> Self {
        PacketQueue {
            caps,
            data: Box::new(BatchBuilder::new(caps)),
            others: Box::new(BatchBuilder::new(caps)),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            counters,
        }
    }

    /// The padding with which other packets can follow this segment in its batch. `piece`: the
    /// bytes of its message that it carries.
    #[inline]
    pub(super) fn padding(&self, packet: Shape, piece: Range<usize>) -> usize {
        self.data.padding(packet, piece, self.caps)
    }

    /// Returns a batch that takes this data packet, and begins the packet there.
    pub(super) fn data(&mut self, packet: Shape) -> &mut BatchBuilder {
        if !self.data.takes(packet, self.caps) {
            self.seal_data();
        }
        self.data.begin(packet);
        &mut self.data
    }

    /// Returns a batch that takes a data packet of `len` bytes with the destination of the last
    /// one, and begins the packet there.
    #[inline]
    pub(super) fn follower(&mut self, len: usize) -> &mut BatchBuilder {
        if !self.data.has_room(len, self.caps) {
            return self.data(self.data.another(len));
        }
        self.data.follow(len);
        &mut self.data
    }

    /// Adds an acknowledgement or a control packet. Packets that leave by paths share a batch
    /// whatever their paths. The batch takes the path of the first.
    pub(super) fn packet(&mut self, to: AddrPair, via: Via, bytes: &[u8]) {
        let via = self.others.path().filter(|_| via != Via::Port).unwrap_or(via);
        let packet = Shape { to, via, len: bytes.len() };
        if !self.others.takes(packet, self.caps) {
            self.seal_others();
        }
        self.others.begin(packet);
        self.others.stage(|out| out.extend_from_slice(bytes));
    }

    /// Adds packets of the shape `packet` in a batch of their own; the last may be shorter. Virtual
    /// machines and namespaces drop a batch as a whole, so a packet that may be too large for its
    /// path shares none. `ecn`: whether they leave ECN-capable.
    pub(super) fn alone(&mut self, packet: Shape, packets: &mut Vec<u8>, ecn: bool) {
        if !self.others.is_empty() {
            self.seal_others();
        }
        self.others.adopt(packet, packets);
        if ecn {
            self.others.use_ecn();
        }
        self.seal_others();
    }

    /// Adds a packet of no connection. The packet is dropped if many batches wait, because
    /// strangers can provoke such packets. Some are padded, and shorter ones do not share their
    /// batch, as in [`PacketQueue::alone`].
    pub(super) fn datagram(&mut self, to: AddrPair, via: Via, bytes: &[u8]) {
        if self.others.segment_len().is_some_and(|len| len != bytes.len()) {
            self.seal_others();
        }
        if self.waiting.len() < MAX_WAITING {
            self.packet(to, via, bytes);
        }
    }

    /// Whether complete batches wait.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The number of complete batches that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Completes all batches under construction.
    pub(super) fn seal(&mut self) {
        // The longer packet comes first.
        if !self.data.join(&mut self.others, self.caps)
            && self.others.join(&mut self.data, self.caps)
        {
            self.others.use_ecn();
        }
        if !self.data.is_empty() {
            self.seal_data();
        }
        if !self.others.is_empty() {
            self.seal_others();
        }
    }

    /// Sends complete batches. Unless the result is [`SendResult::Gone`], some are left.
    pub(super) fn flush(&mut self, link: &mut dyn Link) -> SendResult {
        while let Some(batch) = self.waiting.front() {
            match batch.send(link) {
                Ok(SendResult::Gone) => {
                    self.counters.batches_sent.add(1);
                    self.counters.datagrams_sent.add(batch.segments() as u64);
                }
                Ok(full) => {
                    self.counters.link_full.add(1);
                    return full;
                }
                Err(error) => {
                    // The batch is lost: the core sends it again or fails the queue pair.
                    self.counters.send_errors.add(1);
                    if self.counters.send_errors.get().is_power_of_two() {
                        tracing::warn!(%error, "a batch could not be sent");
                    }
                }
            }
            if let Some(batch) = self.waiting.pop_front() {
                self.recycle(batch);
            }
        }
        SendResult::Gone
    }

    /// Drops unsent batches that refer to registered memory, some of which is about to go. The core
    /// sends dropped packets again like lost ones.
    pub(super) fn forget_memory(&mut self) {
        if self.data.refers() {
            self.data.clear();
        }
        self.waiting.retain(|batch| !batch.refers());
    }

    fn seal_data(&mut self) {
        let fresh = self.fresh();
        self.data.use_ecn();
        self.waiting.push_back(std::mem::replace(&mut self.data, fresh));
    }

    fn seal_others(&mut self) {
        let fresh = self.fresh();
        self.waiting.push_back(std::mem::replace(&mut self.others, fresh));
    }

    fn fresh(&mut self) -> Box<BatchBuilder> {
        self.spare.pop().unwrap_or_else(|| Box::new(BatchBuilder::new(self.caps)))
    }

    fn recycle(&mut self, mut batch: Box<BatchBuilder>) {
        batch.clear();
        if self.spare.len() < 8 {
            self.spare.push(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use braid_transport::{Carrier, LocalAddr};

    use super::*;

    const TO: AddrPair = AddrPair {
        remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        local: LocalAddr { ip: None, interface: 0, traffic_class: 0, carrier: Carrier(0) },
    };

    fn queue() -> PacketQueue {
        let caps = LinkCaps {
            batch_segments: 64,
            batch_bytes: 65_507,
            receive_buffer: 1 << 20,
            has_hops: true,
            congestion_marks: true,
        };
        PacketQueue::new(caps, Arc::default())
    }

    fn batches(mut queue: PacketQueue) -> Vec<usize> {
        queue.seal();
        queue.waiting.iter().map(|batch| batch.segments()).collect()
    }

    /// Adds a data packet.
    fn data(queue: &mut PacketQueue, packet: Shape) {
        queue.data(packet).stage(|out| out.resize(out.len() + packet.len, 1));
    }

    /// Adds a packet of this length with its padding. `end`: where it ends in its message.
    fn padded(queue: &mut PacketQueue, len: usize, end: usize) {
        let packet = Shape { to: TO, via: Via::Port, len };
        let padding = queue.padding(packet, end - len.saturating_sub(60).min(end)..end);
        data(queue, Shape { len: len + padding, ..packet });
    }

    /// Adds the segments of a message as the core cuts it where segments carry `most` bytes.
    fn message(queue: &mut PacketQueue, len: usize, most: usize) {
        let count = len.div_ceil(most);
        let each = len.div_ceil(count).next_multiple_of(8);
        for offset in (0..len).step_by(each) {
            let end = len.min(offset + each);
            padded(queue, 60 + end - offset, end);
        }
    }

    #[test]
    fn packets_of_almost_one_length_share_a_batch() {
        let mut queue = queue();
        for len in [1455, 1455, 1426, 1455, 700, 1455] {
            padded(&mut queue, len, 1455);
        }
        assert_eq!(batches(queue), [5, 1], "what is much shorter is the last of its batch");
    }

    #[test]
    fn padding_makes_no_batch_too_long() {
        let mut queue = queue();
        for len in [1024; 63].into_iter().chain([970]) {
            padded(&mut queue, len, 1024);
        }
        assert_eq!(batches(queue), [64]);
    }

    #[test]
    fn batches_run_on_across_messages() {
        for (len, most) in [(64 << 10, 1408), (64 << 10, 1368), (16 << 10, 1208), (1 << 20, 1408)] {
            let mut queue = queue();
            (0..50).for_each(|_| message(&mut queue, len, most));
            let batches = batches(queue);
            let (_, others) = batches.split_last().expect("there are some");
            assert!(others.iter().all(|segments| *segments >= others[0]), "{len}: {batches:?}");
        }
    }

    #[test]
    fn a_batch_of_shorter_segments_is_not_padded_to_the_length_of_the_batch_before() {
        let mut queue = queue();
        message(&mut queue, 44 * 1408, 1408);
        (0..2).for_each(|_| message(&mut queue, 44 * 1360, 1360));
        let lens: Vec<_> = queue.waiting.iter().map(|batch| batch.segment_len()).collect();
        assert_eq!(lens, [Some(1468), Some(1420)]);
    }

    #[test]
    fn a_short_packet_is_not_padded_without_a_long_message() {
        let mut queue = queue();
        for (len, end) in [(1460, 1400), (1460, 2800), (1196, 3936), (1460, 1400), (60, 0)] {
            padded(&mut queue, len, end);
        }
        assert_eq!(batches(queue), [3, 2]);
    }

    #[test]
    fn a_short_answer_is_not_lost_with_a_padded_one() {
        let mut queue = queue();
        for len in [1200, 1200, 64, 64, 1200] {
            queue.datagram(TO, Via::Port, &vec![0; len]);
        }
        assert_eq!(batches(queue), [2, 2, 1]);
    }

    /// A queue with data packets of the lengths `lens` and acknowledgements of the lengths `acks`.
    fn of(lens: &[usize], acks: &[usize]) -> PacketQueue {
        let mut queue = queue();
        lens.iter().for_each(|&len| data(&mut queue, Shape { to: TO, via: Via::Port, len }));
        acks.iter().for_each(|len| queue.packet(TO, Via::Port, &vec![2; *len]));
        queue
    }

    #[test]
    fn a_reply_and_what_it_acknowledges_leave_together() {
        assert_eq!(batches(of(&[68], &[80])), [2]);
        assert_eq!(batches(of(&[80], &[68])), [2]);
        assert_eq!(batches(of(&[1000, 1000], &[80])), [3]);
        // A shorter packet ends a batch, and acknowledgements keep their order.
        assert_eq!(batches(of(&[1000, 500], &[80])), [2, 1]);
        assert_eq!(batches(of(&[1000], &[80, 80])), [1, 2]);
        assert_eq!(batches(of(&[], &[80])), [1]);
        assert_eq!(batches(of(&[68], &[])), [1]);
    }

    #[test]
    fn nothing_is_lost_with_a_probe() {
        let mut queue = queue();
        queue.packet(TO, Via::Port, &[0; 60]);
        queue.alone(Shape { to: TO, via: Via::Port, len: 9000 }, &mut vec![0; 9000], false);
        queue.packet(TO, Via::Port, &[0; 60]);
        assert_eq!(batches(queue), [1, 1, 1]);
    }

    #[test]
    fn packets_of_one_batch_keep_their_places() {
        let mut queue = queue();
        let mut packets = Vec::with_capacity(70_000);
        for len in [2500, 1000] {
            packets.resize(len, 7);
            queue.alone(Shape { to: TO, via: Via::Port, len: 1000 }, &mut packets, false);
            assert!(packets.is_empty());
            queue.packet(TO, Via::Port, &[0; 60]);
        }
        assert_eq!(batches(queue), [3, 1, 1, 1]);
    }
}
