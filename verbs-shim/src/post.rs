//! Work requests, and the posting of lists of them.

use std::mem::{MaybeUninit, size_of};
use std::{io, ptr};

use crate::abi::*;
use crate::error::check;
use crate::{Ah, PostError, Sge};

/// The error for a driver without the function.
pub(crate) const ENOSYS: i32 = libc::ENOSYS;

/// Work requests per call of the driver: 4 KiB of stack.
const CHUNK: usize = 32;

/// A send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// The id in the completion.
    pub id: u64,
    /// The operation.
    pub op: SendOp<'a>,
    /// The bytes, gathered in this order.
    pub sges: &'a [Sge],
    /// Whether success causes a completion. Failure always does.
    pub signaled: bool,
    /// Whether the bytes are copied by the call. Then the memory is free after the call and needs
    /// no `lkey`. At most [`Qp::max_inline`](crate::Qp::max_inline) bytes are allowed.
    pub inline: bool,
    /// Whether the peer's completion counts as solicited.
    pub solicited: bool,
}

/// The operation of a send work request.
#[derive(Clone, Copy, Debug)]
pub enum SendOp<'a> {
    /// A SEND into the peer's next receive buffer. RC and UC.
    Send,
    /// A SEND with 32 bits of immediate data, in host order.
    SendWithImm(u32),
    /// A WRITE to the peer's memory. RC and UC.
    Write {
        /// The address of the first byte.
        addr: u64,
        /// The key of the peer's memory region.
        rkey: u32,
    },
    /// A WRITE with immediate data, which consumes a receive work request of the peer.
    WriteWithImm {
        /// The address of the first byte.
        addr: u64,
        /// The key of the peer's memory region.
        rkey: u32,
        /// The immediate data in host order.
        imm: u32,
    },
    /// A datagram to any UD queue pair. UD only.
    Ud {
        /// The route to the peer.
        ah: &'a Ah,
        /// The peer's queue pair number.
        qp: u32,
        /// The peer's queue key.
        qkey: u32,
    },
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// The id in the completion.
    pub id: u64,
    /// The buffers, filled in this order. A UD message follows 40 bytes of header.
    pub sges: &'a [Sge],
}

impl SendWr<'_> {
    /// Converts to the C struct. `None`: not valid for queue pairs of this kind. A UD driver would
    /// follow an address handle that does not exist.
    pub(crate) fn to_raw(self, is_ud: bool) -> Option<ibv_send_wr> {
        let nowhere = SendTarget { rdma: Rdma { remote_addr: 0, rkey: 0 } };
        let rdma = |remote_addr, rkey| SendTarget { rdma: Rdma { remote_addr, rkey } };
        let (opcode, imm, wr) = match self.op {
            SendOp::Send => (IBV_WR_SEND, 0, nowhere),
            SendOp::SendWithImm(imm) => (IBV_WR_SEND_WITH_IMM, imm, nowhere),
            SendOp::Write { addr, rkey } => (IBV_WR_RDMA_WRITE, 0, rdma(addr, rkey)),
            SendOp::WriteWithImm { addr, rkey, imm } => {
                (IBV_WR_RDMA_WRITE_WITH_IMM, imm, rdma(addr, rkey))
            }
            SendOp::Ud { ah, qp, qkey } => {
                let ud = Ud { ah: ah.raw(), remote_qpn: qp, remote_qkey: qkey };
                (IBV_WR_SEND, 0, SendTarget { ud })
            }
        };
        let flag = |set, flag| if set { flag } else { 0 };
        (is_ud == matches!(self.op, SendOp::Ud { .. })).then_some(ibv_send_wr {
            wr_id: self.id,
            next: ptr::null_mut(),
            sg_list: self.sges.as_ptr().cast_mut(),
            num_sge: count(self.sges),
            opcode,
            send_flags: flag(self.signaled, IBV_SEND_SIGNALED)
                | flag(self.inline, IBV_SEND_INLINE)
                | flag(self.solicited, IBV_SEND_SOLICITED),
            imm_data: imm.to_be(),
            wr,
            qp_type: 0,
            bind_mw: [0; 6],
        })
    }
}

