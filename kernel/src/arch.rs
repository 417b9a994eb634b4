//! The two architectures, each with the one machine of QEMU's that it is built for.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail};

/// An architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arch {
    /// A PC: QEMU's q35 with an Intel IOMMU.
    #[default]
    X86_64,
    /// QEMU's virt with a Cortex-A57, a GICv2 and an SMMUv3.
    Aarch64,
}

impl Arch {
    /// Both.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The spelling on the command line and in folder names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's name for a program of this architecture on bare metal, without floating point registers: nothing here needs them, and the
    /// kernel saves them for those who use them.
    pub const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Aarch64 => "aarch64-unknown-none-softfloat",
        }
    }

    /// The prefix of the C tools' names.
    pub const fn tool_prefix(self) -> &'static str {
        match self {
            Self::X86_64 => "",
            Self::Aarch64 => "aarch64-linux-gnu-",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = Error;

    /// Fails on another name, and says which there are.
    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|arch| arch.as_str() == text) {
            Some(arch) => Ok(arch),
            None => bail!("there is no architecture '{text}': write x86_64 or aarch64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_others_are_refused_with_the_names() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse::<Arch>().unwrap(), arch);
        }
        let error = "arm".parse::<Arch>().unwrap_err().to_string();
        assert_eq!(error, "there is no architecture 'arm': write x86_64 or aarch64");
    }
}
