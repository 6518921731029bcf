//! A set of contexts: for each a queue to each rank. NCCL's rmaCtx and ginCtx.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::RmaError;
use super::group::RmaGroup;
use super::peer_queue::{PeerQueue, Transfer};
use super::request::RequestId;
use super::symmetric::{Part, SymmetricRegion};
use crate::comm::Connection;
use crate::error::Error;
use crate::traffic_class::TrafficClass;

/// The configuration of contexts, as NCCL passes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextConfig {
    /// Number of contexts.
    pub(crate) contexts: c_int,
    /// The traffic class (`IP_TOS`), or a negative number for the default.
    pub(crate) traffic_class: c_int,
    /// Ranks whose distance is a multiple of this are connected.
    pub(crate) rank_stride: c_int,
}

/// The configuration of contexts, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CheckedConfig {
    pub(super) contexts: usize,
    pub(super) traffic_class: TrafficClass,
    pub(super) stride: usize,
}

impl ContextConfig {
    /// Checks the configuration for a group of this size.
    ///
    /// # Errors
    /// If a value is out of range.
    pub(super) fn check(self, ranks: usize) -> Result<CheckedConfig, RmaError> {
        let ContextConfig { contexts, traffic_class, rank_stride } = self;
        let number = usize::try_from(contexts).ok();
        // A request names its queue in 16 bits.
        let number = number.filter(|number| (1..=65_535 / ranks).contains(number));
        let contexts = number.ok_or(RmaError::Contexts { contexts: contexts.into(), ranks })?;
        let stride = usize::try_from(rank_stride).ok();
        let stride = stride.filter(|stride| *stride > 0 && ranks.is_multiple_of(*stride));
        let stride = stride.ok_or(RmaError::Stride { stride: rank_stride.into(), ranks })?;
        let class = TrafficClass::of_config(traffic_class);
        let class = class.ok_or(RmaError::TrafficClass(traffic_class.into()))?;
        Ok(CheckedConfig { contexts, traffic_class: class, stride })
    }
}

/// The context and the rank of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) context: c_int,
    pub(crate) rank: u32,
}

/// A place in registered memory.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) region: &'a SymmetricRegion,
    pub(crate) offset: u64,
    /// The name of the argument that has the offset.
    pub(crate) name: &'static str,
}

/// Bytes between this rank and another.
#[derive(Clone, Copy)]
pub(crate) struct Extent<'a> {
    pub(crate) local: Span<'a>,
    pub(crate) remote: Span<'a>,
    pub(crate) size: u64,
}

/// A word at another rank, and the number to add to it.
#[derive(Clone, Copy)]
pub(crate) struct Signal<'a> {
    pub(crate) at: Span<'a>,
    pub(crate) add: u64,
}

/// A set of contexts; see the module.
pub(crate) struct RmaContext {
    /// The number in the group, which requests have.
    number: u16,
    group: Arc<RmaGroup>,
    config: CheckedConfig,
    /// By context, then by rank. `None`: the stride leaves the rank out.
    queues: Box<[Option<Mutex<PeerQueue>>]>,
    /// The accepting ends of the queue pairs to this rank itself.
    _own_ends: Mutex<Vec<Connection>>,
    /// The queue that [`RmaContext::progress`] looks at next.
    turn: AtomicUsize,
}

impl RmaContext {
    pub(super) fn new(
        number: u16,
        group: Arc<RmaGroup>,
        config: CheckedConfig,
        queues: Vec<Option<PeerQueue>>,
        own_ends: Vec<Connection>,
    ) -> Self {
        let queues = queues.into_iter().map(|queue| queue.map(Mutex::new)).collect();
        let (own_ends, turn) = (Mutex::new(own_ends), AtomicUsize::new(0));
        RmaContext { number, group, config, queues, _own_ends: own_ends, turn }
    }

    /// Returns whether this process created the context.
    pub(crate) fn is_here(&self) -> bool {
        self.group.is_here()
    }

    /// Puts bytes to a rank, and then signals it.
    ///
    /// # Errors
    /// If an argument is out of range, the rank is lost, or there are too many requests.
    pub(crate) fn put(
        &self,
        to: Target,
        piece: Option<Extent<'_>>,
        signal: Option<Signal<'_>>,
    ) -> Result<RequestId, Error> {
        let (index, mut queue) = self.queue(to)?;
        let transfer = piece.map(|piece| self.transfer(to, piece)).transpose()?;
        let signal = signal.map(|signal| {
            let Span { region, offset, name } = signal.at;
            let part = Part { name, offset, size: 8 };
            let at = region.remote(self.group.number(), to.rank as usize, part)?;
            match at.addr.is_multiple_of(8) {
                true => Ok((at, signal.add)),
                false => Err(RmaError::SignalAlignment { offset, addr: at.addr }),
            }
        });
        let begun = queue.put(transfer, signal.transpose()?)?;
        Ok(self.request(index, begun))
    }

