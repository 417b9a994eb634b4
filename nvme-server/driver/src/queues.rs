//! Queue pairs: entries and doorbells ([`queue_pair`]), commands in flight ([`command_table`]), where their data lies ([`prp`]), all
//! of them together ([`queue`]), the way to the queue pairs that there should be ([`plan`]), and their timeouts ([`silence`]).

pub mod command_table;
pub mod plan;
pub mod prp;
pub mod queue;
pub mod queue_pair;
pub mod silence;
