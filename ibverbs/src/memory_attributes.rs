//! Registering memory that is described by attributes (rdma-core 59).

use std::ffi::{c_int, c_uint, c_void};

use braid_verbs::abi::{ibv_mr, ibv_pd};

use crate::errno::{self, Errno};
use crate::memory::register;

/// `struct ibv_mr_init_attr`, as far as the library reads it.
#[repr(C)]
pub struct ibv_mr_init_attr {
    length: usize,
    access: c_int,
    comp_mask: u64,
    iova: u64,
    addr: *mut c_void,
}

/// Values of `enum ibv_mr_init_attr_mask`.
const IOVA: u64 = 1 << 0;
const ADDR: u64 = 1 << 1;

/// Registers memory. `errno` is as for [`ibv_reg_mr_iova2`](crate::ibv_reg_mr_iova2), with
/// `EOPNOTSUPP` also for DMA-BUF and DMA handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    errno::pointer(|| {
        // SAFETY: by the caller's promise.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::INVALID)?;
        if attr.comp_mask & !(IOVA | ADDR) != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask & ADDR == 0 {
            return Err(Errno::INVALID);
        }
        let has_iova = attr.comp_mask & IOVA != 0;
        let iova = has_iova.then_some(attr.iova);
        register(pd, attr.addr, attr.length, iova, attr.access as c_uint)
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::device::by_address;
    use crate::memory::{ibv_alloc_pd, ibv_dealloc_pd, ibv_dereg_mr};
    use crate::op_table::{ibv_close_device, ibv_open_device};

    #[test]
    fn memory_is_registered_by_its_address() {
        let device = by_address([127, 0, 0, 1].into()).expect("the loopback");
        let mut memory = [0u8; 64];
        let mut attr = ibv_mr_init_attr {
            length: memory.len(),
            access: 1,
            comp_mask: ADDR,
            iova: 1,
            addr: memory.as_mut_ptr().cast(),
        };
        // SAFETY: the calls follow the man pages, with the results of earlier calls.
        unsafe {
            let context = ibv_open_device(ptr::from_ref(device).cast_mut().cast());
            let pd = ibv_alloc_pd(context);
            for mask in [ADDR, ADDR | IOVA] {
                attr.comp_mask = mask;
                let mr = ibv_reg_mr_ex(pd, &raw mut attr);
                assert_eq!(((*mr).addr, (*mr).length), (attr.addr, memory.len()));
                assert_eq!(ibv_dereg_mr(mr), 0);
            }
            for (mask, errno) in [(ADDR | 4, libc::EOPNOTSUPP), (0, libc::EINVAL)] {
                attr.comp_mask = mask;
                assert!(ibv_reg_mr_ex(pd, &raw mut attr).is_null());
                assert_eq!(Errno::last(), Errno(errno), "{mask}");
            }
            assert_eq!((ibv_dealloc_pd(pd), ibv_close_device(context)), (0, 0));
        }
    }
}