    /// Gets bytes from a rank.
    ///
    /// # Errors
    /// As for [`RmaContext::put`].
    pub(crate) fn get(&self, from: Target, piece: Option<Extent<'_>>) -> Result<RequestId, Error> {
        let (index, mut queue) = self.queue(from)?;
        let transfer = piece.map(|piece| self.transfer(from, piece)).transpose()?;
        Ok(self.request(index, queue.get(transfer)?))
    }

    /// Begins a request that is done when all earlier ones of the context to the rank are. What
    /// they have got is in its memory then, also in that of a GPU.
    ///
    /// # Errors
    /// As for [`RmaContext::put`].
    pub(crate) fn flush(&self, target: Target) -> Result<RequestId, Error> {
        let (index, mut queue) = self.queue(target)?;
        Ok(self.request(index, queue.flush()?))
    }

    /// Returns whether a request is done. It has then ended.
    ///
    /// # Errors
    /// If the rank is lost, or the request is over.
    pub(super) fn test(&self, request: RequestId) -> Result<bool, Error> {
        let queue = self.queues.get(usize::from(request.queue)).and_then(Option::as_ref);
        let queue = queue.ok_or(Error::StaleRequest)?;
        lock(queue).test(request.place, request.generation)
    }

    /// Drives the engine, if no thread of its own does, and looks at one queue.
    ///
    /// # Errors
    /// If the rank of that queue is lost.
    pub(crate) fn progress(&self) -> Result<(), Error> {
        self.check_here()?;
        for _ in 0..self.queues.len() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.queues.len();
            if let Some(queue) = &self.queues[turn] {
                let mut queue = lock(queue);
                queue.progress();
                return queue.fault().map_or(Ok(()), |fault| Err(fault.into()));
            }
        }
        Ok(())
    }

    /// Returns whether a rank is lost.
    ///
    /// # Errors
    /// If another process created the context.
    pub(crate) fn has_error(&self) -> Result<bool, Error> {
        self.check_here()?;
        Ok(self.queues.iter().flatten().any(|queue| lock(queue).fault().is_some()))
    }

    /// Number of requests that are not done, to ranks that are not lost.
    pub(crate) fn in_flight(&self) -> usize {
        self.queues.iter().flatten().map(|queue| lock(queue).in_flight()).sum()
    }

    fn check_here(&self) -> Result<(), Error> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    fn queue(&self, target: Target) -> Result<(usize, MutexGuard<'_, PeerQueue>), Error> {
        self.check_here()?;
        let (ranks, contexts) = (self.group.ranks(), self.config.contexts);
        let context = usize::try_from(target.context).ok().filter(|it| *it < contexts);
        let wrong = RmaError::Context { context: target.context.into(), contexts };
        let context = context.ok_or(wrong)?;
        let rank = target.rank as usize;
        if rank >= ranks {
            return Err(RmaError::Rank { rank: target.rank.into(), ranks }.into());
        }
        let index = context * ranks + rank;
        let stride = self.config.stride;
        let queue = self.queues[index].as_ref().ok_or(RmaError::NotConnected { rank, stride })?;
        Ok((index, lock(queue)))
    }

    fn transfer(&self, target: Target, piece: Extent<'_>) -> Result<Transfer, RmaError> {
        let Extent { local, remote, size } = piece;
        let group = self.group.number();
        let part = |span: Span<'_>| Part { name: span.name, offset: span.offset, size };
        Ok(Transfer {
            local: local.region.local(group, part(local))?,
            remote: remote.region.remote(group, target.rank as usize, part(remote))?,
            size,
        })
    }

    fn request(&self, queue: usize, (place, generation): (u16, u16)) -> RequestId {
        RequestId { context: self.number, queue: queue as u16, place, generation }
    }
}

fn lock(queue: &Mutex<PeerQueue>) -> MutexGuard<'_, PeerQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(contexts: c_int, traffic_class: c_int, rank_stride: c_int) -> Result<(), String> {
        let config = ContextConfig { contexts, traffic_class, rank_stride };
        config.check(8).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_configuration_out_of_range_is_named() {
        for (contexts, class, stride) in [(1, -1, 1), (4, 0, 8), (8191, 255, 2), (1, c_int::MIN, 4)]
        {
            assert_eq!(checked(contexts, class, stride), Ok(()));
        }
        for (contexts, class, stride, named) in [
            (0, -1, 1, "0 contexts"),
            (-1, -1, 1, "-1 contexts"),
            (8192, -1, 1, "8192 contexts"),
            (1, 256, 1, "traffic class 256"),
            (1, -1, 0, "stride 0"),
            (1, -1, 3, "stride 3"),
            (1, -1, 16, "stride 16"),
        ] {
            let error = checked(contexts, class, stride).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
