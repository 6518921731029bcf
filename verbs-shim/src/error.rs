//! Errors of this crate.

use std::io;

use crate::{Gid, QpKind};

/// The reason for a failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// libibverbs is not installed, or is unusable.
    #[error(
        "no RDMA device: {library} cannot be used: {reason}; \
         install it: `apt-get install libibverbs1 ibverbs-providers`"
    )]
    Library {
        /// The file name of the library.
        library: String,
        /// The error of the dynamic linker, or the missing function.
        reason: String,
    },
    /// The machine has no RDMA device.
    #[error(
        "no RDMA device: the kernel knows none ({source}); \
         load the driver of your NIC, or make a Soft-RoCE device: \
         `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev IF`; \
         libibverbs needs `ib_uverbs` and the package \
         `ibverbs-providers`"
    )]
    NoDevice {
        /// The error of libibverbs.
        source: io::Error,
    },
    /// The kernel has devices, but libibverbs has no driver for them.
    #[error(
        "no RDMA device: the kernel has {} but libibverbs can drive none of them; \
         install `ibverbs-providers`, \
         `modprobe ib_uverbs`, and in a container pass on /dev/infiniband",
        kernel.join(", ")
    )]
    NoProvider {
        /// The kernel's devices.
        kernel: Vec<String>,
    },
    /// No device has this name.
    #[error("there is no RDMA device `{name}`; this machine has {}", known.join(", "))]
    UnknownDevice {
        /// The requested name.
        name: String,
        /// The names of the devices.
        known: Vec<String>,
    },
    /// The device cannot be opened.
    #[error(
        "cannot open RDMA device {name}: {source}; \
         /dev/infiniband/uverbs* must be readable and writable for you"
    )]
    Open {
        /// The device.
        name: String,
        /// The error of libibverbs.
        source: io::Error,
    },
    /// The device has fewer ports.
    #[error("{device} has no port {port}: its ports are 1 to {count}")]
    NoSuchPort {
        /// The device.
        device: String,
        /// The requested port.
        port: u8,
        /// Number of ports.
        count: u8,
    },
    /// The GID table of the port is shorter.
    #[error("{device} port {port} has no GID {index}: its table has {count} entries, from 0")]
    GidOutOfRange {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The requested entry.
        index: u32,
        /// Number of entries of the table.
        count: u32,
    },
    /// The entry of the GID table is not in use.
    #[error(
        "{device} port {port}: GID {index} is empty; \
         give its network interface an address and bring it up, or choose \
         another of those in /sys/class/infiniband/{device}/ports/{port}/gids"
    )]
    EmptyGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The entry.
        index: u32,
    },
    /// The kernel does not report the type of a GID.
    #[error("cannot read the type of GID {index} of {device} port {port}: {source}")]
    GidType {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The entry.
        index: u32,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A value exceeds the range of verbs.
    #[error("{what} {value} is out of range: at most {max}")]
    OutOfRange {
        /// The name of the value.
        what: &'static str,
        /// The value.
        value: u64,
        /// The maximum.
        max: u64,
    },
    /// The path MTU is not one of the five that verbs supports.
    #[error("path MTU {bytes} is not one of 256, 512, 1024, 2048 and 4096 bytes")]
    PathMtu {
        /// The requested path MTU.
        bytes: u32,
    },
    /// The destination of a route is all zeros.
    #[error("{gid} is not a destination: ask the peer for the GID of its port")]
    NoDestination {
        /// The given GID.
        gid: Gid,
    },
    /// The call does not apply to queue pairs of this kind.
    #[error("{call} does not apply to a queue pair of kind {kind}")]
    WrongKind {
        /// The call.
        call: &'static str,
        /// The queue pair's kind.
        kind: QpKind,
    },
    /// Objects of different openings were combined.
    #[error(
        "{what} belongs to another opening of a device than {device}: make both from one Context"
    )]
    OtherContext {
        /// The passed object.
        what: &'static str,
        /// The device that it was passed to.
        device: String,
    },
    /// libibverbs, the driver or the device reported an error.
    #[error("{device}: {call} failed ({asked}): {source}{}", remedy(source))]
    Refused {
        /// The device.
        device: String,
        /// The function.
        call: &'static str,
        /// The arguments of the call.
        asked: String,
        /// The error.
        source: io::Error,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOMEM) => {
            "; raise the limit of locked memory (`ulimit -l`), \
             or ask for less: see the device's attributes"
        }
        Some(libc::EINVAL) => "; see the device's attributes for what it can do",
        Some(libc::EIO | libc::ENODEV) => "; the device is gone, look at `rdma link` and `dmesg`",
        _ => "",
    }
}

/// A work request that was not posted. The earlier ones were posted, and the later ones were not.
#[derive(Debug, thiserror::Error)]
#[error("work request {index} of the list was not posted: {source}")]
pub struct PostError {
    /// Its index in the list.
    pub index: usize,
    /// The reason: `ENOMEM` if the queue is full, `EINVAL` if the request or the state is invalid.
    pub source: io::Error,
}

/// Converts the result of a function that returns 0 or an error.
///
/// The manual specifies a positive errno. Some functions return -1 and set errno, and some drivers
/// return it negated.
pub(crate) fn check(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::from_raw_os_error(code.saturating_abs())),
    }
}

/// Returns `value` if it is at most `max`.
pub(crate) fn at_most<T>(what: &'static str, value: T, max: T) -> Result<T, VerbsError>
where
    T: Copy + PartialOrd + Into<u64>,
{
    match value <= max {
        true => Ok(value),
        false => Err(VerbsError::OutOfRange { what, value: value.into(), max: max.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_returned_errors_is_understood() {
        assert!(check(0).is_ok());
        for code in [libc::ENOMEM, -libc::ENOMEM] {
            let error = check(code).expect_err("not zero");
            assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        }
        // SAFETY: errno belongs to this thread.
        unsafe { *libc::__errno_location() = libc::EBUSY };
        assert_eq!(check(-1).expect_err("not zero").raw_os_error(), Some(libc::EBUSY));
    }

    #[test]
    fn errors_about_missing_devices_begin_alike() {
        let library = VerbsError::Library { library: "l".into(), reason: "r".into() };
        let device = VerbsError::NoDevice { source: io::Error::from_raw_os_error(libc::ENOSYS) };
        let provider = VerbsError::NoProvider { kernel: vec!["rxe0".into()] };
        for (error, remedy) in [
            (library, "apt-get install libibverbs1 ibverbs-providers"),
            (device, "rdma link add rxe0 type rxe netdev IF"),
            (provider, "the kernel has rxe0 but"),
        ] {
            let text = error.to_string();
            assert!(text.starts_with("no RDMA device: ") && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn lack_of_memory_names_the_limit() {
        let refused = |errno| VerbsError::Refused {
            device: "rxe0".into(),
            call: "ibv_reg_mr",
            asked: "8192 bytes".into(),
            source: io::Error::from_raw_os_error(errno),
        };
        let text = refused(libc::ENOMEM).to_string();
        assert!(text.contains("rxe0: ibv_reg_mr failed (8192 bytes)"), "{text}");
        assert!(text.contains("ulimit -l"), "{text}");
        assert!(!refused(libc::EBUSY).to_string().contains("ulimit"));
    }
}
