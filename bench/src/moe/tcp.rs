//! Puts and signals as frames of TCP connections, one for each pair of ranks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::round::{Layout, Op, Puts, place_of};
use crate::alltoall::Rank;
use crate::failure::Failure;

const CONNECT: Duration = Duration::from_secs(60);
/// A header has three words: the kind, an offset or word, and a length or number.
const HEADER: usize = 24;
const PUT: u64 = 1;
const SIGNAL: u64 = 2;
const ACK: u64 = 3;
/// Bytes read by a call at most.
const BUFFER: usize = 256 << 10;

pub(super) struct TcpPuts {
    layout: Layout,
    /// Whether a frame follows when the last one is acknowledged.
    waits: bool,
    memory: Vec<u8>,
    words: Vec<u64>,
    links: Vec<Option<Link>>,
}

/// The connection with a rank.
struct Link {
    stream: TcpStream,
    queue: VecDeque<Op>,
    /// The frame that is being sent.
    outgoing: Option<Outgoing>,
    /// Whether the last frame is not acknowledged yet.
    is_waiting: bool,
    /// Acknowledgements to send.
    acks: usize,
    input: Vec<u8>,
    filled: usize,
    /// Offset and length of the rest of a put that is arriving.
    landing: (usize, usize),
}

struct Outgoing {
    header: [u8; HEADER],
    /// The payload in the own memory.
    payload: (usize, usize),
    sent: usize,
}

impl TcpPuts {
    /// Connects with all other ranks.
    pub(super) fn connect(rank: &Rank, layout: Layout, waits: bool) -> Result<TcpPuts, Failure> {
        let (own, size) = (rank.group.rank(), rank.group.size());
        let listener = TcpListener::bind((rank.group.addresses()[own].ip(), 0)).map_err(io)?;
        let addresses = rank.share_port(listener.local_addr().map_err(io)?.port())?;
        let mut links: Vec<Option<Link>> = (0..size).map(|_| None).collect();
        for lower in 0..own {
            let mut stream = connect(addresses[own].ip(), addresses[lower])?;
            stream.write_all(&(own as u32).to_le_bytes()).map_err(io)?;
            links[lower] = Some(Link::new(stream)?);
        }
        for _ in own + 1..size {
            let (mut stream, _) = listener.accept().map_err(io)?;
            let mut told = [0; 4];
            stream.set_read_timeout(Some(CONNECT)).map_err(io)?;
            stream.read_exact(&mut told).map_err(io)?;
            let higher = u32::from_le_bytes(told) as usize;
            *place_of(&mut links, higher, own)? = Some(Link::new(stream)?);
        }
        let (memory, words) = (vec![0; layout.bytes], vec![0; layout.words]);
        Ok(TcpPuts { layout, waits, memory, words, links })
    }

    /// Waits until a connection can be read, or written where something is to be sent.
    fn wait(&self) -> Result<(), Failure> {
        let flags = |link: &Link| match link.outgoing {
            Some(_) => PollFlags::POLLIN | PollFlags::POLLOUT,
            None => PollFlags::POLLIN,
        };
        let links = self.links.iter().flatten();
        let mut polled: Vec<PollFd<'_>> =
            links.map(|link| PollFd::new(link.stream.as_fd(), flags(link))).collect();
        match poll(&mut polled, PollTimeout::from(100u8)) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(why) => Err(io(why.into())),
        }
    }
}

fn connect(from: IpAddr, to: SocketAddr) -> Result<TcpStream, Failure> {
    // From the rank's own address, as a rank on a host of its own would.
    let domain = socket2::Domain::for_address(to);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).map_err(io)?;
    socket.bind(&SocketAddr::new(from, 0).into()).map_err(io)?;
    socket.connect_timeout(&to.into(), CONNECT).map_err(io)?;
    Ok(socket.into())
}

fn io(why: io::Error) -> Failure {
    Failure::Io { what: "a TCP connection between ranks".to_owned(), why }
}

impl Link {
    fn new(stream: TcpStream) -> Result<Link, Failure> {
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(io)?;
        Ok(Link {
            stream,
            queue: VecDeque::new(),
            outgoing: None,
            is_waiting: false,
            acks: 0,
            input: vec![0; BUFFER],
            filled: 0,
            landing: (0, 0),
        })
    }

