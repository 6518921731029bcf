//! The 232 bytes of a message behind the header of its MAD, with fields at fixed places.

/// Bytes of a message.
pub(super) const BODY_LEN: usize = 232;

/// A message.
pub(super) struct Body([u8; BODY_LEN]);

impl Body {
    pub(super) fn new() -> Self {
        Body([0; BODY_LEN])
    }

    pub(super) fn from(bytes: &[u8; BODY_LEN]) -> Self {
        Body(*bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; BODY_LEN] {
        &self.0
    }

    /// Returns the bytes at a constant place.
    pub(super) fn get<const LEN: usize>(&self, at: usize) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(&self.0[at..at + LEN]);
        bytes
    }

    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.get(at))
    }

    pub(super) fn set_word(&mut self, at: usize, value: u32) {
        self.set(at, &value.to_be_bytes());
    }

    /// Returns the upper 24 bits of a word.
    pub(super) fn upper(&self, at: usize) -> u32 {
        self.word(at) >> 8
    }

    /// Sets the upper 24 bits of a word, and the byte behind them.
    pub(super) fn set_upper(&mut self, at: usize, value: u32, behind: u8) {
        self.set_word(at, value << 8 | u32::from(behind));
    }
}
