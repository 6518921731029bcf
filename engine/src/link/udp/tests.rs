use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use braid_transport::LocalAddr;
use braid_wire::PathId;

use super::*;
use crate::degradation::Degradation;
use crate::link::Slice;

const MIB: usize = 1 << 20;

fn bind(addr: &str) -> UdpLink {
    let mut link = UdpLink::bind(addr.parse().unwrap(), 2 * MIB).unwrap();
    link.open_paths(4).unwrap();
    link
}

fn path(id: u16) -> Via {
    Via::Path(PathId::new(id))
}

fn send(
    link: &mut UdpLink,
    to: SocketAddr,
    via: Via,
    segment_len: usize,
    bytes: &[u8],
) -> SendResult {
    // Long buffers are cut so that datagrams and slices do not coincide.
    let (a, b) = bytes.split_at(if bytes.len() < 8 { 0 } else { bytes.len() / 3 });
    let slices = [Slice::new(a), Slice::new(b)];
    let slices = if a.is_empty() { &slices[1..] } else { &slices };
    link.send(&DatagramBatch { to: to.into(), via, segment_len, ecn: true, slices }).unwrap()
}

struct Got {
    from: SocketAddr,
    congestion: bool,
    bytes: Vec<u8>,
}

/// Waits for `count` datagrams.
fn recv(link: &mut UdpLink, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    while got.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} datagrams", got.len());
        let before = got.len();
        let new = link.recv(&mut |r| {
            let one = |bytes: &[u8]| Got {
                from: r.from,
                congestion: r.congestion,
                bytes: bytes.to_vec(),
            };
            match r.segment_len {
                0 => got.push(one(r.bytes)),
                len => got.extend(r.bytes.chunks(len).map(one)),
            }
        });
        assert_eq!(new.unwrap(), got.len() - before);
    }
    got
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn at(link: &UdpLink, ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), link.local_addr().port())
}

/// Whether this machine has IPv6, which containers often lack.
fn has_ipv6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

/// The address to bind and the address to reach it at, for each kind of path.
fn ways() -> Vec<(&'static str, &'static str)> {
    let mut ways = vec![("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1")];
    if has_ipv6() {
        ways.extend([("[::]:0", "::1"), ("[::1]:0", "::1")]);
    }
    ways
}

/// Sends a batch from `a` to `b` at `to` and checks all that arrives.
fn exchange(a: &mut UdpLink, b: &mut UdpLink, to: SocketAddr, from_ip: &str) {
    let bytes = pattern(10 * 1000 + 17);
    assert_eq!(send(a, to, path(2), 1000, &bytes), SendResult::Gone);
    let got = recv(b, 11);
    let from = SocketAddr::new(from_ip.parse().unwrap(), a_port(a, 2, canonical(to).ip()));
    assert!(got.iter().all(|g| g.from == from && !g.congestion), "{:?}", got[0].from);
    assert!(got.iter().map(|g| g.bytes.len()).eq([1000; 10].into_iter().chain([17])));
    assert!(got.iter().flat_map(|g| &g.bytes).eq(&bytes));
    // The way back, to the receiving port.
    send(a, to, Via::Port, 100, b"hello");
    let hello = recv(b, 1).remove(0);
    assert_eq!(hello.from, SocketAddr::new(from.ip(), a.local_addr().port()));
    send(b, hello.from, Via::Port, 100, b"back");
    assert_eq!(recv(a, 1)[0].bytes, b"back");
}

fn pair(text: &str) -> AddrPair {
    text.parse::<SocketAddr>().unwrap().into()
}

/// The source port of a path. Other programs of this machine may hold the usual one.
fn a_port(link: &mut UdpLink, path: u16, to: IpAddr) -> u16 {
    let to = SocketAddr::new(to, 1).into();
    link.source_port(Via::Path(PathId::new(path)), &to).unwrap()
}

#[test]
fn a_batch_arrives_whole_from_its_port() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let to = b.local_addr();
    exchange(&mut a, &mut b, to, "127.0.0.1");
    let port = a_port(&mut a, 2, to.ip());
    assert_eq!((port & 0xFFF, port >= 0xC000), (2, true));
}

#[test]
fn the_largest_trains_pass() {
    for (bound, ip) in ways() {
        let (mut a, mut b) = (bind(bound), bind(bound));
        let caps = a.caps();
        for (segment, len) in
            [(4156, 15 * 4156), (1024, caps.batch_segments * 1024 - 100), (65_000, MAX_BATCH)]
        {
            let len = len.min(caps.batch_bytes);
            let bytes = pattern(len);
            send(&mut a, at(&b, ip), path(0), segment, &bytes);
            let got = recv(&mut b, len.div_ceil(segment));
            assert!(got.iter().flat_map(|g| &g.bytes).eq(&bytes), "{segment} of {len} at {ip}");
        }
    }
}

