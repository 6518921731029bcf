//! Packets in parts, of all queue pairs of a worker, and the memory that they may use.

use std::collections::HashMap;

use braid_wire::{MAX_DATA_HEADER_LEN, Part, QpId};

use crate::parts::{OPEN, Parts};

/// The number of queue pairs that may have [`OPEN`] incomplete packets each. Later ones have one.
/// So a peer that begins packets and never ends them occupies one packet for each connection. The
/// packets of other connections still get through, because the parts of a packet leave one after
/// the other and arrive in that order on one path.
const MANY: usize = 32;

/// The incomplete packets by queue pair. Queue pairs without any have no entry.
#[derive(Default)]
pub(crate) struct Reassembly {
    incomplete: HashMap<QpId, Parts>,
}

impl Reassembly {
    /// Takes a part of a packet. The queue pair's packets carry up to `mtu` bytes of payload and
    /// are cut every `part_len` bytes. Returns the packet if the part completes it.
    pub(crate) fn take(
        &mut self,
        part: &Part,
        bytes: &[u8],
        part_len: usize,
        mtu: u16,
    ) -> Option<Vec<u8>> {
        let open = if self.incomplete.len() < MANY { OPEN } else { 1 };
        let longest = MAX_DATA_HEADER_LEN + usize::from(mtu);
        let parts = self.incomplete.entry(part.qp).or_insert_with(|| Parts::new(open, longest));
        let whole = parts.take(part, bytes, part_len).map(<[u8]>::to_vec);
        if parts.is_empty() {
            self.incomplete.remove(&part.qp);
        }
        whole
    }

    /// Drops the incomplete packets of this queue pair.
    pub(crate) fn forget(&mut self, id: QpId) {
        self.incomplete.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use braid_wire::{PART_LEN, Token};

    use super::*;

    const MTU: u16 = 8928;

    fn part(qp: u32, serial: u32, index: u8, count: u8) -> Part {
        Part { qp: QpId::new(qp), token: Token(1), psn: 0, serial, index, count }
    }

    fn held(reassembly: &Reassembly) -> usize {
        reassembly.incomplete.values().map(Parts::held).sum()
    }

    #[test]
    fn connections_that_never_end_their_packets_hold_one_each() {
        const LIARS: u32 = 2000;
        let mut reassembly = Reassembly::default();
        for serial in 0..64 {
            for qp in 0..LIARS {
                reassembly.take(&part(qp, serial, 0, 8), &[1; PART_LEN], PART_LEN, MTU);
            }
        }
        let packet = 8 * PART_LEN;
        let most = (MANY * OPEN + LIARS as usize) * packet;
        assert!(held(&reassembly) <= most, "{} bytes, at most {most}", held(&reassembly));
        let whole = (0..8)
            .filter_map(|index| {
                reassembly.take(&part(LIARS, 0, index, 8), &[2; PART_LEN], PART_LEN, MTU)
            })
            .collect::<Vec<_>>();
        assert_eq!(whole, [vec![2; packet]], "an honest connection gets its packet through");
        for qp in 0..LIARS {
            reassembly.forget(QpId::new(qp));
        }
        assert_eq!(held(&reassembly), 0);
    }

    #[test]
    fn no_packet_is_longer_than_what_was_agreed_on() {
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.take(&part(1, 0, 0, 9), &[1; PART_LEN], PART_LEN, MTU), None);
        assert_eq!(held(&reassembly), 0);
    }

    #[test]
    fn nothing_is_kept_of_what_is_complete() {
        let mut reassembly = Reassembly::default();
        assert!(reassembly.take(&part(1, 0, 0, 2), &[1; PART_LEN], PART_LEN, MTU).is_none());
        assert!(reassembly.take(&part(1, 0, 1, 2), &[1; 7], PART_LEN, MTU).is_some());
        assert_eq!(held(&reassembly), 0);
    }
}
