//! A program that listens in a machine, and one in the other that talks to it.

use std::time::Duration;

use super::machine::{Job, Machine};
use super::pair::Machines;
use crate::Failure;

/// Where it listens.
#[derive(Clone, Copy)]
pub(super) enum Port {
    Tcp(u16),
    Udp(u16),
    /// A port of the kernel's rdma_cm.
    Rdma(u16),
}

const START_LIMIT: Duration = Duration::from_secs(15);

/// Starts it, and returns when its port is there.
pub(super) fn start<'a>(
    machine: &'a Machine,
    command: &str,
    port: Port,
    limit: Duration,
) -> Result<Job<'a>, Failure> {
    let server = machine.spawn(command, limit)?;
    match machine.must(&wait_for(port), START_LIMIT) {
        Ok(_) => Ok(server),
        // What the server itself has to say tells more than that it does not listen.
        Err(failure) => Err(match server.stop() {
            Ok(output) => Failure::new(format!("`{command}` does not listen:\n{}", output.text)),
            Err(_) => failure,
        }),
    }
}

/// Runs a server in machine b and its client in machine a, to the end of both. Returns what each
/// has said, the client first.
pub(super) fn serve(
    pair: &Machines,
    server: &str,
    port: Port,
    client: &str,
    limit: Duration,
) -> Result<[String; 2], Failure> {
    serve_between((&pair.b, "b"), &pair.a, (server, port), client, limit)
}

/// As [`serve`], with the server in machine a and its client in machine b.
pub(super) fn serve_in_a(
    pair: &Machines,
    server: &str,
    port: Port,
    client: &str,
    limit: Duration,
) -> Result<[String; 2], Failure> {
    serve_between((&pair.a, "a"), &pair.b, (server, port), client, limit)
}

/// As [`serve`], with both in machine a.
pub(super) fn serve_within_a(
    pair: &Machines,
    server: &str,
    port: Port,
    client: &str,
    limit: Duration,
) -> Result<[String; 2], Failure> {
    serve_between((&pair.a, "a"), &pair.a, (server, port), client, limit)
}

fn serve_between(
    (here, name): (&Machine, &str),
    there: &Machine,
    (server, port): (&str, Port),
    client: &str,
    limit: Duration,
) -> Result<[String; 2], Failure> {
    let job = start(here, server, port, limit)?;
    match there.must(client, limit) {
        Ok(text) => Ok([text, job.wait()?.good(name, server)?]),
        // It is waited for, so that its port is free for the next one.
        Err(failure) => {
            let peer = job.stop().map(|output| output.text).unwrap_or_default();
            Err(Failure::new(format!("{failure}\n{name}: `{server}` said:\n{peer}")))
        }
    }
}

/// `LOCAL:PORT` is hexadecimal there; LISTEN is state 0A, and a socket of UDP without a peer is in
/// 07.
fn wait_for(port: Port) -> String {
    let (protocol, port, state) = match port {
        Port::Rdma(port) => {
            return format!(
                "for i in $(seq 100); do rdma resource show cm_id | grep -q ':{port} ' && exit 0; \
                 sleep 0.05; done; exit 1"
            );
        }
        Port::Tcp(port) => ("tcp", port, "0A"),
        Port::Udp(port) => ("udp", port, "07"),
    };
    let files = format!("/proc/net/{protocol} /proc/net/{protocol}6");
    let socket = format!(":{port:04X} [0-9A-F]*:0000 {state}");
    format!(
        "for i in $(seq 100); do grep -q '{socket}' {files} && exit 0; sleep 0.05; done; exit 1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_looked_up_as_the_kernel_shows_them() {
        assert!(wait_for(Port::Udp(7000)).contains("':1B58 [0-9A-F]*:0000 07' /proc/net/udp "));
        assert!(wait_for(Port::Tcp(80)).contains("':0050 [0-9A-F]*:0000 0A' /proc/net/tcp "));
    }
}
