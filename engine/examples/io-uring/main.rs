//! Compares UDP by system calls with UDP by io_uring on loopback, without a polling thread of the
//! kernel (SQPOLL). One measurement is a ping-pong of 8 bytes, spinning and sleeping. The other is
//! the receiving end of bulk traffic with segmentation offload.
//!
//! `cargo run --release -p braid-rdma --example io-uring [ROUNDS]` runs both in turn, this many
//! times each (default: 9), half a second at a time. It prints medians, and the median of the
//! ratios within a round. Both ends are threads of this process and do the same.

mod ring;

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, hint, mem, ptr, thread};

use io_uring::IoUring;

type Failure = Box<dyn Error + Send + Sync>;
type Measured = Result<f64, Failure>;

const MEASURED: Duration = Duration::from_millis(500);
/// The last datagram.
const END: [u8; 8] = [0xFF; 8];
/// Bytes of a datagram as in Braid's bulk traffic: a header and 4096.
const SEGMENT: libc::c_int = 4156;
/// Bytes sent in one call.
const TRAIN: usize = 15 * SEGMENT as usize;
/// The largest number of bytes in flight. The socket has room for more.
const IN_FLIGHT: u64 = 4 * TRAIN as u64;
const ROOM: libc::c_int = 4 << 20;
/// Room for the control message with the segment length of a train.
const NOTE: usize = 64;
/// Bytes of a receive buffer: a train, its control message, and the header that the kernel writes.
const BUFFER: usize = 64 << 10;
#[derive(Clone, Copy)]
enum Way {
    Calls,
    Uring,
}

fn main() -> Result<(), Failure> {
    let rounds = env::args().nth(1).map_or(Ok(9), |text| text.parse::<usize>())?;
    println!("{:44} {:>12} {:>12} {:>8}", "medians", "calls", "io_uring", "ratio");
    compare("ping-pong, spinning: one way [us]", rounds, |way| ping_pong(way, true))?;
    compare("ping-pong, sleeping: one way [us]", rounds, |way| ping_pong(way, false))?;
    compare("receiving bulk: CPU of the receiver [s/GB]", rounds, bulk)
}

fn compare(what: &str, rounds: usize, measure: impl Fn(Way) -> Measured) -> Result<(), Failure> {
    let (mut calls, mut uring, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let (one, other) = (measure(Way::Calls)?, measure(Way::Uring)?);
        calls.push(one);
        uring.push(other);
        ratios.push(other / one);
    }
    let [calls, uring, ratio] = [calls, uring, ratios].map(median);
    println!("{what:44} {calls:>12.3} {uring:>12.3} {ratio:>8.2}");
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (near, far) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    Ok((near, far))
}

/// Measures half of the median round trip.
fn ping_pong(way: Way, spins: bool) -> Measured {
    let (near, far) = pair()?;
    let echo = thread::spawn(move || -> Result<(), Failure> {
        let (mut end, mut bytes) = (End::new(way, spins, &far)?, [0; 8]);
        far.recv(&mut bytes)?;
        while bytes != END {
            end.swap(&mut bytes)?;
        }
        Ok(())
    });
    let mut end = End::new(way, spins, &near)?;
    let (mut trips, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < MEASURED {
        let sent = Instant::now();
        end.swap(&mut [0; 8])?;
        trips.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    near.send(&END)?;
    echo.join().expect("the echo does not panic")?;
    Ok(median(trips) / 2.0)
}

/// One end of a ping-pong.
struct End {
    fd: RawFd,
    spins: bool,
    by: By,
}

enum By {
    Calls(OwnedFd),
    Uring(Box<IoUring>),
}

impl End {
    fn new(way: Way, spins: bool, socket: &UdpSocket) -> io::Result<End> {
        let fd = socket.as_raw_fd();
        let by = match way {
            Way::Calls => By::Calls(epoll(fd)?),
            Way::Uring => By::Uring(Box::new(ring::make()?)),
        };
        Ok(End { fd, spins, by })
    }

    /// Sends the bytes and receives the other end's.
    fn swap(&mut self, bytes: &mut [u8; 8]) -> io::Result<()> {
        match &mut self.by {
            By::Calls(epoll) => swap_by_calls(self.fd, epoll, self.spins, bytes),
            By::Uring(ring) => ring::swap(self.fd, ring, self.spins, bytes),
        }
    }
}

fn swap_by_calls(fd: RawFd, epoll: &OwnedFd, spins: bool, bytes: &mut [u8; 8]) -> io::Result<()> {
    // SAFETY: pointer and length are those of `bytes`.
    check(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) })?;
    loop {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        if !spins {
            // SAFETY: there is room for one event.
            let come = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, -1) };
            if unless_interrupted(check(come as isize))?.is_none() {
                continue;
            }
        }
        let (at, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: pointer and length are those of `bytes`, which is ours to write.
        match check(unsafe { libc::recv(fd, at, len, libc::MSG_DONTWAIT) }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => hint::spin_loop(),
            other => return other.map(drop),
        }
    }
}

