//! Links over real sockets, and datagrams that strangers send to them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use braid::Faults;

use super::association::{Association, Taken};
use super::datagram::{Body, Datagram};
use super::*;

/// A limit that no step exceeds on a loaded machine.
const LONG: Duration = Duration::from_secs(20);

fn port(options: PortOptions) -> Port {
    Port::bind((Ipv4Addr::LOCALHOST, 0).into(), options).expect("a port")
}

/// A listener, and ports that connect to it.
pub(crate) struct Pairs {
    listener: Listener,
    port: Port,
    faults: Faults,
}

impl Pairs {
    pub(crate) fn new() -> Self {
        Self::with(Faults::default())
    }

    fn with(faults: Faults) -> Self {
        Pairs { faults, ..Self::at(port(PortOptions { faults, ..PortOptions::default() })) }
    }

    fn at(port: Port) -> Self {
        let faults = Faults::default();
        Pairs { listener: Listener::new(&port).expect("it listens"), port, faults }
    }

    fn connect(&self) -> Link {
        let near = port(PortOptions { faults: self.faults, ..PortOptions::default() });
        let from = Ipv4Addr::LOCALHOST.into();
        let link = Link::connect(&near, from, self.port.addr(), LONG).expect("it listens");
        link.set_limit(Some(LONG));
        link
    }

    /// Both ends of a link, of which the first has sent `message`.
    pub(crate) fn open(&self, message: &[u8]) -> [Link; 2] {
        let near = self.connect();
        near.send(message).expect("it is open");
        let far = self.listener.accept().expect("it listens");
        far.set_limit(Some(LONG));
        [near, far]
    }

    /// Both ends of a link. The second end has taken the first message.
    pub(crate) fn begin(&self) -> [Link; 2] {
        let ends = self.open(b"begin");
        assert_eq!(ends[1].recv().expect("the first message"), b"begin");
        ends
    }
}

fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("it fails").kind()
}

#[test]
fn messages_and_the_end_arrive_in_order_over_a_network_that_loses_and_repeats() {
    let faults = Faults { drop: 0.3, duplicate: 0.3, seed: 7, ..Faults::default() };
    let [near, far] = Pairs::with(faults).open(b"first");
    assert_eq!(far.recv().expect("it comes"), b"first");
    for number in 0..20u8 {
        near.send(&[number]).expect("it is open");
        far.send(&[number, number]).expect("it is open");
        assert_eq!(far.recv().expect("it comes"), [number]);
        assert_eq!(near.recv().expect("it comes"), [number; 2]);
    }
    far.send(b"last").expect("it is open");
    far.close();
    assert_eq!(near.recv().expect("it comes"), b"last");
    assert_eq!(kind(near.recv()), io::ErrorKind::UnexpectedEof);
    assert_eq!(kind(near.send(b"more")), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_port_without_a_listener_refuses() {
    let near = port(PortOptions::default());
    let pairs = Pairs::new();
    let to = pairs.port.addr();
    let connect = || Link::connect(&near, Ipv4Addr::LOCALHOST.into(), to, LONG);
    let Pairs { listener, port, .. } = pairs;
    listener.close();
    assert!(listener.accept().is_none());
    assert_eq!(kind(connect()), io::ErrorKind::ConnectionRefused, "the port exists");
    drop((listener, port));
    assert_eq!(kind(connect()), io::ErrorKind::ConnectionRefused, "the port does not exist");
}

#[test]
fn a_port_is_free_once_it_is_dropped_and_its_links_go_on() {
    let pairs = Pairs::new();
    let [near, far] = pairs.begin();
    let addr = pairs.port.addr();
    assert_eq!(kind(Port::bind(addr, PortOptions::default())), io::ErrorKind::AddrInUse);
    drop(pairs);
    let again = Port::bind(addr, PortOptions::default()).expect("it is free");
    let _listener = Listener::new(&again).expect("it listens");
    for _ in 0..3 {
        near.send(b"there").expect("it is open");
        assert_eq!(far.recv().expect("it comes"), b"there");
        far.send(b"back").expect("it is open");
        assert_eq!(near.recv().expect("it comes"), b"back");
    }
    far.close();
    assert_eq!(kind(near.recv()), io::ErrorKind::UnexpectedEof);
}

#[test]
fn the_first_that_listens_has_a_shared_port() {
    let shared = PortOptions { is_shared: true, ..PortOptions::default() };
    let one = port(shared.clone());
    let bind = |options| Port::bind(one.addr(), options);
    assert_eq!(kind(bind(PortOptions::default())), io::ErrorKind::AddrInUse);
    let [other, client] = [(); 2].map(|()| bind(shared.clone()).expect("both share it"));
    let listener = Listener::new(&one).expect("nobody else listens");
    assert_eq!(kind(Listener::new(&other)), io::ErrorKind::AddrInUse);
    assert_eq!(kind(bind(shared.clone())), io::ErrorKind::AddrInUse, "it is a listener's");
    // Neither of the two other ports takes datagrams for the listener.
    let stranger = port(PortOptions::default());
    let from = Ipv4Addr::LOCALHOST.into();
    let near = Link::connect(&stranger, from, one.addr(), LONG).expect("it listens");
    near.send(b"to the listener").expect("it is open");
    let far = listener.accept().expect("it listens");
    assert_eq!(far.recv().expect("it comes"), b"to the listener");
    // A port that shares its number can connect.
    let pairs = Pairs::new();
    let near = Link::connect(&client, from, pairs.port.addr(), LONG).expect("it listens");
    near.send(b"from the port").expect("it is open");
    let far = pairs.listener.accept().expect("it listens");
    assert_eq!(
        (far.recv().expect("it comes"), far.peer_addr()),
        (b"from the port".into(), one.addr())
    );
}

/// A socket that speaks the datagrams by hand.
struct Stranger(UdpSocket, SocketAddr);

impl Stranger {
    fn at(ip: [u8; 4], to: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::from(ip), 0)).expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a time");
        Stranger(socket, to)
    }

    fn say(&self, bytes: &[u8]) {
        self.0.send_to(bytes, self.1).expect("there is room");
    }

    fn hear(&self) -> Option<Vec<u8>> {
        let mut bytes = [0; 2000];
        self.0.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec())
    }

    fn cookie(&self, link: u64) -> u64 {
        self.say(&Datagram::new(link, Body::Hello).encode());
        let answer = self.hear().expect("it listens");
        let Some(Datagram { body: Body::Cookie(cookie), .. }) = Datagram::decode(&answer) else {
            panic!("no cookie: {answer:?}")
        };
        cookie
    }

    /// The kind of the answer.
    fn kind(&self) -> Option<u8> {
        self.hear().map(|answer| answer[4])
    }
}

