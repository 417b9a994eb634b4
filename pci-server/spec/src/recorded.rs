//! The configuration space of an NVMe function like QEMU's (1b36:0010), typed in by hand, for tests.

/// 256 bytes of configuration space.
pub(crate) struct Recorded(pub(crate) [u8; 256]);

impl crate::capability::ConfigRead for Recorded {
    fn read32(&self, offset: u8) -> u32 {
        let at = usize::from(offset);
        u32::from_le_bytes(self.0[at..][..4].try_into().unwrap())
    }
}

impl Recorded {
    /// Overwrites the bytes at an offset.
    pub(crate) fn with(mut self, offset: usize, bytes: &[u8]) -> Self {
        self.0[offset..][..bytes.len()].copy_from_slice(bytes);
        self
    }

    /// No capabilities, no BARs, all zeroes except for the status bit of the list.
    pub(crate) fn empty() -> Self {
        Self([0; 256]).with(0x06, &[0x10, 0x00])
    }

    /// Capabilities MSI-X at 40h, PCI Express at 80h, power management at 60h, in this order.
    pub(crate) fn nvme() -> Self {
        Self::empty()
            .with(0x00, &[0x36, 0x1b, 0x10, 0x00]) // vendor, device
            .with(0x04, &[0x06, 0x04, 0x10, 0x00]) // command: memory, master, no INTx; status: list
            .with(0x08, &[0x02, 0x02, 0x08, 0x01]) // revision 2, class 010802
            .with(0x0c, &[0x00, 0x00, 0x00, 0x00]) // header type 0
            .with(0x10, &[0x04, 0x00, 0xbf, 0xfe]) // BAR 0, 64 bits wide
            .with(0x2c, &[0xf4, 0x1a, 0x00, 0x11]) // subsystem
            .with(0x34, &[0x40])
            .with(0x3c, &[0x00, 0x01]) // INTA
            .with(0x40, &[0x11, 0x80, 0x40, 0x80]) // 65 entries, enabled
            .with(0x44, &[0x00, 0x20, 0x00, 0x00]) // table in BAR 0 at 2000h
            .with(0x48, &[0x00, 0x30, 0x00, 0x00]) // PBA in BAR 0 at 3000h
            .with(0x60, &[0x01, 0x00, 0x03, 0x00])
            .with(0x80, &[0x10, 0x60, 0x02, 0x00]) // version 2, endpoint
            .with(0x84, &[0x00, 0x80, 0x00, 0x10]) // role-based errors, FLR
            .with(0x88, &[0x00, 0x00, 0x20, 0x00]) // transactions pending
    }
}
