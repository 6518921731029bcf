//! What waits to be sent: batches under construction, and those that the link had no room for.

use std::collections::VecDeque;
use std::sync::Arc;

use braid_transport::AddrPair;

use super::batch::{BatchBuilder, Shape};
use crate::counters::WorkerCounters;
use crate::link::{Link, LinkCaps, Sent, Via};

/// Batches that may wait, for more packets of no connection to be taken; their senders repeat them.
const MAX_WAITING: usize = 64;

/// Data goes first and acknowledgements of the same round after it, as many as possible in one
/// batch: who waits for the data should not wait for a system call that is not about it. Only where
/// one batch takes all of both is there one: an acknowledgement that is sent with a reply, and not
/// held back, is waited for as well.
pub(super) struct Queue {
    caps: LinkCaps,
    data: Box<BatchBuilder>,
    /// Acknowledgements, control and set-up packets.
    others: Box<BatchBuilder>,
    /// Complete batches, oldest first. More than a few only while the link is full.
    waiting: VecDeque<Box<BatchBuilder>>,
    // In boxes, because they go round all the time.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<BatchBuilder>>,
    counters: Arc<WorkerCounters>,
}

impl Queue {
    pub(super) fn new(caps: LinkCaps, counters: Arc<WorkerCounters>) -> Self {
        Queue {
            caps,
            data: Box::new(BatchBuilder::new(caps)),
            others: Box::new(BatchBuilder::new(caps)),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            counters,
        }
    }

    /// Bytes to pad this data packet with, so that others can follow it in its batch.
    pub(super) fn padding(&self, packet: Shape) -> usize {
        self.data.padding(packet, self.caps)
    }

    /// A batch that takes this data packet, begun with it.
    pub(super) fn data(&mut self, packet: Shape) -> &mut BatchBuilder {
        if !self.data.takes(packet, self.caps) {
            self.seal_data();
        }
        self.data.begin(packet);
        &mut self.data
    }

    /// Adds an acknowledgement or a control packet. Those that leave by paths share a batch
    /// whatever their paths: it takes that of the first.
    pub(super) fn packet(&mut self, to: AddrPair, via: Via, bytes: &[u8]) {
        let via = self.others.path().filter(|_| via != Via::Port).unwrap_or(via);
        let packet = Shape { to, via, len: bytes.len() };
        if !self.others.takes(packet, self.caps) {
            self.seal_others();
        }
        self.others.begin(packet);
        self.others.stage(|out| out.extend_from_slice(bytes));
    }

    /// Adds a packet that may be too large for its path, in a batch of its own: between virtual
    /// machines and namespaces a batch is dropped as one.
    pub(super) fn alone(&mut self, to: AddrPair, via: Via, bytes: &[u8]) {
        if !self.others.is_empty() {
            self.seal_others();
        }
        self.packet(to, via, bytes);
        self.seal_others();
    }

    /// Adds a packet of no connection, unless much is waiting already: anybody can provoke some.
    /// Some are padded, and shorter ones do not share their batch, for the reason of
    /// [`Queue::alone`].
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

    /// Completes all batches under construction.
    pub(super) fn seal(&mut self) {
        // Whichever is the longer comes first.
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

    /// Sends complete batches; false: the link is full and some are left.
    pub(super) fn flush(&mut self, link: &mut dyn Link) -> bool {
        while let Some(batch) = self.waiting.front() {
            match batch.send(link) {
                Ok(Sent::Gone) => {
                    self.counters.batches_sent.add(1);
                    self.counters.datagrams_sent.add(batch.segments() as u64);
                }
                Ok(Sent::Full) => {
                    self.counters.link_full.add(1);
                    return false;
                }
                Err(error) => {
                    // As good as lost: it is sent again, or its queue pair gives up.
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
        true
    }

    /// Drops what is not sent and refers to registered memory, some of which is about to go.
    /// Packets are lost on the way all the time; these will be resent if they are still wanted.
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

    use braid_transport::LocalAddr;

    use super::*;

    const TO: AddrPair = AddrPair {
        remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
        local: LocalAddr { ip: None, interface: 0 },
    };

    fn queue() -> Queue {
        let caps = LinkCaps {
            batch_segments: 64,
            batch_bytes: 65_507,
            receive_buffer: 1 << 20,
            has_hops: true,
            congestion_marks: true,
        };
        Queue::new(caps, Arc::default())
    }

    fn batches(mut queue: Queue) -> Vec<usize> {
        queue.seal();
        queue.waiting.iter().map(|batch| batch.segments()).collect()
    }

    /// Adds a data packet.
    fn data(queue: &mut Queue, packet: Shape) {
        queue.data(packet).stage(|out| out.resize(out.len() + packet.len, 1));
    }

    /// Adds one of this length, padded as it can be.
    fn padded(queue: &mut Queue, len: usize) {
        let packet = Shape { to: TO, via: Via::Port, len };
        let padding = queue.padding(packet);
        data(queue, Shape { len: len + padding, ..packet });
    }

    #[test]
    fn packets_of_almost_one_length_share_a_batch() {
        let mut queue = queue();
        for len in [1455, 1455, 1426, 1455, 700, 1455] {
            padded(&mut queue, len);
        }
        assert_eq!(batches(queue), [5, 1], "what is much shorter is the last of its batch");
    }

    #[test]
    fn padding_makes_no_batch_too_long() {
        let mut queue = queue();
        for len in [1024; 63].into_iter().chain([970]) {
            padded(&mut queue, len);
        }
        assert_eq!(batches(queue), [64]);
    }

    #[test]
    fn a_short_answer_is_not_lost_with_a_padded_one() {
        let mut queue = queue();
        for len in [1200, 1200, 64, 64, 1200] {
            queue.datagram(TO, Via::Port, &vec![0; len]);
        }
        assert_eq!(batches(queue), [2, 2, 1]);
    }

    /// A queue with data packets of this length, and acknowledgements of that.
    fn of(lens: &[usize], acks: &[usize]) -> Queue {
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
        // A shorter packet ends a batch, and of two acknowledgements none overtakes the other.
        assert_eq!(batches(of(&[1000, 500], &[80])), [2, 1]);
        assert_eq!(batches(of(&[1000], &[80, 80])), [1, 2]);
        assert_eq!(batches(of(&[], &[80])), [1]);
        assert_eq!(batches(of(&[68], &[])), [1]);
    }

    #[test]
    fn nothing_is_lost_with_a_probe() {
        let mut queue = queue();
        queue.packet(TO, Via::Port, &[0; 60]);
        queue.alone(TO, Via::Port, &[0; 9000]);
        queue.packet(TO, Via::Port, &[0; 60]);
        assert_eq!(batches(queue), [1, 1, 1]);
    }
}
