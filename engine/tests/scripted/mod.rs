//! An end of a connection whose packets the test scripts, over a socket of its own.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::RefCell;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use braid_wire::{
    Ack, Bitmap, Connect, Control, ControlKind, Crc, Hello, Marks, Offer, Packet, PathId, QpId,
    Routing, Setup, Stream, Token,
};

/// Time after which a test considers an answer lost.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Scripted {
    socket: UdpSocket,
    /// Nonces of the CONNECTs that [`Scripted::hear_connect`] has returned.
    heard: RefCell<Vec<u64>>,
}

/// A received value and its source.
pub(crate) struct Heard<T> {
    pub(crate) what: T,
    pub(crate) from: SocketAddr,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    pub(crate) fn at(addr: SocketAddr) -> Self {
        let socket = UdpSocket::bind(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Scripted { socket, heard: RefCell::default() }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub(crate) fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.socket.send_to(bytes, to).unwrap();
    }

    pub(crate) fn send_setup(&self, to: SocketAddr, setup: &Setup) {
        let mut bytes = Vec::new();
        setup.encode(&mut bytes);
        self.send(to, &bytes);
    }

    pub(crate) fn send_control(&self, to: SocketAddr, control: Control) {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        self.send(to, &bytes);
    }

    /// Receives packets until `pick` accepts one.
    pub(crate) fn hear<T>(&self, mut pick: impl FnMut(Packet<'_>) -> Option<T>) -> Heard<T> {
        let mut bytes = [0; 2048];
        loop {
            let (len, from) = self.socket.recv_from(&mut bytes).expect("an answer");
            let packet = Packet::decode(&bytes[..len]).expect("a packet of Braid's");
            if let Some(what) = pick(packet) {
                return Heard { what, from };
            }
        }
    }

    pub(crate) fn hear_setup(&self) -> Heard<Setup> {
        self.hear(|packet| match packet {
            Packet::Setup(setup) => Some(setup),
            _ => None,
        })
    }

    pub(crate) fn hear_accept(&self) -> Heard<Connect> {
        self.hear(|packet| match packet {
            Packet::Setup(Setup::Accept(accept)) => Some(accept),
            Packet::Setup(other) => panic!("not an ACCEPT: {other:?}"),
            _ => None,
        })
    }

    pub(crate) fn hear_control(&self, kind: ControlKind) -> Heard<Control> {
        self.hear(|packet| match packet {
            Packet::Control(control) if control.kind == kind => Some(control),
            _ => None,
        })
    }

    pub(crate) fn hear_disconnect(&self) -> Heard<Control> {
        self.hear(|packet| match packet {
            Packet::Control(control) if matches!(control.kind, ControlKind::Disconnect(_)) => {
                Some(control)
            }
            _ => None,
        })
    }

    /// Answers HELLOs until the CONNECT of another attempt arrives.
    pub(crate) fn hear_connect(&self) -> Heard<Connect> {
        loop {
            let Heard { what, from } = self.hear_setup();
            match what {
                Setup::Hello(Hello { nonce, len }) => {
                    self.send_setup(from, &Setup::Cookie { nonce, cookie: 1, key_id: 0, len });
                }
                Setup::Connect(what) if !self.heard.borrow().contains(&what.nonce) => {
                    self.heard.borrow_mut().push(what.nonce);
                    return Heard { what, from };
                }
                _ => {}
            }
        }
    }

    /// Accepts with this queue pair and token.
    pub(crate) fn accept(&self, connect: &Heard<Connect>, qp: QpId, token: Token) {
        let nonce = connect.what.nonce;
        self.send_setup(connect.from, &Setup::Accept(answer(nonce, 0, qp, token)));
    }

    /// Requests a cookie and returns it in a CONNECT with this queue pair and token.
    pub(crate) fn connect(&self, to: SocketAddr, nonce: u64, qp: QpId, token: Token) -> Connect {
        self.connect_with(to, nonce, qp, token, |_| {})
    }

    /// Sends a modified CONNECT, see [`Scripted::connect`].
    pub(crate) fn connect_with(
        &self,
        to: SocketAddr,
        nonce: u64,
        qp: QpId,
        token: Token,
        change: impl FnOnce(&mut Connect),
    ) -> Connect {
        self.send_setup(to, &Setup::Hello(Hello { nonce, len: 64 }));
        let cookie = self.hear(|packet| match packet {
            Packet::Setup(Setup::Cookie { cookie, .. }) => Some(cookie),
            _ => None,
        });
        let mut connect = answer(nonce, cookie.what, qp, token);
        change(&mut connect);
        self.send_setup(to, &Setup::Connect(connect.clone()));
        connect
    }
}

/// An acknowledgement of no request: nothing has arrived, up to PSN 0.
pub(crate) fn ack(qp: QpId, token: Token) -> Ack {
    Ack {
        qp,
        token,
        stream: Stream::Requests,
        cumulative: 0,
        highest: 0,
        nak: None,
        rnr_delay_us: 0,
        path: PathId::new(0),
        stamp: 0,
        delay_ns: 0,
        received: 0,
        duplicates: 0,
        bitmap: Bitmap::new(Default::default()),
        marks: Marks::default(),
    }
}

/// A CONNECT or an ACCEPT.
pub(crate) fn answer(nonce: u64, cookie: u64, qp: QpId, token: Token) -> Connect {
    let offer = Offer {
        qp,
        token,
        psn: 0,
        instance: 1,
        mtu: 1024,
        receive_buffer: 1 << 20,
        window: 4096,
        max_rd_atomic: 16,
        crc: Crc::On,
        grants_credit: true,
    };
    Connect { nonce, cookie, offer, private_data: Vec::new(), routing: Routing::default() }
}
