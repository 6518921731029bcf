//! Data queue pairs that speak plain RoCEv2 (`--roce`). The two sides exchange their ends over the
//! control queue pair, as programs for verbs do over TCP.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use braid::{Engine, QpId, QpState, QueuePair, RoceMtu, RoceRemote};

use crate::control::Control;
use crate::failure::{Attempt, Failure};
use crate::plan::{Answer, Dcqcn, Order, RoceEnd, RocePlan};

impl RoceEnd {
    /// Returns the end of a queue pair of this side. `mtu`: the largest path MTU that the plan
    /// allows.
    fn of(
        engine: &Engine,
        (index, qp): (u32, &QueuePair),
        peer: SocketAddr,
        mtu: Option<u32>,
    ) -> Result<Self, Failure> {
        let port = engine.roce_port(peer).attempt("RoCEv2")?;
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let psn = (now.subsec_nanos() ^ qp.number().get() << 8) & 0xFF_FFFF;
        let mtu = mtu.map_or(port.mtu.bytes(), |most| most.min(port.mtu.bytes()));
        let (gid, port) = (port.gid, port.port);
        Ok(RoceEnd { index, gid, port, qp: qp.number().get(), psn, mtu })
    }

    /// Connects a queue pair with this end to `theirs`.
    fn connect(
        &self,
        qp: &QueuePair,
        theirs: &RoceEnd,
        dcqcn: Option<Dcqcn>,
    ) -> Result<(), Failure> {
        if theirs.index != self.index {
            return Err(Failure::Peer("connected out of turn".to_owned()));
        }
        let mtu = RoceMtu::from_bytes(self.mtu.min(theirs.mtu));
        let mtu = mtu.ok_or_else(|| Failure::Peer(format!("has a path MTU of {}", theirs.mtu)))?;
        let mut remote = RoceRemote::new(theirs.gid, QpId::new(theirs.qp));
        (remote.port, remote.mtu) = (theirs.port, Some(mtu));
        (remote.recv_psn, remote.send_psn) = (theirs.psn, self.psn);
        remote.dcqcn = dcqcn.map(|Dcqcn(config)| config);
        qp.connect_roce(&remote).attempt("RoCEv2")
    }
}

/// Connects queue pair `index` of the client.
pub(crate) fn connect(
    engine: &Engine,
    control: &mut Control,
    (index, qp): (u32, &QueuePair),
    (peer, plan): (SocketAddr, RocePlan),
    limit: Duration,
) -> Result<(), Failure> {
    qp.modify(QpState::Init).attempt("queue pair to INIT")?;
    let own = RoceEnd::of(engine, (index, qp), peer, Some(plan.mtu))?;
    control.send(&Order::Connect(own))?;
    match control.answer(limit)? {
        Answer::Connected(theirs) => own.connect(qp, &theirs, plan.dcqcn),
        _ => Err(Failure::Peer("did not connect a queue pair".to_owned())),
    }
}

/// Connects queue pair `index` of the server to the end of a client.
pub(crate) fn accept(
    engine: &Engine,
    control: &mut Control,
    (index, qp): (u32, &QueuePair),
    peer: SocketAddr,
    (theirs, dcqcn): (&RoceEnd, Option<Dcqcn>),
) -> Result<(), Failure> {
    qp.modify(QpState::Init).attempt("queue pair to INIT")?;
    let own = RoceEnd::of(engine, (index, qp), peer, None)?;
    own.connect(qp, theirs, dcqcn)?;
    control.send(&Answer::Connected(own))
}
