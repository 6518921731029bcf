//! The extended form of completion queues, `ibv_cq_ex`: programs read one completion at a time
//! through functions.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use braid_verbs::abi::{ibv_context, ibv_cq, ibv_cq_init_attr_ex};

use crate::cq;
use crate::cq::extension::CqExtension;
use crate::cq::handle::Cq;
use crate::errno::{self, Errno};
use crate::poll;

/// The supported fields: byte length, immediate data, queue pair numbers, SLID, SL, path bits.
const KNOWN_FIELDS: u64 = 0x7F;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`, and the only accepted flag: `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`.
const MASK_FLAGS: u32 = 1;
const SINGLE_THREADED: u32 = 1;

const FUNCTIONS: [*const (); 18] = [
    start_poll as *const (),
    next_poll as *const (),
    end_poll as *const (),
    read_opcode as *const (),
    read_vendor_err as *const (),
    read_byte_len as *const (),
    read_imm_data as *const (),
    read_qp_num as *const (),
    read_src_qp as *const (),
    read_wc_flags as *const (),
    read_slid as *const (),
    read_sl as *const (),
    read_dlid_path_bits as *const (),
    // Time stamps, VLANs, flow tags and tag matching are refused when a queue is created.
    ptr::null(),
    ptr::null(),
    ptr::null(),
    ptr::null(),
    ptr::null(),
];

/// `verbs_context.create_cq_ex`. `EOPNOTSUPP`: unsupported fields or flags, or a parent domain.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        let flags = if attr.comp_mask & MASK_FLAGS != 0 { attr.flags } else { 0 };
        if attr.wc_flags & !KNOWN_FIELDS != 0
            || attr.comp_mask & !MASK_FLAGS != 0
            || flags & !SINGLE_THREADED != 0
        {
            return Err(Errno::UNSUPPORTED);
        }
        let cqe = c_int::try_from(attr.cqe).map_err(|_| Errno::INVALID)?;
        let vector = c_int::try_from(attr.comp_vector).map_err(|_| Errno::INVALID)?;
        // SAFETY: as above.
        let cq = unsafe { cq::create(context, cqe, attr.cq_context, attr.channel, vector) }?;
        // SAFETY: the queue has just been made.
        unsafe { (*cq).extension.functions = FUNCTIONS };
        Ok(cq.cast())
    })
}

/// Begins to read completions. 0: other threads wait until [`end_poll`]. `ENOENT`: no completion is
/// there, and no `end_poll` follows.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq, _attr: *mut c_void) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe {
        (*Cq::of(cq)).extension.gate.take();
        let code = next_poll(cq);
        if code != 0 {
            end_poll(cq);
        }
        code
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq) -> c_int {
    // SAFETY: by the caller's promise this thread has called `start_poll`, which admits one thread,
    // so no other thread uses these fields.
    let CqExtension { status, wr_id, current, .. } = unsafe { &mut (*Cq::of(cq)).extension };
    // SAFETY: `current` has room for one completion.
    match unsafe { poll::poll_cq(cq, 1, current) } {
        1 => {
            (*status, *wr_id) = (current.status, current.wr_id);
            0
        }
        0 => libc::ENOENT,
        _ => libc::EIO,
    }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq) {
    // SAFETY: by the caller's promise.
    unsafe { &(*Cq::of(cq)).extension.gate }.give_back();
}

/// Defines functions that read a field of the current completion.
macro_rules! readers {
    ($($name:ident: $field:ident as $type:ty;)*) => {
        $(unsafe extern "C" fn $name(cq: *mut ibv_cq) -> $type {
            // SAFETY: by the caller's promise.
            <$type>::from(unsafe { (*Cq::of(cq)).extension.current.$field })
        })*
    };
}

readers! {
    read_opcode: opcode as c_uint;
    read_vendor_err: vendor_err as u32;
    read_byte_len: byte_len as u32;
    read_imm_data: imm_data as u32;
    read_qp_num: qp_num as u32;
    read_src_qp: src_qp as u32;
    read_wc_flags: wc_flags as c_uint;
    read_slid: slid as u32;
    read_sl: sl as u8;
    read_dlid_path_bits: dlid_path_bits as u8;
}
