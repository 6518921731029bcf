//! The rendezvous of the ranks. Each rank connects to rank 0 and introduces itself. Rank 0 tells
//! all of them the addresses of the others, or the reason why they do not form a group.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use braid_transport::{Access, QpState, Status};
use braid_wire::RejectReason;

use super::config::{GroupConfig, Members};
use super::error::{ForGroup, GroupError};
use super::hello::{Hello, take};
use super::strangers::Strangers;
use crate::connect::ConnectError;
use crate::listener::ConnectionRequest;
use crate::qp::{QpOptions, QueuePair};
use crate::{CompletionQueue, Engine, Listener, ProtectionDomain, random, wr};

/// Additional time that the others wait for rank 0's answer.
const GRACE: Duration = Duration::from_secs(3);
/// Time that rank 0 waits until its answers have arrived.
const DELIVERY: Duration = Duration::from_secs(2);
/// The interval at which rank 0 checks whether the connected ranks are still there.
const LOOK: Duration = Duration::from_millis(100);
/// Additional time for two ranks with the same number, after the time in which a dead one is
/// detected.
const RIVALS: Duration = Duration::from_secs(1);
/// The largest number of mismatching ranks that the others are told.
const SHOWN_MISFITS: usize = 4;
/// Time between two attempts to reach rank 0, which may not have started yet.
const RETRY: Duration = Duration::from_millis(50);
/// Bytes of an address in the table: 16 of the IP and 2 of the port.
const ENTRY: usize = 18;
/// The largest refusal in bytes.
const MAX_REFUSAL: usize = 1024;

/// The answer of rank 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table {
    /// A random number that identifies the group.
    pub(super) group: u64,
    /// The addresses by rank.
    pub(super) addresses: Vec<SocketAddr>,
}

/// A rank of this job that has connected to rank 0.
struct Guest {
    qp: QueuePair,
    rank: usize,
    addr: SocketAddr,
    /// The reason why the rank does not fit.
    misfit: Option<String>,
    came: Instant,
}

impl Guest {
    fn is_here(&self) -> bool {
        self.qp.error().is_none()
    }
}

/// The fitting ranks with this number.
fn claims(guests: &[Guest], rank: usize) -> impl Iterator<Item = &Guest> {
    guests.iter().filter(move |guest| guest.rank == rank && guest.misfit.is_none())
}

/// Two ranks with the same number, in the order of their arrival.
fn rivals(guests: &[Guest]) -> Option<[&Guest; 2]> {
    guests.iter().enumerate().find_map(|(place, later)| {
        let first = claims(&guests[..place], later.rank).next()?;
        later.misfit.is_none().then_some([first, later])
    })
}

fn job_name(job: &str) -> String {
    if job.is_empty() { "a run without a name".to_owned() } else { format!("the job `{job}`") }
}

/// The parameters of the rendezvous.
pub(super) struct Meeting<'a> {
    pub(super) engine: &'a Engine,
    pub(super) listener: &'a Listener,
    pub(super) config: &'a GroupConfig,
    pub(super) strangers: &'a Strangers,
    pub(super) deadline: Instant,
}

