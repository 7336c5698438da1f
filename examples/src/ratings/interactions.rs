//! Interactions of users with items, and others that did not happen.
//!
//! Source: He et al., "Neural collaborative filtering", 2017: four negatives for each interaction, drawn anew in each
//! epoch; one interaction of each user is kept and ranked among 99 items that the user has not used (section 4.1).

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave_sdk::data::Draw;
use shockwave_sdk::{Batch, Dataset, Error};
use tch::Tensor;

/// Items not used, for each one that was.
const NEGATIVES: usize = 4;

/// Candidates in the test: the one that was kept, and others.
const CANDIDATES: usize = 100;

/// Tastes that users and items have.
const TASTES: usize = 6;

/// Training samples: (user, item) and whether the user has used it.
#[derive(Debug, Clone)]
pub struct Interactions {
    pairs: Vec<(usize, usize)>,
    used: Vec<BTreeSet<usize>>,
    items: usize,
}

/// Test samples: a user and the candidates, the right one first.
#[derive(Debug, Clone)]
pub struct Ranking {
    candidates: Vec<Vec<usize>>,
}

/// Generates interactions: every user has a few tastes, every item one, and users mostly use items of their tastes.
#[must_use]
pub(super) fn generate(
    seed: u64,
    users: usize,
    items: usize,
    each: usize,
) -> (Interactions, Ranking) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tastes: Vec<usize> = (0..items).map(|_| rng.random_range(0..TASTES)).collect();
    let mut train = Interactions { pairs: Vec::new(), used: vec![BTreeSet::new(); users], items };
    let mut candidates = Vec::new();
    for user in 0..users {
        let likes: [usize; 2] = [(); 2].map(|()| rng.random_range(0..TASTES));
        let used = &mut train.used[user];
        let mut last = 0;
        while used.len() < each {
            let item = rng.random_range(0..items);
            // One in twenty of the others is used too.
            if likes.contains(&tastes[item]) || rng.random_range(0..20) == 0 {
                used.insert(item);
                last = item;
            }
        }
        let mut row = vec![last];
        while row.len() < CANDIDATES {
            let item = rng.random_range(0..items);
            if !used.contains(&item) {
                row.push(item);
            }
        }
        candidates.push(row);
        train.pairs.extend(used.iter().filter(|item| **item != last).map(|item| (user, *item)));
    }
    (train, Ranking { candidates })
}

/// Users and items `[N, 2]`, or `[N, candidates, 2]`.
fn pairs(flat: &[i64], shape: &[i64]) -> Result<Tensor, Error> {
    Ok(Tensor::f_from_slice(flat)?.f_view(shape)?)
}

impl Interactions {
    fn gather(
        &self,
        indices: &[usize],
        mut rng: impl FnMut(usize) -> ChaCha8Rng,
    ) -> Result<Batch, Error> {
        let (mut flat, mut labels) = (Vec::new(), Vec::new());
        for &index in indices {
            let pair = self.pairs.get(index / (NEGATIVES + 1));
            let missing = || Error::Data(format!("sample {index} of {}", self.len()));
            let &(user, mut item) = pair.ok_or_else(missing)?;
            let positive = index % (NEGATIVES + 1) == 0;
            if !positive {
                let mut rng = rng(index);
                while self.used[user].contains(&item) {
                    item = rng.random_range(0..self.items);
                }
            }
            flat.extend([user as i64, item as i64]);
            labels.push(f32::from(u8::from(positive)));
        }
        Ok(Batch::new(pairs(&flat, &[-1, 2])?, Tensor::f_from_slice(&labels)?))
    }
}

impl Dataset for Interactions {
    fn len(&self) -> usize {
        self.pairs.len() * (NEGATIVES + 1)
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        self.training_batch(indices, Draw { seed: 0, epoch: 0 })
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        self.gather(indices, |index| draw.rng(index))
    }
}

impl Dataset for Ranking {
    fn len(&self) -> usize {
        self.candidates.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let mut flat = Vec::with_capacity(indices.len() * CANDIDATES * 2);
        for &user in indices {
            let missing = || Error::Data(format!("user {user} of {}", self.len()));
            let row = self.candidates.get(user).ok_or_else(missing)?;
            flat.extend(row.iter().flat_map(|item| [user as i64, *item as i64]));
        }
        let x = pairs(&flat, &[-1, CANDIDATES as i64, 2])?;
        let y = x.f_zeros_like()?;
        Ok(Batch::new(x, y))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_in_five_is_an_interaction_and_the_kept_one_is_not_trained_on() {
        let (train, test) = generate(1, 30, 150, 8);
        assert_eq!((train.len(), test.len()), (30 * 7 * 5, 30));
        let all: Vec<usize> = (0..train.len()).collect();
        let batch = train.training_batch(&all, Draw { seed: 1, epoch: 3 }).unwrap();
        let (x, y) = (
            Vec::<i64>::try_from(batch.x.flatten(0, -1)).unwrap(),
            Vec::<f32>::try_from(&batch.y).unwrap(),
        );
        assert_eq!(y.iter().sum::<f32>(), 30.0 * 7.0);
        for (pair, label) in x.chunks(2).zip(y) {
            let (user, item) = (pair[0] as usize, pair[1] as usize);
            assert_eq!(train.used[user].contains(&item), label == 1.0);
            assert!(label == 0.0 || test.candidates[user][0] != item);
        }
        for (user, row) in test.candidates.iter().enumerate() {
            let others = row[1..].iter().any(|item| train.used[user].contains(item));
            assert!(train.used[user].contains(&row[0]) && !others && row.len() == 100);
        }
    }

    #[test]
    fn negatives_are_drawn_anew_in_each_epoch_and_alike_in_each_batch_size() {
        let (train, _) = generate(1, 30, 150, 8);
        let draw = |epoch, indices: &[usize]| {
            train.training_batch(indices, Draw { seed: 1, epoch }).unwrap().x
        };
        let all: Vec<usize> = (0..100).collect();
        assert_ne!(draw(0, &all), draw(1, &all));
        assert_eq!(draw(2, &all).narrow(0, 60, 10), draw(2, &all[60..70]));
    }
}
