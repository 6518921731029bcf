//! What may change of a queue pair's configuration while it exists.

use super::QueuePair;
use crate::QpAttributes;

impl QueuePair {
    /// Changes it, in any state.
    pub fn set_attributes(&mut self, attributes: QpAttributes) {
        let QpAttributes { access, retry_timeout, rnr_retry, rnr_delay } = attributes;
        let config = &mut self.config;
        (config.access, config.retry_timeout) = (access, retry_timeout);
        (config.rnr_retry, config.rnr_delay) = (rnr_retry, rnr_delay);
    }
}
