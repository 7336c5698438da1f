//! Norms and dot products of flat buffers, exact to about 1e-9.
//!
//! A single-precision norm of a whole buffer of 11 M gradients is off by 1e-3. Norms of short chunks are accurate, and
//! their squares are then added in double precision, at the same cost.

use tch::{Kind, Tensor};

use crate::Error;
use crate::arena::{ALIGNMENT, CHUNK, Slot};

/// Elements that are worked on at a time where a temporary is needed: it stays in the processor's cache.
const BLOCK: i64 = 1 << 20;

/// The squared norm of each run of `chunk` elements: shape `[len / chunk]`, double precision.
fn chunk_squares(flat: &Tensor, chunk: i64) -> Result<Tensor, tch::TchError> {
    let rows = flat.f_view_([-1, chunk])?;
    let norms = match flat.f_kind()? {
        Kind::Half | Kind::BFloat16 => {
            rows.f_norm_scalaropt_dim_dtype(2, [1], false, Kind::Float)?
        }
        _ => rows.f_norm_scalaropt_dim(2, [1], false)?,
    };
    norms.f_to_kind(Kind::Double)?.f_square()
}

/// The squared L2 norm of a flat buffer: a double-precision scalar on its device.
///
/// # Errors
/// [`Error::Torch`]; the length must be a multiple of [`CHUNK`], as in an arena.
pub fn squared_norm(flat: &Tensor) -> Result<Tensor, Error> {
    Ok(chunk_squares(flat, CHUNK)?.f_sum(Kind::Double)?)
}

/// The squared L2 norm of each variable in a flat buffer: shape `[slots]`, double precision, on its device.
///
/// # Errors
/// [`Error::Torch`].
pub fn squared_norm_by_slot(flat: &Tensor, slots: &[Slot]) -> Result<Tensor, Error> {
    let squares = chunk_squares(flat, ALIGNMENT)?;
    let sums: Result<Vec<Tensor>, tch::TchError> = slots
        .iter()
        .map(|slot| {
            let chunks = (slot.len + ALIGNMENT - 1) / ALIGNMENT;
            squares.f_narrow(0, slot.offset / ALIGNMENT, chunks)?.f_sum(Kind::Double)
        })
        .collect();
    Ok(Tensor::f_stack(&sums?, 0)?)
}

/// Single or double precision of a block, for products that would be rounded to the buffer's own kind.
fn widen(block: &Tensor) -> Result<Tensor, tch::TchError> {
    match block.f_kind()? {
        Kind::Half | Kind::BFloat16 => block.f_to_kind(Kind::Float),
        _ => Ok(block.shallow_clone()),
    }
}

/// Calls `f` with the same block of both buffers, and adds up its results.
fn by_blocks(
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor, tch::TchError>,
) -> Result<Tensor, Error> {
    let len = a.numel() as i64;
    let mut parts = Vec::new();
    let mut start = 0;
    while start < len {
        let n = BLOCK.min(len - start);
        parts.push(f(&widen(&a.f_narrow(0, start, n)?)?, &widen(&b.f_narrow(0, start, n)?)?)?);
        start += n;
    }
    Ok(Tensor::f_stack(&parts, 0)?.f_sum_dim_intlist([0i64].as_slice(), false, Kind::Double)?)
}

/// The dot product of two blocks in chunks, combined in double precision.
fn chunk_dot(a: &Tensor, b: &Tensor) -> Result<Tensor, tch::TchError> {
    a.f_view_([-1, 1, CHUNK])?.f_bmm(&b.f_view_([-1, CHUNK, 1])?)?.f_sum(Kind::Double)
}

/// The dot product of two flat buffers: a double-precision scalar on their device.
///
/// # Errors
/// [`Error::Torch`].
pub fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    by_blocks(a, b, chunk_dot)
}

/// The squared norm of `total - before`: a double-precision scalar.
pub(super) fn squared_difference(total: &Tensor, before: &Tensor) -> Result<Tensor, Error> {
    by_blocks(total, before, |t, b| chunk_squares(&t.f_sub(b)?, CHUNK)?.f_sum(Kind::Double))
}

