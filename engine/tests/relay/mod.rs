//! A relay on the path between two ends, which sees each packet.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The handler of the packets.
pub(crate) trait Visitor: Send + 'static {
    /// Handles a packet that one end, reached over `near`, has sent to the other.
    fn pass(&mut self, packet: &[u8], near: &Face, far: &Face);
}

/// The socket towards one end, and the address of that end once it is known.
pub(crate) struct Face {
    socket: UdpSocket,
    end: Option<SocketAddr>,
}

impl Face {
    fn new(end: Option<SocketAddr>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Face { socket, end }
    }

    /// Sends to the end. Returns whether its address is known and the socket has taken the packet.
    pub(crate) fn send(&self, packet: &[u8]) -> bool {
        self.end.is_some_and(|end| self.socket.send_to(packet, end).is_ok())
    }
}

/// A relay that runs until [`Relay::stop`].
pub(crate) struct Relay<V> {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<V>,
}

impl<V: Visitor> Relay<V> {
    /// Starts a relay in front of a listener at `to`.
    pub(crate) fn start(to: SocketAddr, visitor: V) -> Self {
        let faces = [Face::new(None), Face::new(Some(to))];
        let addr = faces[0].socket.local_addr().unwrap();
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = thread::spawn(move || pass_on(faces, visitor, &stopped));
        Relay { addr, stop, thread }
    }

    /// The address that the other end connects to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn stop(self) -> V {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn pass_on<V: Visitor>(mut faces: [Face; 2], mut visitor: V, stop: &AtomicBool) -> V {
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        for from in 0..2 {
            let Ok((len, addr)) = faces[from].socket.recv_from(&mut buffer) else { continue };
            idle = false;
            // Set-up packets come first, from the receiving port.
            faces[from].end.get_or_insert(addr);
            visitor.pass(&buffer[..len], &faces[from], &faces[1 - from]);
        }
        if idle {
            thread::sleep(Duration::from_micros(50));
        }
    }
    visitor
}
