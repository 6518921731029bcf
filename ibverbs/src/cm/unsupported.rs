//! What there is not: endpoints and the other synchronous forms, multicast, moving identifiers between channels, queue pairs that programs
//! connect by themselves, enhanced connection establishment (ECE).

use std::ffi::c_int;

use braid_verbs::abi::ibv_context;

use super::structs::rdma_cm_id;
use crate::errno::{self, Errno};

/// Functions that return -1 with `EOPNOTSUPP`. All of them take pointers and numbers, none of which is looked at.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_id: *mut rdma_cm_id) -> c_int {
            errno::number(|| Err(Errno::UNSUPPORTED))
        })*
    };
}

unsupported! {
    rdma_create_ep rdma_create_qp_ex rdma_create_srq rdma_create_srq_ex rdma_establish rdma_get_request rdma_init_qp_attr
    rdma_get_remote_ece rdma_join_multicast rdma_join_multicast_ex rdma_leave_multicast rdma_migrate_id rdma_notify rdma_reject_ece
    rdma_set_local_ece
}

/// Nothing was ever made that these would destroy.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_ep(_id: *mut rdma_cm_id) {}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_srq(_id: *mut rdma_cm_id) {}

/// NULL with `EOPNOTSUPP`.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_devices(_count: *mut c_int) -> *mut *mut ibv_context {
    errno::pointer(|| Err(Errno::UNSUPPORTED))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_free_devices(_list: *mut *mut ibv_context) {}

/// The socket interface over RDMA: -1 with `EOPNOTSUPP`, from `rsocket` on. None of what these take is looked at.
macro_rules! no_sockets {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_socket: c_int) -> isize {
            errno::number(|| Err(Errno::UNSUPPORTED)) as isize
        })*
    };
}

no_sockets! {
    raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap riounmap riowrite rlisten rpoll rread
    rreadv rrecv rrecvfrom rrecvmsg rselect rsend rsendmsg rsendto rsetsockopt rshutdown rsocket rwrite rwritev
}
