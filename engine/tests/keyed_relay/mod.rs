//! Somebody on the path: passes on most of what two ends say to each other, keeps account of it, and sends forgeries of it.

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use braid_wire::{Control, ControlKind, FinalAck, Packet, QpId, Token};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Forgeries of each packet that passes.
const FORGERIES: usize = 16;
/// How much of what is protected does not pass.
const LOSS: f64 = 0.02;

/// What it has done and seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) passed: u64,
    pub(crate) lost: u64,
    pub(crate) forged: u64,
    /// Packets with the number of another one of their connection's direction.
    pub(crate) same_number: u64,
    pub(crate) showed_private_data: bool,
}

/// Runs until [`Relay::stop`].
pub(crate) struct Relay {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What one end speaks to, where that end receives, and the numbers of its packets.
struct Face {
    socket: UdpSocket,
    end: Option<SocketAddr>,
    numbers: HashSet<(QpId, Token, u64)>,
}

impl Relay {
    /// In front of a listener at `to`.
    pub(crate) fn start(to: SocketAddr) -> Self {
        let face = |end| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            Face { socket, end, numbers: HashSet::new() }
        };
        let faces = [face(None), face(Some(to))];
        let addr = faces[0].socket.local_addr().unwrap();
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let thread = thread::spawn(move || pass_on(faces, &stopped));
        Relay { addr, stop, thread }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn pass_on(mut faces: [Face; 2], stop: &AtomicBool) -> Seen {
    let (mut seen, mut rng) = (Seen::default(), Pcg64Mcg::seed_from_u64(7));
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        for from in 0..2 {
            let Ok((len, addr)) = faces[from].socket.recv_from(&mut buffer) else { continue };
            idle = false;
            // Set-up comes first, from the receiving port.
            faces[from].end.get_or_insert(addr);
            if let Ok(Packet::Sealed(header)) = Packet::decode(&buffer[..len]) {
                let name = (header.qp, header.token, header.number);
                seen.same_number += u64::from(!faces[from].numbers.insert(name));
                if rng.random_bool(LOSS) {
                    seen.lost += 1;
                    continue;
                }
            }
            one(&buffer[..len], [&faces[from], &faces[1 - from]], &mut rng, &mut seen);
        }
        if idle {
            thread::sleep(Duration::from_micros(50));
        }
    }
    seen
}

/// Passes a packet on from an end to the other, with forgeries after it, some of them back to where it came from.
fn one(packet: &[u8], [near, far]: [&Face; 2], rng: &mut Pcg64Mcg, seen: &mut Seen) {
    let send = |face: &Face, bytes: &[u8]| {
        face.end.is_some_and(|end| face.socket.send_to(bytes, end).is_ok())
    };
    seen.showed_private_data |= packet.windows(16).any(|bytes| bytes == b"application data");
    seen.passed += u64::from(send(far, packet));
    for _ in 0..FORGERIES {
        let clear = in_clear(packet).filter(|_| rng.random_bool(0.1));
        let forged = clear.unwrap_or_else(|| forge(packet, rng));
        let to = if rng.random_bool(0.1) { near } else { far };
        seen.forged += u64::from(send(to, &forged));
    }
}

/// As it is, cut, longer, with a bit changed anywhere, with another number.
fn forge(packet: &[u8], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut forged = packet.to_vec();
    match rng.random_range(0..6) {
        0 => {}
        1 => forged.truncate(rng.random_range(0..packet.len())),
        2 => forged.extend_from_slice(&[0; 5]),
        3 if packet.len() > 28 => {
            forged[20..28].copy_from_slice(&rng.random_range(0..1_000_000u64).to_be_bytes());
        }
        4 => {
            // The header, where every field is.
            let at = rng.random_range(0..packet.len().min(28));
            forged[at] ^= 1 << rng.random_range(0..8);
        }
        _ => {
            let at = rng.random_range(0..packet.len());
            forged[at] ^= 1 << rng.random_range(0..8);
        }
    }
    forged
}

/// A DISCONNECT for the queue pair of a sealed packet, with its token, in clear.
fn in_clear(packet: &[u8]) -> Option<Vec<u8>> {
    let Ok(Packet::Sealed(header)) = Packet::decode(packet) else { return None };
    let kind = ControlKind::Disconnect(FinalAck::default());
    let (qp, token) = (header.qp, header.token);
    let mut bytes = Vec::new();
    Control { kind, qp, from: QpId::new(2), token, stamp: 0 }.encode(&mut bytes);
    Some(bytes)
}
