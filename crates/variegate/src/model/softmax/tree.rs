//! Softmax trees: the one shape behind softmax, subclasses, experts and trees of experts.
//!
//! At an inner node the row chooses a child by a softmax of its logits; the leaf it ends in emits a class, or a real outcome by a linear
//! model. Nodes are numbered parents first and leaves from left to right, so that a loop over numbers goes down the tree and the
//! reverse loop goes up. A node has two children or more: one child would be no choice.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::special::ln_gamma;
use crate::words;

words! {
    /// How the weights of a node make its logits.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Coding {
        /// One weight vector a child.
        Full = "full",
        /// Two children and one weight vector: the logit of the second child is 0.
        Logistic = "logistic",
    }
}

/// What hangs below a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Child {
    /// Another node.
    Node(usize),
    /// A leaf.
    Leaf(usize),
}

/// What a leaf emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Leaf {
    /// This class.
    Class(u32),
    /// A real outcome, linear in the inputs with Gaussian noise.
    Gaussian,
}

/// An inner node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Branch {
    /// How its logits are made.
    pub(crate) coding: Coding,
    /// Its children, in order.
    pub(crate) children: Vec<Child>,
}

/// A softmax tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// Where every row begins: node 0, or the only leaf.
    pub(crate) root: Child,
    /// Inner nodes, parents first.
    pub(crate) nodes: Vec<Branch>,
    /// Leaves, from left to right.
    pub(crate) leaves: Vec<Leaf>,
}

/// What the leaves of a family of trees emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Emission {
    /// One of so many classes.
    Classes(usize),
    /// So many real numbers.
    Real(usize),
}

/// A tree of gates above experts, as users write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Gates {
    /// An expert: a softmax over the classes, or a linear model of a real outcome.
    Expert,
    /// An expert whose classes have so many subclasses.
    Subclasses(Vec<usize>),
    /// A gate.
    Gate {
        /// How the logits of the gate are made; `None` leaves it to the setting of the family.
        coding: Option<Coding>,
        /// What the gate chooses from.
        children: Vec<Gates>,
    },
}

/// The structure of a model, from which its tree is built.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Structure {
    /// Number of subclasses of each class.
    Subclasses(Vec<usize>),
    /// Number of experts behind one gate.
    Experts(usize),
    /// Gates over gates over experts.
    Gates(Gates),
}

impl Structure {
    /// The tree, with nodes of two children in `binary` coding.
    pub(crate) fn tree(&self, outcome: Emission, binary: Coding) -> Tree {
        let gates = match self {
            Structure::Subclasses(sizes) => Gates::Subclasses(sizes.clone()),
            Structure::Experts(1) => Gates::Expert,
            Structure::Experts(count) => Gates::Gate { coding: None, children: vec![Gates::Expert; *count] },
            Structure::Gates(gates) => gates.clone(),
        };
        let mut tree = Tree { root: Child::Leaf(0), nodes: Vec::new(), leaves: Vec::new() };
        tree.root = tree.grow(&gates, outcome, binary);
        tree
    }

    /// In a few characters: `[3,2]`, `4 experts`, `((e e) e)`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Structure::Subclasses(sizes) => list(sizes),
            Structure::Experts(1) => "1 expert".into(),
            Structure::Experts(count) => format!("{count} experts"),
            Structure::Gates(gates) => gates.describe(),
        }
    }

    /// The same where nothing around it says what it is.
    pub(crate) fn title(&self) -> String {
        match self {
            Structure::Subclasses(_) => format!("subclasses {}", self.describe()),
            Structure::Gates(_) => format!("gates {}", self.describe()),
            Structure::Experts(_) => self.describe(),
        }
    }

    /// Whether the maximum of the likelihood is unique, so that no restarts are needed: every class has one leaf below one node.
    pub(crate) fn is_concave(&self) -> bool {
        match self {
            Structure::Subclasses(sizes) => sizes.iter().all(|s| *s == 1),
            Structure::Experts(count) => *count == 1,
            Structure::Gates(gates) => *gates == Gates::Expert,
        }
    }
}

impl Gates {
    fn describe(&self) -> String {
        match self {
            Gates::Expert => "e".into(),
            Gates::Subclasses(sizes) => list(sizes),
            Gates::Gate { children, .. } => format!("({})", children.iter().map(Gates::describe).collect::<Vec<_>>().join(" ")),
        }
    }

    /// Number of experts.
    pub(crate) fn experts(&self) -> usize {
        match self {
            Gates::Gate { children, .. } => children.iter().map(Gates::experts).sum(),
            _ => 1,
        }
    }
}

