//! How a group shares the CPU, in `why` and in the API's `group`.

use noctule_model::CpuWeight;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct SettingsJson<'a> {
    #[serde(rename = "cpu.weight", skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    #[serde(rename = "cpu.shares", skip_serializing_if = "Option::is_none")]
    shares: Option<u64>,
    #[serde(rename = "cpu.idle", skip_serializing_if = "Option::is_none")]
    idle: Option<bool>,
    #[serde(rename = "cpu.allowed", skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a [u32]>,
    #[serde(rename = "cpu.pressure", skip_serializing_if = "Option::is_none")]
    pressure: Option<f64>,
}

impl<'a> SettingsJson<'a> {
    /// `pressure` is in percent.
    pub(super) fn new(
        weight: Option<CpuWeight>,
        idle: Option<bool>,
        allowed: Option<&'a [u32]>,
        pressure: Option<f64>,
    ) -> Self {
        let number = |is: fn(&CpuWeight) -> bool| weight.filter(is).map(CpuWeight::value);
        Self {
            weight: number(|it| matches!(it, CpuWeight::Weight(_))),
            shares: number(|it| matches!(it, CpuWeight::Shares(_))),
            idle,
            allowed,
            pressure: pressure.map(|percent| percent / 100.0),
        }
    }
}
