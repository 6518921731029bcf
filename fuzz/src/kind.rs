//! Which bits of each kind of packet mean something. The others are reserved: decoders ignore them
//! and encoders send zero, so bytes with such bits set do not come back as they were.

use std::ops::Range;

use braid_wire::{DATA_HEADER_LEN, Opcode};

/// A kind of packet.
pub struct Kind {
    opcodes: &'static [Opcode],
    /// Bytes of which only the bits of the mask mean something.
    masks: &'static [(Range<usize>, u8)],
    /// Sets fields that depend on other fields or on the length.
    settle: fn(&mut Vec<u8>),
}

/// P_Key, which Braid does not use: the default partition (IBTA vol. 1, 10.9).
const PKEY: Range<usize> = 2..4;

impl Kind {
    /// Makes `bytes` a packet of this kind: one of its opcodes, its reserved bits zero.
    pub(crate) fn impose(&self, bytes: &mut Vec<u8>, choice: u8) {
        bytes[0] = self.opcodes[usize::from(choice) % self.opcodes.len()] as u8;
        for (range, mask) in self.masks {
            let end = range.end.min(bytes.len());
            bytes.iter_mut().take(end).skip(range.start).for_each(|byte| *byte &= mask);
        }
        if let Some(pkey) = bytes.get_mut(PKEY) {
            pkey.fill(0xFF);
        }
        (self.settle)(bytes);
    }
}

/// Segments, requests and responses.
pub const DATA: Kind = Kind {
    opcodes: &Opcode::DATA,
    masks: &[(1..2, 0x80), (4..5, 0), (8..9, 0x80), (13..14, 3)],
    settle: |bytes| {
        // A length that fits is one chance in 65536 and everything behind it needs one, so an even
        // length becomes the right one; odd ones stay as they came.
        let opcode = Opcode::from_byte(bytes[0]);
        let payload = match opcode.is_some_and(Opcode::has_payload) {
            true => bytes.len().saturating_sub(DATA_HEADER_LEN) as u16,
            false => 0,
        };
        match bytes.get_mut(14..16) {
            Some(len) if len[1] & 1 == 0 => len.copy_from_slice(&payload.to_be_bytes()),
            _ => {}
        }
    },
};

/// Acknowledgements.
pub const ACK: Kind = Kind {
    opcodes: &[Opcode::Ack],
    masks: &[(1..2, 0), (4..5, 0), (8..9, 0), (20..21, 0), (24..25, 0), (32..33, 0x0F)],
    settle: |bytes| {
        // Without a NAK there is no PSN of one.
        if let Some(0) = bytes.get(13) {
            bytes.iter_mut().take(28).skip(24).for_each(|byte| *byte = 0);
        }
        fit_bitmap(bytes);
    },
};

/// An even count of bitmap words becomes the right one, as above; odd ones stay as they came.
fn fit_bitmap(bytes: &mut Vec<u8>) {
    const FIXED: usize = 52;
    const CHECK: usize = 4;
    let Some(words) = bytes.len().checked_sub(FIXED + CHECK).map(|rest| rest / 8) else { return };
    if bytes[14] & 1 == 0 {
        bytes[14] = words as u8;
        bytes.truncate(FIXED + 8 * words + CHECK);
        if words > 0 {
            // The cumulative PSN itself is never in the bitmap.
            bytes[FIXED + 7] &= 0xFE;
        }
    }
}

/// Tear-down and signs of life.
pub const CONTROL: Kind = Kind {
    opcodes: &[Opcode::Disconnect, Opcode::Confirm, Opcode::Ping, Opcode::Pong, Opcode::Unknown],
    masks: &[(1..2, 0), (4..5, 0), (8..12, 0), (14..16, 0), (20..21, 0), (28..29, 0), (32..33, 0)],
    settle: |bytes| {
        // Only DISCONNECT acknowledges.
        if bytes[0] != Opcode::Disconnect as u8 {
            bytes.iter_mut().skip(13).take(1).for_each(|byte| *byte = 0);
            bytes.iter_mut().take(36).skip(28).for_each(|byte| *byte = 0);
        }
    },
};

/// Asks for a cookie; everything behind the nonce is padding.
pub const HELLO: Kind = Kind {
    opcodes: &[Opcode::Hello],
    masks: &[(1..2, 0), (4..12, 0), (13..16, 0)],
    settle: |bytes| clear_padding(bytes, 24),
};

/// Hands out a cookie; the rest is padding.
pub const COOKIE: Kind = Kind {
    opcodes: &[Opcode::Cookie],
    masks: &[(1..2, 0), (4..12, 0), (13..16, 0)],
    settle: |bytes| clear_padding(bytes, 32),
};

/// Path probes: the request is padded and contains its length.
pub const PROBE: Kind = Kind {
    opcodes: &[Opcode::Probe, Opcode::Probed],
    masks: &[(1..2, 0), (4..5, 0), (8..12, 0), (13..14, 0), (20..21, 0)],
    settle: |bytes| {
        clear_padding(bytes, 28);
        let len = bytes.len() as u16;
        if let Some(size) = bytes.get_mut(14..16).filter(|size| size[1] & 1 == 0) {
            size.copy_from_slice(&len.to_be_bytes());
        }
    },
};

/// A part of a data packet; all but the last are full.
pub const PART: Kind = Kind {
    opcodes: &[Opcode::Part],
    masks: &[(1..2, 0), (4..5, 0), (8..9, 0), (15..16, 0)],
    settle: |bytes| {
        // An even count makes it the last one, which may have any length.
        if let Some([index, count]) = bytes.get_mut(13..15)
            && *count & 1 == 0
        {
            *index = count.wrapping_sub(1);
        }
    },
};

fn clear_padding(bytes: &mut [u8], from: usize) {
    const CHECK: usize = 4;
    let end = bytes.len().saturating_sub(CHECK);
    bytes.iter_mut().take(end).skip(from).for_each(|byte| *byte = 0);
}

/// Offers a queue pair.
pub const CONNECT: Kind = Kind { opcodes: &[Opcode::Connect], masks: OFFER, settle: fit_routing };

/// Takes the offer.
pub const ACCEPT: Kind = Kind { opcodes: &[Opcode::Accept], masks: OFFER, settle: fit_routing };

const OFFER: &[(Range<usize>, u8)] =
    &[(1..2, 0), (4..12, 0), (13..16, 0), (32..33, 0), (40..41, 0), (53..54, 1)];

/// Turns the bytes after the private data into rails and NIC addresses if their number is even. An
/// odd number of bytes stays as it is.
fn fit_routing(bytes: &mut Vec<u8>) {
    const FIXED: usize = 68;
    const CHECK: usize = 4;
    const RAIL: usize = 18;
    let Some(rest) = bytes.len().checked_sub(FIXED + CHECK) else { return };
    let private = usize::from(u16::from_be_bytes([bytes[64], bytes[65]])) % (rest + 1);
    if bytes[67] & 1 == 0 {
        bytes[64..66].copy_from_slice(&(private as u16).to_be_bytes());
        let rails = (usize::from(bytes[52]) % 9).min((rest - private) / RAIL);
        bytes[52] = rails as u8;
        let nic = rest - private - rails * RAIL;
        bytes[66..68].copy_from_slice(&(nic as u16).to_be_bytes());
    }
}

/// Turns the offer down.
pub const REJECT: Kind = Kind {
    opcodes: &[Opcode::Reject],
    masks: &[(1..2, 0), (4..12, 0), (14..16, 0), (24..32, 0)],
    settle: |_| (),
};
