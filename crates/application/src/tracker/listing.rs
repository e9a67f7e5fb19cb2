//! Listings in pages: complete, or an error.

use std::collections::BTreeSet;

use super::error::TrackerError;

/// Maximum number of pages of a listing.
const MAX_PAGES: u32 = 2_000;

/// Number of attempts at a listing that changes while it is read.
const ATTEMPTS: u32 = 3;

/// One page.
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// Number of items on all pages, as this page reports it.
    pub(super) total: Option<u64>,
    pub(super) has_next: bool,
}

/// Reads all pages, again from the first one if the listing changed meanwhile.
pub(super) fn read_listing<T>(
    read: impl Fn() -> Result<Vec<T>, TrackerError>,
) -> Result<Vec<T>, TrackerError> {
    let mut attempt = 1;
    loop {
        match read() {
            Err(TrackerError::IncompleteListing { .. }) if attempt < ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
}

/// Reads pages from number 1 to the last one. Fails if the pages disagree about the total, repeat an item, or end
/// before the total is reached.
pub(super) fn read_pages<T>(
    mut fetch: impl FnMut(u32) -> Result<Page<T>, TrackerError>,
    id: impl Fn(&T) -> u64,
) -> Result<Vec<T>, TrackerError> {
    let mut items = Vec::new();
    let mut seen = BTreeSet::new();
    let mut expected = None;
    for number in 1..=MAX_PAGES {
        let page = fetch(number)?;
        if number == 1 {
            expected = page.total;
        } else if page.total != expected {
            return Err(incomplete("its total changed between two pages"));
        }
        let is_empty = page.items.is_empty();
        for item in page.items {
            if !seen.insert(id(&item)) {
                return Err(incomplete("a page repeats an item"));
            }
            items.push(item);
        }
        let count = items.len() as u64;
        let Some(total) = expected else {
            if !page.has_next {
                return Ok(items);
            }
            if is_empty {
                return Err(incomplete("an empty page is not the last one"));
            }
            continue;
        };
        if count > total {
            return Err(incomplete(&format!("{count} items of {total} were listed")));
        }
        if count == total {
            return Ok(items);
        }
        if is_empty {
            return Err(incomplete(&format!(
                "it ended after {count} of {total} items"
            )));
        }
    }
    Err(incomplete("it has too many pages"))
}

pub(super) fn incomplete(reason: &str) -> TrackerError {
    TrackerError::IncompleteListing {
        reason: reason.to_owned(),
    }
}
