//! Values over time: latencies of requests, and levels such as the depth of a queue.

/// Statistics of the values within one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The number of values. If it is 0, the other fields have no meaning.
    pub count: u64,
    /// The sum of the values.
    pub sum: u64,
    /// The smallest value in the window.
    pub min: u64,
    /// The largest value in the window.
    pub max: u64,
}

impl Spread {
    const NONE: Self = Self {
        count: 0,
        sum: 0,
        min: u64::MAX,
        max: 0,
    };

    /// Returns the mean of the values, or `None` without any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// Values in consecutive windows of `step_ns` from `start_ns` on. Memory is allocated once, at
/// construction. Values outside the windows are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    start_ns: u64,
    step_ns: u64,
    windows: Box<[Spread]>,
}

impl Course {
    /// Creates as many windows of `step_ns` (at least 1) as fit wholly or in part into `length_ns`.
    pub fn covering(start_ns: u64, step_ns: u64, length_ns: u64) -> Self {
        let step_ns = step_ns.max(1);
        let windows = length_ns.div_ceil(step_ns) as usize;
        Self {
            start_ns,
            step_ns,
            windows: vec![Spread::NONE; windows].into_boxed_slice(),
        }
    }

    /// Records a value at `now_ns`. Does not allocate.
    #[inline]
    pub fn add(&mut self, now_ns: u64, value: u64) {
        self.add_n(now_ns, value, 1);
    }

    /// Records a value `n` times in the window of `now_ns`.
    #[inline]
    pub(crate) fn add_n(&mut self, now_ns: u64, value: u64, n: u64) {
        let Some(since) = now_ns.checked_sub(self.start_ns) else {
            return;
        };
        if let Some(window) = self.windows.get_mut((since / self.step_ns) as usize) {
            window.count += n;
            window.sum = window.sum.saturating_add(value.saturating_mul(n));
            window.min = window.min.min(value);
            window.max = window.max.max(value);
        }
    }

    /// Returns the end of the window that contains `now_ns`, which must not be before the first
    /// window.
    pub(crate) fn window_end(&self, now_ns: u64) -> u64 {
        let before = (now_ns - self.start_ns) / self.step_ns;
        // The end of the last representable window is beyond `u64`, which means that it never ends.
        self.start_ns
            .saturating_add((before + 1).saturating_mul(self.step_ns))
    }

    /// Returns the length of a window, in nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Returns all windows, including empty ones.
    pub fn windows(&self) -> &[Spread] {
        &self.windows
    }
}

/// A level that keeps its value until it is set again, such as the depth of a queue. It has a mean
/// over time for each of the consecutive windows of `step_ns` from `start_ns` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSeries {
    start_ns: u64,
    step_ns: u64,
    /// The sum of value times nanoseconds in each window.
    areas: Box<[u128]>,
    value: u64,
    since_ns: u64,
}

impl LevelSeries {
    /// Creates a level of 0 from `start_ns` on, with as many windows of `step_ns` (at least 1) as
    /// fit wholly or in part into `length_ns`.
    pub fn covering(start_ns: u64, step_ns: u64, length_ns: u64) -> Self {
        let step_ns = step_ns.max(1);
        let windows = length_ns.div_ceil(step_ns) as usize;
        Self {
            start_ns,
            step_ns,
            areas: vec![0; windows].into_boxed_slice(),
            value: 0,
            since_ns: 0,
        }
    }

    /// Sets the level from `now_ns` on. Times must not decrease. Does not allocate.
    #[inline]
    pub fn set(&mut self, now_ns: u64, value: u64) {
        if value != self.value {
            self.settle(now_ns);
            self.value = value;
        }
    }

    /// Returns the length of a window, in nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// Returns the mean of the level in each window that ended by `end_ns`.
    pub fn means(&self, end_ns: u64) -> Vec<f64> {
        // Settling a copy allows the level to change further.
        let mut all = self.clone();
        all.settle(end_ns);
        let ended = end_ns.saturating_sub(self.start_ns) / self.step_ns;
        let areas = all.areas.iter().take(ended as usize);
        areas.map(|a| *a as f64 / self.step_ns as f64).collect()
    }

    /// Adds the level since its last change, up to `now_ns`, to the areas.
    fn settle(&mut self, now_ns: u64) {
        // The level before the start counts in no window.
        let mut from = self.since_ns.max(self.start_ns);
        self.since_ns = now_ns;
        while from < now_ns {
            let index = (from - self.start_ns) / self.step_ns;
            let Some(area) = self.areas.get_mut(index as usize) else {
                // Time after the last window is not recorded.
                return;
            };
            let to = now_ns.min(self.start_ns + (index + 1) * self.step_ns);
            *area += u128::from(self.value) * u128::from(to - from);
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_windows() {
        let mut course = Course::covering(100, 10, 25);
        for (now, value) in [(99, 1), (100, 4), (109, 8), (120, 5), (130, 9)] {
            course.add(now, value);
        }
        let means: Vec<_> = course.windows().iter().map(Spread::mean).collect();
        assert_eq!(means, [Some(6.0), None, Some(5.0)]);
        assert_eq!((course.windows()[0].min, course.windows()[0].max), (4, 8));
    }

    #[test]
    // The level is 2 before the start and up to 105, 6 up to 125, and then 0. The value 4 holds for
    // no time at all, because it is replaced at the same instant.
    fn a_level_is_weighed_by_time() {
        let mut level = LevelSeries::covering(100, 10, 40);
        level.set(50, 2);
        level.set(105, 4);
        level.set(105, 6);
        level.set(125, 0);
        assert_eq!(level.means(140), [4.0, 6.0, 3.0, 0.0]);
        // The second window, from 110 to 120, has not ended at 119.
        assert_eq!(level.means(119), [4.0]);
        assert_eq!(level.means(1_000).len(), 4);
        level.set(135, 1);
        assert_eq!(level.means(140), [4.0, 6.0, 3.0, 0.5]);
    }
}
