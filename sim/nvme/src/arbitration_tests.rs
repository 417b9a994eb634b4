use proptest::prelude::*;

use super::*;

fn weights(burst: u8, high: u8, medium: u8, low: u8) -> ArbitrationWeights {
    ArbitrationWeights::new().with_burst(burst).with_high_z(high - 1).with_medium_z(medium - 1).with_low_z(low - 1)
}

/// An arbiter with these SQs, all of which always have commands.
fn arbiter(by: Arbitration, sqs: &[(u16, QueuePriority)]) -> Arbiter {
    let mut arbiter = Arbiter::new(200);
    for &(sq, priority) in sqs {
        arbiter.set_ready(sq, priority, by);
    }
    arbiter
}

fn picks(arbiter: &mut Arbiter, weights: ArbitrationWeights, count: usize) -> Vec<u16> {
    (0..count).map(|_| arbiter.pick(weights).unwrap()).collect()
}

#[test]
fn round_robin_goes_round_whatever_the_priorities() {
    let sqs = [(1, QueuePriority::Low), (70, QueuePriority::Urgent), (130, QueuePriority::High)];
    let mut arbiter = arbiter(Arbitration::RoundRobin, &sqs);
    assert_eq!(picks(&mut arbiter, weights(0, 1, 1, 1), 6), [1, 70, 130, 1, 70, 130]);
}

#[test]
fn a_burst_stays_with_its_queue() {
    let sqs = [(1, QueuePriority::High), (2, QueuePriority::High)];
    let mut arbiter = arbiter(Arbitration::RoundRobin, &sqs);
    assert_eq!(picks(&mut arbiter, weights(2, 1, 1, 1), 10), [1, 1, 1, 1, 2, 2, 2, 2, 1, 1]);
}

#[test]
fn without_a_burst_limit_a_queue_is_emptied_first() {
    let sqs = [(1, QueuePriority::High), (2, QueuePriority::High)];
    let mut arbiter = arbiter(Arbitration::RoundRobin, &sqs);
    let no_limit = weights(ArbitrationWeights::NO_LIMIT, 1, 1, 1);
    assert_eq!(picks(&mut arbiter, no_limit, 100), [1; 100]);
    arbiter.set_idle(1);
    assert_eq!(arbiter.pick(no_limit), Some(2));
    arbiter.set_idle(2);
    assert_eq!((arbiter.pick(no_limit), arbiter.is_idle()), (None, true));
}

#[test]
fn urgent_comes_before_everything() {
    let sqs = [(1, QueuePriority::High), (2, QueuePriority::Urgent)];
    let mut arbiter = arbiter(Arbitration::WeightedUrgent, &sqs);
    assert_eq!(picks(&mut arbiter, weights(0, 255, 1, 1), 50), [2; 50]);
    arbiter.set_idle(2);
    assert_eq!(arbiter.pick(weights(0, 255, 1, 1)), Some(1));
}

#[test]
fn a_class_without_commands_leaves_its_share_to_the_others() {
    let sqs = [(1, QueuePriority::Low)];
    let mut arbiter = arbiter(Arbitration::WeightedUrgent, &sqs);
    assert_eq!(picks(&mut arbiter, weights(0, 100, 100, 1), 20), [1; 20]);
}

proptest! {
    /// Over whole rounds each class has exactly the part of its weight, and queues of a class have equal parts.
    #[test]
    fn shares_are_those_of_the_weights(
        high in 1..40_u8, medium in 1..40_u8, low in 1..40_u8, per_class in 1..5_u16, burst in 0..7_u8,
    ) {
        let classes = [QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
        let sqs: Vec<_> = (0..3 * per_class).map(|sq| (sq + 1, classes[usize::from(sq / per_class)])).collect();
        let mut arbiter = arbiter(Arbitration::WeightedUrgent, &sqs);
        let round = usize::from(high) + usize::from(medium) + usize::from(low);
        // The number of rounds gives every queue the same number of whole bursts.
        let rounds = 64 * usize::from(per_class);
        let mut counts = vec![0_usize; sqs.len()];
        for sq in picks(&mut arbiter, weights(burst, high, medium, low), round * rounds) {
            counts[usize::from(sq) - 1] += 1;
        }
        for (queues, weight) in counts.chunks(usize::from(per_class)).zip([high, medium, low]) {
            prop_assert_eq!(queues.iter().sum::<usize>(), usize::from(weight) * rounds);
            prop_assert!(queues.iter().all(|&count| count == queues[0]), "{:?}", queues);
        }
    }

    /// The next queue is the one that a plain search finds.
    #[test]
    fn the_next_queue_is_the_first_beyond(
        ready in proptest::collection::btree_set(0..200_u16, 1..20), from in 0..200_u16,
    ) {
        let mut ring = Ring::new(200);
        ready.iter().for_each(|&sq| ring.insert(sq));
        let expected = ready.range(from + 1..).next().or_else(|| ready.first()).copied();
        prop_assert_eq!(ring.after(from), expected);
    }
}
