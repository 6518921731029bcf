//! The formats that only connections over an RNIC use: addresses, message headers and notes.
//!
//! On each rail, a connection has one NIC queue pair per path and a safe one, which never carries
//! direct placement. A message on a NIC queue pair is a [`Frame`], followed by one packet or by the
//! headers of segments. The payloads of such segments follow as RDMA WRITE_WITH_IMM on the same NIC
//! queue pair.

mod address;
mod frame;
mod note;

pub use address::{NicAddress, Service, max_nic_qps};
pub use frame::{FRAME_LEN, Frame, FrameKind, MAX_HEADERS};
pub use note::{NOTE_LEN, Note, NoteBody};
