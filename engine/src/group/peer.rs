//! Another rank and the connection to it.

use std::collections::VecDeque;

use braid_transport::{Access, PostError};

use super::error::{ForGroup, GroupError};
use super::notice::{Begin, MAX_NOTICE, Notice};
use super::round::{CHUNK, MAX_ROUNDS};
use crate::memory::MemoryRegion;
use crate::qp::QueuePair;
use crate::{ProtectionDomain, wr};

/// The largest number of chunks in flight to one rank, 4 MiB. It exceeds a queue pair's window, so
/// that the queue pair does not wait for the group's thread.
pub(super) const WINDOW: usize = 64;
/// The divisor of a receive buffer: packets occupy more of it than their bytes.
const PARTS: usize = 2;
/// The length of a send queue: the chunks, the begins of rounds, and the end of the group.
pub(super) const SENDS: u32 = (WINDOW + 2 * MAX_ROUNDS + 2) as u32;
/// The length of a receive queue. A rank is at most `MAX_ROUNDS` ahead, with two messages for each
/// round, and one or two at its end.
pub(super) const RECEIVES: u32 = 2 * MAX_ROUNDS as u32 + 2;
/// The work request id of sends that are not chunks. Lower ids are numbers of rounds.
pub(super) const BEGIN: u64 = u64::MAX - 1;
/// The work request id of a send that the end of the group waits for.
pub(super) const LAST: u64 = u64::MAX;

/// The largest number of chunks in flight to one rank, in a group of `size`. All other ranks may
/// send to one, and packets without room in its receive buffer are lost. The buffer is assumed to
/// be like this rank's.
pub(super) fn window(receive_buffer: Option<u32>, size: usize) -> usize {
    let senders = size.saturating_sub(1).max(1);
    let share = receive_buffer.map_or(WINDOW, |bytes| bytes as usize / PARTS / senders / CHUNK);
    share.clamp(1, WINDOW)
}

pub(super) struct Peer {
    qp: QueuePair,
    /// The memory for arriving messages, a slot for each receive.
    inbox: MemoryRegion,
    /// The number of rounds that the rank has begun.
    pub(super) begun: u64,
    /// Those of them that this rank has not begun.
    pub(super) early: VecDeque<Begin>,
    /// Posted chunks that have not completed.
    pub(super) open: usize,
    /// The number of rounds after which the rank has left.
    pub(super) left: Option<u64>,
    /// Whether the rank was told the end of the group and has not confirmed it yet.
    pub(super) is_told: bool,
    /// Whether the queue pair of the rank has failed.
    pub(super) is_gone: bool,
}

/// Posts the first receives of a queue pair.
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

    /// Takes the message in a slot and frees the slot. `None`: the message is invalid.
    pub(super) fn take(&self, slot: u64, len: u32, size: usize) -> Option<Notice> {
        let mut bytes = [0; MAX_NOTICE];
        let len = (len as usize).min(MAX_NOTICE);
        let read = self.inbox.read_at(slot as usize * MAX_NOTICE, &mut bytes[..len]);
        read.expect("the slot is one of the inbox");
        self.free(slot);
        Notice::from_bytes(&bytes[..len], size)
    }

    /// Frees a slot.
    pub(super) fn free(&self, slot: u64) {
        // Posting fails only if the queue pair is in RESET, which nothing causes, or full, which it
        // is not.
        let _ = receive(&self.qp, &self.inbox, slot as usize);
    }

    /// Sends a message. If posting fails because the queue pair has failed, the group ends anyway.
    pub(super) fn send(&self, id: u64, notice: Notice) -> Result<(), PostError> {
        self.qp.post_send_inline(wr::send(id, []), &notice.to_bytes())
    }

    /// Posts the next chunk of a round: the bytes of `send` from `at` on. `unposted` bytes are
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