#[test]
fn ipv6_works() {
    if !has_ipv6() {
        return;
    }
    let (mut a, mut b) = (bind("[::1]:0"), bind("[::1]:0"));
    let to = b.local_addr();
    exchange(&mut a, &mut b, to, "::1");
    let refused = a.send(&DatagramBatch {
        to: at(&b, "127.0.0.1").into(),
        via: Via::Port,
        segment_len: 1,
        ecn: true,
        slices: &[Slice::new(b"x")],
    });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn dual_stack_serves_both_and_shows_plain_addresses() {
    let (mut a, mut b) = (bind("[::]:0"), bind("[::]:0"));
    for ip in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        if ip == "::1" && !has_ipv6() {
            continue;
        }
        let to = at(&b, ip);
        exchange(&mut a, &mut b, to, ip.trim_start_matches("::ffff:"));
    }
    let mut v4 = bind("0.0.0.0:0");
    let to = at(&v4, "127.0.0.1");
    exchange(&mut a, &mut v4, to, "127.0.0.1");
    let to = at(&a, "127.0.0.1");
    exchange(&mut v4, &mut a, to, "127.0.0.1");
}

#[test]
fn a_merged_batch_comes_in_one_call() {
    for (bound, ip) in ways() {
        let (mut a, mut b) = (bind(bound), bind(bound));
        send(&mut a, at(&b, ip), path(0), 1000, &pattern(8000));
        let mut calls = 0;
        let mut datagrams = 0;
        while datagrams < 8 {
            let new = b.recv(&mut |_| ()).unwrap();
            datagrams += new;
            calls += usize::from(new > 0);
        }
        assert_eq!(calls, 1, "{bound} at {ip}");
    }
}

#[test]
fn congestion_marks_are_seen() {
    for (bound, ip) in ways() {
        let mut b = bind(bound);
        let to = at(&b, ip);
        let a = UdpSocket::bind((to.ip(), 0)).unwrap();
        for mark in [0, 1, 2, 3, 0xFF] {
            let socket = socket2::SockRef::from(&a);
            match to {
                SocketAddr::V4(_) => socket.set_tos_v4(mark).unwrap(),
                SocketAddr::V6(_) => socket.set_tclass_v6(mark).unwrap(),
            }
            a.send_to(b"x", to).unwrap();
            assert_eq!(recv(&mut b, 1)[0].congestion, mark & 3 == 3, "{mark} at {ip}");
        }
    }
}

/// The traffic class of the next datagram at a socket that asks for it.
fn traffic_class_at(socket: &UdpSocket) -> u8 {
    let mut payload = [0_u8; 64];
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut control = [0_u64; 8];
    // SAFETY: the message describes the two arrays above, which outlive the call. `msghdr` is plain
    // data, and the kernel writes a valid list of control messages.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = std::mem::size_of_val(&control);
        assert!(libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) > 0);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null(), "the socket asks for the traffic class");
        *libc::CMSG_DATA(header)
    }
}

/// Covers a path's socket before and after it is connected, the receiving port, and short and
/// segmented batches.
#[test]
fn datagrams_carry_the_traffic_class_and_the_ecn_bits() {
    for (bound, ip) in ways() {
        let mut link = bind(bound);
        let there = UdpSocket::bind((ip, 0)).unwrap();
        let asking = socket2::SockRef::from(&there);
        let remote = there.local_addr().unwrap();
        match remote {
            SocketAddr::V4(_) => asking.set_recv_tos_v4(true).unwrap(),
            SocketAddr::V6(_) => asking.set_recv_tclass_v6(true).unwrap(),
        }
        for (traffic_class, ecn) in [(0x68, true), (0x6B, false), (0, true), (0xFF, true)] {
            let local = LocalAddr { traffic_class, ..LocalAddr::default() };
            let to = AddrPair { remote, local };
            for (via, len) in [(path(0), 8), (path(0), 8), (path(0), 32), (Via::Port, 8)] {
                let bytes = pattern(len);
                let slices = [Slice::new(&bytes)];
                link.send(&DatagramBatch { to, via, segment_len: 8, ecn, slices: &slices })
                    .unwrap();
                for _ in 0..len / 8 {
                    let expected = traffic_class & !3 | if ecn { 2 } else { 0 };
                    assert_eq!(traffic_class_at(&there), expected, "{traffic_class:#x} at {ip}");
                }
            }
        }
    }
}

