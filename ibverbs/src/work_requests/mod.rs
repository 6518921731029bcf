//! The extended form of queue pairs, `ibv_qp_ex`: programs describe sends by `ibv_wr_send` and
//! similar calls, and post them by `ibv_wr_complete`.

mod batch;
pub(crate) mod extension;

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;

use braid_verbs::Sge;
use braid_verbs::abi::{
    Atomic, IBV_QPT_UD, IBV_SEND_INLINE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, Rdma, Ud, ibv_ah, ibv_context, ibv_qp, ibv_qp_ex,
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_send_wr,
};

use self::batch::Batch;
use self::extension::QpExtension;
use crate::errno::{self, Errno};
use crate::post;
use crate::qp::create::create;
use crate::qp::handle::Qp;
use crate::requests::{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ};

/// Values of `enum ibv_qp_init_attr_mask`.
pub(crate) const MASK_PD: u32 = 1 << 0;
const MASK_CREATE_FLAGS: u32 = 1 << 2;
const MASK_SEND_OPS: u32 = 1 << 6;
/// Values of `enum ibv_qp_create_send_ops_flags`: WRITEs, SENDs, READs and atomics, and the subset
/// for UD.
const KNOWN_OPS: u64 = 0x7F;
const DATAGRAM_OPS: u64 = 0xC;

const FUNCTIONS: [*const (); 21] = [
    wr_atomic_cmp_swp as *const (),
    wr_atomic_fetch_add as *const (),
    wr_unsupported as *const (), // wr_bind_mw
    wr_unsupported as *const (), // wr_local_inv
    wr_rdma_read as *const (),
    wr_rdma_write as *const (),
    wr_rdma_write_imm as *const (),
    wr_send as *const (),
    wr_send_imm as *const (),
    wr_unsupported as *const (), // wr_send_inv
    wr_unsupported as *const (), // wr_send_tso
    wr_set_ud_addr as *const (),
    wr_unsupported as *const (), // wr_set_xrc_srqn
    wr_set_inline_data as *const (),
    wr_set_inline_data_list as *const (),
    wr_set_sge as *const (),
    wr_set_sge_list as *const (),
    wr_start as *const (),
    wr_complete as *const (),
    wr_abort as *const (),
    wr_unsupported as *const (), // wr_atomic_write
];

/// `verbs_context.create_qp_ex`. `EOPNOTSUPP`: unsupported operations, flags or attributes.
pub(crate) unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let given = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        let has = |bit| given.comp_mask & bit != 0;
        if !has(MASK_PD) {
            return Err(Errno::INVALID);
        }
        let known = if given.qp_type == IBV_QPT_UD { DATAGRAM_OPS } else { KNOWN_OPS };
        if given.comp_mask & !(MASK_PD | MASK_CREATE_FLAGS | MASK_SEND_OPS) != 0
            || has(MASK_CREATE_FLAGS) && given.create_flags != 0
            || has(MASK_SEND_OPS) && given.send_ops_flags & !known != 0
        {
            return Err(Errno::UNSUPPORTED);
        }
        let functions = if has(MASK_SEND_OPS) { FUNCTIONS } else { [ptr::null(); 21] };
        // The structure begins with the fields of the plain attributes, in their order.
        let plain = attr.cast::<ibv_qp_init_attr>();
        // SAFETY: as above.
        unsafe { create(given.pd, plain, QpExtension::new(functions)) }
    })
}

/// Returns the extended form of a queue pair. NULL: the queue pair was created without extended
/// operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let functions = unsafe { Qp::of(qp).as_ref() }.map(|qp| &qp.extension.functions);
        match functions {
            Some(functions) if !functions[0].is_null() => Ok(qp.cast()),
            Some(_) => Err(Errno::UNSUPPORTED),
            None => Err(Errno::INVALID),
        }
    })
}

/// The batch of the thread that has begun one.
unsafe fn batch<'a>(qp: *mut ibv_qp) -> &'a mut Batch {
    // SAFETY: by the caller's promise the queue pair exists and this thread has called `wr_start`,
    // which admits one thread.
    unsafe { &mut (*Qp::of(qp)).extension.batch }
}

/// Begins a work request with the identifier and flags that the program has written into the queue
/// pair.
unsafe fn begin(qp: *mut ibv_qp, opcode: u32, describe: impl FnOnce(&mut ibv_send_wr)) {
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut wr: ibv_send_wr = unsafe { mem::zeroed() };
    // SAFETY: by the caller's promise.
    let (id, flags) = unsafe { ((*Qp::of(qp)).extension.wr_id, (*Qp::of(qp)).extension.wr_flags) };
    // The call that gives the data decides whether the send is inline.
    (wr.wr_id, wr.opcode, wr.send_flags) = (id, opcode, flags & !IBV_SEND_INLINE);
    describe(&mut wr);
    // SAFETY: as above.
    unsafe { batch(qp) }.push(wr);
}

