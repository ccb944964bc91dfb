//! Values of the fields that the schema describes.

use noctule_schema::Value;
use noctule_text::lossless;
use serde::{Serialize, Serializer};

/// A field's value in JSON. Bytes that are not UTF-8 are escaped without loss.
pub(crate) struct ValueJson<'a>(pub(crate) &'a Value<'a>);

impl Serialize for ValueJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Flag(value) => serializer.serialize_bool(*value),
            Value::Unsigned(value) => serializer.serialize_u64(*value),
            Value::Signed(value) => serializer.serialize_i64(*value),
            Value::Number(value) => serializer.serialize_f64(*value),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => serializer.serialize_str(&lossless(bytes)),
            Value::Texts(texts) => serializer.collect_seq(texts.iter().map(ValueJson)),
            Value::Counts(counts) => serializer.collect_map(counts.iter().copied()),
            Value::Numbers(numbers) => {
                serializer.collect_map(numbers.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}
