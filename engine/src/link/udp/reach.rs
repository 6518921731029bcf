//! Asks the system whether a destination can be reached: whether its port is open and a route leads
//! there.
//!
//! Routers and hosts answer with ICMP messages, which Linux hands to sockets that are connected to
//! the destination. The receiving socket is not connected. An attacker who guesses two ports can
//! forge such a message.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use socket2::Socket;

use super::addresses::canonical;
use super::socket::{enable_icmp_errors, open_from};
use crate::link::AddrPair;

/// Knows whether one destination can be reached.
pub(crate) enum Reach {
    /// A socket that is connected to the destination.
    Asking(Socket),
    /// The error number of the last attempt to connect. 0: none.
    Known(Arc<AtomicI32>),
}

impl Reach {
    /// A destination whose error number is known, and may change.
    pub(crate) fn known(errno: Arc<AtomicI32>) -> Self {
        Reach::Known(errno)
    }

    /// Opens a socket that sends to `pair` like a link at `bound`, from another port.
    pub(super) fn open(bound: SocketAddr, pair: AddrPair) -> io::Result<Self> {
        let pair = AddrPair { remote: canonical(pair.remote), ..pair };
        let to = pair.remote;
        let socket = open_from(bound, pair)?;
        socket.set_nonblocking(true)?;
        // Without this the socket ignores routers that know no route, because such errors are not
        // final.
        enable_icmp_errors(&socket, to)?;
        socket.connect(&to.into())?;
        Ok(Reach::Asking(socket))
    }

    /// Sends a datagram to the destination. Returns an error if it is known that none of the sent
    /// datagrams can have arrived.
    pub(crate) fn ask(&self, datagram: &[u8]) -> Option<io::Error> {
        match self {
            Reach::Asking(socket) => refusal(socket)
                .or_else(|| socket.send(datagram).err().filter(is_refusal))
                .or_else(|| refusal(socket)),
            Reach::Known(errno) => {
                let error = io::Error::from_raw_os_error(errno.load(Ordering::Relaxed));
                Some(error).filter(is_refusal)
            }
        }
    }
}

fn refusal(socket: &Socket) -> Option<io::Error> {
    socket.take_error().ok().flatten().filter(is_refusal)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN)
    )
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

    use super::*;

    #[test]
    fn a_port_that_nobody_has_is_known_and_one_that_somebody_has_is_not_refused() {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let Ok(there) = UdpSocket::bind(SocketAddr::new(ip, 0)) else { continue };
            let to = there.local_addr().expect("it is bound");
            for from in [SocketAddr::new(ip, 0), (Ipv6Addr::UNSPECIFIED, 7).into()] {
                let reach = Reach::open(from, to.into()).expect("a socket");
                assert!(reach.ask(b"hello").is_none());
                let mut heard = [0; 8];
                assert_eq!(there.recv(&mut heard).expect("it has come"), 5);
            }
            drop(there);
            let reach = Reach::open(SocketAddr::new(ip, 0), to.into()).expect("a socket");
            // On the same host the answer arrives before the call returns.
            let refused = reach.ask(b"hello").expect("nobody is there");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
