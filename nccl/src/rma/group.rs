//! A group of ranks, each connected to each. NCCL's collComm.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::call::Call;
use super::context::{CheckedConfig, ContextConfig, RmaContext};
use super::error::RmaError;
use super::exchange::{Exchange, LINK_RECEIVES, LINK_SENDS, Link, Record};
use super::listener::{Listening, RmaListener};
use super::meeting::{Guest, Meeting};
use super::peer_queue::{MAX_SEND_WR, PeerQueue};
use super::request::RequestId;
use super::symmetric::SymmetricRegion;
use crate::comm::Connection;
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::handle::{Address, HANDLE_LEN};
use crate::memory::{MemoryKind, MemoryUse, Registration};
use crate::traffic_class::TrafficClass;

/// The channel of the links. Contexts have the later numbers.
const LINK_CHANNEL: u32 = 0;

/// A group; see the module.
pub(crate) struct RmaGroup {
    /// Unique in the process, so that memory of another group is noticed.
    number: u64,
    rank: usize,
    ranks: usize,
    listening: Arc<Listening>,
    /// Held during a collective call, of which there is one at a time.
    collective: Mutex<Collective>,
    /// The contexts by number, from 1 on.
    contexts: Mutex<Vec<Weak<RmaContext>>>,
}

struct Collective {
    exchange: Exchange,
    meeting: Meeting,
    next_channel: u32,
}

impl RmaGroup {
    /// Connects all ranks. `handles` are those of all listeners, by rank, and `rank` is this one.
    ///
    /// # Errors
    /// If the ranks have different tables, or a rank is not reached.
    pub(crate) fn connect(
        listener: &RmaListener,
        handles: &[&[u8; HANDLE_LEN]],
        rank: c_int,
    ) -> Result<Arc<Self>, Error> {
        static GROUPS: AtomicU64 = AtomicU64::new(1);
        let ranks = handles.len();
        let own = usize::try_from(rank).ok().filter(|rank| *rank < ranks);
        let own = own.ok_or(RmaError::Rank { rank: rank.into(), ranks })?;
        let addresses = addresses(listener, handles, own)?;
        let listening = listener.listening.clone();
        let (context, timeout) = (listening.context(), listening.context().connect_timeout());
        let mut meeting = Meeting::new(listening.clone(), own, addresses.clone());
        let (mut links, mut guests) = (Vec::new(), Vec::new());
        for (rank, address) in addresses.iter().enumerate().filter(|(rank, _)| *rank != own) {
            let connection =
                Connection::new(context.clone(), address.engine, LINK_SENDS, LINK_RECEIVES)?;
            let (asks, qp) = (rank < own, connection.qp().clone());
            guests.push(Guest { rank, channel: LINK_CHANNEL, asks, qp });
            links.push(Link::new(rank, connection, context.pd())?);
        }
        meeting.connect(Call::Connect, &guests, timeout)?;
        let mut exchange = Exchange::new(own, links);
        exchange.gather(Record::new(Call::Connect), timeout)?;
        let collective = Collective { exchange, meeting, next_channel: LINK_CHANNEL + 1 };
        Ok(Arc::new(RmaGroup {
            number: GROUPS.fetch_add(1, Ordering::Relaxed),
            rank: own,
            ranks,
            listening,
            collective: Mutex::new(collective),
            contexts: Mutex::default(),
        }))
    }

