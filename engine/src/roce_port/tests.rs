//! Tests of a port whose processes come and go. Handles of one process stand for processes.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::{io, ptr, thread};

use braid_wire::{QpId, RcHeader, RcOpcode, RcPosition};

use super::claim::{Claim, Request};
use super::holder::{PortTaken, Unshared};
use super::link::SharedLink;
use super::port::PortHandle;
use super::ports::RocePorts;
use super::share::name;
use super::unix::{NameListener, UnixConnection};
use crate::event_fd::sleep_on;
use crate::link::{DatagramBatch, Link, Slice, Via};

const PATIENCE: Duration = Duration::from_secs(20);
const BUFFER: usize = 1 << 20;

fn open(addr: SocketAddr) -> SharedLink {
    SharedLink::new(PortHandle::open(addr, BUFFER).unwrap(), addr)
}

/// A port that nobody has.
fn any_port() -> SharedLink {
    open("127.0.0.1:0".parse().unwrap())
}

fn claim(link: &SharedLink, number: u32) -> bool {
    link.port().share.claim(Claim::Qp(number)).unwrap()
}

fn packet(qp: u32) -> Vec<u8> {
    let opcode = RcOpcode::send(RcPosition::of(true, true), false);
    let mut bytes = Vec::new();
    RcHeader::new(opcode, QpId::new(qp), 9).encode(0, &mut bytes);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// Sends to a queue pair until a packet arrives at `link`, which sleeps meanwhile. A packet that
/// was on its way as a process ended may be lost.
fn reaches(peer: &UdpSocket, to: SocketAddr, qp: u32, link: &mut SharedLink) {
    let until = Instant::now() + PATIENCE;
    let mut count = 0;
    while count == 0 {
        assert!(Instant::now() < until, "queue pair {qp} is not reached");
        peer.send_to(&packet(qp), to).unwrap();
        sleep_on(&link.readiness().unwrap(), Some(Duration::from_millis(10)));
        let from = peer.local_addr().unwrap();
        count = link
            .recv(&mut |got| {
                assert_eq!((got.from, &*got.bytes), (from, &packet(qp)[..]));
            })
            .unwrap();
    }
    while link.recv(&mut |_| {}).unwrap() > 0 {}
}

/// Lets the process that reads hand on what has arrived.
fn drive(reader: &mut SharedLink) -> usize {
    thread::sleep(Duration::from_millis(2));
    reader.recv(&mut |_| {}).unwrap()
}

fn arrivals(link: &mut SharedLink) -> usize {
    let mut count = 0;
    while link.recv(&mut |_| count += 1).unwrap() > 0 {}
    count
}

#[test]
fn datagrams_find_their_process_while_others_end_and_start() {
    let mut a = any_port();
    let to = a.local_addr();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut b, mut c) = (open(to), open(to));
    assert!(claim(&a, 10) && claim(&b, 11) && claim(&c, 12));
    reaches(&peer, to, 10, &mut a);
    for (qp, link) in [(11, &mut b), (12, &mut c)] {
        peer.send_to(&packet(qp), to).unwrap();
        drive(&mut a);
        assert_eq!(arrivals(link), 1, "queue pair {qp}");
    }
    assert_eq!((arrivals(&mut b), arrivals(&mut c)), (0, 0));
    // One of the others reads now, and it has an inbox if both are to be reached.
    drop(a);
    let mut d = open(to);
    assert!(claim(&d, 10), "the number of an ended process is free");
    let until = Instant::now() + PATIENCE;
    while !b.port().share.is_reader() && !c.port().share.is_reader() {
        assert!(Instant::now() < until, "nobody reads");
    }
    let (mut reader, mut other, numbers) =
        if b.port().share.is_reader() { (b, c, (11, 12)) } else { (c, b, (12, 11)) };
    reaches(&peer, to, numbers.0, &mut reader);
    for (qp, link) in [(numbers.1, &mut other), (10, &mut d)] {
        peer.send_to(&packet(qp), to).unwrap();
        drive(&mut reader);
        assert_eq!(arrivals(link), 1, "queue pair {qp}");
    }
    drop((reader, other));
    reaches(&peer, to, 10, &mut d);
    drop(d);
    UdpSocket::bind(to).expect("nobody has the port any more");
}

#[test]
fn every_process_sends_from_the_port() {
    let mut a = any_port();
    let to = a.local_addr();
    let mut b = open(to);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for link in [&mut a, &mut b] {
        let slices = [Slice::new(b"hello")];
        let batch = DatagramBatch {
            to: peer.local_addr().unwrap().into(),
            via: Via::Port,
            segment_len: 5,
            ecn: true,
            slices: &slices,
        };
        link.send(&batch).unwrap();
        assert_eq!(peer.recv_from(&mut [0; 8]).unwrap(), (5, to));
    }
}

#[test]
fn numbers_of_processes_do_not_collide() {
    let a = any_port();
    let b = open(a.local_addr());
    assert!(claim(&a, 10) && claim(&b, 11));
    assert!(!claim(&b, 10) && !claim(&a, 11));
    a.port().share.release(Claim::Qp(10));
    assert!(claim(&b, 10));
    b.port().share.release(Claim::Qp(11));
    let until = Instant::now() + PATIENCE;
    while !claim(&a, 11) {
        assert!(Instant::now() < until, "the number stays taken");
    }
    // The claims of those that stay outlive the process that reads.
    let c = open(a.local_addr());
    drop(a);
    assert!(claim(&c, 11));
    assert!(!claim(&c, 10), "the other process has kept it");
}

