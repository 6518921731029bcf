//! Errors of decoding.

/// The reason why a datagram is not a valid Braid packet. Anyone can send such a datagram, so
/// callers only count them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The packet is shorter than its header.
    #[error("the packet has {have} bytes, its header needs {need}")]
    Short {
        /// Length of the packet in bytes.
        have: usize,
        /// Length of the header in bytes.
        need: usize,
    },
    /// Braid does not use the opcode.
    #[error("opcode {0:#04x} is not a Braid opcode")]
    Opcode(u8),
    /// The packet has another format version.
    #[error("format version {0} is not supported; this build supports version {version}", version = crate::VERSION)]
    Version(u8),
    /// The CRC of the header does not match.
    #[error("the CRC of the header does not match")]
    HeaderCheck,
    /// The CRC of the payload does not match.
    #[error("the CRC of the payload does not match")]
    PayloadCheck,
    /// A length field contradicts the size or the kind of the packet.
    #[error("a length field contradicts the size or the kind of the packet")]
    Length,
    /// The value of a field is not allowed in this kind of packet.
    #[error("the value of field `{0}` is not allowed")]
    Field(&'static str),
}
