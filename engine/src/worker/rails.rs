//! The rails of a worker. Each rail is a datapath on its own address or device.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use braid_lb::RailSet;
use braid_transport::{AddrPair, Carrier, Egress, LocalAddr, Regions};
use braid_wire::{FurtherRail, QpId, RailId, Routing, Time};

use crate::datapath::{
    Arrived, Caps, CarrierTrouble, Closing, Datapath, JoinError, Losses, Owner, Partner,
    PortRefused, Received, Room, Taken, Via,
};
use crate::degradation::{Degradation, Misrouting};
use crate::link::udp::canonical;
use crate::paths_to::PathRoute;

/// The datapaths by rail; at least one.
pub(crate) struct LocalRails {
    list: Vec<Box<dyn Datapath>>,
    /// The rails without room at the last [`LocalRails::make_room`].
    full: RailSet,
    /// Those of them whose devices have full queues.
    device_full: RailSet,
    /// The rails whose devices are gone.
    failed: RailSet,
}

impl LocalRails {
    /// # Panics
    /// Panics if `list` is empty.
    pub(crate) fn new(list: Vec<Box<dyn Datapath>>) -> Self {
        assert!(!list.is_empty(), "a worker has a rail");
        let (full, device_full, failed) = Default::default();
        LocalRails { list, full, device_full, failed }
    }

    /// Replaces the datapath of a rail by one that may wrap it.
    #[cfg(test)]
    pub(crate) fn replace(
        &mut self,
        rail: RailId,
        replace: impl FnOnce(Box<dyn Datapath>) -> Box<dyn Datapath>,
    ) {
        let other = replace(self.list.remove(rail.get()));
        self.list.insert(rail.get(), other);
    }

    /// The datapath over which connections are set up.
    pub(crate) fn first(&self) -> &dyn Datapath {
        &*self.list[0]
    }

    pub(crate) fn of(&mut self, rail: RailId) -> &mut dyn Datapath {
        &mut *self.list[rail.get()]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = RailId> + use<> {
        (0..self.list.len()).map(RailId::new)
    }

    /// The receiving address of each rail.
    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        self.list.iter().map(|rail| rail.local_addr()).collect()
    }

    /// The addresses of a peer (see [`PeerAddrs::agree`]) and the local address of each rail
    /// towards it.
    pub(crate) fn agree(&self, first: AddrPair, further: &[FurtherRail]) -> PeerAddrs {
        let agreed = PeerAddrs::agree(first, further, &self.addrs());
        let pair = |(rail, pair): (usize, AddrPair)| match pair.local.ip {
            None => routed(&*self.list[rail], pair.remote, pair.local.carrier),
            // A rail that is bound to a wildcard answers from the address that the peer called.
            Some(_) => pair,
        };
        PeerAddrs(agreed.iter().enumerate().map(pair).collect())
    }

    /// Adds the local address and the interface of the first rail that packets to `to` have to
    /// leave by.
    pub(crate) fn routed(&self, to: SocketAddr, carrier: Carrier) -> AddrPair {
        routed(self.first(), to, carrier)
    }

    /// The common capabilities of all rails by carrier, because a connection may use any rail.
    pub(crate) fn caps(&self) -> Vec<Caps> {
        let each = self.list.iter().map(|rail| {
            std::iter::once(rail.caps()).chain(rail.further_carriers()).collect::<Vec<_>>()
        });
        let common =
            |a: Vec<Caps>, b: Vec<Caps>| a.into_iter().zip(b).map(|(a, b)| a.and(b)).collect();
        each.reduce(common).expect("a worker has a rail")
    }

    /// Records why the rails of a connection use another carrier than the first.
    pub(crate) fn fell_back(&mut self, to: &PeerAddrs, trouble: &CarrierTrouble) {
        for (rail, to) in to.by_rail() {
            self.of(rail).fell_back(to, trouble);
        }
    }

    /// Prepares this end of a connection on all rails. Returns the routing information for the
    /// peer. An error closes the connection.
    pub(crate) fn open(&mut self, owner: Owner) -> Result<Routing, JoinError> {
        self.open_each(owner).inspect_err(|_| self.close(owner.id))
    }

    fn open_each(&mut self, owner: Owner) -> Result<Routing, JoinError> {
        let (first, further) = self.list.split_first_mut().expect("a worker has a rail");
        let nic = first.open(owner)?;
        let further = further.iter_mut().map(|rail| {
            let addr = rail.local_addr();
            rail.open(owner).map(|nic| FurtherRail { addr, nic })
        });
        Ok(Routing { nic, rails: further.collect::<Result<_, _>>()? })
    }

