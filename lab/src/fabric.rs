//! A fabric that is up.

use std::path::Path;
use std::process::Command;
use std::thread;

use crate::layout::Layout;
use crate::relay::Relay;
use crate::state::State;
use crate::trouble::Troubles;
use crate::{
    Condition, FabricError, Host, LinkCount, Plan, Trouble, Where, configure, counters, namespace,
    remove, tools,
};

/// The lifetime of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Until the [`Fabric`] is dropped. The next [`Fabric::up`] or [`down`](crate::down) of any
    /// fabric removes the remains of a killed process.
    Process,
    /// Until [`down`](crate::down), also if this process ends.
    Standing,
}

/// A fabric of network namespaces that is up.
#[derive(Debug)]
pub struct Fabric {
    plan: Plan,
    layout: Layout,
    hosts: Vec<Host>,
    /// The claim to the fabric, if this process owns it.
    own: Option<Own>,
}

/// Removes a fabric when it is dropped.
#[derive(Debug)]
struct Own {
    name: String,
    /// Ends when this process does.
    _relay: Option<Relay>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // The next `up` or `down` removes the rest.
        let _ = remove::remove(&self.name);
    }
}

impl Fabric {
    /// Makes a fabric, a small one in well under a second. The caller needs root, `ip`, `tc` and
    /// `nft`.
    ///
    /// After an error nothing is left. Links with a delay start a relay, see
    /// [`relay`](crate::relay).
    pub fn up(plan: Plan, owner: Owner) -> Result<Self, FabricError> {
        plan.check()?;
        tools::need()?;
        remove::sweep()?;
        let pid = std::process::id();
        let state = State {
            plan,
            owner: (owner == Owner::Process).then_some(pid),
            builder: Some(pid),
            troubles: Troubles::default(),
        };
        if !state.claim()? {
            return Err(taken(&state.plan.name));
        }
        let mut own = Own { name: state.plan.name.clone(), _relay: None };
        let mut fabric = Self::of(state);
        own._relay = fabric.build()?;
        State::change(&own.name, |state| {
            state.builder = None;
            Ok(())
        })?;
        match owner {
            Owner::Process => fabric.own = Some(own),
            Owner::Standing => own.keep(),
        }
        Ok(fabric)
    }

    /// The fabric of this name, if it is up.
    ///
    /// A fabric that is still being made is [`FabricError::Busy`]. The value does not own the
    /// fabric, which stays when the value is dropped.
    pub fn find(name: &str) -> Result<Option<Self>, FabricError> {
        match State::read(name)? {
            Some(state) if !state.is_alive() => Ok(None),
            Some(State { builder: Some(pid), .. }) => {
                Err(FabricError::Busy { name: name.into(), pid })
            }
            Some(state) => Ok(Some(Self::of(state))),
            None => Ok(None),
        }
    }

    /// Takes the fabric down, with every process that runs on it.
    pub fn down(mut self) -> Result<(), FabricError> {
        let own = self.own.take();
        let removed = remove::remove(&self.plan.name);
        drop(own);
        removed.map(|_| ())
    }

    /// The plan of the fabric.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All hosts, leaf by leaf.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A command that runs a program on a host. The end of the fabric kills the program.
    pub fn command_on(&self, host: &Host, program: &Path) -> Command {
        tools::inside(&host.netns, program)
    }

