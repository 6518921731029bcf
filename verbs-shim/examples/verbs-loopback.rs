//! Tests the functions of this crate on a real device or on Soft-RoCE, between two ends of the same
//! port:
//!
//!     verbs-loopback rxe0
//!
//! The device's name may also be in `BRAID_RDMA_DEVICE`. Prints a line for each check. The first
//! failed check ends the program with status 1. This is a program rather than a test, because most
//! machines have no device.

use std::error::Error;
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use braid_verbs::{
    Completion, CompletionChannel, Context, Cq, Gid, GidType, Mr, MrAccess, Pd, Qp, QpInit, QpKind,
    QpState, RecvWr, Route, Rtr, Rts, SendOp, SendWr, Sge, WcOpcode, WcStatus,
};

const PORT: u8 = 1;
const LEN: usize = 64 << 10;
/// Room for a header at the start of a UD message's buffer.
const GRH: usize = 40;
const QKEY: u32 = 0x1111_1111;
const PATIENCE: Duration = Duration::from_secs(10);

type Checked<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let device = std::env::args().nth(1).or_else(|| std::env::var("BRAID_RDMA_DEVICE").ok());
    let Some(device) = device else {
        eprintln!(
            "no device given; run verbs-loopback NAME, or set BRAID_RDMA_DEVICE=NAME; `rdma link` \
                lists the devices"
        );
        return ExitCode::from(2);
    };
    match run(&device) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str) -> Checked {
    let device = OpenDevice::open(name)?;
    for kind in [QpKind::Uc, QpKind::Rc] {
        let (a, b) = device.pair(kind)?;
        check_write(kind, &a, &b)?;
        check_send(kind, &a, &b)?;
        check_flush(kind, &a)?;
    }
    let (a, b) = device.pair(QpKind::Rc)?;
    check_breach(&a, &b)?;
    check_datagram(&device)?;
    check_notification(&device)?;
    if let Some(event) = device.context.poll_async_event()? {
        return Err(format!("an unexpected event: {event:?}").into());
    }
    println!("all checks passed");
    Ok(())
}

/// An open device and the address to use.
struct OpenDevice {
    context: Context,
    pd: Pd,
    mtu: u32,
    gid: Gid,
    gid_index: u32,
}

impl OpenDevice {
    fn open(name: &str) -> Checked<OpenDevice> {
        let context = Context::open(name)?;
        println!("{name}: {:?}", context.attributes()?);
        let port = context.port(PORT)?;
        println!("{name} port {PORT}: {port:?}");
        let (gid_index, gid) = (0..port.gid_count)
            .filter_map(|index| Some((index, context.gid(PORT, index).ok()?)))
            .filter(|(_, gid)| gid.ip().is_ipv4())
            .find(|(index, _)| context.gid_type(PORT, *index).is_ok_and(|t| t == GidType::RoceV2))
            .ok_or("no RoCE v2 GID with an IPv4 address: give the interface one")?;
        println!("{name} port {PORT} GID {gid_index}: {gid}");
        if context.gid_for_ip(PORT, gid.ip())? != Some(gid_index) {
            return Err(format!("gid_for_ip({}) is not {gid_index}", gid.ip()).into());
        }
        let pd = context.alloc_pd()?;
        Ok(OpenDevice { context, pd, mtu: port.active_mtu, gid, gid_index })
    }

    fn route(&self) -> Route {
        Route {
            port: PORT,
            dgid: self.gid,
            sgid_index: self.gid_index,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        }
    }

    fn end(&self, kind: QpKind, channel: Option<&CompletionChannel>) -> Checked<End> {
        let cq = self.context.create_cq(64, channel)?;
        let qp = self.pd.create_qp(&QpInit {
            kind,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            max_send_wr: 32,
            max_recv_wr: 32,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline: 0,
        })?;
        let memory = Memory::new(LEN);
        let access = MrAccess::LOCAL_WRITE | MrAccess::REMOTE_WRITE;
        // SAFETY: `End` drops the region before the memory, which is never borrowed.
        let mr = unsafe { self.pd.register(memory.start, LEN, access) }?;
        Ok(End { qp, cq, mr, memory })
    }

