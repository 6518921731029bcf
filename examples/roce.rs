//! A peer for the programs of perftest and rdma-core that needs no RDMA device, no kernel module
//! and no privilege: `cargo run --release --example roce -- COMMAND [HOST] [SIZE] [COUNT]`.
//!
//! | command | the peer runs, on an RNIC or the kernel's rxe |
//! |---|---|
//! | `write HOST` | `ib_write_bw -F` |
//! | `read HOST` | `ib_read_bw -F` |
//! | `atomic HOST` | `ib_atomic_bw -F` |
//! | `write`, `read`, `atomic` | the same with this host as argument, after this program |
//! | `pingpong HOST` | `ibv_rc_pingpong -g INDEX`, where INDEX is that of its RoCEv2 GID |
//!
//! Both programs exchange GID, queue pair number, PSN, address and rkey as text over TCP port
//! 18515. Nothing in RoCEv2 is encrypted or authenticated: use it in trusted networks only.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, Engine, EngineConfig, MemoryRegion, QpId, QpOptions, QpState,
    QueuePair, RemoteAddr, RoceMtu, RoceRemote, SendWr, Status, wr,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The TCP port of both suites.
const PORT: u16 = 18515;
/// The version of perftest whose messages these are.
const VERSION: &[u8; 16] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const PATIENCE: Duration = Duration::from_secs(10);
/// Work requests in flight.
const DEPTH: usize = 64;
/// The first PSN of this end. A program of more than one run takes another each time.
const PSN: u32 = 0x00_1234;

/// One end of a connection, as both suites describe it.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    qpn: u32,
    psn: u32,
    rkey: u32,
    addr: u64,
    /// READs and atomics that the end answers at a time.
    reads: u8,
    gid: [u8; 16],
}

/// This program's side of a run.
struct Side {
    engine: Engine,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
    /// The largest path MTU of the route to the peer.
    mtu: RoceMtu,
    end: End,
}

fn main() {
    if let Err(error) = run() {
        eprintln!("roce: {error}");
        std::process::exit(1);
    }
}

fn run() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut words = args.iter().map(String::as_str).peekable();
    let command = words.next().unwrap_or("help");
    let host = words.next_if(|word| word.parse::<usize>().is_err());
    let size = words.next().map_or(Ok(65536), str::parse)?;
    let count = words.next().map_or(Ok(1000), str::parse)?;
    match (command, host) {
        ("write" | "read" | "atomic", Some(host)) => client(command, host, size, count),
        ("write" | "read" | "atomic", None) => server(size),
        ("pingpong", Some(host)) => pingpong(host, size.min(4096), count),
        _ => Err("usage: roce write|read|atomic [HOST] [SIZE] [COUNT] | roce pingpong HOST".into()),
    }
}

impl Side {
    /// Opens the port of RoCEv2 for a peer at `peer`, with `len` bytes for it.
    fn new(peer: IpAddr, len: usize) -> Outcome<Self> {
        let bind = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), braid::DEFAULT_PORT);
        let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(4 * DEPTH)?);
        let memory = pd.alloc_mr(len, Access::ALL)?;
        let qp = pd.create_qp(QpOptions::new(&cq, &cq).queues(DEPTH as u32, DEPTH as u32))?;
        qp.modify(QpState::Init)?;
        let port = engine.roce_port(SocketAddr::new(peer, braid::DEFAULT_PORT))?;
        let gid = match port.gid {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let end = End {
            qpn: qp.number().get(),
            psn: PSN,
            rkey: memory.rkey(),
            addr: memory.addr(),
            reads: 16,
            gid: gid.octets(),
        };
        Ok(Side { engine, cq, qp, memory, mtu: port.mtu, end })
    }

    fn connect(&self, peer: &End, mtu: RoceMtu) -> Outcome<()> {
        let gid = Ipv6Addr::from(peer.gid).to_canonical();
        let mut remote = RoceRemote::new(gid, QpId::new(peer.qpn));
        (remote.recv_psn, remote.send_psn, remote.mtu) = (peer.psn, self.end.psn, Some(mtu));
        remote.max_rd_atomic = peer.reads.max(1);
        self.qp.connect_roce(&remote)?;
        println!("connected to queue pair {:#x} of {gid}, path MTU {mtu}", peer.qpn);
        Ok(())
    }

    /// Waits for a completion, which has to be a success.
    fn completion(&self) -> Outcome<braid::Completion> {
        let done = self.cq.wait_one(PATIENCE)?.ok_or("no completion in 10 s")?;
        if done.status == Status::Success { Ok(done) } else { Err(format!("{done:?}").into()) }
    }
}