/// Measures CPU seconds of the receiver for 10^9 bytes. One thread sends as fast as the other
/// receives.
fn bulk(way: Way) -> Measured {
    static RECEIVED: AtomicU64 = AtomicU64::new(0);
    RECEIVED.store(0, Ordering::Relaxed);
    let (near, far) = pair()?;
    set_option(&near, libc::SOL_UDP, libc::UDP_SEGMENT, SEGMENT)?;
    set_option(&far, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    set_option(&far, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM)?;
    let receiver = thread::spawn(move || -> Measured {
        let mut count = |bytes: usize| {
            RECEIVED.fetch_add(bytes as u64, Ordering::Relaxed);
            bytes != END.len()
        };
        let cpu = thread_cpu();
        match way {
            Way::Calls => receive_by_calls(&far, &mut count)?,
            Way::Uring => ring::receive(&far, &mut count)?,
        }
        let gigabytes = RECEIVED.load(Ordering::Relaxed) as f64 * 1e-9;
        Ok((thread_cpu() - cpu).as_secs_f64() / gigabytes)
    });
    let (train, begin, mut sent) = (vec![0x5A; TRAIN], Instant::now(), 0);
    while begin.elapsed() < MEASURED {
        if sent - RECEIVED.load(Ordering::Relaxed) < IN_FLIGHT {
            sent += near.send(&train)? as u64;
        } else if receiver.is_finished() {
            break;
        } else {
            hint::spin_loop();
        }
    }
    near.send(&END)?;
    receiver.join().expect("the receiver does not panic")
}

/// Hands over the length of each train until it is told to stop.
fn receive_by_calls(socket: &UdpSocket, take: &mut impl FnMut(usize) -> bool) -> io::Result<()> {
    let (mut buffer, mut note) = (vec![0_u8; BUFFER], [0_u64; NOTE / 8]);
    loop {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: `msghdr` is plain data; zeroes mean "nothing given".
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (note.as_mut_ptr().cast(), NOTE as _);
        // SAFETY: each pointer in `message` is to a local, with its true length.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
        let Some(bytes) = unless_interrupted(check(got))? else { continue };
        if !take(bytes) {
            return Ok(());
        }
    }
}

fn epoll(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: nothing is pointed to.
    let made = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize)?;
    // SAFETY: it was just made, and is nobody else's.
    let epoll = unsafe { OwnedFd::from_raw_fd(made as RawFd) };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let add = libc::EPOLL_CTL_ADD;
    // SAFETY: the event is a local.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), add, fd, &raw mut event) } as isize)?;
    Ok(epoll)
}

fn set_option(socket: &UdpSocket, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
    let (at, len) = (ptr::from_ref(&value).cast(), mem::size_of_val(&value) as u32);
    // SAFETY: pointer and length are those of `value`.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) } as isize).map(drop)
}

fn check(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// `None`: a signal has interrupted the call, which is to be repeated.
fn unless_interrupted<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        other => other.map(Some),
    }
}

fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write, and Linux has the clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
