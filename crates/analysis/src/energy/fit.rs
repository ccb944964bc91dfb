//! Power as a linear function of what ran, fitted online with coefficients that are never negative.

/// The regressors of a fit: the constant, work whose SMT sibling was idle, work beside a busy one.
pub(super) const TERMS: usize = 3;

type Vector = [f64; TERMS];
type Matrix = [[f64; TERMS]; TERMS];

/// How much of what was learned is left after a tick: half of it after 350.
const MEMORY: f64 = 0.998;
/// The same for the error that a prediction had, which decides between fits: half after 70.
const ERROR_MEMORY: f64 = 0.99;
/// Before this many ticks a fit has no opinion.
const ENOUGH: u32 = 20;
/// A tick whose error is above this many standard errors has less weight: meters glitch.
const OUTLIER: f64 = 3.0;
/// What work beside a busy sibling costs, by work alone, where the data do not say. A core with two
/// busy threads takes some 1.2 to 1.4 times the power of one with one.
const SHARED_COST: f64 = 0.65;
/// How much that counts, in ticks with work of both kinds.
const PRIOR_TICKS: f64 = 0.5;

/// The load has to change by 3 % at least, as the square of its relative standard deviation.
const LEAST_SPREAD: f64 = 1e-3;

/// The error of a prediction is never taken for less than this part of power.
const LEAST_ERROR: f64 = 0.01;
/// By how much the mean cost of work may change with the load, as a part of it: the kinds of work that run at high
/// loads can be others than those at low ones.
const KINDS_OF_WORK: f64 = 0.03;

/// Every set of terms that is not empty.
const SETS: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

/// Recursive least squares of watts over the regressors, in the form of normal equations: three terms
/// are few enough to solve them anew at each tick, which keeps the coefficients non-negative exactly.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    normal: Matrix,
    right: Vector,
    coefficients: Vector,
    ticks: u32,
    /// Mean of the squared error of predictions that were made before their tick was learned.
    error: f64,
    error_weight: f64,
}

impl Fit {
    /// Learns one tick. The error of what would have been predicted for it is noted first, so that it
    /// is one of data that the fit has not seen.
    pub(super) fn learn(&mut self, terms: &Vector, watts: f64) {
        let mut weight = 1.0;
        if self.ticks >= ENOUGH {
            let error = watts - self.predict(terms);
            let usual = self.error();
            if usual > 0.0 && error.abs() > OUTLIER * usual && self.error_weight > 10.0 {
                weight = OUTLIER * usual / error.abs();
            }
            let error = error.signum() * error.abs().min(10.0 * usual.max(watts * 0.1));
            self.error_weight = self.error_weight * ERROR_MEMORY + 1.0;
            self.error += (error * error - self.error) / self.error_weight;
        }
        for (row, left) in self.normal.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip(terms) {
                *cell = *cell * MEMORY + weight * left * right;
            }
        }
        for (cell, term) in self.right.iter_mut().zip(terms) {
            *cell = *cell * MEMORY + weight * term * watts;
        }
        self.ticks = self.ticks.saturating_add(1);
        self.coefficients = self.solve();
    }

    /// Watts that the fit expects.
    pub(super) fn predict(&self, terms: &Vector) -> f64 {
        dot(terms, &self.coefficients)
    }

    /// Root mean square of the error of its predictions, in watts.
    pub(super) fn error(&self) -> f64 {
        self.error.sqrt()
    }

    /// Whether it has predicted often enough for its error to mean something.
    pub(super) fn is_ready(&self) -> bool {
        self.error_weight >= 10.0
    }

    /// Watts without any work.
    pub(super) fn idle_watts(&self) -> f64 {
        self.coefficients[0]
    }

    /// Half-width of the interval in which idle power is likely to be around [`Self::idle_watts`]; `None` where the
    /// load changed too little to separate idle power from that of work. `usual`: the idle power that is assumed
    /// where nothing is known.
    pub(super) fn idle_doubt(&self, usual: f64) -> Option<f64> {
        // As if all work were of one kind: the kinds need not be separated for it.
        let count = self.normal[0][0];
        let sum = self.normal[0][1] + self.normal[0][2];
        let squares = self.normal[1][1] + 2.0 * self.normal[1][2] + self.normal[2][2];
        let spread = count * squares - sum * sum;
        if spread <= LEAST_SPREAD * count * squares {
            return None;
        }
        let mean_watts = self.right[0] / count;
        let explained = self.explained_variance();
        let work = mean_watts - self.idle_watts().min(usual);
        // Counters and meter are never of quite the same moment, so a fit of less is luck.
        let error = self.error().hypot(LEAST_ERROR * mean_watts);
        let noise = 2.0 * error * (squares / spread).sqrt();
        // Errors of the load make the slope too flat. The true one is at most that of load over power, which is
        // steeper by what the fit does not explain.
        let too_flat = (mean_watts - self.idle_watts()) * error * error / explained;
        let kinds = KINDS_OF_WORK * work * sum / spread.sqrt();
        (explained > 0.0).then_some(noise + too_flat + kinds)
    }

    /// Variance of the watts that the fit predicts for what it has learned.
    fn explained_variance(&self) -> f64 {
        let count = self.normal[0][0];
        let rows = self.normal.iter().zip(&self.coefficients);
        let squares = rows.map(|(row, left)| left * dot(row, &self.coefficients));
        let mean = dot(&self.normal[0], &self.coefficients) / count;
        squares.sum::<f64>() / count - mean * mean
    }

    /// Watts for the work alone.
    pub(super) fn work_watts(&self, alone: f64, shared: f64) -> f64 {
        alone * self.coefficients[1] + shared * self.coefficients[2]
    }

    /// The best coefficients among those that are not negative: that of the unconstrained solutions
    /// over each set of terms that has none below zero and the least squared error.
    fn solve(&self) -> Vector {
        let mut normal = self.normal;
        // Knowledge from before: shared work costs so much by work alone. It has to give way to data.
        let both = PRIOR_TICKS * normal[1][1].min(normal[2][2]) / self.weight().max(1.0);
        normal[1][1] += both * SHARED_COST * SHARED_COST;
        normal[1][2] -= both * SHARED_COST;
        normal[2][1] -= both * SHARED_COST;
        normal[2][2] += both;
        let mut best = [0.0; TERMS];
        let mut best_error = 0.0;
        for used in SETS {
            let Some(found) = solve(&normal, &self.right, used) else {
                continue;
            };
            if found.iter().any(|&coefficient| coefficient < 0.0) {
                continue;
            }
            // The squared error without its constant part.
            let gain: f64 = found.iter().zip(&self.right).map(|(c, r)| c * r).sum();
            if -gain < best_error {
                best_error = -gain;
                best = found;
            }
        }
        best
    }

    /// How many ticks the normal equations hold.
    fn weight(&self) -> f64 {
        self.normal[0][0]
    }
}

