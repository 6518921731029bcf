//! Limits that all raw peers share.

use std::time::Duration;

/// Bytes of each side's working set.
pub(crate) const WORKING_SET_BYTES: usize = 8 << 20;

/// Time without a message after which a server fails.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Time without an answer after which a sender fails, over all its retries.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
