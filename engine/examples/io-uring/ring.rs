//! The io_uring variant.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, RecvMsgOut};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::{BUFFER, NOTE, unless_interrupted};

/// The number of receive buffers of a ring, a power of two, and their group.
const BUFFERS: u16 = 8;
const GROUP: u16 = 1;
/// IORING_ENTER_GETEVENTS.
const GET_EVENTS: u32 = 1;

/// Sends the bytes and receives the other end's.
pub(super) fn swap(
    fd: RawFd,
    ring: &mut IoUring,
    spins: bool,
    bytes: &mut [u8; 8],
) -> io::Result<()> {
    let sent = *bytes;
    let send = opcode::Send::new(Fd(fd), sent.as_ptr(), sent.len() as u32).build();
    let send = send.flags(squeue::Flags::SKIP_SUCCESS);
    let recv = opcode::Recv::new(Fd(fd), bytes.as_mut_ptr(), bytes.len() as u32).build();
    // SAFETY: what both point to outlives the answer, which ends this function; so does an error,
    // and then the program ends.
    unsafe { ring.submission().push_multiple(&[send, recv]) }.map_err(io::Error::other)?;
    let (mut submitted, wanted) = (2, u32::from(!spins));
    loop {
        if let Some(entry) = ring.completion().next() {
            return outcome(&entry).map(drop);
        }
        // SAFETY: no signal mask is given.
        let entered = unsafe {
            ring.submitter().enter::<libc::sigset_t>(submitted, wanted, GET_EVENTS, None)
        };
        if unless_interrupted(entered)?.is_some() {
            submitted = 0;
        }
    }
}

/// Hands over the length of each train until it is told to stop. One request continues, and the
/// kernel takes the buffers.
pub(super) fn receive(socket: &UdpSocket, take: &mut impl FnMut(usize) -> bool) -> io::Result<()> {
    // Created before the ring, so that it is dropped after it. The last datagram ends this
    // function, so nothing arrives then.
    let mut buffers = Buffers::new();
    let (mut ring, entries) = (make()?, buffers.entries() as u64);
    // SAFETY: the entries outlive the ring.
    unsafe { ring.submitter().register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0) }?;
    // SAFETY: `msghdr` is plain data; zeroes mean "nothing given".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_controllen = NOTE as _;
    let request = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), &raw const message, GROUP);
    let request = request.build();
    let mut goes_on = false;
    loop {
        if !goes_on {
            // SAFETY: `message` is read when this is submitted, which is below.
            unsafe { ring.submission().push(&request) }.map_err(io::Error::other)?;
            goes_on = true;
        }
        unless_interrupted(ring.submit_and_wait(1))?;
        for entry in ring.completion() {
            goes_on &= cqueue::more(entry.flags());
            let Some(number) = cqueue::buffer_select(entry.flags()) else {
                // Without a buffer the entry only reports the end of the request.
                match outcome(&entry) {
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => continue,
                    other => return other.map(drop),
                }
            };
            let got = &buffers.of(number)[..outcome(&entry)?];
            let out = RecvMsgOut::parse(got, &message).map_err(|()| io::ErrorKind::InvalidData)?;
            let bytes = out.payload_data().len();
            buffers.give(number);
            if !take(bytes) {
                return Ok(());
            }
        }
    }
}

/// A page of entries, which the kernel reads, and their buffers.
struct Buffers {
    page: Box<Page>,
    memory: Vec<u8>,
    tail: u16,
}

#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Buffers {
    fn new() -> Buffers {
        let memory = vec![0; usize::from(BUFFERS) * BUFFER];
        let mut buffers = Buffers { page: Box::new(Page([0; 4096])), memory, tail: 0 };
        (0..BUFFERS).for_each(|number| buffers.give(number));
        buffers
    }

    fn entries(&mut self) -> *mut BufRingEntry {
        self.page.0.as_mut_ptr().cast()
    }

    fn of(&self, number: u16) -> &[u8] {
        &self.memory[usize::from(number) * BUFFER..][..BUFFER]
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, number: u16) {
        let address = self.of(number).as_ptr() as u64;
        let (entries, slot) = (self.entries(), usize::from(self.tail % BUFFERS));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the page holds that many entries, and the kernel reads none beyond the tail.
        let entry = unsafe { &mut *entries.add(slot) };
        entry.set_addr(address);
        entry.set_len(BUFFER as u32);
        entry.set_bid(number);
        // SAFETY: the tail lies in the first entry, is aligned, and is changed here only.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

/// Creates a ring. The thread that asks for completed work finds it, and no thread is interrupted
/// (Linux 6.1).
pub(super) fn make() -> io::Result<IoUring> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8)
}

fn outcome(entry: &cqueue::Entry) -> io::Result<usize> {
    let result = entry.result();
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
