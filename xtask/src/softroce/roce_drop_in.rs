//! Unmodified programs on the drop-in libibverbs in machine a, which speaks RoCEv2 to the same
//! programs on the kernel's rxe in machine b.

use std::fmt;
use std::time::Duration;

use super::pair::{A, B, Machines};
use super::perftest::Provider;
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
}

macro_rules! programs {
    ($($name:ident: $program:literal $options:literal, $result:literal;)*) => {
        $(const fn $name(role: Role) -> MixedProgram {
            MixedProgram { program: $program, options: $options, result: $result, role }
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

impl fmt::Display for MixedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "client",
            Role::Server => "server",
            Role::Both => "both ends",
        };
        let service = if self.options.contains("-c UD") { " -c UD" } else { "" };
        write!(f, "drop-in {role}, {}{service}", self.program)
    }
}

impl MixedProgram {
    /// Runs the program. Returns the line of its results.
    pub(super) fn run(self, pair: &Machines) -> Result<String, Failure> {
        let (own, theirs) = self.commands();
        let [said, _] = match self.role {
            Role::Client => server::serve(pair, &theirs, PORT, &format!("{own} {B}"), LIMIT)?,
            Role::Server => server::serve_in_a(pair, &own, PORT, &format!("{theirs} {A}"), LIMIT)?,
            Role::Both => {
                server::serve_within_a(pair, &own, PORT, &format!("{theirs} {A}"), LIMIT)?
            }
        };
        line_with(&said, self.result)
    }

    /// The commands of machine a's end and of the other one. The GIDs of the IPv4 addresses have
    /// different indices.
    fn commands(self) -> (String, String) {
        let Self { program, options, .. } = self;
        let index = if program.starts_with("ibv_") { "-g" } else { "-x" };
        let line = |device: &str, gid| format!("{program} -d {device} {index} {gid} {options}");
        let drop_in = |link| DROP_IN.start(&line(&DROP_IN.device(link), 0));
        match self.role {
            Role::Client | Role::Server => (drop_in(0), line("rxe0", 1)),
            Role::Both => {
                let always = |link| format!("BRAID_ROCE=always {}", drop_in(link));
                (always(0), always(1))
            }
        }
    }
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
        let (own, theirs) = ud_pingpong(Role::Both).commands();
        assert!(own.starts_with("BRAID_ROCE=always ") && own.contains(" -d braid0 -g 0 "), "{own}");
        assert!(theirs.contains(" -d braid1 -g 0 "), "{theirs}");
    }
}
