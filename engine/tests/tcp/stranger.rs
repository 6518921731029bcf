//! A stranger on the port of an engine: a TCP connection that sends what it likes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::pair::{PATIENCE, Pair, local};
use braid::{Datapath, EngineConfig, wr};

pub(crate) fn pair() -> Pair {
    Pair::new(&EngineConfig { datapath: Datapath::Tcp, paths: 2, ..local() })
}

pub(crate) fn stranger(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// The greeting of an engine at `port` for set-up packets.
pub(crate) fn greeting(port: u16) -> Vec<u8> {
    let mut bytes = b"BRAIDTCP\0\x01\xff\xff".to_vec();
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&7u64.to_be_bytes());
    bytes
}

/// Whether the engine has ended the connection without a word.
pub(crate) fn is_ended(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

pub(crate) fn transfer(p: &Pair, round: u8) {
    let bytes = vec![round; 300_000];
    p.a.memory.write_at(0, &bytes).unwrap();
    let piece = p.a.memory.slice(..bytes.len()).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    assert!(p.b.bytes(0..bytes.len()) == bytes, "round {round}");
}
