//! Systems that refuse socket options: options that a connection can do without, and errors that
//! name the call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use braid::{Degradation, Engine, EngineConfig, EngineError, wr};
use libc::{c_int, sock_filter, sock_fprog};

use crate::pair::{Pair, local};

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K` and `BPF_RET | BPF_K`.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// The offsets in `seccomp_data` of the call's number and of the lower half of an argument (on a
/// little-endian machine).
const NUMBER: u32 = 0;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

fn step(code: u16, k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: 0, jf: otherwise, k }
}

/// Makes the system refuse these options to this thread and to the threads that it starts.
fn refuse(options: &[(c_int, c_int)], errno: c_int) {
    let mut program = Vec::new();
    for (level, name) in options {
        program.extend([
            step(LOAD, NUMBER, 0),
            step(JUMP_IF_EQUAL, libc::SYS_setsockopt as u32, 5),
            step(LOAD, argument(1), 0),
            step(JUMP_IF_EQUAL, *level as u32, 3),
            step(LOAD, argument(2), 0),
            step(JUMP_IF_EQUAL, *name as u32, 1),
            step(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32, 0),
        ]);
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0));
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: both calls read what their arguments point to, which lives through them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            + libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    assert_eq!(done, 0, "no seccomp filter: {}", std::io::Error::last_os_error());
}

/// The engine's metrics, by HTTP.
fn page(engine: &Engine) -> String {
    let mut stream = TcpStream::connect(engine.metrics_addr().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_connection_does_without_options_that_are_not_essential_and_says_so() {
    let names = thread::spawn(|| {
        let options = [
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::IPPROTO_IP, libc::IP_RECVTOS),
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
        ];
        refuse(&options, libc::EOPNOTSUPP);
        let metrics = "127.0.0.1:0".parse().unwrap();
        let pair = Pair::new(&EngineConfig { metrics, ..local() });
        let (from, to) = (pair.a.memory.slice(..1 << 20).unwrap(), pair.remote.at(0));
        pair.a.memory.write_at(0, b"all the same").unwrap();
        pair.a.qp.post_send(wr::write(1, [from], to)).unwrap();
        pair.successes(&pair.a, 1);
        assert_eq!(pair.b.bytes(0..12), b"all the same");
        let names = |all: Vec<Degradation>| -> Vec<&'static str> {
            let option = |one: &Degradation| match *one {
                Degradation::SocketOptionRefused { option, errno, .. } => {
                    assert_eq!(errno, libc::EOPNOTSUPP);
                    assert!(one.to_string().contains(option), "{one}");
                    option
                }
                ref other => panic!("{other}"),
            };
            all.iter().map(option).collect()
        };
        let page = page(&pair.a.engine);
        let degraded = |line: &&str| line.starts_with("braid_qp_degraded{");
        let of_options = |line: &&str| line.contains("name=\"socket-option-refused\",rail=\"0\"");
        assert!(page.lines().filter(degraded).filter(of_options).count() >= 4, "{page}");
        let in_use = page.lines().filter(|line| line.starts_with("braid_rail_paths{"));
        assert!(in_use.clone().count() > 0 && in_use.clone().all(|line| line.ends_with(" 16.0")));
        [&pair.a, &pair.b].map(|side| names(side.qp.degradations()))
    });
    let expected = ["IP_MTU_DISCOVER", "IP_TOS", "SO_RXQ_OVFL", "IP_RECVTOS"];
    assert_eq!(names.join().unwrap(), [expected, expected]);
}

#[test]
fn an_essential_option_that_is_refused_is_named_with_the_error_and_what_helps() {
    let error = thread::spawn(|| {
        refuse(&[(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)], libc::EOPNOTSUPP);
        let bind = "[::1]:0".parse().unwrap();
        Engine::new(EngineConfig { bind, ..local() }).err()
    });
    let error = error.join().unwrap().expect("it is essential");
    assert!(matches!(error, EngineError::Bind { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["setsockopt(IPV6_V6ONLY", "os error 95", "sandbox"] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    assert!(!text.contains("ulimit") && !text.contains("another"), "{text}");
}
