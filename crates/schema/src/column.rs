//! Columns of recordings. A column reads a value from a row, and writes it back.

use std::net::SocketAddr;

use noctule_model::{
    CloseReason, Comm, ConnectError, DnsQuery, ExecContext, FilePath, Namespace, Parent,
};

/// A column of a table whose rows are `T`.
#[derive(Debug)]
pub struct Column<T: 'static> {
    /// The name. If a recording does not have the column, its values are empty.
    pub name: &'static str,
    /// The type of the values, and how to access them.
    pub values: Values<T>,
}

/// A type whose fields are columns.
pub trait Row: Sized + 'static {
    /// The columns, in the order of the file.
    const COLUMNS: &'static [&'static [Column<Self>]];
}

/// Reads a value from a row, and writes it back.
#[derive(Debug)]
pub struct Access<T, V> {
    /// Returns the value; empty if the row does not have one.
    pub get: fn(&T) -> V,
    /// Returns false if the row is useless without the value.
    pub set: fn(&mut T, V) -> bool,
}

/// Declares [`Values`] with one variant for each type, and a macro that handles all variants alike.
macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($type:ty),)+) => {
        /// The type of the values of a column. `Maybe` variants can be null.
        #[derive(Debug)]
        pub enum Values<T: 'static> {
            $($(#[$doc])* $variant(Access<T, $type>),)+
        }

        /// Evaluates an expression with the [`Access`] of any [`Values`].
        #[macro_export]
        macro_rules! with_access {
            ($values:expr, $access:ident => $body:expr) => {
                match $values {
                    $($crate::column::Values::$variant($access) => $body,)+
                }
            };
        }
    };
}

