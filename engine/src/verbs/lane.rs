//! One NIC queue pair of a trunk, through all its lives.

use std::collections::VecDeque;

use braid_verbs::{Cq, MrAccess, Qp, QpInit, QpKind, Rtr, Rts, VerbsError};
use braid_wire::{DATA_HEADER_LEN, DataHeader};

use super::device::Device;
use super::pool::Pool;

/// Work requests that a lane's send queue holds.
pub(crate) const LANE_SENDS: usize = 128;
/// Pieces of a work request besides the header's.
pub(crate) const MAX_PIECES: usize = 8;

/// The way of one path, or the safe lane's.
///
/// Invariant: `sent` has the work requests that the NIC may still read for, oldest first; completions name the
/// `number`s, and one of those that were forgotten meanwhile frees nothing.
pub(crate) struct Lane {
    /// `None`: it was closed, and no other could be made.
    pub(crate) qp: Option<Qp>,
    /// How many NIC queue pairs it had here before this one.
    pub(crate) generation: u32,
    /// The peer's NIC queue pair, and how many it had before.
    pub(crate) remote: u32,
    pub(crate) remote_generation: u32,
    /// The peer was told to close its end and has not said that there is another.
    pub(crate) is_shut: bool,
    /// Of the next frame of headers.
    pub(crate) serial: u32,
    heads: Heads,
    sent: VecDeque<(u64, Option<u32>)>,
    next: u64,
}

/// The last frame of headers that has come.
#[derive(Default)]
struct Heads {
    serial: u32,
    bytes: Vec<u8>,
}

impl Lane {
    /// Not connected yet.
    pub(crate) fn new(device: &Device, pool: &Pool, cqs: (&Cq, &Cq)) -> Result<Self, VerbsError> {
        Ok(Lane {
            qp: Some(open(device, pool, cqs)?),
            generation: 0,
            remote: 0,
            remote_generation: 0,
            is_shut: false,
            serial: 0,
            heads: Heads::default(),
            sent: VecDeque::new(),
            next: 0,
        })
    }

    /// The number of its NIC queue pair.
    pub(crate) fn number(&self) -> Option<u32> {
        self.qp.as_ref().map(Qp::number)
    }

    /// Whether what is sent on it can arrive.
    pub(crate) fn is_open(&self) -> bool {
        self.qp.is_some() && !self.is_shut
    }

    /// Connects it with the peer's end, from INIT to RTS.
    pub(crate) fn connect(&self, rtr: &Rtr) -> Result<(), VerbsError> {
        let Some(qp) = &self.qp else { return Ok(()) };
        qp.to_rtr(rtr)?;
        // Reliable connection: 67 ms and seven tries, about half a second until a lane is given up.
        qp.to_rts(&Rts {
            psn: rtr.psn,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
        })
    }

    /// The peer has another end: this one begins anew, under the same number.
    pub(crate) fn reconnect(
        &mut self,
        device: &Device,
        pool: &mut Pool,
        rtr: &Rtr,
    ) -> Result<(), VerbsError> {
        let Some(qp) = &self.qp else { return Ok(()) };
        qp.to_reset()?;
        qp.to_init(device.port, ACCESS)?;
        self.forget_sent(pool);
        self.connect(rtr)
    }

    /// Nothing that was sent to it can land any more, when this returns `Ok`.
    pub(crate) fn close(&mut self, pool: &mut Pool) -> Result<(), VerbsError> {
        if let Some(qp) = self.qp.take() {
            qp.to_error()?;
        }
        self.heads = Heads::default();
        self.forget_sent(pool);
        Ok(())
    }

    /// The NIC reads for no work request any more.
    fn forget_sent(&mut self, pool: &mut Pool) {
        self.sent.drain(..).filter_map(|(_, slot)| slot).for_each(|slot| pool.release(slot));
    }

    /// A fresh NIC queue pair after [`Lane::close`], not connected yet.
    pub(crate) fn reopen(
        &mut self,
        device: &Device,
        pool: &Pool,
        cqs: (&Cq, &Cq),
    ) -> Result<(), VerbsError> {
        self.qp = Some(open(device, pool, cqs)?);
        self.generation += 1;
        Ok(())
    }

    /// The number for the next work request, which reads from `slot`.
    pub(crate) fn number_send(&mut self, slot: Option<u32>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.sent.push_back((number, slot));
        number
    }

    /// Work requests that the NIC may be reading for.
    pub(crate) fn outstanding(&self) -> usize {
        self.sent.len()
    }

    /// The NIC is done with this work request and all before it. Returns how many those are.
    pub(crate) fn on_sent(&mut self, number: u64, pool: &mut Pool) -> usize {
        let before = self.sent.len();
        while self.sent.front().is_some_and(|(n, _)| *n <= number) {
            let slot = self.sent.pop_front().and_then(|(_, slot)| slot);
            slot.into_iter().for_each(|slot| pool.release(slot));
        }
        before - self.sent.len()
    }

    /// Headers have come whose payloads follow.
    pub(crate) fn take_heads(&mut self, serial: u32, bytes: &[u8]) {
        self.heads.serial = serial;
        self.heads.bytes.clear();
        self.heads.bytes.extend_from_slice(bytes);
    }

    /// The header that belongs to a payload with this immediate data.
    pub(crate) fn head_of(&self, imm: u32) -> Option<DataHeader> {
        let (serial, at) = (imm >> 8, (imm & 0xFF) as usize * DATA_HEADER_LEN);
        let bytes = self.heads.bytes.get(at..at + DATA_HEADER_LEN)?;
        DataHeader::decode_placed(bytes).ok().filter(|_| serial == self.heads.serial)
    }
}

const ACCESS: MrAccess = MrAccess::REMOTE_WRITE;

fn open(device: &Device, pool: &Pool, (send_cq, recv_cq): (&Cq, &Cq)) -> Result<Qp, VerbsError> {
    let qp = pool.pd.create_qp(&QpInit {
        kind: device.kind,
        send_cq,
        recv_cq,
        srq: Some(&pool.srq),
        max_send_wr: LANE_SENDS as u32,
        max_recv_wr: 0,
        max_send_sge: (1 + MAX_PIECES as u32).min(device.attributes.max_sge),
        max_recv_sge: 1,
        max_inline: 0,
    })?;
    // An RC queue pair of the peer's acknowledges; only WRITEs reach memory.
    debug_assert!(qp.kind() != QpKind::Ud);
    qp.to_init(device.port, ACCESS)?;
    Ok(qp)
}
