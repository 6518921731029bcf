//! Errors of setting up AF_XDP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// The reason why an engine cannot use AF_XDP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpSetupError {
    /// The receiving address does not identify an interface.
    #[error(
        "AF_XDP needs the IPv4 address of an Ethernet interface to `bind` to, not {ip}; \
         `ip -4 address` lists them"
    )]
    Address {
        /// The requested address.
        ip: IpAddr,
    },
    /// No interface of this host has the address.
    #[error(
        "no network interface of this host has the address {ip}, which AF_XDP needs; \
         `ip -4 address` lists those there are"
    )]
    NoInterface {
        /// The requested address.
        ip: Ipv4Addr,
    },
    /// The interface of the address is not an Ethernet interface.
    #[error(
        "{interface}, which has the address {ip}, is no Ethernet interface, which AF_XDP needs; \
         `bind` to the address of one, or take UDP"
    )]
    NotEthernet {
        /// The name of the interface.
        interface: String,
        /// The requested address.
        ip: Ipv4Addr,
    },
    /// The engine has several workers.
    #[error(
        "over AF_XDP an engine has one worker, not {threads}: a receive queue of an interface has \
         one socket; take `Progress::Threads(1)` or `Progress::Application`"
    )]
    Workers {
        /// The requested number of threads.
        threads: usize,
    },
    /// Another program uses AF_XDP or an XDP program on the interface.
    #[error(
        "{interface} has AF_XDP sockets or an XDP program already, another engine's perhaps: one \
         engine at a time uses AF_XDP on an interface; end the program that has them, or remove \
         what `ip link` shows there (`ip link set dev {interface} xdp off`)"
    )]
    Busy {
        /// The name of the interface.
        interface: String,
    },
    /// The process lacks a privilege.
    #[error(
        "AF_XDP is refused ({step}: {source}); it needs root, or CAP_NET_RAW, CAP_NET_ADMIN and \
         CAP_BPF, the last outside of any user namespace"
    )]
    Privilege {
        /// The refused step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The process cannot lock the memory.
    #[error(
        "the memory of an AF_XDP socket cannot be locked ({step}: {source}); raise the limit \
         (`ulimit -l unlimited`), or grant CAP_IPC_LOCK"
    )]
    Locked {
        /// The refused step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The kernel lacks AF_XDP.
    #[error(
        "this kernel lacks the required AF_XDP ({step}: {source}); use Linux 5.9 or later with \
         CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL"
    )]
    Unsupported {
        /// The refused step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The program was built without AF_XDP.
    #[error(
        "this program was built without AF_XDP; build it with the feature `xdp` of the crate \
         braid-rdma, or take UDP"
    )]
    NotBuilt,
    /// Another step of the set-up failed.
    #[error("AF_XDP cannot be set up ({step}: {source})")]
    System {
        /// The refused step.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

#[cfg(feature = "xdp")]
impl XdpSetupError {
    /// Classifies the error of a refused step.
    pub(super) fn of(step: &'static str, source: io::Error) -> XdpSetupError {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => XdpSetupError::Privilege { step, source },
            Some(libc::ENOBUFS) => XdpSetupError::Locked { step, source },
            Some(
                libc::EAFNOSUPPORT
                | libc::ENOSYS
                | libc::EPROTONOSUPPORT
                | libc::EOPNOTSUPP
                | libc::EINVAL,
            ) => XdpSetupError::Unsupported { step, source },
            None if source.kind() == io::ErrorKind::Unsupported => {
                XdpSetupError::Unsupported { step, source }
            }
            _ => XdpSetupError::System { step, source },
        }
    }
}
