//! Unmodified programs on the drop-in libibverbs in machine a, which speaks RoCEv2 to the same
//! programs on the kernel's rxe in machine b.

use std::fmt;
use std::time::Duration;

use super::pair::{A, A1, B, B1, Machines};
use super::perftest::{IpVersion, Provider};
use super::roce::line_with;
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(60);
/// The TCP port of perftest and of `ibv_rc_pingpong`, by which the ends are exchanged.
const PORT: Port = Port::Tcp(18515);
const DROP_IN: Provider = Provider::DropIn { crc: "on" };

/// The end of machine a, which is the drop-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Client,
    Server,
    /// Both ends are the drop-in in machine a, at an address each, and speak RoCEv2.
    Both,
}

/// A program whose two ends have different libraries.
#[derive(Clone, Copy)]
pub(super) struct MixedProgram {
    program: &'static str,
    /// The load, the same at both ends.
    options: &'static str,
    /// The words of the line of results.
    result: &'static str,
    role: Role,
    /// The version of the addresses that are the GIDs.
    version: IpVersion,
    link: u16,
}

macro_rules! programs {
    ($($name:ident: $program:literal $options:literal, $result:literal;)*) => {
        $(const fn $name(role: Role) -> MixedProgram {
            MixedProgram {
                program: $program,
                options: $options,
                result: $result,
                role,
                version: IpVersion::V4,
                link: 0,
            }
        })*
    };
}

programs! {
    write_bw: "ib_write_bw" "-F -s 65536 -n 200", " 65536 ";
    read_bw: "ib_read_bw" "-F -s 65536 -n 200", " 65536 ";
    send_bw: "ib_send_bw" "-F -s 65536 -n 200", " 65536 ";
    atomic_bw: "ib_atomic_bw" "-F -n 300", " 8 ";
    write_lat: "ib_write_lat" "-F -s 8 -n 300", " 8 ";
    send_lat: "ib_send_lat" "-F -s 8 -n 300", " 8 ";
    read_lat: "ib_read_lat" "-F -s 8 -n 300", " 8 ";
    // Both ends compare what they have received.
    pingpong: "ibv_rc_pingpong" "-s 100001 -n 30 -c", "bytes in";
    // The server posts receives for all datagrams, because one that finds none is lost.
    ud_send_bw: "ib_send_bw" "-F -c UD -s 1024 -n 200 -r 256", " 1024 ";
    ud_send_lat: "ib_send_lat" "-F -c UD -s 8 -n 300", " 8 ";
    ud_pingpong: "ibv_ud_pingpong" "-s 1024 -n 200 -c", "bytes in";
    uc_write_bw: "ib_write_bw" "-F -c UC -s 65536 -n 20", " 65536 ";
    // Four packets of the largest path MTU each, the last one not a multiple of a word.
    small_write_bw: "ib_write_bw" "-F -s 12301 -n 20", " 12301 ";
    small_read_bw: "ib_read_bw" "-F -s 12301 -n 20", " 12301 ";
    small_pingpong: "ibv_rc_pingpong" "-m 4096 -s 12301 -n 10 -c", "bytes in";
    small_atomic_bw: "ib_atomic_bw" "-F -n 20", " 8 ";
    small_ud_pingpong: "ibv_ud_pingpong" "-s 1023 -n 10 -c", "bytes in";
}

pub(super) const PROGRAMS: [MixedProgram; 22] = [
    write_bw(Role::Client),
    write_bw(Role::Server),
    read_bw(Role::Client),
    read_bw(Role::Server),
    send_bw(Role::Client),
    send_bw(Role::Server),
    atomic_bw(Role::Client),
    atomic_bw(Role::Server),
    write_lat(Role::Client),
    send_lat(Role::Server),
    read_lat(Role::Client),
    pingpong(Role::Client),
    pingpong(Role::Server),
    ud_send_bw(Role::Client),
    ud_send_bw(Role::Server),
    ud_send_bw(Role::Both),
    ud_send_lat(Role::Client),
    ud_send_lat(Role::Server),
    ud_send_lat(Role::Both),
    ud_pingpong(Role::Client),
    ud_pingpong(Role::Server),
    ud_pingpong(Role::Both),
];

/// The programs that also run under loss, which those of datagrams do not survive.
pub(super) const WITH_LOSS: [MixedProgram; 8] = [
    write_bw(Role::Client),
    write_bw(Role::Server),
    read_bw(Role::Client),
    send_bw(Role::Client),
    send_bw(Role::Server),
    atomic_bw(Role::Client),
    pingpong(Role::Client),
    pingpong(Role::Server),
];