    /// Joins this end with the peer's at `addrs`. Returns the number of segments that may be in
    /// flight, which one rail has to hold because all may take the same. An error closes the
    /// connection on all rails.
    pub(crate) fn join(
        &mut self,
        id: QpId,
        partner: Partner,
        theirs: &Routing,
        addrs: &PeerAddrs,
    ) -> Result<u32, JoinError> {
        self.join_each(id, partner, theirs, addrs).inspect_err(|_| self.close(id))
    }

    fn join_each(
        &mut self,
        id: QpId,
        partner: Partner,
        theirs: &Routing,
        addrs: &PeerAddrs,
    ) -> Result<u32, JoinError> {
        let further = theirs.rails.iter().map(|rail| &rail.nic);
        let nics = std::iter::once(&theirs.nic).chain(further);
        let mut segments = u32::MAX;
        for (rail, (addr, nic)) in addrs.iter().zip(nics).enumerate() {
            let partner = Partner { ip: addr.remote.ip(), ..partner };
            let joined = self.list[rail].join(id, partner, nic);
            let on_rail = |source| match rail {
                0 => source,
                rail => JoinError::Rail { rail, source: Box::new(source) },
            };
            segments = segments.min(joined.map_err(on_rail)?);
        }
        // The connection does not use these rails.
        self.list[addrs.len()..].iter_mut().for_each(|rail| rail.close(id));
        Ok(segments)
    }

    /// See [`crate::datapath::DatapathSetup::retire`].
    pub(crate) fn retire(&mut self, id: QpId) {
        self.list.iter_mut().for_each(|rail| rail.retire(id));
    }

    /// See [`crate::datapath::DatapathSetup::close`].
    pub(crate) fn close(&mut self, id: QpId) {
        self.list.iter_mut().for_each(|rail| rail.close(id));
    }

    /// Sends complete batches to make room for another segment, whose rail is not known yet.
    /// [`Room::Full`]: no rail has room.
    pub(crate) fn make_room(&mut self) -> Room {
        let mut made = Room::Full;
        (self.full, self.device_full) = Default::default();
        for (index, rail) in self.list.iter_mut().enumerate() {
            match (rail.make_room(), made) {
                (Room::Full, _) => self.full.insert(RailId::new(index)),
                (Room::DeviceFull, _) => {
                    self.full.insert(RailId::new(index));
                    self.device_full.insert(RailId::new(index));
                }
                (Room::Emptied, _) | (Room::Open, Room::Emptied) => made = Room::Emptied,
                (Room::Open, _) => made = Room::Open,
            }
        }
        made
    }

    /// The rails without room at the last [`LocalRails::make_room`].
    pub(crate) fn full(&self) -> RailSet {
        self.full
    }

    /// The rails whose devices had full queues at the last [`LocalRails::make_room`].
    pub(crate) fn device_full(&self) -> RailSet {
        self.device_full
    }

    /// Whether the first rails, as many as a connection has, have all failed. `None`: whether all
    /// rails have failed.
    pub(crate) fn have_failed(&self, connection: Option<usize>) -> bool {
        let mut all = self.ids().take(connection.unwrap_or(self.list.len()));
        all.all(|rail| self.failed.contains(rail))
    }

    /// Takes a packet that belongs to no connection.
    pub(crate) fn send_datagram(&mut self, to: &PeerAddrs, egress: Egress, packet: &[u8]) {
        if let Some(to) = to.on(egress.rail()) {
            self.of(egress.rail()).send_datagram(to, via(egress), packet);
        }
    }

    /// Sends all packets that were taken. Returns `false` if a rail has some left.
    pub(crate) fn flush(&mut self) -> bool {
        let flushed = self.list.iter_mut().map(|rail| rail.flush());
        flushed.filter(|is_empty| !is_empty).count() == 0
    }

