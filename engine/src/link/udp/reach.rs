//! What this system knows of a destination: that nobody has the port, or that no way leads there.
//!
//! Routers and hosts say so in ICMP messages, which Linux hands to sockets that are connected to
//! where the datagram went. The receiving socket is connected to nobody. Whoever can guess two
//! ports can forge such a message.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

use super::canonical;
use super::socket::{hear_errors, open_from};
use crate::link::AddrPair;

/// A socket that is connected to one destination.
pub(crate) struct Reach(Socket);

impl Reach {
    /// From another port of what a link that receives at `bound` sends there from.
    pub(super) fn open(bound: SocketAddr, pair: AddrPair) -> io::Result<Self> {
        let pair = AddrPair { remote: canonical(pair.remote), ..pair };
        let to = pair.remote;
        let socket = open_from(bound, pair)?;
        socket.set_nonblocking(true)?;
        // Otherwise routers that know no way are not heard: their word is not final.
        hear_errors(&socket, to)?;
        socket.connect(&to.into())?;
        Ok(Reach(socket))
    }

    /// Sends a datagram there. Returns why none of those that were sent can have arrived, if that
    /// is known.
    pub(crate) fn ask(&self, datagram: &[u8]) -> Option<io::Error> {
        let earlier = self.refusal();
        earlier
            .or_else(|| self.0.send(datagram).err().filter(is_refusal))
            .or_else(|| self.refusal())
    }

    fn refusal(&self) -> Option<io::Error> {
        self.0.take_error().ok().flatten().filter(is_refusal)
    }
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
            // On the same host the answer is there before the call returns.
            let refused = reach.ask(b"hello").expect("nobody is there");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
