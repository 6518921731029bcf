//! Connection set-up, both sides, sans-IO. The driver passes in each packet with the time and its
//! source, and takes out packets to send, events and deadlines. It owns the sockets, the clock and
//! the secrets.
//!
//! HELLO requests a cookie, CONNECT returns the cookie with an offer, and ACCEPT answers with the
//! other end's offer. HELLO and COOKIE are as long as the longest datagram that the path has to
//! carry (like QUIC's first packets, RFC 9000, section 14). So no connection is made over a path
//! that does not carry them. The responder keeps no state until a cookie has proved that the
//! initiator receives at its address (like SYN cookies, RFC 4987, and DTLS, RFC 9147, section 5.1).

mod addresses;
mod error;
mod cookie;
mod backlog;
mod guesses;
mod attempts;
mod accepted;
mod terms;
mod initiator;
mod initiators;
mod responder;

pub use accepted::Accepted;
pub use addresses::{AddrPair, AttemptId, Carrier, LocalAddr};
pub use backlog::{Backlog, Request};
pub use cookie::CookieJar;
pub use error::ConnectError;
pub use guesses::Guesses;
pub use initiator::Initiator;
pub use initiators::{Attempt, Initiators, ResponderAddr, Step, Use, decline};
pub use responder::{Reply, Responder};
pub use terms::OfferTerms;
