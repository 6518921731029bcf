//! Another rank, as this one is connected with it.

use std::collections::VecDeque;

use braid_transport::{Access, PostError};

use super::error::{ForGroup, GroupError};
use super::notice::{Begin, MAX_NOTICE, Notice};
use super::round::CHUNK;
use super::state::MAX_ROUNDS;
use crate::memory::MemoryRegion;
use crate::qp::QueuePair;
use crate::{ProtectionDomain, wr};

/// Chunks on their way to one rank at a time, 4 MiB: beyond what a queue pair has in flight, so
/// that it does not wait for the group's thread.
pub(super) const WINDOW: usize = 64;
/// Only one of so many parts of a receive buffer is counted on: packets take more of it than their
/// bytes.
const PARTS: usize = 2;
/// Work requests of a queue pair: the chunks, what begins rounds, and what ends the group.
pub(super) const SENDS: u32 = (WINDOW + 2 * MAX_ROUNDS + 2) as u32;
/// A rank is at most `MAX_ROUNDS` ahead, with two messages for each round, and one or two when it
/// ends.
pub(super) const RECEIVES: u32 = 2 * MAX_ROUNDS as u32 + 2;
/// Work request ids of sends that are no chunks: those below are numbers of rounds.
pub(super) const BEGIN: u64 = u64::MAX - 1;
/// One that the end of the group waits for.
pub(super) const LAST: u64 = u64::MAX;

/// Chunks on their way to one rank at a time, in a group of `size`. All other ranks may send to
/// one, and what does not find room in its receive buffer, which is taken to be like ours, is lost.
pub(super) fn window(receive_buffer: Option<u32>, size: usize) -> usize {
    let senders = size.saturating_sub(1).max(1);
    let share = receive_buffer.map_or(WINDOW, |bytes| bytes as usize / PARTS / senders / CHUNK);
    share.clamp(1, WINDOW)
}

pub(super) struct Peer {
    qp: QueuePair,
    /// Where notices arrive, a slot for each receive.
    inbox: MemoryRegion,
    /// Rounds that it has begun.
    pub(super) begun: u64,
    /// Those of them that this rank has not.
    pub(super) early: VecDeque<Begin>,
    /// Chunks posted that have not completed.
    pub(super) open: usize,
    /// It has left after so many rounds.
    pub(super) left: Option<u64>,
    /// It is to hear the end of the group, and has not confirmed that yet.
    pub(super) is_told: bool,
    /// Its queue pair has failed.
    pub(super) is_gone: bool,
}

/// The receives that a queue pair begins with.
pub(super) fn prepare(
    pd: &ProtectionDomain,
    qp: &QueuePair,
    size: usize,
) -> Result<MemoryRegion, GroupError> {
    let slots = RECEIVES as usize;
    let inbox = pd.alloc_mr(slots * MAX_NOTICE, Access::LOCAL_WRITE).for_group(size)?;
    (0..slots).try_for_each(|slot| receive(qp, &inbox, slot)).for_group(size)?;
    Ok(inbox)
}

fn receive(qp: &QueuePair, inbox: &MemoryRegion, slot: usize) -> Result<(), PostError> {
    let range = slot * MAX_NOTICE..(slot + 1) * MAX_NOTICE;
    let piece = inbox.slice(range).expect("the inbox has so many slots");
    qp.post_recv(wr::recv(slot as u64, [piece]))
}

impl Peer {
    pub(super) fn new(qp: QueuePair, inbox: MemoryRegion) -> Self {
        Peer {
            qp,
            inbox,
            begun: 0,
            early: VecDeque::new(),
            open: 0,
            left: None,
            is_told: false,
            is_gone: false,
        }
    }

    pub(super) fn qp(&self) -> &QueuePair {
        &self.qp
    }

    /// What has arrived in a slot, which is free again then. `None`: nothing that a rank sends.
    pub(super) fn take(&self, slot: u64, len: u32, size: usize) -> Option<Notice> {
        let mut bytes = [0; MAX_NOTICE];
        let len = (len as usize).min(MAX_NOTICE);
        let read = self.inbox.read_at(slot as usize * MAX_NOTICE, &mut bytes[..len]);
        read.expect("the slot is one of the inbox");
        self.free(slot);
        Notice::from_bytes(&bytes[..len], size)
    }

    /// A slot is free again.
    pub(super) fn free(&self, slot: u64) {
        // Refused only when the queue pair is in RESET, which nobody moves it to, or full, which it
        // is not.
        let _ = receive(&self.qp, &self.inbox, slot as usize);
    }

    /// Tells it something. What is not posted because the queue pair has failed ends the group
    /// anyway.
    pub(super) fn tell(&self, id: u64, notice: Notice) -> Result<(), PostError> {
        self.qp.post_send_inline(wr::send(id, []), &notice.to_bytes())
    }

    /// Posts the next chunk of a round: the bytes of `send` from `at` on, of which `unposted` are
    /// left.
    pub(super) fn write(
        &mut self,
        begin: &Begin,
        send: &MemoryRegion,
        at: usize,
        posted: usize,
        unposted: usize,
    ) -> Result<usize, PostError> {
        let len = unposted.min(CHUNK);
        let piece = send.slice(at..at + len).expect("the operation was checked");
        let addr = begin.addr.wrapping_add(posted as u64);
        let remote = braid_transport::RemoteAddr { addr, rkey: begin.rkey };
        self.qp.post_send(match unposted > CHUNK {
            true => wr::write(begin.round, [piece], remote),
            false => wr::write_imm(begin.round, [piece], remote, begin.round as u32),
        })?;
        self.open += 1;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_together_send_no_more_than_one_has_room_for() {
        let buffer = 8 << 20;
        assert_eq!(window(Some(buffer), 2), WINDOW);
        for size in [3, 8, 32, 60] {
            let all = window(Some(buffer), size) * CHUNK * (size - 1);
            assert!(all <= buffer as usize / 2, "{size} ranks: {all}");
        }
        assert_eq!(window(Some(buffer), 4096), 1);
        assert_eq!(window(None, 64), WINDOW, "nothing arrives that there is no room for");
    }
}
