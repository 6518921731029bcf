//! Messages of the communication manager (CM; IBTA vol. 1, chapter 12), which connect the queue
//! pairs of RNICs and of the kernel's Soft-RoCE. Each is a management datagram (MAD) of 256 bytes
//! to queue pair 1.
//!
//! The private data of a request begins with the addresses and ports of the RDMA IP CM service
//! (annex A11).

mod bytes;
mod ip;
mod lookup;
mod mad;
mod reject;
mod request;

pub use ip::IpCmHeader;
pub use lookup::{CmLookup, CmLookupAnswer, CmLookupStatus};
pub use mad::{CmAck, CmBody, CmDisconnect, CmMad, CmPrivate, CmReply, MAD_LEN};
pub use reject::{CmReject, CmRejectReason, CmRejected};
pub use request::{CmCounts, CmPath, CmQueuePair, CmRequest, CmTimeouts};
