//! Image that QEMU boots as the root task: the root task's program, with the system as its payload.
//!
//! The root task's ELF file reserves its last loadable segment for the payload. The image is a new ELF file with the payload in
//! that segment.

pub mod boot;
pub mod own;
pub mod programs;
mod workspace;

use anyhow::{Context, Result, ensure};
use kernel::elf;
use object::{LittleEndian, U64};

const LE: LittleEndian = LittleEndian;
const PAGE: u64 = 4096;

/// The image of `root_task`, an ELF file, with `payload` in its last loadable segment.
pub fn with_payload(root_task: &[u8], payload: &[u8]) -> Result<Vec<u8>> {
    let (header, mut parts) = elf::read(root_task, "the root task's program")?;
    let (last, bytes) = parts.last_mut().context("the root task's program has nothing to load")?;
    ensure!(
        last.p_vaddr.get(LE) % PAGE == 0,
        "the payload's place in the root task's program does not begin on a page: is it linked with root-task.ld?"
    );
    *bytes = payload;
    last.p_filesz = U64::new(LE, payload.len() as u64);
    last.p_memsz = U64::new(LE, payload.len() as u64);
    Ok(elf::write(header, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::elf::{Header, Segment, write};
    use object::elf::PT_LOAD;
    use object::elf::{ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, ET_EXEC, EV_CURRENT, Ident};
    use object::read::elf::{FileHeader, ProgramHeader};
    use object::{U16, U32};

    fn header() -> Header {
        Header {
            e_ident: Ident {
                magic: ELFMAG,
                class: ELFCLASS64,
                data: ELFDATA2LSB,
                version: EV_CURRENT,
                os_abi: 0,
                abi_version: 0,
                padding: [0; 7],
            },
            e_type: U16::new(LE, ET_EXEC),
            e_machine: U16::new(LE, EM_X86_64),
            e_version: U32::new(LE, 1),
            e_entry: U64::new(LE, 0x40_0010),
            e_phoff: U64::new(LE, 0),
            e_shoff: U64::new(LE, 99),
            e_flags: U32::new(LE, 0),
            e_ehsize: U16::new(LE, 64),
            e_phentsize: U16::new(LE, 56),
            e_phnum: U16::new(LE, 0),
            e_shentsize: U16::new(LE, 64),
            e_shnum: U16::new(LE, 7),
            e_shstrndx: U16::new(LE, 6),
        }
    }

    fn segment(vaddr: u64, bytes: &[u8], memory: u64) -> (Segment, &[u8]) {
        let segment = Segment {
            p_type: U32::new(LE, PT_LOAD),
            p_flags: U32::new(LE, 5),
            p_offset: U64::new(LE, 0),
            p_vaddr: U64::new(LE, vaddr),
            p_paddr: U64::new(LE, vaddr),
            p_filesz: U64::new(LE, bytes.len() as u64),
            p_memsz: U64::new(LE, memory),
            p_align: U64::new(LE, 4096),
        };
        (segment, bytes)
    }

    fn loaded(elf: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let header = Header::parse(elf).unwrap();
        let segments = header.program_headers(LE, elf).unwrap();
        let load = |s: &Segment| (s.p_vaddr(LE), s.p_memsz(LE), s.data(LE, elf).unwrap().to_vec());
        segments.iter().map(load).collect()
    }

    #[test]
    fn the_last_segment_holds_the_payload_and_the_others_stay() {
        let code = vec![0x90; 5000];
        let elf = write(
            header(),
            vec![segment(0x40_0010, &code, 5000), segment(0x60_0123, b"data", 9000), segment(0x80_0000, b"x", 4096)],
        );
        let image = with_payload(&elf, &[7; 10_000]).unwrap();
        let expected =
            vec![(0x40_0010, 5000, code), (0x60_0123, 9000, b"data".to_vec()), (0x80_0000, 10_000, vec![7; 10_000])];
        assert_eq!(loaded(&image), expected);
        assert_eq!(Header::parse(&*image).unwrap().e_entry.get(LE), 0x40_0010);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(with_payload(b"#!/bin/sh", b"").is_err());
        let cut = write(header(), vec![segment(0x40_0000, &[1; 100], 100)]);
        assert!(with_payload(&cut[..cut.len() - 10], b"").is_err());
        let misplaced = write(header(), vec![segment(0x40_0010, &[1; 100], 100)]);
        assert!(with_payload(&misplaced, b"").unwrap_err().to_string().contains("root-task.ld"));
    }
}
