//! Small files of the kernel.

use std::fs;
use std::path::Path;

/// Returns the first line of a small file.
pub(crate) fn line(path: &Path) -> Option<String> {
    Some(
        fs::read_to_string(path)
            .ok()?
            .lines()
            .next()?
            .trim()
            .to_owned(),
    )
}

/// Parses a kernel CPU list such as `0-3,8`.
pub(crate) fn cpu_list(list: &str) -> Vec<u32> {
    let ranges = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(cpu_list("0"), [0]);
        assert_eq!(cpu_list(""), [0; 0]);
    }
}