fn list(sizes: &[usize]) -> String {
    format!("[{}]", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

impl Tree {
    fn grow(&mut self, gates: &Gates, outcome: Emission, binary: Coding) -> Child {
        let coding = |asked: Option<Coding>, children: usize| if children == 2 { asked.unwrap_or(binary) } else { Coding::Full };
        match (gates, outcome) {
            (Gates::Gate { children, .. }, _) if children.len() == 1 => self.grow(&children[0], outcome, binary),
            (Gates::Gate { coding: asked, children }, _) => {
                let number = self.nodes.len();
                self.nodes.push(Branch { coding: coding(*asked, children.len()), children: Vec::new() });
                for child in children {
                    let child = self.grow(child, outcome, binary);
                    self.nodes[number].children.push(child);
                }
                Child::Node(number)
            }
            (_, Emission::Real(_)) => self.leaf(Leaf::Gaussian),
            (Gates::Expert, Emission::Classes(classes)) => self.emit(&vec![1; classes], binary),
            (Gates::Subclasses(sizes), Emission::Classes(_)) => self.emit(sizes, binary),
        }
    }

    /// A node whose leaves emit the classes, so many a class.
    fn emit(&mut self, sizes: &[usize], binary: Coding) -> Child {
        let number = self.nodes.len();
        let total = sizes.iter().sum::<usize>();
        self.nodes.push(Branch { coding: if total == 2 { binary } else { Coding::Full }, children: Vec::new() });
        for (class, &size) in sizes.iter().enumerate() {
            for _ in 0..size {
                let leaf = self.leaf(Leaf::Class(class as u32));
                self.nodes[number].children.push(leaf);
            }
        }
        Child::Node(number)
    }

    fn leaf(&mut self, leaf: Leaf) -> Child {
        self.leaves.push(leaf);
        Child::Leaf(self.leaves.len() - 1)
    }

    /// Leaves below a child, in order.
    pub(crate) fn leaves_below(&self, child: Child) -> Vec<usize> {
        match child {
            Child::Leaf(leaf) => vec![leaf],
            Child::Node(node) => self.nodes[node].children.iter().flat_map(|c| self.leaves_below(*c)).collect(),
        }
    }

    /// Whether a leaf below the node emits the class; always for real outcomes.
    pub(crate) fn emits(&self, node: usize, class: u32) -> bool {
        self.leaves_below(Child::Node(node)).iter().any(|l| self.leaves[*l] == Leaf::Class(class) || self.leaves[*l] == Leaf::Gaussian)
    }

    /// A text that two subtrees share exactly where one can be turned into the other by reordering children.
    pub(crate) fn canonical(&self, child: Child) -> String {
        match child {
            Child::Leaf(leaf) => match self.leaves[leaf] {
                Leaf::Class(class) => class.to_string(),
                Leaf::Gaussian => "g".into(),
            },
            Child::Node(node) => {
                let mut parts: Vec<String> = self.nodes[node].children.iter().map(|c| self.canonical(*c)).collect();
                parts.sort();
                let coding = if self.nodes[node].coding == Coding::Full { "" } else { "l" };
                format!("{coding}({})", parts.join(" "))
            }
        }
    }

    /// Places of the children of a node, in groups that may be exchanged for one another.
    pub(crate) fn alike(&self, node: usize) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, child) in self.nodes[node].children.iter().enumerate() {
            groups.entry(self.canonical(*child)).or_default().push(place);
        }
        groups.into_values().collect()
    }

    /// Logarithm of the number of relabellings that leave the model as it is.
    pub(crate) fn ln_symmetries(&self) -> f64 {
        (0..self.nodes.len()).flat_map(|v| self.alike(v)).map(|group| ln_gamma(group.len() as f64 + 1.0)).sum::<f64>() + 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(children: Vec<Gates>) -> Gates {
        Gates::Gate { coding: None, children }
    }

    #[test]
    fn builders_make_the_trees_of_the_models() {
        let two = Emission::Classes(2);
        let softmax = Structure::Subclasses(vec![1, 1]).tree(two, Coding::Full);
        assert_eq!(softmax.nodes.len(), 1);
        assert_eq!(softmax.leaves, [Leaf::Class(0), Leaf::Class(1)]);
        assert_eq!(softmax, Structure::Experts(1).tree(two, Coding::Full));
        let subclasses = Structure::Subclasses(vec![1, 2]).tree(two, Coding::Logistic);
        assert_eq!(subclasses.leaves, [Leaf::Class(0), Leaf::Class(1), Leaf::Class(1)]);
        assert_eq!(subclasses.nodes[0].coding, Coding::Full);
        let experts = Structure::Experts(3).tree(two, Coding::Logistic);
        assert_eq!(experts.nodes.len(), 4);
        assert_eq!(experts.nodes[0].coding, Coding::Full);
        assert_eq!(experts.nodes[2].coding, Coding::Logistic);
        assert_eq!(experts.nodes[0].children, [Child::Node(1), Child::Node(2), Child::Node(3)]);
        assert_eq!(experts.nodes[3].children, [Child::Leaf(4), Child::Leaf(5)]);
        let one = Structure::Experts(1).tree(Emission::Real(1), Coding::Full);
        assert_eq!((one.root, one.nodes.len(), one.leaves.len()), (Child::Leaf(0), 0, 1));
        let deep = Structure::Gates(gate(vec![gate(vec![Gates::Expert]), gate(vec![Gates::Expert, Gates::Subclasses(vec![2, 1])])]));
        assert_eq!(deep.describe(), "((e) (e [2,1]))");
        let tree = deep.tree(two, Coding::Full);
        assert_eq!(tree.nodes.len(), 5);
        assert_eq!(tree.leaves_below(Child::Node(2)), [2, 3, 4, 5, 6]);
    }

    #[test]
    fn symmetries_are_counted() {
        let two = Emission::Classes(2);
        let count = |s: Structure, o| s.tree(o, Coding::Full).ln_symmetries().exp();
        assert!((count(Structure::Subclasses(vec![3, 2]), two) - 12.0).abs() < 1e-9);
        assert!((count(Structure::Experts(4), two) - 24.0).abs() < 1e-9);
        let hme = Structure::Gates(gate(vec![gate(vec![Gates::Expert; 2]); 2]));
        assert!((count(hme, two).ln() - 8f64.ln()).abs() < 1e-9);
        // two gates of three experts, each with two subclasses of one class: 2 · (3! · 2³)²
        let wide = Structure::Gates(gate(vec![gate(vec![Gates::Subclasses(vec![2, 1]); 3]); 2]));
        assert!((count(wide, two).ln() - 4608f64.ln()).abs() < 1e-9);
        assert!((count(wide_real(), Emission::Real(1)).ln() - (2.0 * 36.0f64).ln()).abs() < 1e-9);
    }

    fn wide_real() -> Structure {
        Structure::Gates(gate(vec![gate(vec![Gates::Expert; 3]); 2]))
    }
}
