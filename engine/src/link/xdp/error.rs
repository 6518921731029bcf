//! Why there is no AF_XDP.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// Why an engine cannot have AF_XDP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpSetupError {
    /// The address to receive on says nothing of an interface.
    #[error(
        "AF_XDP needs the IPv4 address of an Ethernet interface to `bind` to, not {ip}; `ip -4 address` lists them"
    )]
    Address {
        /// What was asked for.
        ip: IpAddr,
    },
    /// The address is nobody's here.
    #[error(
        "no network interface of this host has the address {ip}, which AF_XDP needs; `ip -4 address` lists those there are"
    )]
    NoInterface {
        /// What was asked for.
        ip: Ipv4Addr,
    },
    /// Its interface has no Ethernet frames.
    #[error(
        "{interface}, which has the address {ip}, is no Ethernet interface, which AF_XDP needs; `bind` to the address of one, or take UDP"
    )]
    NotEthernet {
        /// Its name.
        interface: String,
        /// What was asked for.
        ip: Ipv4Addr,
    },
    /// Several workers.
    #[error(
        "over AF_XDP an engine has one worker, not {threads}: a receive queue of an interface has one socket; take `Progress::Threads(1)` or `Progress::Application`"
    )]
    Workers {
        /// How many were asked for.
        threads: usize,
    },
    /// Somebody else uses it.
    #[error(
        "{interface} has AF_XDP sockets or an XDP program already, another engine's perhaps: one engine at a time uses AF_XDP on an interface; end the program that has them, or remove what `ip link` shows there (`ip link set dev {interface} xdp off`)"
    )]
    Busy {
        /// Its name.
        interface: String,
    },
    /// Without privilege.
    #[error(
        "AF_XDP is refused ({step}: {source}); it needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, the last outside of any user namespace"
    )]
    Privilege {
        /// What was refused.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Memory cannot be locked.
    #[error(
        "the memory of an AF_XDP socket cannot be locked ({step}: {source}); raise the limit (`ulimit -l unlimited`), or grant CAP_IPC_LOCK"
    )]
    Locked {
        /// What was refused.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not have it.
    #[error(
        "this kernel has no AF_XDP as it is needed ({step}: {source}); it takes Linux 5.9 with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL"
    )]
    Unsupported {
        /// What was refused.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else.
    #[error("AF_XDP cannot be set up ({step}: {source})")]
    System {
        /// What was refused.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl XdpSetupError {
    /// What a refused step of the set-up says.
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
