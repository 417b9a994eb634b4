//! A primary controller and its secondary ones (section 8.5): resources, states, namespaces, resets.

mod lockdown;
mod media;
mod resets;
mod resources;
mod states;
mod support;
