//! Long links that lose packets at random or have short queues: `bbr` uses nearly all of them.

use std::time::Duration;

use braid_cc::CcConfig;
use braid_transport::{QpConfig, SendOp};
use braid_wire::DATA_HEADER_LEN;

use crate::hosts::{Settings, World};

/// 200 Mbit/s.
const BYTES_PER_US: u64 = 25;
const MTU: u16 = 1408;
const MESSAGE: u32 = 64 << 10;
const DEPTH: usize = 256;

/// A link of 200 Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Link {
    rtt_us: u64,
    /// Share of the bandwidth-delay product that the queue holds.
    queue: f64,
    loss: f64,
}

impl Link {
    fn settings(self, cc: &CcConfig, qps: usize) -> Settings {
        let product = BYTES_PER_US * self.rtt_us;
        Settings {
            qps,
            qp: QpConfig { cc: cc.clone(), max_send_wr: 512, ..QpConfig::default() },
            delay: Duration::from_micros(self.rtt_us) / 2,
            bytes_per_us: BYTES_PER_US,
            mtu: MTU,
            queue: (product as f64 * self.queue) as u64,
            loss: self.loss,
            ..Settings::default()
        }
    }

    /// Returns the share of the link that first copies take in `span`, headers included, after a
    /// second, and the share of segments that are sent again.
    fn goodput(self, cc: &str, span: Duration) -> (f64, f64) {
        let cc: CcConfig = cc.parse().expect("a controller");
        let mut world = World::new(self.settings(&cc, 1));
        run(&mut world, Duration::from_secs(1));
        let (received, sent) = (received(&world), sent(&world));
        let began = world.now;
        run(&mut world, span);
        let carried = (self::received(&world) - received) as f64;
        let share = carried / (BYTES_PER_US as f64 * (world.now - began).as_micros() as f64);
        let (segments, again) = self::sent(&world);
        (share, (again - sent.1) as f64 / (segments - sent.0) as f64)
    }
}

/// Keeps WRITEs outstanding for some time.
fn run(world: &mut World, span: Duration) {
    let write = SendOp::Write { remote: world.memory.remote(), imm: None };
    let began = world.now;
    if world.hosts[0].order.is_empty() && world.hosts[0].segments == 0 {
        (0..DEPTH).for_each(|_| world.post(0, write, MESSAGE));
    }
    while world.now < began + span {
        let done = world.hosts[0].order.len();
        world.run(done + 1, span);
        let completed = world.hosts[0].order.len();
        (done..completed).for_each(|_| world.post(0, write, MESSAGE));
    }
}

fn sent(world: &World) -> (u64, u64) {
    let counters = world.hosts[0].counters();
    (counters.segments_sent, counters.retransmitted)
}

fn received(world: &World) -> u64 {
    let counters = world.hosts[1].counters();
    counters.bytes_received + DATA_HEADER_LEN as u64 * counters.segments_received
}

const SPAN: Duration = Duration::from_secs(8);

/// Acknowledgements are lost as often as data.
#[test]
fn bbr_keeps_its_rate_on_a_link_that_loses_packets_at_random() {
    for (rtt_us, queue, loss, least) in [
        (200, 50.0, 0.05, 0.925),
        (1_000, 10.0, 0.05, 0.9),
        (20_000, 1.0, 0.01, 0.93),
        (20_000, 1.0, 0.05, 0.88),
        (50_000, 1.0, 0.05, 0.85),
    ] {
        let link = Link { rtt_us, queue, loss };
        let (bbr, again) = link.goodput("bbr", SPAN);
        let (cubic, _) = link.goodput("cubic", SPAN);
        println!("{link:?}: {bbr:.3} of the link, {again:.4} again; cubic {cubic:.3}");
        // A window of three packets, which fills the shortest of these links, is CUBIC's, too.
        let is_long = rtt_us >= 1_000;
        assert!(bbr >= least, "{link:?}: {bbr:.3}");
        assert!(!is_long || cubic < 0.5 * bbr, "{link:?}: {bbr:.3}, {cubic:.3}");
        assert!(again < 1.3 * loss, "{link:?}: {again:.4}");
    }
}

#[test]
fn bbr_fills_a_long_link_with_a_short_queue() {
    for (rtt_us, queue, least) in [(20_000, 1.0, 0.95), (20_000, 0.1, 0.85), (50_000, 0.1, 0.9)] {
        let link = Link { rtt_us, queue, loss: 0.0 };
        let (bbr, again) = link.goodput("bbr", SPAN);
        println!("{link:?}: {bbr:.3} of the link, {again:.4} again");
        assert!(bbr >= least && again < 0.01, "{link:?}: {bbr:.3}, {again:.4}");
    }
}

/// The loss rate that the draft tolerates is 2 %.
#[test]
fn bbr_without_its_loss_floor_does_not_keep_the_rate() {
    let link = Link { rtt_us: 20_000, queue: 1.0, loss: 0.05 };
    let (share, _) = link.goodput("bbr:floor=off", SPAN);
    assert!(share < 0.3, "{share:.3}");
}
