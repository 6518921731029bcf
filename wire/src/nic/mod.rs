//! What is said over an RNIC beside the packets: how a connection is reached, what stands before each
//! message, and the notes that the two ends of a connection exchange.
//!
//! On each of its rails a connection has a NIC queue pair for each path, and a last one, the safe one, on which nothing is ever
//! placed directly. A message of a NIC queue pair is a [`Frame`] and then one packet, or the headers of segments whose payloads
//! follow as RDMA WRITE_WITH_IMM of the same NIC queue pair.

mod address;
mod frame;
mod note;

pub use address::{NicAddress, Service, max_nic_qps};
pub use frame::{FRAME_LEN, Frame, FrameKind, MAX_HEADERS};
pub use note::{NOTE_LEN, Note, NoteBody};
