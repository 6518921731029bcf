//! Plain RoCEv2, the reliable connected (RC) service: headers, and the invariant CRC (ICRC).
//!
//! The formats are those of IBTA vol. 1, chapter 9, in UDP datagrams as annex A17 says. Their
//! opcodes are below 0x18, where Braid's own packets have none.

mod aeth;
mod header;
mod icrc;
mod opcode;

pub use aeth::{Aeth, RcNak, Syndrome, rnr_code, rnr_delay};
pub use header::{MAX_RC_HEADER_LEN, RcHeader, RcPacket};
pub use icrc::{ICRC_LEN, IcrcEnds};
pub use opcode::{RcOpcode, RcOperation, RcPosition};
