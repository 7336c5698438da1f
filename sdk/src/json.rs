//! Floating point numbers in JSON, with the values that JSON lacks as strings: "NaN", "inf", "-inf".
//!
//! Use as `#[serde(with = "crate::json")]`. Finite numbers keep every bit.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

/// Something made of floating point numbers.
pub(crate) trait Floats: Sized {
    fn to_json(&self) -> Value;
    fn from_json(value: &Value) -> Option<Self>;
}

impl Floats for f64 {
    fn to_json(&self) -> Value {
        if self.is_finite() { Value::from(*self) } else { Value::from(self.to_string()) }
    }

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        }
    }
}

impl<T: Floats> Floats for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_json)
    }

    fn from_json(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_json(value).map(Some) }
    }
}

impl<T: Floats> Floats for Vec<T> {
    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }

    fn from_json(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::from_json).collect()
    }
}

impl Floats for (f64, f64) {
    fn to_json(&self) -> Value {
        vec![self.0, self.1].to_json()
    }

    fn from_json(value: &Value) -> Option<Self> {
        match Vec::from_json(value)?[..] {
            [a, b] => Some((a, b)),
            _ => None,
        }
    }
}

impl Floats for BTreeMap<String, f64> {
    fn to_json(&self) -> Value {
        self.iter().map(|(name, v)| (name.clone(), v.to_json())).collect()
    }

    fn from_json(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        map.iter().map(|(name, v)| Some((name.clone(), f64::from_json(v)?))).collect()
    }
}

pub(crate) fn serialize<T: Floats, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.to_json().serialize(to)
}

pub(crate) fn deserialize<'de, T: Floats, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    T::from_json(&value).ok_or_else(|| D::Error::custom(format!("{value} is no number")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct All {
        #[serde(with = "super")]
        numbers: Vec<f64>,
        #[serde(with = "super")]
        pair: Option<(f64, f64)>,
        #[serde(with = "super")]
        none: Option<f64>,
        #[serde(with = "super")]
        map: BTreeMap<String, f64>,
    }

    #[test]
    fn every_bit_survives() {
        let numbers =
            vec![0.1, -0.0, 1e-310, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0];
        let map = BTreeMap::from([("loss".to_owned(), f64::NAN)]);
        let all = All { numbers, pair: Some((0.5, f64::INFINITY)), none: None, map };
        let text = serde_json::to_string(&all).unwrap();
        let back: All = serde_json::from_str(&text).unwrap();
        for (a, b) in all.numbers.iter().zip(&back.numbers) {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{a} became {b}");
        }
        assert_eq!(back.pair, all.pair);
        assert!(back.none.is_none() && back.map["loss"].is_nan());
        assert!(serde_json::from_str::<All>(&text.replace("\"inf\"", "\"info\"")).is_err());
    }
}
