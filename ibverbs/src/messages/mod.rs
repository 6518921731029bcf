//! Reliable messages between two processes, over UDP.
//!
//! A [`Port`] is a UDP port. A [`Listener`] accepts the links that connect to a port. A [`Link`]
//! carries messages of up to 1200 bytes in both directions, in order and once each, until one end
//! closes it. The module does not interpret messages. Another carrier can take the place of UDP
//! behind the same three types.
//!
//! # Datagrams
//!
//! Every datagram names its link by a random number of 64 bits, which the connecting end chooses. A
//! receiver accepts a datagram only if it knows the number and the datagram comes from the host of
//! the other end. So a sender has to have seen datagrams of the link.
//!
//! ```text
//! connecting end                     listener
//!   Hello  (padded)  ------------->             no state yet
//!                    <-------------  Cookie     no longer than Hello
//!   Open (cookie, message 0) ----->             the link begins
//!                    <-------------  Ack
//!   Data, Close      <------------>  Ack
//!   Probe            <------------>  Ack        while nothing else is sent
//! ```
//!
//! - *Untrusted sources.* The cookie proves that the connecting end receives at its address. Until
//!   then the listener keeps no state and sends no more bytes than it has received.
//! - *Loss.* An end repeats unacknowledged messages, after 50 ms at first and 1 s at most.
//! - *Duplicates.* Messages are numbered. A listener remembers the numbers of its links for as long
//!   as their cookies are valid, so a late `Open` begins no second link.
//! - *Ends.* `Close` is numbered like a message, so it arrives after all of them. If a process is
//!   gone, its host answers a probe with an ICMP error, or another process that has the port
//!   answers with `Gone`. Only the third such answer in a row counts. A process that ends by itself
//!   sends `Close`. Silence ends nothing, as with an idle TCP connection.
//! - *Ports.* When the owner of a port drops it, the number is free at once. Remaining links
//!   continue at another port, and their first probe tells it to the other end.

mod association;
mod datagram;
mod driver;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod link;
mod listener;
mod port;
mod udp;

pub(crate) use self::driver::close_at_exit;
pub(crate) use self::link::Link;
pub(crate) use self::listener::Listener;
pub(crate) use self::port::{Port, PortOptions};

#[cfg(test)]
pub(crate) mod tests;
