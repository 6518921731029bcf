//! One end of a queue pair.

use std::collections::HashMap;
use std::time::Duration;

use braid_lb::{RailSet, Rails, StreamId};
use braid_transport::{
    ConnectedQp, DirectConfig, Endpoint, EndpointConfig, LossRecovery, QpConfig, QpCounters,
    QpSlot, QpState, QueuePair, RecvWr, Remote, RemoteAddr, SendOp, SendWr, SgList, Sge,
};
use braid_wire::{Crc, QpId, Time, Token};

use super::data_path::Interfaces;
use super::memory::address_of;
use super::paths::{ANSWERING, PathSets};
use super::waits::Silence;
use super::{HostConfig, Recovery};
use crate::packet::EndId;
use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::{Message, Workload};

/// Time for which a path that has lost a directly placed packet stages: some round trips.
const REST: Duration = Duration::from_micros(100);

/// Time of the first ping: never. Peers fail only through faults of the fabric, which time-outs
/// detect.
const NO_PINGS: Duration = Duration::from_secs(100 * 24 * 3600);

/// One end of a queue pair: a cache line, and its protocol state while it is in use.
#[derive(Debug)]
#[repr(align(64))]
pub struct End {
    pub(crate) interfaces: Interfaces,
    stage: Stage,
    /// The path set of this end.
    pub(crate) paths: u32,
    /// Number of messages of the queue pair without a completion at this end.
    pub(crate) open: u32,
    /// Number of packets sent to the peer, those that switches have added included. Wraps.
    pub(crate) sent: u32,
    /// Number of packets of the peer that have arrived here or were dropped. Wraps.
    pub(crate) received: u32,
    /// The rails whose interfaces list this end as ready.
    pub(crate) queued: RailSet,
}

/// The stages of an end. Most pairs of a large run have nothing to do most of the time, so the
/// protocol state exists from the first message or packet to the last.
#[derive(Debug)]
enum Stage {
    /// Nothing was sent or received so far. The streams are those of the path set.
    Unused([StreamId; 2]),
    InUse(Box<Protocol>),
    Finished(Box<Past>),
}

/// The protocol state of an end.
#[derive(Debug)]
pub(crate) struct Protocol {
    /// The endpoint of the protocol.
    pub(crate) endpoint: Endpoint,
    pub(crate) slot: QpSlot,
    /// The time of the earliest timer event scheduled for this end.
    pub(crate) armed: Ps,
    pub(crate) silence: Silence,
}

/// The result of a finished end, for reports.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Past {
    pub(crate) counters: QpCounters,
    /// The longest retransmission time-out of its subflows, without backoff.
    pub(crate) rto: Duration,
}

impl End {
    fn new(interfaces: Interfaces, paths: u32, rails: &mut Rails, messages: u32) -> End {
        End {
            interfaces,
            // Path policies number the streams in this order, whenever the ends come into use.
            stage: Stage::Unused(Endpoint::admit(rails)),
            paths,
            open: messages,
            sent: 0,
            received: 0,
            queued: RailSet::default(),
        }
    }

    /// Brings the end into use, unless it is already.
    #[inline]
    pub(crate) fn begin(&mut self, id: EndId, settings: &EndSettings, rails: &Rails) {
        if let Stage::Unused(streams) = self.stage {
            let protocol = settings.connect(id, self.open, rails, streams);
            self.stage = Stage::InUse(Box::new(protocol));
        }
    }

    /// Returns the protocol state of an end in use.
    ///
    /// # Panics
    /// Panics if the end is not in use.
    #[inline]
    pub(crate) fn protocol(&mut self) -> &mut Protocol {
        self.in_use_mut().expect("an end gets packets and messages only while it is in use")
    }

    /// Returns the protocol state if the end is in use.
    #[inline]
    pub(crate) fn in_use_mut(&mut self) -> Option<&mut Protocol> {
        match &mut self.stage {
            Stage::InUse(protocol) => Some(protocol),
            Stage::Unused(_) | Stage::Finished(_) => None,
        }
    }

    /// Returns the protocol state if the end is in use.
    pub(crate) fn in_use(&self) -> Option<&Protocol> {
        match &self.stage {
            Stage::InUse(protocol) => Some(protocol),
            Stage::Unused(_) | Stage::Finished(_) => None,
        }
    }

    /// Returns the result so far.
    pub(crate) fn past(&self) -> Past {
        match &self.stage {
            Stage::Unused(_) => Past::default(),
            Stage::InUse(protocol) => protocol.past(),
            Stage::Finished(past) => **past,
        }
    }

    /// Returns whether the end waits for nothing. It is finished if this holds for its peer, too,
    /// and no packet is under way between them.
    pub(crate) fn is_done(&self) -> bool {
        let is_quiet = |protocol: &Protocol| protocol.armed == Ps::NEVER;
        self.open == 0 && self.queued.is_empty() && self.in_use().is_some_and(is_quiet)
    }

    /// Drops the protocol state, and returns it.
    pub(crate) fn finish(&mut self) -> Option<Box<Protocol>> {
        let past = Stage::Finished(Box::new(self.past()));
        match std::mem::replace(&mut self.stage, past) {
            Stage::InUse(protocol) => Some(protocol),
            Stage::Unused(_) | Stage::Finished(_) => None,
        }
    }
}

impl Protocol {
    /// Posts a message.
    pub(crate) fn post(&mut self, now: Time, number: u32, key: u32, message: &Message) {
        let addr = address_of(number);
        let len = u32::try_from(message.bytes).expect("a workload's messages are at most 1 GiB");
        let wr = SendWr {
            id: number.into(),
            op: SendOp::Write { remote: RemoteAddr { addr, rkey: key }, imm: Some(number) },
            sges: SgList::from([Sge { addr, len, lkey: key }]),
            signalled: true,
            solicited: false,
            fence: false,
        };
        self.endpoint.post_send(now, self.slot, wr).expect("the queue is as long as its workload");
    }

