//! The calls by their newest form, which the versions share.

mod communicators;
mod requests;

pub(super) use communicators::{
    accept, close, close_listen, connect, connect_process, devices, finalize, init_context,
    init_process, listen, listen_process,
};
pub(super) use requests::{Received, Sent, dereg_mr, iflush, irecv, isend, reg_mr, test};
