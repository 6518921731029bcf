//! Fallbacks of a link: no segmentation or ECN towards some destinations, no socket option.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::addresses::canonical;
use crate::degradation::Degradation;

/// The first wait before another try after the kernel has refused to segment. Each further wait is
/// twice as long, up to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(64);

/// A socket option that the system has refused and that a link can do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RefusedOption {
    pub(super) name: &'static str,
    pub(super) errno: i32,
    /// The effect of its absence.
    pub(super) effect: &'static str,
}

/// The refused options of all sockets of a link, each once.
#[derive(Clone, Default, Debug)]
pub(super) struct RefusedOptions(Vec<RefusedOption>);

impl RefusedOptions {
    pub(super) fn record(&mut self, name: &'static str, error: &io::Error, effect: &'static str) {
        if !self.has(name) {
            let errno = error.raw_os_error().unwrap_or(0);
            self.0.push(RefusedOption { name, errno, effect });
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|option| option.name == name)
    }

    /// Adds the refused options to a list of degradations.
    pub(super) fn list(&self, rail: usize, all: &mut Vec<Degradation>) {
        for &RefusedOption { name: option, errno, effect } in &self.0 {
            let is_listed = |one: &Degradation| match *one {
                Degradation::SocketOptionRefused { option: other, rail: of, .. } => {
                    (other, of) == (option, rail)
                }
                _ => false,
            };
            if !all.iter().any(is_listed) {
                all.push(Degradation::SocketOptionRefused { rail, option, errno, effect });
            }
        }
    }
}

/// A destination to which the kernel refuses to segment.
#[derive(Debug)]
struct Unsegmented {
    to: IpAddr,
    errno: i32,
    /// The wait that follows the next refusal.
    wait: Duration,
    retry_at: Instant,
}

/// The fallbacks by destination. Empty on most machines.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    unsegmented: Vec<Unsegmented>,
    without_ecn: Vec<SocketAddr>,
}

impl Fallbacks {
    /// Whether to segment towards a destination, either as usual or as another try.
    pub(super) fn segments(&self, to: IpAddr) -> bool {
        let mut refused = self.unsegmented.iter();
        refused.find(|of| of.to == to).is_none_or(|of| Instant::now() >= of.retry_at)
    }

    /// Ends the wait until the next try.
    #[cfg(test)]
    pub(super) fn retry_now(&mut self) {
        self.unsegmented.iter_mut().for_each(|of| of.retry_at = Instant::now());
    }

    /// Records that the kernel refused to segment but not to send.
    pub(super) fn on_refused(&mut self, to: IpAddr, error: &io::Error) {
        let (now, errno) = (Instant::now(), error.raw_os_error().unwrap_or(0));
        match self.unsegmented.iter_mut().find(|of| of.to == to) {
            Some(known) => {
                known.wait = (2 * known.wait).min(LONGEST_WAIT);
                (known.errno, known.retry_at) = (errno, now + known.wait);
            }
            None => {
                tracing::debug!(
                    %to, %error,
                    "no UDP segmentation: datagrams go through the kernel one by one"
                );
                let (wait, retry_at) = (FIRST_WAIT, now + FIRST_WAIT);
                self.unsegmented.push(Unsegmented { to, errno, wait, retry_at });
            }
        }
    }

    /// Records that the kernel has segmented.
    #[inline]
    pub(super) fn on_segmented(&mut self, to: IpAddr) {
        if !self.unsegmented.is_empty() {
            self.unsegmented.retain(|of| of.to != to);
        }
    }

    /// See [`crate::link::Link::use_ecn`].
    pub(super) fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.without_ecn.retain(|other| *other != to);
        if !ecn {
            self.without_ecn.push(to);
        }
    }

    /// Whether ECN-capable datagrams may leave so.
    #[inline]
    pub(super) fn sends_ecn(&self, to: SocketAddr) -> bool {
        self.without_ecn.is_empty() || !self.without_ecn.contains(&to)
    }

    pub(super) fn list(&self, rail: usize, to: SocketAddr, all: &mut Vec<Degradation>) {
        let to = canonical(to).ip();
        let refused = self.unsegmented.iter().find(|of| of.to.to_canonical() == to);
        all.extend(refused.map(|of| Degradation::SegmentationRefused {
            rail,
            to,
            errno: of.errno,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segmentation_is_tried_again_after_a_growing_time() {
        let to = IpAddr::from([10, 0, 0, 1]);
        let eio = io::Error::from_raw_os_error(libc::EIO);
        let mut fallbacks = Fallbacks::default();
        assert!(fallbacks.segments(to));
        fallbacks.on_refused(to, &eio);
        assert!(!fallbacks.segments(to) && fallbacks.segments([10, 0, 0, 2].into()));
        fallbacks.retry_now();
        assert!(fallbacks.segments(to), "the time is over");
        for seconds in [2, 4, 8, 16, 32, 64, 64] {
            fallbacks.on_refused(to, &eio);
            assert_eq!(fallbacks.unsegmented[0].wait, Duration::from_secs(seconds));
        }
        let mut all = Vec::new();
        fallbacks.list(0, (to, 7).into(), &mut all);
        assert_eq!(all, [Degradation::SegmentationRefused { rail: 0, to, errno: libc::EIO }]);
        fallbacks.on_segmented(to);
        assert!(fallbacks.segments(to) && fallbacks.unsegmented.is_empty());
    }
}
