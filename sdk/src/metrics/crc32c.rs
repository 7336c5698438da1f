//! CRC-32C (Castagnoli), which TensorBoard's record files use; RFC 3720, appendix B.4.

/// The polynomial 0x1EDC6F41, its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

const TABLE: [u32; 256] = table();

/// The checksum of `bytes`.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize];
    !bytes.iter().fold(!0, step)
}

/// The checksum as record files hold it: rotated and moved by a constant, so that a checksum of data that holds
/// checksums is none of its own.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn rfc_3720s_examples() {
        let counting: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        let cases: [(&[u8], u32); 5] = [
            (&[0; 32], 0x8A91_36AA),
            (&[0xff; 32], 0x62A8_AB43),
            (&counting, 0x46DD_794E),
            (&down, 0x113F_DB5C),
            (b"123456789", 0xE306_9283),
        ];
        for (bytes, sum) in cases {
            assert_eq!(crc32c(bytes), sum, "{bytes:?}");
        }
    }
}
