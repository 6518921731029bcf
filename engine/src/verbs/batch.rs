//! Work requests for one NIC queue pair, posted together.

use braid_verbs::{Qp, SendOp, SendWr, Sge};
use braid_wire::{DATA_HEADER_LEN, FRAME_LEN, Frame, MAX_HEADERS, QpId};
use smallvec::SmallVec;

use super::nic_qp::{MAX_PIECES, NicQp};
use super::pool::Pool;

/// The largest number of work requests that wait for each other.
const LONGEST: usize = 16;

/// The memory that a work request reads.
pub(crate) type Entries = SmallVec<[Sge; 1 + MAX_PIECES]>;

/// Work requests that are not posted yet, all for one NIC queue pair. Only the last one asks the
/// NIC for a completion.
#[derive(Default)]
pub(crate) struct SendBatch {
    nic_qp: Option<(QpId, usize)>,
    requests: Vec<WorkRequest>,
    frame: Option<FrameInProgress>,
}

struct WorkRequest {
    op: Op,
    entries: Entries,
    slot: Option<u32>,
}

impl WorkRequest {
    fn to_verbs(&self, id: u64, signaled: bool) -> SendWr<'_> {
        let op = match self.op {
            Op::Send => SendOp::Send,
            Op::Write { addr, rkey, imm } => SendOp::WriteWithImm { addr, rkey, imm },
        };
        SendWr { id, op, sges: &self.entries, signaled, inline: false, solicited: false }
    }
}

#[derive(Clone, Copy)]
enum Op {
    Send,
    Write { addr: u64, rkey: u32, imm: u32 },
}

/// The frame of headers under construction, and the number of its request.
struct FrameInProgress {
    request: usize,
    slot: u32,
    serial: u32,
    count: usize,
}

impl SendBatch {
    pub(crate) fn nic_qp(&self) -> Option<(QpId, usize)> {
        self.nic_qp
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether a request for this NIC queue pair can join.
    pub(crate) fn takes(&self, nic_qp: (QpId, usize)) -> bool {
        self.nic_qp.is_none_or(|own| own == nic_qp) && self.requests.len() < LONGEST
    }

    /// Adds a message whose send buffer is freed with a later one.
    pub(crate) fn send_part(&mut self, nic_qp: (QpId, usize), entries: Entries) {
        self.nic_qp = Some(nic_qp);
        self.requests.push(WorkRequest { op: Op::Send, entries, slot: None });
    }

    /// Adds a message that begins in a send buffer.
    pub(crate) fn send(&mut self, nic_qp: (QpId, usize), slot: u32, entries: Entries) {
        self.nic_qp = Some(nic_qp);
        self.requests.push(WorkRequest { op: Op::Send, entries, slot: Some(slot) });
    }

    /// Adds a payload that the NIC places, and its header to the frame before it. Returns `false`
    /// if there is no buffer for the header.
    pub(crate) fn write(
        &mut self,
        at: (QpId, usize),
        (nic_qp, pool): (&mut NicQp, &mut Pool),
        header: &[u8],
        (addr, rkey): (u64, u32),
        entries: Entries,
    ) -> bool {
        if self.frame.is_none() && !self.begin_heads(nic_qp, pool) {
            return false;
        }
        let Some(frame) = &mut self.frame else { return false };
        pool.write(frame.slot, FRAME_LEN + frame.count * DATA_HEADER_LEN, header);
        let imm = frame.serial << 8 | frame.count as u32;
        frame.count += 1;
        self.nic_qp = Some(at);
        self.requests.push(WorkRequest { op: Op::Write { addr, rkey, imm }, entries, slot: None });
        true
    }

    fn begin_heads(&mut self, nic_qp: &mut NicQp, pool: &mut Pool) -> bool {
        const { assert!(LONGEST <= MAX_HEADERS) };
        let Some(slot) = pool.take() else { return false };
        nic_qp.serial = (nic_qp.serial + 1) & 0xFF_FFFF;
        let request = self.requests.len();
        self.frame = Some(FrameInProgress { request, slot, serial: nic_qp.serial, count: 0 });
        self.requests.push(WorkRequest { op: Op::Send, entries: Entries::new(), slot: Some(slot) });
        true
    }

    /// Posts everything on `nic_qp`. Returns `false` if the NIC has not taken all of it. The
    /// remaining work requests, and those posted without asking for a completion, then never
    /// complete, so the NIC queue pair has to be renewed.
    pub(crate) fn post(&mut self, nic_qp: &mut NicQp, pool: &mut Pool) -> bool {
        if let Some(frame) = self.frame.take() {
            let encoded = Frame::headers(frame.serial, frame.count as u8).encode();
            pool.write(frame.slot, 0, &encoded);
            let len = FRAME_LEN + frame.count * DATA_HEADER_LEN;
            self.requests[frame.request].entries.push(pool.entry(frame.slot, len));
        }
        let count = self.requests.len();
        let numbers = self.requests.iter().map(|request| nic_qp.number_send(request.slot));
        let numbers: SmallVec<[u64; LONGEST]> = numbers.collect();
        let all = self.requests.iter().zip(&numbers).enumerate();
        let posted = post(
            nic_qp.qp.as_ref(),
            all.map(|(index, (request, number))| request.to_verbs(*number, index + 1 == count)),
        );
        self.clear();
        posted == count
    }

    /// Drops everything that is not posted.
    pub(crate) fn forget(&mut self, pool: &mut Pool) {
        self.requests.iter().filter_map(|request| request.slot).for_each(|slot| pool.release(slot));
        self.frame = None;
        self.clear();
    }

    fn clear(&mut self) {
        self.nic_qp = None;
        self.requests.clear();
    }
}

fn post<'a>(qp: Option<&Qp>, requests: impl Iterator<Item = SendWr<'a>>) -> usize {
    let requests: SmallVec<[SendWr<'_>; LONGEST]> = requests.collect();
    let Some(qp) = qp else { return 0 };
    // SAFETY: what the entries name is a send buffer, which stays taken until the completion, or
    // registered memory, which deregistration protects (`Connections::quiesce`).
    match unsafe { qp.post_send(&requests) } {
        Ok(()) => requests.len(),
        Err(error) => {
            tracing::warn!(%error, "an RDMA device has refused work requests");
            error.index
        }
    }
}
