//! Small books beside a queue pair, against which what it sends is checked.

use std::collections::{HashMap, HashSet};

use braid_wire::{Ack, DataHeader, Opcode, Stream};

const PSNS: u32 = 1 << 24;

/// PSNs that were taken in, by stream. No scenario is long enough for a PSN to come twice.
#[derive(Default)]
pub(crate) struct Arrivals {
    taken: [HashSet<u32>; 2],
    received: [u32; 2],
}

impl Arrivals {
    pub(crate) fn take(&mut self, header: &DataHeader) {
        let stream = usize::from(header.opcode.is_response());
        assert!(self.taken[stream].insert(header.psn), "PSN {} is taken twice", header.psn);
        self.received[stream] += 1;
    }

    /// An ack tells exactly what was taken. `first`: the PSN that the stream began with.
    pub(crate) fn check(&self, ack: &Ack, first: u32) {
        let taken = &self.taken[usize::from(ack.stream == Stream::Responses)];
        let at = |ahead: u32| (ack.cumulative + ahead) % PSNS;
        let below = (ack.cumulative + PSNS - first) % PSNS;
        assert!(!taken.contains(&ack.cumulative), "a cumulative PSN that has arrived");
        assert!(below == 0 || taken.contains(&at(PSNS - 1)), "acknowledges what has not arrived");
        let ones: HashSet<u32> = ack.bitmap.ones().map(|ahead| at(ahead as u32)).collect();
        assert_eq!(ones.len(), taken.len() - below as usize, "the bitmap of {ack:?}");
        assert!(ones.is_subset(taken), "the bitmap of {ack:?}");
    }
}

/// Sent READs and atomics by number, and the missing bytes of each response.
#[derive(Default)]
pub(crate) struct Questions {
    open: HashMap<u32, u32>,
    /// Numbers that were sent. A flag in the header cannot replace them: a segment that counted as
    /// lost before it left is a retransmission the first time.
    sent: HashSet<u32>,
}

impl Questions {
    /// The peer serves only `most` at a time.
    pub(crate) fn ask(&mut self, header: &DataHeader, most: u8) {
        use Opcode::{CompareSwap, FetchAdd, ReadRequest};
        let asks = matches!(header.opcode, ReadRequest | CompareSwap | FetchAdd);
        if !asks {
            return;
        }
        if !self.sent.insert(header.number) {
            assert!(header.retransmission, "a number is used twice");
            return;
        }
        assert!(
            self.open.len() < usize::from(most),
            "more than {most} READs and atomics at a time"
        );
        let missing = if header.opcode == ReadRequest { header.message_len } else { 0 };
        self.open.insert(header.number, missing);
    }

    pub(crate) fn answer(&mut self, header: &DataHeader) {
        if header.opcode.is_response() {
            let missing = self.open.get_mut(&header.number).expect("an answer to a question");
            *missing -= u32::from(header.len);
            if *missing == 0 {
                self.open.remove(&header.number);
            }
        }
    }
}
