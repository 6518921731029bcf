//! The frames that an AF_XDP socket may receive, for a fuzz target.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::frame::{self, HEADERS};

const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 9, 9, 9), 4791);

/// Reads `input` as a frame, first unchanged, and then with valid address, port and checksums.
///
/// # Panics
/// Panics if the datagram that was read is not the end of the frame, padding aside.
pub fn ethernet_frame(input: &[u8]) {
    let mut frame = input.to_vec();
    check(&frame);
    if frame.len() >= HEADERS {
        frame[30..34].copy_from_slice(&TO.ip().octets());
        frame[36..38].copy_from_slice(&TO.port().to_be_bytes());
        frame::repair(&mut frame);
        check(&frame);
    }
}

fn check(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    if let Some(received) = frame::read(&mut frame, TO) {
        assert!(received.bytes.len() <= bytes.len() - HEADERS);
        assert_eq!(received.bytes, &bytes[HEADERS..HEADERS + received.bytes.len()]);
    }
}
