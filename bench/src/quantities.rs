//! Parsers of sizes, times and addresses on the command line.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Parses an address of this machine. The system resolves the device of a link-local one.
pub(crate) fn local_address(text: &str) -> Result<SocketAddr, String> {
    let (ip, _) = text.split_once('%').unwrap_or((text, ""));
    ip.parse::<IpAddr>().map_err(|error| error.to_string())?;
    let found = (text, 0).to_socket_addrs().map_err(|error| error.to_string())?.next();
    found.ok_or_else(|| format!("`{text}` is not an address of this machine"))
}

/// Formats an address for [`local_address`].
pub(crate) fn address_text(addr: SocketAddr) -> String {
    match addr {
        SocketAddr::V6(addr) if addr.scope_id() != 0 => {
            format!("{}%{}", addr.ip(), addr.scope_id())
        }
        addr => addr.ip().to_string(),
    }
}

/// Parses bytes: a number, with K, M or G for the powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.to_ascii_uppercase().strip_suffix(['K', 'M', 'G']) {
        None => (text.to_owned(), 0),
        Some(digits) => {
            let shift = match text.chars().last().map(|c| c.to_ascii_uppercase()) {
                Some('K') => 10,
                Some('M') => 20,
                _ => 30,
            };
            (digits.to_owned(), shift)
        }
    };
    let number: u64 = digits.parse().map_err(|_| "give bytes, as in 8, 64K or 1M".to_owned())?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes <= braid::MAX_MESSAGE);
    bytes.ok_or_else(|| "a message has at most 1 GiB".to_owned())
}

pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("give seconds, more than 0 and at most 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_binary_suffixes() {
        assert_eq!(parse_size("8"), Ok(8));
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("1m"), Ok(1 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert!(parse_size("2G").is_err() && parse_size("x").is_err() && parse_size("").is_err());
    }

    #[test]
    fn a_local_address_keeps_its_scope() {
        for text in ["10.0.0.1", "fd77::1", "fe80::1%1", "::"] {
            assert_eq!(local_address(text).map(address_text), Ok(text.to_owned()));
        }
        assert_eq!(local_address("fe80::1%lo").map(address_text), Ok("fe80::1%1".to_owned()));
        assert!(local_address("localhost").is_err() && local_address("fe80::1%none").is_err());
    }
}
