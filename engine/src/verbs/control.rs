//! The control queue pair: acknowledgements, control packets and notes, as unreliable datagrams.

use std::collections::VecDeque;
use std::sync::Arc;

use braid_verbs::{Ah, Cq, Pd, Qp, QpInit, QpKind, RecvWr, Rts, SendOp, SendWr, VerbsError};
use braid_wire::{FRAME_LEN, Frame, MAX_ACK_LEN};

use super::buffers::{Buffers, BuffersError};
use super::device::Device;

pub(crate) const SENDS: u32 = 255;
/// Datagrams that can arrive before software handles them.
pub(crate) const RECEIVES: u32 = 1023;
/// Bytes that the NIC puts before a datagram (IBTA vol. 1, 11.4.1.2).
const GRH: usize = 40;
/// The interval of sends that ask for a completion, which frees all sends before.
const SIGNAL_EVERY: u64 = 16;

const LONGEST: usize = FRAME_LEN + MAX_ACK_LEN;

/// The address of a peer's control queue pair.
#[derive(Clone)]
pub(crate) struct ControlAddress {
    pub(crate) ah: Arc<Ah>,
    pub(crate) qp: u32,
    pub(crate) qkey: u32,
}

pub(crate) struct ControlQp {
    // Before the buffers, so that the NIC releases them first.
    qp: Qp,
    pub(crate) pd: Pd,
    pub(crate) qkey: u32,
    receive: Buffers,
    send: Buffers,
    free: Vec<u32>,
    /// By number: the buffer, and the address handle that has to stay until the NIC is done.
    sent: VecDeque<(u64, u32, Arc<Ah>)>,
    next: u64,
}

impl ControlQp {
    pub(crate) fn new(
        device: &Device,
        (send_cq, recv_cq): (&Cq, &Cq),
        qkey: u32,
    ) -> Result<Self, BuffersError> {
        let pd = device.context.alloc_pd()?;
        let qp = pd.create_qp(&QpInit {
            kind: QpKind::Ud,
            send_cq,
            recv_cq,
            srq: None,
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        })?;
        qp.to_init_ud(device.port, qkey)?;
        qp.to_rtr_ud()?;
        qp.to_rts(&Rts { psn: 0, timeout: 0, retry_count: 0, rnr_retry: 0, max_rd_atomic: 0 })?;
        let receive = Buffers::new(&pd, RECEIVES as usize, GRH + LONGEST)?;
        let send = Buffers::new(&pd, SENDS as usize, LONGEST)?;
        let control = ControlQp {
            qp,
            pd,
            qkey,
            receive,
            send,
            free: (0..SENDS).collect(),
            sent: VecDeque::new(),
            next: 0,
        };
        (0..RECEIVES).try_for_each(|index| control.give_back(index))?;
        Ok(control)
    }

    pub(crate) fn number(&self) -> u32 {
        self.qp.number()
    }

    fn give_back(&self, index: u32) -> Result<(), VerbsError> {
        let entry = self.receive.entry(index as usize, self.receive.size());
        let wr = RecvWr { id: u64::from(index), sges: &[entry] };
        // SAFETY: the buffer is ours, and lives as long as the queue pair.
        unsafe { self.qp.post_recv(&[wr]) }.map_err(|error| VerbsError::Refused {
            device: self.pd.context().name().to_owned(),
            call: "ibv_post_recv",
            asked: format!("datagram buffer {index}"),
            source: error.source,
        })
    }

    /// Answers a peer. A peer can ask as often as it likes, so answers use at most half of the
    /// buffers.
    pub(crate) fn answer(&mut self, to: &ControlAddress, frame: Frame, body: &[u8]) {
        if self.free.len() > SENDS as usize / 2 {
            self.send(to, frame, body);
        }
    }

    /// Sends a datagram, or drops it if there is no room, as networks do.
    pub(crate) fn send(&mut self, to: &ControlAddress, frame: Frame, body: &[u8]) {
        let len = FRAME_LEN + body.len();
        let Some(slot) = self.free.pop().filter(|_| len <= LONGEST) else { return };
        // SAFETY: it was free, so neither the NIC nor anybody else has it.
        let buffer = unsafe { self.send.bytes_mut(slot as usize) };
        buffer[..FRAME_LEN].copy_from_slice(&frame.encode());
        buffer[FRAME_LEN..len].copy_from_slice(body);
        let number = self.next;
        let wr = SendWr {
            id: number,
            op: SendOp::Ud { ah: &to.ah, qp: to.qp, qkey: to.qkey },
            sges: &[self.send.entry(slot as usize, len)],
            signaled: number.is_multiple_of(SIGNAL_EVERY),
            inline: false,
            solicited: false,
        };
        // SAFETY: the buffer and the address handle stay in `sent` until the completion.
        match unsafe { self.qp.post_send(&[wr]) } {
            Ok(()) => {
                self.next += 1;
                self.sent.push_back((number, slot, to.ah.clone()));
            }
            Err(error) => {
                tracing::debug!(%error, "a datagram was not posted");
                self.free.push(slot);
            }
        }
    }

    /// Handles the completion of the send with this number, and of all before it.
    pub(crate) fn on_sent(&mut self, number: u64) {
        while self.sent.front().is_some_and(|(n, ..)| *n <= number) {
            self.free.extend(self.sent.pop_front().map(|(_, slot, _)| slot));
        }
    }

    /// The content of an arrived datagram. [`ControlQp::recycle`] returns its buffer.
    pub(crate) fn received(&self, index: u32, byte_len: usize) -> Option<&[u8]> {
        if index >= RECEIVES || byte_len > self.receive.size() {
            return None;
        }
        // SAFETY: its completion has come, so the NIC is done with it.
        unsafe { self.receive.bytes(index as usize, byte_len) }.get(GRH..)
    }

    pub(crate) fn recycle(&self, index: u32) {
        if let Err(error) = self.give_back(index) {
            tracing::debug!(%error, "a datagram buffer is lost");
        }
    }
}
