//! Random work on memory of the host and of two contexts of a GPU, against a model.
//!
//! A seed decides the work, the times of copies and which of them fail. Copies end by a clock of
//! their own, which only looks at their events advance. Two streams in each direction overtake each
//! other. `BRAID_SCENARIOS=N` runs N seeds, `BRAID_FIRST_SEED=S` begins at S.

use std::panic::{self, AssertUnwindSafe};

use braid::wr;
use braid::{
    Access, Completion, Datapath, EndCause, EngineConfig, Faults, MemFabric, MemoryRegion,
    Progress, RecvWr, SendWr, Sge, Status,
};
use cuda_substitute::Behaviour;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::gpu::Gpu;
use crate::pair::{self, Pair, Side};
use crate::pattern;

/// Work requests of a scenario. Each has a slot of each region for itself.
const WORKS: usize = 24;
/// Bytes of a slot.
const SLOT: usize = 24 << 10;
/// Bytes of the longest message: three pieces of it fit a slot.
const LONGEST: usize = SLOT / 4;
/// Microseconds of the clock of copies that a look at an event takes.
const LOOK_US: u64 = 20;
/// Turns after the end in which nothing may change.
const QUIET_TURNS: usize = 50;

/// The operation of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Write,
    WriteImm,
    Send,
    Read,
    FetchAdd,
}

/// Bytes of a region.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: usize,
    at: usize,
    len: usize,
}

/// A work request, and the memory that it concerns.
#[derive(Clone, Debug)]
struct Work {
    op: Op,
    /// The memory of the initiator.
    local: Vec<Place>,
    /// The memory of the other end: of the receive of a SEND, otherwise one place.
    far: Vec<Place>,
    data: Vec<u8>,
}

/// One end: memory of the host and of two contexts.
struct End<'a> {
    gpu: &'a Gpu,
    side: &'a Side,
    regions: Vec<MemoryRegion>,
    contexts: Vec<u64>,
    /// Bytes that belong to the application, and that nothing may touch any more.
    released: Vec<(Place, Vec<u8>)>,
}

impl<'a> End<'a> {
    fn new(gpu: &'a Gpu, side: &'a Side) -> Self {
        let len = WORKS * SLOT;
        let mut regions = vec![side.pd.alloc_mr(len, Access::ALL).unwrap()];
        let made: Vec<_> = (0..2).map(|_| gpu.context(len)).collect();
        for (_, addr) in &made {
            // SAFETY: the context is destroyed after the region is dropped.
            regions.push(unsafe { side.pd.register_cuda(*addr, len, Access::ALL) }.unwrap());
        }
        let contexts = made.into_iter().map(|(context, _)| context).collect();
        End { gpu, side, regions, contexts, released: Vec::new() }
    }

    /// The bytes that are there now, whatever copies are under way.
    fn get(&self, place: Place) -> Vec<u8> {
        let region = &self.regions[place.region];
        if region.is_device() {
            return self.gpu.peek(region, place.at, place.len);
        }
        let mut bytes = vec![0; place.len];
        region.read_at(place.at, &mut bytes).unwrap();
        bytes
    }

    fn put(&self, place: Place, bytes: &[u8]) {
        let region = &self.regions[place.region];
        match region.is_device() {
            true => self.gpu.poke(region, place.at, bytes),
            false => region.write_at(place.at, bytes).unwrap(),
        }
    }

    fn put_all(&self, places: &[Place], mut bytes: &[u8]) {
        for place in places {
            let (now, later) = bytes.split_at(place.len);
            self.put(*place, now);
            bytes = later;
        }
    }

    fn get_all(&self, places: &[Place]) -> Vec<u8> {
        places.iter().flat_map(|place| self.get(*place)).collect()
    }

    fn pieces(&self, places: &[Place]) -> Vec<Sge> {
        let piece = |place: &Place| {
            self.regions[place.region].slice(place.at..place.at + place.len).unwrap()
        };
        places.iter().map(piece).collect()
    }

    /// Takes bytes back from the engine and changes them.
    fn release(&mut self, places: &[Place], seed: u32) {
        for place in places {
            let bytes = pattern(seed ^ 0xABCD, place.len);
            self.put(*place, &bytes);
            self.released.push((*place, bytes));
        }
    }

    fn check_released(&self, seed: u64) {
        for (place, bytes) in &self.released {
            assert!(self.get(*place) == *bytes, "seed {seed}: {place:?} changed after its end");
        }
    }
}

/// Places in the slot of a work request, of `len` bytes together.
fn places(rng: &mut Pcg64Mcg, slot: usize, len: usize, most: usize) -> Vec<Place> {
    let count = rng.random_range(1..=most.min(len));
    let (mut left, mut at) = (len, slot * SLOT);
    let mut all = Vec::new();
    for index in 0..count {
        let rest = count - index - 1;
        let len = if rest == 0 { left } else { rng.random_range(1..=left - rest) };
        at += rng.random_range(0..64_usize);
        all.push(Place { region: rng.random_range(0..3), at, len });
        (left, at) = (left - len, at + len);
    }
    all
}

