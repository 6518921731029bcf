//! Signals belong to the program, and so do the threads that take them.

mod loopback;

use std::fs;

use braid_ibverbs::*;
use braid_verbs::abi::IBV_QPT_RC;

use self::loopback::connections::*;
use self::loopback::*;

/// The names of all threads of the library, and the signals that each blocks, as the kernel reports
/// them.
fn own_threads() -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("it is there").flatten() {
        // A thread that has ended meanwhile has no file.
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (name, status) = (read("comm").trim().to_owned(), read("status"));
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        if let Some(blocked) = blocked.filter(|_| name.starts_with("braid")) {
            found.push((name, u64::from_str_radix(blocked.trim(), 16).expect("it is hexadecimal")));
        }
    }
    found
}

/// A program may open the device and then block a signal, to wait for it in one thread
/// (`sigwait(3)`). A thread of the library that does not block the signal would end the process.
#[test]
fn threads_of_the_library_take_no_signals() {
    let side = Side::open();
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        let other_cq = with_qp(request.id);
        assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        let threads = own_threads();
        for name in ["braid-attendant", "braid-verbs", "braid-cm", "braid-cm-listen"] {
            assert!(threads.iter().any(|(known, _)| known == name), "{name}: {threads:?}");
        }
        for (name, blocked) in threads {
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD]
            {
                assert!(blocked >> (signal - 1) & 1 == 1, "{name} takes {signal}");
            }
        }
        for (id, cq) in [(id, cq), (request.id, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
        rdma_destroy_event_channel(server);
        rdma_destroy_event_channel(client);
    }
}
