//! How ranks find each other: each connects to rank 0 and says who it is, and rank 0 tells all of them where the others
//! are, or why they do not make a group.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use braid_transport::{Access, QpState, Status};

use super::config::{GroupConfig, Members};
use super::error::{ForGroup, GroupError};
use super::hello::{Hello, take};
use crate::connect::ConnectError;
use crate::qp::{QpOptions, QueuePair};
use crate::{CompletionQueue, Engine, Listener, ProtectionDomain, random, wr};

/// How much longer the others wait for rank 0's answer than rank 0 for them.
const GRACE: Duration = Duration::from_secs(3);
/// How long rank 0 waits until its answers have arrived.
const DELIVERY: Duration = Duration::from_secs(2);
/// Between two tries to reach rank 0, which may not have started yet.
const RETRY: Duration = Duration::from_millis(50);
/// Bytes of an address in the table: 16 of the IP and 2 of the port.
const ENTRY: usize = 18;
/// Most bytes of a refusal.
const MAX_REFUSAL: usize = 512;

/// What rank 0 has told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table {
    /// A number that nobody else knows.
    pub(super) group: u64,
    /// By rank.
    pub(super) addresses: Vec<SocketAddr>,
}

/// A rank that has come to rank 0.
struct Guest {
    qp: QueuePair,
    rank: usize,
    addr: SocketAddr,
}

/// What the meeting needs of the engine.
pub(super) struct Meeting<'a> {
    pub(super) engine: &'a Engine,
    pub(super) listener: &'a Listener,
    pub(super) config: &'a GroupConfig,
    pub(super) deadline: Instant,
}