fn dot(left: &Vector, right: &Vector) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

/// Solves the equations of the terms that are used by elimination; the others are 0. `None` where they
/// are independent enough to be separated.
fn solve(normal: &Matrix, right: &Vector, used: &[usize]) -> Option<Vector> {
    let count = used.len();
    let mut rows = [[0.0; TERMS + 1]; TERMS];
    // Terms of very different size: each is scaled by its own.
    let mut scale = [0.0; TERMS];
    for (scale, &term) in scale.iter_mut().zip(used) {
        *scale = normal[term][term].sqrt();
        if *scale <= 0.0 || !scale.is_finite() {
            return None;
        }
    }
    for i in 0..count {
        for j in 0..count {
            rows[i][j] = normal[used[i]][used[j]] / (scale[i] * scale[j]);
        }
        rows[i][count] = right[used[i]] / scale[i];
    }
    for pivot in 0..count {
        let best = (pivot..count).max_by(|&a, &b| {
            let size = |row: usize| rows[row][pivot].abs();
            size(a).total_cmp(&size(b))
        })?;
        rows.swap(pivot, best);
        if rows[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        let by = rows[pivot];
        for (place, row) in rows.iter_mut().enumerate().take(count) {
            if place != pivot {
                let factor = row[pivot] / by[pivot];
                for (cell, by) in row.iter_mut().zip(by) {
                    *cell -= factor * by;
                }
            }
        }
    }
    let mut found = [0.0; TERMS];
    for (place, &term) in used.iter().enumerate() {
        found[term] = rows[place][count] / rows[place][place] / scale[place];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between 0 and 1 without a pattern.
    fn random(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn coefficients_are_found_in_noise() {
        let mut state = 1;
        let mut fit = Fit::default();
        for _ in 0..300 {
            let terms = [1.0, 4.0 * random(&mut state), 4.0 * random(&mut state)];
            let noise = random(&mut state) - 0.5;
            fit.learn(&terms, 20.0 + 9.0 * terms[1] + 6.0 * terms[2] + noise);
        }
        for (found, real) in fit.coefficients.iter().zip([20.0, 9.0, 6.0]) {
            assert!((found - real).abs() < 0.03 * real, "{found} for {real}");
        }
        assert!(fit.error() < 0.5, "{}", fit.error());
        assert!(fit.idle_doubt(15.0).expect("the data show it") < 4.0);
    }

    #[test]
    fn no_coefficient_is_negative() {
        let mut state = 3;
        let mut fit = Fit::default();
        for _ in 0..200 {
            let terms = [1.0, random(&mut state), random(&mut state)];
            fit.learn(&terms, 10.0 - 5.0 * terms[1] + 3.0 * terms[2]);
            assert!(fit.coefficients.iter().all(|&c| c >= 0.0));
        }
        assert_eq!(fit.coefficients[1], 0.0);
    }

    #[test]
    fn a_glitch_of_the_meter_does_not_spoil_it() {
        let mut state = 5;
        let mut fit = Fit::default();
        for tick in 0..200 {
            let terms = [1.0, random(&mut state), 0.0];
            let glitch = if tick == 150 { 1e6 } else { 0.0 };
            let noise = 0.2 * (random(&mut state) - 0.5);
            fit.learn(&terms, 10.0 + 5.0 * terms[1] + noise + glitch);
        }
        assert!(
            (fit.idle_watts() - 10.0).abs() < 0.3,
            "{}",
            fit.idle_watts()
        );
    }

    #[test]
    fn a_constant_load_does_not_tell_idle_from_work() {
        let mut fit = Fit::default();
        for _ in 0..100 {
            fit.learn(&[1.0, 2.0, 0.0], 30.0);
        }
        assert_eq!(fit.idle_doubt(10.0), None);
    }

    /// The load of a busy node as it is measured varies a little, and its power does not.
    #[test]
    fn noise_of_the_load_is_no_evidence_of_idle_power() {
        let mut state = 9;
        let mut fit = Fit::default();
        for _ in 0..300 {
            let load = 1.0 - 0.12 * random(&mut state);
            fit.learn(&[1.0, load, 0.0], 50.0 + 0.02 * random(&mut state));
        }
        let doubt = fit.idle_doubt(15.0);
        assert!(doubt.is_none_or(|doubt| doubt > 15.0), "{doubt:?}");
    }
}
