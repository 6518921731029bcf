//! The two sockets that probe one path.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use braid_wire::PathId;
use socket2::{SockAddr, Socket};

use super::error_queue::{self, Complaint};
use super::probe::{Answer, Probe};
use crate::link::udp::{open_path, set_option};

/// Bytes of answers that wait for us; a path's own socket has next to none.
const RECEIVE_BUFFER: usize = 256 << 10;
/// Most messages taken at a time, so that a flood of forged ones cannot hold us.
const MOST_AT_ONCE: usize = 64;
/// A probe and what may stand behind it in a quote; the rest of a longer one is of no interest.
const LONGEST: usize = 256;

/// An answer to one of a port's probes.
pub(super) struct Heard {
    /// With how much time to live the probe set out.
    pub(super) ttl: u8,
    pub(super) answer: Answer,
    /// Between probe and answer.
    pub(super) after: Duration,
}

/// The source port of one path, on which probes leave and answers are heard.
///
/// Two sockets share it with the engine's own. The *talker* is opened as the engine's is and, like
/// it, never connected: Linux gives a connected IPv6 socket a random flow label, which switches may
/// hash. The *listener* is connected to the destination. That makes it the best match for what
/// comes from there and for ICMP about it, so the answers reach neither the talker nor the engine.
pub(super) struct PathPort {
    talker: Socket,
    listener: Socket,
    to: SocketAddr,
    sent: Vec<Probe>,
}

impl PathPort {
    /// Opens the port on the address that the engine is bound to.
    pub(super) fn open(local: SocketAddr, to: SocketAddr, path: PathId) -> io::Result<Self> {
        let talker = open_path(local, path)?;
        let listener = open_path(local, path)?;
        if talker.local_addr()?.as_socket() != listener.local_addr()?.as_socket() {
            let what = "its source port was taken by another program just now; try again";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        set_option(&listener, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        if local.is_ipv6() {
            set_option(&listener, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        listener.set_recv_buffer_size(RECEIVE_BUFFER)?;
        for socket in [&talker, &listener] {
            socket.set_nonblocking(true)?;
        }
        let port = PathPort { talker, listener, to, sent: Vec::new() };
        port.listener.connect(&port.address())?;
        Ok(port)
    }

    /// The destination in the form that the sockets take.
    fn address(&self) -> SockAddr {
        let both = self.talker.domain().is_ok_and(|domain| domain == socket2::Domain::IPV6);
        match self.to.ip() {
            IpAddr::V4(ip) if both => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), self.to.port()).into()
            }
            _ => self.to.into(),
        }
    }

    /// Sends a probe. One for which the machine has no room just now is lost like any datagram.
    pub(super) fn ask(&mut self, ttl: u8) -> io::Result<()> {
        match self.to {
            SocketAddr::V4(_) => self.talker.set_ttl_v4(ttl.into())?,
            SocketAddr::V6(_) => self.talker.set_unicast_hops_v6(ttl.into())?,
        }
        let probe = Probe::new(ttl);
        let sent = self.talker.send_to(probe.bytes(), &self.address());
        self.sent.push(probe);
        match sent {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Hands over what has arrived since.
    pub(super) fn hear(&mut self, heard: &mut dyn FnMut(Heard)) -> io::Result<()> {
        let mut buffer = [0; LONGEST];
        for _ in 0..MOST_AT_ONCE {
            let Some(report) = error_queue::next(&self.listener, &mut buffer)? else { break };
            let quote = &buffer[..report.quoted];
            let about_us = report.to.is_some_and(|to| self.is_destination(to));
            if let (true, Some((by, complaint))) = (about_us, report.complaint) {
                let answer = self.answer(by, complaint);
                self.match_up(answer, |probe| probe.is_quoted_in(quote), heard);
            }
        }
        for _ in 0..MOST_AT_ONCE {
            match (&self.listener).read(&mut buffer) {
                Ok(len) => {
                    let datagram = &buffer[..len];
                    self.match_up(Answer::Destination, |p| p.is_answered_by(datagram), heard);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The kernel's short form of what stood in the error queue; told once, then gone.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn is_destination(&self, quoted: SocketAddr) -> bool {
        (quoted.ip().to_canonical(), quoted.port()) == (self.to.ip(), self.to.port())
    }

    fn answer(&self, by: IpAddr, complaint: Complaint) -> Answer {
        match complaint {
            _ if by == self.to.ip() => Answer::Destination,
            Complaint::Expired => Answer::Router(by),
            Complaint::Unreachable => Answer::Refusal(by),
        }
    }

    fn match_up(
        &self,
        answer: Answer,
        belongs: impl Fn(&Probe) -> bool,
        heard: &mut dyn FnMut(Heard),
    ) {
        if let Some(probe) = self.sent.iter().rev().find(|probe| belongs(probe)) {
            heard(Heard { ttl: probe.ttl, answer, after: probe.sent.elapsed() });
        }
    }
}

impl AsRawFd for PathPort {
    /// Of the listener: it is the one to wait for.
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
