//! Resolution of names and services: `rdma_getaddrinfo`.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::ptr;

use braid_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};

use super::addresses::to_c;
use super::port_space::PortSpace;
use super::structs::rdma_addrinfo;
use crate::errno::{self, Errno};

/// `RAI_PASSIVE`: the program will listen at the address.
pub(super) const PASSIVE: c_int = 1;
/// `RAI_NUMERICHOST`: the node is an address, so no name is looked up.
const NUMERIC_HOST: c_int = 2;
/// `RAI_FAMILY`: the address has the family that the hints name.
const FAMILY: c_int = 8;

/// An answer, with the values that it points to.
#[repr(C)]
struct Answer {
    base: rdma_addrinfo,
    source: libc::sockaddr_storage,
    destination: libc::sockaddr_storage,
}

/// Returns all addresses of a name, in the order in which the program should try them. Without
/// `node` and `service`, there is one result with the addresses of `hints`. -1 with `errno`:
/// `EINVAL` if all three are missing or an address of `hints` is too long, `ENODATA` for an unknown
/// name or service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    result: *mut *mut rdma_addrinfo,
) -> c_int {
    errno::number(|| {
        // SAFETY: by the caller's promise.
        let (hints, result) = unsafe { (hints.as_ref(), result.as_mut()) };
        let result = result.ok_or(Errno::INVALID)?;
        // SAFETY: as above.
        let (node, service) = unsafe { (text(node)?, text(service)?) };
        let [source, destination] = match hints {
            // SAFETY: as above.
            Some(hints) => unsafe { named(hints)? },
            None => [None; 2],
        };
        let mut next: *mut rdma_addrinfo = ptr::null_mut();
        if node.is_none() && service.is_none() {
            let hints = hints.ok_or(Errno::INVALID)?;
            next = Box::into_raw(answer(source, destination, Some(hints))).cast();
        }
        for addr in resolve(node, service, hints).into_iter().rev() {
            let found = Some(Addr::of(addr));
            let mut answer = match is_passive(hints) {
                true => answer(found, None, hints),
                false => answer(source, found, hints),
            };
            answer.base.ai_next = next;
            next = Box::into_raw(answer).cast();
        }
        if next.is_null() {
            return Err(Errno(libc::ENODATA));
        }
        *result = next;
        Ok(0)
    })
}

fn is_passive(hints: Option<&rdma_addrinfo>) -> bool {
    hints.is_some_and(|hints| hints.ai_flags & PASSIVE != 0)
}

/// An address, and its length in C.
#[derive(Clone, Copy)]
struct Addr {
    storage: libc::sockaddr_storage,
    len: usize,
}

impl Addr {
    fn of(addr: SocketAddr) -> Self {
        let len = match addr {
            SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
            SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
        };
        Addr { storage: to_c(addr), len }
    }

    /// Copies an address of a program. `None`: the pointer is NULL, or the length 0.
    ///
    /// # Errors
    /// `EINVAL`: the length exceeds that of every address.
    unsafe fn given(addr: *const libc::sockaddr, len: c_uint) -> Result<Option<Self>, Errno> {
        let len = len as usize;
        if addr.is_null() || len == 0 {
            return Ok(None);
        }
        if len > size_of::<libc::sockaddr_storage>() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the structure consists of numbers, so zero is valid.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: by the caller's promise; the storage has room for every kind of address.
        unsafe { ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast(), len) };
        Ok(Some(Addr { storage, len }))
    }
}

/// The source and the destination that the hints name.
///
/// # Safety
/// The addresses of the hints are as long as the hints say.
unsafe fn named(hints: &rdma_addrinfo) -> Result<[Option<Addr>; 2], Errno> {
    // SAFETY: by the caller's promise.
    unsafe {
        Ok([
            Addr::given(hints.ai_src_addr, hints.ai_src_len)?,
            Addr::given(hints.ai_dst_addr, hints.ai_dst_len)?,
        ])
    }
}

/// Makes one result.
fn answer(
    source: Option<Addr>,
    destination: Option<Addr>,
    hints: Option<&rdma_addrinfo>,
) -> Box<Answer> {
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut answer: Box<Answer> = Box::new(unsafe { mem::zeroed() });
    let family = destination.or(source).map(|addr| c_int::from(addr.storage.ss_family));
    answer.base.ai_flags = hints.map_or(0, |hints| hints.ai_flags);
    answer.base.ai_family = family.or(hints.map(|hints| hints.ai_family)).unwrap_or_default();
    (answer.base.ai_qp_type, answer.base.ai_port_space) = type_and_space(hints);
    if let Some(addr) = source {
        answer.source = addr.storage;
        answer.base.ai_src_addr = (&raw mut answer.source).cast();
        answer.base.ai_src_len = addr.len as c_uint;
    }
    if let Some(addr) = destination {
        answer.destination = addr.storage;
        answer.base.ai_dst_addr = (&raw mut answer.destination).cast();
        answer.base.ai_dst_len = addr.len as c_uint;
    }
    answer
}

