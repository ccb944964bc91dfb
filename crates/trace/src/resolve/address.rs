//! Resolves conditions on IP addresses.

use std::net::{IpAddr, Ipv6Addr};

use super::Resolver;
use super::field::Meaning;
use crate::program::{Comparison, Condition, ConditionKind, FieldRead, Number, Operator};
use crate::source::Spanned;
use crate::tree::{BinaryOp, Expr, ExprKind};

impl Resolver<'_> {
    /// Compares an address with `"10.0.0.1"`, `"10.0.0.0/8"`, `"2001:db8::/32"`, or another address
    /// of the record.
    pub(super) fn address(
        &mut self,
        op: &Spanned<BinaryOp>,
        offset: u32,
        right: &Expr,
    ) -> Option<ConditionKind> {
        let halves = match &right.kind {
            ExprKind::Text(text) => {
                let Some((address, mask)) = prefix(text) else {
                    let words = "Invalid IP address";
                    let help =
                        "use an address or a prefix, such as \"10.0.0.0/8\" or \"2001:db8::1\"";
                    return self.wrong_with(right.span, words, help);
                };
                [0, 8].map(|at| {
                    let mask = half(mask, at);
                    let number = super::number::fold(
                        Operator::And,
                        field(offset + at),
                        Number::Constant(mask),
                    );
                    (number, Number::Constant(half(address, at) & mask))
                })
            }
            ExprKind::Name(name) => match self.name(name, right.span)? {
                Meaning::Address { offset: other } => {
                    [0, 8].map(|at| (field(offset + at), field(other + at)))
                }
                _ => return self.wrong(right.span, "Expecting an IP address"),
            },
            _ => {
                let words = "Expecting an IP address";
                let help = "use quotes, as in \"10.0.0.1\"";
                return self.wrong_with(right.span, words, help);
            }
        };
        let span = op.span.to(right.span);
        let condition = |kind| Condition { kind, span };
        let equal = halves.map(|(left, right)| {
            condition(ConditionKind::Compare {
                how: Comparison::Equal,
                signed: false,
                left,
                right,
            })
        });
        let equal = ConditionKind::All(equal.into());
        match op.node {
            BinaryOp::Equal => Some(equal),
            BinaryOp::NotEqual => Some(ConditionKind::Not(Box::new(condition(equal)))),
            _ => self.wrong(op.span, "Illegal operation for field type"),
        }
    }
}

fn field(offset: u32) -> Number {
    Number::Field(FieldRead {
        offset,
        size: 8,
        signed: false,
    })
}

/// Returns eight bytes at this offset in the byte order in which a program reads them.
fn half(bytes: u128, at: u32) -> u64 {
    let bytes = bytes.to_be_bytes();
    let (halves, _) = bytes.as_chunks();
    u64::from_ne_bytes(halves[at as usize / 8])
}

/// Parses an address with an optional prefix length. Returns the address and its mask as 128-bit
/// numbers. IPv4 addresses become IPv4-mapped IPv6 addresses. Bits after the prefix are ignored.
fn prefix(text: &str) -> Option<(u128, u128)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (address, before): (Ipv6Addr, u32) = match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 96),
        IpAddr::V6(address) => (address, 0),
    };
    let length = length.unwrap_or(128 - before).checked_add(before)?;
    let open = 128_u32.checked_sub(length)?;
    let mask = u128::MAX.checked_shl(open).unwrap_or(0);
    Some((address.to_bits(), mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_prefixes_as_masks() {
        let mapped = |v4: u32| 0xffff_0000_0000 | u128::from(v4);
        assert_eq!(prefix("10.0.0.1"), Some((mapped(0x0a00_0001), u128::MAX)));
        let ten = u128::MAX << 24;
        assert_eq!(prefix("10.1.0.0/8"), Some((mapped(0x0a01_0000), ten)));
        assert_eq!(prefix("::/0"), Some((0, 0)));
        assert_eq!(prefix("::1/128"), Some((1, u128::MAX)));
        assert_eq!(prefix("0.0.0.0/0").unwrap().1, u128::MAX << 32);
        for wrong in [
            "",
            "10.0.0",
            "10.0.0.1/33",
            "::/129",
            "10.0.0.1/",
            "a",
            "1/8",
        ] {
            assert_eq!(prefix(wrong), None, "{wrong}");
        }
    }
}
