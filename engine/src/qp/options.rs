//! What a queue pair can be told when it is created.

use braid_transport::QpConfig;

use crate::{CompletionQueue, SharedReceiveQueue};

/// How a queue pair is created.
///
/// More fields may come: begin with [`QpOptions::new`], and change what is to be otherwise.
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
    /// Where completions of sends go.
    pub send_cq: CompletionQueue,
    /// Where completions of receives go. May be the same.
    pub recv_cq: CompletionQueue,
    /// Where its receives come from, if not from a queue of its own; then `max_recv_wr` is that
    /// queue's. Default: `None`.
    pub srq: Option<SharedReceiveQueue>,
    /// Most scatter/gather elements of a work request, 1 to 256. Default: 16.
    pub max_sge: usize,
    /// Most bytes of [`crate::QueuePair::post_send_inline`], up to 8192. Default: 256.
    pub max_inline: usize,
    /// Queue lengths, windows, timers. Its `pd` is set to the domain that creates the queue pair.
    /// Default: that of [`QpConfig`], but for `retry_timeout`, which is the engine's
    /// `peer_timeout`.
    pub config: QpConfig,
}

/// More elements than this per work request have no user.
pub(crate) const MAX_SGE: usize = 256;
/// Inline data is copied twice; registered memory is the better way long before this. The datagrams
/// of verbs, up to 4136 bytes with their header, are sent so.
pub(crate) const MAX_INLINE: usize = 8192;
/// Longest queue.
pub(crate) const MAX_QUEUE: u32 = 1 << 20;

impl QpOptions {
    /// 128 sends and 512 receives of 16 elements, 256 bytes of inline data; it gives up after as
    /// long without progress as the engine takes a peer for dead.
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

    /// Sets how many work requests the two queues hold.
    pub fn queues(mut self, max_send_wr: u32, max_recv_wr: u32) -> Self {
        (self.config.max_send_wr, self.config.max_recv_wr) = (max_send_wr, max_recv_wr);
        self
    }
}
