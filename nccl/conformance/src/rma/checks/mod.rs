//! The required behaviour of the RMA tables. Each check runs in several processes, one per rank.

mod refusals;
mod signals;
mod transfers;

use super::check::RmaCheck;

/// All checks, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = &'static RmaCheck> {
    let groups: [&[RmaCheck]; 3] = [transfers::CHECKS, signals::CHECKS, refusals::CHECKS];
    groups.into_iter().flatten()
}
