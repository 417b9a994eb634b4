//! Bytes as the standard's figures give them, for comparison with the bytes of the types.

/// `N` zero bytes but for the given pieces, each at its byte offset in the figure.
pub(crate) fn bytes<const N: usize>(pieces: &[(usize, &[u8])]) -> [u8; N] {
    let mut bytes = [0; N];
    for (offset, piece) in pieces {
        bytes[*offset..][..piece.len()].copy_from_slice(piece);
    }
    bytes
}
