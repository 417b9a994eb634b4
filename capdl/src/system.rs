//! A built system, and the forms in which it is written.

use crate::{cdl, graph};
use capdl_spec::Specification;
use platform::Environment;

/// A built system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// Every object, capability and mapping.
    pub specification: Specification,
    /// The contents of frames.
    pub data: Vec<u8>,
    /// Each component's environment at its start, in the order of [`Specification::components`]; also in `data`.
    pub environments: Vec<Environment>,
}

impl System {
    /// The root task's input: see [`Specification::to_image`].
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.specification.to_image(&self.data)
    }

    /// The system in the capDL language: see [`crate::cdl`].
    #[must_use]
    pub fn cdl(&self) -> String {
        cdl::text(&self.specification)
    }

    /// The capability graph as an SVG image: see [`crate::graph`].
    #[must_use]
    pub fn svg(&self) -> String {
        graph::svg(&self.specification)
    }
}