    /// Returns two connected ends in RTS.
    fn pair(&self, kind: QpKind) -> Checked<(End, End)> {
        let (a, b) = (self.end(kind, None)?, self.end(kind, None)?);
        for (end, peer) in [(&a, &b), (&b, &a)] {
            end.qp.to_init(PORT, MrAccess::REMOTE_WRITE)?;
            end.qp.to_rtr(&Rtr {
                dest_qp: peer.qp.number(),
                psn: 0,
                path_mtu_bytes: self.mtu,
                route: self.route(),
                max_dest_rd_atomic: 1,
                min_rnr_timer: 12,
            })?;
            end.qp.to_rts(&RTS)?;
        }
        Ok((a, b))
    }

    fn datagram_end(&self, channel: Option<&CompletionChannel>) -> Checked<End> {
        let end = self.end(QpKind::Ud, channel)?;
        end.qp.to_init_ud(PORT, QKEY)?;
        end.qp.to_rtr_ud()?;
        end.qp.to_rts(&RTS)?;
        Ok(end)
    }
}

const RTS: Rts = Rts { psn: 0, timeout: 14, retry_count: 7, rnr_retry: 7, max_rd_atomic: 1 };

/// A queue pair with its own memory. The fields are dropped in this order.
struct End {
    qp: Qp,
    cq: Cq,
    mr: Mr,
    memory: Memory,
}

impl End {
    fn sge(&self, offset: usize, len: usize) -> Sge {
        assert!(offset + len <= LEN);
        Sge { addr: self.memory.address() + offset as u64, len: len as u32, lkey: self.mr.lkey() }
    }

    fn post_recv(&self, id: u64, len: usize) -> Checked {
        let sges = [self.sge(0, len)];
        // SAFETY: the memory lives as long as the end, and is read only after the completion.
        Ok(unsafe { self.qp.post_recv(&[RecvWr { id, sges: &sges }]) }?)
    }

    fn post_send(&self, id: u64, op: SendOp<'_>, sges: &[Sge]) -> Checked {
        let wr = SendWr { id, op, sges, signaled: true, inline: false, solicited: false };
        // SAFETY: as above; each check waits for the completion before it goes on.
        Ok(unsafe { self.qp.post_send(&[wr]) }?)
    }

    /// Returns the next completion.
    fn wait(&self, what: &str) -> Checked<Completion> {
        let start = Instant::now();
        let mut room = [Completion::default()];
        while start.elapsed() < PATIENCE {
            if let [completion] = self.cq.poll(&mut room)? {
                return Ok(*completion);
            }
            std::hint::spin_loop();
        }
        Err(format!("{what}: no completion in {PATIENCE:?}").into())
    }

    /// Returns the next completion, which must be a success of this kind.
    fn expect(&self, id: u64, opcode: WcOpcode, what: &str) -> Checked<Completion> {
        let completion = self.wait(what)?;
        completion.status().map_err(|status| format!("{what}: {status}"))?;
        let right = completion.id() == id
            && completion.opcode() == opcode
            && completion.qp_num() == self.qp.number();
        match right {
            true => Ok(completion),
            false => Err(format!("{what}: expected {id}, {opcode:?}, not {completion:?}").into()),
        }
    }
}

/// Memory that the device reads and writes, so it is never borrowed.
struct Memory {
    start: *mut u8,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        Memory { start: Box::into_raw(vec![0u8; len].into_boxed_slice()).cast(), len }
    }

    fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        // SAFETY: the bytes fit, and no work request is outstanding on them.
        unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: as above.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.start, self.len) };
        bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.start, self.len);
        // SAFETY: the pointer came from this box, and the region was dropped before.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// Returns bytes that depend on their position.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

fn require(what: &str, holds: bool) -> Checked {
    match holds {
        true => {
            println!("ok: {what}");
            Ok(())
        }
        false => Err(what.into()),
    }
}

fn check_write(kind: QpKind, a: &End, b: &End) -> Checked {
    let what = format!("{kind} WRITE with immediate data, {LEN} bytes from two entries");
    let bytes = pattern(1, LEN);
    a.memory.write(&bytes);
    b.post_recv(1, 0)?;
    let sges = [a.sge(0, 1000), a.sge(1000, LEN - 1000)];
    let op = SendOp::WriteWithImm { addr: b.memory.address(), rkey: b.mr.rkey(), imm: 0x0102_0304 };
    a.post_send(2, op, &sges)?;
    a.expect(2, WcOpcode::Write, &what)?;
    let got = b.expect(1, WcOpcode::RecvWriteWithImm, &what)?;
    let right = got.imm() == Some(0x0102_0304) && got.byte_len() as usize == LEN;
    require(&what, right && b.memory.read() == bytes)
}