impl Meeting<'_> {
    /// Waits for the others.
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

    /// Rank 0's part.
    fn receive(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<Table, GroupError> {
        let (mut guests, mut refusal) = (Vec::<Guest>::new(), None);
        // All are waited for even if one does not fit, so that all hear why.
        while guests.len() + 1 < self.config.size {
            let Some(request) = self.listener.accept(self.left()) else { break };
            let Some(Hello::Come { size, rank, port, list }) =
                Hello::from_bytes(request.private_data())
            else {
                continue; // of a group that is over
            };
            let ip = request.peer_addr().ip().to_canonical();
            let qp = self.qp(pd, cq)?;
            if request.accept(&qp, &[]).is_err() {
                continue;
            }
            let guest = Guest { qp, rank: rank as usize, addr: SocketAddr::new(ip, port) };
            refusal = refusal.or_else(|| self.refusal(&guests, &guest, size, list));
            guests.push(guest);
        }
        let refusal = refusal.or_else(|| self.missing(&guests));
        let answer = refusal.map_or_else(|| Ok(self.table(&guests)), Err);
        self.answer(pd, cq, &guests, &answer)?;
        answer.map_err(GroupError::Refused)
    }

    /// What does not fit about a rank that has come.
    fn refusal(&self, guests: &[Guest], guest: &Guest, size: u32, list: u64) -> Option<String> {
        let (ours, Guest { rank, addr, .. }) = (self.config.size, guest);
        if size as usize != ours {
            return Some(format!(
                "rank {rank} at {addr} is of a group of {size}, and rank 0 of one of {ours}"
            ));
        }
        if *rank == 0 || *rank >= ours {
            return Some(format!("{addr} calls itself rank {rank} of {ours}, which it cannot be"));
        }
        if let Some(other) = guests.iter().find(|other| other.rank == *rank) {
            return Some(format!("{} and {addr} both call themselves rank {rank}", other.addr));
        }
        let differs = list != digest(&self.config.members);
        differs.then(|| format!("rank {rank} at {addr} has another list of addresses than rank 0"))
    }

    fn missing(&self, guests: &[Guest]) -> Option<String> {
        let has_come = |rank: usize| guests.iter().any(|guest| guest.rank == rank);
        let missing: Vec<usize> = (1..self.config.size).filter(|rank| !has_come(*rank)).collect();
        let mut text = String::new();
        let shown = &missing[..missing.len().min(16)];
        text.extend(shown.iter().map(|rank| format!(" {rank}")));
        let more = if missing.len() > shown.len() { " and more" } else { "" };
        let within = self.config.timeout;
        let say = || format!("the ranks{text}{more} have not come to rank 0 within {within:?}");
        (!missing.is_empty()).then(say)
    }

    fn table(&self, guests: &[Guest]) -> Table {
        let mut addresses = vec![self.config.root(); self.config.size];
        guests.iter().for_each(|guest| addresses[guest.rank] = guest.addr);
        Table { group: random::number(), addresses }
    }

    /// Tells all that have come. Who does not hear it is missed later.
    fn answer(
        &self,
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        guests: &[Guest],
        answer: &Result<Table, String>,
    ) -> Result<(), GroupError> {
        let size = self.config.size;
        let bytes = encode(answer);
        let memory = pd.alloc_mr(bytes.len(), Access::NONE).for_group(size)?;
        memory.write_at(0, &bytes).for_group(size)?;
        let all = memory.slice(..).for_group(size)?;
        let posted = guests.iter().filter(|guest| guest.qp.post_send(wr::send(0, [all])).is_ok());
        let (mut open, until) = (posted.count(), Instant::now() + DELIVERY);
        while open > 0 && Instant::now() < until {
            let Ok(done) = cq.wait(until.saturating_duration_since(Instant::now())) else { break };
            open = open.saturating_sub(done.len());
        }
        Ok(())
    }

    /// What every other rank does.
    fn come(&self, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<Table, GroupError> {
        let GroupConfig { rank, size, members, timeout, .. } = self.config;
        let (roots, qp) = (self.config.roots(), self.qp(pd, cq)?);
        let addr = roots[0];
        let memory = pd.alloc_mr(max_answer(*size), Access::LOCAL_WRITE).for_group(*size)?;
        let all = memory.slice(..).for_group(*size)?;
        qp.post_recv(wr::recv(0, [all])).for_group(*size)?;
        let port = self.engine.local_addr().port();
        let hello =
            Hello::Come { size: *size as u32, rank: *rank as u32, port, list: digest(members) };
        let unreachable = |why: String| GroupError::Unreachable { addr, within: *timeout, why };
        connect(&qp, &roots, hello, self.deadline).map_err(|why| unreachable(why.to_string()))?;
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
    hello: Hello,
    deadline: Instant,
) -> Result<(), ConnectError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match qp.connect_any(addrs, &hello.to_bytes(), left.max(RETRY)) {
            Ok(_) => return Ok(()),
            Err(error) if !is_too_early(&error) || left <= RETRY => return Err(error),
            Err(_) => thread::sleep(RETRY),
        }
    }
}

fn is_too_early(error: &ConnectError) -> bool {
    use braid_wire::RejectReason::{Busy, NotListening, Refused};
    match error {
        ConnectError::Unreachable { .. } => true,
        // One that listens for something else may listen for this group a moment later.
        ConnectError::Rejected { reason, .. } => matches!(reason, NotListening | Busy | Refused),
        _ => false,
    }
}

/// Of a list of addresses, to see whether another rank has the same.
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

/// `None`: rank 0 says nothing of the kind to a group of this size.
fn decode(bytes: &[u8], size: usize) -> Option<Result<Table, String>> {
    let (kind, mut rest) = bytes.split_first()?;
    if *kind == 1 {
        // It is shown to people: control characters are not.
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
        let refusal = "x\u{1b}[31m".repeat(200);
        let text = decode(&encode(&Err(refusal)), 3).unwrap().unwrap_err();
        assert!(text.len() < MAX_REFUSAL && !text.contains('\u{1b}'));
        assert!(decode(&[1, 0xFF], 3).is_none());
    }
}
