//! Processes that end while they are connected by rdma_cm.

mod loopback;

use std::ffi::c_int;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use braid_ibverbs::*;

use self::loopback::connections::*;

/// The variable that tells the connecting process the port of the listener.
const PORT: &str = "BRAID_TEST_PORT";

/// The connecting process. It reports that it is connected, and waits for the end of its standard
/// input.
fn connect(port: u16) -> ! {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let id = resolved(channel, port);
        with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        expect(channel, ESTABLISHED);
    }
    println!("connected");
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0)
}

/// The time from the end of a connected process until the other process gets the event.
fn time_until_told(test: &str, end: impl FnOnce(&mut std::process::Child)) -> Duration {
    if let Ok(port) = std::env::var(PORT) {
        connect(port.parse().expect("a port"));
    }
    // SAFETY: as above.
    unsafe {
        let server = rdma_create_event_channel();
        let (listener, port) = listen(server);
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", test, "--nocapture"]).env(PORT, port.to_string());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts again");
        let request = expect(server, CONNECT_REQUEST);
        let cq = with_qp(request.id);
        assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
        expect(server, ESTABLISHED);
        end(&mut child);
        child.wait().expect("it is a child");
        let ended = Instant::now();
        expect(server, DISCONNECTED);
        let time = ended.elapsed();
        rdma_destroy_qp(request.id);
        let destroyed: [c_int; 3] =
            [ibv_destroy_cq(cq), rdma_destroy_id(request.id), rdma_destroy_id(listener)];
        assert_eq!(destroyed, [0; 3]);
        rdma_destroy_event_channel(server);
        time
    }
}

/// The kernel disconnects the open connections of a process that ends.
#[test]
fn a_process_that_exits_disconnects_at_once() {
    let time = time_until_told("a_process_that_exits_disconnects_at_once", |child| {
        drop(child.stdin.take());
    });
    // A probe would take longer.
    assert!(time < Duration::from_millis(700), "{time:?}");
}

#[test]
fn a_process_that_is_killed_is_missed() {
    let time = time_until_told("a_process_that_is_killed_is_missed", |child| {
        child.kill().expect("it runs");
    });
    assert!(time < Duration::from_secs(5), "{time:?}");
}
