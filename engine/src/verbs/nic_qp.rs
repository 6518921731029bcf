//! A NIC queue pair of a connection through all its epochs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use braid_verbs::{Cq, MrAccess, Qp, QpInit, RecvWr, Rtr, Rts, VerbsError};
use braid_wire::{DATA_HEADER_LEN, DataHeader, FRAME_LEN, Frame, Time};

use smallvec::SmallVec;

use super::buffers::Buffers;
use super::completion_queues::CompletionRoom;
use super::device::Device;
use super::pool::Pool;
use crate::parts::{MAX_PARTS, Parts};

/// The length of a NIC queue pair's send queue. Soft-RoCE rounds one more up to a power of two.
pub(crate) const NIC_QP_SENDS: usize = 511;
/// Bytes of receive buffers that the NIC queue pairs of a connection share.
const CONNECTION_BYTES: usize = 32 << 20;
/// The least number of bytes for a NIC queue pair.
const LEAST_NIC_QP_BYTES: usize = 2 << 20;

/// The receive credits of a NIC queue pair: the number of messages of this size that it can take
/// before software handles them, if the connection has `nic_qps` of them.
pub(crate) fn receives(nic_qps: usize, message_len: usize) -> usize {
    let bytes = (CONNECTION_BYTES / nic_qps).max(LEAST_NIC_QP_BYTES);
    (bytes / message_len).clamp(96, 511)
}

/// The number of segments that a sender may have in flight. All of them find room even if they take
/// one NIC queue pair, which has `receives`. Each segment is two messages, its header and its
/// payload, or as many as it has parts, and the other stream has its own. A longer segment that the
/// NIC places counts by its bytes and has no more messages than those.
pub(crate) fn credits(receives: usize, parts: usize) -> u16 {
    (receives / (1 + parts.max(2))).max(1) as u16
}

/// The number of receive buffers returned to the NIC in one call.
const RETURNS: usize = 16;
/// The number of pieces of a work request besides the header. With it a work request takes 256
/// bytes on Soft-RoCE and not 512, which shortens the clearing of the queues when a NIC queue pair
/// is renewed.
pub(crate) const MAX_PIECES: usize = 2;

/// The NIC queue pair of one path, or the safe one.
pub(crate) struct NicQp {
    /// `None`: it was closed, and no other could be created.
    pub(crate) qp: Option<Qp>,
    /// The number of NIC queue pairs in this place before this one.
    pub(crate) epoch: u32,
    /// The peer's NIC queue pair, and the number of its predecessors.
    pub(crate) remote: u32,
    pub(crate) remote_epoch: u32,
    /// Whether the peer was told to close its end and has not announced another.
    pub(crate) is_shut: bool,
    /// The time at which the peer last caused a renewal, and the time of the last rejoin after a
    /// renewal of the peer's end.
    pub(crate) renewed: Option<Time>,
    pub(crate) rejoined: Option<Time>,
    /// The room for the completions of everything posted to it.
    pub(crate) room: CompletionRoom,
    /// The serial number of the next frame of headers.
    pub(crate) serial: u32,
    last_frame: LastFrame,
    /// The serial number of the next packet in parts.
    pub(crate) parts_serial: u32,
    parts: Parts,
    posted: PostedSends,
    receive: Receive,
}

/// The work requests whose memory the NIC may still read, oldest first: their numbers and send
/// buffers. Completions carry the numbers. A completion of a forgotten one frees nothing.
#[derive(Default)]
struct PostedSends {
    sends: VecDeque<(u64, Option<u32>)>,
    /// The number of the next work request.
    next: u64,
}

/// The receive buffers of a NIC queue pair: `count` of its connection's, from `first` on.
struct Receive {
    buffers: Arc<Buffers>,
    first: usize,
    count: usize,
    /// The number of times that all buffers were posted anew. The high half of an id carries it, so
    /// that completions of earlier posts are ignored.
    epoch: u32,
    /// Buffers that were returned and are not posted yet.
    returned: Vec<u32>,
}

/// The last frame of headers that has arrived.
#[derive(Default)]
struct LastFrame {
    serial: u32,
    bytes: Vec<u8>,
}

impl NicQp {
    /// Creates a NIC queue pair that is not connected yet. Its receive buffers are `own` of its
    /// connection's.
    pub(crate) fn new(
        device: &Device,
        pool: &Pool,
        (cqs, room): ((&Cq, &Cq), CompletionRoom),
        buffers: &Arc<Buffers>,
        own: Range<usize>,
    ) -> Result<Self, VerbsError> {
        let (buffers, first, count) = (buffers.clone(), own.start, own.len());
        let mut nic_qp = NicQp {
            qp: Some(open(device, pool, cqs, count)?),
            epoch: 0,
            remote: 0,
            remote_epoch: 0,
            is_shut: false,
            renewed: None,
            rejoined: None,
            room,
            serial: 0,
            last_frame: LastFrame::default(),
            parts_serial: 0,
            parts: Parts::default(),
            posted: PostedSends::default(),
            receive: Receive { buffers, first, count, epoch: 0, returned: Vec::new() },
        };
        nic_qp.receive_anew();
        Ok(nic_qp)
    }

