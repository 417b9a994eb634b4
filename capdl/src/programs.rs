//! The components' programs: parses ELF files into segments that become frames.
//!
//! It reads only what the loader needs: entry and loadable segments. It refuses a segment that is both writable and executable,
//! and a page that two segments with different rights share. Programs are static and linked at fixed addresses.

use crate::error::BuildError;
pub(crate) use capdl_check::programs::{Program, Segment};
pub use capdl_check::programs::{ROOT_TASK, Row, TABLE, of};
use capdl_spec::Arch;
use object::elf::{EM_AARCH64, EM_X86_64, PF_W, PF_X, PT_DYNAMIC, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf::FileHeader64};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Programs lie between these addresses.
const PROGRAM_RANGE: Range<u64> = 0x0040_0000..0x1000_0000;
/// First address of users' own crates.
const OWN: u64 = 0x0f00_0000;
/// Distance between two users' own crates: instructions are counted by address.
const OWN_STRIDE: u64 = 2 << 20;

/// The address of a scenario's own crate number `index`, from 0; none beyond the eighth.
#[must_use]
pub fn own_base(index: usize) -> Option<u64> {
    let base = OWN.checked_add(OWN_STRIDE.checked_mul(index as u64)?)?;
    (base < PROGRAM_RANGE.end).then_some(base)
}

/// The programs of a system by name: `console`, `pci-server`, `nvme-server`, and the clients' programs.
#[derive(Clone, Default, Debug)]
pub struct Programs {
    files: BTreeMap<String, Vec<u8>>,
}

impl Programs {
    /// No programs yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the program `name`, an ELF file's bytes.
    #[must_use]
    pub fn with(mut self, name: &str, elf: Vec<u8>) -> Self {
        self.files.insert(name.into(), elf);
        self
    }

    /// Loads the programs `names` from the files of those names in the folder `folder`.
    ///
    /// # Errors
    /// [`BuildError::Unreadable`].
    pub fn load(folder: &Path, names: &[&str]) -> Result<Self, BuildError> {
        let mut programs = Self::new();
        for name in names {
            let path = folder.join(name);
            let elf = std::fs::read(&path).map_err(|error| BuildError::Unreadable {
                path: path.display().to_string(),
                error: error.to_string(),
            })?;
            programs.files.insert((*name).into(), elf);
        }
        Ok(programs)
    }

    /// The programs of `names` that are there, parsed.
    pub(crate) fn among(&self, names: &[&str]) -> Result<Vec<(String, Program)>, BuildError> {
        let there = self.files.keys().filter(|name| names.contains(&name.as_str()));
        there.map(|name| Ok((name.clone(), self.program(name)?))).collect()
    }

    /// Parses the program `name`.
    pub(crate) fn program(&self, name: &str) -> Result<Program, BuildError> {
        let elf = self.files.get(name).ok_or_else(|| BuildError::NoProgram { program: name.into() })?;
        parse(elf).map_err(|reason| BuildError::BadProgram { program: name.into(), reason })
    }
}

fn parse(elf: &[u8]) -> Result<Program, String> {
    let header =
        FileHeader64::<Endianness>::parse(elf).map_err(|error| format!("is not a 64-bit ELF file ({error})"))?;
    let endian = header.endian().map_err(|error| error.to_string())?;
    let arch = arch(header.e_machine(endian)).ok_or("is for neither x86_64 nor AArch64")?;
    let mut segments = Vec::new();
    for program_header in header.program_headers(endian, elf).map_err(|error| error.to_string())? {
        match program_header.p_type(endian) {
            PT_LOAD if program_header.p_memsz(endian) > 0 => segments.push(segment(program_header, endian, elf)?),
            PT_INTERP => return Err("asks for a dynamic linker: link it statically".into()),
            PT_DYNAMIC if program_header.p_memsz(endian) > 0 && header.e_type(endian) == object::elf::ET_DYN => {
                return Err("is position-independent: link it at its fixed address".into());
            }
            _ => {}
        }
    }
    segments.sort_by_key(|segment| segment.vaddr);
    let segments = join(segments)?;
    let entry = header.e_entry(endian);
    let runs = |segment: &&Segment| segment.executable && (segment.vaddr..segment.vaddr + segment.len).contains(&entry);
    segments.iter().find(runs).ok_or_else(|| format!("has its entry {entry:#x} outside its code"))?;
    Ok(Program { arch, entry, segments })
}

const fn arch(machine: u16) -> Option<Arch> {
    match machine {
        EM_X86_64 => Some(Arch::X86_64),
        EM_AARCH64 => Some(Arch::Aarch64),
        _ => None,
    }
}

fn segment<H: ProgramHeader<Endian = Endianness, Word = u64>>(
    header: &H,
    endian: Endianness,
    elf: &[u8],
) -> Result<Segment, String> {
    let (vaddr, len) = (header.p_vaddr(endian), header.p_memsz(endian));
    let flags = header.p_flags(endian);
    let (writable, executable) = (flags & PF_W != 0, flags & PF_X != 0);
    if writable && executable {
        return Err(format!("has a segment at {vaddr:#x} that is writable and executable: separate data from code"));
    }
    let end = vaddr.checked_add(len).filter(|end| *end <= PROGRAM_RANGE.end);
    if end.is_none() || vaddr < PROGRAM_RANGE.start {
        return Err(format!(
            "has a segment at {vaddr:#x} outside {:#x}..{:#x}",
            PROGRAM_RANGE.start, PROGRAM_RANGE.end
        ));
    }
    let bytes = header.data(endian, elf).map_err(|()| format!("lacks the bytes of its segment at {vaddr:#x}"))?;
    if bytes.len() as u64 > len {
        return Err(format!("has a segment at {vaddr:#x} larger in the file than in memory"));
    }
    Ok(Segment { vaddr, len, bytes: bytes.to_vec(), writable, executable })
}

/// Joins segments that share a page and have the same rights.
fn join(sorted: Vec<Segment>) -> Result<Vec<Segment>, String> {
    let mut joined: Vec<Segment> = Vec::new();
    for segment in sorted {
        match joined.last_mut() {
            Some(last) if last.end_page() > segment.first_page() => {
                if last.vaddr + last.len > segment.vaddr {
                    return Err(format!("has overlapping segments at {:#x}", segment.vaddr));
                }
                if (last.writable, last.executable) != (segment.writable, segment.executable) {
                    return Err(format!(
                        "has segments with different rights on the page of {:#x}: align them",
                        segment.vaddr
                    ));
                }
                last.bytes.resize((segment.vaddr - last.vaddr) as usize, 0);
                last.bytes.extend_from_slice(&segment.bytes);
                last.len = segment.vaddr + segment.len - last.vaddr;
            }
            _ => joined.push(segment),
        }
    }
    Ok(joined)
}

#[cfg(test)]
pub(crate) mod tests;