    /// Returns the queue pair.
    #[inline]
    pub(crate) fn qp(&self) -> &ConnectedQp {
        self.endpoint.qp(self.slot)
    }

    fn past(&self) -> Past {
        let rto = self.qp().subflows().map(|subflow| subflow.rto).max().unwrap_or_default();
        Past { counters: self.qp().counters(), rto }
    }

    /// Returns the time of the next time-out. `None`: there is none before the next event.
    #[inline]
    pub(crate) fn next_timeout(&self, rails: &Rails) -> Option<Ps> {
        let at = self.endpoint.next_timeout(rails)?;
        (at < Time::ZERO + NO_PINGS).then(|| Ps::from_time(at))
    }
}

/// The settings of all ends.
#[derive(Debug)]
pub(crate) struct EndSettings {
    endpoint: EndpointConfig,
    qp: QpConfig,
    mtu: u16,
    oversubscription: Option<u32>,
}

impl EndSettings {
    /// `mtu`: payload bytes of a full segment.
    pub(crate) fn new(topology: &Topology, config: &HostConfig, mtu: u16) -> EndSettings {
        EndSettings {
            endpoint: endpoint_config(config, mtu),
            qp: qp_config(config),
            mtu,
            // Collective communication detects the topology (MCC, section 4).
            oversubscription: Some(topology.oversubscription()),
        }
    }

    /// Creates the protocol state of an end as of the start of the run, with receives for the
    /// completions of its messages.
    fn connect(&self, id: EndId, messages: u32, rails: &Rails, streams: [StreamId; 2]) -> Protocol {
        let config = QpConfig { max_send_wr: messages, max_recv_wr: messages, ..self.qp.clone() };
        let (own, far) = (id.0, id.peer().0);
        let number = |end: u32| QpId::new(end + 2);
        let mut qp = QueuePair::new(number(own), Token(own), config);
        qp.modify(QpState::Init).expect("INIT follows RESET");
        let remote = Remote {
            qp: number(far),
            token: Token(far),
            send_psn: 0,
            recv_psn: 0,
            mtu: self.mtu,
            window: self.qp.window,
            segments: u32::MAX,
            max_rd_atomic: 1,
            crc: Crc::Off,
            oversubscription: self.oversubscription,
            min_rto: Duration::ZERO,
            grants_credit: true,
        };
        let mut endpoint = Endpoint::new(Time::ZERO, self.endpoint);
        let slot = endpoint.adopt_admitted(Time::ZERO, qp, remote, rails, streams);
        for receive in (0..messages).filter(|_| !id.sends()) {
            let wr = RecvWr { id: receive.into(), sges: SgList::new() };
            let posted = endpoint.post_recv(Time::ZERO, slot, wr);
            posted.expect("the queue is as long as its workload");
        }
        Protocol { endpoint, slot, armed: Ps::NEVER, silence: Silence::default() }
    }
}

/// Creates the ends of all queue pairs that a workload needs, and returns them with the sending end
/// of each message.
pub(crate) fn plan(
    topology: &Topology,
    workload: &Workload,
    config: &HostConfig,
    sets: &mut PathSets,
) -> (Vec<End>, Vec<EndId>) {
    let mut numbers: HashMap<(u32, u32, u32), u32> = HashMap::new();
    let mut queues: Vec<(u32, u32, u32)> = Vec::new();
    let mut end_of = Vec::with_capacity(workload.messages.len());
    for Message { src, dst, queue, .. } in &workload.messages {
        let index = *numbers.entry((*src, *dst, *queue)).or_insert_with(|| {
            queues.push((*src, *dst, 0));
            queues.len() as u32 - 1
        });
        queues[index as usize].2 += 1;
        end_of.push(EndId(2 * index));
    }
    let mut ends = Vec::with_capacity(2 * queues.len());
    for (src, dst, messages) in queues {
        let interfaces = Interfaces::of_sender(config.data_path, topology, src, dst);
        let reversed = interfaces.reversed();
        let paths = sets.find(topology, &interfaces);
        ends.push(End::new(interfaces, paths, sets.get_mut(paths), messages));
        ends.push(End::new(reversed, ANSWERING, sets.get_mut(ANSWERING), messages));
    }
    (ends, end_of)
}

fn endpoint_config(config: &HostConfig, mtu: u16) -> EndpointConfig {
    EndpointConfig {
        batch_segments: config.batch.packets,
        batch_bytes: config.batch.bytes,
        quantum: config.lb.quantum(config.quantum),
        ping_interval: NO_PINGS,
        direct: config.direct.then_some(DirectConfig { long: mtu, short: mtu, hold_down: REST }),
        ..EndpointConfig::default()
    }
}

fn qp_config(config: &HostConfig) -> QpConfig {
    let (recovery, reorder_threshold) = match config.recovery {
        Recovery::Protocol(recovery) => (recovery, config.reorder_threshold),
        // The protocol detects no loss: the simulator reports them.
        Recovery::Ideal => (LossRecovery::Sack, u32::MAX),
    };
    QpConfig {
        window: config.window,
        retry_timeout: config.retry_timeout,
        min_rto: config.min_rto,
        max_rto: config.max_rto,
        recovery,
        reorder_threshold,
        ask_every: config.ack_every,
        cc: config.cc.clone(),
        ..QpConfig::default()
    }
}
