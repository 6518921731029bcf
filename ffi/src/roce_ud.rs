//! Queue pairs of the unreliable datagram (UD) service of RoCEv2.

use std::ffi::{c_char, c_int};
use std::net::{IpAddr, SocketAddr};
use std::ptr;

use braid::{QpId, RoceUd, RoceUdAddress, RoceUdOptions, SharedReceiveQueue};

use crate::address::parse_ip;
use crate::arguments::{Out, narrow, text};
use crate::boundary::enter;
use crate::cq::braid_cq;
use crate::engine::braid_engine;
use crate::engine_config::BRAID_DEFAULT_PORT;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::pd::braid_pd;
use crate::roce::MAX_24_BITS;

/// A queue pair of the unreliable datagram (UD) service of RoCEv2. Datagrams get lost and arrive
/// twice, and anybody who knows its number and Q_Key can send them.
pub struct braid_roce_ud {
    pub(crate) ud: RoceUd,
    pub(crate) receives: SharedReceiveQueue,
    children: Children,
    _pd: Child,
    _queues: [Child; 2],
}

object!(
    braid_roce_ud,
    16,
    "datagram queue pair",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("datagram queue pair")
    }
);

/// The address of a peer that takes datagrams, which corresponds to an address handle of verbs.
pub struct braid_roce_address {
    pub(crate) to: RoceUdAddress,
    /// The address of the handle of its queue pair.
    pub(crate) of: usize,
    _ud: Child,
}

object!(braid_roce_address, 17, "datagram address");

/// The options of a datagram queue pair, initialised by braid_roce_ud_options_init. The caller must
/// set `number`, `q_key` and both completion queues.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_roce_ud_options {
    /// Set by braid_roce_ud_options_init.
    pub size: usize,
    /// The completion queue of sends.
    pub send_cq: *mut braid_cq,
    /// The completion queue of receives, which may be the same.
    pub recv_cq: *mut braid_cq,
    /// The number by which peers know the queue pair, 2 to 16777215. Completions carry it.
    pub number: u32,
    /// The key that datagrams for the queue pair must have.
    pub q_key: u32,
    /// The first PSN, 24 bits.
    pub psn: u32,
    /// Maximum number of sends that have not completed.
    pub max_send_wr: u32,
    /// Capacity of the receive queue in work requests, up to 1048576.
    pub max_recv_wr: u32,
    /// Maximum number of elements of a receive, up to BRAID_MAX_SGE.
    pub max_sge: u32,
    /// 4791: the queue pair receives at UDP port 4791, see braid_engine_roce_port. Otherwise it
    /// receives at the address of its engine, to which only other engines can send.
    pub port: u32,
}

// SAFETY: `repr(C)`, `size` first, numbers and raw pointers only.
unsafe impl Growing for braid_roce_ud_options {
    const NAME: &'static str = "braid_roce_ud_options";
}

impl Default for braid_roce_ud_options {
    fn default() -> Self {
        braid_roce_ud_options {
            size: size_of::<Self>(),
            send_cq: ptr::null_mut(),
            recv_cq: ptr::null_mut(),
            number: 0,
            q_key: 0,
            psn: 0,
            max_send_wr: 256,
            max_recv_wr: 512,
            max_sge: 16,
            port: BRAID_DEFAULT_PORT.into(),
        }
    }
}

impl braid_roce_ud_options {
    /// The options of the engine and the registration with the completion queues.
    fn checked(
        &self,
        receives: &SharedReceiveQueue,
    ) -> Result<(RoceUdOptions, [Child; 2]), Failure> {
        let queue = |queue: *mut braid_cq, name| {
            if queue.is_null() { Err(Failure::Null(name)) } else { find(queue) }
        };
        let (send, recv) = (queue(self.send_cq, "send_cq")?, queue(self.recv_cq, "recv_cq")?);
        let number = QpId::new(narrow(self.number.into(), MAX_24_BITS, "number")?);
        let mut options = RoceUdOptions::new(number, self.q_key, send.queue(), receives);
        options.recv_cq = recv.queue().clone();
        options.psn = narrow(self.psn.into(), MAX_24_BITS, "psn")?;
        options.max_sends = self.max_send_wr;
        Ok((options, [send.children.add(), recv.children.add()]))
    }
}

/// Fills `options` with the defaults, and the queues with NULL; `size` is
/// sizeof(braid_roce_ud_options).
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_options_init(
    options: *mut braid_roce_ud_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { growing::init(options, size, Default::default()) }.map(|()| 0))
}

/// Creates a datagram queue pair, which receives at once. Its receives use memory of `pd`. The
/// engine has to be bound to one address, which the checksums of datagrams cover.
///
/// RoCEv2 protects nothing: whoever knows the number and the Q_Key can send to the queue pair.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_create(
    engine: *mut braid_engine,
    pd: *mut braid_pd,
    options: *const braid_roce_ud_options,
    ud: *mut *mut braid_roce_ud,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, options) =
            unsafe { (Out::new(ud, "ud")?, growing::read(options, Default::default())?) };
        let (engine, pd) = (find(engine)?, find(pd)?);
        let port = narrow(options.port.into(), u16::MAX.into(), "port")?;
        let receives = pd.pd.create_srq(options.max_recv_wr, options.max_sge as usize)?;
        let (checked, queues) = options.checked(&receives)?;
        out.set(hand_out(braid_roce_ud {
            ud: engine.engine.roce_ud(port, &checked)?,
            receives,
            children: Children::default(),
            _pd: pd.children.add(),
            _queues: queues,
        })?);
        Ok(0)
    })
}

/// Closes a datagram queue pair. Its outstanding work requests are dropped without completions. Its
/// addresses must be closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_close(ud: *mut braid_roce_ud) -> c_int {
    enter(|| take(ud).map(|_| 0))
}

/// Replaces the key that datagrams for the queue pair must have.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_ud_set_q_key(ud: *mut braid_roce_ud, q_key: u32) -> c_int {
    enter(|| {
        find(ud)?.ud.set_q_key(q_key);
        Ok(0)
    })
}

/// Creates the address of the peer with the GID `gid`, such as "192.0.2.7", which receives at UDP
/// port `port`: 4791, unless it is another engine. Datagrams that `ud` sends there have this
/// traffic class, 0 to 255; the lower two bits are ignored.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_address_create(
    ud: *mut braid_roce_ud,
    gid: *const c_char,
    port: u32,
    traffic_class: u32,
    address: *mut *mut braid_roce_address,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, gid) = unsafe { (Out::new(address, "address")?, text(gid, "gid")?) };
        let gid: IpAddr = parse_ip(&gid)?;
        let port = narrow(port.into(), u16::MAX.into(), "port")?;
        let class = narrow(traffic_class.into(), u8::MAX.into(), "traffic_class")?;
        let found = find(ud)?;
        let mut to = found.ud.address(SocketAddr::new(gid, port))?;
        to.set_traffic_class(class);
        let (of, child) = (ud.addr(), found.children.add());
        out.set(hand_out(braid_roce_address { to, of, _ud: child })?);
        Ok(0)
    })
}

/// Closes an address. Posted datagrams still leave.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_address_close(address: *mut braid_roce_address) -> c_int {
    enter(|| take(address).map(|_| 0))
}

/// Writes the path MTU of the route to the peer, which is the length of the longest datagram in
/// bytes, into `mtu`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_roce_address_mtu(
    address: *const braid_roce_address,
    mtu: *mut u32,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(mtu, "mtu") }?;
        out.set(find(address)?.to.mtu().bytes());
        Ok(0)
    })
}
