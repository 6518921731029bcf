//! `cargo xtask fabric`: a leaf-spine fabric to try programs on.
//!
//! All of it is the library's, `braid_lab`; here are its command line and its tables.

mod check;
mod emulator;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use braid_lab::table::aligned;
use braid_lab::{
    Fabric, FabricError, LinkCount, Owner, Plan, RailFabric, RailPlan, Rate, Routing, Traffic,
    Trouble, Where, command_on_domain, parse_delay,
};
use clap::{Args, Subcommand};

use crate::Failure;

pub use check::check;

/// A command, and the name of the fabric.
#[derive(Args)]
pub struct FabricOptions {
    #[command(subcommand)]
    verb: Verb,
    /// Name of the fabric; several can stand side by side
    #[arg(long, global = true, default_value = "lab")]
    name: String,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a fabric, which stands until it is taken down
    Up(Shape),
    /// Hosts, links, their troubles and what they have carried
    Status,
    /// Take the fabric down, with everything that runs on it
    Down,
    /// Let a rail of a fabric of rails swallow everything; with --mend no more
    CutRail {
        /// From 0.
        rail: usize,
        /// Everything passes again
        #[arg(long)]
        mend: bool,
    },
    /// Run a program on a host: exec h0 -- ping 10.80.1.1
    Exec {
        /// h0, h1, ...
        host: String,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Take links down at both ends; leaves that lose a link choose among the others
    Cut(TroublePlace),
    /// Let every packet vanish while the links stay up
    Blackhole(TroublePlace),
    /// Let packets vanish at random
    Lossy {
        #[command(flatten)]
        place: TroublePlace,
        /// Percentage of the packets, each at random: 0.01 to 100
        percent: f64,
    },
    /// Give links a lower rate
    Slow {
        #[command(flatten)]
        place: TroublePlace,
        /// Bits per second: 50mbit
        rate: Rate,
    },
    /// Build a fabric of its own, and check rates, ways, troubles and delays on it
    Check,
    /// End the trouble of a spine, its links' too, or that of one link
    Restore(TroublePlace),
}

#[derive(Args)]
struct TroublePlace {
    /// SPINE, or SPINE:LEAF for one link
    #[arg(value_name = "SPINE[:LEAF]")]
    place: Where,
}

#[derive(Args)]
struct Shape {
    /// A fabric of rails in place of leaves and spines: every host has an interface on each rail,
    /// each rail a switch of its own
    #[arg(long, conflicts_with_all = ["leaves", "spines", "hosts", "routing", "delay"])]
    rail: bool,
    /// Hosts of a fabric of rails, 2 to 32
    #[arg(long, default_value_t = 4, requires = "rail")]
    domains: usize,
    /// Its rails, 1 to 8
    #[arg(long, default_value_t = 4, requires = "rail")]
    rails: usize,
    /// Leaf switches, 2 to 32
    #[arg(long, default_value_t = 2)]
    leaves: usize,
    /// Spine switches, 1 to 64
    #[arg(long, default_value_t = 4)]
    spines: usize,
    /// Hosts per leaf
    #[arg(long, default_value_t = 1)]
    hosts: usize,
    /// Rate of each link between leaf and spine, in each direction; links of hosts have no limit
    #[arg(long, default_value = "200mbit")]
    rate: Rate,
    /// MTU of every link, in bytes
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Choice of a spine by leaves: acl (source port 0xC000|id to spine id mod 64 mod spines), or
    /// ecmp
    #[arg(long, default_value = "acl")]
    routing: Routing,
    /// One-way delay over a spine: one for all spines, or a list with one per spine
    #[arg(long, value_delimiter = ',', value_parser = parse_delay)]
    delay: Vec<Duration>,
    /// Bytes that a port queues before it drops [default: 10 ms of the rate, at least 128 KiB]
    #[arg(long)]
    queue: Option<u64>,
}

/// Does one command.
pub fn run(options: &FabricOptions) -> Result<(), Failure> {
    let name = options.name.as_str();
    match &options.verb {
        Verb::Up(shape) if shape.rail => up_rails(shape.rail_plan(name)),
        Verb::Up(shape) => up(shape.plan(name)),
        Verb::CutRail { rail, mend } => Ok(braid_lab::cut_rail(name, *rail, !mend)?),
        Verb::Status => status(&find(name)?),
        Verb::Down => down(name),
        Verb::Exec { host, command } => exec(name, host, command),
        Verb::Cut(at) => trouble(name, at, Trouble::Cut),
        Verb::Blackhole(at) => trouble(name, at, Trouble::Blackhole),
        Verb::Lossy { place, percent } => trouble(name, place, Trouble::Lossy(*percent)),
        Verb::Slow { place, rate } => trouble(name, place, Trouble::Slow(*rate)),
        Verb::Check => check(),
        Verb::Restore(at) => Ok(find(name)?.restore(at.place)?),
    }
}

/// Runs the relay of a fabric's delayed links.
pub fn relay(name: &str) -> Result<(), Failure> {
    Ok(braid_lab::relay::main(name)?)
}

impl Shape {
    fn rail_plan(&self, name: &str) -> RailPlan {
        let Self { domains, rails, rate, mtu, .. } = *self;
        let queue = self.queue.unwrap_or_else(|| Plan::queue_for(rate));
        RailPlan { name: name.to_owned(), domains, rails, rate, mtu, queue }
    }