const GONE: Option<u8> = Some(8);
const ACK: Option<u8> = Some(6);
const COOKIE: Option<u8> = Some(2);

impl Pairs {
    /// Whether a link has reached the listener.
    fn has_link(&self) -> bool {
        self.listener.is_waited_for()
    }
}

#[test]
fn a_source_is_not_trusted_before_it_shows_its_cookie() {
    let pairs = Pairs::new();
    let stranger = Stranger::at([127, 0, 0, 1], pairs.port.addr());
    let cookie = stranger.cookie(5);
    let open = |cookie, link| Datagram::new(link, Body::Open(cookie, b"message")).encode();
    for (wrong, link) in [(0, 5), (cookie ^ 1, 5), (cookie, 6)] {
        stranger.say(&open(wrong, link));
        assert_eq!(stranger.kind(), COOKIE, "another cookie, and nothing more");
    }
    for other in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let other = Stranger::at(other, pairs.port.addr());
        other.say(&open(cookie, 5));
        assert_eq!(other.kind(), COOKIE, "another port, another host");
    }
    assert!(!pairs.has_link());
    stranger.say(&open(cookie, 5));
    assert_eq!(stranger.kind(), ACK);
    assert!(pairs.has_link());
}

#[test]
fn an_open_that_comes_late_or_twice_begins_one_link() {
    let pairs = Pairs::new();
    let stranger = Stranger::at([127, 0, 0, 1], pairs.port.addr());
    let open = Datagram::new(5, Body::Open(stranger.cookie(5), b"message")).encode();
    for _ in 0..3 {
        stranger.say(&open);
        assert_eq!(stranger.kind(), ACK);
    }
    let link = pairs.listener.accept().expect("it listens");
    assert_eq!(link.recv().expect("it has come"), b"message");
    assert!(!pairs.has_link(), "one message");
    link.close();
    assert_eq!(stranger.kind(), Some(5), "the end");
    stranger.say(&Datagram { expected: 1, ..Datagram::new(5, Body::Ack) }.encode());
    stranger.say(&open);
    // The probe behind the datagram is answered, and the datagram is not.
    stranger.say(&Datagram::new(6, Body::Probe).encode());
    assert_eq!(stranger.kind(), GONE);
    assert!(!pairs.has_link(), "the link has ended");
}

