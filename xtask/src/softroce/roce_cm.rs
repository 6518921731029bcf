//! Unmodified programs that connect by rdma_cm: one end on the drop-in libraries in machine a, the
//! other one on the kernel's rdma_cm and rxe in machine b.

use std::fmt;
use std::time::Duration;

use super::pair::{A, A_V6, B, B_V6, Machines};
use super::perftest::IpVersion::{self, V4, V6};
use super::perftest::Provider;
use super::roce::line_with;
use super::roce_drop_in::Role;
use super::server::{self, Port};
use crate::Failure;

const LIMIT: Duration = Duration::from_secs(60);
const DROP_IN: Provider = Provider::DropIn { crc: "on" };
/// The port of RoCEv2, which a listener on the drop-in opens last.
const ROCE: Port = Port::Udp(4791);
/// A port at which nobody listens.
const NOBODY: u16 = 18_599;

/// A program, and the options of its two ends.
#[derive(Clone, Copy)]
pub(super) struct CmProgram {
    line: &'static str,
    server: &'static str,
    /// Before the address of the server.
    client: &'static str,
    port: u16,
    /// The words of the line of the client's results. Empty: it prints none.
    result: &'static str,
    role: Role,
    version: IpVersion,
}

macro_rules! programs {
    ($($name:ident: $version:path, $line:literal $server:literal $client:literal $port:literal
        $result:literal;)*) => {
        $(const fn $name(role: Role) -> CmProgram {
            CmProgram {
                line: $line,
                server: $server,
                client: $client,
                port: $port,
                result: $result,
                role,
                version: $version,
            }
        })*
    };
}

programs! {
    // Both ends compare what they have received.
    rping: V4, "rping -p 18520 -C 20 -S 4096 -V" "-s" "-c -a" 18520 "";
    rping_v6: V6, "rping -p 18521 -C 20 -S 4096 -V" "-s -a ::" "-c -a" 18521 "";
    ucmatose: V4, "ucmatose -c 2 -C 10 -S 5000" "" "-s" 7471 "data transfers complete";
    // The receiver takes the way back from each datagram.
    udaddy: V4, "udaddy -c 2 -C 10 -S 1000" "" "-s" 7174 "data transfers complete";
    write_bw: V4, "ib_write_bw -R -F -s 65536 -n 200" "" "" 18515 " 65536 ";
    read_bw: V4, "ib_read_bw -R -F -s 65536 -n 200" "" "" 18515 " 65536 ";
    send_bw: V4, "ib_send_bw -R -F -s 65536 -n 200" "" "" 18515 " 65536 ";
}

pub(super) const OVER_IPV6: [CmProgram; 2] = [rping_v6(Role::Client), rping_v6(Role::Server)];

pub(super) const PROGRAMS: [CmProgram; 12] = [
    rping(Role::Client),
    rping(Role::Server),
    write_bw(Role::Client),
    write_bw(Role::Server),
    read_bw(Role::Client),
    read_bw(Role::Server),
    send_bw(Role::Client),
    send_bw(Role::Server),
    ucmatose(Role::Client),
    ucmatose(Role::Server),
    udaddy(Role::Client),
    udaddy(Role::Server),
];

/// The programs that also run under loss. The kernel's rdma_cm sets long time-outs, so those in
/// which rxe sends much take a minute at times.
pub(super) const WITH_LOSS: [CmProgram; 3] =
    [rping(Role::Client), rping(Role::Server), write_bw(Role::Client)];

impl fmt::Display for CmProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "client",
            Role::Server => "server",
            Role::Both => "both ends",
        };
        let name = self.line.split(' ').next().unwrap_or_default();
        let by = if self.line.contains(" -R") { " -R" } else { "" };
        let version = if self.version == V6 { ", IPv6" } else { "" };
        write!(f, "rdma_cm, drop-in {role}, {name}{by}{version}")
    }
}

impl CmProgram {
    /// Runs the program. Returns the line of its results.
    pub(super) fn run(self, pair: &Machines) -> Result<String, Failure> {
        let (server, client) = self.commands();
        let [said, _] = match self.role {
            Role::Client => server::serve(pair, &server, Port::Rdma(self.port), &client, LIMIT)?,
            Role::Server => server::serve_in_a(pair, &server, ROCE, &client, LIMIT)?,
            Role::Both => server::serve_within_a(pair, &server, ROCE, &client, LIMIT)?,
        };
        match self.result {
            "" => Ok("data unchanged".to_owned()),
            result => line_with(&said, result),
        }
    }

    /// The commands of the server and the client.
    fn commands(self) -> (String, String) {
        let Self { line, server, client, .. } = self;
        let host = match (self.role, self.version) {
            (Role::Client, V4) => B,
            (Role::Client, V6) => B_V6,
            (_, V4) => A,
            (_, V6) => A_V6,
        };
        let server = format!("{line} {server}");
        let client = format!("{line} {client} {host}");
        match self.role {
            Role::Client => (server, DROP_IN.start(&client)),
            Role::Server => (DROP_IN.start(&server), client),
            Role::Both => (DROP_IN.start(&server), DROP_IN.start(&client)),
        }
    }
}

/// The client at each end gets the event and the status of the kernel's rdma_cm if nobody listens.
pub(super) fn rejected(pair: &Machines) -> Result<String, Failure> {
    let line = |host: &str| format!("rping -c -p {NOBODY} -C 1 -a {host}");
    for output in [pair.a.run(&DROP_IN.start(&line(B)), LIMIT)?, {
        // The port of RoCEv2 has to be open, so that somebody refuses.
        let other = rping(Role::Server);
        let job = server::start(&pair.a, &other.commands().0, ROCE, LIMIT)?;
        let output = pair.b.run(&line(A), LIMIT)?;
        job.stop()?;
        output
    }] {
        line_with(&output.text, "RDMA_CM_EVENT_REJECTED, error 8")?;
    }
    Ok("RDMA_CM_EVENT_REJECTED, 8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_is_the_drop_in() {
        let (server, client) = rping(Role::Client).commands();
        assert_eq!(server, "rping -p 18520 -C 20 -S 4096 -V -s");
        assert!(client.starts_with("BRAID_CRC=on braid-run"), "{client}");
        assert!(client.ends_with("-V -c -a 10.77.0.2"), "{client}");
        let (server, client) = rping_v6(Role::Client).commands();
        assert!(server.ends_with(" -s -a ::") && client.ends_with(" -c -a fd77::2"), "{client}");
        let (server, client) = ucmatose(Role::Server).commands();
        assert!(server.starts_with("BRAID_CRC=on braid-run"), "{server}");
        assert_eq!(client, "ucmatose -c 2 -C 10 -S 5000 -s 10.77.0.1");
    }
}
