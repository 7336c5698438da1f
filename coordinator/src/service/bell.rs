//! Bells: whoever waits for a change is woken by it.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// Wakes whoever waits for a change of one job or machine.
#[derive(Debug)]
pub(super) struct Bell<K>(BTreeMap<K, watch::Sender<u64>>);

impl<K: Ord + Clone> Bell<K> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn listen(&mut self, key: &K) -> watch::Receiver<u64> {
        self.0.entry(key.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    pub(super) fn ring(&mut self, key: &K) {
        if let Some(bell) = self.0.get(key) {
            if bell.receiver_count() == 0 {
                self.0.remove(key);
            } else {
                bell.send_modify(|count| *count += 1);
            }
        }
    }
}
