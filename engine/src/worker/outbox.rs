//! What waits to be sent: trains under construction, and those that the link had no room for.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use super::train::{PendingTrain, Shipping};
use crate::counters::WorkerCounters;
use crate::link::{Link, LinkCaps, Sent, Via};

/// Answers to set-up packets that may wait; more are dropped, their senders ask again.
const MAX_WAITING: usize = 64;

/// Data goes first and acknowledgements of the same round after it, as many as possible in one
/// train: who waits for the data should not wait for a system call that is not about it. (One train
/// for both was tried: the acknowledgement then delays the data at the receiver, by more than the
/// system call costs.)
pub(crate) struct Outbox {
    caps: LinkCaps,
    data: Box<PendingTrain>,
    notes: Box<PendingTrain>,
    /// Complete trains, oldest first. More than a few only while the link is full.
    waiting: VecDeque<Box<PendingTrain>>,
    // In boxes, because they go round all the time.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<PendingTrain>>,
    counters: Arc<WorkerCounters>,
}

impl Outbox {
    pub(crate) fn new(caps: LinkCaps, counters: Arc<WorkerCounters>) -> Self {
        Outbox {
            caps,
            data: Box::new(PendingTrain::new(caps)),
            notes: Box::new(PendingTrain::new(caps)),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            counters,
        }
    }

    /// A train that takes this data packet, begun with it.
    pub(crate) fn data(&mut self, packet: Shipping) -> &mut PendingTrain {
        if !self.data.takes(packet, self.caps) {
            self.seal_data();
        }
        self.data.begin(packet);
        &mut self.data
    }

    /// Adds an acknowledgement or a control packet. Those that leave by paths share a train whatever
    /// their paths: it takes that of the first.
    pub(crate) fn note(&mut self, to: SocketAddr, via: Via, bytes: &[u8]) {
        let via = self.notes.path().filter(|_| via != Via::Port).unwrap_or(via);
        let packet = Shipping { to, via, len: bytes.len() };
        if !self.notes.takes(packet, self.caps) {
            self.seal_notes();
        }
        self.notes.begin(packet);
        self.notes.stage(|out| out.extend_from_slice(bytes));
    }

    /// Adds a packet that may be too large for its path, in a train of its own: between virtual machines and
    /// namespaces a train is dropped as one.
    pub(crate) fn alone(&mut self, to: SocketAddr, via: Via, bytes: &[u8]) {
        if !self.notes.is_empty() {
            self.seal_notes();
        }
        self.note(to, via, bytes);
        self.seal_notes();
    }

    /// As [`Outbox::note`], unless much is waiting already: for answers that anybody can provoke. Some are padded, and
    /// shorter ones do not share their train, for the reason of [`Outbox::alone`].
    pub(crate) fn reply(&mut self, to: SocketAddr, bytes: &[u8]) {
        if self.notes.segment_len().is_some_and(|len| len != bytes.len()) {
            self.seal_notes();
        }
        if self.waiting.len() < MAX_WAITING {
            self.note(to, Via::Port, bytes);
        }
    }

    /// Whether complete trains wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Completes all trains under construction.
    pub(crate) fn seal(&mut self) {
        if !self.data.is_empty() {
            self.seal_data();
        }
        if !self.notes.is_empty() {
            self.seal_notes();
        }
    }

    /// Sends complete trains; false: the link is full and some are left.
    pub(crate) fn flush(&mut self, link: &mut dyn Link) -> bool {
        while let Some(train) = self.waiting.front() {
            match train.send(link) {
                Ok(Sent::Gone) => {
                    self.counters.trains_sent.add(1);
                    self.counters.datagrams_sent.add(train.segments() as u64);
                }
                Ok(Sent::Full) => {
                    self.counters.link_full.add(1);
                    return false;
                }
                Err(error) => {
                    // As good as lost: it is sent again, or its queue pair gives up.
                    self.counters.send_errors.add(1);
                    if self.counters.send_errors.get().is_power_of_two() {
                        tracing::warn!(%error, "a train could not be sent");
                    }
                }
            }
            if let Some(train) = self.waiting.pop_front() {
                self.recycle(train);
            }
        }
        true
    }

    /// Drops what is not sent and refers to registered memory, some of which is about to go.
    /// Packets are lost on the way all the time; these will be resent if they are still wanted.
    pub(crate) fn forget(&mut self) {
        if self.data.refers() {
            self.data.clear();
        }
        self.waiting.retain(|train| !train.refers());
    }

    fn seal_data(&mut self) {
        let fresh = self.fresh();
        self.waiting.push_back(std::mem::replace(&mut self.data, fresh));
    }

    fn seal_notes(&mut self) {
        let fresh = self.fresh();
        self.waiting.push_back(std::mem::replace(&mut self.notes, fresh));
    }

    fn fresh(&mut self) -> Box<PendingTrain> {
        self.spare.pop().unwrap_or_else(|| Box::new(PendingTrain::new(self.caps)))
    }

    fn recycle(&mut self, mut train: Box<PendingTrain>) {
        train.clear();
        if self.spare.len() < 8 {
            self.spare.push(train);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn outbox() -> Outbox {
        let caps = LinkCaps {
            train_segments: 64,
            train_bytes: 65_507,
            receive_buffer: 1 << 20,
            has_hops: true,
        };
        Outbox::new(caps, Arc::default())
    }

    fn trains(mut outbox: Outbox) -> Vec<usize> {
        outbox.seal();
        outbox.waiting.iter().map(|train| train.segments()).collect()
    }

    #[test]
    fn a_short_answer_is_not_lost_with_a_padded_one() {
        let mut outbox = outbox();
        for len in [1200, 1200, 64, 64, 1200] {
            outbox.reply(TO, &vec![0; len]);
        }
        assert_eq!(trains(outbox), [2, 2, 1]);
    }

    #[test]
    fn nothing_is_lost_with_a_probe() {
        let mut outbox = outbox();
        outbox.note(TO, Via::Port, &[0; 60]);
        outbox.alone(TO, Via::Port, &[0; 9000]);
        outbox.note(TO, Via::Port, &[0; 60]);
        assert_eq!(trains(outbox), [1, 1, 1]);
    }
}