fn rdma(remote_addr: u64, rkey: u32) -> impl FnOnce(&mut ibv_send_wr) {
    move |wr| wr.wr.rdma = Rdma { remote_addr, rkey }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp) {
    // SAFETY: by the caller's promise.
    unsafe {
        (*Qp::of(qp)).extension.gate.take();
        batch(qp).begin();
    }
}

/// Posts the batch. Returns 0, or an errno value if no send was posted: `ENOMEM` if the queue has
/// not enough room, `EOPNOTSUPP`, `EINVAL`.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp) -> c_int {
    // SAFETY: by the caller's promise.
    let code = errno::code(|| unsafe { post_batch(qp) });
    // SAFETY: as above.
    unsafe { (*Qp::of(qp)).extension.gate.give_back() };
    code
}

/// Posts the described sends: all of them or, where a failure is known before, none. A datagram may
/// be refused when those before it have left.
///
/// # Safety
/// The caller's promise, for the queue pair and the memory of all sends.
unsafe fn post_batch(qp: *mut ibv_qp) -> Result<(), Errno> {
    // SAFETY: by the caller's promise.
    let (batch, queue_pair) = unsafe { (batch(qp), &(*Qp::of(qp)).shared) };
    let head = batch.link()?;
    if batch.len() > queue_pair.places.free() as usize {
        return Err(Errno::NO_MEMORY);
    }
    for wr in batch.latest_first() {
        // SAFETY: as above.
        unsafe { post::check(queue_pair, wr) }?;
    }
    let mut bad = ptr::null_mut();
    // SAFETY: the list consists of the batch's work requests, which nobody changes meanwhile.
    match unsafe { post::post_send(qp, head, &raw mut bad) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp) {
    // SAFETY: by the caller's promise.
    unsafe { (*Qp::of(qp)).extension.gate.give_back() };
}

/// Refuses an unsupported operation. Each of these calls has more arguments, which are ignored.
unsafe extern "C" fn wr_unsupported(qp: *mut ibv_qp) {
    // SAFETY: by the caller's promise.
    unsafe { batch(qp) }.fail(Errno::UNSUPPORTED);
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp) {
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_SEND, |_| ()) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp, imm_data: u32) {
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_SEND_WITH_IMM, |wr| wr.imm_data = imm_data) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp, rkey: u32, remote_addr: u64) {
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_RDMA_WRITE, rdma(remote_addr, rkey)) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp, rkey: u32, remote_addr: u64, imm: u32) {
    // SAFETY: by the caller's promise.
    unsafe {
        begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rdma(remote_addr, rkey));
        batch(qp).change(|wr| wr.imm_data = imm);
    }
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp, rkey: u32, remote_addr: u64) {
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_RDMA_READ, rdma(remote_addr, rkey)) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut ibv_qp,
    rkey: u32,
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
) {
    let atomic = Atomic { remote_addr, compare_add, swap, rkey };
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, |wr| wr.wr.atomic = atomic) };
}

unsafe extern "C" fn wr_atomic_fetch_add(
    qp: *mut ibv_qp,
    rkey: u32,
    remote_addr: u64,
    compare_add: u64,
) {
    let atomic = Atomic { remote_addr, compare_add, swap: 0, rkey };
    // SAFETY: by the caller's promise.
    unsafe { begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, |wr| wr.wr.atomic = atomic) };
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp, ah: *mut ibv_ah, number: u32, key: u32) {
    let ud = Ud { ah, remote_qpn: number, remote_qkey: key };
    // SAFETY: by the caller's promise.
    unsafe { batch(qp) }.change(|wr| wr.wr.ud = ud);
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp, lkey: u32, addr: u64, len: u32) {
    // SAFETY: by the caller's promise.
    unsafe { batch(qp) }.set_pieces([Sge { addr, len, lkey }]);
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp, count: usize, list: *const Sge) {
    // SAFETY: by the caller's promise.
    let batch = unsafe { batch(qp) };
    match (count, list.is_null()) {
        (0, _) => batch.set_pieces([]),
        (_, true) => batch.fail(Errno::INVALID),
        (_, false) => {
            // SAFETY: as above. The list may be at any address.
            let piece = |index| unsafe { list.add(index).read_unaligned() };
            batch.set_pieces((0..count).map(piece));
        }
    }
}

/// `struct ibv_data_buf`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DataBuf {
    addr: *const c_void,
    length: usize,
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp, addr: *const c_void, length: usize) {
    let one = DataBuf { addr, length };
    // SAFETY: by the caller's promise.
    unsafe { wr_set_inline_data_list(qp, 1, &raw const one) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp, count: usize, list: *const DataBuf) {
    // SAFETY: by the caller's promise.
    let (batch, shared) = unsafe { (batch(qp), &(*Qp::of(qp)).shared) };
    let limit = shared.queues.limits.inline as usize;
    if list.is_null() && count > 0 {
        return batch.fail(Errno::INVALID);
    }
    for place in 0..count {
        // SAFETY: as above.
        unsafe {
            let DataBuf { addr, length } = *list.add(place);
            batch.append_inline(addr.cast(), length, limit);
        }
    }
}