/// The type of queue pairs and the port space. If the hints name one of the two, the other follows.
fn type_and_space(hints: Option<&rdma_addrinfo>) -> (c_int, c_int) {
    let named = hints.map_or((0, 0), |hints| (hints.ai_qp_type, hints.ai_port_space));
    let is_ud = named.0 == IBV_QPT_UD as c_int || named.1 == PortSpace::Udp as c_int;
    let (kind, space) =
        if is_ud { (IBV_QPT_UD, PortSpace::Udp) } else { (IBV_QPT_RC, PortSpace::Tcp) };
    let or = |named, default| if named == 0 { default } else { named };
    (or(named.0, kind as c_int), or(named.1, space as c_int))
}

unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, Errno> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: by the caller's promise, the text ends with NUL.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| Errno::INVALID)
}

/// The addresses of a name and service, restricted by the hints. Empty: the name or the service is
/// unknown, or neither is given.
fn resolve(
    node: Option<&str>,
    service: Option<&str>,
    hints: Option<&rdma_addrinfo>,
) -> Vec<SocketAddr> {
    if node.is_none() && service.is_none() {
        return Vec::new();
    }
    let flags = hints.map_or(0, |hints| hints.ai_flags);
    let family = hints.filter(|_| flags & FAMILY != 0).map(|hints| hints.ai_family);
    let Ok(port) = service.unwrap_or("0").parse::<u16>() else { return Vec::new() };
    if flags & NUMERIC_HOST != 0 && node.is_some_and(|node| node.parse::<IpAddr>().is_err()) {
        return Vec::new();
    }
    let default = match (is_passive(hints), family == Some(libc::AF_INET6)) {
        (true, false) => "0.0.0.0",
        (true, true) => "::",
        (false, false) => "127.0.0.1",
        (false, true) => "::1",
    };
    let is_wanted = |addr: &SocketAddr| match family {
        None | Some(libc::AF_UNSPEC) => true,
        Some(libc::AF_INET) => addr.is_ipv4(),
        Some(libc::AF_INET6) => addr.is_ipv6(),
        Some(_) => false,
    };
    let mut found = braid::resolve(node.unwrap_or(default), port).unwrap_or_default();
    found.retain(is_wanted);
    // IPv4 first, because a device has an IPv4 address whenever its interface has one.
    found.sort_by_key(SocketAddr::is_ipv6);
    found
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(answer: *mut rdma_addrinfo) {
    let mut next = answer;
    while !next.is_null() {
        // SAFETY: by the caller's promise `rdma_getaddrinfo` has made this answer and those behind
        // it.
        let answer = unsafe { Box::from_raw(next.cast::<Answer>()) };
        next = answer.base.ai_next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(ai_flags: c_int, ai_family: c_int) -> rdma_addrinfo {
        // SAFETY: the structure consists of numbers and pointers, so zero is valid.
        let hints: rdma_addrinfo = unsafe { mem::zeroed() };
        rdma_addrinfo { ai_flags, ai_family, ..hints }
    }

    #[test]
    fn numbers_are_parsed_and_other_text_is_refused() {
        let addr = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert_eq!(resolve(Some("127.0.0.1"), Some("7471"), None), addr("127.0.0.1:7471"));
        assert_eq!(resolve(Some("::1"), Some("1"), None), addr("[::1]:1"));
        let passive = hints(PASSIVE, 0);
        assert_eq!(resolve(None, Some("9"), Some(&passive)), addr("0.0.0.0:9"));
        assert_eq!(resolve(Some("127.0.0.1"), Some("no service"), None), []);
    }

    /// `rdma_getaddrinfo(3)`, `RAI_NUMERICHOST`.
    #[test]
    fn numeric_host_looks_up_no_name() {
        let numeric = hints(NUMERIC_HOST, 0);
        assert_eq!(resolve(Some("localhost"), Some("9"), Some(&numeric)), []);
        assert_eq!(resolve(Some("127.0.0.1"), Some("9"), Some(&numeric)).len(), 1);
    }

    /// `rdma_getaddrinfo(3)`, `RAI_FAMILY`.
    #[test]
    fn the_family_that_is_named_is_the_one_that_is_found() {
        let found = |node, flags, family| {
            let found = resolve(node, Some("9"), Some(&hints(FAMILY | flags, family)));
            found.first().map(|addr| addr.to_string())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found(None, PASSIVE, libc::AF_INET6), text("[::]:9"));
        assert_eq!(found(None, 0, libc::AF_INET6), text("[::1]:9"));
        assert_eq!(found(None, PASSIVE, libc::AF_INET), text("0.0.0.0:9"));
        assert_eq!(found(Some("127.0.0.1"), 0, libc::AF_UNSPEC), text("127.0.0.1:9"));
        assert_eq!(found(Some("127.0.0.1"), 0, libc::AF_INET6), None);
        assert_eq!(found(Some("::1"), 0, libc::AF_INET), None);
    }
}
