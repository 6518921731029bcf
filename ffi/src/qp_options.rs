//! The options of a queue pair.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::Duration;

use braid::{Access, QpConfig, QpOptions};

use crate::arguments::{micros, narrow, optional_text, timer};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, find};
use crate::mr::parse_access;
use crate::{BRAID_ACCESS_ALL, braid_cq};

/// The options of a queue pair, initialised by braid_qp_options_init. The caller must set both
/// completion queues.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_options {
    /// Set by braid_qp_options_init.
    pub size: usize,
    /// The completion queue of sends.
    pub send_cq: *mut braid_cq,
    /// The completion queue of receives, which may be the same.
    pub recv_cq: *mut braid_cq,
    /// Capacity of the send queue in work requests, up to 1048576.
    pub max_send_wr: u32,
    /// Capacity of the receive queue in work requests, up to 1048576.
    pub max_recv_wr: u32,
    /// Maximum number of elements of a work request, up to BRAID_MAX_SGE.
    pub max_sge: u32,
    /// Maximum length of inline data, up to 8192.
    pub max_inline: u32,
    /// Access rights of the peer through this queue pair, in addition to those of the memory
    /// region: BRAID_ACCESS_*.
    pub access: u32,
    /// Number of packets beyond the first missing one that the receiver tracks, up to 4096.
    pub window: u32,
    /// Number of concurrent READs and atomics that it serves, 1 to 255.
    pub max_rd_atomic: u32,
    /// Number of RNR NAKs accepted for one message, 0 to 255; -1: no limit.
    pub rnr_retry: c_int,
    /// Number of later packets that must arrive before a packet counts as lost, with "sack".
    pub reorder_threshold: u32,
    /// Number of segments per requested acknowledgement; 1: every segment requests one.
    pub ask_every: u32,
    /// Delay that a peer must wait if no receive is posted, in microseconds. This and the following
    /// timers are at most one day.
    pub rnr_delay_us: u64,
    /// Minimum retransmission time-out in microseconds.
    pub min_rto_us: u64,
    /// Maximum retransmission time-out in microseconds.
    pub max_rto_us: u64,
    /// Time without progress after which the queue pair fails, in microseconds. 0: the
    /// `peer_timeout_us` of its engine.
    pub retry_timeout_us: u64,
    /// Maximum delay of the acknowledgement of a request that the application has replied to, in
    /// microseconds.
    pub reply_hold_us: u64,
    /// Name of the loss recovery, such as "fifo-path". NULL: the default.
    pub recovery: *const c_char,
    /// Name and parameters of the congestion control, such as "cubic", "fixed:2M" or "rate:10G".
    /// NULL: the default.
    pub cc: *const c_char,
}

// SAFETY: `repr(C)`, `size` first, numbers and raw pointers only.
unsafe impl Growing for braid_qp_options {
    const NAME: &'static str = "braid_qp_options";
}

/// The default of [`QpOptions::new`].
const DEFAULT_MAX_SGE: u32 = 16;
/// The default of [`QpOptions::new`].
const DEFAULT_MAX_INLINE: u32 = 256;

impl Default for braid_qp_options {
    fn default() -> Self {
        let config = QpConfig::default();
        debug_assert_eq!(config.access, Access::ALL);
        braid_qp_options {
            size: size_of::<Self>(),
            send_cq: ptr::null_mut(),
            recv_cq: ptr::null_mut(),
            max_send_wr: config.max_send_wr,
            max_recv_wr: config.max_recv_wr,
            max_sge: DEFAULT_MAX_SGE,
            max_inline: DEFAULT_MAX_INLINE,
            access: BRAID_ACCESS_ALL,
            window: config.window.into(),
            max_rd_atomic: config.max_rd_atomic.into(),
            rnr_retry: config.rnr_retry.map_or(-1, c_int::from),
            reorder_threshold: config.reorder_threshold,
            ask_every: config.ask_every,
            rnr_delay_us: micros(config.rnr_delay),
            min_rto_us: micros(config.min_rto),
            max_rto_us: micros(config.max_rto),
            retry_timeout_us: 0,
            reply_hold_us: micros(config.reply_hold),
            recovery: ptr::null(),
            cc: ptr::null(),
        }
    }
}

/// The options of a queue pair and its registration with its completion queues.
pub(crate) type CheckedOptions = (QpOptions, [Child; 2]);

impl braid_qp_options {
    /// # Safety
    /// The caller's promise, for the struct and its strings.
    pub(crate) unsafe fn read(options: *const Self) -> Result<CheckedOptions, Failure> {
        // SAFETY: as the caller promises.
        let options = unsafe { growing::read(options, Self::default()) }?;
        // SAFETY: the strings are covered by the promise.
        let (recovery, cc) = unsafe {
            (optional_text(options.recovery, "recovery")?, optional_text(options.cc, "cc")?)
        };
        let null = |queue: *mut braid_cq, name| {
            if queue.is_null() { Err(Failure::Null(name)) } else { find(queue) }
        };
        let (send, recv) = (null(options.send_cq, "send_cq")?, null(options.recv_cq, "recv_cq")?);
        let defaults = QpOptions::new(send.queue(), recv.queue());
        let mut config = options.config(&defaults.config)?;
        if let Some(recovery) = recovery {
            config.recovery = recovery.parse()?;
        }
        if let Some(cc) = cc {
            config.cc = cc.parse()?;
        }
        let checked = QpOptions {
            max_sge: options.max_sge as usize,
            max_inline: options.max_inline as usize,
            config,
            ..defaults
        };
        Ok((checked, [send.children.add(), recv.children.add()]))
    }

    /// Names all fields, so that a new setting of the engine cannot be forgotten here.
    fn config(&self, defaults: &QpConfig) -> Result<QpConfig, Failure> {
        let QpConfig { pd, recovery, ref cc, .. } = *defaults;
        Ok(QpConfig {
            pd,
            recovery,
            cc: cc.clone(),
            access: parse_access(self.access)?,
            max_send_wr: self.max_send_wr,
            max_recv_wr: self.max_recv_wr,
            window: narrow(self.window.into(), 4096, "window")?,
            max_rd_atomic: narrow(self.max_rd_atomic.into(), 255, "max_rd_atomic")?,
            rnr_retry: match self.rnr_retry {
                -1 => None,
                count => Some(u8::try_from(count).map_err(|_| Failure::Constant {
                    name: "rnr_retry",
                    value: count.into(),
                    accepted: "0 to 255, or -1 for no limit",
                })?),
            },
            reorder_threshold: self.reorder_threshold,
            ask_every: self.ask_every,
            rnr_delay: timer(self.rnr_delay_us, "rnr_delay_us")?,
            min_rto: timer(self.min_rto_us, "min_rto_us")?,
            max_rto: timer(self.max_rto_us, "max_rto_us")?,
            retry_timeout: match timer(self.retry_timeout_us, "retry_timeout_us")? {
                Duration::ZERO => defaults.retry_timeout,
                timeout => timeout,
            },
            reply_hold: timer(self.reply_hold_us, "reply_hold_us")?,
            reply_wait: defaults.reply_wait,
        })
    }
}

/// Fills `options` with the defaults, and the queues with NULL; `size` is sizeof(braid_qp_options).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_qp_options_init(
    options: *mut braid_qp_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(options, size, Default::default()) }.map(|()| 0))
}