#[test]
fn a_closed_port_does_not_stop_the_sender() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let closed = bind("127.0.0.1:0").local_addr();
    for via in [path(0), Via::Port] {
        for _ in 0..20 {
            assert_eq!(send(&mut a, closed, via, 100, &pattern(1000)), SendResult::Gone);
        }
        assert_eq!(a.recv(&mut |_| ()).unwrap(), 0);
        send(&mut a, b.local_addr(), via, 100, b"alive");
        assert_eq!(recv(&mut b, 1)[0].bytes, b"alive");
    }
}

/// Covers a connected path, a path that alternates between peers, and the receiving port. Datagrams
/// to other destinations pass.
#[test]
fn hosts_that_refuse_a_port_are_named() {
    // If sockets share the port of a path, the system gives an error to an unconnected one only if
    // no other socket takes it.
    let [once, twice] = [3000, 3500].map(|path| path + std::process::id() as u16 % 500);
    for (bound, ip) in ways() {
        let [mut a, mut b, nobody] = [bound; 3].map(bind);
        let closed = at(&nobody, ip);
        drop(nobody);
        for _ in 0..3 {
            send(&mut a, closed, path(once), 100, b"nobody");
            send(&mut a, closed, path(twice), 100, b"nobody");
            send(&mut a, at(&b, ip), path(twice), 100, b"alive");
            send(&mut a, closed, Via::Port, 100, b"nobody");
            send(&mut a, at(&b, ip), Via::Port, 100, b"alive");
        }
        assert!(recv(&mut b, 6).iter().all(|got| got.bytes == b"alive"), "to {ip} from {bound}");
        let mut told = Vec::new();
        a.take_refused(&mut |refused| told.push(refused));
        for via in [path(once), path(twice), Via::Port] {
            let refused = PortRefused { to: closed, via };
            assert!(told.contains(&refused), "{via:?} to {ip} from {bound}: {told:?}");
        }
        assert_eq!(told.len(), 3, "each once, and nobody else: {told:?}");
        a.take_refused(&mut |refused| panic!("{refused:?} was told before"));
    }
}

