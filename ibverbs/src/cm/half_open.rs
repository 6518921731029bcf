//! Links to a listener whose request has not arrived.
//!
//! Each link has a thread that waits, and anybody can open one without sending anything. So their
//! number is limited: a new link takes the place of the oldest, as in a TCP listener's cache of
//! half-open connections (RFC 4987, section 3.4).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::messages::Link;

/// Links at a time, at most. An honest end sends its request within two round trips.
const MOST: usize = 128;

/// The links, oldest first.
#[derive(Default)]
pub(super) struct HalfOpenLinks(Mutex<VecDeque<Arc<Link>>>);

impl HalfOpenLinks {
    /// Adds a link. If there are too many, closes the oldest.
    pub(super) fn begin(&self, link: &Arc<Link>) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.push_back(link.clone());
        if links.len() > MOST
            && let Some(oldest) = links.pop_front()
        {
            // The thread of the link sees the end.
            oldest.close();
        }
    }

    /// Removes a link whose request has arrived or has failed. Returns whether the link has kept
    /// its place.
    pub(super) fn end(&self, link: &Arc<Link>) -> bool {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = links.iter().position(|other| Arc::ptr_eq(other, link));
        place.and_then(|place| links.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::messages::tests::Pairs;

    #[test]
    fn silent_links_give_way_to_later_ones() {
        let pairs = Pairs::new();
        let (half_open, mut near, mut far) = (HalfOpenLinks::default(), Vec::new(), Vec::new());
        for _ in 0..MOST + 3 {
            let [one, other] = pairs.open(b"first");
            near.push(one);
            assert_eq!(other.recv().expect("the first message"), b"first");
            far.push(Arc::new(other));
            half_open.begin(far.last().expect("just pushed"));
        }
        let ended = |link: &Link| {
            link.set_limit(Some(Duration::from_millis(200)));
            link.recv().expect_err("nothing is said").kind()
        };
        for link in &near[..3] {
            assert_eq!(ended(link), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(ended(&near[3]), io::ErrorKind::TimedOut, "it has its place still");
        let kept = far.iter().filter(|link| half_open.end(link)).count();
        assert_eq!(kept, MOST);
        assert!(!half_open.end(&far[5]), "it has ended");
    }
}