#[test]
fn a_port_at_a_wildcard_is_shared_by_processes_at_addresses() {
    let mut a = open("0.0.0.0:0".parse().unwrap());
    let to: SocketAddr = ([127, 0, 0, 1], a.local_addr().port()).into();
    let mut b = open(to);
    assert_eq!(b.local_addr(), to);
    assert!(claim(&b, 11));
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.send_to(&packet(11), to).unwrap();
    drive(&mut a);
    assert_eq!(arrivals(&mut b), 1);
    drop(a);
    reaches(&peer, to, 11, &mut b);
}

#[test]
fn ports_end_with_their_links() {
    let ports = RocePorts::default();
    let link = ports.open("127.0.0.1:0".parse().unwrap(), BUFFER).unwrap();
    let (addr, towards) = (link.local_addr(), "127.0.0.1".parse().unwrap());
    let other = open(addr);
    assert!(ports.claim(towards, Claim::Qp(10)).unwrap());
    assert!(!claim(&other, 10));
    let tags = [0; 2].map(|start| ports.claim_tag(start).unwrap());
    assert_eq!(tags, [Some(0); 2], "its own");
    assert!(!other.port().share.claim(Claim::Tag(0)).unwrap());
    drop((link, other));
    assert!(ports.claim(towards, Claim::Qp(10)).unwrap(), "there is no port");
    UdpSocket::bind(addr).expect("nobody has the port any more");
}

#[test]
fn socket_of_a_program_that_does_not_share_is_an_error() {
    let foreign = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = PortHandle::open(foreign.local_addr().unwrap(), BUFFER).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert_eq!(PortTaken::in_error(&error), None);
}

/// Runs a closure as another user. Only its thread changes its user.
fn as_another_user<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: it passes numbers. The call of the system concerns this thread only.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            (done == 0).then(run)
        });
        thread.join().unwrap()
    })
}

#[test]
fn another_user_is_refused_in_both_directions() {
    let a = any_port();
    let to = a.local_addr();
    let Some(error) = as_another_user(|| PortHandle::open(to, BUFFER).err().unwrap()) else {
        return println!("only root can act as another user: not tried");
    };
    assert_eq!(PortTaken::in_error(&error), Some(Unshared::OtherUser), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    // A process that does not look at the user of the other one gets nothing from it.
    let asked = as_another_user(|| {
        let connection = UnixConnection::connect(&name(to), PATIENCE).unwrap();
        let sent = connection.send(&Request::Join.encode(), None);
        sent.and_then(|()| connection.recv(&mut [0; 8])).map(|(len, _)| len)
    });
    assert!(!asked.unwrap().is_ok_and(|len| len > 0));
    assert!(!a.port().share.has_inboxes());
    // Nobody joins a process of another user that has taken the name of a port.
    let foreign = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = foreign.local_addr().unwrap();
    let listener = as_another_user(|| NameListener::bind(&name(to)).unwrap()).unwrap();
    let error = PortHandle::open(to, BUFFER).err().unwrap();
    assert_eq!(PortTaken::in_error(&error), Some(Unshared::OtherUser), "{error}");
    let joined = listener.accept().unwrap();
    assert_eq!(joined.recv(&mut [0; 8]).map_or(0, |(len, _)| len), 0, "it was asked nothing");
}

#[test]
fn malformed_requests_end_their_connection_and_no_other() {
    let mut a = any_port();
    let to = a.local_addr();
    let mut b = open(to);
    assert!(claim(&b, 11));
    let claims = Request::Claim(vec![Claim::Qp(5); 1024]).encode();
    for bytes in [&[0; 1][..], &Request::Join.encode(), &claims[..40], &[7; 40_000]] {
        let hostile = UnixConnection::connect(&name(to), PATIENCE).unwrap();
        // A join without an inbox is malformed, too.
        let _ = hostile.send(bytes, None);
        assert_eq!(hostile.recv(&mut [0; 8]).map_or(0, |(len, _)| len), 0, "{} bytes", bytes.len());
    }
    // Processes that connect and say nothing take no places of others for ever.
    let silent: Vec<_> =
        (0..64).map(|_| UnixConnection::connect(&name(to), PATIENCE).unwrap()).collect();
    let c = open(to);
    assert!(claim(&c, 12));
    drop(silent);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.send_to(&packet(11), to).unwrap();
    drive(&mut a);
    assert_eq!(arrivals(&mut b), 1);
}

/// Leaves the UDP checksum of IPv6 packets out, as the kernel's rxe does.
fn send_unchecked(peer: &UdpSocket) {
    /// `UDP_NO_CHECK6_TX` of `linux/udp.h`.
    const NO_CHECK6_TX: libc::c_int = 101;
    let (on, len) = (1_i32, size_of::<i32>() as libc::socklen_t);
    let on = ptr::from_ref(&on).cast();
    // SAFETY: the kernel reads `len` bytes at `on`, which is that long.
    let done = unsafe { libc::setsockopt(peer.as_raw_fd(), libc::SOL_UDP, NO_CHECK6_TX, on, len) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

#[test]
fn packets_without_a_udp_checksum_arrive_over_ipv6() {
    let Ok(peer) = UdpSocket::bind("[::1]:0") else {
        return println!("this machine has no IPv6: not tried");
    };
    send_unchecked(&peer);
    for bound in ["[::1]:0", "[::]:0"] {
        let mut link = open(bound.parse().unwrap());
        let to = (Ipv6Addr::LOCALHOST, link.local_addr().port()).into();
        reaches(&peer, to, 7, &mut link);
    }
}
