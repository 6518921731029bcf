//! Detection of spurious retransmissions by the duplicates that the peer reports.

/// Compares the number of duplicates with the number of retransmissions.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SpuriousDetector {
    /// The number of duplicates that the peer reported last.
    duplicates: u32,
    /// Retransmissions that a duplicate may be explained by.
    suspects: u32,
}

impl SpuriousDetector {
    pub(crate) fn on_retransmission(&mut self) {
        self.suspects = self.suspects.saturating_add(1);
    }

    /// Takes the total number of duplicates from an acknowledgement. Returns the number of
    /// retransmissions that are newly known to be spurious. Further duplicates were made by the
    /// network.
    pub(crate) fn on_duplicates(&mut self, reported: u32) -> u32 {
        let new = reported.wrapping_sub(self.duplicates);
        // An overtaken ack reports fewer duplicates than are known already.
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
