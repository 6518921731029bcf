//! The content of a probe, and the matching of its answers.

use std::net::IpAddr;
use std::time::Instant;

use braid_wire::{Control, ControlKind, Packet, QpId, Token};

use crate::random;

/// Reserved by IBTA, so no engine has it. A PING for it is answered with UNKNOWN and leaves no
/// state.
const NOBODY: QpId = QpId::new(0);

/// The source of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// A router at which the probe's time to live ended.
    Router(IpAddr),
    /// The destination, whatever it answered.
    Destination,
    /// A router, or this machine, that reports the destination as unreachable.
    Refusal(IpAddr),
}

/// A PING with 64 random bits that identify its answer. Half of them are in the token, because an
/// UNKNOWN returns the token. Routers quote all of them.
pub(super) struct Probe {
    pub(super) ttl: u8,
    pub(super) sent: Instant,
    token: Token,
    bytes: Vec<u8>,
}

impl Probe {
    pub(super) fn new(ttl: u8) -> Self {
        Probe::with_nonce(ttl, random::number())
    }

    pub(super) fn with_nonce(ttl: u8, nonce: u64) -> Self {
        let token = Token((nonce >> 32) as u32);
        let mut bytes = Vec::new();
        let (qp, from, stamp) = (NOBODY, NOBODY, nonce as u32);
        Control { kind: ControlKind::Ping, qp, from, token, stamp }.encode(&mut bytes);
        Probe { ttl, sent: Instant::now(), token, bytes }
    }

    /// The bytes of the datagram.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether an ICMP message quotes this probe. Padding and extensions may follow (RFC 4884).
    pub(super) fn is_quoted_in(&self, quote: &[u8]) -> bool {
        quote.starts_with(&self.bytes)
    }

    /// Whether a datagram is an engine's answer to this probe.
    pub(super) fn is_answered_by(&self, datagram: &[u8]) -> bool {
        matches!(
            Packet::decode(datagram),
            Ok(Packet::Control(control))
                if control.kind == ControlKind::Unknown
                    && control.qp == NOBODY
                    && control.token == self.token
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(token: Token) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (qp, from) = (NOBODY, NOBODY);
        Control { kind: ControlKind::Unknown, qp, from, token, stamp: 0 }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn only_a_whole_quote_of_the_same_probe_counts() {
        let (probe, other) = (Probe::new(3), Probe::new(3));
        let padded = [probe.bytes(), &[0; 100]].concat();
        assert!(probe.is_quoted_in(probe.bytes()) && probe.is_quoted_in(&padded));
        assert!(!probe.is_quoted_in(other.bytes()));
        assert!(!probe.is_quoted_in(&probe.bytes()[..39]) && !probe.is_quoted_in(&[]));
    }

    #[test]
    fn only_an_unknown_with_the_probes_token_answers_it() {
        let probe = Probe::new(64);
        assert!(probe.is_answered_by(&unknown(probe.token)));
        assert!(!probe.is_answered_by(&unknown(Token(!probe.token.0))));
        assert!(!probe.is_answered_by(probe.bytes()), "an echo server is no engine");
        assert!(!probe.is_answered_by(b"hello") && !probe.is_answered_by(&[]));
    }
}
