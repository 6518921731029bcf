//! The required calls of `bpf(2)`, each with its part of `union bpf_attr` (`linux/bpf.h`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
/// The attach type of [`LINK_CREATE`].
const XDP: u32 = 37;
/// The network stack runs the program instead of the driver.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;

/// An instruction (`struct bpf_insn`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// The destination register in the low half, the source register in the high half.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Creates a map from receive queues to AF_XDP sockets.
pub(super) fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    let attributes =
        Attributes { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues };
    // SAFETY: no pointers.
    unsafe { descriptor(MAP_CREATE, &attributes) }
}

/// Puts a queue's socket into the map.
pub(super) fn set_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        _padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let socket = socket.as_raw_fd();
    let attributes = Attributes {
        map: map.as_raw_fd() as u32,
        _padding: 0,
        key: ptr::from_ref(&queue).expose_provenance() as u64,
        value: ptr::from_ref(&socket).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: key and value are four bytes each, as the map was made for, and live until the call
    // has returned.
    unsafe { call(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
}

/// Loads an XDP program.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
    }
    let attributes = Attributes {
        program_type: PROG_TYPE_XDP,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"MIT OR Apache-2.0".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the instructions and the text live until the call has returned.
    unsafe { descriptor(PROG_LOAD, &attributes) }
}

/// Attaches a program to an interface for as long as the returned descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = Attributes {
        program: program.as_raw_fd() as u32,
        interface,
        attach_type: XDP,
        flags: XDP_FLAGS_SKB_MODE,
    };
    // SAFETY: no pointers.
    unsafe { descriptor(LINK_CREATE, &attributes) }
}

/// Runs a program on a frame and returns the XDP action, for tests.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    const PROG_TEST_RUN: libc::c_int = 10;
    #[repr(C)]
    struct Attributes {
        program: u32,
        result: u32,
        len_in: u32,
        len_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        result: 0,
        len_in: frame.len() as u32,
        len_out: 0,
        data_in: frame.as_ptr().expose_provenance() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
    };
    let len = size_of_val(&attributes);
    let attributes_at = ptr::from_mut(&mut attributes);
    // SAFETY: the frame lives until the call has returned; the result is written into the
    // attributes.
    let done = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, attributes_at, len) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(attributes.result)
}

/// # Safety
/// As for [`call`], of a command that returns a descriptor.
unsafe fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, attributes) }?;
    // SAFETY: the kernel has made it just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// The attributes are those of the command, and what they point to can be read. The kernel takes
/// what lies behind them for zeros.
unsafe fn call<T>(command: libc::c_int, attributes: &T) -> io::Result<i32> {
    let attributes_at = ptr::from_ref(attributes);
    // SAFETY: the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes_at, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}