/// From `first` (`a = wa ga`) and `total` (`a + b`, `b = wb gb`): `[a . b, |b - ratio a|^2, |a|^2, |b|^2]` in double
/// precision, where `ratio = wb / wa`, so that the second is `wb^2 |gb - ga|^2`.
///
/// The first comes from the other three: a product of its own would take as long as all of them, twice. It is off by
/// at most 1e-7 of `|a| |b|`; between two halves of a batch chance alone moves it by more than 1e-4 of that.
pub(super) fn pair(first: &Tensor, total: &Tensor, ratio: f64) -> Result<Tensor, Error> {
    let squares = by_blocks(first, total, |a, t| {
        let mut b = t.f_sub(a)?;
        let square = |t: &Tensor| chunk_squares(t, CHUNK)?.f_sum(Kind::Double);
        let (aa, bb) = (square(a)?, square(&b)?);
        let difference = match ratio {
            1.0 => b.f_sub_(a)?,
            _ => b.f_sub_(&a.f_mul_scalar(ratio)?)?,
        };
        Tensor::f_stack(&[square(&difference)?, aa, bb], 0)
    })?;
    let part = |index| squares.f_get(index);
    let dot = (part(2)?.f_add(&part(1)?.f_mul_scalar(ratio * ratio)?)?)
        .f_sub(&part(0)?)?
        .f_mul_scalar(0.5 / ratio)?;
    Ok(Tensor::f_cat(&[dot.f_reshape([1])?, squares], 0)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::Device;

    use super::*;

    fn random(len: i64, seed: i64, kind: Kind) -> Tensor {
        tch::manual_seed(seed);
        Tensor::f_randn([len], (Kind::Float, Device::Cpu)).unwrap().to_kind(kind)
    }

    fn value(t: &Tensor) -> f64 {
        t.double_value(&[])
    }

    fn exact_dot(a: &Tensor, b: &Tensor) -> f64 {
        value(&(a.to_kind(Kind::Double) * b.to_kind(Kind::Double)).sum(Kind::Double))
    }

    #[test]
    fn eleven_million_elements_within_1e_7_of_double_precision() {
        let a = random(10_912 * CHUNK, 1, Kind::Float) * 1e-3;
        let b = random(10_912 * CHUNK, 2, Kind::Float) * 1e-3 + &a * 0.05;
        let truth = exact_dot(&a, &a);
        assert!((value(&squared_norm(&a).unwrap()) / truth - 1.0).abs() < 1e-7);
        let truth = exact_dot(&a, &b);
        assert!((value(&dot(&a, &b).unwrap()) / truth - 1.0).abs() < 1e-7);
    }

    #[test]
    fn the_product_of_two_parts_is_right_where_they_are_nearly_orthogonal() {
        let a = random(2_048 * CHUNK, 3, Kind::Float) * 1e-3;
        let other = random(2_048 * CHUNK, 4, Kind::Float) * 1e-3;
        for (ratio, cosine) in [(1.0, 0.9), (1.0, 1e-2), (5.0 / 3.0, 1e-2), (0.2, 0.5)] {
            let b = (&a * cosine + &other) * ratio;
            let total = &a + &b;
            let got: Vec<f64> = Vec::try_from(pair(&a, &total, ratio).unwrap()).unwrap();
            let b = &total - &a;
            let difference = &b - &a * ratio;
            let exact = [
                exact_dot(&a, &b),
                exact_dot(&difference, &difference),
                exact_dot(&a, &a),
                exact_dot(&b, &b),
            ];
            // A product is held against the most that it can be.
            let most = [(exact[2] * exact[3]).sqrt(), exact[1], exact[2], exact[3]];
            for (index, (got, most)) in got.iter().zip(most).enumerate() {
                let error = (got - exact[index]).abs() / most;
                assert!(error < 1e-7, "{ratio} {cosine} {index}: {error}");
            }
        }
    }

    #[test]
    fn each_variable_has_its_own_norm() {
        let flat = random(2 * CHUNK, 5, Kind::Float);
        // The gap after the first variable is zero, as in an arena.
        let _ = flat.narrow(0, 100, 28).zero_();
        let slot = |offset, len| Slot { name: String::new(), offset, len, shape: vec![len] };
        let slots = [slot(0, 100), slot(128, 2 * CHUNK - 128)];
        let got: Vec<f64> = Vec::try_from(squared_norm_by_slot(&flat, &slots).unwrap()).unwrap();
        for (slot, got) in slots.iter().zip(got) {
            let part = flat.narrow(0, slot.offset, slot.len);
            assert!((got / exact_dot(&part, &part) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn half_precision_is_added_up_in_single() {
        let a = random(64 * CHUNK, 6, Kind::BFloat16);
        assert!((value(&squared_norm(&a).unwrap()) / exact_dot(&a, &a) - 1.0).abs() < 1e-6);
        assert!((value(&dot(&a, &a).unwrap()) / exact_dot(&a, &a) - 1.0).abs() < 1e-5);
    }
}