/// The programs that also run between addresses of IPv6.
pub(super) const OVER_IPV6: [MixedProgram; 7] = [
    write_bw(Role::Client).over_ipv6(),
    write_bw(Role::Server).over_ipv6(),
    read_bw(Role::Client).over_ipv6(),
    pingpong(Role::Client).over_ipv6(),
    pingpong(Role::Server).over_ipv6(),
    ud_pingpong(Role::Client).over_ipv6(),
    ud_pingpong(Role::Server).over_ipv6(),
];

/// Programs with a small load on the link whose packets can be captured.
pub(super) const CAPTURED: [MixedProgram; 11] = [
    small_write_bw(Role::Client).on_bridge(),
    small_write_bw(Role::Server).on_bridge(),
    small_read_bw(Role::Client).on_bridge(),
    small_read_bw(Role::Server).on_bridge(),
    small_pingpong(Role::Client).on_bridge(),
    small_atomic_bw(Role::Client).on_bridge(),
    small_atomic_bw(Role::Server).on_bridge(),
    small_ud_pingpong(Role::Client).on_bridge(),
    small_write_bw(Role::Client).over_ipv6().on_bridge(),
    small_write_bw(Role::Server).over_ipv6().on_bridge(),
    small_pingpong(Role::Client).over_ipv6().on_bridge(),
];

impl fmt::Display for MixedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "client",
            Role::Server => "server",
            Role::Both => "both ends",
        };
        let service = if self.options.contains("-c UD") { " -c UD" } else { "" };
        let version = if self.version == IpVersion::V6 { ", IPv6" } else { "" };
        write!(f, "drop-in {role}, {}{service}{version}", self.program)
    }
}

impl MixedProgram {
    const fn over_ipv6(self) -> Self {
        Self { version: IpVersion::V6, ..self }
    }

    const fn on_bridge(self) -> Self {
        Self { link: 1, ..self }
    }

    /// Runs the program. Returns the line of its results.
    pub(super) fn run(self, pair: &Machines) -> Result<String, Failure> {
        let (own, theirs) = self.commands();
        let [a, b] = if self.link == 0 { [A, B] } else { [A1, B1] };
        let [said, _] = match self.role {
            Role::Client => server::serve(pair, &theirs, PORT, &format!("{own} {b}"), LIMIT)?,
            Role::Server => server::serve_in_a(pair, &own, PORT, &format!("{theirs} {a}"), LIMIT)?,
            Role::Both => {
                server::serve_within_a(pair, &own, PORT, &format!("{theirs} {a}"), LIMIT)?
            }
        };
        line_with(&said, self.result)
    }

    /// The commands of machine a's end and of the other one.
    fn commands(self) -> (String, String) {
        let Self { program, options, version, link, .. } = self;
        let index = if program.starts_with("ibv_") { "-g" } else { "-x" };
        let line = |provider: Provider, link| {
            let (device, gid) = (provider.device(link), provider.gid(version));
            provider.start(&format!("{program} -d {device} {index} {gid} {options}"))
        };
        let drop_in = |link| line(DROP_IN, link);
        match self.role {
            Role::Client | Role::Server => (drop_in(link), line(Provider::Rxe, link)),
            Role::Both => {
                let always = |link| format!("BRAID_ROCE=always {}", drop_in(link));
                (always(0), always(1))
            }
        }
    }
}

/// A program that wants UC fails, and the log names the reason.
pub(super) fn unreliable_is_refused(pair: &Machines) -> Result<String, Failure> {
    let (own, theirs) = uc_write_bw(Role::Client).commands();
    let job = server::start(&pair.b, &theirs, PORT, LIMIT)?;
    let output = pair.a.run(&format!("{own} {B}"), LIMIT)?;
    job.stop()?;
    if output.status == 0 {
        return Err(Failure::new(format!("a: `{own}` succeeded:\n{}", output.text)));
    }
    line_with(&output.text, "UC does not speak RoCEv2").map(|_| "refused by name".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_get_the_same_load_and_their_own_device() {
        let (own, theirs) = write_bw(Role::Client).commands();
        assert!(own.ends_with("ib_write_bw -d braid0 -x 0 -F -s 65536 -n 200"), "{own}");
        assert_eq!(theirs, "ib_write_bw -d rxe0 -x 1 -F -s 65536 -n 200");
        let (_, theirs) = pingpong(Role::Server).commands();
        assert_eq!(theirs, "ibv_rc_pingpong -d rxe0 -g 1 -s 100001 -n 30 -c");
        let (own, theirs) = pingpong(Role::Client).over_ipv6().commands();
        assert!(own.contains(" -d braid0 -g 1 ") && theirs.contains(" -d rxe0 -g 2 "), "{theirs}");
        let (own, theirs) = ud_pingpong(Role::Both).commands();
        assert!(own.starts_with("BRAID_ROCE=always ") && own.contains(" -d braid0 -g 0 "), "{own}");
        assert!(theirs.contains(" -d braid1 -g 0 "), "{theirs}");
    }
}