impl Meeting<'_> {
    /// Waits for the other ranks.
    pub(super) fn meet(&self) -> Result<Table, GroupError> {
        let GroupConfig { rank, size, .. } = self.config;
        let (pd, cq) = (self.engine.alloc_pd(), self.engine.create_cq(2 * size).for_group(*size)?);
        match rank {
            0 => self.receive(&pd, &cq),
            _ => self.come(&pd, &cq),
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn qp(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<QueuePair, GroupError> {
        let qp = pd.create_qp(QpOptions::new(cq, cq).queues(1, 1)).for_group(self.config.size)?;
        qp.modify(QpState::Init).expect("a new queue pair can be initialised");
        Ok(qp)
    }

    /// Runs the rendezvous at rank 0.
    fn receive(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<Table, GroupError> {
        let mut guests = Vec::<Guest>::new();
        while !self.is_decided(&guests, cq.engine().peer_timeout) && !self.left().is_zero() {
            if let Some(request) = self.listener.accept(self.left().min(LOOK)) {
                guests.extend(self.admit(request, &guests, pd, cq)?);
            }
            // A rank that is gone may have been restarted.
            guests.retain(|guest| guest.is_here() || self.forget(guest));
        }
        let table = self.judge(&guests);
        self.answer(pd, cq, &guests, &table)?;
        table.map_err(GroupError::Refused)
    }

    /// Accepts the connection of a rank of this job, so that it learns the outcome, and rejects any
    /// other.
    fn admit(
        &self,
        request: ConnectionRequest,
        guests: &[Guest],
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
    ) -> Result<Option<Guest>, GroupError> {
        let from = request.peer_addr();
        let ip = from.ip().to_canonical();
        let refuse = |who: String| {
            self.strangers.refuse(SocketAddr::new(ip, from.port()), who);
            Ok(None)
        };
        let (rank, port, misfit) = match Hello::from_bytes(request.private_data()) {
            Some(Hello::Come { job, size, rank, port, list }) => {
                if job != self.config.job {
                    return refuse(format!("rank {rank} of {}", job_name(&job)));
                }
                let addr = SocketAddr::new(ip, port);
                (rank as usize, port, self.misfit(rank as usize, addr, size, list))
            }
            Some(Hello::Join { from, .. }) => {
                return refuse(format!("rank {from} of a group that is over"));
            }
            None => return refuse("no rank".to_owned()),
        };
        if guests.len() >= 2 * self.config.size {
            return refuse(format!("rank {rank}, as twice as many have come as there are ranks"));
        }
        let (qp, addr, came) = (self.qp(pd, cq)?, SocketAddr::new(ip, port), Instant::now());
        let accepted = request.accept(&qp, &[]).is_ok();
        Ok(accepted.then_some(Guest { qp, rank, addr, misfit, came }))
    }

    fn forget(&self, guest: &Guest) -> bool {
        let who = format!("rank {}, which came and went away again", guest.rank);
        self.strangers.refuse(guest.addr, who);
        false
    }

    /// The mismatch of a connected rank.
    fn misfit(&self, rank: usize, addr: SocketAddr, size: u32, list: u64) -> Option<String> {
        let ours = self.config.size;
        if size as usize != ours {
            return Some(format!(
                "rank {rank} at {addr} is of a group of {size}, and rank 0 of one of {ours}"
            ));
        }
        if rank == 0 || rank >= ours {
            return Some(format!("{addr} calls itself rank {rank} of {ours}, which it cannot be"));
        }
        let differs = list != digest(&self.config.members);
        differs.then(|| format!("rank {rank} at {addr} has another list of addresses than rank 0"))
    }

    /// Whether nothing more is awaited. If the job has a name, mismatching ranks belong to this
    /// run, and no other rank comes in their place. Without a name they may be left over from
    /// another run, so the right ones are awaited.
    fn is_decided(&self, guests: &[Guest], peer_timeout: Duration) -> bool {
        let is_missing = (1..self.config.size).any(|rank| claims(guests, rank).next().is_none());
        let is_doubtful = || !is_missing || guests.len() + 1 >= self.config.size;
        match rivals(guests) {
            // One of the two may have died just now.
            Some([_, later]) => is_doubtful() && later.came.elapsed() > peer_timeout + RIVALS,
            None if !is_missing => true,
            None => {
                let are_ours = !self.config.job.is_empty();
                are_ours && is_doubtful() && guests.iter().any(|guest| guest.misfit.is_some())
            }
        }
    }

    /// The group, or the reason why there is none.
    fn judge(&self, guests: &[Guest]) -> Result<Table, String> {
        if let Some([first, second]) = rivals(guests) {
            let Guest { rank, addr, .. } = first;
            return Err(format!(
                "{addr} and {} both call themselves rank {rank}; end the one that is left over, or \
                 name each run (`GroupConfig::job`, BRAID_JOB)",
                second.addr
            ));
        }
        if let Some(missing) = self.missing(guests) {
            let misfits = guests.iter().filter_map(|guest| guest.misfit.clone());
            let misfits = misfits.take(SHOWN_MISFITS).collect::<Vec<_>>().join(", ");
            return Err(match (misfits.is_empty(), self.config.job.is_empty()) {
                (true, _) => format!("{missing}{}", self.strangers.text()),
                (false, true) => format!("{missing}: {misfits}{}", self.strangers.text()),
                (false, false) => misfits,
            });
        }
        let mut addresses = vec![self.config.root(); self.config.size];
        let fitting = guests.iter().filter(|guest| guest.misfit.is_none());
        fitting.for_each(|guest| addresses[guest.rank] = guest.addr);
        Ok(Table { group: random::number(), addresses })
    }

    fn missing(&self, guests: &[Guest]) -> Option<String> {
        let has_come = |rank: usize| claims(guests, rank).next().is_some();
        let missing: Vec<usize> = (1..self.config.size).filter(|rank| !has_come(*rank)).collect();
        let mut text = String::new();
        let shown = &missing[..missing.len().min(16)];
        text.extend(shown.iter().map(|rank| format!(" {rank}")));
        let more = if missing.len() > shown.len() { " and more" } else { "" };
        let within = self.config.timeout;
        let say = || format!("the ranks{text}{more} have not come to rank 0 within {within:?}");
        (!missing.is_empty()).then(say)
    }

    /// Tells all connected ranks. A rank that does not receive the answer is noticed later.
    fn answer(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        guests: &[Guest],
        table: &Result<Table, String>,
    ) -> Result<(), GroupError> {
        let size = self.config.size;
        let mut kept = Vec::new();
        let mut post = |guest: &Guest, bytes: &[u8]| {
            let memory = pd.alloc_mr(bytes.len(), Access::NONE).for_group(size)?;
            memory.write_at(0, bytes).for_group(size)?;
            let all = memory.slice(..).for_group(size)?;
            let is_posted = guest.qp.post_send(wr::send(0, [all])).is_ok();
            kept.push(memory);
            Ok(usize::from(is_posted))
        };
        let (for_all, mut open) = (encode(table), 0);
        for guest in guests {
            open += match &guest.misfit {
                Some(why) if table.is_ok() => post(
                    guest,
                    &encode(&Err(format!("{why}; the group has come about without it"))),
                )?,
                _ => post(guest, &for_all)?,
            };
        }
        let until = Instant::now() + DELIVERY;
        while open > 0 && Instant::now() < until {
            let Ok(done) = cq.wait(until.saturating_duration_since(Instant::now())) else { break };
            open = open.saturating_sub(done.len());
        }
        Ok(())
    }

    /// Runs the rendezvous at every other rank.
    fn come(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<Table, GroupError> {
        let GroupConfig { rank, size, members, job, timeout, .. } = self.config;
        let (roots, qp) = (self.config.roots(), self.qp(pd, cq)?);
        let addr = roots[0];
        let memory = pd.alloc_mr(max_answer(*size), Access::LOCAL_WRITE).for_group(*size)?;
        let all = memory.slice(..).for_group(*size)?;
        qp.post_recv(wr::recv(0, [all])).for_group(*size)?;
        let port = self.engine.local_addr().port();
        let (size_said, rank_said, list) = (*size as u32, *rank as u32, digest(members));
        let hello = Hello::Come { job: job.clone(), size: size_said, rank: rank_said, port, list };
        let unreachable = |why: String| GroupError::Unreachable { addr, within: *timeout, why };
        connect(&qp, &roots, &hello, self.deadline).map_err(|why| {
            let hint = format!("; whoever is there does not wait for ranks of {}", job_name(job));
            let hint = if is_refusal(&why) { hint } else { String::new() };
            unreachable(format!("{why}{hint}"))
        })?;
        let done = cq.wait(self.left() + GRACE).map_err(|why| unreachable(why.to_string()))?;
        let Some(done) = done.first().filter(|done| done.status == Status::Success) else {
            return Err(unreachable("it went away before all ranks had come".to_owned()));
        };
        let mut bytes = vec![0; (done.len as usize).min(memory.len())];
        memory.read_at(0, &mut bytes).for_group(*size)?;
        let answer = decode(&bytes, *size);
        let answer = answer.ok_or_else(|| unreachable("its answer cannot be read".to_owned()))?;
        let mut table = answer.map_err(GroupError::Refused)?;
        match members {
            Members::Root(_) => {
                let answered = qp.remote_addr().map(|addr| addr.ip());
                let is_it = |root: &&SocketAddr| Some(root.ip().to_canonical()) == answered;
                table.addresses[0] = roots.iter().find(is_it).copied().unwrap_or(addr);
            }
            Members::Listed(addresses) => table.addresses.clone_from(addresses),
        }
        Ok(table)
    }
}

/// Connects to a rank that may not listen yet.
pub(super) fn connect(
    qp: &QueuePair,
    addrs: &[SocketAddr],
    hello: &Hello,
    deadline: Instant,
) -> Result<(), ConnectError> {
    let mut refused = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match qp.connect_any(addrs, &hello.to_bytes(), left.max(RETRY)) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let may_change = is_too_early(&error);
        // A refusal says more than a later lack of a listener.
        let why = if is_refusal(&error) { error } else { refused.take().unwrap_or(error) };
        if !may_change || left <= RETRY {
            return Err(why);
        }
        refused = is_refusal(&why).then_some(why);
        thread::sleep(RETRY);
    }
}

/// Whether the error shows a listener that waits for others.
fn is_refusal(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Rejected { reason: RejectReason::Refused, .. })
}

fn is_too_early(error: &ConnectError) -> bool {
    use RejectReason::{Busy, NotListening, Refused};
    match error {
        ConnectError::Unreachable { .. } => true,
        // A listener for something else may listen for this group a moment later.
        ConnectError::Rejected { reason, .. } => matches!(reason, NotListening | Busy | Refused),
        _ => false,
    }
}

/// A digest of the list of addresses, to compare it with other ranks'.
fn digest(members: &Members) -> u64 {
    match members {
        Members::Root(_) => 0,
        Members::Listed(addresses) => {
            let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            1 << 32 | u64::from(crc32fast::hash(texts.join(",").as_bytes()))
        }
    }
}

fn max_answer(size: usize) -> usize {
    (9 + size * ENTRY).max(1 + MAX_REFUSAL)
}

fn encode(answer: &Result<Table, String>) -> Vec<u8> {
    match answer {
        Ok(Table { group, addresses }) => {
            let mut bytes = [&[0][..], &group.to_be_bytes()].concat();
            for addr in addresses {
                let ip = match addr.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                bytes.extend(ip.octets());
                bytes.extend(addr.port().to_be_bytes());
            }
            bytes
        }
        Err(refusal) => {
            let whole = (0..=refusal.len().min(MAX_REFUSAL)).rev();
            let end = whole.into_iter().find(|end| refusal.is_char_boundary(*end)).unwrap_or(0);
            [&[1], &refusal.as_bytes()[..end]].concat()
        }
    }
}

/// Decodes an answer. `None`: it is invalid for a group of this size.
fn decode(bytes: &[u8], size: usize) -> Option<Result<Table, String>> {
    let (kind, mut rest) = bytes.split_first()?;
    if *kind == 1 {
        // The text is shown to people, so it must not contain control characters.
        let text = std::str::from_utf8(rest).ok()?;
        return Some(Err(text.chars().filter(|c| !c.is_control()).collect()));
    }
    let group = u64::from_be_bytes(take(&mut rest)?);
    if *kind != 0 || rest.len() != size * ENTRY {
        return None;
    }
    let mut entry = || {
        let ip = IpAddr::V6(Ipv6Addr::from(take::<16>(&mut rest)?)).to_canonical();
        let port = u16::from_be_bytes(take(&mut rest)?);
        (port != 0).then_some(SocketAddr::new(ip, port))
    };
    let addresses: Option<Vec<_>> = (0..size).map(|_| entry()).collect();
    Some(Ok(Table { group, addresses: addresses? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_the_journey_and_nothing_else_passes() {
        let addresses = ["10.0.0.1:1", "[fd00::1]:65535", "127.0.0.1:4791"];
        let addresses = addresses.map(|text| text.parse().unwrap()).to_vec();
        let table = Ok(Table { group: 5, addresses });
        let bytes = encode(&table);
        assert_eq!(decode(&bytes, 3), Some(table));
        assert!(decode(&bytes, 2).is_none() && decode(&bytes, 4).is_none());
        (0..bytes.len()).for_each(|cut| assert!(decode(&bytes[..cut], 3).is_none()));
        let no_port = [&bytes[..bytes.len() - 2], &[0, 0]].concat();
        assert!(decode(&no_port, 3).is_none());
        let refusal = "x\u{1b}[31m".repeat(400);
        let text = decode(&encode(&Err(refusal)), 3).unwrap().unwrap_err();
        assert!(text.len() < MAX_REFUSAL && !text.contains('\u{1b}'));
        assert!(decode(&[1, 0xFF], 3).is_none());
    }
}
