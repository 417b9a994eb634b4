//! A controller with virtual functions.

use super::{passed, run_with, scenario};
use capdl::Arch;
use capdl::scenario::Attach;

#[test]
fn tenant_of_the_server_works_beside_virtual_functions_that_nobody_drives() {
    for (arch, attach) in [(Arch::X86_64, Attach::RootPort), (Arch::Aarch64, Attach::Switch)] {
        let mut scenario = scenario("boot");
        scenario.machine.arch = arch;
        scenario.controllers[0].attach = attach;
        scenario.controllers[0].virtual_functions = 3;
        let run = run_with(&scenario, 1, &[]);
        assert!(passed(&run), "{:?}", run.reports);
        assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    }
}
