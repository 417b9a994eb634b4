//! The server as clients see it. Each module covers one concept; `client` and `device` are their base.

mod any_client;
mod client;
mod device;
mod dma;
mod dma_by_message;
mod interrupts;
mod misbehaviour;
mod registers;
mod server;
