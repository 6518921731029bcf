//! Which of the duplicates that the peer reports are unnecessary retransmissions of ours.

/// Counts both against each other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SpuriousDetector {
    /// The peer's count of duplicates, as it said last.
    duplicates: u32,
    /// Retransmissions that a duplicate may be explained by.
    suspects: u32,
}

impl SpuriousDetector {
    pub(crate) fn on_retransmission(&mut self) {
        self.suspects = self.suspects.saturating_add(1);
    }

    /// An acknowledgement reports so many duplicates in all. Returns how many retransmissions that
    /// newly shows to have been spurious; what they do not explain the network has duplicated.
    pub(crate) fn on_duplicates(&mut self, reported: u32) -> u32 {
        let new = reported.wrapping_sub(self.duplicates);
        // An overtaken ack reports fewer than we know of.
        if new > u32::MAX / 2 {
            return 0;
        }
        self.duplicates = reported;
        let spurious = new.min(self.suspects);
        self.suspects -= spurious;
        spurious
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_without_retransmissions_are_the_networks() {
        let mut detector = SpuriousDetector::default();
        assert_eq!(detector.on_duplicates(5), 0);
        detector.on_retransmission();
        assert_eq!(detector.on_duplicates(7), 1);
        assert_eq!(detector.on_duplicates(6), 0, "an overtaken ack");
        assert_eq!(detector.on_duplicates(8), 0);
    }

    #[test]
    fn the_count_wraps() {
        let mut detector = SpuriousDetector { duplicates: u32::MAX, suspects: 3 };
        assert_eq!(detector.on_duplicates(1), 2);
    }
}
