//! The acknowledgement extended transport header (AETH; IBTA vol. 1, 9.7.5.1): syndrome and MSN.

use std::time::Duration;

/// An acknowledgement: a syndrome, and the number of the last message that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// The kind of acknowledgement.
    pub syndrome: Syndrome,
    /// Message sequence number: requests carried out so far (24 bits).
    pub msn: u32,
}

/// The kind of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// An acknowledgement with a credit code of 5 bits. [`Syndrome::UNLIMITED`] counts no credits.
    Ack(u8),
    /// The receiver has no receive work request. The code of 5 bits says how long to wait, see
    /// [`rnr_delay`].
    NotReady(u8),
    /// A NAK.
    Nak(RcNak),
    /// A reserved value.
    Reserved(u8),
}

/// The code of a NAK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RcNak {
    /// Packets are missing before this one.
    Sequence = 0,
    /// The request is malformed or not supported.
    InvalidRequest = 1,
    /// The request may not access that memory.
    RemoteAccess = 2,
    /// The responder cannot carry the request out.
    RemoteOperational = 3,
    /// The reliable datagram service alone has it.
    InvalidRdRequest = 4,
}

impl Syndrome {
    /// An acknowledgement that limits no SENDs: the credit code "invalid".
    pub const UNLIMITED: Syndrome = Syndrome::Ack(0x1F);

    /// Returns the encoding: the kind in bits 6-5, the code in the lower bits.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack(credits) => credits & 0x1F,
            Syndrome::NotReady(code) => 0x20 | code & 0x1F,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }

    /// Inverts [`Syndrome::to_byte`].
    pub const fn from_byte(byte: u8) -> Self {
        match (byte >> 5, byte & 0x1F) {
            (0, credits) => Syndrome::Ack(credits),
            (1, code) => Syndrome::NotReady(code),
            (3, 0) => Syndrome::Nak(RcNak::Sequence),
            (3, 1) => Syndrome::Nak(RcNak::InvalidRequest),
            (3, 2) => Syndrome::Nak(RcNak::RemoteAccess),
            (3, 3) => Syndrome::Nak(RcNak::RemoteOperational),
            (3, 4) => Syndrome::Nak(RcNak::InvalidRdRequest),
            _ => Syndrome::Reserved(byte),
        }
    }
}

/// Times of the RNR NAK timer by code, in units of 10 us (IBTA vol. 1, table 45).
const RNR_DELAYS: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Returns the time to wait after an RNR NAK with this code.
pub const fn rnr_delay(code: u8) -> Duration {
    Duration::from_micros(10 * RNR_DELAYS[(code & 0x1F) as usize] as u64)
}

/// Returns the code of the shortest time that is at least `delay`, or of the longest time: 655 ms.
pub fn rnr_code(delay: Duration) -> u8 {
    // Code 0 is the longest time.
    (1..32).find(|code| rnr_delay(*code) >= delay).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_syndrome() {
        for byte in 0..=u8::MAX {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
    }

    #[test]
    fn rnr_delays_have_the_codes_of_verbs() {
        // As `ibv_modify_qp(3)`: 1 is 0.01 ms, 12 is 0.64 ms, 31 is 491.52 ms, 0 is 655.36 ms.
        let us = |code| rnr_delay(code).as_micros();
        assert_eq!([us(1), us(12), us(31), us(0)], [10, 640, 491_520, 655_360]);
        for (delay_us, code) in [(0, 1), (10, 1), (11, 2), (100, 7), (500_000, 0), (10_000_000, 0)]
        {
            assert_eq!(rnr_code(Duration::from_micros(delay_us)), code, "{delay_us} us");
        }
    }
}
