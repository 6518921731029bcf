//! The system calls that std and socket2 do not offer. All `unsafe` code of the peers is here.

use std::hint;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// Requested receive buffer in bytes. The kernel doubles it for its own bookkeeping.
const RECEIVE_BUFFER_BYTES: libc::c_int = 4 << 20;

/// Polls of a socket between two reads of the clock.
const SPINS_PER_CLOCK: u32 = 256;

/// Returns whether an error means only that nothing has arrived yet.
pub(super) fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Sets an integer socket option.
fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let rc = unsafe { libc::setsockopt(fd, level, name, ptr::from_ref(&value).cast(), length) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel split sends into datagrams of `bytes` each.
pub(super) fn set_udp_segment(socket: &impl AsRawFd, bytes: u16) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Lets the kernel return batches of equal datagrams in one read.
pub(super) fn enable_udp_gro(socket: &impl AsRawFd) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Enlarges the receive buffer: beyond `rmem_max` with privilege, and up to it without.
pub(super) fn enlarge_receive_buffer(socket: &impl AsRawFd) -> io::Result<()> {
    let set = |name| set_option(socket.as_raw_fd(), libc::SOL_SOCKET, name, RECEIVE_BUFFER_BYTES);
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
}

/// Receives a datagram without waiting; `WouldBlock` if there is none.
pub(super) fn receive_now(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, len) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: `at` and `len` describe `buffer`, which is ours to write.
    let received = unsafe { libc::recv(socket.as_raw_fd(), at, len, libc::MSG_DONTWAIT) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Polls until a datagram, or bytes of a stream, arrive. `None`: `deadline` has passed.
pub(super) fn spin(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
    deadline: Instant,
) -> io::Result<Option<usize>> {
    loop {
        for _ in 0..SPINS_PER_CLOCK {
            match receive_now(socket, buffer) {
                Err(error) if is_silence(&error) => hint::spin_loop(),
                other => return other.map(Some),
            }
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
    }
}

/// Receives a batch of datagrams. Returns its total length, and the length of each datagram but the
/// last.
pub(super) fn receive_batch(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
) -> io::Result<(usize, usize)> {
    let mut parts = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // `cmsghdr` needs the alignment of a word.
    let mut control = [0_u64; 8];
    // SAFETY: `msghdr` is plain data, and all zeros mean "nothing given".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut parts;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: every pointer in `message` refers to a local or to `buffer`, with its true length.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    if message.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a batch is longer than its buffer",
        ));
    }
    Ok((received, segment_bytes(&message).unwrap_or(received)))
}

/// Returns the segment size that the kernel reports for a batch, if there was more than one
/// segment.
fn segment_bytes(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: recvmsg has just filled `message`; its control buffer is alive in the caller.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give a whole, aligned header or null.
        let found = unsafe { *header };
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
            // SAFETY: the kernel writes an int after a UDP_GRO header.
            let bytes = unsafe { libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned() };
            return usize::try_from(bytes).ok();
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

/// Returns the CPU time of this thread.
pub(super) fn thread_cpu() -> Duration {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of all threads of this process.
pub(super) fn process_cpu() -> Duration {
    cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. The call cannot fail, because every Linux has both clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the cores that this thread may run on.
pub(super) fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is plain data; all zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the length is that of `set`, which is ours to write.
    if unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: each index is below CPU_SETSIZE.
    let allowed = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(allowed).collect())
}

/// Pins this thread to `core`.
pub(super) fn pin_thread(core: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain data; all zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: callers take `core` from `allowed_cores`, so it is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the length is that of `set`.
    let rc = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
