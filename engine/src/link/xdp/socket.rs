//! An AF_XDP socket on one receive queue of an interface, with memory of its own (`UMEM`).
//!
//! The memory consists of chunks of one size. Some belong to the kernel, which puts arriving frames
//! into them. The kernel hands such a chunk over with a frame and gets it back as soon as the frame
//! is read. The other chunks carry leaving frames and come back when these have left.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::rings::{Consumer, Producer, RingLocation};
use crate::memory::Mapping;

/// Bytes of a chunk. The kernel reserves 256 bytes of each chunk that it receives into.
const CHUNK: usize = 2048;
/// The largest number of bytes of a sent frame.
pub(super) const MAX_FRAME: usize = CHUNK - 256;
/// The number of chunks to receive into.
const RECEIVING: u32 = 2048;
/// The number of chunks to send from.
const SENDING: u32 = 256;
/// Ring entries for each chunk. The kernel returns an entry's chunk before it marks the entry as
/// taken.
const ENTRIES: u32 = 2;

/// A refused step of the set-up and the error of the system.
pub(super) struct Refused {
    pub(super) step: &'static str,
    pub(super) source: io::Error,
}

fn at(step: &'static str) -> impl Fn(io::Error) -> Refused {
    move |source| Refused { step, source }
}

/// An AF_XDP socket, see the module.
pub(super) struct Xsk {
    fd: OwnedFd,
    memory: Mapping,
    fill: Producer<u64>,
    received: Consumer<libc::xdp_desc>,
    sending: Producer<libc::xdp_desc>,
    completed: Consumer<u64>,
    /// Free chunks to send from.
    free: Vec<u64>,
}

impl Xsk {
    /// Opens a socket that is on no queue yet.
    pub(super) fn open() -> Result<Xsk, Refused> {
        let fd = open_socket().map_err(at("socket(AF_XDP)"))?;
        let memory =
            Mapping::new((RECEIVING + SENDING) as usize * CHUNK, false).map_err(at("mmap"))?;
        register(fd.as_fd(), &memory).map_err(at("setsockopt(XDP_UMEM_REG)"))?;
        for (name, entries) in [
            (libc::XDP_UMEM_FILL_RING, RECEIVING),
            (libc::XDP_RX_RING, RECEIVING),
            (libc::XDP_UMEM_COMPLETION_RING, SENDING),
            (libc::XDP_TX_RING, SENDING),
        ] {
            set(fd.as_fd(), name, &(entries * ENTRIES)).map_err(at("setsockopt of a ring"))?;
        }
        let places = places(fd.as_fd()).map_err(at("getsockopt(XDP_MMAP_OFFSETS)"))?;
        let [fill, received, sending, completed] = places;
        let mapped = at("mmap of a ring");
        let mut xsk = Xsk {
            fill: Producer::map(fd.as_fd(), fill).map_err(&mapped)?,
            received: Consumer::map(fd.as_fd(), received).map_err(&mapped)?,
            sending: Producer::map(fd.as_fd(), sending).map_err(&mapped)?,
            completed: Consumer::map(fd.as_fd(), completed).map_err(&mapped)?,
            free: (RECEIVING..RECEIVING + SENDING).map(chunk).collect(),
            fd,
            memory,
        };
        (0..RECEIVING).for_each(|index| xsk.fill.push(chunk(index)));
        xsk.fill.submit();
        Ok(xsk)
    }

