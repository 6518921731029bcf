//! The datagrams of rdma_cm, by hand (`ibverbs/src/messages/datagram.rs`).

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const HELLO: u8 = 1;
const COOKIE: u8 = 2;
const OPEN: u8 = 3;
const DATA: u8 = 4;
const CLOSE: u8 = 5;
/// Bytes before the message of `DATA`. `OPEN` has a cookie before the message.
const HEAD: usize = 24;

/// One end of a link.
pub struct Speaker(pub UdpSocket, u64);

fn datagram(kind: u8, link: u64, numbers: [u32; 2], rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"BrMs".to_vec();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(&link.to_be_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
    bytes.extend_from_slice(rest);
    bytes
}

impl Speaker {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        // The port serves as a unique number.
        let link = socket.local_addr().expect("an address").port().into();
        Speaker(socket, link)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    fn hear(&self) -> (Vec<u8>, SocketAddr) {
        let mut bytes = [0; 2000];
        let (len, from) = self.0.recv_from(&mut bytes).expect("it is told");
        (bytes[..len].to_vec(), from)
    }

    /// Opens a link to a listener with this message.
    pub fn open(&self, port: u16, message: &[u8]) {
        let to = ("127.0.0.1", port);
        self.0.send_to(&datagram(HELLO, self.1, [0; 2], &[0; 8]), to).expect("there is room");
        let (answer, _) = self.hear();
        assert_eq!(answer[4], COOKIE);
        let rest = [&answer[HEAD..], message].concat();
        self.0.send_to(&datagram(OPEN, self.1, [0; 2], &rest), to).expect("there is room");
    }

    /// The kind of the next datagram that is neither an acknowledgement nor a probe.
    pub fn hears_end(&self) -> bool {
        loop {
            match self.hear().0[4] {
                DATA => return false,
                CLOSE => return true,
                _ => {}
            }
        }
    }

    /// Accepts a link, answers its first message with this one, and closes.
    pub fn answer(&self, message: &[u8]) {
        loop {
            let (heard, from) = self.hear();
            let link = u64::from_be_bytes(heard[8..16].try_into().expect("8 bytes"));
            let answers = match heard[4] {
                HELLO => vec![datagram(COOKIE, link, [0; 2], &[7; 8])],
                OPEN => {
                    vec![datagram(DATA, link, [0, 1], message), datagram(CLOSE, link, [1, 1], &[])]
                }
                _ => continue,
            };
            answers.iter().for_each(|bytes| _ = self.0.send_to(bytes, from));
            if heard[4] == OPEN {
                return;
            }
        }
    }
}