    /// Returns the next frame to send, acknowledgements first.
    fn next(&mut self, waits: bool, size: usize) -> Option<Outgoing> {
        if self.acks > 0 {
            self.acks -= 1;
            return Some(Outgoing::new([ACK, 0, 0], (0, 0)));
        }
        if self.is_waiting {
            return None;
        }
        let op = self.queue.pop_front()?;
        self.is_waiting = waits;
        Some(match op {
            Op::Put { from, to } => Outgoing::new([PUT, to as u64, size as u64], (from, size)),
            Op::Signal { word, add } => Outgoing::new([SIGNAL, word as u64, add], (0, 0)),
        })
    }

    /// Sends until the connection takes no more. Returns whether anything was sent.
    fn send(&mut self, memory: &[u8], waits: bool, size: usize) -> Result<bool, Failure> {
        let mut has_sent = false;
        loop {
            let Some(mut frame) = self.outgoing.take().or_else(|| self.next(waits, size)) else {
                return Ok(has_sent);
            };
            let (at, len) = frame.payload;
            let header = &frame.header[frame.sent.min(HEADER)..];
            let payload = &memory[at..at + len][frame.sent.saturating_sub(HEADER)..];
            let sent = self.stream.write_vectored(&[IoSlice::new(header), IoSlice::new(payload)]);
            match sent {
                Ok(bytes) => {
                    has_sent = true;
                    frame.sent += bytes;
                }
                Err(why) if is_later(&why) => {
                    self.outgoing = Some(frame);
                    return Ok(has_sent);
                }
                Err(why) => return Err(io(why)),
            }
            if frame.sent < HEADER + len {
                self.outgoing = Some(frame);
            }
        }
    }

    /// Receives what is there. Returns whether that was anything.
    fn receive(
        &mut self,
        memory: &mut [u8],
        words: &mut [u64],
        acknowledges: bool,
    ) -> Result<bool, Failure> {
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io(ErrorKind::ConnectionReset.into())),
            Ok(bytes) => self.filled += bytes,
            Err(why) if is_later(&why) => return Ok(false),
            Err(why) => return Err(io(why)),
        }
        let mut used = 0;
        loop {
            let (at, left) = self.landing;
            if left > 0 {
                let now = left.min(self.filled - used);
                memory[at..at + now].copy_from_slice(&self.input[used..used + now]);
                self.landing = (at + now, left - now);
                used += now;
                if now < left {
                    break;
                }
                self.acks += usize::from(acknowledges);
            }
            let Some((header, _)) = self.input[used..self.filled].split_first_chunk::<HEADER>()
            else {
                break;
            };
            used += HEADER;
            match read_header(header) {
                [PUT, to, len] if fits(to, len, memory.len()) => {
                    self.landing = (to as usize, len as usize);
                }
                [SIGNAL, word, add] if fits(word, 1, words.len()) => {
                    words[word as usize] += add;
                    self.acks += usize::from(acknowledges);
                }
                [ACK, ..] => self.is_waiting = false,
                other => return Err(Failure::Peer(format!("sent a frame of {other:?}"))),
            }
        }
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(true)
    }
}

impl Outgoing {
    fn new(words: [u64; 3], payload: (usize, usize)) -> Outgoing {
        let mut header = [0; HEADER];
        for (bytes, word) in header.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Outgoing { header, payload, sent: 0 }
    }
}

fn read_header(bytes: &[u8; HEADER]) -> [u64; 3] {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
    [word(0), word(1), word(2)]
}

fn fits(at: u64, len: u64, end: usize) -> bool {
    len > 0 && at.checked_add(len).is_some_and(|last| last <= end as u64)
}

fn is_later(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Puts for TcpPuts {
    fn post(&mut self, peer: usize, op: Op) {
        self.links[peer].as_mut().expect("no rank puts to itself").queue.push_back(op);
    }

    fn progress(&mut self) -> Result<(), Failure> {
        let mut has_moved = false;
        for link in self.links.iter_mut().flatten() {
            has_moved |= link.receive(&mut self.memory, &mut self.words, self.waits)?;
            has_moved |= link.send(&self.memory, self.waits, self.layout.size)?;
        }
        if has_moved { Ok(()) } else { self.wait() }
    }

    fn is_quiet(&self) -> bool {
        self.links.iter().flatten().all(|link| {
            link.queue.is_empty() && link.outgoing.is_none() && !link.is_waiting && link.acks == 0
        })
    }

    fn word(&self, word: usize) -> Result<u64, Failure> {
        Ok(self.words[word])
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, at: usize, bytes: &mut [u8]) -> Result<(), Failure> {
        bytes.copy_from_slice(&self.memory[at..at + bytes.len()]);
        Ok(())
    }
}
