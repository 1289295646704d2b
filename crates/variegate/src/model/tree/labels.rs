//! Labels that chains begin with: one name a row, which is a path down the tree where it has several parts.
//!
//! `mammal/whale` is the node `mammal` of level 1 and its child `whale` of level 2. Below the last part a path goes on with one node a level. A row
//! whose name is empty has no label.

use std::collections::HashMap;

use crate::{Error, Result};

/// What is between the parts of a path.
const BETWEEN: char = '/';

/// Numbers of the nodes of levels 1, 2, .. that a label stands for; nothing for a row without a label.
pub(super) type Label = Option<Vec<usize>>;

/// The paths that names stand for, in a tree of so many levels.
pub(super) fn paths(names: &[String], depth: usize) -> Result<Vec<Label>> {
    let mut known: Vec<HashMap<&str, usize>> = vec![HashMap::new(); depth];
    names
        .iter()
        .map(|name| {
            if name.trim().is_empty() {
                return Ok(None);
            }
            let parts: Vec<&str> = name.split(BETWEEN).map(str::trim).collect();
            if parts.len() > depth {
                return Err(refused(
                    name,
                    &format!(
                        "is a path of {} parts, but the tree has {depth} levels: give it a larger `depth`, or \
                     shorten the path",
                        parts.len()
                    ),
                ));
            }
            if parts.iter().any(|part| part.is_empty()) {
                return Err(refused(
                    name,
                    "has an empty part: write a name between the strokes, and nothing at all where a label is not known",
                ));
            }
            let mut numbers = vec![0; depth];
            for ((number, part), known) in numbers.iter_mut().zip(parts).zip(&mut known) {
                // a path that ends above goes on with node 0, which no name has
                let next = known.len() + 1;
                *number = *known.entry(part).or_insert(next);
            }
            Ok(Some(numbers))
        })
        .collect()
}

fn refused(name: &str, what: &str) -> Error {
    Error::Unfit(format!("the label `{name}`, which chains are to begin with, {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths() {
        let names = |all: &[&str]| all.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let found = paths(&names(&["", "a", "a/x", "b / x", "a/y", "b/x/1"]), 3).unwrap();
        let want = [vec![1, 0, 0], vec![1, 1, 0], vec![2, 1, 0], vec![1, 2, 0], vec![2, 1, 1]];
        assert_eq!(found[0], None);
        assert_eq!(found[1..].iter().flatten().collect::<Vec<_>>(), want.iter().collect::<Vec<_>>());
        let said = |name: &str| paths(&names(&[name]), 2).err().unwrap().to_string();
        assert!(said("a/b/c").contains("`a/b/c`") && said("a/b/c").contains("3 parts, but the tree has 2 levels"));
        assert!(said("a//").contains("3 parts") && said("a/").contains("empty part"));
    }
}
