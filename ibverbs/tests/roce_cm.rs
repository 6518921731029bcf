//! rdma_cm with a peer that is not Braid's librdmacm: it speaks the messages of the kernel's
//! rdma_cm. The peer here is an engine at UDP port 4791 with a `CmManager`.

mod loopback;
mod own_network;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use braid::{
    Access, CompletionQueue, Engine, EngineConfig, MemoryRegion, QpId, QpOptions, QpState,
    QueuePair, RoceGsi, RoceMtu, RoceRemote, Status, wr,
};
use braid_ibverbs::*;
use braid_transport::{CmEvent, CmEventKind, CmId, CmManager};
use braid_verbs::abi::*;
use braid_wire::{
    CmCounts, CmLookup, CmLookupAnswer, CmLookupStatus, CmPath, CmQueuePair, CmRejectReason,
    CmReply, CmRequest, CmTimeouts, IpCmHeader, Time,
};

use self::loopback::connections::*;
use self::loopback::*;
use self::own_network::in_own_network;

const PATIENCE: Duration = Duration::from_secs(20);
const PEER: [u8; 4] = [127, 0, 0, 2];
const OWN: [u8; 4] = [127, 0, 0, 1];
const PORT: u16 = 7000;
/// The service of another process.
const OTHER: u16 = 7475;
const NOBODY: u16 = 7001;
const PSN: u32 = 0xFF_FFFE;
const TEXT: &[u8] = b"plain RoCEv2";

/// A peer that speaks RoCEv2 and messages of the communication manager.
struct Peer {
    /// Dropped last.
    _engine: Engine,
    gsi: RoceGsi,
    manager: CmManager,
    start: Instant,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

impl Peer {
    fn new() -> Self {
        let bind = SocketAddr::new(PEER.into(), 4791);
        let engine = Engine::new(EngineConfig { bind, ..Default::default() }).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).expect("a queue"));
        let memory = pd.alloc_mr(4096, Access::ALL).expect("memory");
        let qp = pd.create_qp(QpOptions::new(&cq, &cq)).expect("a queue pair");
        qp.modify(QpState::Init).expect("from RESET");
        let gsi = engine.roce_gsi().expect("the port is free");
        let (manager, start) = (CmManager::new([3; 16], 2, gsi.tag()), Instant::now());
        Peer { _engine: engine, gsi, manager, start, cq, qp, memory }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn send(&mut self) {
        while let Some((to, mad)) = self.manager.poll_transmit() {
            self.gsi.send(to, &mad).expect("the host is there");
        }
    }

    /// The next event of a connection.
    fn event(&mut self) -> CmEvent {
        let until = Instant::now() + PATIENCE;
        loop {
            self.send();
            if let Some(event) = self.manager.poll_event() {
                return event;
            }
            assert!(Instant::now() < until, "nothing happens");
            if let Some(mad) = self.gsi.recv(Some(Duration::from_millis(20))) {
                assert!(self.manager.on_mad(self.now(), mad.from, &mad.bytes));
            }
            self.manager.on_timeout(self.now());
        }
    }

    fn own_qp(&self) -> CmQueuePair {
        CmQueuePair { number: self.qp.number(), psn: PSN, has_srq: false }
    }

    /// Connects its queue pair to the one that a message names.
    fn connect_qp(&self, theirs: &CmQueuePair) {
        let mut remote = RoceRemote::new(OWN.into(), theirs.number);
        (remote.recv_psn, remote.send_psn) = (PSN, theirs.psn);
        (remote.mtu, remote.max_rd_atomic) = (Some(RoceMtu::B1024), 1);
        self.qp.connect_roce(&remote).expect("no packet is exchanged");
    }

    fn accept(&mut self, id: CmId, request: &CmRequest) {
        self.connect_qp(&request.queue_pair);
        let mut private_data = [0; CmReply::PRIVATE];
        private_data[..4].copy_from_slice(b"yes!");
        let reply = CmReply {
            local_id: 0,
            remote_id: 0,
            queue_pair: self.own_qp(),
            counts: COUNTS,
            ca_guid: 0,
            private_data,
        };
        assert!(self.manager.accept(self.now(), id, reply));
        self.send();
    }

