//! What may change of a queue pair's configuration while it exists.

use super::QueuePair;
use crate::{MAX_TIMER, QpAttributes};

impl QueuePair {
    /// Changes it, in any state.
    pub fn set_attributes(&mut self, attributes: QpAttributes) {
        let QpAttributes { access, retry_timeout, rnr_retry, rnr_delay } = attributes;
        let config = &mut self.config;
        (config.access, config.rnr_retry) = (access, rnr_retry);
        config.retry_timeout = retry_timeout.min(MAX_TIMER);
        config.rnr_delay = rnr_delay.min(MAX_TIMER);
    }
}
