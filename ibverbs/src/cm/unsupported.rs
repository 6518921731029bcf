//! Unsupported calls: multicast, XRC, enhanced connection establishment (ECE).

use std::ffi::c_int;

use super::structs::rdma_cm_id;
use crate::errno::{self, Errno};

/// Defines functions that return -1 with `EOPNOTSUPP`. The arguments are pointers and numbers, and
/// are ignored.
macro_rules! unsupported {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_id: *mut rdma_cm_id) -> c_int {
            errno::number(|| Err(Errno::UNSUPPORTED))
        })*
    };
}

unsupported! {
    rdma_create_srq_ex rdma_get_remote_ece rdma_join_multicast rdma_join_multicast_ex
    rdma_leave_multicast rdma_notify rdma_query_addrinfo rdma_reject_ece rdma_resolve_addrinfo
    rdma_set_local_ece rdma_write_cm_event
}

/// Defines the socket interface over RDMA, from `rsocket` on: -1 with `EOPNOTSUPP`. The arguments
/// are ignored.
macro_rules! no_sockets {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_socket: c_int) -> isize {
            errno::number(|| Err(Errno::UNSUPPORTED)) as isize
        })*
    };
}

no_sockets! {
    raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap riounmap
    riowrite rlisten rpoll rread rreadv rrecv rrecvfrom rrecvmsg rselect rsend rsendmsg rsendto
    rsetsockopt rshutdown rsocket rwrite rwritev repoll_create repoll_ctl repoll_wait
}
