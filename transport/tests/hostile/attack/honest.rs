//! Traffic between the victim and an honest peer during the attack: SENDs both ways, and WRITEs
//! that are READ back.

use braid_transport::{RemoteAddr, SendOp, Status, Work};
use braid_wire::Time;

use super::host::{Ended, Host};
use super::memory::BUFFER;

/// Receives that are always posted.
const RECEIVES: usize = 4;

/// Counts of the messages that one side of a connection has sent and received.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent: u64,
    delivered: u64,
    received: u64,
    /// WRITEs and the READs that follow them.
    written: u64,
    read: u64,
}

/// The honest connections; side 0 is the victim's.
#[derive(Debug)]
pub(crate) struct Honest {
    counts: Vec<[Count; 2]>,
}

impl Honest {
    pub(crate) fn new(pairs: usize) -> Self {
        Honest { counts: vec![Default::default(); pairs] }
    }

    /// Keeps a SEND under way in each direction, and a WRITE with the READ that has to find it.
    pub(crate) fn post(&mut self, now: Time, victim: &mut Host, honest: &mut Host) {
        for pair in 0..self.counts.len() {
            for (side, host) in [&mut *victim, &mut *honest].into_iter().enumerate() {
                while host.receives(pair) < RECEIVES {
                    host.post_recv(now, pair, BUFFER);
                }
                let count = &mut self.counts[pair][side];
                if count.sent == count.delivered {
                    let bytes = pattern(pair, side, count.sent);
                    let buffer = host.memory.lend_source(&bytes).expect("a buffer");
                    count.sent += 1;
                    assert!(host.post_send(now, pair, SendOp::Send { imm: None }, buffer));
                }
            }
            // Each connection has a part of the honest side's memory for itself.
            let target = honest.memory.target;
            let remote = RemoteAddr { addr: target.addr + pair as u64 * 1024, rkey: target.key };
            let count = &mut self.counts[pair][0];
            if count.written == count.read {
                count.written += 1;
                let bytes = pattern(pair, 2, count.written);
                let source = victim.memory.lend_source(&bytes).expect("a buffer");
                let landing = victim.memory.lend_landing(bytes.len() as u32).expect("a buffer");
                let write = SendOp::Write { remote, imm: None };
                assert!(victim.post_send(now, pair, write, source));
                assert!(victim.post_send(now, pair, SendOp::Read { remote }, landing));
            }
        }
    }

    /// A work request has ended on one side: well, and with the right bytes.
    pub(crate) fn check(&mut self, side: usize, ended: &Ended) {
        let Ended { pair, completion, bytes } = ended;
        assert_eq!(completion.status, Status::Success, "{completion:?} of an honest connection");
        let counts = &mut self.counts[*pair];
        match completion.work {
            Work::Send => counts[side].delivered += 1,
            Work::Recv => {
                let expected = pattern(*pair, 1 - side, counts[side].received);
                assert_eq!(*bytes, expected, "honest bytes have changed");
                counts[side].received += 1;
            }
            Work::Read => {
                let expected = pattern(*pair, 2, counts[side].written);
                assert_eq!(*bytes, expected, "a READ finds something else than was written");
                counts[side].read += 1;
            }
            _ => {}
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.counts.iter().all(|[a, b]| {
            let told =
                |from: &Count, to: &Count| from.sent == from.delivered && from.sent == to.received;
            told(a, b) && told(b, a) && a.written == a.read
        })
    }
}

/// The bytes of a message.
fn pattern(pair: usize, stream: usize, index: u64) -> Vec<u8> {
    let seed = index.wrapping_mul(31) + (pair * 7 + stream) as u64;
    let len = 1 + seed * 37 % u64::from(BUFFER);
    (0..len).map(|i| (seed + i * 13) as u8).collect()
}
