//! Conversion of IP addresses to and from their form in C.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

use crate::errno::Errno;

/// The form of an address in C.
pub(super) fn to_c(addr: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    match addr {
        SocketAddr::V4(v4) => {
            // SAFETY: as above; the storage has room for every kind of address.
            let sin = unsafe { &mut *place.cast::<libc::sockaddr_in>() };
            sin.sin_family = libc::AF_INET as libc::sa_family_t;
            sin.sin_port = v4.port().to_be();
            sin.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let sin6 = unsafe { &mut *place.cast::<libc::sockaddr_in6>() };
            sin6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            sin6.sin6_port = v6.port().to_be();
            sin6.sin6_addr.s6_addr = v6.ip().octets();
            sin6.sin6_scope_id = v6.scope_id();
        }
    }
    storage
}

/// The address in its form in C. `None`: the family is not IP.
pub(super) fn from_c(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = ptr::from_ref(storage);
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one.
            let sin = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(sin.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let sin6 = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
            let port = u16::from_be(sin6.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, sin6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address that a program points to.
pub(super) unsafe fn given(addr: *const libc::sockaddr) -> Result<SocketAddr, Errno> {
    // SAFETY: by the caller's promise; as many bytes are read as the family's addresses have.
    unsafe {
        let family = addr.as_ref().ok_or(Errno::INVALID)?.sa_family;
        let size = match c_int::from(family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast(), size);
        from_c(&storage).ok_or(Errno(libc::EAFNOSUPPORT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["10.1.2.3:7471", "[2001:db8::1]:18515", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().expect("an address");
            assert_eq!(from_c(&to_c(addr)), Some(addr));
        }
        // SAFETY: the structure consists of numbers, so zero is valid.
        assert_eq!(from_c(&unsafe { std::mem::zeroed() }), None);
    }
}
