//! Whole PCI trees as software sees them. Each module covers one concept; `machine` and `system` are their base, `walk` is
//! an enumerator that knows nothing of the model.

mod any_software;
mod bars;
mod bridges;
mod config_space;
mod dma;
mod firmware;
mod hot_plug;
mod machine;
mod messages;
mod pins;
mod power;
mod removal;
mod resets;
mod sriov;
mod system;
mod walk;
