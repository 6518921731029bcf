//! Random numbers of the operating system for secrets.

/// Fills an array with random bytes.
///
/// # Panics
/// Panics if the system has no random numbers (`getrandom` fails), because no connection would be
/// safe.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system gives no random numbers: {error}");
    }
    bytes
}

/// A random number.
pub(crate) fn number() -> u64 {
    u64::from_ne_bytes(bytes())
}
