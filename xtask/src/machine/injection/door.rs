//! QEMU's test port (`-qtest`): reads and writes the machine's memory from outside, as its processor would, while it runs. Each
//! line is a request or its answer.
//!
//! Left out: the port's other functions, such as stopping the machine's clock.

use crate::machine::inherited::{Inside, Port};
use anyhow::{Context, Result, ensure};
use kernel::Arch;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time QEMU may take to answer: it answers between two turns of its own work.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Our end of the test port.
pub(crate) struct Door {
    line: BufReader<UnixStream>,
    arch: Arch,
}

impl Door {
    /// Creates both ends of a test port of this architecture's machine.
    pub(crate) fn new(arch: Arch) -> Result<(Self, Inside)> {
        let (ours, inside) = Inside::pair(Port::Test)?;
        ours.set_read_timeout(Some(TIMEOUT)).context("cannot limit how long a socket is read")?;
        Ok((Self { line: BufReader::new(ours), arch }, inside))
    }

    /// Another owner of the same end. Each request is answered before the next one is made, by either owner.
    pub(crate) fn shared(&self) -> Result<Self> {
        let line = self.line.get_ref().try_clone().context("cannot share a socket")?;
        Ok(Self { line: BufReader::new(line), arch: self.arch })
    }

    /// The machine's architecture.
    pub(super) const fn arch(&self) -> Arch {
        self.arch
    }

    /// Reads 32 bits at a physical address.
    pub(crate) fn read32(&mut self, address: u64) -> Result<u32> {
        let value = self.ask(&format!("readl {address:#x}"))?;
        // QEMU answers with 64 bits.
        Ok(hexadecimal(&value)? as u32)
    }

    /// Reads 64 bits at a physical address.
    pub(crate) fn read64(&mut self, address: u64) -> Result<u64> {
        hexadecimal(&self.ask(&format!("readq {address:#x}"))?)
    }

    /// Reads so many bytes from a physical address on.
    pub(crate) fn read(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        let text = self.ask(&format!("read {address:#x} {bytes:#x}"))?;
        let digits = text.strip_prefix("0x").unwrap_or_default().as_bytes();
        ensure!(digits.len() == 2 * bytes, "QEMU answers a read of {bytes} bytes with {} digits", digits.len());
        let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two)?, 16).context("not a hexadecimal number");
        digits.chunks(2).map(byte).collect()
    }

    /// Writes 16 bits.
    pub(crate) fn write16(&mut self, address: u64, value: u16) -> Result<()> {
        self.ask(&format!("writew {address:#x} {value:#x}")).map(drop)
    }

    /// Writes 32 bits.
    pub(crate) fn write32(&mut self, address: u64, value: u32) -> Result<()> {
        self.ask(&format!("writel {address:#x} {value:#x}")).map(drop)
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        let asked = writeln!(self.line.get_mut(), "{command}");
        asked.with_context(|| format!("QEMU does not listen at its door for tests: {command}"))?;
        let mut answer = String::new();
        let read = self.line.read_line(&mut answer);
        read.with_context(|| format!("QEMU does not answer at its door for tests: {command}"))?;
        let answer = answer.trim_end();
        let value = answer.strip_prefix("OK").with_context(|| format!("QEMU answers {command} with '{answer}'"))?;
        Ok(value.trim_start().to_owned())
    }
}

fn hexadecimal(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x").with_context(|| format!("'{text}' is not a hexadecimal number"))?;
    u64::from_str_radix(digits, 16).with_context(|| format!("'{text}' is not a hexadecimal number"))
}

/// Memory of a machine behind the test port, for tests: bytes that were never written are zero.
#[cfg(test)]
pub(crate) mod memory {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::thread;

    /// Bytes by address.
    pub(crate) type Memory = Arc<Mutex<BTreeMap<u64, u8>>>;

    /// Writes a number at an address.
    pub(crate) fn put(memory: &Memory, address: u64, bytes: &[u8]) {
        memory.lock().unwrap().extend((address..).zip(bytes.iter().copied()));
    }

    /// The little-endian number of so many bytes at an address.
    pub(crate) fn get(memory: &Memory, address: u64, bytes: u64) -> u64 {
        let memory = memory.lock().unwrap();
        let byte = |at: u64| u64::from(memory.get(&(address + at)).copied().unwrap_or(0));
        (0..bytes).map(|at| byte(at) << (8 * at)).sum()
    }

    /// A test port to this memory.
    pub(crate) fn door(memory: &Memory) -> Door {
        let (door, inside) = Door::new(Arch::X86_64).unwrap();
        let memory = Arc::clone(memory);
        thread::spawn(move || {
            let mut line = BufReader::new(inside.into_stream());
            let mut command = String::new();
            while line.read_line(&mut command).is_ok_and(|read| read > 0) {
                let answer = answer(&memory, command.trim_end());
                writeln!(line.get_mut(), "{answer}").unwrap();
                command.clear();
            }
        });
        door
    }

    fn answer(memory: &Memory, command: &str) -> String {
        let words: Vec<_> = command.split(' ').collect();
        let number = |index: usize| hexadecimal(words[index]).unwrap();
        match words[0] {
            "readl" => format!("OK {:#018x}", get(memory, number(1), 4)),
            "readq" => format!("OK {:#018x}", get(memory, number(1), 8)),
            "read" => {
                let byte = |at: u64| format!("{:02x}", get(memory, number(1) + at, 1));
                format!("OK 0x{}", (0..number(2)).map(byte).collect::<String>())
            }
            "writew" => {
                put(memory, number(1), &number(2).to_le_bytes()[..2]);
                "OK".into()
            }
            "writel" => {
                put(memory, number(1), &number(2).to_le_bytes()[..4]);
                "OK".into()
            }
            _ => format!("FAIL Unknown command '{}'", words[0]),
        }
    }

    #[test]
    fn registers_read_back_in_every_width() {
        let memory = Memory::default();
        let mut door = door(&memory);
        door.write32(0x1000, 0x4433_2211).unwrap();
        door.write16(0x1004, 0x6655).unwrap();
        assert_eq!(door.read32(0x1002).unwrap(), 0x6655_4433);
        assert_eq!(door.read64(0x1000).unwrap(), 0x6655_4433_2211);
        assert_eq!(door.read(0x1000, 3).unwrap(), [0x11, 0x22, 0x33]);
        assert!(door.ask("explode").unwrap_err().to_string().contains("FAIL"));
    }
}
