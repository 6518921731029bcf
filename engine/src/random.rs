//! Secrets: numbers that nobody else can guess, from the operating system.

/// Fills an array with random bytes.
///
/// # Panics
/// If the system has no random numbers (`getrandom` fails): no connection would be safe then.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    const { assert!(N <= 256, "the system hands out larger amounts in pieces") };
    let mut bytes = [0; N];
    loop {
        // SAFETY: the pointer and the length are those of `bytes`.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
        if got == N as isize {
            return bytes;
        }
        let error = std::io::Error::last_os_error();
        let interrupted = got < 0 && error.kind() == std::io::ErrorKind::Interrupted;
        assert!(interrupted, "the system gives no random numbers: {error}");
    }
}

/// A random number.
pub(crate) fn number() -> u64 {
    u64::from_ne_bytes(bytes())
}
