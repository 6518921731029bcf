//! A datagram that is longer than what its path carries, sent all the same: in fragments.
//!
//! Everything else leaves with DF set, so that a path that carries less than believed is found out. But a segment that was cut
//! when the path carried more keeps its bytes and its PSN.

use std::io;
use std::os::fd::RawFd;

use libc::c_int;

use super::socket::set_on;

/// What every link on IPv6's way carries (RFC 8200, section 5). Routers do not fragment there, so the host cuts to that.
const IPV6_LEAST_MTU: c_int = 1280;

/// Calls `send` with leave for the host and for routers to fragment what is sent; afterwards all is as before.
pub(super) fn fragmenting<T>(
    fd: RawFd,
    is_ipv6: bool,
    send: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    allow(fd, is_ipv6, true)?;
    let sent = send();
    allow(fd, is_ipv6, false)?;
    sent
}

/// A socket of IPv6 that also carries IPv4 obeys both sets of options, each for its packets.
fn allow(fd: RawFd, is_ipv6: bool, fragments: bool) -> io::Result<()> {
    let choose = |yes, no| if fragments { yes } else { no };
    let discover = choose(libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_PROBE);
    set_on(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover)?;
    if is_ipv6 {
        let discover = choose(libc::IPV6_PMTUDISC_DONT, libc::IPV6_PMTUDISC_PROBE);
        set_on(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, discover)?;
        set_on(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU, choose(IPV6_LEAST_MTU, 0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use braid_wire::PathId;

    use crate::link::udp::UdpLink;
    use crate::link::{Link, Sent, Slice, Train, Via};

    const MTU: usize = 1500;
    const LONG: usize = 9000;

    /// Runs `test` on a thread whose loopback device has an MTU of 1500, where that is allowed (it takes root).
    fn with_short_loopback(test: impl FnOnce() + Send + 'static) {
        let inside = move || {
            // SAFETY: it moves this thread, which ends with the test, to a network namespace of its own.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return eprintln!("not tested: no network namespaces without root");
            }
            // Without `ip` there is nothing to test with.
            let arguments = ["link", "set", "lo", "mtu", &MTU.to_string(), "up"];
            match Command::new("ip").args(arguments).status() {
                Ok(done) if done.success() => test(),
                other => eprintln!("not tested: ip {arguments:?}: {other:?}"),
            }
        };
        thread::spawn(inside).join().expect("the test passes");
    }

    fn send(link: &mut UdpLink, to: SocketAddr, via: Via, fragment: bool, len: usize) -> bool {
        let bytes = vec![7; len];
        let slices = [Slice::new(&bytes)];
        let train = Train { to, via, segment_len: len, fragment, slices: &slices };
        link.send(&train).is_ok_and(|sent| sent == Sent::Gone)
    }

    fn arrived(link: &mut UdpLink) -> usize {
        let (mut len, until) = (0, Instant::now() + Duration::from_secs(5));
        while len == 0 && Instant::now() < until {
            link.recv(&mut |received| len = received.bytes.len()).unwrap();
        }
        len
    }

    #[test]
    fn a_long_datagram_passes_a_short_link_if_it_may_be_fragmented() {
        with_short_loopback(|| {
            for (bound, to) in
                [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("[::1]:0", "::1")]
            {
                let bind = || UdpLink::bind(bound.parse().unwrap(), 1 << 20).unwrap();
                let (mut a, mut b) = (bind(), bind());
                let to = SocketAddr::new(to.parse().unwrap(), b.local_addr().port());
                for via in [Via::Path(PathId::new(3)), Via::Port] {
                    // Twice, because the socket of a path is connected from the second time on.
                    for round in 0..2 {
                        assert!(send(&mut a, to, via, true, LONG), "{bound} {via:?} {round}");
                        assert_eq!(arrived(&mut b), LONG, "{bound} {via:?} {round}");
                        assert!(!send(&mut a, to, via, false, LONG), "nothing else is fragmented");
                        assert!(send(&mut a, to, via, false, MTU - 48), "{bound} {via:?} {round}");
                        assert_eq!(arrived(&mut b), MTU - 48);
                    }
                }
            }
        });
    }
}
