//! The calls in their newest form, which all versions share.

mod communicators;
pub(super) mod int_sizes;
pub(super) mod profiled;
mod requests;

pub(super) use communicators::{
    accept, close, close_listen, connect, connect_process, devices, finalize, init_comm,
    init_process, listen, listen_process,
};
pub(super) use requests::{Received, Sent, dereg_mr, iflush, irecv, isend, reg_mr, test};
