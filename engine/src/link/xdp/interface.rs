//! The network interface that has an address.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::ptr;

use super::XdpSetupError;
use super::frame::Mac;

/// Ethernet's number among the kinds of interfaces (`linux/if_arp.h`).
const ARPHRD_ETHER: u16 = 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: Mac,
}

impl Interface {
    /// Somebody else has AF_XDP or an XDP program there.
    pub(super) fn is_busy(&self) -> XdpSetupError {
        XdpSetupError::Busy { interface: self.name.clone() }
    }
}

/// What `getifaddrs` says of one.
enum Entry {
    Has(Ipv4Addr),
    Is { kind: u16, index: u32, mac: Mac },
}

/// The one that has `ip`.
pub(super) fn of_address(ip: Ipv4Addr) -> Result<Interface, XdpSetupError> {
    let refused = |source| XdpSetupError::System { step: "getifaddrs", source };
    let entries = entries().map_err(refused)?;
    let has_it = |entry: &&(String, Entry)| matches!(entry.1, Entry::Has(known) if known == ip);
    let (label, _) = entries.iter().find(has_it).ok_or(XdpSetupError::NoInterface { ip })?;
    // An address may have a label of its own, `eth0:1`.
    let name = label.split(':').next().unwrap_or(label);
    entries
        .iter()
        .find_map(|(of, entry)| match entry {
            Entry::Is { kind: ARPHRD_ETHER, index, mac } if of == name => {
                Some(Interface { name: name.to_owned(), index: *index, mac: *mac })
            }
            _ => None,
        })
        .ok_or_else(|| XdpSetupError::NotEthernet { interface: name.to_owned(), ip })
}

fn entries() -> io::Result<Vec<(String, Entry)>> {
    let mut first = ptr::null_mut();
    // SAFETY: the kernel's answer is put there.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entries = Vec::new();
    let mut next = first.cast_const();
    // SAFETY: null, or an element of the list, which is freed below.
    while let Some(element) = unsafe { next.as_ref() } {
        // SAFETY: the name is a text of the list's.
        let name = unsafe { CStr::from_ptr(element.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: null or an address of the list's.
        entries.extend(unsafe { entry(element.ifa_addr) }.map(|entry| (name, entry)));
        next = element.ifa_next;
    }
    // SAFETY: it was made above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(entries)
}

/// # Safety
/// It is null or the address of an interface, as long as its family says.
unsafe fn entry(addr: *const libc::sockaddr) -> Option<Entry> {
    // SAFETY: the caller's promise.
    let family = unsafe { addr.as_ref() }?.sa_family;
    match family.into() {
        libc::AF_INET => {
            // SAFETY: the family says so.
            let addr = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Entry::Has(Ipv4Addr::from_bits(u32::from_be(addr.sin_addr.s_addr))))
        }
        libc::AF_PACKET => {
            // SAFETY: the family says so.
            let addr = unsafe { addr.cast::<libc::sockaddr_ll>().read_unaligned() };
            let mut mac = Mac::default();
            mac.copy_from_slice(&addr.sll_addr[..mem::size_of::<Mac>()]);
            Some(Entry::Is { kind: addr.sll_hatype, index: addr.sll_ifindex as u32, mac })
        }
        _ => None,
    }
}
