//! Connection set-up, both sides, sans-IO: each packet goes in with the time and its source;
//! packets to send, events and deadlines come out. The driver has the sockets, the clock and the
//! secrets.
//!
//! HELLO asks for a cookie; CONNECT shows it with an offer; ACCEPT answers with the other offer.
//! HELLO and COOKIE are as long as the longest datagram that the path has to carry, so nothing is
//! connected over one that does not (as QUIC's first packets, RFC 9000, section 14). The responder
//! keeps no state before a cookie has proved that the initiator receives at its address (as SYN
//! cookies, RFC 4987, and DTLS, RFC 9147, section 5.1, do).

mod addresses;
mod error;
mod cookie;
mod backlog;
mod guesses;
mod attempts;
mod accepted;
mod initiator;
mod initiators;
mod responder;

pub use accepted::Accepted;
pub use addresses::{AddrPair, AttemptId, LocalAddr};
pub use backlog::{Backlog, Request};
pub use cookie::CookieJar;
pub use error::ConnectError;
pub use guesses::Guesses;
pub use initiator::Initiator;
pub use initiators::{Attempt, Initiators, Step, Use, decline};
pub use responder::{Reply, Responder};
