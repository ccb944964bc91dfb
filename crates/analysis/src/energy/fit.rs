//! Fits power as a linear function of work, online, with coefficients that are never negative.

/// Regressors of a fit: a constant, work with an idle SMT sibling, and work with a busy one.
pub(super) const TERMS: usize = 3;

type Vector = [f64; TERMS];
type Matrix = [[f64; TERMS]; TERMS];

/// Factor by which old observations decay each tick: half is left after 350.
const MEMORY: f64 = 0.998;
/// Decay factor of the prediction error that selects a fit: half is left after 70 ticks.
const ERROR_MEMORY: f64 = 0.99;
/// Minimum number of ticks before a fit predicts.
const ENOUGH: u32 = 20;
/// A tick with an error above this many standard errors gets less weight, because meters glitch.
const OUTLIER: f64 = 3.0;
/// Prior ratio of the cost of work with a busy sibling to work alone. A core with two busy threads
/// takes about 1.2 to 1.4 times the power of a core with one.
const SHARED_COST: f64 = 0.65;
/// Weight of this prior, in ticks with work of both kinds.
const PRIOR_TICKS: f64 = 0.5;

/// Minimum squared relative standard deviation of the load: the load must vary by about 3%.
const LEAST_SPREAD: f64 = 1e-3;

/// Lower bound of the prediction error, as a fraction of power.
const LEAST_ERROR: f64 = 0.01;
/// Fraction by which the mean cost of work may vary with the load, because the kinds of work at
/// high loads may differ from the kinds at low loads.
const KINDS_OF_WORK: f64 = 0.03;

/// All non-empty sets of terms.
const SETS: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

/// Recursive least squares of watts over the regressors, as normal equations. Three terms are few
/// enough to solve the equations again at each tick, which keeps the coefficients non-negative
/// exactly.
#[derive(Clone, Debug, Default)]
pub(super) struct Fit {
    normal: Matrix,
    right: Vector,
    coefficients: Vector,
    ticks: u32,
    /// Mean squared error of the predictions, each made before the fit learned the tick.
    error: f64,
    error_weight: f64,
}

impl Fit {
    /// Updates the fit with one tick. The error of the prediction is recorded first, so errors are
    /// always out-of-sample.
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

    /// Returns the predicted watts.
    pub(super) fn predict(&self, terms: &Vector) -> f64 {
        dot(terms, &self.coefficients)
    }

    /// Returns the root-mean-square prediction error, in watts.
    pub(super) fn error(&self) -> f64 {
        self.error.sqrt()
    }

    /// Returns whether enough predictions were made for the error to be meaningful.
    pub(super) fn is_ready(&self) -> bool {
        self.error_weight >= 10.0
    }

    /// Returns the power without any work, in watts.
    pub(super) fn idle_watts(&self) -> f64 {
        self.coefficients[0]
    }

    /// Returns the half-width of the confidence interval around [`Self::idle_watts`]. Returns
    /// `None` if the load varied too little to separate idle power from the power of work. `usual`
    /// is the idle power to assume if nothing is known about it.
    pub(super) fn idle_doubt(&self, usual: f64) -> Option<f64> {
        // Adds up both kinds of work, because the fit can separate idle power from their sum.
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
        // Enforces a lower bound on the error. Counters and meter are never read at exactly the
        // same time, so a smaller error is luck.
        let error = self.error().hypot(LEAST_ERROR * mean_watts);
        let noise = 2.0 * error * (squares / spread).sqrt();
        // Errors in the measured load make the fitted slope too flat. The slope from regressing
        // load on power is an upper bound for the true slope. The bound is too steep by the
        // fraction of the variance that the fit does not explain.
        let too_flat = (mean_watts - self.idle_watts()) * error * error / explained;
        let kinds = KINDS_OF_WORK * work * sum / spread.sqrt();
        (explained > 0.0).then_some(noise + too_flat + kinds)
    }

    /// Returns the variance of the power that the fit predicts for the ticks from which it learned.
    fn explained_variance(&self) -> f64 {
        let count = self.normal[0][0];
        let rows = self.normal.iter().zip(&self.coefficients);
        let squares = rows.map(|(row, left)| left * dot(row, &self.coefficients));
        let mean = dot(&self.normal[0], &self.coefficients) / count;
        squares.sum::<f64>() / count - mean * mean
    }

    /// Returns the power of the work alone, in watts.
    pub(super) fn work_watts(&self, alone: f64, shared: f64) -> f64 {
        alone * self.coefficients[1] + shared * self.coefficients[2]
    }

    /// Returns the best non-negative coefficients. Of the unconstrained solutions over each set of
    /// terms, it selects the solution without negative coefficients that has the least squared
    /// error.
    fn solve(&self) -> Vector {
        let mut normal = self.normal;
        // Adds the prior for the cost of shared work. The weight of the prior vanishes as data
        // accumulates.
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

    /// Returns the number of ticks in the normal equations.
    fn weight(&self) -> f64 {
        self.normal[0][0]
    }
}

fn dot(left: &Vector, right: &Vector) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

/// Solves the equations of the terms in `used` by elimination; the other coefficients are 0.
/// Returns `None` if the terms are not independent enough to be separated.
fn solve(normal: &Matrix, right: &Vector, used: &[usize]) -> Option<Vector> {
    let count = used.len();
    let mut rows = [[0.0; TERMS + 1]; TERMS];
    // The terms differ in magnitude, so each is scaled.
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

    /// Returns pseudo-random numbers between 0 and 1.
    fn random(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn coefficients_are_found_despite_noise() {
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
    fn meter_glitch_does_not_distort_the_fit() {
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
    fn constant_load_does_not_reveal_idle_power() {
        let mut fit = Fit::default();
        for _ in 0..100 {
            fit.learn(&[1.0, 2.0, 0.0], 30.0);
        }
        assert_eq!(fit.idle_doubt(10.0), None);
    }

    /// The measured load of a busy node varies a little, and its power does not.
    #[test]
    fn load_noise_is_no_evidence_of_idle_power() {
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
