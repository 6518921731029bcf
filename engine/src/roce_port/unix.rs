//! Connections between the processes of a host: sequences of short packets, which may carry a
//! descriptor. They end at once when a process ends. Their names belong to the network namespace,
//! as UDP ports do, and leave nothing in the file system.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt,
};
use socket2::{Domain, SockAddr, Socket, Type};

/// Processes that may wait until the listener accepts them.
const BACKLOG: i32 = 64;

/// A process at the other end of a connection, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    /// 0: in a namespace of process numbers that this process does not see.
    pub(super) pid: i32,
    /// The effective user.
    pub(super) uid: u32,
}

/// A listener at a name, which no other process can have at the same time.
#[derive(Debug)]
pub(super) struct NameListener(Socket);

impl NameListener {
    /// Takes a name.
    ///
    /// # Errors
    /// `AddrInUse`: another process has it.
    pub(super) fn bind(name: &str) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.bind(&address(name)?)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(NameListener(socket))
    }

    /// Accepts the next connection, without blocking.
    pub(super) fn accept(&self) -> io::Result<UnixConnection> {
        let connection = UnixConnection(self.0.accept()?.0);
        connection.0.set_nonblocking(true)?;
        Ok(connection)
    }
}

impl AsFd for NameListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct UnixConnection(Socket);

impl UnixConnection {
    /// Connects to the process that has a name. Each call of the connection takes at most `limit`.
    pub(super) fn connect(name: &str, limit: Duration) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.set_write_timeout(Some(limit))?;
        socket.set_read_timeout(Some(limit))?;
        socket.connect(&address(name)?)?;
        Ok(UnixConnection(socket))
    }

    /// The process at the other end.
    pub(super) fn peer(&self) -> io::Result<Process> {
        let known = getsockopt(&self.0, sockopt::PeerCredentials)?;
        Ok(Process { pid: known.pid(), uid: known.uid() })
    }

    /// Sends a packet, and a descriptor with it.
    pub(super) fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        send(self.0.as_fd(), &[IoSlice::new(bytes)], fd, MsgFlags::empty())
    }

    /// Receives a packet. Returns its length, 0 at the end of the connection, and the descriptor
    /// that came with it.
    pub(super) fn recv(&self, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
        let mut parts = [IoSliceMut::new(bytes)];
        let mut space = cmsg_space!([i32; 1]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let is_cut = received.flags.contains(MsgFlags::MSG_TRUNC);
        let mut fds = Vec::new();
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just opened the descriptors for this process.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        if is_cut {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((received.bytes, fds.pop()))
    }

    /// Ends the connection for both processes.
    pub(super) fn shut_down(&self) {
        // A connection for which this fails has ended already.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

impl AsFd for UnixConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a packet by a socket that is connected.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    fd: Option<BorrowedFd<'_>>,
    flags: MsgFlags,
) -> io::Result<()> {
    let fds: Vec<i32> = fd.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() { &[] } else { &rights[..] };
    sendmsg::<()>(socket.as_raw_fd(), parts, control, flags | MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// The address of a name in the abstract namespace.
fn address(name: &str) -> io::Result<SockAddr> {
    SockAddr::unix(format!("\0{name}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn packets_and_descriptors_arrive_whole_and_the_end_is_seen() {
        let name = format!("braid-test-{}-a", std::process::id());
        let listener = NameListener::bind(&name).unwrap();
        assert_eq!(NameListener::bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let a = UnixConnection::connect(&name, LIMIT).unwrap();
        let b = listener.accept().unwrap();
        let here = Process { pid: std::process::id() as i32, uid: nix::unistd::geteuid().as_raw() };
        assert_eq!([a.peer().unwrap(), b.peer().unwrap()], [here; 2]);
        let (mut ours, passed) = UnixStream::pair().unwrap();
        a.send(b"one", Some(passed.as_fd())).unwrap();
        a.send(b"two", None).unwrap();
        drop(passed);
        let mut bytes = [0; 8];
        let (len, fd) = b.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"one");
        assert_eq!((b.recv(&mut bytes).unwrap().0, &bytes[..3]), (3, &b"two"[..]));
        ours.write_all(b"x").unwrap();
        let theirs = UnixStream::from(fd.unwrap());
        assert_eq!(std::io::Read::read(&mut &theirs, &mut bytes).unwrap(), 1);
        drop(a);
        assert_eq!(b.recv(&mut bytes).unwrap().0, 0);
        drop(listener);
        NameListener::bind(&name).unwrap();
    }
}