    /// Asks the library for a connection.
    fn connect(&mut self, port: u16) -> CmId {
        let header = IpCmHeader { from: (PEER, 4000).into(), to: OWN.into() };
        let mut private_data = [0; CmRequest::PRIVATE];
        private_data[..IpCmHeader::LEN].copy_from_slice(&header.encode());
        private_data[IpCmHeader::LEN..][..5].copy_from_slice(b"hello");
        let gid = |ip: [u8; 4]| std::net::Ipv4Addr::from(ip).to_ipv6_mapped();
        let request = CmRequest {
            local_id: 0,
            service: IpCmHeader::service(port),
            ca_guid: 0,
            transport: 0,
            queue_pair: self.own_qp(),
            counts: COUNTS,
            timeouts: CmTimeouts { remote: 20, local: 20, retries: 15 },
            path: CmPath {
                local: gid(PEER),
                remote: gid(OWN),
                mtu: 3,
                traffic_class: 0,
                hop_limit: 64,
                ack_timeout: 14,
            },
            private_data,
        };
        let id = self.manager.connect(self.now(), IpAddr::from(OWN), request);
        self.send();
        id
    }

    fn post_recv(&self) {
        let piece = self.memory.slice(..TEXT.len()).expect("it is there");
        self.qp.post_recv(wr::recv(1, [piece])).expect("there is room");
    }

    fn post_send(&self) {
        self.memory.write_at(100, TEXT).expect("it fits");
        let piece = self.memory.slice(100..100 + TEXT.len()).expect("it is there");
        self.qp.post_send(wr::send(2, [piece])).expect("there is room");
    }

    /// Waits for the ends of a receive and a send.
    fn exchanged(&self) {
        for _ in 0..2 {
            let done = self.cq.wait_one(PATIENCE).expect("the queue").expect("in time");
            assert_eq!(done.status, Status::Success);
        }
        let mut found = [0; TEXT.len()];
        self.memory.read_at(0, &mut found).expect("it is there");
        assert_eq!(found, TEXT);
    }
}

const COUNTS: CmCounts = CmCounts {
    responder_resources: 2,
    initiator_depth: 1,
    flow_control: false,
    retry_count: 6,
    rnr_retry_count: 7,
};

/// Sends a message to the peer and takes one, with the queue pair of an identifier.
unsafe fn exchange(id: *mut rdma_cm_id, cq: *mut ibv_cq) {
    let mut memory = [0; 64];
    memory[..TEXT.len()].copy_from_slice(TEXT);
    // SAFETY: the memory lives until it is deregistered, and the identifier has a queue pair.
    unsafe {
        let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        let piece = |at: usize| braid_verbs::Sge {
            addr: memory.as_ptr() as u64 + at as u64,
            len: TEXT.len() as u32,
            lkey: (*mr).lkey,
        };
        assert_eq!(post_recv((*id).qp, 1, piece(32)), 0);
        let mut source = piece(0);
        assert_eq!(post_send((*id).qp, &mut send_wr(2, &mut source)).0, 0);
        assert_eq!((poll(cq).status, poll(cq).status), (IBV_WC_SUCCESS, IBV_WC_SUCCESS));
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    assert_eq!(&memory[32..][..TEXT.len()], TEXT);
}

#[test]
fn a_listener_that_is_not_braid_is_found_and_spoken_to() {
    if !in_own_network(
        "a_listener_that_is_not_braid_is_found_and_spoken_to",
        &[("BRAID_ROCE", "auto")],
    ) {
        return;
    }
    let mut peer = Peer::new();
    assert!(peer.manager.listen(IpCmHeader::service(PORT)));
    let peer = thread::spawn(move || {
        let CmEvent { id, kind: CmEventKind::Requested(request), .. } = peer.event() else {
            panic!("a request")
        };
        assert_eq!(request.private_data[IpCmHeader::LEN..][..5], *b"hello");
        assert_eq!((request.counts.retry_count, request.counts.rnr_retry_count), (7, 7));
        assert!(peer.manager.reject(peer.now(), id, CmRejectReason::CONSUMER, b"busy"));
        let CmEvent { id, kind: CmEventKind::Requested(request), .. } = peer.event() else {
            panic!("another request")
        };
        peer.post_recv();
        peer.accept(id, &request);
        assert_eq!(peer.event().kind, CmEventKind::Established);
        peer.post_send();
        peer.exchanged();
        assert_eq!(peer.event().kind, CmEventKind::Disconnected);
        peer.send();
        // The refusal of the service that nobody serves.
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            if let Some(mad) = peer.gsi.recv(Some(Duration::from_millis(20))) {
                assert!(peer.manager.on_mad(peer.now(), mad.from, &mad.bytes));
            }
            peer.send();
        }
    });
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let to = |port| resolved_to(channel, ptr::from_mut(&mut address_of(PEER, port)).cast());
        let id = to(PORT);
        with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
        let told = next(channel);
        assert_eq!((told.kind, told.status, told.private_data.len()), (REJECTED, 28, 148));
        assert_eq!(told.private_data[..4], *b"busy");
        rdma_destroy_qp(id);
        assert_eq!(rdma_destroy_id(id), 0);

        let id = to(PORT);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
        let told = expect(channel, ESTABLISHED);
        assert_eq!((told.private_data.len(), &told.private_data[..5]), (196, &b"yes!\0"[..]));
        exchange(id, cq);
        assert_eq!(rdma_disconnect(id), 0);
        expect(channel, DISCONNECTED);
        rdma_destroy_qp(id);
        assert_eq!(rdma_destroy_id(id), 0);

        let id = to(NOBODY);
        with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let told = next(channel);
        assert_eq!((told.kind, told.status), (REJECTED, 8));
        rdma_destroy_qp(id);
        assert_eq!(rdma_destroy_id(id), 0);
        peer.join().expect("the peer is content");
    }
}

