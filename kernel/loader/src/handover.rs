//! The handover: data that the build machine passes to the loader.

/// Start of memory, and of the kernel's image.
pub const PHYSICAL_BASE: u64 = 0x4000_0000;
/// Start of the loader's image, with a [`Handover`]: above every kernel's image and below the root task's.
pub const HANDOVER_ADDRESS: u64 = 0x4040_0000;
/// The latest end of the loader's image, and the start of the root task's.
pub const LOADER_END: u64 = 0x4060_0000;

/// The places of kernel and root task in memory. Addresses are physical unless they are called virtual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Handover {
    /// Bytes of memory from [`PHYSICAL_BASE`] on that the kernel was built for.
    pub memory_bytes: u64,
    /// The kernel's first instruction, virtual.
    pub kernel_entry: u64,
    /// The virtual address of [`PHYSICAL_BASE`] in the kernel.
    pub kernel_base: u64,
    /// The root task's image: its first byte.
    pub image_start: u64,
    /// The byte behind it.
    pub image_end: u64,
    /// The image's physical address less its virtual one, modulo 2^64.
    pub image_offset: u64,
    /// The image's first instruction, virtual.
    pub image_entry: u64,
}

impl Handover {
    /// Words of a handover.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// The handover's bytes in memory.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        let Self { memory_bytes, kernel_entry, kernel_base, image_start, image_end, image_offset, image_entry } = *self;
        let words = [memory_bytes, kernel_entry, kernel_base, image_start, image_end, image_offset, image_entry];
        let mut bytes = [0; size_of::<Self>()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}