/// The system queues an error of its own. A thread that waits for the receiving socket must not
/// wake for it repeatedly.
#[test]
fn a_datagram_that_is_too_large_leaves_no_error_behind() {
    let mut link = bind("127.0.0.1:0");
    let bytes = pattern(65_520);
    let (to, slices) = (link.local_addr(), [Slice::new(&bytes)]);
    let segment_len = bytes.len();
    let batch =
        DatagramBatch { to: to.into(), via: Via::Port, segment_len, ecn: true, slices: &slices };
    let error = link.send_by(&batch, |fd, to| send_once(fd, to, batch.slices, None)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    let mut poll = libc::pollfd { fd: link.receiver.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one descriptor, which is open.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    assert_eq!(ready, 0, "{:#x}", poll.revents);
}

#[test]
fn refusals_are_told_apart() {
    let of = |code| Refusal::of(&io::Error::from_raw_os_error(code));
    for code in
        [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EPERM, libc::EINVAL]
    {
        assert_eq!(of(code) == Refusal::Unreachable, code != libc::EINVAL);
        let (mut link, bytes) = (bind("127.0.0.1:0"), [Slice::new(b"x")]);
        let to = link.local_addr();
        let batch = DatagramBatch {
            to: to.into(),
            via: Via::Port,
            segment_len: 1,
            ecn: true,
            slices: &bytes,
        };
        let judged = link.judge(io::Error::from_raw_os_error(code), &batch);
        assert_eq!(judged.unwrap(), SendResult::Gone);
        assert_eq!(link.counters.unreachable, 1);
    }
    assert_eq!(of(libc::ENOBUFS), Refusal::Dropped);
    let (mut link, bytes) = (bind("127.0.0.1:0"), [Slice::new(b"x")]);
    let to = link.local_addr().into();
    let batch = DatagramBatch { to, via: Via::Port, segment_len: 1, ecn: true, slices: &bytes };
    let judged = link.judge(io::Error::from_raw_os_error(libc::ENOBUFS), &batch);
    let waits = (judged.unwrap(), link.losses().unreachable);
    assert_eq!(waits, (SendResult::DeviceFull, 0));
    assert_eq!(of(libc::EIO), Refusal::Segmentation);
    assert_eq!(of(libc::EBADF), Refusal::Other);
}

#[test]
fn links_of_one_host_share_path_ports() {
    let mut links: Vec<UdpLink> = (0..3).map(|_| bind("127.0.0.1:0")).collect();
    let ports: BTreeSet<Vec<u16>> =
        links.iter_mut().map(|l| (0..4).map(|p| a_port(l, p, l.local.ip())).collect()).collect();
    assert_eq!(ports.len(), 1, "{ports:?}");
    // The receiving port is never shared.
    let again = UdpLink::bind(links[0].local_addr(), MIB);
    assert_eq!(again.err().unwrap().kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_taken_path_port_is_replaced() {
    // An address and a path that no other test uses.
    let local = "127.0.0.77:0".parse().unwrap();
    let path = PathId::new(0xABC);
    let mut foreign = Vec::new();
    for port in [0xCABC, 0xFABC, 0xEABC, 0xDABC] {
        let socket = socket::open_path(local, path).unwrap();
        assert_eq!(socket::local_addr(&socket).unwrap().port(), port);
        drop(socket);
        foreign.push(UdpSocket::bind((local.ip(), port)).unwrap());
    }
    let error = socket::open_path(local, path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("51900"), "{error}");
}

/// Switches UDP checksums of the receiving port off or on, because the kernel cannot segment
/// without them.
fn set_no_check(link: &UdpLink, off: libc::c_int) {
    let fd = link.receiver.as_raw_fd();
    let len = size_of_val(&off) as u32;
    // SAFETY: the option's value is a live `c_int`.
    let done = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const off).cast(), len)
    };
    assert_eq!(done, 0);
}

fn degradations(link: &UdpLink, to: SocketAddr) -> Vec<Degradation> {
    let mut all = Vec::new();
    link.degradations(0, to, &mut all);
    all
}

#[test]
fn without_gso_datagrams_go_one_by_one_until_it_is_tried_again() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let to = b.local_addr();
    set_no_check(&a, 1);
    let bytes = pattern(9500);
    for round in 0..2 {
        assert_eq!(send(&mut a, to, Via::Port, 1000, &bytes), SendResult::Gone);
        let got = recv(&mut b, 10);
        assert!(got.iter().flat_map(|g| &g.bytes).eq(&bytes));
        let all = degradations(&a, to);
        let [Degradation::SegmentationRefused { rail: 0, to: ip, .. }] = all[..] else {
            panic!("in round {round}: {all:?}")
        };
        assert_eq!(ip, to.ip());
        a.fallbacks.retry_now();
    }
    set_no_check(&a, 0);
    assert_eq!(send(&mut a, to, Via::Port, 1000, &bytes), SendResult::Gone);
    assert!(recv(&mut b, 10).iter().flat_map(|got| &got.bytes).eq(&bytes));
    assert_eq!(degradations(&a, to), [], "the kernel segments again");
    assert_eq!(a.counters, UdpCounters::default());
}

#[test]
fn misfits_are_named() {
    let mut a = bind("127.0.0.1:0");
    let to = a.local_addr();
    let mut error = |via, segment_len, len| {
        let bytes = vec![0; len];
        let slices = [Slice::new(&bytes)];
        let error = a
            .send(&DatagramBatch { to: to.into(), via, segment_len, ecn: true, slices: &slices })
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(error(path(0), 10, 0).contains("0 bytes in 0 datagrams"));
    assert!(error(path(0), 0, 10).contains("10 bytes"));
    assert!(error(path(0), 10, 641).contains("65 datagrams"));
    assert!(error(path(0), 65_535, 65_508).contains("65508 bytes"));
    let batch = DatagramBatch {
        to: to.into(),
        via: Via::Port,
        segment_len: 2000,
        ecn: true,
        slices: &[Slice::new(&[0; 1600])],
    };
    let error = a.judge(io::Error::from_raw_os_error(libc::EMSGSIZE), &batch).unwrap_err();
    assert!(error.to_string().contains("a datagram of 1600 bytes does not fit"), "{error}");
}

#[test]
fn mtu_and_buffer_are_known() {
    let a = bind("[::]:0");
    // Loopback has an MTU of 65536.
    assert_eq!(a.max_datagram(pair("127.0.0.1:9")).unwrap(), MAX_BATCH);
    if has_ipv6() {
        assert_eq!(a.max_datagram(pair("[::1]:9")).unwrap(), 65_536 - 48);
    }
    assert!(a.caps().receive_buffer > 64 << 10);
    assert!(a.readiness().is_some());
}

#[test]
fn empty_and_single_datagrams_of_strangers_arrive() {
    let mut b = bind("127.0.0.1:0");
    let a = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.send_to(&[], b.local_addr()).unwrap();
    a.send_to(b"x", b.local_addr()).unwrap();
    let got = recv(&mut b, 2);
    assert_eq!((got[0].bytes.len(), got[1].bytes.len()), (0, 1));
}

#[test]
fn a_mebibyte_of_trains_arrives_without_loss() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let bytes = pattern(15 * 4156);
    let batches = MIB.min(b.caps().receive_buffer / 2) / bytes.len();
    for batch in 0..batches {
        assert_eq!(
            send(&mut a, b.local_addr(), path(batch as u16 % 4), 4156, &bytes),
            SendResult::Gone
        );
    }
    let got = recv(&mut b, batches * 15);
    for batch in got.chunks(15) {
        assert!(batch.iter().flat_map(|g| &g.bytes).eq(&bytes));
        assert!(batch.iter().all(|g| g.from == batch[0].from));
    }
    assert_eq!(b.counters, UdpCounters::default());
}