/// Measures WRITEs, READs or atomics to the server of a program of perftest.
fn client(command: &str, host: &str, size: usize, count: usize) -> Outcome<()> {
    let mut tcp = TcpStream::connect((host, PORT))?;
    let side = Side::new(tcp.peer_addr()?.ip(), size.max(8))?;
    let mtu = agree(&mut tcp, true, side.mtu)?;
    let peer = exchange(&mut tcp, true, &side.end)?;
    side.connect(&peer, mtu)?;
    exchange(&mut tcp, true, &side.end)?;
    exchange(&mut tcp, true, &side.end)?;

    let remote = RemoteAddr { addr: peer.addr, rkey: peer.rkey };
    let piece = side.memory.slice(..if command == "atomic" { 8 } else { size })?;
    let work = |id| -> SendWr {
        match command {
            "write" => wr::write(id, [piece], remote),
            "read" => wr::read(id, [piece], remote),
            _ => wr::fetch_add(id, piece, remote, 1),
        }
    };
    let (begin, mut posted, mut ended) = (Instant::now(), 0, 0);
    while ended < count {
        while posted < count && posted - ended < DEPTH {
            side.qp.post_send(work(posted as u64))?;
            posted += 1;
        }
        let done = side.completion()?;
        assert_eq!(done.wr_id, ended as u64, "completions come in posting order");
        ended += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let (rate, bytes) = (count as f64 / seconds, f64::from(piece.len));
    println!("{count} {command}s of {bytes} bytes: {:.1} MB/s, {rate:.0}/s", rate * bytes / 1e6);
    println!("{:?}", side.qp.counters());

    exchange(&mut tcp, true, &side.end)?;
    report(&mut tcp, true, (size as u64, count as u64), (rate * bytes / 1048576.0, rate / 1e6))?;
    exchange(&mut tcp, true, &side.end)?;
    side.qp.disconnect();
    drop(side.engine);
    Ok(())
}

/// Answers the WRITEs, READs or atomics of a client of perftest.
fn server(size: usize) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))?;
    println!("waiting for a client");
    let (mut tcp, from) = listener.accept()?;
    // perftest writes to the second half of the peer's buffer, one part for each queue pair.
    let side = Side::new(from.ip().to_canonical(), 2 * size.max(4096))?;
    let mtu = agree(&mut tcp, false, side.mtu)?;
    let peer = exchange(&mut tcp, false, &side.end)?;
    side.connect(&peer, mtu)?;
    exchange(&mut tcp, false, &side.end)?;
    exchange(&mut tcp, false, &side.end)?;
    // The engine's threads answer; the client says when it is done.
    exchange(&mut tcp, false, &side.end)?;
    println!("{:?}", side.qp.counters());
    report(&mut tcp, false, (0, 0), (0.0, 0.0))?;
    exchange(&mut tcp, false, &side.end)?;
    match side.qp.error() {
        Some(error) => Err(format!("{error}").into()),
        None => Ok(()),
    }
}

/// Exchanges bytes with a program of perftest, whose client writes first.
fn swap<const N: usize>(tcp: &mut TcpStream, is_client: bool, own: &[u8; N]) -> Outcome<[u8; N]> {
    let mut theirs = [0; N];
    if is_client {
        tcp.write_all(own)?;
    }
    tcp.read_exact(&mut theirs)?;
    if !is_client {
        tcp.write_all(own)?;
    }
    Ok(theirs)
}

/// Exchanges version, page and cache line sizes and the path MTU. Returns the smaller path MTU.
fn agree(tcp: &mut TcpStream, is_client: bool, own: RoceMtu) -> Outcome<RoceMtu> {
    let theirs = swap(tcp, is_client, VERSION)?;
    println!("perftest {}", String::from_utf8_lossy(&theirs).trim_end_matches('\0'));
    swap(tcp, is_client, &4096_u32.to_be_bytes())?;
    swap(tcp, is_client, &64_u32.to_be_bytes())?;
    // The enumeration of verbs: 1 is 256 bytes, 5 is 4096.
    let place = RoceMtu::ALL.iter().position(|mtu| *mtu == own).unwrap_or(0);
    let [digit, _] = swap(tcp, is_client, &[b'1' + place as u8, 0])?;
    let theirs = RoceMtu::ALL.get(usize::from(digit.wrapping_sub(b'1')));
    Ok(own.min(*theirs.ok_or("the peer's path MTU is unknown")?))
}