    /// Hands arrivals of all rails to `sink`, see [`Datapath::receive`].
    pub(crate) fn receive(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(RailId, Arrived<'_>),
    ) -> io::Result<Taken> {
        let mut all = Taken::default();
        for index in 0..self.list.len() {
            let (before, rest) = self.list.split_at_mut(index);
            let Some((rail, after)) = rest.split_first_mut() else { break };
            let mut others = Others { before, after };
            let (id, failed) = (RailId::new(index), &mut self.failed);
            let taken = rail.receive(now, regions, &mut |arrived| {
                if matches!(arrived, Arrived::Failed) {
                    failed.insert(id);
                }
                if let Some(arrived) = others.close_for(now, arrived) {
                    sink(id, arrived);
                }
            })?;
            all = all.and(taken);
        }
        Ok(all)
    }

    /// See [`crate::datapath::PathInfo::take_refused`].
    pub(crate) fn take_refused(&mut self, sink: &mut dyn FnMut(RailId, Carrier, PortRefused)) {
        for (index, rail) in self.list.iter_mut().enumerate() {
            rail.take_refused(&mut |carrier, refused| sink(RailId::new(index), carrier, refused));
        }
    }

    /// See [`crate::datapath::DatapathSetup::forget_memory`].
    pub(crate) fn forget_memory(&mut self) {
        self.list.iter_mut().for_each(|rail| rail.forget_memory());
    }

    /// The descriptors of all rails, see [`Datapath::readiness`]. `None`: a rail has to be polled.
    pub(crate) fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let each: Option<Vec<_>> = self.list.iter().map(|rail| rail.readiness()).collect();
        each.map(|each| each.into_iter().flatten().collect())
    }

    /// See [`Datapath::arm`].
    pub(crate) fn arm(&mut self) -> bool {
        self.list.iter_mut().map(|rail| rail.arm()).filter(|has_come| *has_come).count() > 0
    }

    /// See [`Datapath::next_due`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.list.iter().filter_map(|rail| rail.next_due()).min()
    }

    /// Starts path discovery towards a peer that has connections.
    pub(crate) fn watch(&mut self, to: &PeerAddrs) {
        self.list.iter_mut().zip(to.iter()).for_each(|(rail, to)| rail.watch(to));
    }

    /// Stops path discovery towards an address at which no peer receives any more.
    pub(crate) fn unwatch(&mut self, rail: RailId, to: AddrPair) {
        self.of(rail).unwatch(to);
    }

    /// The reason why the first rail does not carry packets between here and `to` by its own
    /// interface, as far as this host knows.
    pub(super) fn misrouting(&self, to: SocketAddr) -> Option<Misrouting> {
        let mut all = Vec::new();
        self.degradations(RailId::FIRST, to.into(), &mut all);
        all.into_iter().find_map(|one| match one {
            Degradation::RailMisrouted { cause, .. } => Some(cause),
            _ => None,
        })
    }

    /// Adds the degradations of a rail towards `to`.
    pub(super) fn degradations(&self, rail: RailId, to: AddrPair, all: &mut Vec<Degradation>) {
        self.list[rail.get()].degradations(rail.get(), to, all);
    }

    /// The connections of all paths, see [`crate::datapath::PathInfo::routes`].
    pub(super) fn routes(&self) -> Vec<PathRoute> {
        let mut all = Vec::new();
        for (rail, datapath) in self.list.iter().enumerate() {
            let before = all.len();
            datapath.routes(&mut all);
            all[before..].iter_mut().for_each(|route| route.rail = rail);
        }
        all
    }

    /// Packets lost so far on all rails.
    pub(crate) fn losses(&self) -> Losses {
        self.list.iter().map(|rail| rail.losses()).fold(Losses::default(), Losses::and)
    }
}

/// All rails except the one of the current arrival.
struct Others<'a> {
    before: &'a mut [Box<dyn Datapath>],
    after: &'a mut [Box<dyn Datapath>],
}

impl Others<'_> {
    /// Closes the epoch that the packet names before the packet is taken. Returns the arrival to
    /// take.
    fn close_for<'a>(&mut self, now: Time, arrived: Arrived<'a>) -> Option<Arrived<'a>> {
        let Arrived::Packets(Received { closes: Some((id, epoch)), .. }) = arrived else {
            return Some(arrived);
        };
        let rail = epoch.path.rail().get();
        let own = self.before.len();
        let other = match rail < own {
            true => self.before.get_mut(rail),
            // The rail of the arrival closes its own epochs.
            false => rail.checked_sub(own + 1).and_then(|place| self.after.get_mut(place)),
        };
        match other.map_or(Closing::Refused, |other| other.close_epoch(now, id, epoch)) {
            Closing::Done => Some(arrived),
            Closing::NotYet => None,
            Closing::Refused => Some(Arrived::Refused),
        }
    }
}

/// Adds the local address and the interface that packets to `to` have to leave by.
pub(super) fn routed(rail: &dyn Datapath, to: SocketAddr, carrier: Carrier) -> AddrPair {
    let AddrPair { remote, local } = rail.pair(to);
    AddrPair { remote, local: LocalAddr { carrier, ..local } }
}

/// The port of its rail by which a packet leaves.
pub(crate) fn via(egress: Egress) -> Via {
    egress.path().map_or(Via::Port, Via::Path)
}

/// The egress of a packet of this rail, from its sender's port.
pub(crate) fn egress(via: Via, rail: RailId) -> Egress {
    match via {
        Via::Port => Egress::Port(rail),
        Via::Path(path) => Egress::Path(path.on(rail)),
    }
}

