//! ELF files of 64 bits, rewritten from their loadable segments: debug information and section tables stay out of the machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::elf::{FileHeader64, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, U16, U64, pod};

/// The file's header.
pub type Header = FileHeader64<LittleEndian>;
/// A segment's header.
pub type Segment = ProgramHeader64<LittleEndian>;

const LE: LittleEndian = LittleEndian;
const PAGE: usize = 4096;

/// A segment and its bytes in the file.
pub type Part<'a> = (Segment, &'a [u8]);

/// The header of an ELF file and its loadable segments, with their bytes, in the order of their addresses. `name` names the
/// file in the error's sentence.
pub fn read<'a>(elf: &'a [u8], name: &str) -> Result<(Header, Vec<Part<'a>>)> {
    let header = *Header::parse(elf).ok().with_context(|| format!("{name} is not a 64-bit ELF file"))?;
    let segments = header.program_headers(LE, elf).ok().with_context(|| format!("{name} has no segments"))?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for segment in segments.iter().filter(|segment| segment.p_type(LE) == PT_LOAD && segment.p_memsz(LE) > 0) {
        let bytes = segment.data(LE, elf).ok().with_context(|| format!("{name} is cut short"))?;
        parts.push((*segment, bytes));
    }
    parts.sort_by_key(|(segment, _)| segment.p_vaddr(LE));
    Ok((header, parts))
}

/// The address of the symbol `name` in an ELF file. Fails when the file cannot be read or has no such symbol.
pub fn address(file: &Path, name: &str) -> Result<u64> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let elf = object::File::parse(&*bytes).with_context(|| format!("{} is not an ELF file", file.display()))?;
    let symbol = elf.symbol_by_name(name).with_context(|| format!("{} has no symbol {name}", file.display()))?;
    Ok(symbol.address())
}

/// An ELF file of a header and loadable segments.
pub fn write(mut header: Header, parts: Vec<Part<'_>>) -> Vec<u8> {
    let table = size_of::<Header>();
    header.e_phoff = U64::new(LE, table as u64);
    header.e_phnum = U16::new(LE, parts.len() as u16);
    header.e_shoff = U64::new(LE, 0);
    header.e_shnum = U16::new(LE, 0);
    header.e_shstrndx = U16::new(LE, 0);
    let mut at = table + parts.len() * size_of::<Segment>();
    let mut headers = pod::bytes_of(&header).to_vec();
    let mut body = Vec::new();
    for (mut segment, bytes) in parts {
        // Offsets are congruent to addresses, as the format asks.
        let aligned = at.next_multiple_of(PAGE) + segment.p_vaddr(LE) as usize % PAGE;
        body.resize(body.len() + aligned - at, 0);
        body.extend_from_slice(bytes);
        at = aligned + bytes.len();
        segment.p_offset = U64::new(LE, aligned as u64);
        segment.p_align = U64::new(LE, PAGE as u64);
        headers.extend_from_slice(pod::bytes_of(&segment));
    }
    headers.append(&mut body);
    headers
}