/// Another process that has queue pair 1 of the port, and refuses requests for [`OTHER`].
fn refuse_beside(stop: &AtomicBool, engine: &Engine) {
    let gsi = engine.roce_gsi().expect("the port can be shared");
    let (mut manager, start) = (CmManager::new([4; 16], 3, gsi.tag()), Instant::now());
    let service = IpCmHeader::service(OTHER);
    gsi.serve(service).expect("the process that reads answers");
    manager.listen(service);
    while !stop.load(Ordering::Relaxed) {
        let now = Time::ZERO + start.elapsed();
        if let Some(mad) = gsi.recv(Some(Duration::from_millis(5))) {
            manager.on_mad(now, mad.from, &mad.bytes);
        }
        while let Some(CmEvent { id, kind, .. }) = manager.poll_event() {
            assert!(matches!(kind, CmEventKind::Requested(_)), "a message for the other process");
            manager.reject(now, id, CmRejectReason::CONSUMER, b"other");
        }
        manager.on_timeout(now);
        while let Some((to, mad)) = manager.poll_transmit() {
            gsi.send(to, &mad).expect("the host is there");
        }
    }
}

#[test]
fn requests_find_the_process_that_listens() {
    if !in_own_network("requests_find_the_process_that_listens", &[("BRAID_ROCE", "always")]) {
        return;
    }
    let stop = AtomicBool::new(false);
    let bind = (OWN, 0).into();
    let engine = Engine::new(EngineConfig { bind, ..Default::default() }).expect("an engine");
    engine.roce_port((PEER, 4791).into()).expect("nobody has the port");
    thread::scope(|scope| {
        scope.spawn(|| refuse_beside(&stop, &engine));
        let mut peer = Peer::new();
        // The service is known as soon as the other process serves it.
        let until = Instant::now() + PATIENCE;
        loop {
            peer.connect(OTHER);
            match peer.event().kind {
                CmEventKind::Rejected(CmRejectReason::CONSUMER, data) => {
                    break assert_eq!(&data[..5], b"other");
                }
                kind => assert!(Instant::now() < until, "{kind:?}"),
            }
        }
        drop(peer);
        accept_peers();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_listener_accepts_peers_that_are_not_braid() {
    if in_own_network("a_listener_accepts_peers_that_are_not_braid", &[("BRAID_ROCE", "always")]) {
        accept_peers();
    }
}

fn accept_peers() {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let (listener, port) = listen(channel);
        let mut peer = Peer::new();
        peer.connect(NOBODY);
        let CmEventKind::Rejected(reason, _) = peer.event().kind else { panic!("a refusal") };
        assert_eq!(reason, CmRejectReason::INVALID_SERVICE);

        peer.connect(port);
        let told = expect(channel, CONNECT_REQUEST);
        assert_eq!((told.private_data.len(), &told.private_data[..6]), (56, &b"hello\0"[..]));
        assert_eq!(rdma_reject(told.id, c"no".as_ptr().cast(), 2), 0);
        assert_eq!(rdma_destroy_id(told.id), 0);
        let CmEventKind::Rejected(reason, data) = peer.event().kind else { panic!("a refusal") };
        assert_eq!((reason, &data[..3]), (CmRejectReason::CONSUMER, &b"no\0"[..]));

        peer.connect(port);
        let told = expect(channel, CONNECT_REQUEST);
        assert_eq!(u16::from_be(rdma_get_src_port(told.id)), port);
        assert_eq!(u16::from_be(rdma_get_dst_port(told.id)), 4000);
        let cq = with_qp(told.id);
        assert_eq!(rdma_accept(told.id, &mut param(b"welcome")), 0);
        let CmEvent { id, kind: CmEventKind::Replied(reply), .. } = peer.event() else {
            panic!("a reply")
        };
        assert_eq!(reply.private_data[..7], *b"welcome");
        assert_eq!(reply.queue_pair.number, QpId::new((*(*told.id).qp).qp_num));
        peer.connect_qp(&reply.queue_pair);
        peer.post_recv();
        assert!(peer.manager.ready(id));
        peer.send();
        assert_eq!(expect(channel, ESTABLISHED).id, told.id);
        peer.post_send();
        exchange(told.id, cq);
        peer.exchanged();
        assert!(peer.manager.disconnect(peer.now(), id));
        peer.send();
        assert_eq!(expect(channel, DISCONNECTED).id, told.id);
        assert_eq!(peer.event().kind, CmEventKind::Disconnected);
        rdma_destroy_qp(told.id);
        assert_eq!(rdma_destroy_id(told.id), 0);

        // A program that goes away while a request waits.
        peer.connect(port);
        let waiting = take(channel);
        assert_eq!((*waiting).event, CONNECT_REQUEST);
        let connection = (*waiting).id;
        assert_eq!(rdma_ack_cm_event(waiting), 0);
        assert_eq!(rdma_destroy_id(connection), 0);
        assert!(matches!(peer.event().kind, CmEventKind::Rejected(CmRejectReason::CONSUMER, _)));
        assert_eq!(rdma_destroy_id(listener), 0);
        peer.connect(port);
        let CmEventKind::Rejected(reason, _) = peer.event().kind else { panic!("a refusal") };
        assert_eq!(reason, CmRejectReason::INVALID_SERVICE);
    }
}

/// The answer of the peer to a lookup.
fn found() -> CmLookupAnswer {
    let mut private_data = [0; CmLookupAnswer::PRIVATE];
    private_data[..4].copy_from_slice(b"yes!");
    CmLookupAnswer {
        request_id: 0,
        status: CmLookupStatus::VALID,
        qp: QpId::new(0x77),
        service: 0,
        q_key: 0x1234,
        private_data,
    }
}

#[test]
fn a_queue_pair_for_datagrams_is_found_at_a_host_that_is_not_braid() {
    if !in_own_network(
        "a_queue_pair_for_datagrams_is_found_at_a_host_that_is_not_braid",
        &[("BRAID_ROCE", "auto")],
    ) {
        return;
    }
    let mut peer = Peer::new();
    assert!(peer.manager.listen(IpCmHeader::datagram_service(PORT)));
    let peer = thread::spawn(move || {
        let CmEvent { id, kind: CmEventKind::LookedUp(lookup), .. } = peer.event() else {
            panic!("a lookup")
        };
        let header =
            IpCmHeader::decode(&lookup.private_data).expect("it begins with the addresses");
        assert_eq!((header.from.ip(), header.to), (OWN.into(), PEER.into()));
        assert_eq!(lookup.private_data[IpCmHeader::LEN..][..6], *b"hello\0");
        assert!(peer.manager.answer(peer.now(), id, found()));
        let CmEvent { id, kind: CmEventKind::LookedUp(lookup), .. } = peer.event() else {
            panic!("another lookup")
        };
        let refusal = CmLookupAnswer::negative(&lookup, CmLookupStatus::REJECTED);
        assert!(peer.manager.answer(peer.now(), id, refusal));
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            peer.send();
            if let Some(mad) = peer.gsi.recv(Some(Duration::from_millis(20))) {
                assert!(peer.manager.on_mad(peer.now(), mad.from, &mad.bytes));
            }
        }
    });
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let to =
            |port| resolved_in(UDP, channel, ptr::from_mut(&mut address_of(PEER, port)).cast());
        let id = to(PORT);
        with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
        let event = take(channel);
        assert_eq!(((*event).event, (*event).status), (ESTABLISHED, 0));
        let told = (*event).param.ud;
        assert_eq!((told.qp_num, told.qkey, told.private_data_len), (0x77, 0x1234, 136));
        let gid = std::net::Ipv4Addr::from(PEER).to_ipv6_mapped().octets();
        assert_eq!(told.ah_attr.grh.dgid.raw, gid);
        let data = std::slice::from_raw_parts(told.private_data.cast::<u8>(), 5);
        assert_eq!(data, b"yes!\0");
        assert_eq!(rdma_ack_cm_event(event), 0);
        for (port, status) in [(PORT, 2), (NOBODY, 1)] {
            let id = to(port);
            with_qp(id);
            assert_eq!(rdma_connect(id, &mut param(b"")), 0);
            let told = next(channel);
            assert_eq!((told.kind, told.status), (UNREACHABLE, status), "{port}");
            rdma_destroy_qp(id);
            assert_eq!(rdma_destroy_id(id), 0);
        }
        rdma_destroy_qp(id);
        assert_eq!(rdma_destroy_id(id), 0);
        peer.join().expect("the peer is content");
    }
}