    /// Runs a function on a host, on a thread of its own. Sockets that the function opens stay on
    /// that host, wherever they are used later.
    pub fn on<T: Send>(
        &self,
        host: &Host,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, FabricError> {
        namespace::inside(&host.netns, work)
    }

    /// The traffic of each link between a leaf and a spine since the fabric was made, leaf by leaf.
    pub fn links(&self) -> Result<Vec<LinkCount>, FabricError> {
        counters::read(&self.layout, &self.plan)
    }

    /// The condition of each link, in the order of [`links`](Self::links).
    pub fn conditions(&self) -> Result<Vec<Condition>, FabricError> {
        let state = State::read(&self.plan.name)?
            .ok_or_else(|| FabricError::NotUp { name: self.plan.name.clone() })?;
        let leaves = 0..self.plan.leaves;
        let links = leaves.flat_map(|leaf| (0..self.plan.spines).map(move |spine| (leaf, spine)));
        Ok(links.map(|(leaf, spine)| state.troubles.condition(&self.plan, leaf, spine)).collect())
    }

    /// Makes trouble at a place, in place of its earlier trouble. A spine and one of its links are
    /// two places, and the troubles of both hold.
    pub fn trouble(&self, at: Where, what: Trouble) -> Result<(), FabricError> {
        at.check(&self.plan)?;
        what.check()?;
        self.change(at.spine, |troubles| {
            troubles.set(at, what);
            Ok(())
        })
    }

    /// Ends the trouble of a place; with a spine, that of its links too.
    pub fn restore(&self, at: Where) -> Result<(), FabricError> {
        at.check(&self.plan)?;
        self.change(at.spine, |troubles| match troubles.clear(at) {
            true => Ok(()),
            false => Err(FabricError::argument("restore", at, "it has no trouble of its own")),
        })
    }

    fn of(state: State) -> Self {
        let layout = Layout::new(&state.plan.name, state.owner);
        let hosts = layout.hosts(&state.plan);
        Self { plan: state.plan, layout, hosts, own: None }
    }

    fn change(
        &self,
        spine: usize,
        change: impl FnOnce(&mut Troubles) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        State::change(&self.plan.name, |state| {
            change(&mut state.troubles)?;
            self.enforce(spine, &state.troubles)
        })
    }

    /// Applies the troubles of a spine and its links.
    fn enforce(&self, spine: usize, troubles: &Troubles) -> Result<(), FabricError> {
        let plan = &self.plan;
        let at_spine = self.layout.spine(spine);
        tools::nft_in(&at_spine, &configure::vanishing(plan, troubles, spine))?;
        let (mut devices, mut shapes) = (String::new(), String::new());
        for leaf in 0..plan.leaves {
            let condition = troubles.condition(plan, leaf, spine);
            let (up, down) = (format!("s{spine}"), format!("l{leaf}"));
            let at_leaf = self.layout.leaf(leaf);
            let by_packet = troubles.any_loss(spine);
            tools::ip_in(&at_leaf, &configure::device(&up, condition, by_packet))?;
            tools::tc_in(&at_leaf, &configure::shape(&up, condition.rate, plan.queue))?;
            tools::ip_in(&at_leaf, &configure::leaf_routes(plan, troubles, leaf))?;
            devices += &configure::device(&down, condition, false);
            if !condition.cut {
                devices += &configure::spine_route(leaf, spine);
            }
            shapes += &configure::shape(&down, condition.rate, plan.queue);
        }
        tools::ip_in(&at_spine, &devices)?;
        tools::tc_in(&at_spine, &shapes)
    }

    fn build(&self) -> Result<Option<Relay>, FabricError> {
        let (layout, plan) = (&self.layout, &self.plan);
        tools::ip(&configure::namespaces(layout, plan))?;
        self.set_sysctls()?;
        tools::ip(&configure::veths(layout, plan))?;
        let relay = Relay::start(layout, plan)?;
        thread::scope(|scope| {
            let switches = scope.spawn(|| self.configure_switches());
            let hosts = self
                .hosts
                .iter()
                .try_for_each(|host| tools::ip_in(&host.netns, &configure::host(host)));
            switches.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(hosts)
        })?;
        Ok(relay)
    }

    fn configure_switches(&self) -> Result<(), FabricError> {
        let (layout, plan) = (&self.layout, &self.plan);
        let shapes = |letter: char, number: usize| -> String {
            (0..number)
                .map(|n| configure::shape(&format!("{letter}{n}"), plan.rate, plan.queue))
                .collect()
        };
        for spine in 0..plan.spines {
            let namespace = layout.spine(spine);
            tools::tc_in(&namespace, &shapes('l', plan.leaves))?;
            tools::ip_in(&namespace, &configure::spine(plan, spine))?;
        }
        for leaf in 0..plan.leaves {
            let namespace = layout.leaf(leaf);
            tools::tc_in(&namespace, &shapes('s', plan.spines))?;
            tools::ip_in(&namespace, &configure::leaf(plan, leaf, &self.hosts))?;
            if plan.routing == crate::Routing::Acl {
                tools::nft_in(&namespace, &configure::acl(plan, leaf))?;
            }
        }
        Ok(())
    }

    fn set_sysctls(&self) -> Result<(), FabricError> {
        for namespace in self.layout.all(&self.plan) {
            namespace::set(&namespace, configure::EVERYWHERE)?;
        }
        let leaves: Vec<_> = (0..self.plan.leaves).map(|leaf| self.layout.leaf(leaf)).collect();
        let spines = (0..self.plan.spines).map(|spine| self.layout.spine(spine));
        for router in spines.chain(leaves.iter().cloned()) {
            namespace::set(&router, configure::ROUTERS)?;
            namespace::set_if_there(&router, configure::ROUTERS_IF_THERE)?;
        }
        leaves.iter().try_for_each(|leaf| namespace::set(leaf, configure::LEAVES))
    }
}

impl Own {
    /// Gives the fabric up without removing it.
    fn keep(self) {
        // The relay of a standing fabric lives on without this handle.
        std::mem::forget(self);
    }
}

fn taken(name: &str) -> FabricError {
    match State::read(name) {
        Ok(Some(State { builder: Some(pid), .. } | State { owner: Some(pid), .. })) => {
            FabricError::Busy { name: name.into(), pid }
        }
        Err(damaged) => damaged,
        Ok(_) => FabricError::IsUp { name: name.into() },
    }
}
