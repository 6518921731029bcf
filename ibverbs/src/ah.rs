//! Address handles.

use std::ffi::c_int;

use braid_verbs::abi::{ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_pd, ibv_wc};

use crate::errno::{self, Errno};
use crate::gid;
use crate::memory::Pd;

/// An address handle as programs hold it.
#[repr(C)]
pub(crate) struct Ah {
    base: ibv_ah,
}

/// Where in a GRH the source's GID stands (IBTA vol. 1, 8.3).
const GRH_SOURCE: usize = 8;

/// `EINVAL`: it has no GRH, as RoCE needs, or names another port, or a GID that is no host's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let (domain, attr) = unsafe { (Pd::of(pd)?, attr.as_ref().ok_or(Errno::INVALID)?) };
        let is_known = attr.is_global != 0 && attr.port_num == 1 && attr.grh.sgid_index == 0;
        if !is_known || gid::address(&attr.grh.dgid).is_none() {
            return Err(Errno::INVALID);
        }
        domain.shared.enter();
        let base = ibv_ah { context: domain.base.context, pd, handle: 0 };
        Ok(Box::into_raw(Box::new(Ah { base })).cast())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    errno::code(|| {
        if ah.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise it was made by `ibv_create_ah`, and its domain outlives it.
        unsafe {
            let handle = Box::from_raw(ah.cast::<Ah>());
            Pd::of(handle.base.pd)?.shared.leave();
        }
        Ok(())
    })
}

/// The way back to who has sent what a completion is about: `grh` are the first 40 bytes of its buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    _context: *mut ibv_context,
    port: u8,
    _wc: *mut ibv_wc,
    grh: *mut u8,
    attr: *mut ibv_ah_attr,
) -> c_int {
    errno::number(|| {
        if port != 1 || grh.is_null() || attr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise; the attributes consist of numbers.
        unsafe {
            let source: ibv_gid = grh.add(GRH_SOURCE).cast::<ibv_gid>().read_unaligned();
            attr.write(std::mem::zeroed());
            (*attr).grh.dgid = source;
            (*attr).grh.hop_limit = u8::MAX;
            ((*attr).is_global, (*attr).port_num) = (1, port);
        }
        Ok(0)
    })
}

/// [`ibv_init_ah_from_wc`] and [`ibv_create_ah`] in one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut u8,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: it consists of numbers.
    let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
    // SAFETY: by the caller's promise.
    unsafe {
        match ibv_init_ah_from_wc(std::ptr::null_mut(), port, wc, grh, &raw mut attr) {
            0 => ibv_create_ah(pd, &raw mut attr),
            _ => std::ptr::null_mut(),
        }
    }
}
