//! The responder's cookies.

use std::hash::Hasher;
use std::time::Duration;

use braid_wire::Time;
use siphasher::sip::SipHasher24;

/// Shortest lifetime of a cookie; the longest is twice that.
const COOKIE_EPOCH: Duration = Duration::from_secs(8);

/// Issues and verifies cookies. A cookie proves, without state, that its sender receives at the
/// address that it was sent to. It is SipHash-2-4 over the address, the nonce and the time, with a
/// key of the responder.
#[derive(Clone, Debug)]
pub struct CookieJar {
    key: [u8; 16],
}

impl CookieJar {
    /// Longest lifetime of a cookie.
    pub const LONGEST: Duration = COOKIE_EPOCH.saturating_mul(2);

    /// `key`: has to be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        CookieJar { key }
    }

    /// Returns the cookie for an initiator at `address`.
    pub fn bake(&self, now: Time, address: &[u8], nonce: u64) -> u64 {
        self.at_epoch(epoch(now), address, nonce)
    }

    /// Whether a cookie is valid: issued with this key, for this address and nonce, and not
    /// expired.
    pub fn verify(&self, now: Time, address: &[u8], nonce: u64, cookie: u64) -> bool {
        let current = epoch(now);
        [Some(current), current.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|epoch| self.at_epoch(epoch, address, nonce) == cookie)
    }

    fn at_epoch(&self, epoch: u64, address: &[u8], nonce: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(epoch);
        hasher.write_u64(nonce);
        hasher.write(address);
        hasher.finish()
    }
}

fn epoch(now: Time) -> u64 {
    now.as_nanos() / COOKIE_EPOCH.as_nanos() as u64
}
