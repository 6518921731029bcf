//! Address handles.

use std::ffi::c_int;
use std::sync::Arc;

use braid_verbs::abi::{ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_pd, ibv_wc};
use braid_wire::{NETWORK_HEADER_LEN, network_header_ends};

use crate::context::Context;
use crate::domain::{Domain, Pd};
use crate::errno::{self, Errno};
use crate::gid;

/// An address handle, as programs hold it.
#[repr(C)]
pub(crate) struct Ah {
    base: ibv_ah,
    /// The source of datagrams.
    pub(crate) source: ibv_gid,
    pub(crate) gid: ibv_gid,
    pub(crate) traffic_class: u8,
}

impl Ah {
    /// Whether the handle was made in that domain. A queue pair does not accept handles of other
    /// domains (IBTA vol. 1, 10.2.3).
    ///
    /// # Safety
    /// The domain of the handle exists.
    pub(crate) unsafe fn is_of(&self, domain: &Arc<Domain>) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { Pd::of(self.base.pd) }.is_ok_and(|pd| Arc::ptr_eq(&pd.shared, domain))
    }
}

/// Creates an address handle. NULL with `EINVAL`: the attributes have no GRH, which RoCE needs, or
/// name another port. Or the GID is no address of a host. Or the device's own GID does not lead
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let (domain, attr) = unsafe { (Pd::of(pd)?, attr.as_ref().ok_or(Errno::INVALID)?) };
        if attr.is_global == 0 || attr.port_num != 1 {
            return Err(Errno::INVALID);
        }
        let source = domain.shared.running.gids.source(&attr.grh)?;
        domain.shared.enter();
        let base = ibv_ah { context: domain.base.context, pd, handle: 0 };
        let (gid, traffic_class) = (attr.grh.dgid, attr.grh.traffic_class);
        Ok(Box::into_raw(Box::new(Ah { base, source, gid, traffic_class })).cast())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    errno::code(|| {
        if ah.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise `ibv_create_ah` has made the handle, and the domain
        // outlives it.
        unsafe {
            let handle = Box::from_raw(ah.cast::<Ah>());
            Pd::of(handle.base.pd)?.shared.leave();
        }
        Ok(())
    })
}

/// Fills in the attributes that lead back to the sender of a datagram. `grh` points to the first 40
/// bytes of the received buffer. `EINVAL`: the datagram was not sent to a GID of the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    _wc: *mut ibv_wc,
    grh: *mut u8,
    attr: *mut ibv_ah_attr,
) -> c_int {
    errno::number(|| {
        if port != 1 || grh.is_null() || attr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: by the caller's promise.
        unsafe {
            let header = grh.cast::<[u8; NETWORK_HEADER_LEN]>().read_unaligned();
            let (from, to) = network_header_ends(&header).ok_or(Errno::INVALID)?;
            let gids = &Context::of(context)?.open.device.gids;
            let ours = gids.index_of(&gid::of(to)).ok_or(Errno::INVALID)?;
            attr.write(attributes_to(gid::of(from), ours));
        }
        Ok(0)
    })
}

/// The attributes that lead from the GID of that index to another GID.
pub(crate) fn attributes_to(to: ibv_gid, sgid_index: usize) -> ibv_ah_attr {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attributes_to: ibv_ah_attr = unsafe { std::mem::zeroed() };
    (attributes_to.grh.dgid, attributes_to.grh.sgid_index, attributes_to.grh.hop_limit) =
        (to, sgid_index as u8, u8::MAX);
    (attributes_to.is_global, attributes_to.port_num) = (1, 1);
    attributes_to
}

/// Combines [`ibv_init_ah_from_wc`] and [`ibv_create_ah`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut u8,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
    // SAFETY: by the caller's promise.
    unsafe {
        let context = pd.as_ref().map_or(std::ptr::null_mut(), |pd| pd.context);
        match ibv_init_ah_from_wc(context, port, wc, grh, &raw mut attr) {
            0 => ibv_create_ah(pd, &raw mut attr),
            _ => std::ptr::null_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::device::by_address;
    use crate::grh::{self, GRH_DESTINATION, GRH_LEN};
    use crate::op_table::{ibv_close_device, ibv_open_device};

    #[test]
    fn attributes_from_a_completion_lead_to_the_source() {
        let device = by_address([127, 0, 0, 1].into()).expect("the loopback");
        // SAFETY: devices exist for ever.
        let context = unsafe { ibv_open_device(ptr::from_ref(device).cast_mut().cast()) };
        // SAFETY: both members of the union are plain bytes.
        let own = unsafe { device.gids.get(0).expect("it has one").raw };
        let mut grh = grh::encode(&[1; 16], &own, 300);
        assert_eq!((grh[0] >> 4, &grh[4..6]), (6, &[1, 44][..]));
        // SAFETY: the structure consists of numbers, so zero is valid.
        let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
        let mut way_back = |grh: &mut [u8; GRH_LEN]| {
            let wc = ptr::null_mut();
            // SAFETY: all pointers lead to values of their types.
            unsafe { ibv_init_ah_from_wc(context, 1, wc, grh.as_mut_ptr(), &raw mut attr) }
        };
        let done = way_back(&mut grh);
        grh[GRH_DESTINATION] ^= 1;
        assert_eq!(way_back(&mut grh), -1, "it is somebody else's");
        // SAFETY: the context is open.
        assert_eq!(unsafe { ibv_close_device(context) }, 0);
        // SAFETY: both members of the union are plain bytes.
        assert_eq!((done, attr.is_global, unsafe { attr.grh.dgid.raw }), (0, 1, [1; 16]));
    }
}