impl Work {
    fn new(rng: &mut Pcg64Mcg, slot: usize) -> Self {
        let ops = [Op::Write, Op::WriteImm, Op::Send, Op::Read, Op::FetchAdd];
        let op = ops[rng.random_range(0..ops.len())];
        let data = |len| pattern(rng_seed(slot), len);
        if op == Op::FetchAdd {
            let word = |region| vec![Place { region, at: slot * SLOT + 64, len: 8 }];
            let (local, far) = (word(rng.random_range(0..3)), word(rng.random_range(0..3)));
            return Work { op, local, far, data: data(8) };
        }
        let longest = [8, 2000, LONGEST][rng.random_range(0..3)];
        let len = rng.random_range(1..=longest);
        let local = places(rng, slot, len, 3);
        let far = places(rng, slot, len, if op == Op::Send { 3 } else { 1 });
        Work { op, local, far, data: data(len) }
    }

    /// Writes the bytes that the work request moves to their origin.
    fn prepare(&self, near: &End<'_>, far: &End<'_>) {
        match self.op {
            Op::Write | Op::WriteImm | Op::Send => near.put_all(&self.local, &self.data),
            Op::Read | Op::FetchAdd => far.put_all(&self.far, &self.data),
        }
    }

    /// The receive that it consumes.
    fn receive(&self, id: u64, far: &End<'_>) -> Option<RecvWr> {
        match self.op {
            Op::Send => Some(wr::recv(id, far.pieces(&self.far))),
            Op::WriteImm => Some(wr::recv(id, [])),
            _ => None,
        }
    }

    fn request(&self, id: u64, near: &End<'_>, far: &End<'_>) -> SendWr {
        let (local, first) = (near.pieces(&self.local), self.far[0]);
        let remote = far.regions[first.region].remote().at(first.at as u64);
        match self.op {
            Op::Write => wr::write(id, local, remote),
            Op::WriteImm => wr::write_imm(id, local, remote, id as u32),
            Op::Send => wr::send(id, local),
            Op::Read => wr::read(id, local, remote),
            Op::FetchAdd => wr::fetch_add(id, local[0], remote, 7),
        }
    }

    /// Checks the bytes of a work request at the moment of its completion.
    fn check(&self, near: &End<'_>, far: &End<'_>, what: &str) {
        let (here, there) = (near.get_all(&self.local), far.get_all(&self.far));
        let is_right = match self.op {
            Op::Write | Op::WriteImm | Op::Send => there == self.data,
            Op::Read => here == self.data,
            Op::FetchAdd => {
                let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
                here == self.data && word(&there) == word(&self.data).wrapping_add(7)
            }
        };
        assert!(is_right, "{what}: {:?} has completed without its bytes", self.op);
    }
}

fn rng_seed(slot: usize) -> u32 {
    slot as u32 + 1
}

/// The network and the copies of a seed.
fn conditions(rng: &mut Pcg64Mcg) -> (EngineConfig, Behaviour) {
    let datapath = match rng.random_bool(0.5) {
        true => Datapath::Mem(MemFabric::new()),
        false => Datapath::Udp,
    };
    let faults = match rng.random_bool(0.3) {
        true => Faults { drop: 0.02, duplicate: 0.05, reorder: 0.1, ..Faults::default() },
        false => Faults::default(),
    };
    let (progress, linger) = (Progress::Application, std::time::Duration::ZERO);
    let config = EngineConfig { datapath, faults, progress, linger, ..pair::local() };
    let (shortest_us, longest_us) =
        [(0, 0), (0, 300), (100, 5_000), (4_000, 4_000)][rng.random_range(0..4)];
    let copy = rng.random_range(1..60_u64);
    let (fails_after, refuses_after) = match rng.random_range(0..4) {
        0 => (copy, 0),
        1 => (0, copy),
        _ => (0, 0),
    };
    (config, Behaviour { shortest_us, longest_us, fails_after, refuses_after })
}