#[test]
fn datagrams_of_strangers_do_not_enter_a_link() {
    let pairs = Pairs::new();
    let stranger = Stranger::at([127, 0, 0, 1], pairs.port.addr());
    stranger.say(&Datagram::new(5, Body::Open(stranger.cookie(5), b"message")).encode());
    assert_eq!(stranger.kind(), ACK);
    let link = pairs.listener.accept().expect("it listens");
    assert_eq!(link.recv().expect("it has come"), b"message");
    let data = |link, number, body| Datagram { number, ..Datagram::new(link, body) }.encode();
    // One datagram from another host with the right number, and one from the right host with
    // another number.
    Stranger::at([127, 0, 0, 2], pairs.port.addr()).say(&data(5, 1, Body::Data(b"forged")));
    stranger.say(&data(6, 1, Body::Data(b"forged")));
    assert_eq!(stranger.kind(), GONE);
    for body in [Body::Close, Body::Gone] {
        Stranger::at([127, 0, 0, 2], pairs.port.addr()).say(&data(5, 1, body));
    }
    // A number that is too high, an acknowledgement that is too high, and bytes that are no
    // datagram.
    stranger.say(&data(5, 9, Body::Data(b"early")));
    stranger.say(&Datagram { expected: u32::MAX, ..Datagram::new(5, Body::Ack) }.encode());
    for garbage in [&b""[..], b"BrMs", &[0; 2000], &[0xFF; 24]] {
        stranger.say(garbage);
    }
    stranger.say(&data(5, 1, Body::Data(b"true")));
    assert_eq!(link.recv().expect("it has come"), b"true");
    link.set_limit(Some(Duration::from_millis(100)));
    assert_eq!(kind(link.recv()), io::ErrorKind::TimedOut, "nothing else");
}

/// An unproven source gets no more bytes than it has sent.
#[test]
fn nothing_is_amplified() {
    let pairs = Pairs::new();
    let stranger = Stranger::at([127, 0, 0, 2], pairs.port.addr());
    let bodies = [Body::Hello, Body::Open(9, &[]), Body::Data(&[]), Body::Close, Body::Probe];
    for body in bodies.into_iter().chain([Body::Ack, Body::Gone, Body::Cookie(1)]) {
        let said = Datagram::new(77, body).encode();
        stranger.say(&said);
        let mut heard = 0;
        while heard <= said.len()
            && let Some(answer) = stranger.hear()
        {
            heard += answer.len();
        }
        assert!(heard <= said.len(), "{heard} bytes for {body:?} of {}", said.len());
        let is_answered = !matches!(body, Body::Ack | Body::Gone | Body::Cookie(_));
        assert_eq!(heard > 0, is_answered, "{body:?}: answers are not answered");
    }
}

fn gone(pairs: &Pairs) {
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), pairs.port.addr().port());
    let stranger = Stranger::at([127, 0, 0, 1], to);
    stranger.say(&Datagram::new(5, Body::Open(stranger.cookie(5), b"message")).encode());
    let link = pairs.listener.accept().expect("it listens");
    assert_eq!(link.recv().expect("it has come"), b"message");
    drop(stranger);
    let begun = Instant::now();
    link.set_limit(Some(LONG));
    assert_eq!(kind(link.recv()), io::ErrorKind::ConnectionReset);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_process_that_is_gone_ends_its_links() {
    gone(&Pairs::new());
    // A socket of IPv6 also reports the errors of IPv4.
    match Port::bind((std::net::Ipv6Addr::UNSPECIFIED, 0).into(), PortOptions::default()) {
        Ok(port) => gone(&Pairs::at(port)),
        Err(error) => eprintln!("this host has no IPv6: {error}"),
    }
}

/// The other end would not accept a datagram from another address of the host.
#[test]
fn a_listener_at_all_addresses_answers_from_the_one_that_was_called() {
    for any in ["0.0.0.0:0", "[::]:0"] {
        let any: SocketAddr = any.parse().expect("an address");
        let Ok(port) = Port::bind(any, PortOptions::default()) else {
            eprintln!("this host has no {any}");
            continue;
        };
        let pairs = Pairs::at(port);
        let to = SocketAddr::from(([127, 0, 0, 2], pairs.port.addr().port()));
        let near = Port::bind(([127, 0, 0, 1], 0).into(), PortOptions::default()).expect("a port");
        let from = Ipv4Addr::LOCALHOST.into();
        let near = Link::connect(&near, from, to, LONG).expect("it listens");
        near.send(b"there").expect("it is open");
        let far = pairs.listener.accept().expect("it listens");
        assert_eq!((far.local_addr(), far.peer_addr().ip()), (to, from));
        far.send(b"back").expect("it is open");
        assert_eq!(near.recv().expect("it comes"), b"back");
    }
}

#[test]
fn silence_does_not_end_a_link() {
    let pairs = Pairs::new();
    let stranger = Stranger::at([127, 0, 0, 1], pairs.port.addr());
    stranger.say(&Datagram::new(5, Body::Open(stranger.cookie(5), b"message")).encode());
    let link = pairs.listener.accept().expect("it listens");
    assert_eq!(link.recv().expect("it has come"), b"message");
    // The end exists and is silent, like a stopped process.
    link.set_limit(Some(Duration::from_secs(3)));
    assert_eq!(kind(link.recv()), io::ErrorKind::TimedOut);
    stranger.say(&Datagram { number: 1, ..Datagram::new(5, Body::Data(b"again")) }.encode());
    assert_eq!(link.recv().expect("it has come"), b"again");
}