/// The receiving addresses of a peer and the local addresses towards it, by rail of the connection;
/// at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PeerAddrs(Arc<[AddrPair]>);

impl From<SocketAddr> for PeerAddrs {
    /// A peer with one rail.
    fn from(addr: SocketAddr) -> Self {
        PeerAddrs(Arc::new([addr.into()]))
    }
}

impl From<AddrPair> for PeerAddrs {
    /// A peer with one rail and this local address towards it.
    fn from(pair: AddrPair) -> Self {
        PeerAddrs(Arc::new([pair]))
    }
}

impl PeerAddrs {
    /// The addresses of a peer that is set up at `first` and offers `further`, for an end that
    /// receives at `ours`. Rail n of both ends is one rail of the connection if both have it with
    /// the same IP version.
    pub(crate) fn agree(
        first: impl Into<AddrPair>,
        further: &[FurtherRail],
        ours: &[SocketAddr],
    ) -> Self {
        let first = first.into();
        let matches = |(theirs, ours): &(&FurtherRail, &SocketAddr)| {
            theirs.addr.ip().to_canonical().is_ipv4() == ours.ip().to_canonical().is_ipv4()
        };
        let rails = further.iter().zip(&ours[1..]).take_while(matches);
        let local = LocalAddr::of(first.local.carrier);
        let scoped = rails.map(|(theirs, ours)| with_scope(theirs.addr, ours));
        let scoped = scoped.map(|remote| AddrPair { remote, local });
        let addrs: Arc<[AddrPair]> = std::iter::once(first).chain(scoped).collect();
        if addrs.len() < ours.len().max(further.len() + 1) {
            let theirs: Vec<SocketAddr> = further.iter().map(|rail| rail.addr).collect();
            tracing::warn!(
                peer = %first.remote,
                ?theirs,
                ours = ?&ours[1..],
                rails = addrs.len(),
                "the further rails of the two ends do not match: only the first of them are used"
            );
        }
        PeerAddrs(addrs)
    }

    /// The same addresses, with this traffic class for packets to them.
    pub(crate) fn with_traffic_class(self, traffic_class: u8) -> Self {
        if traffic_class == 0 {
            return self;
        }
        let with_class = |pair: &AddrPair| {
            let local = LocalAddr { traffic_class, ..pair.local };
            AddrPair { local, ..*pair }
        };
        PeerAddrs(self.0.iter().map(with_class).collect())
    }

    /// The address of set-up.
    pub(crate) fn first(&self) -> SocketAddr {
        self.0[0].remote
    }

    /// The address of set-up, with the local address and interface.
    pub(crate) fn first_pair(&self) -> AddrPair {
        self.0[0]
    }

    /// The address on this rail, if the connection has it.
    #[inline]
    pub(crate) fn on(&self, rail: RailId) -> Option<AddrPair> {
        self.0.get(rail.get()).copied()
    }

    /// The carrier of all packets to the peer.
    pub(crate) fn carrier(&self) -> Carrier {
        self.0[0].local.carrier
    }

    /// Whether the peer receives packets of this carrier at `at` on this rail. `at` is canonical.
    pub(crate) fn receives_at(&self, at: SocketAddr, rail: RailId, carrier: Carrier) -> bool {
        carrier == self.carrier() && self.on(rail).is_some_and(|it| canonical(it.remote) == at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = AddrPair> {
        self.0.iter().copied()
    }

    /// The addresses with their rails.
    pub(crate) fn by_rail(&self) -> impl Iterator<Item = (RailId, AddrPair)> {
        self.iter().enumerate().map(|(rail, addr)| (RailId::new(rail), addr))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the peer may have sent a packet that arrived by this rail from `from`. Any port of
    /// the host may be that of a path. If the datapath does not know the source, only the token
    /// identifies the peer.
    #[inline]
    pub(crate) fn may_send(&self, from: Option<SocketAddr>, rail: RailId) -> bool {
        let addr = self.0.get(rail.get());
        addr.is_some_and(|addr| from.is_none_or(|from| from.ip() == addr.remote.ip()))
    }
}

/// Gives a link-local address the scope of this end's own.
fn with_scope(theirs: SocketAddr, ours: &SocketAddr) -> SocketAddr {
    match (theirs, ours) {
        (SocketAddr::V6(mut theirs), SocketAddr::V6(ours))
            if theirs.ip().is_unicast_link_local() =>
        {
            theirs.set_scope_id(ours.scope_id());
            theirs.into()
        }
        _ => theirs,
    }
}
