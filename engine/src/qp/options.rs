//! The options for creating a queue pair.

use braid_transport::QpConfig;

use crate::cq::CompletionQueue;
use crate::srq::SharedReceiveQueue;

/// The options for creating a queue pair.
///
/// Later versions may add fields, so begin with [`QpOptions::new`] and change the fields that
/// differ.
///
/// ```
/// use std::time::Duration;
///
/// use braid::{Engine, EngineConfig, QpOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig { bind: "127.0.0.1:0".parse()?, ..Default::default() })?;
/// let cq = engine.create_cq(2048)?;
/// let mut options = QpOptions::new(&cq, &cq).queues(1024, 1024);
/// options.max_inline = 0;
/// options.config.cc = "swift".parse()?;
/// options.config.recovery = "ooo-window".parse()?;
/// options.config.retry_timeout = Duration::from_secs(1);
/// let qp = engine.alloc_pd().create_qp(options)?;
/// assert_eq!(qp.outstanding(), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct QpOptions {
    /// The completion queue of sends.
    pub send_cq: CompletionQueue,
    /// The completion queue of receives. May be the same.
    pub recv_cq: CompletionQueue,
    /// The shared receive queue. With one, its length replaces `max_recv_wr`. Default: `None`, a
    /// receive queue of its own.
    pub srq: Option<SharedReceiveQueue>,
    /// The largest number of scatter/gather elements of a work request, 1 to 256. Default: 16.
    pub max_sge: usize,
    /// The largest number of bytes of [`crate::QueuePair::post_send_inline`], up to 8192. Default:
    /// 256.
    pub max_inline: usize,
    /// Queue lengths, windows and timers. The domain that creates the queue pair sets `pd`.
    /// Default: as [`QpConfig`], with the engine's `peer_timeout` as `retry_timeout`.
    pub config: QpConfig,
}

/// The largest size of inline data in bytes. Inline data is copied twice, so registered memory is
/// faster for much less. The drop-in sends UD datagrams this way, up to 4136 bytes with their
/// header.
pub(super) const MAX_INLINE: usize = 8192;

impl QpOptions {
    /// Options for 128 sends and 512 receives of 16 elements, with 256 bytes of inline data. The
    /// queue pair fails after as long without progress as the engine's `peer_timeout`.
    pub fn new(send_cq: &CompletionQueue, recv_cq: &CompletionQueue) -> Self {
        QpOptions {
            send_cq: send_cq.clone(),
            recv_cq: recv_cq.clone(),
            srq: None,
            max_sge: 16,
            max_inline: 256,
            config: QpConfig {
                retry_timeout: send_cq.engine().peer_timeout,
                ..QpConfig::default()
            },
        }
    }

    /// Sets the lengths of the two queues.
    pub fn queues(mut self, max_send_wr: u32, max_recv_wr: u32) -> Self {
        (self.config.max_send_wr, self.config.max_recv_wr) = (max_send_wr, max_recv_wr);
        self
    }
}
