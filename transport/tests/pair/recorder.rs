//! A controller from outside the crate that writes down what it is told, and answers what the test
//! wants.

use std::fmt;
use std::sync::{Arc, Mutex};

use braid_cc::{AckSample, CcConfig, Chunk, Controller, ControllerFactory, Loss, Metrics, Subflow};
use braid_wire::Time;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Told {
    Ack(AckSample),
    Loss(Loss),
    Timeout(Time),
    Chunk(Chunk),
}

/// The limits that the controller sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    pub(crate) window: u64,
    pub(crate) rate: Option<u64>,
    pub(crate) chunk_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    answers: Arc<Mutex<Answers>>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Recorder {
    pub(crate) fn new(answers: Answers) -> Self {
        Recorder { answers: Arc::new(Mutex::new(answers)), told: Arc::default() }
    }

    pub(crate) fn config(&self) -> CcConfig {
        CcConfig::new(self.clone())
    }

    /// Returns the reports since the last call.
    pub(crate) fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    pub(crate) fn acks(&self) -> Vec<AckSample> {
        let ack = |told| if let Told::Ack(ack) = told { Some(ack) } else { None };
        self.told().into_iter().filter_map(ack).collect()
    }

    /// Applies from the next report on.
    pub(crate) fn set_window(&self, window: u64) {
        self.answers.lock().unwrap().window = window;
    }

    fn answers(&self) -> Answers {
        *self.answers.lock().unwrap()
    }

    fn tell(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recorder")
    }
}

impl ControllerFactory for Recorder {
    fn build(&self, _: &Subflow) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Controller for Recorder {
    fn on_ack(&mut self, ack: &AckSample) {
        self.tell(Told::Ack(*ack));
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.tell(Told::Loss(*loss));
    }

    fn on_timeout(&mut self, now: Time) {
        self.tell(Told::Timeout(now));
    }

    fn chunk_bytes(&self) -> Option<u64> {
        self.answers().chunk_bytes
    }

    fn on_chunk(&mut self, chunk: &Chunk) {
        self.tell(Told::Chunk(*chunk));
    }

    fn window(&self) -> u64 {
        self.answers().window
    }

    fn rate(&mut self, _: Time) -> Option<u64> {
        self.answers().rate
    }

    fn metrics(&self) -> Metrics {
        let Answers { window, rate, .. } = self.answers();
        Metrics { window, bits_per_second: rate }
    }
}
