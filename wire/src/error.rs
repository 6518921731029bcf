//! Why bytes are not a Braid packet.

/// Why a datagram was refused. None of these is worth more than a counter: anyone can send one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// Shorter than its kind of packet.
    #[error("the packet has {have} bytes, its header needs {need}")]
    Short {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// An opcode that Braid does not use.
    #[error("opcode {0:#04x} is not one of Braid's")]
    Opcode(u8),
    /// A version this build does not speak.
    #[error("format version {0} is not the version {version} that this build speaks", version = crate::VERSION)]
    Version(u8),
    /// The header's check does not fit its bytes.
    #[error("the header check does not match")]
    HeaderCheck,
    /// The payload's check does not fit its bytes.
    #[error("the payload check does not match")]
    PayloadCheck,
    /// A length field contradicts the packet's size or its kind.
    #[error("a length field contradicts the packet")]
    Length,
    /// A field holds a value that its kind of packet does not allow.
    #[error("field {0} holds a value that is not allowed")]
    Field(&'static str),
}
