//! A process that ends as soon as it has its last message. Its peer must get the acknowledgement.

mod loopback;

use std::env;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use braid_verbs::abi::*;

use self::loopback::*;

const ROUNDS: usize = 50;
/// The variables that tell the ending process the address of its peer and its role.
const PEER: &str = "BRAID_TEST_PEER";
const MANNER: &str = "BRAID_TEST_MANNER";

/// The exchange before the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// The process takes one message.
    One,
    /// The process takes several messages that were posted together.
    Several,
    /// The process takes messages, and replies to each but the last.
    PingPong,
}

impl Manner {
    const ALL: [Manner; 3] = [Manner::One, Manner::Several, Manner::PingPong];

    fn messages(self) -> u64 {
        if self == Manner::One { 1 } else { 8 }
    }

    fn answers(self) -> u64 {
        if self == Manner::PingPong { self.messages() - 1 } else { 0 }
    }

    /// Ends the process, without destructors or functions that `exit` runs.
    fn end(self) -> ! {
        if self != Manner::PingPong {
            // SAFETY: the call takes a number. No library can notice it.
            unsafe { libc::syscall(libc::SYS_exit_group, 0) };
        }
        // The `_exit` of programs that load the drop-in library.
        braid_ibverbs::_exit(0)
    }
}

/// One end. Its peer is in the process at the other end of `stream`.
struct End {
    side: Side,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
}

impl End {
    fn connect(stream: &mut TcpStream, receives: u64) -> Self {
        let side = Side::open();
        let cq = side.cq(64);
        let qp = side.qp(cq, IBV_QPT_RC, 16, 16);
        // SAFETY: all members of the union are plain bytes.
        let mut own = unsafe { side.gid().raw }.to_vec();
        own.extend(number(qp).to_be_bytes());
        stream.write_all(&own).expect("the peer is there");
        let mut gid = ibv_gid { raw: [0; 16] };
        let mut peer = [0; 4];
        // SAFETY: all members of the union are plain bytes.
        stream.read_exact(unsafe { &mut gid.raw }).expect("the peer is there");
        stream.read_exact(&mut peer).expect("the peer is there");
        to_init(qp);
        (0..receives).for_each(|id| assert_eq!(post_recv(qp, id, side.sge(0, 8)), 0));
        to_rtr(qp, gid, u32::from_be_bytes(peer));
        to_rts_within(qp, 7, 14);
        let end = End { side, cq, qp };
        // Both ends have posted their receives.
        stream.write_all(&[0]).expect("the peer is there");
        stream.read_exact(&mut [0]).expect("the peer is there");
        end
    }

    fn send(&self, id: u64) {
        let mut piece = self.side.sge(64, 8);
        assert_eq!(post_send(self.qp, &mut send_wr(id, &mut piece)).0, 0);
    }
}

/// The ending process. Run as a test, this does nothing.
#[test]
fn the_process_that_ends() {
    let Ok(peer) = env::var(PEER) else { return };
    let manner = Manner::ALL[env::var(MANNER).expect("set").parse::<usize>().expect("an index")];
    let mut stream = TcpStream::connect(peer).expect("the test listens");
    let end = End::connect(&mut stream, manner.messages());
    let mut taken = 0;
    loop {
        let wc = poll(end.cq);
        assert_eq!(wc.status, IBV_WC_SUCCESS);
        if wc.opcode != IBV_WC_RECV {
            continue;
        }
        taken += 1;
        if taken == manner.messages() {
            manner.end();
        }
        if taken <= manner.answers() {
            end.send(taken);
        }
    }
}

fn start(listener: &TcpListener, manner: usize) -> Child {
    let address = listener.local_addr().expect("it is bound").to_string();
    Command::new(env::current_exe().expect("this program"))
        .args(["the_process_that_ends", "--exact", "--test-threads=1"])
        .env(PEER, address)
        .env(MANNER, manner.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// The failed statuses of the sends of one round.
fn failures(listener: &TcpListener, index: usize) -> Vec<u32> {
    let manner = Manner::ALL[index];
    let mut child = start(listener, index);
    let (mut stream, _) = listener.accept().expect("the process connects");
    let end = End::connect(&mut stream, manner.answers());
    let (mut failures, mut sent, mut done) = (Vec::new(), 0, 0);
    let at_once = if manner == Manner::PingPong { 1 } else { manner.messages() };
    while sent < at_once {
        end.send(sent);
        sent += 1;
    }
    while done < manner.messages() {
        let wc = poll(end.cq);
        if wc.opcode == IBV_WC_RECV && wc.status == IBV_WC_SUCCESS {
            end.send(sent);
            sent += 1;
        } else {
            done += 1;
            if wc.status != IBV_WC_SUCCESS {
                failures.push(wc.status);
                break;
            }
        }
    }
    assert!(child.wait().expect("a child").success());
    failures
}

fn every_send_succeeds(manner: Manner) {
    let index = Manner::ALL.iter().position(|other| *other == manner).expect("one of them");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let failed: Vec<Vec<u32>> = (0..ROUNDS).map(|_| failures(&listener, index)).collect();
    let failed: Vec<_> = failed.into_iter().filter(|round| !round.is_empty()).collect();
    assert!(failed.is_empty(), "{} of {ROUNDS} rounds failed: {failed:?}", failed.len());
}

#[test]
fn the_only_message_is_acknowledged_before_its_receiver_can_end() {
    every_send_succeeds(Manner::One);
}

#[test]
fn the_last_of_several_is_acknowledged_before_its_receiver_can_end() {
    every_send_succeeds(Manner::Several);
}

#[test]
fn the_last_of_a_ping_pong_is_acknowledged_before_its_receiver_ends() {
    every_send_succeeds(Manner::PingPong);
}
