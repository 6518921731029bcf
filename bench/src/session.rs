//! A session: an engine, its connections to the other side, and the memory of the measurement.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use braid::{
    Access, CcConfig, CompletionQueue, ConnectError, ConnectionRequest, Crc, DatapathOptions,
    Engine, EngineConfig, EngineError, Faults, Listener, Medium, MemFabric, MemoryRegion, PathsTo,
    Progress, ProtectionDomain, QpOptions, QpState, QueuePair, RejectReason, RemoteRegion,
    Security, Status, VerbsOptions, VerbsService,
};

use crate::cli::Test;
use crate::control::Control;
use crate::degraded::{self, Degraded};
use crate::engine_args::{EngineArgs, MemoryKind, ProgressKind, Service, Switch};
use crate::failure::{Attempt, Failure};
use crate::plan::{Answer, Dcqcn, Join, Order, Plan, Regions, from_json, to_json};
use crate::report::RailUse;
use crate::stdio::say;
use crate::traffic::{OutOfOrder, Traffic};
use crate::{interrupt, pattern, roce};

/// Time limit for a client to find its server, and for a server to accept all connections of its
/// client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the next order of a client.
const ORDER: Duration = Duration::from_secs(60);
/// Clients that wait for their turn; a listener holds as many others.
const MOST_HELD: usize = 64;
/// Interval at which a server checks for its client while it waits for the connections.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// Time limit of path discovery, including routers that limit their answers.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The connected state of a run, the same on both sides.
pub(crate) struct Session {
    pub(crate) plan: Plan,
    pub(crate) control: Control,
    pub(crate) qps: Vec<QueuePair>,
    pub(crate) cq: CompletionQueue,
    /// Memory that this side sends from, or reads into.
    pub(crate) local: MemoryRegion,
    /// Memory that the other side writes to, sends to or reads from.
    pub(crate) exposed: MemoryRegion,
    /// Words: one counter per queue pair of the other side, then one source of our counts.
    pub(crate) credits: MemoryRegion,
    pub(crate) remote: RemoteRegion,
    pub(crate) remote_credits: RemoteRegion,
    pub(crate) is_client: bool,
    /// The address of the other side.
    peer: SocketAddr,
    /// Time by which a client has to end, after it was told that this server was interrupted.
    deadline: Option<Instant>,
    // Dropped last, because the connections above close through it.
    pub(crate) engine: Engine,
}

/// The parts of one side that do not depend on the plan.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) engine: Engine,
    cc: CcConfig,
    memory: MemoryKind,
}

impl Side {
    /// Creates an engine with the options of this side.
    pub(crate) fn new(
        args: &EngineArgs,
        port: u16,
        fabric: Option<&MemFabric>,
    ) -> Result<Side, Failure> {
        Ok(Self::of(args, judge(Engine::new(engine_config(args, port, fabric)?))?))
    }

    /// Creates the engine of a client whose server is at the port of RoCEv2. It receives at that
    /// port, too, or shares it with the process that has it.
    pub(crate) fn at_roce_port(args: &EngineArgs) -> Result<Side, Failure> {
        match Engine::new(engine_config(args, braid::DEFAULT_PORT, None)?) {
            Err(EngineError::Bind { source, .. }) if source.kind() == ErrorKind::AddrInUse => {
                Self::new(args, 0, None)
            }
            made => Ok(Self::of(args, judge(made)?)),
        }
    }

    fn of(args: &EngineArgs, engine: Engine) -> Side {
        Side { engine, cc: args.policy.cc.clone(), memory: args.memory }
    }
}

/// Returns a new engine, or the reason why there is none.
fn judge(made: Result<Engine, EngineError>) -> Result<Engine, Failure> {
    match made {
        Err(
            error @ (EngineError::PathCount(_)
            | EngineError::Verbs(_)
            | EngineError::Xdp(_)
            | EngineError::Rails { .. }),
        ) => Err(usage(error)),
        made => made.attempt("engine"),
    }
}

