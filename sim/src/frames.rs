//! Frame sizes, and the segmentation of a message into frames.

/// Frame sizes on the wire, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Payload of a full segment; at least 1.
    pub payload: u16,
    /// Headers of a data frame.
    pub header: u32,
    /// A whole acknowledgement, and a trimmed segment.
    pub ack: u32,
    /// The gap between two frames.
    pub gap: u32,
}

impl Frames {
    /// Returns the number of packets of a message.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.payload.max(1).into()).max(1)
    }

    /// Returns the size of a full data frame.
    pub fn full(&self) -> u32 {
        u32::from(self.payload) + self.header
    }

    /// Returns the size of every data frame of a message but the last. A message is cut into as few
    /// packets as carry it, of one length in words of 8 bytes.
    pub fn each(&self, bytes: u64) -> u32 {
        let whole = bytes.div_ceil(self.packets(bytes)).next_multiple_of(8);
        self.header + whole.min(bytes.min(self.payload.into())) as u32
    }

    /// Returns the size of a message's last data frame.
    pub fn last(&self, bytes: u64) -> u32 {
        let before = (self.packets(bytes) - 1) * u64::from(self.each(bytes) - self.header);
        self.header + (bytes - before) as u32
    }
}
