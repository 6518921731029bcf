use super::bpf::Instruction;
use super::program::{XDP_PASS, XDP_REDIRECT, program};
use super::*;
use crate::link::udp::TrafficClass;

const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 0xC007);
const MAC: Mac = [4, 5, 6, 7, 8, 9];
const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(200, 9, 0, 2), 47910);

/// A frame that carries a datagram.
fn frame_of(datagram: &[u8]) -> Vec<u8> {
    frame_from(FROM, datagram)
}

fn frame_from(source: SocketAddrV4, datagram: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADERS];
    frame.extend_from_slice(datagram);
    let traffic_class = TrafficClass { is_ipv4: true, dscp: 0, ecn: true };
    let ends = Ends { source_mac: [2; 6], target_mac: MAC, source, target: TO, traffic_class };
    frame::write_headers(&mut frame, &ends);
    frame
}

fn datagram_of(frame: &[u8]) -> Option<(SocketAddr, bool, Vec<u8>)> {
    let mut frame = frame.to_vec();
    let received = frame::read(&mut frame, TO)?;
    Some((received.from, received.congestion, received.bytes.to_vec()))
}

#[test]
fn a_written_frame_is_read() {
    for len in [0, 1, 2, 3, 8, 61, 1199, 1200] {
        let datagram: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
        let frame = frame_of(&datagram);
        let read = Some((FROM.into(), false, datagram));
        assert_eq!(datagram_of(&frame), read);
        assert_eq!(datagram_of(&[&frame[..], &[9; 18]].concat()), read, "padding is none of it");
    }
}

#[test]
fn headers_are_those_of_the_standards() {
    let frame = frame_of(b"12345678");
    #[rustfmt::skip]
    let expected: [u8; HEADERS] = [
        4, 5, 6, 7, 8, 9, 2, 2, 2, 2, 2, 2, 0x08, 0x00,
        0x45, 0x02, 0, 36, 0, 0, 0x40, 0, 64, 17, 0x68, 0xb2, 10, 9, 0, 1, 200, 9, 0, 2,
        0xC0, 0x07, 0xBB, 0x26, 0, 16, 0xE1, 0xB5,
    ];
    assert_eq!(frame[..HEADERS], expected);
}

#[test]
fn no_flipped_bit_and_no_lost_byte_is_overlooked() {
    let whole = frame_of(b"a datagram of odd length.");
    for bit in 12 * 8..whole.len() * 8 {
        let mut frame = whole.clone();
        frame[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(datagram_of(&frame), None, "bit {bit}");
    }
    for len in 0..whole.len() {
        assert_eq!(datagram_of(&whole[..len]), None, "{len} bytes");
    }
}

/// A frame with a changed IP header and a corrected checksum.
fn with_ip(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut frame = frame_of(b"datagram");
    change(&mut frame[14..34]);
    frame[24..26].fill(0);
    let words =
        frame[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum >> 16) + (sum & 0xffff);
    let check = !((folded >> 16) + (folded & 0xffff)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame
}

/// Frames that are not for this socket, whatever their checksums, with the reason.
fn others() -> Vec<(&'static str, Vec<u8>)> {
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = frame_of(b"datagram");
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    vec![
        ("IPv6", with(12, &[0x86, 0xdd])),
        ("IP options", with_ip(|ip| ip[0] = 0x46)),
        ("more fragments", with_ip(|ip| ip[6] = 0x20)),
        ("a later fragment", with_ip(|ip| ip[7] = 1)),
        ("TCP", with_ip(|ip| ip[9] = 6)),
        ("another address", with_ip(|ip| ip[19] = 3)),
        ("another port", with(36, &[1, 1])),
        ("no checksum", with(40, &[0, 0])),
    ]
}

#[test]
fn frames_for_others_are_not_read() {
    for (what, frame) in others() {
        assert_eq!(datagram_of(&frame), None, "{what}");
    }
    assert!(datagram_of(&with_ip(|_| ())).is_some());
}

#[test]
fn a_source_that_is_no_other_host_is_not_believed() {
    for source in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], TO.ip().octets()] {
        // The UDP checksum stays valid, so only the source is wrong.
        let from = SocketAddrV4::new(source.into(), 1);
        assert_eq!(datagram_of(&frame_from(from, b"datagram")), None, "{from}");
    }
}

#[test]
fn a_datagram_says_how_long_it_is_twice() {
    for longer in [with_ip(|ip| ip[3] += 1), with_ip(|ip| ip[3] -= 1), with_ip(|ip| ip[3] = 27)] {
        assert_eq!(datagram_of(&longer), None);
    }
}

