//! Queue pair numbers that lead to their process. The high 12 bits name the UDP port at which its
//! engine receives. The low 12 bits count its queue pairs. A process claims a port by binding to
//! it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use braid::{Engine, EngineConfig, EngineError};
use braid_verbs::abi::ibv_gid;

use crate::gid;
use crate::peer::Peer;

/// The base of the ports, which nobody binds. All of them lie below the ports that Linux assigns to
/// sockets.
const FIRST_PORT: u16 = 20480;
/// Engines of a host address, and queue pairs of an engine.
const COUNT: u32 = 1 << 12;
/// The largest number: numbers have 24 bits.
pub(crate) const MAX_NUMBER: u32 = 0xFF_FFFF;
/// Queue pairs of a context, at most.
pub(crate) const MAX_QPS: u32 = COUNT - 1;

/// The address at which the owner of a queue pair number receives, on the host of this address.
/// `None`: no engine has such a number.
fn owner(number: u32, host: IpAddr) -> Option<SocketAddr> {
    let slot = number >> 12;
    (1..COUNT).contains(&slot).then(|| SocketAddr::new(host, FIRST_PORT + slot as u16))
}

/// The address at which the process of the other end receives. `None`: no process has such a
/// number.
pub(crate) fn address(peer: &Peer) -> Option<SocketAddr> {
    owner(peer.number, gid::address(&ibv_gid { raw: peer.gid })?)
}

/// Starts an engine at a port that no other process has. Returns it with the number of the port.
/// The search begins at random, so that a port is not soon used by another process.
///
/// # Errors
/// An error of the engine, unless it is that the port is taken; or all ports are taken.
pub(crate) fn claim(config: &EngineConfig, host: IpAddr) -> Result<(Engine, u32), EngineError> {
    let start = RandomState::new().hash_one(std::process::id()) as u32;
    let mut last = None;
    for step in 0..COUNT {
        let slot = start.wrapping_add(step) % COUNT;
        let Some(bind) = owner(slot << 12, host) else { continue };
        match Engine::new(EngineConfig { bind, ..config.clone() }) {
            Ok(engine) => return Ok((engine, slot)),
            Err(error) if is_taken(&error) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("there are ports to try"))
}

fn is_taken(error: &EngineError) -> bool {
    matches!(error, EngineError::Bind { source, .. } if source.kind() == ErrorKind::AddrInUse)
}

/// The numbers of one engine. A number that was given back waits until all others have been used.
pub(crate) struct Numbers {
    slot: u32,
    next: u32,
    free: VecDeque<u32>,
}

impl Numbers {
    pub(crate) fn new(slot: u32) -> Self {
        Numbers { slot, next: 0, free: VecDeque::new() }
    }

    /// Takes a number. `None`: all numbers are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.next == MAX_QPS {
            return self.free.pop_front();
        }
        self.next += 1;
        Some(self.slot << 12 | self.next)
    }

    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.push_back(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_the_port_and_come_back_last() {
        let mut numbers = Numbers::new(7);
        let host = IpAddr::from([10, 0, 0, 1]);
        let taken: Vec<u32> = std::iter::from_fn(|| numbers.take()).collect();
        assert_eq!(taken.len(), MAX_QPS as usize);
        let at = SocketAddr::new(host, FIRST_PORT + 7);
        assert!(taken.iter().all(|number| owner(*number, host) == Some(at)));
        numbers.give_back(taken[5]);
        numbers.give_back(taken[9]);
        assert_eq!(
            [numbers.take(), numbers.take(), numbers.take()],
            [Some(taken[5]), Some(taken[9]), None]
        );
        for nobody in [0, 1, 0xFFF, 1 << 24] {
            assert_eq!(owner(nobody, host), None);
        }
    }
}
