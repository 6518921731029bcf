//! The greeting: the first bytes of a connection, from the end that opens it.

use braid_wire::{MAX_PATHS, PathId};

use super::closing::Closed;
use crate::link::Via;

/// Bytes of a greeting.
pub(super) const GREETING_LEN: usize = 24;
/// Bytes that begin every greeting, so that a stranger on the port is recognized by its first ones.
const MAGIC: [u8; 8] = *b"BRAIDTCP";
/// The version of the framing. The packets inside have a version of their own.
const VERSION: u16 = 1;
/// The path number of a connection that carries what takes no path.
const NO_PATH: u16 = u16::MAX;

/// The opener's description of itself and of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    /// The path of the connection.
    pub(super) via: Via,
    /// The port at which the opener accepts connections, which identifies it on its host.
    pub(super) port: u16,
    /// The traffic class (DSCP and ECN bits of zero) of both directions.
    pub(super) traffic_class: u8,
    /// A random number of the opener's datapath. A restarted opener has another one.
    pub(super) instance: u64,
}

impl Greeting {
    pub(super) fn encode(&self) -> [u8; GREETING_LEN] {
        let path = match self.via {
            Via::Port => NO_PATH,
            Via::Path(path) => path.get(),
        };
        let mut bytes = [0; GREETING_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10..12].copy_from_slice(&path.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.port.to_be_bytes());
        bytes[14] = self.traffic_class;
        bytes[16..].copy_from_slice(&self.instance.to_be_bytes());
        bytes
    }

    /// Decodes the first bytes of a connection. `None`: more have to come.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, Closed> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(Closed::NotBraid);
        }
        let Some(bytes) = bytes.first_chunk::<GREETING_LEN>() else { return Ok(None) };
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if number(8) != VERSION {
            return Err(Closed::Version { theirs: number(8), ours: VERSION });
        }
        let via = match number(10) {
            NO_PATH => Via::Port,
            path if usize::from(path) < MAX_PATHS => Via::Path(PathId::new(path)),
            path => return Err(Closed::Path { path }),
        };
        let instance = bytes.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        Ok(Some(Greeting {
            via,
            port: number(12),
            traffic_class: bytes[14],
            instance: instance.unwrap_or_default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_survive_the_journey() {
        for via in [Via::Port, Via::Path(PathId::new(0)), Via::Path(PathId::new(4095))] {
            let greeting = Greeting { via, port: 4791, traffic_class: 0x68, instance: 1 << 63 | 7 };
            let bytes = greeting.encode();
            assert_eq!(Greeting::decode(&bytes).unwrap(), Some(greeting));
            for len in 0..GREETING_LEN {
                assert_eq!(Greeting::decode(&bytes[..len]).unwrap(), None, "{len}");
            }
        }
    }

    #[test]
    fn strangers_are_recognized_by_their_first_bytes() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0", b"\0", b"BRAIDTCX", b"BRAID/UDP"] {
            assert!(matches!(Greeting::decode(bytes), Err(Closed::NotBraid)), "{bytes:?}");
        }
        let whole = Greeting { via: Via::Port, port: 1, traffic_class: 0, instance: 0 }.encode();
        let with = |at: usize, value: u8| {
            let mut bytes = whole;
            bytes[at] = value;
            Greeting::decode(&bytes)
        };
        assert!(matches!(with(9, 2), Err(Closed::Version { theirs: 2, ours: 1 })));
        assert!(matches!(with(10, 0x10), Err(Closed::Path { path: 0x10FF })));
    }
}
