//! The first instruction, and the tests for this architecture alone.

use core::arch::global_asm;

use super::{
    context_cache, interrupt_direction, io_frame, io_page_table, io_space_revoke, segment_bases, stack_alignment,
    syscall_flags, user_top,
};
use crate::machine::Machine;
use crate::sys::{STACK, STACK_BYTES};
use crate::verdict::{Check, Failure};

// The kernel starts the root task without a stack, with the boot information in rdi, where a C function expects its
// first argument.
global_asm!(
    ".pushsection .text._start, \"ax\"",
    ".global _start",
    "_start:",
    "lea rsp, [rip + {stack} + {size}]",
    "xor ebp, ebp",
    "call {main}",
    "ud2",
    ".popsection",
    stack = sym STACK,
    size = const STACK_BYTES,
    main = sym crate::entry::main,
);

/// The ports need no preparation.
#[expect(clippy::unnecessary_wraps, reason = "the other architecture maps its devices here")]
pub(crate) fn open(_: &mut Machine) -> Check {
    Ok(())
}

/// Runs the test `name`, one of those for this architecture alone.
pub(crate) fn run(name: &[u8], machine: &mut Machine) -> Check {
    match name {
        b"stack-alignment" => stack_alignment::run(machine),
        b"frame-copy-io-space" => io_frame::run(machine),
        b"context-cache-table" => context_cache::table(machine),
        b"context-cache-space" => context_cache::space(machine),
        b"io-page-table-entries" => io_page_table::entries(machine),
        b"io-page-table-copies" => io_page_table::copies(machine),
        b"io-space-revoke-copy" => io_space_revoke::copy(machine),
        b"io-space-revoke-dma" => io_space_revoke::dma(machine),
        b"io-space-revoke-master" => io_space_revoke::master(machine),
        b"io-space-revoke-mint" => io_space_revoke::mint(machine),
        b"syscall-flags-nested-task" => syscall_flags::nested_task(machine),
        b"syscall-flags-others" => syscall_flags::others(machine),
        b"interrupt-direction" => interrupt_direction::run(machine),
        b"segment-bases-schedule" => segment_bases::schedule(machine),
        b"segment-bases-fastpath" => segment_bases::fastpath(machine),
        b"user-top-page" => user_top::page(machine),
        b"user-top-buffer" => user_top::buffer(machine),
        _ => Err(Failure::Broken("no test of that name", 0)),
    }
}