impl RecvWr<'_> {
    pub(crate) fn to_raw(self) -> Option<ibv_recv_wr> {
        Some(ibv_recv_wr {
            wr_id: self.id,
            next: ptr::null_mut(),
            sg_list: self.sges.as_ptr().cast_mut(),
            num_sge: count(self.sges),
        })
    }
}

/// Returns the number of entries, saturated. No device accepts that many.
fn count(sges: &[Sge]) -> i32 {
    i32::try_from(sges.len()).unwrap_or(i32::MAX)
}

/// A C work request with a pointer to the next one.
pub(crate) trait Chained {
    fn link(&mut self, next: *mut Self);
}

impl Chained for ibv_send_wr {
    fn link(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Chained for ibv_recv_wr {
    fn link(&mut self, next: *mut Self) {
        self.next = next;
    }
}

/// Posts `wrs` in chains of [`CHUNK`]. A work request that `to_raw` rejects ends the list as an
/// invalid argument.
///
/// `call` receives the first of a chain, and where to store the first one that it could not post.
#[inline]
pub(crate) fn post<W, R: Chained>(
    wrs: &[W],
    to_raw: impl Fn(&W) -> Option<R>,
    mut call: impl FnMut(*mut R, *mut *mut R) -> i32,
) -> Result<(), PostError> {
    for (index, chunk) in wrs.chunks(CHUNK).enumerate() {
        let before = index * CHUNK;
        let mut chain = [const { MaybeUninit::<R>::uninit() }; CHUNK];
        let first = chain.as_mut_ptr().cast::<R>();
        let filled = fill(first, chunk, &to_raw);
        let mut bad = first;
        if filled > 0
            && let Err(source) = check(call(first, &raw mut bad))
        {
            // A driver that reports no position, or a wrong one, has posted none.
            let distance = bad.addr().wrapping_sub(first.addr()) / size_of::<R>();
            let offset = if distance < filled { distance } else { 0 };
            return Err(PostError { index: before + offset, source });
        }
        if filled < chunk.len() {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(PostError { index: before + filled, source });
        }
    }
    Ok(())
}

/// Writes a chain of the work requests up to the first that `to_raw` rejects, and returns its
/// length.
fn fill<W, R: Chained>(first: *mut R, chunk: &[W], to_raw: &impl Fn(&W) -> Option<R>) -> usize {
    debug_assert!(chunk.len() <= CHUNK);
    let mut filled = 0;
    for raw in chunk.iter().map_while(to_raw) {
        // SAFETY: `first` is the start of an array of `CHUNK`, which a chunk does not exceed, and
        // the previous element was written in the previous iteration.
        unsafe {
            let slot = first.add(filled);
            slot.write(raw);
            if filled > 0 {
                (*first.add(filled - 1)).link(slot);
            }
        }
        filled += 1;
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QpKind, fake};

    fn write(id: u64, sges: &[Sge]) -> SendWr<'_> {
        let op = SendOp::WriteWithImm { addr: 0x1000 + id, rkey: 7, imm: 0x0102_0304 };
        SendWr { id, op, sges, signaled: true, inline: false, solicited: false }
    }

    #[test]
    fn a_request_reaches_the_driver_as_it_is() {
        let fake = fake::Device::new();
        let qp = fake::queue_pair(&fake.open(), QpKind::Uc);
        let sges = [Sge { addr: 16, len: 4, lkey: 5 }, Sge { addr: 32, len: 8, lkey: 6 }];
        let list = [
            write(1, &sges),
            SendWr { op: SendOp::Send, signaled: false, inline: true, ..write(2, &sges[..1]) },
            SendWr { op: SendOp::SendWithImm(9), solicited: true, ..write(3, &[]) },
            SendWr { op: SendOp::Write { addr: 77, rkey: 8 }, ..write(4, &[]) },
        ];
        // SAFETY: the fake device does not touch memory.
        unsafe { qp.post_send(&list) }.expect("room for four");
        let seen = fake.sent();
        let imm = |n: u32| n.to_be_bytes();
        assert_eq!(
            seen.iter().map(|s| (s.id, s.opcode, s.flags, s.imm)).collect::<Vec<_>>(),
            [
                (1, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED, imm(0x0102_0304)),
                (2, IBV_WR_SEND, IBV_SEND_INLINE, imm(0)),
                (3, IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, imm(9)),
                (4, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, imm(0)),
            ]
        );
        assert_eq!((seen[0].sges.as_slice(), &seen[1].sges[..]), (&sges[..], &sges[..1]));
        assert_eq!((seen[0].rdma, seen[3].rdma), ((0x1001, 7), (77, 8)));
    }

    #[test]
    fn a_list_is_one_call_until_it_is_long() {
        for (len, calls) in [(0, 0), (1, 1), (CHUNK, 1), (CHUNK + 1, 2), (3 * CHUNK, 3)] {
            let fake = fake::Device::new();
            let qp = fake::queue_pair(&fake.open(), QpKind::Rc);
            let list: Vec<_> = (0..len as u64).map(|id| write(id, &[])).collect();
            // SAFETY: the fake device does not touch memory.
            unsafe { qp.post_send(&list) }.expect("room for all");
            let ids: Vec<u64> = fake.sent().iter().map(|sent| sent.id).collect();
            assert_eq!(ids, (0..len as u64).collect::<Vec<_>>());
            assert_eq!(fake.took("post_send"), calls, "{len}");
        }
    }

    #[test]
    fn a_full_queue_reports_its_position() {
        for room in [0, 1, CHUNK - 1, CHUNK, CHUNK + 5] {
            let fake = fake::Device::new().room(room);
            let qp = fake::queue_pair(&fake.open(), QpKind::Rc);
            let list: Vec<_> = (0..CHUNK as u64 + 10).map(|id| write(id, &[])).collect();
            // SAFETY: the fake device does not touch memory.
            let error = unsafe { qp.post_send(&list) }.expect_err("full");
            assert_eq!((error.index, fake.sent().len()), (room, room));
            assert_eq!(error.source.raw_os_error(), Some(libc::ENOMEM));
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("work request {room} of the list was not")),
                "{text}"
            );
        }
    }

    #[test]
    fn requests_of_another_kind_never_reach_the_driver() {
        let fake = fake::Device::new();
        let context = fake.open();
        let qp = fake::queue_pair(&context, QpKind::Uc);
        let ah = qp.pd().create_ah(&fake::route()).expect("a handle");
        let datagram = SendWr { op: SendOp::Ud { ah: &ah, qp: 3, qkey: 4 }, ..write(2, &[]) };
        let list = [write(0, &[]), write(1, &[]), datagram, write(3, &[])];
        // SAFETY: the fake device does not touch memory.
        let error = unsafe { qp.post_send(&list) }.expect_err("a datagram on UC");
        assert_eq!((error.index, fake.sent().len()), (2, 2));
        let ud = fake::queue_pair(&context, QpKind::Ud);
        // SAFETY: as above.
        let error = unsafe { ud.post_send(&[datagram, write(1, &[])]) }.expect_err("a write on UD");
        assert_eq!((error.index, fake.sent().len()), (1, 3));
        assert_eq!(fake.sent()[2].ud, (ah.raw(), 3, 4));
    }

    #[test]
    fn receives_reach_both_sorts_of_queue() {
        let fake = fake::Device::new().room(3);
        let qp = fake::queue_pair(&fake.open(), QpKind::Uc);
        let sges = [Sge { addr: 1, len: 2, lkey: 3 }];
        let list: Vec<_> = (0..2).map(|id| RecvWr { id, sges: &sges }).collect();
        // SAFETY: the fake device does not touch memory.
        unsafe { qp.post_recv(&list) }.expect("room for two");
        let srq = qp.pd().create_srq(8, 1).expect("a queue");
        // SAFETY: as above.
        let error = unsafe { srq.post_recv(&list) }.expect_err("room for one more");
        assert_eq!(error.index, 1);
        assert_eq!((fake.took("post_recv"), fake.took("post_srq_recv")), (1, 1));
    }

    #[test]
    fn a_driver_that_points_elsewhere_has_posted_none() {
        let mut elsewhere = RecvWr { id: 0, sges: &[] }.to_raw().expect("always");
        let wrs = [RecvWr { id: 1, sges: &[] }; 3];
        let error = post(
            &wrs,
            |wr| wr.to_raw(),
            |_, bad| {
                // SAFETY: `bad` receives a pointer.
                unsafe { *bad = &raw mut elsewhere };
                -libc::EINVAL
            },
        );
        assert_eq!(error.expect_err("refused").index, 0);
    }
}
