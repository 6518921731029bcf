//! Plain RoCEv2: headers of the reliable connected (RC) and of the unreliable datagram (UD)
//! service, and the invariant CRC (ICRC).
//!
//! The formats are those of IBTA vol. 1, chapter 9, in UDP datagrams as annex A17 says. The opcodes
//! of RC are below 0x18, those of UD 0x64 and 0x65, and that of a congestion notification is 0x81.
//! Braid's own packets have none of these.

mod aeth;
mod header;
mod icrc;
mod network_header;
mod opcode;
mod ud;

pub use aeth::{Aeth, RcNak, Syndrome, rnr_code, rnr_delay};
pub use header::{MAX_RC_HEADER_LEN, RcHeader, RcPacket};
pub use icrc::{ICRC_LEN, IcrcEnds};
pub use network_header::{NETWORK_HEADER_LEN, network_header_ends};
pub use opcode::{RcOpcode, RcOperation, RcPosition};
pub use ud::{UdHeader, UdPacket};
