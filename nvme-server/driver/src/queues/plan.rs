//! The plan by which a controller's I/O queue pairs go from their present to their desired state.
//!
//! Queue pairs are created before others are touched, and changed one after another, so that a client that keeps some is never
//! without any for longer than one change takes. Left out: the commands of a step.

use alloc::vec::Vec;
use blk_api::config::Class;
use core::ops::Range;

/// The properties of a queue pair that may change each time it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Commands that the queue pair may hold.
    pub depth: u16,
    /// The class with which the controller weighs the queue, if it does.
    pub class: Class,
}

/// The desired state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Desired {
    /// The queue pair's number, from 0.
    pub number: u16,
    /// The form to create it with; `None` if the controller should not have it.
    pub form: Option<Form>,
}

impl Desired {
    /// The desired state without these queue pairs.
    pub fn absent(numbers: Range<u16>) -> impl Iterator<Item = Self> {
        numbers.map(|number| Self { number, form: None })
    }
}

/// A change at the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Creates a queue pair with this form.
    Create(u16, Form),
    /// Deletes a queue pair, which had this form.
    Delete(u16, Form),
}

impl Step {
    /// The step that undoes this one.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Create(number, form) => Self::Delete(number, form),
            Self::Delete(number, was) => Self::Create(number, was),
        }
    }

    /// The number of the queue pair that changes.
    #[must_use]
    pub const fn number(self) -> u16 {
        let (Self::Create(number, _) | Self::Delete(number, _)) = self;
        number
    }
}

/// The steps to the desired state, where `created` tells the form of a queue pair that the controller has.
pub fn plan(created: impl Fn(u16) -> Option<Form>, desired: &[Desired]) -> Vec<Step> {
    let (mut new, mut changed, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
    for Desired { number, form } in desired {
        match (created(*number), form) {
            (None, Some(form)) => new.push(Step::Create(*number, *form)),
            (Some(was), Some(form)) if was != *form => {
                changed.extend([Step::Delete(*number, was), Step::Create(*number, *form)]);
            }
            (Some(was), None) => surplus.push(Step::Delete(*number, was)),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
    new.append(&mut changed);
    new.append(&mut surplus);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn form(depth: u16) -> Form {
        Form { depth, class: Class::Medium }
    }

    #[test]
    fn new_queues_come_first_and_surplus_ones_last() {
        let created = |number| [Some(form(8)), Some(form(8)), None, Some(form(8))].get(usize::from(number)).copied()?;
        let mut desired: Vec<_> = Desired::absent(3..4).collect();
        desired.extend(
            [(0, form(16)), (1, form(8)), (2, form(16))].map(|(number, form)| Desired { number, form: Some(form) }),
        );
        let steps = plan(created, &desired);
        let expected =
            [Step::Create(2, form(16)), Step::Delete(0, form(8)), Step::Create(0, form(16)), Step::Delete(3, form(8))];
        assert_eq!(steps, expected);
        assert!(steps.iter().all(|step| step.inverse().inverse() == *step && step.inverse().number() == step.number()));
    }

    #[test]
    fn what_is_as_desired_takes_no_step() {
        let desired = [Desired { number: 0, form: Some(form(8)) }, Desired { number: 1, form: None }];
        assert_eq!(plan(|number| (number == 0).then_some(form(8)), &desired), []);
    }
}
