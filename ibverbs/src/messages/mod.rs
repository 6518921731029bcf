//! Reliable messages between two processes, over UDP.
//!
//! A [`Port`] is a UDP port. A [`Listener`] accepts at a port what a [`Link`] of another process
//! connects to. A link carries messages of up to 1200 bytes in both directions, in order
//! and once each, until one end closes it. Nothing in here knows what the messages say: another
//! carrier can take the place of UDP behind the same three types.
//!
//! # Datagrams
//!
//! Every datagram names its link by a random number of 64 bits, which the connecting end chooses. A
//! receiver accepts a datagram only under a number that it knows, from the host that the link leads
//! to. So nobody can speak in a link who has not seen its datagrams.
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
//!   then the listener keeps nothing and sends no more bytes than it has received.
//! - *Loss.* An end repeats what is not acknowledged, after 50 ms at first and 1 s at most.
//! - *Duplicates.* Messages are numbered. A listener remembers the numbers of its links for as long
//!   as their cookies are good, so a late `Open` begins no second link.
//! - *Ends.* `Close` is numbered like a message, so it arrives after all of them. A process that is
//!   gone answers a probe with an ICMP error, or with `Gone` if another one has its port. Only the
//!   third such answer in a row counts. A process that ends by itself sends `Close`. Silence ends
//!   nothing, as with an idle TCP connection.
//! - *Ports.* When the owner of a port drops it, the number is free at once. Links that remain
//!   continue at another port, which their first probe tells the other end.

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
