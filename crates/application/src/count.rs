//! Counts with their nouns.

/// Count with its noun: `1 session`, `2 sessions`, `3 matches`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let ending = match (count, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_has_no_plural() {
        assert_eq!(counted(1_u8, "file"), "1 file");
        assert_eq!(counted(0_u64, "file"), "0 files");
        assert_eq!(counted(2_usize, "match"), "2 matches");
    }
}
