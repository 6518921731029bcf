//! The Global Route Header that a receiver of datagrams finds before the payload (IBTA vol. 1,
//! 8.3).

/// Bytes of a GRH.
pub(crate) const GRH_LEN: usize = 40;
/// Offsets of the two GIDs.
pub(crate) const GRH_SOURCE: usize = 8;
pub(crate) const GRH_DESTINATION: usize = 24;

/// Encodes a GRH of RoCE v2: version 6, next header 0x1B, hop limit 255.
pub(crate) fn encode(source: &[u8; 16], destination: &[u8; 16], payload: usize) -> [u8; GRH_LEN] {
    let mut grh = [0; GRH_LEN];
    grh[0] = 6 << 4;
    grh[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    (grh[6], grh[7]) = (0x1B, u8::MAX);
    grh[GRH_SOURCE..GRH_DESTINATION].copy_from_slice(source);
    grh[GRH_DESTINATION..].copy_from_slice(destination);
    grh
}
