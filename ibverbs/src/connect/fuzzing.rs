//! Fuzzes the private data of connection requests.

use super::hello::Hello;

/// Decodes the input, also behind the magic number.
///
/// # Panics
/// A greeting is lost in encoding.
pub fn connection_hello(input: &[u8]) {
    for bytes in [input, &[&b"BrVb"[..], input].concat()] {
        if let Some(hello) = Hello::decode(bytes) {
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
    }
}
