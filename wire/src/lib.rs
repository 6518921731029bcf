//! The wire format of Braid: packet headers and the plain values that they carry.
//!
//! The crate does no I/O, reads no clock and keeps no state. `docs/wire.md` specifies every format
//! byte by byte.
//!
//! Packets use RoCEv2 framing (IBTA Annex A17): a UDP datagram starts with the 12-byte Base
//! Transport Header (BTH). Braid's own packets use the opcodes that IBTA reserves for manufacturers
//! (0xC0-0xFF). The packets of plain RoCEv2 are [`RcPacket`]s.
#![forbid(unsafe_code)]

mod ack;
mod affine;
mod bth;
mod check;
mod cm;
mod control;
mod credit;
mod data;
mod error;
mod ids;
mod marks;
mod nic;
mod opcode;
mod packet;
mod part;
mod probe;
mod psn;
mod roce;
mod routing;
mod run;
mod sealed;
mod setup;
mod template;
mod time;

pub use ack::{Ack, Bitmap, MAX_ACK_LEN, MAX_BITMAP_WORDS, NakCode, Stream};
pub use bth::VERSION;
pub use check::{Crc, payload_crc};
pub use cm::{
    CmAck, CmBody, CmCounts, CmDisconnect, CmLookup, CmLookupAnswer, CmLookupStatus, CmMad, CmPath,
    CmPrivate, CmQueuePair, CmReject, CmRejectReason, CmRejected, CmReply, CmRequest, CmTimeouts,
    IpCmHeader, MAD_LEN,
};
pub use control::{CONTROL_LEN, Control, ControlKind, FinalAck};
pub use credit::{CREDIT_LEN, Credit, CreditNeed};
pub use data::{AtomicOperands, DATA_HEADER_LEN, DataHeader, MAX_DATA_HEADER_LEN};
pub use error::DecodeError;
pub use ids::{MAX_PATHS, MAX_RAILS, PathId, QpId, RailId, SOURCE_PORT_BASE, Token};
pub use marks::{MAX_MARKED_PATHS, Marks, PathMarks};
pub use nic::{
    FRAME_LEN, Frame, FrameKind, MAX_HEADERS, NOTE_LEN, NicAddress, Note, NoteBody, Service,
    max_nic_qps,
};
pub use opcode::Opcode;
pub use packet::Packet;
pub use part::{PART_HEADER_LEN, PART_LEN, Part};
pub use probe::{PROBE_LEN, Probe, ProbeKind};
pub use psn::{PSN_BITS, Psn};
pub use roce::{
    Aeth, ICRC_LEN, IcrcEnds, MAX_RC_HEADER_LEN, NETWORK_HEADER_LEN, RcHeader, RcNak, RcOpcode,
    RcOperation, RcPacket, RcPosition, Syndrome, UdHeader, UdPacket, network_header_ends, rnr_code,
    rnr_delay,
};
pub use routing::{FurtherRail, MAX_ROUTING_LEN, Routing};
pub use run::{DataRun, RunSegment};
pub use sealed::{SEAL_LEN, SEALED_HEADER_LEN, SEALED_PART_LEN, SealedHeader};
pub use setup::{
    BASE_DATAGRAM, Connect, HELLO_LEN, Hello, MAX_PRIVATE_DATA, MAX_SETUP_LEN, Offer, Reject,
    RejectReason, SealedOffer, Setup,
};
pub use template::HeaderTemplate;
pub use time::Time;

/// The default UDP port of a Braid engine: the port of RoCEv2 (IBTA Annex A17).
pub const DEFAULT_PORT: u16 = 4791;
