//! The two sockets that probe one path.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use braid_wire::PathId;
use socket2::Socket;

use super::probe::Probe;
use super::sent_probes::{ProbeAnswer, SentProbes};
use crate::link::udp::{
    canonical, enable_icmp_errors, error_queue, leave_by, of_version, open_path,
};

/// Bytes of answers that may wait. A path's own socket has almost no buffer.
const RECEIVE_BUFFER: usize = 256 << 10;
/// The largest number of messages taken at a time, so that a flood of forged ones cannot block the
/// thread.
const MOST_AT_ONCE: usize = 64;
/// Bytes of a probe and the data that may follow it in a quote. The rest of a longer quote is not
/// needed.
const LONGEST: usize = 256;

/// The source port of one path, from which probes leave and at which answers arrive.
///
/// Two sockets share the port with the engine's own. The *talker* is opened like the engine's
/// socket and is never connected either: Linux gives a connected IPv6 socket a random flow label,
/// which switches may hash. The *listener* is connected to the destination. So the kernel hands it
/// the datagrams of the destination and the ICMP messages about it, and neither the talker nor the
/// engine gets them.
pub(super) struct PathPort {
    talker: Socket,
    listener: Socket,
    to: SocketAddr,
    sent: SentProbes,
}

impl PathPort {
    /// Opens the port on the address that the engine is bound to, for probes by an interface.
    pub(super) fn open(
        local: SocketAddr,
        (to, interface): (SocketAddr, u32),
        path: PathId,
    ) -> io::Result<Self> {
        let (local, to) = (of_version(local, to.ip()), canonical(to));
        let talker = open_path(local, path)?;
        let listener = open_path(local, path)?;
        if talker.local_addr()?.as_socket() != listener.local_addr()?.as_socket() {
            let what = "its source port was taken by another program just now; try again";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        enable_icmp_errors(&listener, to)?;
        listener.set_recv_buffer_size(RECEIVE_BUFFER)?;
        for socket in [&talker, &listener] {
            socket.set_nonblocking(true)?;
            leave_by(socket, interface);
        }
        listener.connect(&to.into())?;
        Ok(PathPort { talker, listener, to, sent: SentProbes::new(to) })
    }

    /// Sends a probe. If the machine has no room, the probe is lost like any datagram.
    pub(super) fn ask(&mut self, ttl: u8) -> io::Result<()> {
        match self.to {
            SocketAddr::V4(_) => self.talker.set_ttl_v4(ttl.into())?,
            SocketAddr::V6(_) => self.talker.set_unicast_hops_v6(ttl.into())?,
        }
        let probe = Probe::new(ttl);
        let sent = self.talker.send_to(probe.bytes(), &self.to.into());
        self.sent.push(probe);
        match sent {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Hands over the arrived answers.
    pub(super) fn receive(&mut self, answer: &mut dyn FnMut(ProbeAnswer)) -> io::Result<()> {
        let mut buffer = [0; LONGEST];
        for _ in 0..MOST_AT_ONCE {
            let Some(report) = error_queue::next(&self.listener, &mut buffer)? else { break };
            self.sent
                .match_report(&report, &buffer[..report.quoted])
                .into_iter()
                .for_each(&mut *answer);
        }
        for _ in 0..MOST_AT_ONCE {
            match (&self.listener).read(&mut buffer) {
                Ok(len) => {
                    self.sent.match_datagram(&buffer[..len]).into_iter().for_each(&mut *answer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The error is the kernel's short form of an entry of the error queue. It is
                // reported once.
                Err(_) => {}
            }
        }
        Ok(())
    }
}

impl AsRawFd for PathPort {
    /// The descriptor to wait for is the listener's.
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}