/// Runs the work of a seed, and checks each completion. Returns whether a copy failed.
fn run(gpu: &Gpu, seed: u64) -> bool {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (config, behaviour) = conditions(&mut rng);
    let p = Pair::new(&config);
    let (mut near, mut far) = (End::new(gpu, &p.a), End::new(gpu, &p.b));
    let works: Vec<Work> = (0..WORKS).map(|slot| Work::new(&mut rng, slot)).collect();
    gpu.behave(behaviour);
    gpu.look(Some(LOOK_US));
    for (id, work) in works.iter().enumerate() {
        work.prepare(&near, &far);
        let receive = work.receive(id as u64, &far);
        receive.into_iter().for_each(|receive| far.side.qp.post_recv(receive).unwrap());
    }
    let (mut posted, mut sent, mut received) = (0, Vec::new(), Vec::new());
    p.until(&format!("end of seed {seed}"), || {
        while posted < WORKS && rng.random_bool(0.5) {
            near.side.qp.post_send(works[posted].request(posted as u64, &near, &far)).unwrap();
            posted += 1;
        }
        take(&works, &mut near, &mut far, seed, (&mut sent, &mut received));
        sent.len() == WORKS
    });
    let has_failed = check_ends(&p, seed, &sent, &mut || {
        take(&works, &mut near, &mut far, seed, (&mut Vec::new(), &mut received));
    });
    check_order(seed, &received);
    // Whatever did not complete belongs to the application as well.
    for (id, done) in sent.iter().enumerate().filter(|(_, done)| done.status != Status::Success) {
        near.release(&works[id].local, done.wr_id as u32);
        far.release(&works[id].far, done.wr_id as u32);
    }
    (0..QUIET_TURNS).for_each(|_| p.progress());
    near.check_released(seed);
    far.check_released(seed);
    gpu.behave(Behaviour::default());
    let contexts = [near.contexts, far.contexts].concat();
    drop((near.regions, far.regions));
    drop(p);
    contexts.into_iter().for_each(|context| gpu.destroy(context));
    gpu.look(None);
    has_failed
}

/// Takes completions of both ends, and checks the bytes of each.
fn take(
    works: &[Work],
    near: &mut End<'_>,
    far: &mut End<'_>,
    seed: u64,
    (sent, received): (&mut Vec<Completion>, &mut Vec<Completion>),
) {
    while let Ok(Some(done)) = far.side.cq.poll_one() {
        if done.status == Status::Success {
            let (id, what) = (done.wr_id as usize, format!("seed {seed}, receive"));
            let work = &works[id];
            assert!(far.get_all(&work.far) == work.data, "{what} {id}: its bytes are not there");
            assert_eq!(done.imm, (work.op == Op::WriteImm).then_some(id as u32), "{what}");
        }
        received.push(done);
    }
    while let Ok(Some(done)) = near.side.cq.poll_one() {
        if done.status == Status::Success {
            let id = done.wr_id as usize;
            works[id].check(near, far, &format!("seed {seed}, work {id}"));
            near.release(&works[id].local, id as u32);
            // The receiver has not looked yet at what a message has brought.
            if works[id].receive(0, far).is_none() {
                far.release(&works[id].far, id as u32);
            }
        }
        sent.push(done);
    }
}

/// Successes come first, and everything after a failure is flushed, in the order of posting.
fn check_order(seed: u64, done: &[Completion]) {
    assert!(done.is_sorted_by_key(|done| done.wr_id), "seed {seed}: {done:?}");
    let mut failed = done.iter().skip_while(|done| done.status == Status::Success);
    failed.next();
    assert!(failed.all(|done| done.status == Status::Flushed), "seed {seed}: {done:?}");
}

/// Checks how the queue pairs have ended. Returns whether a copy failed.
fn check_ends(p: &Pair, seed: u64, sent: &[Completion], take: &mut dyn FnMut()) -> bool {
    check_order(seed, sent);
    if sent.iter().all(|done| done.status == Status::Success) {
        assert_eq!(p.a.qp.error(), None, "seed {seed}");
        return false;
    }
    p.until(&format!("ends of both sides, seed {seed}"), || {
        take();
        p.a.qp.error().is_some() && p.b.qp.error().is_some() && p.b.qp.outstanding().1 == 0
    });
    take();
    let causes = [&p.a, &p.b].map(|side| side.qp.error().unwrap().cause);
    let is_told = sent.iter().any(|done| done.status == Status::RemoteOperational);
    assert!(causes.contains(&EndCause::DeviceMemory) || is_told, "seed {seed}: {causes:?}");
    true
}

/// Names the command that runs a seed again, if it fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Replay(seed) = self;
            eprintln!(
                "replay: BRAID_FIRST_SEED={seed} BRAID_SCENARIOS=1 cargo test -p braid-rdma \
                 --test device random_work"
            );
        }
    }
}

/// Reads a number from the environment. Default: `otherwise`.
fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn random_work_agrees_with_the_model() {
    let gpu = Gpu::new();
    let first = number("BRAID_FIRST_SEED", 0);
    let (count, mut failed) = (number("BRAID_SCENARIOS", 60), 0);
    for seed in first..first + count {
        let _replay = Replay(seed);
        failed += u64::from(run(&gpu, seed));
    }
    println!("{count} seeds, in {failed} of which a copy failed");
    assert!(count < 60 || (failed > 0 && failed < count), "{failed} of {count} have failures");
}

/// Otherwise the scenarios would pass even if completions preceded their bytes.
#[test]
fn early_completions_are_noticed() {
    let gpu = Gpu::new();
    gpu.lie(true);
    let is_noticed = |seed| panic::catch_unwind(AssertUnwindSafe(|| run(&gpu, seed))).is_err();
    assert!((0..20).any(is_noticed), "nothing is noticed within 20 seeds");
}
