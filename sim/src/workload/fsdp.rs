//! Training with fully sharded data parallelism: rings between servers, layer by layer.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::error::{WorkloadError, possible_count, possible_length};
use super::message::{Message, Start, Workload};
use crate::time::Ps;

/// The backward pass between servers (OFAN, section 8.4 and Fig. 14). Each logical GPU sends to
/// that `gpus_per_server` numbers further, so there is one ring per GPU of a server. Traffic within
/// a server does not cross the fabric.
///
/// The paper gives packets per flow and the number of layers, but not the order of the phases. Here
/// each layer is one phase. A GPU starts the next phase when its own flow and the flow to it have
/// been delivered and `compute` has passed. (For 7B and 70B, a flow is as large as one ring step of
/// a layer's ReduceScatter plus one of its AllGather.)
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fsdp {
    /// Number of servers in the ring.
    pub servers: u32,
    /// Number of GPUs in each server, each with an interface.
    pub gpus_per_server: u32,
    /// Payload of each flow.
    pub bytes_per_flow: u64,
    /// Number of phases.
    pub layers: u32,
    /// Time between the phases of a GPU.
    pub compute: Ps,
}

/// A plan with packets of 4096 bytes and 1024 GPUs.
const fn llama(packets_per_flow: u64, layers: u32) -> Fsdp {
    Fsdp {
        servers: 128,
        gpus_per_server: 8,
        bytes_per_flow: packets_per_flow * 4096,
        layers,
        compute: Ps::ZERO,
    }
}

impl Fsdp {
    /// Llama 7B on 1024 GPUs.
    pub const LLAMA_7B: Fsdp = llama(104, 32);
    /// Llama 70B on 1024 GPUs.
    pub const LLAMA_70B: Fsdp = llama(418, 80);
    /// Llama 405B on 1024 GPUs.
    pub const LLAMA_405B: Fsdp = llama(1570, 126);

    /// Returns the messages, layer by layer; each layer is a group. Servers are placed at random:
    /// server `p` of the fabric has the interfaces from `p * gpus_per_server`.
    ///
    /// # Errors
    /// There are fewer than two servers or more than `nodes` interfaces hold, a length is
    /// impossible, or the messages are too many.
    pub fn workload(&self, nodes: u32, seed: u64) -> Result<Workload, WorkloadError> {
        let Fsdp { servers, gpus_per_server, .. } = *self;
        let slots = nodes.checked_div(gpus_per_server).unwrap_or(0);
        if !(2..=slots).contains(&servers) {
            return Err(WorkloadError::Servers { servers, gpus_per_server, nodes });
        }
        possible_length(self.bytes_per_flow)?;
        let gpus = servers * gpus_per_server;
        possible_count(u64::from(gpus) * u64::from(self.layers))?;

        let mut placed: Vec<u32> = (0..slots).collect();
        placed.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        let nic = |gpu: u32| {
            placed[(gpu / gpus_per_server) as usize] * gpus_per_server + gpu % gpus_per_server
        };
        let mut workload = Workload::default();
        for (layer, gpu) in
            (0..self.layers).flat_map(|layer| (0..gpus).map(move |gpu| (layer, gpu)))
        {
            let start = self.start(layer, gpu, &mut workload);
            let (src, dst) = (nic(gpu), nic((gpu + gpus_per_server) % gpus));
            let flow = Message::at_once(src, dst, self.bytes_per_flow, layer);
            workload.messages.push(Message { start, ..flow });
        }
        Ok(workload)
    }

    fn start(&self, layer: u32, gpu: u32, workload: &mut Workload) -> Start {
        if layer == 0 {
            return Start::At(Ps::ZERO);
        }
        let gpus = self.servers * self.gpus_per_server;
        let before = (layer - 1) * gpus;
        let own = before + gpu;
        let came = before + (gpu + gpus - self.gpus_per_server) % gpus;
        workload.after_deliveries([own, came], self.compute, layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Fsdp {
        Fsdp { servers: 4, gpus_per_server: 2, layers: 3, ..Fsdp::LLAMA_7B }
    }

    #[test]
    fn rings_join_the_same_gpus_of_all_servers() {
        let workload = small().workload(8, 1).unwrap();
        workload.check(8).unwrap();
        assert_eq!(workload.messages.len(), 3 * 8);
        for first in [0, 1] {
            let next = |nic: u32| workload.messages.iter().find(|m| m.src == nic).unwrap().dst;
            let mut route: Vec<u32> =
                std::iter::successors(Some(first), |nic| Some(next(*nic))).take(4).collect();
            assert_eq!(next(route[3]), first);
            route.sort_unstable();
            assert_eq!(route, (0..4).map(|server| 2 * server + first).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_gpu_waits_for_its_own_flow_and_the_one_to_it() {
        let workload = small().workload(8, 1).unwrap();
        for (number, message) in workload.messages.iter().enumerate().skip(8) {
            let awaited = workload.awaited(number);
            let [own, came] = awaited[..] else { panic!("{awaited:?}") };
            let (own, came) = (&workload.messages[own as usize], &workload.messages[came as usize]);
            assert_eq!((own.src, came.dst), (message.src, message.src));
            assert_eq!((own.group, came.group), (message.group - 1, message.group - 1));
        }
    }

    #[test]
    fn the_papers_models_fit_1024_interfaces() {
        for (plan, packets, layers) in
            [(Fsdp::LLAMA_7B, 104, 32), (Fsdp::LLAMA_70B, 418, 80), (Fsdp::LLAMA_405B, 1570, 126)]
        {
            let workload = plan.workload(1024, 3).unwrap();
            workload.check(1024).unwrap();
            assert_eq!(workload.messages.len(), 1024 * layers);
            assert!(workload.messages.iter().all(|m| m.bytes == packets * 4096));
        }
        assert_ne!(Fsdp::LLAMA_7B.workload(1024, 3), Fsdp::LLAMA_7B.workload(1024, 4));
    }

    #[test]
    fn too_many_servers_are_refused() {
        let refused = small().workload(7, 1).unwrap_err().to_string();
        assert!(refused.contains("4 servers of 2 GPUs"), "{refused}");
        assert!(Fsdp { gpus_per_server: 0, ..small() }.workload(8, 1).is_err());
        assert!(Fsdp { servers: 1, ..small() }.workload(8, 1).is_err());
        assert!(Fsdp { bytes_per_flow: 0, ..small() }.workload(8, 1).is_err());
    }
}
