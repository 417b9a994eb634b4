//! The addresses of the components' telemetry, for the build machine: it reads these pages in the machine's memory.
//!
//! The pages stay the same objects when a component is re-instantiated, so they are reported once.

use crate::BuildError;
use crate::objects::object;
use crate::state::Build;
use alloc::rc::Rc;
use capdl_spec::Component;
use platform::{CPtr, Kernel, PAGE_SIZE, Platform};
use report::{Report, TelemetryPages, clip};

impl<P: Platform> Build<P> {
    /// Reports the pages that components share with the build machine.
    pub(crate) fn report_telemetry(&self) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        specification.components.iter().try_for_each(|component| self.report_pages(component))
    }

    /// Reports the component's pages, one report for all that lie one behind the other.
    fn report_pages(&self, component: &Component) -> Result<(), BuildError> {
        let mut run = TelemetryPages { component: clip(&component.name), first: 0, count: 0, paddr: 0 };
        for frames in &component.shown {
            let name = &object(&self.specification, *frames)?.name;
            for frame in self.objects.cptrs(*frames)? {
                let paddr = self.kernel().frame_get_address(CPtr::new(frame).cast());
                let paddr = paddr.map_err(BuildError::refused("read the address of", name))?.bits();
                let follows = run.paddr.saturating_add(u64::from(run.count).saturating_mul(PAGE_SIZE as u64)) == paddr;
                if !follows {
                    self.report_run(&run);
                    run = TelemetryPages { first: run.first.saturating_add(run.count), count: 0, paddr, ..run };
                }
                run.count = run.count.saturating_add(1);
            }
        }
        self.report_run(&run);
        Ok(())
    }

    fn report_run(&self, run: &TelemetryPages) {
        if run.count > 0 {
            self.platform.report(&Report::TelemetryPages(run.clone()).encode());
        }
    }
}
