//! What the origin was told, held against what took place.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{
    Failure,
    chains::{Ended, Ending},
};

/// The figures.
#[derive(Serialize, Default)]
pub(crate) struct Verdict {
    chains: usize,
    faults: usize,
    answered: usize,
    failed: usize,
    unknown: usize,
    doubled: usize,
    lost: usize,
    hung: usize,
}

/// Nothing may have taken place twice, and nothing that was told to have taken place, or not to have, otherwise.
pub(crate) fn hold(ended: &[Ended], effects: &BTreeMap<(usize, usize), usize>, faults: usize) -> Verdict {
    let mut verdict = Verdict { chains: ended.len(), faults, ..Verdict::default() };
    for (effect, count) in effects {
        if *count > 1 {
            eprintln!("effect {effect:?} took place {count} times");
            verdict.doubled += 1;
        }
    }
    for Ended { chain, effects: planned, ending } in ended {
        let took_place = |index: usize| effects.contains_key(&(*chain, index));
        let done = (0..*planned).filter(|index| took_place(*index)).count();
        match ending {
            Ending::Answered => {
                verdict.answered += 1;
                verdict.lost += planned - done;
                if done < *planned {
                    eprintln!("chain {chain} was answered, and {done} of its {planned} effects took place");
                }
            }
            // Step k makes effect k - 1: all before it took place, it and what follows did not.
            Ending::Failed { step, why } => {
                verdict.failed += 1;
                let before = (*step as usize).saturating_sub(1);
                let as_told = (0..*planned).all(|index| took_place(index) == (index < before));
                if !as_told {
                    eprintln!(
                        "chain {chain} failed before its effect at step {step}, but {done} of {planned} took place: {why}"
                    );
                    verdict.lost += 1;
                }
            }
            Ending::Unknown => verdict.unknown += 1,
            Ending::Hung => {
                eprintln!("chain {chain} did not end");
                verdict.hung += 1;
            }
        }
    }
    verdict
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.doubled + self.lost + self.hung == 0
    }

    pub(crate) fn print(&self) {
        println!("{:>8}  chains run", self.chains);
        println!("{:>8}  faults injected: nodes killed and restarted, or stopped for a while", self.faults);
        println!("{:>8}  answered", self.answered);
        println!("{:>8}  failed before their effect at the step they name", self.failed);
        println!("{:>8}  outcome unknown after the step they name", self.unknown);
        println!("{:>8}  effects that took place twice", self.doubled);
        println!("{:>8}  effects that took place, or did not, otherwise than was told", self.lost);
        println!("{:>8}  chains that did not end", self.hung);
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")?;
        println!("written to {}", path.display());
        Ok(())
    }
}