#[test]
fn datagrams_without_room_are_counted() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    b.receiver.set_recv_buffer_size(8192).unwrap();
    for _ in 0..100 {
        send(&mut a, b.local_addr(), path(0), 1000, &pattern(1000));
    }
    let mut got = 0;
    while b.recv(&mut |_| ()).unwrap() > 0 {
        got += 1;
    }
    send(&mut a, b.local_addr(), path(0), 10, b"late");
    recv(&mut b, 1);
    assert_eq!(b.counters.overflowed, 100 - got);
}

#[test]
fn a_path_reaches_several_peers_in_any_order() {
    let (mut a, mut b, mut c) = (bind("[::]:0"), bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let port = a_port(&mut a, 1, b.local.ip());
    for to_b in [true, true, true, false, true, false, false, false, true, true] {
        let peer = if to_b { &mut b } else { &mut c };
        assert_eq!(send(&mut a, peer.local_addr(), path(1), 100, b"for one"), SendResult::Gone);
        assert_eq!(recv(peer, 1)[0].from, SocketAddr::from(([127, 0, 0, 1], port)));
    }
    assert_eq!(b.recv(&mut |_| ()).unwrap() + c.recv(&mut |_| ()).unwrap(), 0);
}

#[test]
fn a_peer_that_comes_back_gets_the_first_train() {
    let (mut a, b) = (bind("[::]:0"), bind("127.0.0.1:0"));
    let to = b.local_addr();
    (0..3).for_each(|_| assert_eq!(send(&mut a, to, path(1), 100, b"here"), SendResult::Gone));
    drop(b);
    // The kernel learns that the port is closed and tells the connected socket.
    (0..2).for_each(|_| assert_eq!(send(&mut a, to, path(1), 100, b"gone"), SendResult::Gone));
    let mut b = bind(&to.to_string());
    send(&mut a, to, path(1), 100, b"back");
    assert_eq!(recv(&mut b, 1)[0].bytes, b"back");
    assert_eq!(a.counters, UdpCounters::default());
}

/// Every address of 127.0.0.0/8 belongs to this host. A routing table prefers 127.0.0.1.
#[test]
fn a_wildcard_is_answered_from_the_address_that_was_called() {
    for wildcard in ["0.0.0.0:0", "[::]:0"] {
        let Ok(mut server) = UdpLink::bind(wildcard.parse().unwrap(), 1 << 20) else { continue };
        let mut client = bind("127.0.0.1:0");
        for called in ["127.0.0.2", "127.0.0.3"] {
            send(&mut client, at(&server, called), Via::Port, 100, b"hello");
            let to = AddrPair { remote: client.local_addr(), local: called_of(&mut server) };
            assert_eq!(to.local.ip, Some(called.parse().unwrap()));
            let paths = [Via::Port, Via::Path(PathId::new(5)), Via::Path(PathId::new(5))];
            for via in paths {
                let slices = [Slice::new(&[7; 1200])];
                let batch = DatagramBatch { to, via, segment_len: 600, ecn: true, slices: &slices };
                assert_eq!(server.send(&batch).unwrap(), SendResult::Gone);
                let got = recv(&mut client, 2);
                assert!(got.iter().all(|got| got.from.ip() == to.local.ip.unwrap()), "{via:?}");
            }
        }
    }
}

/// The destination address of the next datagram.
fn called_of(link: &mut UdpLink) -> LocalAddr {
    let mut called = None;
    while called.is_none() {
        link.recv(&mut |received| called = Some(received.called)).unwrap();
    }
    called.unwrap()
}

#[test]
fn a_link_with_an_address_of_its_own_is_told_no_other() {
    let (mut a, mut b) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let to = b.local_addr();
    send(&mut a, to, Via::Port, 100, b"hello");
    assert_eq!(called_of(&mut b), LocalAddr::default());
    assert_eq!(a.pair(to), to.into());
    assert_eq!(a.interface.misrouting(to), None);
}