    /// Posts all receive buffers. The NIC has none of them.
    fn receive_anew(&mut self) {
        self.receive.epoch = self.receive.epoch.wrapping_add(1);
        self.receive.returned.clear();
        self.receive.returned.extend(0..self.receive.count as u32);
        self.give_back();
    }

    /// The receive buffer of a completion's id, unless all buffers were posted anew since.
    pub(crate) fn received(&self, id: u64) -> Option<u32> {
        let (epoch, index) = ((id >> 32) as u32, id as u32);
        (epoch == self.receive.epoch && (index as usize) < self.receive.count).then_some(index)
    }

    /// The message in a receive buffer.
    ///
    /// # Safety
    /// [`NicQp::received`] must have named the buffer for the current completion, and it must not
    /// have been recycled since.
    pub(crate) unsafe fn message(&self, index: u32, len: usize) -> Option<&[u8]> {
        let Receive { buffers, first, .. } = &self.receive;
        // SAFETY: by the caller the NIC is done with it.
        (len <= buffers.size()).then(|| unsafe { buffers.bytes(first + index as usize, len) })
    }

    /// Takes a receive buffer back.
    pub(crate) fn recycle(&mut self, index: u32) {
        self.receive.returned.push(index);
        if self.receive.returned.len() >= RETURNS {
            self.give_back();
        }
    }

