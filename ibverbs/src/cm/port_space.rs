//! Port spaces, which decide the purpose of queue pairs.

use std::ffi::{c_int, c_uint};

use braid_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};

use crate::errno::Errno;

/// Values of `enum rdma_port_space`. All port spaces share the ports of UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum PortSpace {
    Tcp = 0x0106,
    Udp = 0x0111,
    Ib = 0x013F,
}

impl PortSpace {
    /// The port space of a number.
    ///
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
