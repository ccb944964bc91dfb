//! Describes each field in one place: its key, type and meaning, and how to get its value.
//!
//! Formats iterate over these tables, and `cargo xtask gen` writes the documentation from them.

pub mod column;
pub mod event;
pub mod events;
pub mod names;
pub mod usage;

use std::borrow::Cow;

/// A field of `T`.
#[derive(Debug)]
pub struct Field<T: 'static> {
    /// The key in JSON and the name of the attribute in OTLP.
    pub key: &'static str,
    pub value_type: Type,
    /// The meaning of the value, and when the field is absent.
    pub help: &'static str,
    /// Returns the value, or `None` if it is unknown or does not apply.
    pub get: Get<T>,
}

pub type Get<T> = for<'a> fn(&'a T) -> Option<Value<'a>>;

/// Declares functions that return a field of one type.
macro_rules! fields {
    ($($name:ident => $type:ident,)+) => {$(
        pub(crate) const fn $name<T>(
            key: &'static str,
            help: &'static str,
            get: Get<T>,
        ) -> Field<T> {
            let value_type = Type::$type;
            Field { key, value_type, help, get }
        }
    )+};
}

fields! {
    flag => Flag,
    mark => Mark,
    integer => Integer,
    number => Number,
    text => Text,
    texts => Texts,
    counts => Counts,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `true` or `false`.
    Flag,
    /// `true`; the field is absent instead of `false`.
    Mark,
    Integer,
    /// A floating-point number.
    Number,
    Text,
    /// A list of strings.
    Texts,
    /// Integers by name.
    Counts,
    /// Floating-point numbers by name.
    Numbers,
}

impl Type {
    /// The name of the type in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flag => "boolean",
            Self::Mark => "`true` or absent",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Texts => "array of text",
            Self::Counts => "object of integers",
            Self::Numbers => "object of numbers",
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A value of type [`Type::Flag`] or [`Type::Mark`].
    Flag(bool),
    /// An integer of type [`Type::Integer`].
    Unsigned(u64),
    /// An integer of type [`Type::Integer`] that can be negative.
    Signed(i64),
    /// A value of type [`Type::Number`].
    Number(f64),
    /// A value of type [`Type::Text`].
    Text(Cow<'a, str>),
    /// A value of type [`Type::Text`]: a path or argument, which may contain any byte except 0.
    Bytes(&'a [u8]),
    /// A value of type [`Type::Texts`].
    Texts(Vec<Value<'a>>),
    /// A value of type [`Type::Counts`].
    Counts(Vec<(&'a str, u64)>),
    /// A value of type [`Type::Numbers`].
    Numbers(Vec<(String, f64)>),
}

impl<'a> Value<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Converts nanoseconds to seconds.
    fn seconds(ns: u64) -> Self {
        Self::Number(ns as f64 / 1e9)
    }

    /// Returns the value of a field of type [`Type::Mark`].
    fn mark(set: bool) -> Option<Self> {
        set.then_some(Self::Flag(true))
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Unsigned(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Unsigned(value.into())
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Signed(value.into())
    }
}
