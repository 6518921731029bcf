//! Host names and addresses as users write them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The text is not the name or address of a host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name has no address, or the system cannot look it up.
    #[error("`{text}`: {cause}; check the name, or give an IP address")]
    Name {
        /// The text.
        text: String,
        /// The error of the system.
        cause: String,
    },
    /// The text does not have the form `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
    #[error(
        "`{text}` is no host; accepted: a name or an IP address, with `:PORT` behind it or not, \
         and an IPv6 address with a port in brackets, `[::1]:4791`"
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The port behind the colon is not a number from 1 to 65535.
    #[error("`{text}` has no port from 1 to 65535 behind its colon; write it as in `host:4791`")]
    Port {
        /// The text.
        text: String,
    },
}

/// Returns all addresses of a host, at least one, in the order in which to try them. The order is
/// that of the system (RFC 6724), with IPv6 and IPv4 in turn (RFC 8305, section 4).
///
/// Accepted: a name, an IPv4 address, or an IPv6 address with or without brackets and with or
/// without a zone (`%eth0`). Each may have a port, for which an IPv6 address needs brackets.
/// Without a port, the port is `port`.
///
/// ```
/// use braid::resolve;
///
/// assert_eq!(resolve("[::1]", 4791)?, ["[::1]:4791".parse()?]);
/// assert_eq!(resolve("127.0.0.1:7", 4791)?, ["127.0.0.1:7".parse()?]);
/// assert!(resolve("127.0.0.1:70000", 4791).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The text has another form, or the name no address.
pub fn resolve(text: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
    let (host, own_port) = split(text)?;
    let port = match own_port {
        None => port,
        Some(digits) => {
            let number = digits.parse().ok().filter(|port| *port != 0);
            number.ok_or_else(|| ResolveError::Port { text: text.to_owned() })?
        }
    };
    let no_name = |cause: String| ResolveError::Name { text: text.to_owned(), cause };
    let found = (host, port).to_socket_addrs().map_err(|error| no_name(cause(&error)))?;
    let found = in_turn(found);
    if found.is_empty() { Err(no_name("it has no address".to_owned())) } else { Ok(found) }
}

/// The words of the system, without Rust's prefix.
fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned()
}

/// Splits a text into the host and the port.
fn split(text: &str) -> Result<(&str, Option<&str>), ResolveError> {
    let malformed = || ResolveError::Form { text: text.to_owned() };
    let is_ipv6 = |host: &str| host.contains(':');
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or_else(malformed)?;
            let port = behind.strip_prefix(':');
            if !is_ipv6(host) || (port.is_none() && !behind.is_empty()) {
                return Err(malformed());
            }
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) if !is_ipv6(port) => (host, Some(port)),
            _ => (text, None),
        },
    };
    let is_address = host.split('%').next().is_some_and(|ip| ip.parse::<IpAddr>().is_ok());
    if host.is_empty() || (is_ipv6(host) && !is_address) {
        return Err(malformed());
    }
    Ok((host, port))
}

/// The addresses without duplicates, those of the two IP versions in turn.
fn in_turn(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut left: VecDeque<SocketAddr> = VecDeque::new();
    found.for_each(|addr| {
        if !left.contains(&addr) {
            left.push_back(addr);
        }
    });
    let mut ordered: Vec<SocketAddr> = Vec::new();
    while let Some(first) = left.front() {
        let wanted = ordered.last().map_or(first.is_ipv4(), |last| !last.is_ipv4());
        let place = left.iter().position(|addr| addr.is_ipv4() == wanted).unwrap_or(0);
        ordered.extend(left.remove(place));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(host: &str) -> Result<Vec<String>, String> {
        let found = resolve(host, 9).map_err(|error| error.to_string())?;
        Ok(found.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn addresses_are_taken_in_every_form() {
        for (host, addr) in [
            ("127.0.0.1", "127.0.0.1:9"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("::1", "[::1]:9"),
            ("[::1]", "[::1]:9"),
            ("[::1]:7", "[::1]:7"),
            ("fe80::1%1", "[fe80::1%1]:9"),
            ("[fe80::1%1]:7", "[fe80::1%1]:7"),
            ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:9"),
        ] {
            assert_eq!(text(host), Ok(vec![addr.to_owned()]), "{host}");
        }
        assert!(text("localhost:7").unwrap().iter().all(|addr| addr.ends_with(":7")));
    }

    #[test]
    fn an_invalid_host_is_named_with_the_remedy() {
        for host in ["", ":7", "[]", "[", "[::1", "[::1]7", "[10.0.0.1]:7", "1:2:3", "[::1]:"] {
            let error = text(host).unwrap_err();
            assert!(error.contains(&format!("`{host}`")), "{error}");
        }
        for host in ["127.0.0.1:", "127.0.0.1:0", "[::1]:70000", "host:x"] {
            assert!(text(host).unwrap_err().contains("from 1 to 65535"), "{host}");
        }
        let error = text("no.such.host.invalid").unwrap_err();
        assert!(error.contains("`no.such.host.invalid`: ") && error.contains("check the name"));
    }

    #[test]
    fn the_versions_take_turns_and_nothing_comes_twice() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = ["[::1]:1", "[::2]:1", "[::2]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"].map(addr);
        let expected = ["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"].map(addr);
        assert_eq!(in_turn(all.into_iter()), expected);
    }
}
