//! One end of a queue pair.

use std::collections::HashMap;
use std::time::Duration;

use braid_lb::{RailSet, Rails};
use braid_transport::{
    DirectConfig, Endpoint, EndpointConfig, LossRecovery, QpConfig, QpSlot, QpState, QueuePair,
    RecvWr, Remote, RemoteAddr, SendOp, SendWr, SgList, Sge,
};
use braid_wire::{Crc, QpId, Time, Token};

use super::data_path::Interfaces;
use super::memory::{GhostMemory, address_of};
use super::paths::{ANSWERING, PathSets};
use super::waits::Silence;
use super::{HostConfig, Recovery};
use crate::packet::EndId;
use crate::time::Ps;
use crate::topology::Topology;
use crate::workload::{Message, Workload};

/// Time for which a path that has lost a directly placed packet stages: some round trips.
const REST: Duration = Duration::from_micros(100);

/// One end of a queue pair.
#[derive(Debug)]
pub struct End {
    /// The endpoint of the protocol.
    pub(crate) endpoint: Endpoint,
    pub(crate) slot: QpSlot,
    pub(crate) interfaces: Interfaces,
    /// The path set of this end.
    pub(crate) paths: u32,
    /// The time of the earliest timer event scheduled for this end.
    pub(crate) armed: Ps,
    pub(crate) silence: Silence,
    /// The rails whose interfaces list this end as ready.
    pub(crate) queued: RailSet,
    /// The key of the local and remote memory.
    key: u32,
}

impl End {
    /// Creates an end at the start of the run.
    fn new(
        interfaces: Interfaces,
        qp: (QueuePair, Remote),
        paths: u32,
        rails: &mut Rails,
        key: u32,
        config: EndpointConfig,
    ) -> End {
        let now = Time::ZERO;
        let mut endpoint = Endpoint::new(now, config);
        let slot = endpoint.adopt(now, qp.0, qp.1, rails);
        let (armed, silence, queued) = (Ps::NEVER, Silence::default(), RailSet::default());
        End { endpoint, slot, interfaces, paths, armed, silence, queued, key }
    }

    /// Posts a message to the protocol.
    pub(crate) fn post(&mut self, now: Time, number: u32, message: &Message) {
        let addr = address_of(number);
        let len = u32::try_from(message.bytes).expect("a workload's messages are at most 1 GiB");
        let remote = RemoteAddr { addr, rkey: self.key };
        let wr = SendWr {
            id: number.into(),
            op: SendOp::Write { remote, imm: Some(number) },
            sges: SgList::from([Sge { addr, len, lkey: self.key }]),
            signalled: true,
            solicited: false,
            fence: false,
        };
        self.endpoint.post_send(now, self.slot, wr).expect("the queue is as long as its workload");
    }

    /// Posts the receive for the completion of a message.
    fn expect(&mut self, now: Time, number: u32) {
        let wr = RecvWr { id: number.into(), sges: SgList::new() };
        self.endpoint.post_recv(now, self.slot, wr).expect("the queue is as long as its workload");
    }
}

/// Creates the ends of all queue pairs that a workload needs, and the sending end of each message.
pub(crate) fn connect(
    topology: &Topology,
    workload: &Workload,
    config: &HostConfig,
    memory: &GhostMemory,
    sets: &mut PathSets,
    mtu: u16,
) -> (Vec<End>, Vec<EndId>) {
    let mut numbers: HashMap<(u32, u32, u32), usize> = HashMap::new();
    let mut queues: Vec<(u32, u32, Vec<u32>)> = Vec::new();
    let mut end_of = Vec::with_capacity(workload.messages.len());
    for (message, number) in workload.messages.iter().zip(0_u32..) {
        let Message { src, dst, queue, .. } = *message;
        let index = *numbers.entry((src, dst, queue)).or_insert_with(|| {
            queues.push((src, dst, Vec::new()));
            queues.len() - 1
        });
        queues[index].2.push(number);
        end_of.push(EndId(2 * index as u32));
    }
    let endpoint_config = endpoint_config(config, mtu);
    // Collective communication detects the topology (MCC, section 4).
    let oversubscription = Some(topology.oversubscription());
    let mut ends = Vec::with_capacity(2 * queues.len());
    for (src, dst, messages) in queues {
        let first = ends.len() as u32;
        let qp_config = qp_config(config, messages.len() as u32);
        let pair = |end: u32| {
            let (qp, remote) = queue_pair(&qp_config, end, mtu);
            (qp, Remote { oversubscription, ..remote })
        };
        let key = memory.key();
        let interfaces = Interfaces::of_sender(config.data_path, topology, src, dst);
        let reversed = interfaces.reversed();
        let paths = sets.find(topology, &interfaces);
        let set = sets.get_mut(paths);
        ends.push(End::new(interfaces, pair(first), paths, set, key, endpoint_config));
        let set = sets.get_mut(ANSWERING);
        let qp = pair(first + 1);
        let mut receiver = End::new(reversed, qp, ANSWERING, set, key, endpoint_config);
        messages.iter().for_each(|number| receiver.expect(Time::ZERO, *number));
        ends.push(receiver);
    }
    (ends, end_of)
}

fn queue_pair(config: &QpConfig, end: u32, mtu: u16) -> (QueuePair, Remote) {
    let (id, peer) = (|end: u32| QpId::new(end + 2), end ^ 1);
    let mut qp = QueuePair::new(id(end), Token(end), config.clone());
    qp.modify(QpState::Init).expect("INIT follows RESET");
    let remote = Remote {
        qp: id(peer),
        token: Token(peer),
        send_psn: 0,
        recv_psn: 0,
        mtu,
        window: config.window,
        segments: u32::MAX,
        max_rd_atomic: 1,
        crc: Crc::Off,
        oversubscription: None,
    };
    (qp, remote)
}

fn endpoint_config(config: &HostConfig, mtu: u16) -> EndpointConfig {
    EndpointConfig {
        batch_segments: config.batch.packets,
        batch_bytes: config.batch.bytes,
        quantum: config.lb.quantum(config.quantum),
        // Peers fail only through faults of the fabric, which time-outs detect, so no pings are
        // needed.
        ping_interval: Duration::from_secs(3600),
        direct: config.direct.then_some(DirectConfig { long: mtu, short: mtu, hold_down: REST }),
        ..EndpointConfig::default()
    }
}

fn qp_config(config: &HostConfig, messages: u32) -> QpConfig {
    let (recovery, reorder_threshold) = match config.recovery {
        Recovery::Protocol(recovery) => (recovery, config.reorder_threshold),
        // The protocol detects no loss: the simulator reports them.
        Recovery::Ideal => (LossRecovery::Sack, u32::MAX),
    };
    QpConfig {
        max_send_wr: messages,
        max_recv_wr: messages,
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
