//! Fuzzes the messages of `rdma_cm`.

use super::message::CmMessage;

/// Decodes the input, also behind the magic number.
///
/// # Panics
/// A message is not encoded as it was decoded.
pub fn exchanged_message(input: &[u8]) {
    for bytes in [input, &[&b"BrCm"[..], input].concat()] {
        if let Ok(message) = CmMessage::decode(bytes) {
            assert_eq!(message.encode(), bytes, "{message:?}");
        }
    }
}