#[test]
fn a_congestion_mark_is_seen() {
    let marked = with_ip(|ip| ip[1] |= 0b11);
    assert_eq!(datagram_of(&marked), Some((FROM.into(), true, b"datagram".to_vec())));
}

/// The program, with a socket for queue 0. `None`: this process may not load it and is not root.
fn loaded() -> Option<(OwnedFd, [OwnedFd; 2])> {
    let result = Xsk::open().map_err(|refused| refused.source).and_then(|xsk| {
        let map = bpf::create_socket_map(1)?;
        bpf::set_socket(map.as_fd(), 0, xsk.as_fd())?;
        let code: Vec<Instruction> = program(MAC, TO, map.as_fd());
        Ok((bpf::load(&code)?, [map, xsk.as_fd().try_clone_to_owned()?]))
    });
    // SAFETY: it has no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    match result {
        Err(error) if !is_root && error.raw_os_error() == Some(libc::EPERM) => None,
        result => Some(result.expect("root may, and this kernel has AF_XDP")),
    }
}

#[test]
fn the_program_takes_short_datagrams_for_us_and_nothing_else() {
    let Some((program, _kept)) = loaded() else { return };
    let verdict = |frame: &[u8]| bpf::test_run(program.as_fd(), frame).expect("it runs");
    for len in [0, 1, 8, 80, LONGEST] {
        assert_eq!(verdict(&frame_of(&vec![7; len])), XDP_REDIRECT, "{len} bytes");
    }
    assert_eq!(verdict(&frame_of(&[7; LONGEST + 1])), XDP_PASS);
    assert_eq!(verdict(&with_ip(|ip| ip[1] |= 0b11)), XDP_REDIRECT, "congestion marks are let by");
    for (what, frame) in others() {
        assert_eq!(verdict(&frame), XDP_PASS, "{what}");
    }
    let whole = frame_of(b"");
    for len in 14..whole.len() {
        assert_eq!(verdict(&whole[..len]), XDP_PASS, "{len} bytes");
    }
}

#[test]
fn the_program_leaves_frames_for_other_hosts_to_the_stack() {
    let Some((program, _kept)) = loaded() else { return };
    for byte in 0..6 {
        let mut frame = frame_of(b"datagram");
        frame[byte] ^= 1;
        let verdict = bpf::test_run(program.as_fd(), &frame).expect("it runs");
        assert_eq!(verdict, XDP_PASS, "byte {byte}");
    }
}

#[test]
fn possible_gso_batches_are_left_to_the_stack() {
    let Some((program, _kept)) = loaded() else { return };
    for addresses in 0..200u8 {
        // The stack leaves the sum of the pseudo-header for the card to complete.
        let mut frame = with_ip(|ip| (ip[12], ip[15]) = (addresses, 255 - addresses));
        let words =
            frame[26..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum::<u32>() + 17 + 16;
        let folded = (sum >> 16) + (sum & 0xffff);
        frame[40..42].copy_from_slice(&(folded as u16).to_be_bytes());
        assert_eq!(bpf::test_run(program.as_fd(), &frame).expect("it runs"), XDP_PASS);
    }
}

fn refused(bind: &str) -> XdpSetupError {
    let sockets = UdpLink::bind(bind.parse().expect("an address"), 1 << 16).expect("sockets");
    XdpLink::join(sockets).err().expect("there is no AF_XDP there")
}

#[test]
fn an_address_has_to_be_that_of_an_ethernet_interface() {
    for bind in ["0.0.0.0:0", "[::]:0", "[::1]:0"] {
        assert!(matches!(refused(bind), XdpSetupError::Address { .. }), "{bind}");
    }
    let loopback = refused("127.0.0.1:0");
    assert!(matches!(loopback, XdpSetupError::NotEthernet { .. }), "{loopback}");
    assert!(loopback.to_string().contains("lo, which has the address 127.0.0.1"), "{loopback}");
}

#[test]
fn refusals_of_the_system_are_classified() {
    let of = |code| XdpSetupError::of("a step", io::Error::from_raw_os_error(code));
    assert!(matches!(of(libc::EPERM), XdpSetupError::Privilege { .. }));
    assert!(matches!(of(libc::ENOBUFS), XdpSetupError::Locked { .. }));
    assert!(matches!(of(libc::EAFNOSUPPORT), XdpSetupError::Unsupported { .. }));
    assert!(matches!(of(libc::EIO), XdpSetupError::System { .. }));
}