    fn plan(&self, name: &str) -> Plan {
        Plan {
            name: name.to_owned(),
            leaves: self.leaves,
            spines: self.spines,
            hosts: self.hosts,
            rate: self.rate,
            mtu: self.mtu,
            routing: self.routing,
            delay: self.delay.clone(),
            queue: self.queue.unwrap_or_else(|| Plan::queue_for(self.rate)),
        }
    }
}

fn find(name: &str) -> Result<Fabric, Failure> {
    Ok(Fabric::find(name)?.ok_or_else(|| FabricError::NotUp { name: name.to_owned() })?)
}

fn up(plan: Plan) -> Result<(), Failure> {
    print_hosts(&Fabric::up(plan, Owner::Standing)?);
    Ok(())
}

fn up_rails(plan: RailPlan) -> Result<(), Failure> {
    let (rails, rate, queue, mtu) = (plan.rails, plan.rate, plan.queue, plan.mtu);
    println!(
        "fabric {}: {rails} rails, {rate} per interface, {queue} B queues, MTU {mtu}\n",
        plan.name
    );
    let fabric = RailFabric::up(plan, Owner::Standing)?;
    let mut rows = vec![["host", "namespace", "addresses"].map(str::to_owned).to_vec()];
    for (domain, netns) in fabric.domains().iter().enumerate() {
        let addresses: Vec<_> = fabric.addresses(domain).iter().map(ToString::to_string).collect();
        rows.push(vec![format!("h{domain}"), netns.clone(), addresses.join(",")]);
    }
    println!("{}", aligned(&rows, 3).join("\n"));
    Ok(())
}

fn down(name: &str) -> Result<(), Failure> {
    let gone = if braid_lab::down(name)? { "is down" } else { "was not up" };
    println!("fabric {name} {gone}");
    Ok(())
}

/// Replaces this process by the program, so that signals and the exit status are its own.
fn exec(name: &str, host: &str, command: &[String]) -> Result<(), Failure> {
    let (program, arguments) = command.split_first().expect("clap requires one word");
    let domain = host.strip_prefix('h').and_then(|number| number.parse().ok());
    let on_rails = domain.map(|domain| command_on_domain(name, domain, Path::new(program)));
    let mut command = match (Fabric::find(name)?, on_rails.transpose()?.flatten()) {
        (None, Some(command)) => command,
        _ => on_host(&find(name)?, host, Path::new(program))?,
    };
    let error = command.args(arguments).exec();
    Err(Failure::new(format!("cannot start `ip`: {error}")))
}

fn on_host(fabric: &Fabric, host: &str, program: &Path) -> Result<Command, Failure> {
    let on = fabric.hosts().iter().find(|known| known.name == host).ok_or_else(|| {
        let last = fabric.hosts().len() - 1;
        Failure::new(format!("there is no host {host}")).remedy(format!("h0 to h{last}"))
    })?;
    Ok(fabric.command_on(on, program))
}

fn trouble(name: &str, at: &TroublePlace, what: Trouble) -> Result<(), Failure> {
    Ok(find(name)?.trouble(at.place, what)?)
}

fn status(fabric: &Fabric) -> Result<(), Failure> {
    print_hosts(fabric);
    let heading = ["state", "leaf", "spine", "rate", "delay"].into_iter();
    let ways = ["MB to spine", "packets", "drops", "MB to leaf", "packets", "drops"];
    let mut rows = vec![heading.chain(ways).map(str::to_owned).collect()];
    for (link, condition) in fabric.links()?.iter().zip(fabric.conditions()?) {
        let LinkCount { leaf, spine, to_spine, to_leaf } = link;
        let delay = fabric.plan().delay_over(*spine) / 2;
        let mut row = vec![condition.to_string(), leaf.to_string(), spine.to_string()];
        row.extend([condition.rate.to_string(), format!("{delay:?}")]);
        row.extend(cells(*to_spine));
        row.extend(cells(*to_leaf));
        rows.push(row);
    }
    println!("\n{}", aligned(&rows, 1).join("\n"));
    Ok(())
}

/// Megabytes, packets and drops.
fn cells(traffic: Traffic) -> [String; 3] {
    let megabytes = format!("{:.3}", traffic.bytes as f64 / 1e6);
    [megabytes, traffic.packets.to_string(), traffic.drops.to_string()]
}

fn print_hosts(fabric: &Fabric) {
    let plan = fabric.plan();
    let routing = format!("{:?}", plan.routing).to_lowercase();
    println!(
        "fabric {}: {} leaves, {} spines, {routing} routing, {} per link, {} B queues, MTU {}\n",
        plan.name, plan.leaves, plan.spines, plan.rate, plan.queue, plan.mtu
    );
    let mut rows = vec![["host", "leaf", "address", "namespace"].map(str::to_owned).to_vec()];
    rows.extend(fabric.hosts().iter().map(|host| {
        vec![host.name.clone(), host.leaf.to_string(), host.ip.to_string(), host.netns.clone()]
    }));
    println!("{}", aligned(&rows, 4).join("\n"));
}

impl From<FabricError> for Failure {
    fn from(error: FabricError) -> Self {
        Self::new(error.to_string())
    }
}