    /// Returns all free receive buffers to the NIC.
    pub(crate) fn give_back(&mut self) {
        let Receive { buffers, first, epoch, returned, .. } = &mut self.receive;
        let Some(qp) = &self.qp else { return };
        while !returned.is_empty() {
            let batch = returned.len().saturating_sub(RETURNS);
            let ids = &returned[batch..];
            let entry = |index: &u32| [buffers.entry(*first + *index as usize, buffers.size())];
            let entries: SmallVec<[_; RETURNS]> = ids.iter().map(entry).collect();
            let id = |index: u32| u64::from(*epoch) << 32 | u64::from(index);
            let wrs: SmallVec<[RecvWr<'_>; RETURNS]> =
                ids.iter().zip(&entries).map(|(i, sges)| RecvWr { id: id(*i), sges }).collect();
            // SAFETY: the buffers are ours until posted, and outlive the queue pair.
            let posted = unsafe { qp.post_recv(&wrs) };
            let count = posted.as_ref().map_or_else(|error| error.index, |()| wrs.len());
            returned.drain(batch..batch + count);
            if let Err(error) = posted {
                tracing::warn!(%error, "receive buffers could not be posted");
                return;
            }
        }
    }

    /// The number of its NIC queue pair.
    pub(crate) fn number(&self) -> Option<u32> {
        self.qp.as_ref().map(Qp::number)
    }

    /// Whether packets sent on it can arrive.
    pub(crate) fn is_open(&self) -> bool {
        self.qp.is_some() && !self.is_shut
    }

    /// Connects it with the peer's end, from INIT to RTS.
    pub(crate) fn connect(&self, rtr: &Rtr) -> Result<(), VerbsError> {
        let Some(qp) = &self.qp else { return Ok(()) };
        qp.to_rtr(rtr)?;
        // Reliable connection: 67 ms and seven tries, about half a second until a NIC queue pair
        // fails.
        qp.to_rts(&Rts {
            psn: rtr.psn,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
        })
    }

    /// Takes back everything posted, because the peer has another end. [`NicQp::rejoin`] follows.
    pub(crate) fn reset(&mut self, pool: &mut Pool) -> Result<(), VerbsError> {
        self.qp.iter().try_for_each(Qp::to_reset)?;
        self.forget_sent(pool);
        Ok(())
    }

    /// Starts anew, under the same number, with the peer's new end.
    pub(crate) fn rejoin(&mut self, device: &Device, rtr: &Rtr) -> Result<(), VerbsError> {
        let Some(qp) = &self.qp else { return Ok(()) };
        qp.to_init(device.port, ACCESS)?;
        self.receive_anew();
        self.connect(rtr)
    }

    /// Closes the NIC queue pair. After `Ok`, nothing that was sent to it is placed any more. After
    /// an error nothing has changed.
    pub(crate) fn close(&mut self, pool: &mut Pool) -> Result<(), VerbsError> {
        // In ERR, each receive would produce a completion that has to be discarded.
        self.qp.iter().try_for_each(Qp::to_reset)?;
        self.end(pool);
        Ok(())
    }

    /// Drops the NIC queue pair, whether the device agrees or not.
    pub(crate) fn end(&mut self, pool: &mut Pool) {
        self.qp = None;
        self.last_frame = LastFrame::default();
        self.forget_sent(pool);
    }

    /// Releases all send buffers, which the NIC no longer reads.
    fn forget_sent(&mut self, pool: &mut Pool) {
        self.posted
            .sends
            .drain(..)
            .filter_map(|(_, slot)| slot)
            .for_each(|slot| pool.release(slot));
    }

    /// Creates a new NIC queue pair after [`NicQp::close`], not connected yet.
    pub(crate) fn reopen(
        &mut self,
        device: &Device,
        pool: &Pool,
        cqs: (&Cq, &Cq),
    ) -> Result<(), VerbsError> {
        self.qp = Some(open(device, pool, cqs, self.receive.count)?);
        self.epoch += 1;
        self.receive_anew();
        Ok(())
    }

    /// The number of the next work request, which reads from `slot`.
    pub(crate) fn number_send(&mut self, slot: Option<u32>) -> u64 {
        let number = self.posted.next;
        self.posted.next += 1;
        self.posted.sends.push_back((number, slot));
        number
    }

    /// The number of work requests whose memory the NIC may be reading.
    pub(crate) fn outstanding(&self) -> usize {
        self.posted.sends.len()
    }

    /// Whether the send queue has room for another segment, whatever its number of parts, besides
    /// `waiting` work requests that are not posted yet.
    pub(crate) fn has_room(&self, waiting: usize) -> bool {
        self.posted.sends.len() + waiting + MAX_PARTS <= NIC_QP_SENDS
    }

    /// Handles the completion of this work request and of all before it.
    pub(crate) fn on_sent(&mut self, number: u64, pool: &mut Pool) {
        while self.posted.sends.front().is_some_and(|(n, _)| *n <= number) {
            let slot = self.posted.sends.pop_front().and_then(|(_, slot)| slot);
            slot.into_iter().for_each(|slot| pool.release(slot));
        }
    }

    /// Takes a part of a packet, in a receive buffer after its frame. Returns the packet if it is
    /// complete.
    pub(crate) fn take_part(
        &mut self,
        buffer: u32,
        frame: &Frame,
        len: usize,
        mtu: usize,
    ) -> Option<&[u8]> {
        let Receive { buffers, first, .. } = &self.receive;
        let len = len.min(buffers.size());
        // SAFETY: the caller has it from a completion, and recycles it after this.
        let bytes = unsafe { buffers.bytes(first + buffer as usize, len) };
        self.parts.take(frame, bytes.get(FRAME_LEN..)?, Frame::part_len(mtu))
    }

    /// Takes headers, in a receive buffer after their frame. Their payloads follow.
    pub(crate) fn take_heads(&mut self, buffer: u32, serial: u32, len: usize) {
        let mut frame = std::mem::take(&mut self.last_frame);
        frame.serial = serial;
        frame.bytes.clear();
        // SAFETY: the caller has it from a completion, and recycles it after this.
        let bytes = unsafe { self.message(buffer, len) };
        frame.bytes.extend_from_slice(bytes.and_then(|b| b.get(FRAME_LEN..)).unwrap_or_default());
        self.last_frame = frame;
    }

    /// The header of a payload with this immediate data.
    pub(crate) fn head_of(&self, imm: u32) -> Option<DataHeader> {
        let (serial, at) = (imm >> 8, (imm & 0xFF) as usize * DATA_HEADER_LEN);
        let bytes = self.last_frame.bytes.get(at..at + DATA_HEADER_LEN)?;
        DataHeader::decode_placed(bytes).ok().filter(|_| serial == self.last_frame.serial)
    }
}

const ACCESS: MrAccess = MrAccess::REMOTE_WRITE;

fn open(
    device: &Device,
    pool: &Pool,
    (send_cq, recv_cq): (&Cq, &Cq),
    receives: usize,
) -> Result<Qp, VerbsError> {
    let qp = pool.pd.create_qp(&QpInit {
        kind: device.kind,
        send_cq,
        recv_cq,
        // Each NIC queue pair has a receive queue of its own, because Soft-RoCE never recovers from
        // a message that was cut short on a shared one. (`do_class_d1e_error` in rxe_resp.c keeps
        // the opcode that it waits for.)
        srq: None,
        max_send_wr: NIC_QP_SENDS as u32,
        max_recv_wr: receives as u32,
        max_send_sge: (1 + MAX_PIECES as u32).min(device.attributes.max_sge),
        max_recv_sge: 1,
        max_inline: 0,
    })?;
    qp.to_init(device.port, ACCESS)?;
    Ok(qp)
}