/// Returns the configuration of an engine that receives on `port`, from the command line.
pub(crate) fn engine_config(
    args: &EngineArgs,
    port: u16,
    fabric: Option<&MemFabric>,
) -> Result<EngineConfig, Failure> {
    let mut bind = args.bind.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into());
    bind.set_port(port);
    let options = DatapathOptions { device: device(args), fabric: fabric.cloned() };
    let datapath = args.datapath().build(&options).map_err(usage)?;
    if fabric.is_some() {
        bind.set_ip(IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
    let mut rails = args.policy.rails.iter().copied();
    if let Some(first) = rails.next() {
        bind.set_ip(first);
    }
    Ok(EngineConfig {
        datapath,
        bind,
        rails: rails.collect(),
        rail_policy: args.policy.rail_policy,
        progress: match args.progress {
            ProgressKind::Poll => Progress::Application,
            ProgressKind::Thread => Progress::Threads(1),
        },
        paths: args.policy.paths,
        lb: args.policy.lb,
        quantum: args.policy.quantum,
        destination_groups: args.policy.destination_groups.clone().unwrap_or_default(),
        discover: args.policy.discover == Switch::On,
        mtu: args.mtu,
        crc: args.crc.map(|crc| if crc == Switch::On { Crc::On } else { Crc::Off }),
        security: security(args)?,
        faults: faults(args),
        metrics: args.metrics.unwrap_or_default(),
        ..EngineConfig::default()
    })
}

/// Silence after which a rank of many is considered dead. Ranks often share cores, and then one may
/// not get its turn for seconds.
const RANK_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the configuration of a rank's engine that receives on `port`, from the command line.
pub(crate) fn rank_config(args: &EngineArgs, port: u16) -> Result<EngineConfig, Failure> {
    Ok(EngineConfig { peer_timeout: RANK_TIMEOUT, ..engine_config(args, port, None)? })
}

/// The RDMA device of the command line.
fn device(args: &EngineArgs) -> Option<VerbsOptions> {
    let service = match args.device.connection {
        Some(Service::Rc) => VerbsService::Rc,
        Some(Service::Uc) | None => VerbsService::Uc,
    };
    let (device, port) = (args.device.dev.clone()?, args.device.ib_port);
    Some(VerbsOptions { device, port, gid_index: args.device.gid_index, service })
}

fn faults(args: &EngineArgs) -> Faults {
    Faults {
        drop: args.faults.drop,
        reorder: args.faults.reorder,
        duplicate: args.faults.duplicate,
        corrupt: args.faults.corrupt,
        delay: Duration::from_micros(args.faults.delay),
        seed: args.seed,
    }
}

fn security(args: &EngineArgs) -> Result<Option<Security>, Failure> {
    let (key, allowed) = (args.protection.key.as_deref(), args.protection.allowed_keys.as_deref());
    Security::from_files(key, allowed, args.protection.security.clone()).map_err(usage)
}

/// Rejects options that exclude each other.
pub(crate) fn check(args: &EngineArgs) -> Result<(), Failure> {
    let is_device = args.datapath().medium() == Medium::Device;
    match (is_device, &args.device.dev) {
        (true, None) => {
            let name = args.datapath();
            return Err(usage(format_args!("`--datapath {name}` needs a device: `-d DEV`")));
        }
        (false, Some(_)) => {
            return Err(usage("`-d` names an RDMA device: it goes with `--datapath verbs`"));
        }
        (false, None) if args.device.connection == Some(Service::Uc) => {
            return Err(usage("`-c UC` is a service of RDMA devices: it goes with `-d DEV`"));
        }
        _ => {}
    }
    if security(args)?.is_some() && is_device {
        return Err(usage(EngineError::KeyOverVerbs));
    }
    faults(args).validate().map_err(usage)
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

pub(crate) fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    braid::resolve(host, port).map_err(usage)
}

impl Session {
    /// Connects all queue pairs to a server.
    ///
    /// Without a time limit of the user's, a server that is not there ends the attempt at once.
    pub(crate) fn connect(
        side: Side,
        servers: &[SocketAddr],
        plan: Plan,
        limit: Option<Duration>,
    ) -> Result<Self, Failure> {
        let mut parts = Parts::new(side, plan, true)?;
        let join = to_json(&Join::Control(parts.plan.clone(), parts.regions()));
        let began = Instant::now();
        let patience = limit.unwrap_or(CONNECT_TIMEOUT + parts.plan.time_for_memory());
        let answer = loop {
            let left = patience.saturating_sub(began.elapsed());
            match parts.control.qp.connect_any(servers, &join, left) {
                Err(error)
                    if is_absent(&error) && limit.is_some() && began.elapsed() < patience =>
                {
                    thread::sleep(LOOK_AFTER);
                }
                done => break done.attempt("connect")?,
            }
        };
        let answered = parts.control.qp.remote_addr().map(|addr| addr.ip());
        let is_it = |addr: &&SocketAddr| Some(addr.ip().to_canonical()) == answered;
        let server = *servers.iter().find(is_it).unwrap_or(&servers[0]);
        let (remote, remote_credits) = from_json(&answer)?;
        for index in 0..parts.plan.qps {
            let (qp, limit) = (parts.data_qp()?, limit.unwrap_or(CONNECT_TIMEOUT));
            if let Some(plan) = parts.plan.roce {
                let (engine, control) = (&parts.side.engine, &mut parts.control);
                roce::connect(engine, control, (index, &qp), (server, plan), limit)?;
            } else {
                let join = to_json(&Join::Data(index));
                qp.connect(server, &join, limit).attempt("connect")?;
            }
            parts.qps.push(qp);
        }
        parts.finish(server, (remote, remote_credits), true)
    }

    /// Accepts a client, and waits for its other connections. Other clients are held, or rejected.
    pub(crate) fn accept(
        side: Side,
        listener: &Listener,
        request: ConnectionRequest,
        mut held: Option<&mut VecDeque<ConnectionRequest>>,
    ) -> Result<Self, Failure> {
        let Join::Control(plan, (remote, remote_credits)) = from_json(request.private_data())?
        else {
            return Err(Failure::Peer("did not begin with its plan".to_owned()));
        };
        check_plan(&plan)?;
        let client = request.peer_addr();
        let mut parts = Parts::new(side, plan, false)?;
        let regions = to_json(&parts.regions());
        request.accept(&parts.control.qp, &regions).attempt("accept")?;
        if let Some(plan) = parts.plan.roce {
            parts.accept_over_roce(client, plan.dcqcn)?;
        }
        while parts.qps.len() < parts.plan.qps as usize {
            let request = parts.next_request(listener, client, held.as_deref_mut())?;
            match from_json(request.private_data())? {
                Join::Data(index) if index as usize == parts.qps.len() => {}
                _ => return Err(Failure::Peer("connected out of turn".to_owned())),
            }
            let qp = parts.data_qp()?;
            request.accept(&qp, &[]).attempt("accept")?;
            parts.qps.push(qp);
        }
        parts.finish(client, (remote, remote_credits), false)
    }

    /// Returns the address of the other side.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the failure of a queue pair.
    pub(crate) fn failed(&self, qp: usize, what: String, status: Status) -> Failure {
        let cause = self.qps.get(qp).and_then(QueuePair::error).map(|error| error.cause);
        Failure::Work { what, qp, peer: self.peer, status, cause }
    }

    /// Returns the number of paths to the other side in use, on all rails.
    pub(crate) fn paths_live(&self) -> usize {
        self.engine.paths().iter().map(|to| to.in_use).sum()
    }

    /// Returns the degradations of this side's connections.
    pub(crate) fn degraded(&self) -> Vec<Degraded> {
        let side = if self.is_client {
            degraded::DegradedSide::Client
        } else {
            degraded::DegradedSide::Server
        };
        degraded::of(side, &self.qps)
    }

    /// Returns the packets sent on each rail.
    pub(crate) fn rails(&self) -> Vec<RailUse> {
        let to_peer = self.engine.paths();
        let all = to_peer.iter().map(|PathsTo { ip, rail, paths, .. }| RailUse {
            rail: *rail,
            to: *ip,
            packets: paths.iter().map(|path| path.counters.sent).sum(),
            lost: paths.iter().map(|path| path.counters.lost).sum(),
        });
        all.collect()
    }

    /// Waits until the routes to the server are known, so that the measurement uses them.
    pub(crate) fn wait_for_routes(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + DISCOVERY_TIMEOUT;
        while self.engine.counters().ways_learnt == 0 {
            if Instant::now() > deadline {
                return Err(Failure::Peer(
                    "does not answer path discovery: see the log, or use --discover off".to_owned(),
                ));
            }
            self.engine.progress();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the counters of this side's data queue pairs.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::of(&self.qps, &self.engine)
    }

    /// Returns the reordering of the packets that this side received.
    pub(crate) fn out_of_order(&self) -> OutOfOrder {
        OutOfOrder::of(&self.qps)
    }

    /// Returns the client's next order.
    pub(crate) fn next_order(&mut self) -> Result<Order, Failure> {
        let deadline = Instant::now() + ORDER;
        loop {
            self.pass_interruption_on()?;
            if let Some(order) = self.control.try_receive()? {
                return Ok(order);
            }
            if Instant::now() > deadline {
                return Err(Failure::Stalled(ORDER));
            }
        }
    }

    /// Tells the client that a signal has asked this server to end, so that both end in order.
    ///
    /// # Errors
    /// The client has not ended in time.
    pub(crate) fn pass_interruption_on(&mut self) -> Result<(), Failure> {
        if !interrupt::is_requested() {
            return Ok(());
        }
        match self.deadline {
            None => {
                self.deadline = Some(Instant::now() + interrupt::GRACE);
                self.control.send(&Answer::Interrupted)
            }
            Some(deadline) if Instant::now() > deadline => Err(Failure::Interrupted),
            Some(_) => Ok(()),
        }
    }

    /// Returns whether the receiver returns credits, so that slots are reused only after a check.
    pub(crate) fn uses_credits(&self) -> bool {
        self.plan.verify && self.plan.test == Test::WriteBw
    }
}

/// Returns whether the host, or an engine whose server is still starting, says that no server
/// listens.
fn is_absent(error: &ConnectError) -> bool {
    match error {
        ConnectError::Unreachable { source, .. } => source.kind() == ErrorKind::ConnectionRefused,
        ConnectError::Rejected { reason, .. } => *reason == RejectReason::NotListening,
        _ => false,
    }
}

/// Checks the client's plan, which is untrusted input.
fn check_plan(plan: &Plan) -> Result<(), Failure> {
    let sane = (1..=16384).contains(&plan.qps)
        && (1..=65536).contains(&plan.sends)
        && (1..=65536).contains(&plan.receives)
        && (1..=plan.receives).contains(&plan.slots)
        && (1..=braid::MAX_MESSAGE).contains(&plan.slot_len)
        && plan.total_bytes() <= 1 << 36;
    if sane { Ok(()) } else { Err(Failure::Peer(format!("asked for what cannot be: {plan:?}"))) }
}

struct Parts {
    side: Side,
    pd: ProtectionDomain,
    plan: Plan,
    control: Control,
    cq: CompletionQueue,
    qps: Vec<QueuePair>,
    local: MemoryRegion,
    exposed: MemoryRegion,
    credits: MemoryRegion,
}

impl Parts {
    /// Creates everything but the connections, with its pages in place, because a connected side
    /// must answer.
    fn new(side: Side, plan: Plan, is_client: bool) -> Result<Self, Failure> {
        let engine = &side.engine;
        let pd = engine.alloc_pd();
        let control = Control::new(engine, &pd)?;
        let per_qp = (plan.sends + plan.receives) as usize + 8;
        let cq = engine.create_cq(per_qp * plan.qps as usize).attempt("completion queue")?;
        let bytes = plan.total_bytes() as usize;
        let mr = || match side.memory {
            MemoryKind::Host => pd.alloc_mr(bytes, Access::ALL).attempt("memory"),
            MemoryKind::Cuda(gpu) => pd.alloc_cuda(gpu, bytes, Access::ALL).attempt("GPU memory"),
        };
        let (local, exposed) = (mr()?, mr()?);
        let credits = pd.alloc_mr(16 * plan.qps as usize, Access::ALL).attempt("memory")?;
        let qps = Vec::new();
        let parts = Parts { side, pd, plan, control, cq, qps, local, exposed, credits };
        parts.touch(is_client)?;
        Ok(parts)
    }

    fn regions(&self) -> Regions {
        let words = |mr: &MemoryRegion| [mr.addr(), mr.len() as u64, mr.rkey().into()];
        (words(&self.exposed), words(&self.credits))
    }

    /// Returns the next connection of a client, and holds or rejects those of other peers.
    fn next_request(
        &self,
        listener: &Listener,
        client: SocketAddr,
        mut held: Option<&mut VecDeque<ConnectionRequest>>,
    ) -> Result<ConnectionRequest, Failure> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        while Instant::now() < deadline {
            if self.control.qp.state() == QpState::Error {
                return Err(self.control.ended());
            }
            if interrupt::is_requested() {
                return Err(Failure::Interrupted);
            }
            let Some(request) = listener.accept(LOOK_AFTER) else { continue };
            let from = request.peer_addr();
            if from == client {
                return Ok(request);
            }
            if let Some(held) = held.as_mut().filter(|held| held.len() < MOST_HELD) {
                held.push_back(request);
                continue;
            }
            say(format_args!("{from} is turned away: {client} is being served"));
        }
        Err(Failure::Stalled(CONNECT_TIMEOUT))
    }

    /// Connects all data queue pairs to the ends that a client sends over the control queue pair.
    fn accept_over_roce(
        &mut self,
        client: SocketAddr,
        dcqcn: Option<Dcqcn>,
    ) -> Result<(), Failure> {
        let mut deadline = Instant::now() + CONNECT_TIMEOUT;
        while self.qps.len() < self.plan.qps as usize {
            match self.control.try_receive()? {
                Some(Order::Connect(theirs)) => {
                    let (engine, qp) = (&self.side.engine, self.data_qp()?);
                    let own = (self.qps.len() as u32, &qp);
                    roce::accept(engine, &mut self.control, own, client, (&theirs, dcqcn))?;
                    self.qps.push(qp);
                    deadline = Instant::now() + CONNECT_TIMEOUT;
                }
                Some(_) => return Err(Failure::Peer("began before it connected".to_owned())),
                None if interrupt::is_requested() => return Err(Failure::Interrupted),
                None if Instant::now() > deadline => {
                    return Err(Failure::Stalled(CONNECT_TIMEOUT));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn data_qp(&self) -> Result<QueuePair, Failure> {
        let (sends, receives) = (self.plan.sends + 2, self.plan.receives + 2);
        let mut options = QpOptions::new(&self.cq, &self.cq).queues(sends, receives);
        options.config.cc = self.side.cc.clone();
        options.config.recovery = self.plan.loss_recovery;
        self.pd.create_qp(options).attempt("queue pair")
    }

    fn finish(
        self,
        peer: SocketAddr,
        (remote, credits): Regions,
        is_client: bool,
    ) -> Result<Session, Failure> {
        let region = |[addr, len, rkey]: [u64; 3]| RemoteRegion { addr, len, rkey: rkey as u32 };
        Ok(Session {
            plan: self.plan,
            control: self.control,
            qps: self.qps,
            cq: self.cq,
            local: self.local,
            exposed: self.exposed,
            credits: self.credits,
            remote: region(remote),
            remote_credits: region(credits),
            is_client,
            peer,
            deadline: None,
            engine: self.side.engine,
        })
    }

    /// Touches every page that will be used, and fills the data to send, before anything is
    /// measured.
    fn touch(&self, is_client: bool) -> Result<(), Failure> {
        let both = self.plan.bidirectional || self.plan.test.is_latency();
        if both || is_client {
            touch(&self.local)?;
        }
        if both || !is_client {
            touch(&self.exposed)?;
        }
        Ok(())
    }
}

fn touch(memory: &MemoryRegion) -> Result<(), Failure> {
    let mut page = vec![0; 4096];
    pattern::fill(&mut page, 0, 0);
    for offset in (0..memory.len()).step_by(page.len()) {
        let len = page.len().min(memory.len() - offset);
        memory.write_at(offset, &page[..len]).attempt("memory")?;
    }
    Ok(())
}
