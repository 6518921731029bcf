//! Names and services become addresses.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use braid_verbs::abi::{IBV_QPT_RC, IBV_QPT_UD};

use super::addresses::to_c;
use super::port_space::PortSpace;
use super::structs::rdma_addrinfo;
use crate::errno::{self, Errno};

/// `RAI_PASSIVE`: the address is to be listened at.
pub(super) const PASSIVE: c_int = 1;
/// `RAI_FAMILY`: the address is of the family that the hints name.
const FAMILY: c_int = 8;

/// An answer, with what it points to.
#[repr(C)]
struct Answer {
    base: rdma_addrinfo,
    addr: libc::sockaddr_storage,
    /// Where the hints named one.
    source: libc::sockaddr_storage,
}

/// All addresses of the name, in the order in which they are to be tried. -1 with `errno`:
/// `ENODATA` for a name or service that nobody knows.
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
        let flags = hints.map_or(0, |hints| hints.ai_flags);
        // SAFETY: as above.
        let (node, service) = unsafe { (text(node)?, text(service)?) };
        let family = hints.filter(|_| flags & FAMILY != 0).map(|hints| hints.ai_family);
        let mut next: *mut rdma_addrinfo = ptr::null_mut();
        for addr in resolve(node, service, flags & PASSIVE != 0, family).into_iter().rev() {
            // SAFETY: by the caller's promise.
            let mut answer = unsafe { answer(addr, flags, hints) };
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

/// One address.
///
/// # Safety
/// What the hints point to is as long as they say.
unsafe fn answer(addr: SocketAddr, flags: c_int, hints: Option<&rdma_addrinfo>) -> Box<Answer> {
    // SAFETY: it consists of numbers and pointers.
    let mut answer: Box<Answer> = Box::new(unsafe { mem::zeroed() });
    answer.addr = to_c(addr);
    let place: *mut libc::sockaddr = (&raw mut answer.addr).cast();
    let (family, len) = match addr {
        SocketAddr::V4(_) => (libc::AF_INET, size_of::<libc::sockaddr_in>()),
        SocketAddr::V6(_) => (libc::AF_INET6, size_of::<libc::sockaddr_in6>()),
    };
    let source: *mut libc::sockaddr = (&raw mut answer.source).cast();
    let base = &mut answer.base;
    (base.ai_flags, base.ai_family) = (flags, family);
    (base.ai_qp_type, base.ai_port_space) = type_and_space(hints);
    if flags & PASSIVE != 0 {
        (base.ai_src_addr, base.ai_src_len) = (place, len as c_uint);
    } else {
        (base.ai_dst_addr, base.ai_dst_len) = (place, len as c_uint);
        let known = hints.filter(|hints| !hints.ai_src_addr.is_null());
        if let Some(hints) = known {
            let len = (hints.ai_src_len as usize).min(size_of::<libc::sockaddr_storage>());
            // SAFETY: by the caller's promise, and there is room for every kind of address.
            unsafe { ptr::copy_nonoverlapping(hints.ai_src_addr.cast::<u8>(), source.cast(), len) };
            (base.ai_src_addr, base.ai_src_len) = (source, len as c_uint);
        }
    }
    answer
}

/// The type of queue pairs and the port space: where the hints name one of both, the other follows.
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
    // SAFETY: by the caller's promise it ends with NUL.
    unsafe { CStr::from_ptr(text) }.to_str().map(Some).map_err(|_| Errno::INVALID)
}

/// Of that family, if one is named. None: nobody knows the name or the service.
fn resolve(
    node: Option<&str>,
    service: Option<&str>,
    is_passive: bool,
    family: Option<c_int>,
) -> Vec<SocketAddr> {
    let Ok(port) = service.unwrap_or("0").parse::<u16>() else { return Vec::new() };
    let default = match (is_passive, family == Some(libc::AF_INET6)) {
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
    // A device has an IPv4 address wherever its interface has one.
    found.sort_by_key(SocketAddr::is_ipv6);
    found
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(answer: *mut rdma_addrinfo) {
    let mut next = answer;
    while !next.is_null() {
        // SAFETY: by the caller's promise `rdma_getaddrinfo` has given it, and made those behind it
        // as well.
        let answer = unsafe { Box::from_raw(next.cast::<Answer>()) };
        next = answer.base.ai_next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_understood_and_nonsense_is_not() {
        let addr = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert_eq!(resolve(Some("127.0.0.1"), Some("7471"), false, None), addr("127.0.0.1:7471"));
        assert_eq!(resolve(Some("::1"), Some("1"), false, None), addr("[::1]:1"));
        assert_eq!(resolve(None, Some("9"), true, None), addr("0.0.0.0:9"));
        assert_eq!(resolve(Some("127.0.0.1"), Some("no service"), false, None), []);
    }

    /// `rdma_getaddrinfo(3)`, `RAI_FAMILY`.
    #[test]
    fn the_family_that_is_named_is_the_one_that_is_found() {
        let found = |node, is_passive, family| {
            let found = resolve(node, Some("9"), is_passive, Some(family));
            found.first().map(|addr| addr.to_string())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found(None, true, libc::AF_INET6), text("[::]:9"));
        assert_eq!(found(None, false, libc::AF_INET6), text("[::1]:9"));
        assert_eq!(found(None, true, libc::AF_INET), text("0.0.0.0:9"));
        assert_eq!(found(Some("127.0.0.1"), false, libc::AF_UNSPEC), text("127.0.0.1:9"));
        assert_eq!(found(Some("127.0.0.1"), false, libc::AF_INET6), None);
        assert_eq!(found(Some("::1"), false, libc::AF_INET), None);
    }
}