    /// Binds the socket to a queue. `InvalidInput`: the interface has no such queue. Frames are
    /// copied, which every driver supports.
    pub(super) fn bind(&self, interface: u32, queue: u32) -> io::Result<()> {
        let addr = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&addr) as libc::socklen_t;
        // SAFETY: the address is `len` bytes of plain data.
        let done = unsafe { libc::bind(self.fd.as_raw_fd(), ptr::from_ref(&addr).cast(), len) };
        succeeded(done.into())
    }

    /// The number of frames that can be sent now.
    pub(super) fn room(&mut self) -> usize {
        let completed = self.completed.available();
        for _ in 0..completed {
            let chunk = self.completed.pop();
            self.free.push(chunk);
        }
        if completed > 0 {
            self.completed.release();
        }
        self.free.len()
    }

    /// Appends a frame of `len` bytes, which `write` fills, to the frames to send.
    ///
    /// # Panics
    /// Panics if there is no room or the frame is longer than [`MAX_FRAME`].
    pub(super) fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        assert!(len <= MAX_FRAME);
        let addr = self.free.pop().expect("there is room");
        write(self.bytes(addr, len));
        self.sending.push(libc::xdp_desc { addr, len: len as u32, options: 0 });
    }

    /// Sends the pushed frames, or as many as the device takes; see [`Xsk::is_waiting`].
    pub(super) fn flush(&self) -> io::Result<()> {
        self.sending.submit();
        // SAFETY: nothing is passed but the descriptor: this tells the kernel to look at the ring.
        let sent = unsafe {
            libc::sendto(self.fd.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
        };
        match succeeded(sent as i64) {
            // The device is full, and the frames stay in the ring.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::ENOMEM | libc::EINTR)
                ) =>
            {
                Ok(())
            }
            sent => sent,
        }
    }

    /// Whether frames wait for another [`Xsk::flush`].
    pub(super) fn is_waiting(&self) -> bool {
        self.sending.in_use() > 0
    }

    /// Hands at most `most` arrived frames to `sink`. Returns their number.
    pub(super) fn receive(&mut self, most: u32, mut sink: impl FnMut(&mut [u8])) -> u32 {
        let count = self.received.available().min(most);
        for _ in 0..count {
            let frame = self.received.pop();
            sink(self.bytes(frame.addr, frame.len as usize));
            self.fill.push(frame.addr - frame.addr % CHUNK as u64);
        }
        if count > 0 {
            self.received.release();
            self.fill.submit();
        }
        count
    }

    /// Frames for this socket that found no room.
    pub(super) fn dropped(&self) -> u64 {
        // SAFETY: plain data of which zero is a valid value.
        let mut statistics: libc::xdp_statistics = unsafe { mem::zeroed() };
        match get(self.fd.as_fd(), libc::XDP_STATISTICS, &mut statistics) {
            Ok(_) => statistics.rx_dropped + statistics.rx_ring_full,
            Err(_) => 0,
        }
    }

    /// The bytes of a chunk that belongs to this process now.
    fn bytes(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let addr = addr as usize;
        assert!(addr <= self.memory.len() && len <= self.memory.len() - addr);
        // SAFETY: inside the memory, which was zeroed at first; the kernel writes to chunks that
        // were given to it only, and this one has been handed over or never was.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(addr).as_ptr(), len) }
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn chunk(index: u32) -> u64 {
    u64::from(index) * CHUNK as u64
}

fn open_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    succeeded(fd.into())?;
    // SAFETY: it was opened just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn register(fd: BorrowedFd<'_>, memory: &Mapping) -> io::Result<()> {
    let region = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::XDP_UMEM_REG, &region)
}

/// The locations of the fill ring, the receive ring, the send ring and the completion ring.
fn places(fd: BorrowedFd<'_>) -> io::Result<[RingLocation; 4]> {
    // SAFETY: plain data of which zero is a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    let len = get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    if len != size_of_val(&offsets) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a kernel before Linux 5.4, which has other rings",
        ));
    }
    let place = |page, parts, chunks| RingLocation { page, parts, entries: chunks * ENTRIES };
    Ok([
        place(libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, offsets.fr, RECEIVING),
        place(libc::XDP_PGOFF_RX_RING, offsets.rx, RECEIVING),
        place(libc::XDP_PGOFF_TX_RING, offsets.tx, SENDING),
        place(libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, offsets.cr, SENDING),
    ])
}

/// Sets an option. `T` must be the plain data that the option takes.
fn set<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = ptr::from_ref(value).cast();
    // SAFETY: the kernel reads `len` bytes at `value`, which is that long.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, len) };
    succeeded(done.into())
}

/// Reads an option. `T` must be the plain data that the option returns. Returns the number of its
/// bytes.
fn get<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<usize> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let value = ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `len` bytes at `value`, which is that long.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, ptr::from_mut(&mut len))
    };
    succeeded(done.into())?;
    Ok(len as usize)
}

fn succeeded(result: i64) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