values! {
    /// `true` or `false`.
    Flag(bool),
    /// `true`, `false` or null.
    MaybeFlag(Option<bool>),
    /// 8 bits, or null.
    MaybeU8(Option<u8>),
    /// 32 bits.
    U32(u32),
    /// 32 bits, or null.
    MaybeU32(Option<u32>),
    /// 32 bits with a sign, or null.
    MaybeI32(Option<i32>),
    /// 64 bits.
    U64(u64),
    /// 64 bits, or null.
    MaybeU64(Option<u64>),
    /// A time.
    Moment(Moment),
    /// A time, or null.
    MaybeMoment(Option<Moment>),
    /// A name.
    Word(Word),
    /// A name, or null.
    MaybeWord(Option<Word>),
    /// Text, or null.
    MaybeText(Option<String>),
    /// Bytes that are mostly text.
    Words(Words),
    /// Bytes that are mostly text, or null.
    MaybeWords(Option<Words>),
    /// A list of byte strings that are mostly text.
    WordsList(WordsList),
    Path(FilePath),
    /// At most one path.
    Paths(List<FilePath>),
    /// At most one parent.
    Parents(List<Parent>),
    /// At most one context.
    Contexts(List<ExecContext>),
    Namespaces(List<Namespace>),
    /// At most one DNS query, without its socket.
    Queries(List<DnsQuery>),
    /// Counts by name.
    Counts(List<(&'static str, u64)>),
}

/// Nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment(pub u64);

/// One of a small set of names, which the program defines or has read before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word(pub &'static str);

/// Bytes from the kernel that are mostly text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<u8>);

impl Words {
    /// Returns the name of a thread without its padding.
    pub fn of(comm: &Comm) -> Self {
        let name = comm.0.split(|byte| *byte == 0).next();
        Self(name.unwrap_or_default().to_vec())
    }
}

/// A list of byte strings, such as the arguments of a program; `None` if the row has no such list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordsList(pub Option<Vec<Vec<u8>>>);

/// Several rows of another table.
#[derive(Clone, Debug, PartialEq)]
pub struct List<R>(pub Vec<R>);

impl<R> Default for List<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A part of a row that is stored in a column of type `V`.
pub(crate) trait Stored<V> {
    /// Returns the value.
    fn stored(&self) -> V;
    /// Stores the value in the part; returns false if the part requires a value and there is none.
    fn restore(&mut self, value: V) -> bool;
}

impl<V: Clone> Stored<V> for V {
    fn stored(&self) -> V {
        self.clone()
    }

    fn restore(&mut self, value: V) -> bool {
        *self = value;
        true
    }
}

impl<V: Clone> Stored<Option<V>> for V {
    fn stored(&self) -> Option<V> {
        Some(self.clone())
    }

    fn restore(&mut self, value: Option<V>) -> bool {
        value.map(|value| *self = value).is_some()
    }
}

/// Implements [`Stored`] with two conversions. The second one returns `None` if there is no value.
macro_rules! stored {
    ($($part:ty as $value:ty: $store:expr, $restore:expr;)+) => {$(
        impl Stored<$value> for $part {
            fn stored(&self) -> $value {
                let store: fn(&$part) -> $value = $store;
                store(self)
            }

            fn restore(&mut self, value: $value) -> bool {
                let restore: fn($value) -> Option<$part> = $restore;
                restore(value).map(|value| *self = value).is_some()
            }
        }
    )+};
}

stored! {
    u16 as u32: |part| (*part).into(), |value| Some(value as Self);
    u64 as Moment: |part| Moment(*part), |value| Some(value.0);
    Option<u64> as Option<Moment>: |part| part.map(Moment), |value| Some(value.map(|it| it.0));
    &'static str as Word: |part| Word(part), |value| Some(value.0);
    Vec<u8> as Words: |part| Words(part.clone()), |value| Some(value.0);
    Comm as Words: Words::of, |value| Some(Self::new(&value.0));
    Option<Comm> as Option<Words>: |part| part.as_ref().map(Words::of), |value| {
        Some(value.map(|name| Comm::new(&name.0)))
    };
    Vec<Vec<u8>> as WordsList: |part| WordsList(Some(part.clone())), |value| {
        Some(value.0.unwrap_or_default())
    };
    Vec<Comm> as WordsList: |part| {
        WordsList(Some(part.iter().map(|name| Words::of(name).0).collect()))
    }, |value| Some(value.0.iter().flatten().map(|name| Comm::new(name)).collect());
    Option<SocketAddr> as Option<String>: |part| part.map(|address| address.to_string()), |value| {
        Some(value.and_then(|text| text.parse().ok()))
    };
    ConnectError as Option<Word>: |part| Some(Word(part.name())), |value| Self::named(value?.0);
    Option<CloseReason> as Option<Word>: |part| part.map(|reason| Word(reason.name())), |value| {
        Some(value.and_then(|word| CloseReason::named(word.0)))
    };
    Option<Parent> as List<Parent>: |part| List(part.iter().copied().collect()), |value| {
        Some(value.0.first().copied())
    };
    FilePath as List<Self>: |part| List(vec![part.clone()]), |value| {
        Some(value.0.into_iter().next().unwrap_or_default())
    };
    ExecContext as List<Self>: |part| List(vec![part.clone()]), |value| {
        Some(value.0.into_iter().next().unwrap_or_default())
    };
    Vec<Namespace> as List<Namespace>: |part| List(part.clone()), |value| Some(value.0);
    Vec<(&'static str, u64)> as List<(&'static str, u64)>: |part| List(part.clone()), |value| {
        Some(value.0)
    };
}

/// Makes a [`Column`] of a field that some or all variants of a row have.
macro_rules! column {
    ($values:ident $name:literal: $($pattern:pat => $place:expr),+) => {
        Column {
            name: $name,
            values: Values::$values(Access {
                get: |row| match row {
                    $($pattern => $place.stored(),)+
                    _ => Default::default(),
                },
                set: |row, value| match row {
                    $($pattern => $place.restore(value),)+
                    _ => true,
                },
            }),
        }
    };
    ($values:ident $name:literal $($place:ident).+) => {
        Column {
            name: $name,
            values: Values::$values(Access {
                get: |row| row.$($place).+.stored(),
                set: |row, value| row.$($place).+.restore(value),
            }),
        }
    };
}
pub(crate) use column;
