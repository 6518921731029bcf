//! The records that the ranks of a group exchange. Each rank sends its record to every other rank
//! and waits for theirs, so that a call returns at all ranks or fails at all.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use braid::{Access, MemoryRegion, ProtectionDomain, RegisterError, Work, wr};

use super::call::Call;
use super::error::RmaError;
use crate::comm::Connection;

const LEN: usize = 40;
/// Receives of a link. A rank is ahead by one record at most, because the next call needs ours.
const SLOTS: usize = 4;
/// Work requests of a link: one record is in flight.
pub(super) const LINK_SENDS: u32 = 4;
pub(super) const LINK_RECEIVES: u32 = SLOTS as u32;

/// A rank's part in a collective call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) call: Call,
    /// Whether the call failed at this rank.
    pub(super) has_failed: bool,
    /// The group's number of the call.
    pub(super) round: u32,
    /// The address, length and key of memory, or what all ranks have to agree on for a context.
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) rkey: u32,
}

impl Record {
    pub(super) fn new(call: Call) -> Self {
        Record { call, has_failed: false, round: 0, addr: 0, len: 0, rkey: 0 }
    }

    pub(super) fn failed(call: Call) -> Self {
        Record { has_failed: true, ..Record::new(call) }
    }

    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = self.call as u8;
        bytes[1] = self.has_failed.into();
        bytes[4..8].copy_from_slice(&self.round.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.rkey.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let record = Record {
            call: Call::from_byte(bytes[0])?,
            has_failed: bytes[1] != 0,
            round: word(4),
            addr: long(8),
            len: long(16),
            rkey: word(24),
        };
        (record.to_bytes() == *bytes).then_some(record)
    }
}

/// The queue pair to another rank, for records.
pub(super) struct Link {
    rank: usize,
    connection: Connection,
    inbox: MemoryRegion,
    arrived: VecDeque<Record>,
    is_sending: bool,
}

impl Link {
    /// Prepares a queue pair that is not connected yet: the peer may send at once.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(
        rank: usize,
        mut connection: Connection,
        pd: &ProtectionDomain,
    ) -> Result<Self, RegisterError> {
        let inbox = pd.alloc_mr(SLOTS * LEN, Access::LOCAL_WRITE)?;
        for slot in 0..SLOTS {
            expect(&mut connection, &inbox, slot);
        }
        Ok(Link { rank, connection, inbox, arrived: VecDeque::new(), is_sending: false })
    }

    fn send(&mut self, record: Record) {
        self.is_sending = true;
        self.connection.post(wr::send(0, []), &record.to_bytes());
    }

    /// Takes what has arrived. Returns whether the record of this call is here and ours is there.
    ///
    /// # Errors
    /// If the rank is gone or breaks the protocol.
    fn progress(&mut self) -> Result<bool, RmaError> {
        while let Some(done) = self.connection.next_done() {
            if done.work == Work::Send {
                self.is_sending = false;
                continue;
            }
            let slot = done.wr_id as usize;
            let mut bytes = [0; LEN];
            self.inbox.read_at(slot * LEN, &mut bytes).expect("every slot lies in the inbox");
            expect(&mut self.connection, &self.inbox, slot);
            let is_sound = done.len as usize == LEN && self.arrived.len() < SLOTS;
            let record = Some(bytes).filter(|_| is_sound);
            let record = record.and_then(|bytes| Record::from_bytes(&bytes));
            self.arrived.push_back(record.ok_or(RmaError::BadRecord { rank: self.rank })?);
        }
        let is_done = !self.arrived.is_empty() && !self.is_sending;
        match self.connection.broken() {
            Some(broken) if !is_done => Err(RmaError::RankLost { rank: self.rank, broken }),
            _ => Ok(is_done),
        }
    }
}

fn expect(connection: &mut Connection, inbox: &MemoryRegion, slot: usize) {
    let piece = inbox.slice(slot * LEN..(slot + 1) * LEN).expect("every slot lies in the inbox");
    connection.post_recv(wr::recv(slot as u64, [piece]));
}

/// The links of a rank to all others.
pub(super) struct Exchange {
    links: Vec<Link>,
    rank: usize,
    round: u32,
}

impl Exchange {
    pub(super) fn new(rank: usize, links: Vec<Link>) -> Self {
        Exchange { links, rank, round: 0 }
    }

    /// Sends this rank's record to all others and returns those of all ranks, by rank.
    ///
    /// # Errors
    /// If the call failed at a rank, a rank makes another call, is gone, or does not come in time.
    pub(super) fn gather(
        &mut self,
        record: Record,
        timeout: Duration,
    ) -> Result<Vec<Record>, RmaError> {
        self.round += 1;
        let ours = Record { round: self.round, ..record };
        self.links.iter_mut().for_each(|link| link.send(ours));
        let deadline = Instant::now() + timeout;
        let mut left = Vec::from_iter(0..self.links.len());
        while !left.is_empty() {
            let mut still = Vec::with_capacity(left.len());
            for index in left {
                if !self.links[index].progress()? {
                    still.push(index);
                }
            }
            left = still;
            if let Some(missing) = left.first().filter(|_| Instant::now() > deadline) {
                let (rank, call) = (self.links[*missing].rank, record.call);
                return Err(RmaError::Absent { rank, call, seconds: timeout.as_secs_f64() });
            }
            thread::yield_now();
        }
        let mut records = vec![ours; self.links.len() + 1];
        for link in &mut self.links {
            records[link.rank] = link.arrived.pop_front().expect("it has arrived");
        }
        let differs = |it: &Record| (it.call, it.round) != (ours.call, ours.round);
        if let Some(rank) = records.iter().position(differs) {
            let (theirs, ours) = (records[rank].call, ours.call);
            return Err(RmaError::OutOfStep { rank, theirs, ours });
        }
        let failed = |(rank, it): (usize, &Record)| it.has_failed && rank != self.rank;
        match records.iter().enumerate().position(failed) {
            Some(rank) => Err(RmaError::FailedAtRank { rank, call: record.call }),
            None => Ok(records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_records_are_understood() {
        let record = Record {
            call: Call::Register,
            has_failed: false,
            round: 7,
            addr: 0x7F00_1234_5678,
            len: 1 << 40,
            rkey: 0xABCD,
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Some(record));
        for (at, wrong) in [(0, 9), (1, 2), (2, 1), (30, 1)] {
            let mut bytes = bytes;
            bytes[at] = wrong;
            assert_eq!(Record::from_bytes(&bytes), None, "byte {at}");
        }
    }
}
