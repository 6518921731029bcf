//! Port spaces: what the queue pairs of an identifier are for.

use std::ffi::{c_int, c_uint};

use braid_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};

use crate::errno::Errno;

/// Of `enum rdma_port_space`. All of them have the same ports, those of UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum PortSpace {
    Tcp = 0x0106,
    Udp = 0x0111,
    Ib = 0x013F,
}

impl PortSpace {
    /// # Errors
    /// `EOPNOTSUPP`: any other, such as `RDMA_PS_IPOIB`.
    pub(super) fn of(number: c_int) -> Result<Self, Errno> {
        let known = [PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];
        known.into_iter().find(|space| *space as c_int == number).ok_or(Errno::UNSUPPORTED)
    }

    pub(super) fn qp_type(self) -> c_uint {
        match self {
            PortSpace::Udp => IBV_QPT_UD,
            PortSpace::Tcp | PortSpace::Ib => IBV_QPT_RC,
        }
    }
}
