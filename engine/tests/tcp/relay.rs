//! A relay in front of a listener, which can harm each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

const PASS: u8 = 0;
const STALL: u8 = 1;

/// A connection through the relay.
pub(crate) struct Link {
    ends: [TcpStream; 2],
    mode: AtomicU8,
    /// Bytes that went to the listener.
    passed: AtomicU64,
    is_over: AtomicBool,
}

impl Link {
    /// Ends the connection as a process does that closes its socket.
    pub(crate) fn cut(&self) {
        self.is_over.store(true, Ordering::Release);
        self.ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    /// Ends the connection as a firewall does that forgets it.
    pub(crate) fn reset(&self) {
        self.is_over.store(true, Ordering::Release);
        for end in &self.ends {
            // With this the end of the socket is a reset.
            SockRef::from(end).set_linger(Some(Duration::ZERO)).unwrap();
            // SAFETY: connecting to no address is how a connection is dissolved.
            unsafe {
                let none = libc::sockaddr {
                    sa_family: libc::AF_UNSPEC as libc::sa_family_t,
                    sa_data: [0; 14],
                };
                let len = size_of::<libc::sockaddr>() as libc::socklen_t;
                libc::connect(std::os::fd::AsRawFd::as_raw_fd(end), &raw const none, len);
            }
        }
    }

    /// Passes nothing on any more, in the middle of whatever is under way.
    pub(crate) fn stall(&self) {
        self.mode.store(STALL, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// A relay. It runs as long as the test program.
pub(crate) struct Relay {
    addr: SocketAddr,
    links: Arc<Mutex<Vec<Arc<Link>>>>,
}

impl Relay {
    /// Starts a relay in front of a listener at `to`. It holds the bytes of connection n back for
    /// n times `delay`.
    pub(crate) fn start(to: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, links) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let all = links.clone();
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(to) else { continue };
                let link = Arc::new(Link {
                    ends: [near, far],
                    mode: AtomicU8::new(PASS),
                    passed: AtomicU64::new(0),
                    is_over: AtomicBool::new(false),
                });
                let mut all = all.lock().unwrap();
                let delay = delay * all.len() as u32;
                all.push(link.clone());
                for from in 0..2 {
                    let link = link.clone();
                    thread::spawn(move || pump(&link, from, delay));
                }
            }
        });
        Relay { addr, links }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The connections that have not ended.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        let links = self.links.lock().unwrap();
        links.iter().filter(|link| !link.is_over()).cloned().collect()
    }

    /// The number of connections so far.
    pub(crate) fn count(&self) -> usize {
        self.links.lock().unwrap().len()
    }
}

fn pump(link: &Link, from: usize, delay: Duration) {
    let (mut source, mut sink) = (&link.ends[from], &link.ends[1 - from]);
    // An odd length, so that pieces end inside of frames.
    let mut buffer = [0; 40_961];
    source.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    while !link.is_over() {
        let count = match source.read(&mut buffer) {
            Ok(count) if count > 0 => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            _ => break,
        };
        thread::sleep(delay);
        let half = count / 2;
        if sink.write_all(&buffer[..half]).is_err() {
            break;
        }
        while link.mode.load(Ordering::Acquire) == STALL && !link.is_over() {
            thread::sleep(Duration::from_millis(5));
        }
        if sink.write_all(&buffer[half..count]).is_err() {
            break;
        }
        if from == 0 {
            link.passed.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
    link.cut();
}
