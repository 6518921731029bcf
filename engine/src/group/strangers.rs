//! Strangers that connect while a group forms. The log names them, and so does the error if the
//! group does not form.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of strangers that are logged one by one.
const TOLD: usize = 8;

/// The strangers that one rank has met.
#[derive(Default)]
pub(super) struct Strangers {
    met: Mutex<Met>,
    /// Connections whose private data is not a rank's.
    no_ranks: AtomicU64,
}

#[derive(Default)]
struct Met {
    told: Vec<(IpAddr, String)>,
    /// Connections beyond those. Repeated attempts count again.
    more: u64,
}

impl Strangers {
    /// Records a connection that was rejected at once, because its private data is not a rank's.
    pub(super) fn on_no_rank(&self) {
        let count = self.no_ranks.fetch_add(1, Ordering::Relaxed) + 1;
        // Any host can cause this, so it is logged less and less often.
        if count.is_power_of_two() {
            tracing::warn!(count, "a connection to a group was refused: it is no rank's");
        }
    }

    /// Records a rejected rank. `who` continues "refused:". A stranger that connects repeatedly
    /// counts once.
    pub(super) fn refuse(&self, from: SocketAddr, who: String) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.told.iter().any(|(ip, known)| *ip == from.ip() && *known == who) {
            return;
        }
        if met.told.len() == TOLD {
            met.more += 1;
            return;
        }
        tracing::warn!(%from, who, "a stranger to this group was refused");
        met.told.push((from.ip(), who));
    }

    /// Describes all strangers as the end of a sentence. Empty if there were none.
    pub(super) fn text(&self) -> String {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts: Vec<String> =
            met.told.iter().map(|(ip, who)| format!("{who} at {ip}")).collect();
        if met.more > 0 {
            parts.push(format!("{} more connections", met.more));
        }
        match self.no_ranks.load(Ordering::Relaxed) {
            0 => {}
            count => parts.push(format!("{count} connections that are no rank's")),
        }
        if parts.is_empty() { String::new() } else { format!("; refused: {}", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_strangers_are_listed_once_and_many_are_counted() {
        let strangers = Strangers::default();
        assert_eq!(strangers.text(), "");
        let from = |port| SocketAddr::from(([192, 0, 2, 1], port));
        (1..9).for_each(|port| strangers.refuse(from(port), "rank 1 of job `a`".to_owned()));
        assert_eq!(strangers.text(), "; refused: rank 1 of job `a` at 192.0.2.1");
        (2..20).for_each(|rank| strangers.refuse(from(1), format!("rank {rank}")));
        strangers.on_no_rank();
        let text = strangers.text();
        assert!(text.contains("11 more connections, 1 connections that are no rank's"), "{text}");
    }
}