#[test]
fn lookups_of_peers_that_are_not_braid_are_answered() {
    if !in_own_network(
        "lookups_of_peers_that_are_not_braid_are_answered",
        &[("BRAID_ROCE", "always")],
    ) {
        return;
    }
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let (listener, port) = listen_in(UDP, channel, ptr::from_mut(&mut address(0)).cast());
        let mut peer = Peer::new();
        let look_up = |peer: &mut Peer, port, to: [u8; 4]| {
            let header = IpCmHeader { from: (PEER, 4000).into(), to: to.into() };
            let mut private_data = [0; CmLookup::PRIVATE];
            private_data[..IpCmHeader::LEN].copy_from_slice(&header.encode());
            private_data[IpCmHeader::LEN..][..5].copy_from_slice(b"hello");
            let service = IpCmHeader::datagram_service(port);
            let lookup = CmLookup { request_id: 0, service, private_data };
            peer.manager.look_up(peer.now(), IpAddr::from(OWN), lookup);
            peer.send();
        };
        let answered = |peer: &mut Peer| match peer.event().kind {
            CmEventKind::Found(answer) => answer,
            other => panic!("{other:?}"),
        };
        look_up(&mut peer, NOBODY, OWN);
        assert_eq!(answered(&mut peer).status, CmLookupStatus::UNSUPPORTED);
        look_up(&mut peer, port, [127, 0, 0, 3]);
        assert_eq!(answered(&mut peer).status, CmLookupStatus::UNSUPPORTED, "another address");

        look_up(&mut peer, port, OWN);
        let told = expect(channel, CONNECT_REQUEST);
        assert_eq!(rdma_reject(told.id, c"no".as_ptr().cast(), 2), 0);
        assert_eq!(rdma_destroy_id(told.id), 0);
        let answer = answered(&mut peer);
        assert_eq!(
            (answer.status, &answer.private_data[..3]),
            (CmLookupStatus::REJECTED, &b"no\0"[..])
        );

        look_up(&mut peer, port, OWN);
        let event = take(channel);
        let request = (*event).id;
        let ud = (*event).param.ud;
        let data = std::slice::from_raw_parts(ud.private_data.cast::<u8>(), 6);
        assert_eq!(
            ((*event).event, ud.private_data_len, data),
            (CONNECT_REQUEST, 180, &b"hello\0"[..])
        );
        assert_eq!(rdma_ack_cm_event(event), 0);
        assert_eq!(u16::from_be(rdma_get_dst_port(request)), 4000);
        with_qp(request);
        assert_eq!(rdma_accept(request, &mut param(b"welcome")), 0);
        let answer = answered(&mut peer);
        assert_eq!((answer.status, answer.q_key), (CmLookupStatus::VALID, 0x0123_4567));
        assert_eq!(answer.qp.get(), (*(*request).qp).qp_num);
        assert_eq!(answer.private_data[..8], *b"welcome\0");
        rdma_destroy_qp(request);
        assert_eq!(rdma_destroy_id(request), 0);

        // A program that goes away while a lookup waits.
        look_up(&mut peer, port, OWN);
        let waiting = expect(channel, CONNECT_REQUEST);
        assert_eq!(rdma_destroy_id(waiting.id), 0);
        assert_eq!(answered(&mut peer).status, CmLookupStatus::REJECTED);
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}
