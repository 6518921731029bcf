//! The calls in their newest form, which all versions share.

mod communicators;
pub(super) mod int_sizes;
pub(super) mod profiled;
mod requests;
pub(super) mod unprofiled;

pub(super) use communicators::{
    accept, accept_v6, close, close_listen, connect, connect_v6, connect_v7, connect_v10, devices,
    finalize, init, init_v6, init_v10, listen, listen_v6,
};
pub(super) use requests::{Received, Sent, dereg_mr, iflush, irecv, isend, reg_mr, test};