    /// Returns whether this process connected the group.
    pub(crate) fn is_here(&self) -> bool {
        self.context().is_here()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Creates contexts, together with all ranks.
    ///
    /// # Errors
    /// If the configuration is invalid or differs between ranks, or the call fails at a rank.
    pub(crate) fn create_context(
        self: &Arc<Self>,
        config: ContextConfig,
    ) -> Result<Arc<RmaContext>, Error> {
        let mut collective = self.collective()?;
        let call = Call::CreateContext;
        let config = match config.check(self.ranks) {
            Ok(config) => config,
            Err(error) => return Err(collective.refuse(call, self.timeout(), error.into())),
        };
        let (contexts, stride) = (config.contexts as u64, config.stride as u64);
        let ours = Record { addr: contexts, len: stride, ..Record::new(call) };
        let records = collective.exchange.gather(ours, self.timeout())?;
        for (rank, record) in records.iter().enumerate() {
            let pairs = [("contexts", record.addr, contexts), ("rankStride", record.len, stride)];
            if let Some((what, theirs, ours)) = pairs.into_iter().find(|it| it.1 != it.2) {
                return Err(RmaError::Unequal { rank, what, theirs, ours }.into());
            }
        }
        let made = self.connect_context(&mut collective, config);
        let call = Call::ContextReady;
        let (queues, own_ends) = match made {
            Ok(made) => made,
            Err(error) => return Err(collective.refuse(call, self.timeout(), error)),
        };
        collective.exchange.gather(Record::new(call), self.timeout())?;
        drop(collective);
        let mut known = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let free = known.iter().position(|context| context.strong_count() == 0);
        let index = free.unwrap_or(known.len());
        let most = usize::from(u16::MAX);
        if index >= most {
            let contexts = index as i64 + 1;
            return Err(RmaError::Contexts { contexts, ranks: self.ranks }.into());
        }
        let number = index as u16 + 1;
        let context = RmaContext::new(number, self.clone(), config, queues, own_ends);
        let context = Arc::new(context);
        if index == known.len() {
            known.push(Weak::new());
        }
        known[index] = Arc::downgrade(&context);
        Ok(context)
    }

    /// Connects the queue pairs of contexts: one to each rank, and two for this rank itself.
    fn connect_context(
        &self,
        collective: &mut Collective,
        config: CheckedConfig,
    ) -> Result<(Vec<Option<PeerQueue>>, Vec<Connection>), Error> {
        let first = collective.next_channel;
        collective.next_channel += config.contexts as u32;
        let (mut queues, mut own_ends, mut guests) = (Vec::new(), Vec::new(), Vec::new());
        for channel in first..collective.next_channel {
            for rank in 0..self.ranks {
                if rank.abs_diff(self.rank) % config.stride != 0 {
                    queues.push(None);
                    continue;
                }
                let connection = self.connection(collective, rank, config.traffic_class)?;
                let qp = connection.qp().clone();
                guests.push(Guest { rank, channel, asks: rank <= self.rank, qp });
                queues.push(Some(PeerQueue::new(connection, rank, first as u16)?));
                if rank == self.rank {
                    let end = self.connection(collective, rank, config.traffic_class)?;
                    guests.push(Guest { rank, channel, asks: false, qp: end.qp().clone() });
                    own_ends.push(end);
                }
            }
        }
        collective.meeting.connect(Call::CreateContext, &guests, self.timeout())?;
        Ok((queues, own_ends))
    }

    fn connection(
        &self,
        collective: &Collective,
        rank: usize,
        traffic_class: TrafficClass,
    ) -> Result<Connection, Error> {
        let peer = collective.meeting.address(rank).engine;
        let connection = Connection::new(self.context().clone(), peer, MAX_SEND_WR, 1)?;
        traffic_class.apply(connection.qp());
        Ok(connection)
    }

    /// Registers memory, together with all ranks.
    ///
    /// # Errors
    /// If the memory cannot be registered here, or the call fails at a rank.
    ///
    /// # Safety
    /// See [`crate::memory::RegionCache::register`].
    pub(crate) unsafe fn register(
        &self,
        start: *mut u8,
        len: usize,
        kind: Result<MemoryKind, Error>,
    ) -> Result<SymmetricRegion, Error> {
        let mut collective = self.collective()?;
        let regions = &self.context().regions;
        let region = kind.and_then(|kind| {
            // SAFETY: the caller vouches for the memory.
            unsafe { regions.register(start, len, kind, MemoryUse::Symmetric) }
        });
        let region = match region {
            Ok(region) => region,
            Err(error) => return Err(collective.refuse(Call::Register, self.timeout(), error)),
        };
        let (addr, len, rkey) = (region.addr(), region.len() as u64, region.rkey());
        let ours = Record { addr, len, rkey, ..Record::new(Call::Register) };
        let ranks = collective.exchange.gather(ours, self.timeout())?;
        let registration = Registration::new(region, self.context().clone());
        Ok(SymmetricRegion::new(registration, self.number, &ranks))
    }

    /// Returns whether a request is done. It has then ended.
    ///
    /// # Errors
    /// If a rank is lost, the request is over, or its context was destroyed.
    pub(crate) fn test(&self, request: RequestId) -> Result<bool, Error> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        let index = usize::from(request.context).checked_sub(1).ok_or(Error::StaleRequest)?;
        let known = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let context = known.get(index).and_then(Weak::upgrade);
        drop(known);
        context.ok_or(Error::StaleRequest)?.test(request)
    }

    fn context(&self) -> &Arc<DeviceContext> {
        self.listening.context()
    }

    fn timeout(&self) -> Duration {
        self.context().connect_timeout()
    }

    fn collective(&self) -> Result<MutexGuard<'_, Collective>, Error> {
        if !self.is_here() {
            return Err(Error::Forked);
        }
        Ok(self.collective.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Collective {
    /// Tells the other ranks that the call has failed here. Returns the reason.
    fn refuse(&mut self, call: Call, timeout: Duration, reason: Error) -> Error {
        if let Err(further) = self.exchange.gather(Record::failed(call), timeout) {
            tracing::warn!("while the other ranks were told of a failure: {further}");
        }
        reason
    }
}

/// Returns the addresses of all ranks.
fn addresses(
    listener: &RmaListener,
    handles: &[&[u8; HANDLE_LEN]],
    own: usize,
) -> Result<Vec<Address>, Error> {
    let mut addresses = Vec::with_capacity(handles.len());
    for (rank, handle) in handles.iter().enumerate() {
        let (address, theirs) = Address::from_rma_handle(handle)?;
        let ours = listener.table;
        if theirs != ours {
            return Err(RmaError::UnequalTables { rank, theirs, ours }.into());
        }
        addresses.push(address);
    }
    match addresses[own] == listener.listening.address() {
        true => Ok(addresses),
        false => Err(RmaError::OwnHandle { rank: own }.into()),
    }
}
