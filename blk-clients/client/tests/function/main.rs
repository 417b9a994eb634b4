//! The client's function path on the model of a controller.

mod completion;
mod data;
mod devices;
mod failures;
mod law;
mod opening;
mod support;
mod telemetry;