fn check_send(kind: QpKind, a: &End, b: &End) -> Checked {
    for (len, imm) in [(4096, None), (LEN, Some(7)), (0, Some(u32::MAX))] {
        let what = format!("{kind} SEND of {len} bytes, immediate data {imm:?}");
        let bytes = pattern(2, len);
        a.memory.write(&bytes);
        b.post_recv(3, LEN)?;
        let op = imm.map_or(SendOp::Send, SendOp::SendWithImm);
        a.post_send(4, op, &[a.sge(0, len)])?;
        a.expect(4, WcOpcode::Send, &what)?;
        let got = b.expect(3, WcOpcode::Recv, &what)?;
        let right = got.imm() == imm && got.byte_len() as usize == len;
        require(&what, right && b.memory.read()[..len] == bytes)?;
    }
    Ok(())
}

/// Checks a wrong rkey. Leaves both ends in ERR.
fn check_breach(a: &End, b: &End) -> Checked {
    let what = "RC WRITE with a wrong rkey is refused and writes nothing";
    let before = b.memory.read();
    a.memory.write(&pattern(3, LEN));
    let op = SendOp::Write { addr: b.memory.address(), rkey: !b.mr.rkey() };
    a.post_send(5, op, &[a.sge(0, LEN)])?;
    let status = a.wait(what)?.status();
    require(what, status == Err(WcStatus::RemoteAccess) && b.memory.read() == before)
}

fn check_flush(kind: QpKind, a: &End) -> Checked {
    let what = format!("{kind} to ERR flushes what is outstanding");
    // Posted before the change to ERR, because Soft-RoCE does not flush work requests posted in
    // ERR.
    a.post_recv(6, LEN)?;
    a.qp.to_error()?;
    let flushed = a.wait(&what)?;
    let right = flushed.id() == 6 && flushed.status() == Err(WcStatus::Flushed);
    require(&what, right && a.qp.state()? == QpState::Err)
}

fn check_datagram(device: &OpenDevice) -> Checked {
    let (a, b) = (device.datagram_end(None)?, device.datagram_end(None)?);
    let ah = device.pd.create_ah(&device.route())?;
    let len = 512;
    let what = format!("UD SEND of {len} bytes");
    let bytes = pattern(4, len);
    a.memory.write(&bytes);
    b.post_recv(7, GRH + len)?;
    let op = SendOp::Ud { ah: &ah, qp: b.qp.number(), qkey: QKEY };
    a.post_send(8, op, &[a.sge(0, len)])?;
    a.expect(8, WcOpcode::Send, &what)?;
    let got = b.expect(7, WcOpcode::Recv, &what)?;
    let right = got.src_qp() == a.qp.number() && got.byte_len() as usize == GRH + len;
    require(&what, right && b.memory.read()[GRH..GRH + len] == bytes)
}

fn check_notification(device: &OpenDevice) -> Checked {
    let what = "a completion wakes the channel of an armed queue, once";
    let channel = device.context.create_channel()?;
    let end = device.datagram_end(Some(&channel))?;
    let ah = device.pd.create_ah(&device.route())?;
    end.cq.request_notify()?;
    let quiet = !readable(&channel, Duration::ZERO) && channel.drain()? == 0;
    // The peer has no receive for it; the completion of the send is the one expected.
    let op = SendOp::Ud { ah: &ah, qp: end.qp.number(), qkey: QKEY };
    end.post_send(9, op, &[end.sge(0, 64)])?;
    let woken = readable(&channel, PATIENCE) && channel.drain()? == 1;
    end.expect(9, WcOpcode::Send, what)?;
    require(what, quiet && woken && !readable(&channel, Duration::ZERO))
}

fn readable(channel: &CompletionChannel, limit: Duration) -> bool {
    let fd = channel.as_fd().as_raw_fd();
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut polled, 1, limit.as_millis() as i32) == 1 }
}
