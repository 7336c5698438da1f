//! A queue of things to come, in order of time; at one time, in the order in which they were put in.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The queue.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at_s: f64,
    number: u64,
    what: T,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }

    /// Puts in something that happens at `at_s`, seconds.
    pub(super) fn push(&mut self, at_s: f64, what: T) {
        self.heap.push(Entry { at_s, number: self.pushed, what });
        self.pushed += 1;
    }

    /// When the next thing happens, seconds.
    pub(super) fn next_s(&self) -> Option<f64> {
        self.heap.peek().map(|entry| entry.at_s)
    }

    /// Takes out the next thing.
    pub(super) fn pop(&mut self) -> Option<(f64, T)> {
        self.heap.pop().map(|entry| (entry.at_s, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The earliest is the greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then(other.number.cmp(&self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_equals_in_order() {
        let mut queue = Queue::new();
        for (at_s, what) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.0, 'b')] {
            queue.push(at_s, what);
        }
        assert_eq!(queue.next_s(), Some(1.0));
        let order: Vec<char> = std::iter::from_fn(|| queue.pop().map(|next| next.1)).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
