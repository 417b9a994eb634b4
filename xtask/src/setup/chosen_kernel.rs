//! The kernel that a command boots: the project's own, or one that the user installed.

use crate::out;
use crate::project::Project;
use crate::records::results::OtherKernel;
use crate::setup::packages::Consent;
use anyhow::{Context, Result, ensure};
use capdl::{Scenario, System};
use clap::Args;
use kernel::installed::Place;
use kernel::{Arch, BuildOptions, Kernel};
use std::path::PathBuf;

/// The kernel of a command's systems.
#[derive(Debug, Default, Args)]
pub struct ChosenKernel {
    /// Prefix of an installed seL4, 13.0.0 or later; without it that of SEL4_PREFIX_x86_64, SEL4_PREFIX_aarch64 or SEL4_PREFIX, or else
    /// the project's own seL4 5.0.0
    #[arg(long, value_name = "PREFIX")]
    kernel: Option<PathBuf>,
}

impl ChosenKernel {
    /// The options of its build, which takes place only if it is the project's own.
    pub fn options(&self, arch: Arch) -> Result<BuildOptions> {
        let installed = Place::named(arch, self.kernel.as_deref())?;
        Ok(BuildOptions { arch, installed, ..BuildOptions::default() })
    }

    /// The architectures for which there is an installed one.
    ///
    /// # Errors
    /// A kernel that is named and does not suit, for one of these or for neither.
    pub fn architectures(&self) -> Result<Vec<Arch>> {
        let (mut named, mut found) = (None, Vec::new());
        for arch in Arch::ALL {
            if let Some(place) = Place::named(arch, self.kernel.as_deref())? {
                if place.is_for(arch) {
                    place.check(arch)?;
                    found.push(arch);
                }
                named = Some(place);
            }
        }
        match named {
            // The refusal says what its configuration is for, or why it cannot be read.
            Some(place) if found.is_empty() => place.check(Arch::X86_64).map(|_| found),
            _ => Ok(found),
        }
    }
}

/// Prepares the build machine and the kernel for `options`, and names an installed one.
pub fn prepare(project: &Project, consent: Consent, options: &BuildOptions) -> Result<Kernel> {
    ensure!(
        options.installed.is_none() || options.without.is_empty(),
        "an installed kernel is taken as it is, and --without is for the project's own: leave out one of them"
    );
    let kernel = super::prepare(project, consent, options)?;
    if let Some(installed) = &kernel.installed {
        out::note(format_args!("the kernel is {}, {}", installed.release, installed.file.display()));
        installed.warnings.iter().for_each(|warning| out::note(format_args!("{warning}")));
    }
    Ok(kernel)
}

/// The kernel as results show it, if it is an installed one.
pub fn shown(kernel: &Kernel) -> Option<OtherKernel> {
    kernel.installed.as_ref().map(|installed| OtherKernel {
        release: installed.release.to_string(),
        file: Some(installed.file.display().to_string()),
        leaves: kernel.gaps().map(|gap| (gap.fix.as_str(), gap.leaves)).collect(),
    })
}

/// Checks that the kernel has what the scenario's machine needs.
pub fn suits(kernel: &Kernel, scenario: &Scenario) -> Result<()> {
    let Some(installed) = &kernel.installed else { return Ok(()) };
    ensure!(
        installed.iommu || !scenario.machine.iommu,
        "the kernel {} drives no IOMMU: configure it with -DKernelVerificationBuild=OFF -DKernelIOMMU=ON, or add --no-iommu",
        installed.file.display()
    );
    Ok(())
}

/// Checks that the root task's CNode has a slot for each object of the system.
pub(crate) fn has_slots(kernel: &Kernel, system: &System) -> Result<()> {
    let Some(installed) = &kernel.installed else { return Ok(()) };
    let needed: u64 = system.specification.objects.iter().map(|object| u64::from(object.count)).sum();
    let most = 1_u64.checked_shl(installed.cnode_bits.into()).unwrap_or(u64::MAX);
    let bits = needed.checked_next_power_of_two().context("the system has too many objects")?.trailing_zeros() + 1;
    ensure!(
        needed < most,
        "the scenario has {needed} objects, and the kernel {} gives the root task a CNode of {most} slots: configure it with \
         -DKernelRootCNodeSizeBits={bits}",
        installed.file.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::gaps::GAPS;

    #[test]
    fn scenarios_rely_on_what_they_show() {
        let project = Project::here().unwrap();
        for name in project.scenarios().unwrap() {
            let scenario = Scenario::load(project.scenario(&name).unwrap()).unwrap();
            let relied: Vec<_> = scenario.expect.relies_on.iter().map(|one| one.as_str()).collect();
            for gap in GAPS {
                assert_eq!(
                    relied.contains(&gap.fix.as_str()),
                    gap.shown_by.contains(&name.as_str()),
                    "{name} and {}",
                    gap.fix
                );
            }
            let is_gap = |name: &&str| GAPS.iter().any(|gap| gap.fix.as_str() == *name);
            assert!(relied.iter().all(is_gap), "{name} relies on what no kernel lacks: {relied:?}");
        }
    }
}
