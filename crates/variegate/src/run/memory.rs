//! Memory of this process: what it has, and what it may have. Known on Linux alone; elsewhere nothing is said.

use std::fs::read_to_string;

/// A page as the kernel counts them, on every kind of machine that this runs on but a few, where it is more: then less is seen than there is.
const PAGE: u64 = 4096;

/// Share of what the machine allows that a run may take before it stops.
const SHARE: f64 = 0.9;

/// Bytes that this process holds.
pub(super) fn resident() -> Option<u64> {
    let text = read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * PAGE)
}

/// Bytes that a run may take before it stops by itself, a little below those at which the machine would end it: nine tenths of the memory
/// of the machine, or of the group of processes that this one belongs to.
pub fn memory_allowed() -> Option<u64> {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = group.iter().find_map(|path| read_to_string(path).ok()?.trim().parse::<u64>().ok());
    let least = match (machine, group) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    least.map(|bytes| (SHARE * bytes as f64) as u64)
}

/// Bytes of the machine, from what the kernel tells of it.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Bytes in words: `3.2 GB`, `600 MB`.
pub(super) fn shown(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes >= 1e9 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.0} MB", bytes / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_shown() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(total("nothing"), None);
        assert_eq!((shown(3_210_000_000), shown(600_400_000)), ("3.2 GB".into(), "600 MB".into()));
        if cfg!(target_os = "linux") {
            let held = vec![1u8; 64 << 20];
            assert!(resident().unwrap() > 1 << 20 && held[1 << 20] == 1);
            assert!(memory_allowed().unwrap() > 1 << 26);
        }
    }
}
