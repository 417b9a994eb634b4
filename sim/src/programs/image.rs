//! The image of a simulated program: an ELF file whose code is the program's name.

use capdl::Arch;

/// The beginning of a program's image.
const MARK: &[u8] = b"simulated program ";
/// Bytes of the mark and the name, padded with zeros.
pub(crate) const IMAGE_BYTES: usize = 64;
const PAGE: u64 = 4096;

/// The name in an image that begins with `bytes`.
pub(super) fn name(bytes: &[u8]) -> Option<&[u8]> {
    let name = bytes.strip_prefix(MARK)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    name.get(..end)
}

/// The number of an architecture in an ELF file's header (System V ABI, `e_machine`).
const fn machine(arch: Arch) -> u8 {
    match arch {
        Arch::X86_64 => 62,
        Arch::Aarch64 => 183,
    }
}

/// An ELF file (System V ABI) with two segments of a page, the first at `base`.
pub(super) fn elf(name: &str, base: u64, arch: Arch) -> Vec<u8> {
    const HEADER: u64 = 64;
    const SEGMENT: u64 = 56;
    let mut elf = Vec::new();
    let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
    // 64-bit, little endian, version 1; executable, the machine, version 1.
    put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    put(&[2, 0, machine(arch), 0, 1, 0, 0, 0]);
    put(&base.to_le_bytes());
    put(&HEADER.to_le_bytes());
    put(&0u64.to_le_bytes());
    put(&0u32.to_le_bytes());
    // Sizes and numbers: header, program headers, no sections.
    [HEADER as u16, SEGMENT as u16, 2, 0, 0, 0].iter().for_each(|half| put(&half.to_le_bytes()));
    let (executable, writable) = (5u32, 6u32);
    for (flags, vaddr, bytes) in [(executable, base, IMAGE_BYTES as u64), (writable, base + PAGE, 0)] {
        put(&1u32.to_le_bytes());
        put(&flags.to_le_bytes());
        [PAGE, vaddr, vaddr, bytes, PAGE, PAGE].iter().for_each(|word| put(&word.to_le_bytes()));
    }
    elf.resize(PAGE as usize, 0);
    elf.extend_from_slice(MARK);
    elf.extend_from_slice(name.as_bytes());
    elf.resize(PAGE as usize + IMAGE_BYTES, 0);
    elf
}

// No test names the programs themselves: the library's tests would contain all of them, and take a minute to build.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_whose_it_is_and_nothing_else_does() {
        for (program, arch) in
            [("console", Arch::X86_64), ("a-name-of-forty-characters-that-is-longest", Arch::Aarch64)]
        {
            let elf = elf(program, 0x0200_0000, arch);
            assert_eq!(name(&elf[PAGE as usize..]), Some(program.as_bytes()));
            assert_eq!(name(&elf), None);
        }
        assert_eq!(name(&[0; IMAGE_BYTES]), None);
        assert_eq!(name(b"simulated program without an end"), None);
    }
}
