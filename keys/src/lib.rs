//! Keyed connections, sans-IO: who does not have the key neither reads nor writes.
//!
//! A [`Key`] is shared by both ends. A Noise handshake ([`Asking`], [`Asked`]) inside connection set-up makes of it, and of
//! two key pairs that are used once, the secrets of one connection; a [`Session`] protects its packets with them.
//! Randomness comes in as arguments. The design is in `docs/keys.md`.
#![forbid(unsafe_code)]

mod cipher;
mod handshake;
mod key;
mod replay;
mod schedule;
mod session;
mod terms;

pub use cipher::{Cipher, UnknownCipher};
pub use handshake::{Answer, Asked, Asking, Binding, Secrets};
pub use key::{Key, KeyError};
pub use session::{Refused, Session};
pub use terms::{Agreed, Protection, Terms, TermsError};
