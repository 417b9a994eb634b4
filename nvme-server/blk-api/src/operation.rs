//! The operations of requests: one table, with one row for each.
//!
//! Everything that depends on the operation reads its row: the check of an entry, the right that it needs, the scheduler's kind,
//! statistics, the client's order of changes, the simulator's observer, test doubles. Left out: the command that does it
//! (`nvme_driver::command::build`).

/// Direction in which an operation moves data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// No data: the request has no ranges of the window.
    None,
    /// The device writes the window.
    ToWindow,
    /// The device reads the window.
    FromWindow,
}

/// A right to blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Right {
    /// To learn of their content.
    Read = 1,
    /// To change their content.
    Write = 2,
}

/// The kind of a command, as far as its cost is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads blocks, whether their data are moved or not.
    Read,
    /// Writes data.
    Write,
    /// Moves no data and reads none: Flush, Write Zeroes, Dataset Management. Bandwidth limits count the blocks it names; the
    /// device's time is taken not to depend on them.
    Other,
}

/// An optional command of the controller (ONCS), by which alone an operation can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// Compare.
    Compare,
    /// Dataset Management, to deallocate.
    Deallocate,
    /// Write Zeroes.
    WriteZeroes,
    /// Verify.
    Verify,
}

/// The row of an operation.
struct Row {
    data: Data,
    /// The right to the blocks that it names; `None` when it names none.
    right: Option<Right>,
    kind: Kind,
    ability: Option<Ability>,
}

/// Makes [`Opcode`] of its rows. Columns: number on the ring, data, right, kind, ability.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $data:ident, $right:expr, $kind:ident, $ability:expr;)*) => {
        /// Operation of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* $name = $number,)*
        }

        impl Opcode {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The least number that no operation has.
            pub const UNUSED: u8 = {
                let mut number = 1u8;
                while Self::from_raw(number).is_some() {
                    number = number.saturating_add(1);
                }
                number
            };

            /// The operation with this number, unless there is none.
            #[must_use]
            pub const fn from_raw(raw: u8) -> Option<Self> {
                Some(match raw {
                    $($number => Self::$name,)*
                    _ => return None,
                })
            }

            #[inline(always)]
            const fn row(self) -> Row {
                match self {
                    $(Self::$name => Row { data: Data::$data, right: $right, kind: Kind::$kind, ability: $ability },)*
                }
            }
        }
    };
}

operations! {
    /// Blocks into the window.
    Read = 1: ToWindow, Some(Right::Read), Read, None;
    /// The window onto blocks.
    Write = 2: FromWindow, Some(Right::Write), Write, None;
    /// Everything acknowledged before is on stable media.
    Flush = 3: None, None, Other, None;
    /// The blocks' content is not needed any more.
    Discard = 4: None, Some(Right::Write), Other, Some(Ability::Deallocate);
    /// The blocks become zeroes.
    WriteZeroes = 5: None, Some(Right::Write), Other, Some(Ability::WriteZeroes);
    /// The device reads the blocks, and reports those it cannot read.
    Verify = 6: None, Some(Right::Read), Read, Some(Ability::Verify);
    /// The device compares the window with the blocks.
    Compare = 7: FromWindow, Some(Right::Read), Read, Some(Ability::Compare);
}

// Each accessor is inlined, so that nothing is left of the table where the operation is known.
impl Opcode {
    /// Direction of the data that it moves through the window.
    #[must_use]
    #[inline(always)]
    pub const fn data(self) -> Data {
        self.row().data
    }

    /// Whether the operation moves data through the window.
    #[must_use]
    #[inline(always)]
    pub const fn moves_data(self) -> bool {
        !matches!(self.data(), Data::None)
    }

    /// The right that it needs to the blocks that it names; `None` when it names none.
    #[must_use]
    #[inline(always)]
    pub const fn right(self) -> Option<Right> {
        self.row().right
    }

    /// Whether the operation changes what blocks hold: these are the operations that need the right to write.
    ///
    /// A request that changes nothing can always be retried, whatever became of the first attempt: a read, verify or compare is about
    /// the current content, and a flush covers all that was acknowledged before the first attempt, and more. A request that changes
    /// blocks can be retried as long as no other change of the same blocks was let past it: it leaves the content of the first attempt.
    #[must_use]
    #[inline(always)]
    pub const fn changes_blocks(self) -> bool {
        matches!(self.right(), Some(Right::Write))
    }

    /// The kind of its commands.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        self.row().kind
    }

    /// The operations of a kind: a bit for each, at the place of its number.
    #[must_use]
    pub const fn numbers_of(kind: Kind) -> u32 {
        let (mut numbers, mut rest) = (0, Self::ALL);
        while let [first, others @ ..] = rest {
            if first.kind() as u8 == kind as u8 {
                numbers |= 1 << *first as u8;
            }
            rest = others;
        }
        numbers
    }

    /// The optional command that it needs; `None` when every controller can do it.
    #[must_use]
    #[inline(always)]
    pub const fn ability(self) -> Option<Ability> {
        self.row().ability
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn operation_is_known_by_its_number() {
        let known: Vec<_> = (0..=u8::MAX).filter_map(Opcode::from_raw).collect();
        assert_eq!(known, Opcode::ALL);
        assert!(known.iter().all(|opcode| Opcode::from_raw(*opcode as u8) == Some(*opcode)));
    }

    #[test]
    fn columns_of_a_row_agree() {
        for opcode in Opcode::ALL {
            let is_consistent = match opcode.kind() {
                Kind::Read => opcode.right() == Some(Right::Read),
                Kind::Write => opcode.changes_blocks() && opcode.data() == Data::FromWindow,
                Kind::Other => opcode.right() != Some(Right::Read) && !opcode.moves_data(),
            };
            assert!(is_consistent, "{opcode:?}");
            assert!(opcode.data() != Data::ToWindow || opcode.right() == Some(Right::Read), "{opcode:?}");
        }
    }
}