#[test]
fn many_links_open_at_once() {
    let pairs = Pairs::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..50u8)
            .map(|number| {
                let near = pairs.connect();
                scope.spawn(move || {
                    near.send(&[number]).expect("it is open");
                    assert_eq!(near.recv().expect("the echo"), [number]);
                })
            })
            .collect();
        for _ in &threads {
            let far = pairs.listener.accept().expect("it listens");
            let said = far.recv().expect("it has come");
            far.send(&said).expect("it is open");
        }
    });
}

/// A network in virtual time that loses, repeats and reorders.
#[test]
fn two_ends_agree_over_any_network() {
    for seed in 0..300 {
        Network::new(seed).run();
    }
}

struct Network {
    random: u64,
    now: Instant,
    /// Datagrams under way, by arrival: the receiving end, and the bytes.
    underway: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    /// The connecting end, and the other one once it exists.
    ends: [Option<Association>; 2],
    taken: [Vec<Vec<u8>>; 2],
}

impl Network {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let client = Association::client(1, now);
        let (underway, taken) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
        Network { random: seed, now, underway, count: 0, ends: [Some(client), None], taken }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn flush(&mut self) {
        for from in 0..2 {
            while let Some(bytes) = self.ends[from].as_mut().and_then(Association::poll_transmit) {
                let copies = [0, 1, 1, 1, 2][self.random(5) as usize];
                for _ in 0..copies {
                    let delay = Duration::from_millis(self.random(120));
                    self.count += 1;
                    self.underway.insert((self.now + delay, self.count), (1 - from, bytes.clone()));
                }
            }
        }
    }

    fn arrive(&mut self, to: usize, bytes: &[u8]) {
        let datagram = Datagram::decode(bytes).expect("nothing is damaged");
        let cookie = Datagram::new(1, Body::Cookie(3)).encode();
        match (&mut self.ends[to], datagram.body) {
            (None, Body::Hello) => _ = self.underway.insert((self.now, 0), (0, cookie)),
            (None, Body::Open(3, message)) => {
                self.ends[to] = Some(Association::server(1, message, self.now));
            }
            (None, body) => panic!("{body:?} before the link"),
            (Some(end), _) => _ = end.on_datagram(&datagram, self.now),
        }
    }

    /// Both ends send ten messages, and the connecting end closes when it has received all.
    fn run(&mut self) {
        const MESSAGES: usize = 10;
        let (mut sent, begun) = ([0; 2], self.now);
        loop {
            for (end, sent) in sent.iter_mut().enumerate() {
                let Some(association) = &mut self.ends[end] else { continue };
                while *sent < MESSAGES && association.send(&[*sent as u8], self.now).is_ok() {
                    *sent += 1;
                }
                let taken = association.take();
                match taken {
                    Taken::Message(message) => self.taken[end].push(message),
                    Taken::End => association.close(self.now),
                    Taken::Nothing if end == 0 && self.taken[0].len() == MESSAGES => {
                        association.close(self.now);
                    }
                    Taken::Nothing => {}
                    Taken::Failed(errno) => panic!("errno {errno}"),
                }
            }
            self.flush();
            if self.ends.iter().all(|end| end.as_ref().is_some_and(Association::is_over)) {
                break;
            }
            self.step();
            assert!(self.now - begun < Duration::from_secs(60), "{:?}", self.taken);
        }
        let all: Vec<Vec<u8>> = (0..MESSAGES as u8).map(|number| vec![number]).collect();
        assert_eq!(self.taken, [all.clone(), all]);
    }

    /// Performs the next arrival or timeout.
    fn step(&mut self) {
        let timeouts = self.ends.iter().flatten().filter_map(Association::next_timeout);
        let timeout = timeouts.min();
        let arrival = self.underway.first_key_value().map(|(key, _)| key.0);
        match (arrival, timeout) {
            (Some(arrival), timeout) if timeout.is_none_or(|timeout| arrival <= timeout) => {
                let (_, (to, bytes)) = self.underway.pop_first().expect("there is one");
                self.now = self.now.max(arrival);
                self.arrive(to, &bytes);
            }
            (_, Some(timeout)) => {
                self.now = self.now.max(timeout);
                let now = self.now;
                self.ends.iter_mut().flatten().for_each(|end| end.on_timeout(now));
            }
            _ => panic!("nothing will happen any more"),
        }
    }
}
