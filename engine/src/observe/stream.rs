//! Where questions come from, and whether they may be asked.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self as unix, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// What a thread waits at.
pub(super) enum Listening {
    Http(TcpListener),
    Local(UnixListener),
}

/// Somebody who has connected.
enum Stream {
    Http(TcpStream),
    Local(UnixStream),
}

/// The same, with a time by which all has to be over.
pub(super) struct Timed {
    stream: Stream,
    until: Instant,
}

impl Listening {
    pub(super) fn http(addr: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Listening::Http(listener))
    }

    /// At the abstract name of this process: nothing of it is left in the file system.
    pub(super) fn local(pid: u32) -> io::Result<Self> {
        let name = unix::SocketAddr::from_abstract_name(format!("braid-{pid}"))?;
        let listener = UnixListener::bind_addr(&name)?;
        listener.set_nonblocking(true)?;
        Ok(Listening::Local(listener))
    }

    pub(super) fn addr(&self) -> Option<SocketAddr> {
        match self {
            Listening::Http(listener) => listener.local_addr().ok(),
            Listening::Local(_) => None,
        }
    }

    /// The next who may ask; `None`: nobody, or one who may not.
    pub(super) fn accept(&self, patience: Duration) -> Option<Timed> {
        let stream = match self {
            Listening::Http(listener) => Stream::Http(listener.accept().ok()?.0),
            Listening::Local(listener) => {
                let stream = listener.accept().ok()?.0;
                if !may_ask(&stream) {
                    return None;
                }
                Stream::Local(stream)
            }
        };
        Some(Timed { stream, until: Instant::now() + patience })
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Http(listener) => listener.as_fd(),
            Listening::Local(listener) => listener.as_fd(),
        }
    }
}

/// Only the user of this process, and root, who may read its memory anyway.
fn may_ask(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `len` bytes, which `peer` has.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut peer).cast(), &raw mut len)
    };
    // SAFETY: it only asks.
    got == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Http(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(to)),
            Stream::Local(stream) => stream.set_read_timeout(left).and_then(|()| stream.read(to)),
        }
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Http(stream) => {
                stream.set_write_timeout(left).and_then(|()| stream.write(from))
            }
            Stream::Local(stream) => {
                stream.set_write_timeout(left).and_then(|()| stream.write(from))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
