use super::*;

/// Writable data.
pub(crate) const RW: u32 = PF_W | object::elf::PF_R;
/// Code.
pub(crate) const RX: u32 = PF_X | object::elf::PF_R;
/// Constants.
pub(crate) const R: u32 = object::elf::PF_R;

/// A segment to write: address, bytes in memory, bytes in the file, flags.
pub(crate) type Written<'a> = (u64, u64, &'a [u8], u32);

/// An ELF file of these segments that starts at `entry`.
pub(crate) fn elf(entry: u64, segments: &[Written]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend(2u16.to_le_bytes()); // executable
    file.extend(62u16.to_le_bytes()); // x86_64
    file.extend(1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64, 56, segments.len() as u16, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    let mut offset = 64 + 56 * segments.len() as u64;
    for (vaddr, len, bytes, flags) in segments {
        file.extend(PT_LOAD.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [offset, *vaddr, *vaddr, bytes.len() as u64, *len, 4096] {
            file.extend(word.to_le_bytes());
        }
        offset += bytes.len() as u64;
    }
    for (_, _, bytes, _) in segments {
        file.extend_from_slice(bytes);
    }
    file
}

/// A program with code, constants and data at `base`.
pub(crate) fn sample(base: u64) -> Vec<u8> {
    let segments: [Written; 3] = [
        (base, 0x1800, &[0x11; 0x1800], R),
        (base + 0x2800, 0x1000, &[0x22; 0x1000], RX),
        (base + 0x4800, 0x5000, &[0x33; 0x100], RW),
    ];
    elf(base + 0x2900, &segments)
}

/// A sample program for an architecture.
pub(crate) fn sample_for(arch: Arch, base: u64) -> Vec<u8> {
    let mut elf = sample(base);
    let machine = match arch {
        Arch::X86_64 => EM_X86_64,
        Arch::Aarch64 => EM_AARCH64,
    };
    elf[18..20].copy_from_slice(&machine.to_le_bytes());
    elf
}

/// All programs of a system.
pub(crate) fn samples() -> Programs {
    samples_for(Arch::X86_64)
}

/// All programs of a system, for an architecture.
pub(crate) fn samples_for(arch: Arch) -> Programs {
    // A user's own, too.
    let own = own_base(0).map(|base| ("fat", base));
    let all = TABLE.iter().filter(|row| row.name != ROOT_TASK).map(|row| (row.name, row.base)).chain(own);
    all.fold(Programs::new(), |programs, (name, base)| programs.with(name, sample_for(arch, base)))
}

fn refusal(entry: u64, segments: &[Written]) -> String {
    parse(&elf(entry, segments)).unwrap_err()
}

#[test]
fn segments_keep_their_place_and_rights() {
    let program = parse(&sample(0x0200_0000)).unwrap();
    assert_eq!(program.entry, 0x0200_2900);
    let shapes: Vec<_> =
        program.segments.iter().map(|s| (s.first_page(), s.pages(), s.writable, s.executable)).collect();
    assert_eq!(shapes, [(0x0200_0000, 2, false, false), (0x0200_2000, 2, false, true), (0x0200_4000, 6, true, false)]);
}

#[test]
fn writable_code_is_refused() {
    assert!(refusal(0x40_0000, &[(0x40_0000, 16, &[0; 16], RW | PF_X)]).contains("writable and executable"));
}

#[test]
fn code_and_data_on_one_page_are_refused() {
    let shared: [Written; 2] = [(0x40_0000, 16, &[1; 16], RX), (0x40_0800, 16, &[2; 16], RW)];
    assert!(refusal(0x40_0000, &shared).contains("different rights"));
    let alike: [Written; 2] = [(0x40_0000, 16, &[1; 16], RX), (0x40_0800, 16, &[2; 16], RX)];
    let program = parse(&elf(0x40_0000, &alike)).unwrap();
    assert_eq!(program.segments.len(), 1);
    assert_eq!(program.segments[0].bytes.len(), 0x810);
    assert_eq!(program.segments[0].bytes[0x800], 2);
}

#[test]
fn programs_that_lie_elsewhere_or_start_nowhere_are_refused() {
    assert!(refusal(0x1000, &[(0x1000, 16, &[0; 16], RX)]).contains("outside"));
    assert!(refusal(0x40_0000, &[(u64::MAX - 4, 16, &[0; 16], RX)]).contains("outside"));
    assert!(refusal(0x50_0000, &[(0x40_0000, 16, &[0; 16], RX)]).contains("entry"));
    assert!(parse(b"#!/bin/sh").unwrap_err().contains("ELF"));
}

#[test]
fn instructions_of_two_programs_are_told_apart() {
    let mut bases: Vec<_> = TABLE.iter().map(|row| row.base).collect();
    bases.sort_unstable();
    bases.push(OWN);
    assert!(bases.windows(2).all(|two| two[0] >> 24 < two[1] >> 24), "{bases:x?}");
}
