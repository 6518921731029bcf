//! Rate limit for hosts whose requests for a keyed connection are refused.
//!
//! Whether the key in a CONNECT is right is known only after some work, up to two Diffie-Hellman
//! operations. The cookie has proved the source address, so refusals can be charged to the host,
//! whether for its key or another reason. The charge follows the generic cell rate algorithm (ITU-T
//! I.371, Annex A). Requests of a host that has used up its credit are dropped unread.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braid_wire::Time;
use siphasher::sip::SipHasher24;

use super::backlog::host_of;

/// Credit of a host: the refusals of one second at once. All connections of a host may begin at the
/// same time, with the same wrong key.
const CREDIT: Duration = Duration::from_secs(1);
/// Number of places. Hosts with the same hash share a place. The key of the hash is secret, so
/// nobody can choose whose place it shares.
const PLACES: usize = 256;

/// Debts of hosts for refusals. A host is an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug)]
pub struct Guesses {
    key: [u8; 16],
    cost: Duration,
    /// Time at which the debt of each place is paid off.
    settled: Box<[Time; PLACES]>,
}

impl Guesses {
    /// Creates the table. `key` has to be unpredictable. `per_second`: refusals of a host per
    /// second, at least 1. That number should cost little processor time. Beyond it, nobody at that
    /// address is connected, even with the right key.
    pub fn new(key: [u8; 16], per_second: u32) -> Self {
        let cost = CREDIT / per_second.max(1);
        Guesses { key, cost, settled: Box::new([Time::ZERO; PLACES]) }
    }

    /// Whether a request from this address is to be examined.
    pub fn allows(&self, now: Time, from: SocketAddr) -> bool {
        self.settled[self.place(from)].saturating_since(now) < CREDIT
    }

    /// Charges a refused request to the host at this address.
    pub fn charge(&mut self, now: Time, from: SocketAddr) {
        let settled = &mut self.settled[self.place(from)];
        *settled = (*settled).max(now) + self.cost;
    }

    fn place(&self, from: SocketAddr) -> usize {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        match host_of(from.ip()) {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.finish() as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Returns the number of a host's requests that are examined in this time. All fail; they come
    /// every millisecond.
    fn looked_at(guesses: &mut Guesses, from: &str, ms: std::ops::Range<u64>) -> usize {
        let from = from.parse().unwrap();
        let mut looked = 0;
        for now in ms.map(at) {
            if guesses.allows(now, from) {
                guesses.charge(now, from);
                looked += 1;
            }
        }
        looked
    }

    #[test]
    fn host_has_64_guesses_and_64_more_per_second() {
        let mut guesses = Guesses::new([7; 16], 64);
        let first = looked_at(&mut guesses, "1.0.0.1:1", 0..10_000);
        assert!((64 + 9 * 64..=64 + 10 * 64 + 1).contains(&first), "{first}");
        // Another port belongs to the same host.
        assert!(looked_at(&mut guesses, "1.0.0.1:2", 10_000..10_010) <= 1);
        assert_eq!(looked_at(&mut guesses, "[2001:db8::1]:1", 10_000..10_010), 10);
        // A host that stops has no debt after a second.
        assert!(looked_at(&mut guesses, "1.0.0.1:1", 12_000..12_064) >= 64);
    }

    #[test]
    fn hosts_without_refusals_are_not_limited() {
        let mut guesses = Guesses::new([7; 16], 64);
        looked_at(&mut guesses, "1.0.0.1:1", 0..1000);
        // Few of the other hosts share its place.
        let hosts = (0..=255u8).map(|host| SocketAddr::from(([10, 0, 0, host], 1)));
        let put_off = hosts.filter(|from| !guesses.allows(at(1000), *from)).count();
        assert!(put_off < 10, "{put_off} of 256");
    }
}
