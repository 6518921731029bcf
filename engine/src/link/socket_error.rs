//! Failed calls on sockets, and their remedies.

use std::io;

/// A failed call on a socket. Inside an [`io::Error`] it names the call.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed: {source}")]
pub(crate) struct SocketError {
    /// The call with its important arguments.
    pub(crate) call: String,
    /// The error of the system.
    pub(crate) source: io::Error,
}

impl SocketError {
    /// The socket error inside an error.
    pub(crate) fn in_error(error: &io::Error) -> Option<&SocketError> {
        error.get_ref()?.downcast_ref()
    }

    /// The same error with the number of its path.
    pub(crate) fn of_path(error: io::Error, path: usize, count: usize) -> io::Error {
        let kind = error.kind();
        match error.downcast::<SocketError>() {
            Ok(SocketError { call, source }) => {
                let call = format!("path {path} of {count}: {call}");
                io::Error::new(kind, SocketError { call, source })
            }
            Err(other) => other,
        }
    }
}

/// The remedy for an error of set-up, by the call and the errno.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    let known = SocketError::in_error(error);
    let call = known.map_or("", |known| &known.call);
    let errno = known.map_or(error.raw_os_error(), |known| known.source.raw_os_error());
    match errno {
        Some(libc::EMFILE) => "use fewer `paths`, or raise the limit of open files (`ulimit -n`)",
        Some(libc::ENFILE) => "raise sysctl fs.file-max",
        Some(libc::ENOMEM | libc::ENOBUFS) => "free some memory of the system",
        Some(libc::EADDRINUSE) if call.contains("source port") => {
            "end the programs that hold these ports (`ss -uanp`), or use fewer `paths`"
        }
        Some(libc::EADDRINUSE) => {
            "take another port, or port 0 for any free port; `ss -uanp` shows who has it"
        }
        Some(libc::EADDRNOTAVAIL) => "take an address of this host; `ip address` lists them",
        Some(libc::EACCES) if call.contains("bind(") => {
            "ports below 1024 need CAP_NET_BIND_SERVICE: take another one"
        }
        Some(libc::EAFNOSUPPORT) => "this system has no such IP version: take the other one",
        _ if call.contains("setsockopt(") => {
            "use a kernel or sandbox that allows this socket option"
        }
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "a sandbox forbids the call: have it allowed"
        }
        // An error of a network inside the process, which has no socket.
        _ if error.kind() == io::ErrorKind::AddrInUse => {
            "take another `bind` address, or port 0 for any free port"
        }
        _ => "look at the kernel's log (`dmesg`)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(call: &str, errno: i32) -> io::Error {
        let source = io::Error::from_raw_os_error(errno);
        io::Error::new(source.kind(), SocketError { call: call.to_owned(), source })
    }

    #[test]
    fn the_remedy_follows_from_the_call_and_the_error() {
        for (call, errno, word) in [
            ("setsockopt(IPV6_V6ONLY, 1)", libc::EOPNOTSUPP, "sandbox"),
            ("socket(AF_INET, SOCK_DGRAM)", libc::EMFILE, "ulimit -n"),
            ("bind(10.0.0.1:47)", libc::EACCES, "CAP_NET_BIND_SERVICE"),
            ("bind(10.0.0.1:4791)", libc::EADDRINUSE, "another port"),
            ("bind(10.0.0.1:4791)", libc::EADDRNOTAVAIL, "ip address"),
            ("bind(source port 49152 and more)", libc::EADDRINUSE, "fewer `paths`"),
        ] {
            let error = failed(call, errno);
            assert!(remedy(&error).contains(word), "{error}: {}", remedy(&error));
            assert!(error.to_string().starts_with(call), "{error}");
            let of_path = SocketError::of_path(error, 3, 16);
            assert!(remedy(&of_path).contains(word), "{of_path}");
            assert!(of_path.to_string().starts_with("path 3 of 16: "), "{of_path}");
        }
    }
}