/// Exchanges the ends with a program of perftest, which also does so in order to wait.
fn exchange(tcp: &mut TcpStream, is_client: bool, own: &End) -> Outcome<End> {
    let End { qpn, psn, rkey, addr, reads, gid } = own;
    let mut text = format!("0000:{reads:04x}:{qpn:06x}:{psn:06x}:{rkey:08x}:{addr:016x}:");
    gid.iter().try_for_each(|byte| write!(text, "{byte:02x}:"))?;
    text += "00000000:\0";
    let own: &[u8; 108] = text.as_bytes().try_into()?;
    let theirs = swap(tcp, is_client, own)?;
    let theirs = std::str::from_utf8(&theirs)?;
    let words: Vec<&str> = theirs.trim_end_matches('\0').split(':').collect();
    let number = |place: usize| {
        u64::from_str_radix(words.get(place).unwrap_or(&""), 16)
            .map_err(|error| format!("the peer sent {theirs:?}: {error}"))
    };
    let mut gid = [0; 16];
    for (place, byte) in gid.iter_mut().enumerate() {
        *byte = number(6 + place)? as u8;
    }
    let (reads, qpn) = (number(1)? as u8, number(2)? as u32);
    let (psn, rkey, addr) = (number(3)? as u32, number(4)? as u32, number(5)?);
    Ok(End { qpn, psn, rkey, addr, reads, gid })
}

/// Exchanges the results with a program of perftest, which shows them: bytes and iterations, MiB/s
/// and millions of messages per second.
fn report(
    tcp: &mut TcpStream,
    is_client: bool,
    (size, count): (u64, u64),
    (rate, messages): (f64, f64),
) -> Outcome<()> {
    for number in [size, count].into_iter().chain([rate, rate, messages].map(f64::to_bits)) {
        swap(tcp, is_client, &number.to_be_bytes())?;
    }
    Ok(())
}

/// Exchanges messages with `ibv_rc_pingpong`, which returns what it has received, and checks them.
fn pingpong(host: &str, size: usize, count: usize) -> Outcome<()> {
    let mut tcp = TcpStream::connect((host, PORT))?;
    let side = Side::new(tcp.peer_addr()?.ip(), 2 * size)?;
    let End { qpn, psn, gid, .. } = side.end;
    let gid: String = gid.iter().map(|byte| format!("{byte:02x}")).collect();
    let own = format!("0000:{qpn:06x}:{psn:06x}:{gid}\0");
    tcp.write_all(own.as_bytes())?;
    let mut theirs = [0; 52];
    tcp.read_exact(&mut theirs)?;
    tcp.write_all(b"done\0")?;
    let theirs = std::str::from_utf8(&theirs)?.trim_end_matches('\0');
    let words: Vec<&str> = theirs.split(':').collect();
    let [_, qpn, psn, gid] = words[..] else { return Err(format!("it sent {theirs:?}").into()) };
    let gid = u128::from_str_radix(gid, 16)?.to_be_bytes();
    let (qpn, psn) = (u32::from_str_radix(qpn, 16)?, u32::from_str_radix(psn, 16)?);
    side.connect(&End { qpn, psn, gid, ..End::default() }, RoceMtu::B1024)?;

    let (out, back) = (side.memory.slice(..size)?, side.memory.slice(size..)?);
    let begin = Instant::now();
    for turn in 0..count {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + turn) as u8).collect();
        side.memory.write_at(0, &bytes)?;
        side.qp.post_recv(wr::recv(turn as u64, [back]))?;
        side.qp.post_send(wr::send(turn as u64, [out]))?;
        side.completion()?;
        side.completion()?;
        let mut returned = vec![0; size];
        side.memory.read_at(size, &mut returned)?;
        if returned != bytes {
            return Err(format!("message {turn} came back changed").into());
        }
    }
    let each = begin.elapsed() / u32::try_from(count)?.max(1);
    println!("{count} messages of {size} bytes came back unchanged, {each:?} each");
    Ok(())
}
