//! Which records belong together: the chain that leads to the last thing said, what hangs off it,
//! and the branches that were left.
//!
//! Records name their parents, and the chain from the last one back is what the model saw. It is
//! not all of it: results of parallel calls hang off the records of their calls, attachments off
//! what they accompany, and after a compaction that preserved messages the chain goes on from the
//! preserved ones, past the boundary and its summary. Those are attached to the chain; what is left
//! are alternatives: a prompt that was edited, an answer that was asked for again.
//!
//! A second record without a parent is a beginning of its own. In recorded files it is a resumed
//! session that was written again from its start, or a first prompt that was edited; either way
//! the model saw nothing from before it. Only records before the first thing said (what hooks
//! attach when a session starts) belong to the beginning after them.

use std::cell::LazyCell;
use std::collections::hash_map::Entry;

use foldhash::{HashMap, HashMapExt, HashSet};

use super::name::{Key, Name};
use super::record::{Kind, Parent, Record};
use crate::pieces::Line;

/// Branches that are followed; files in which prompts were edited more often are rare.
const BRANCH_COUNT_MAX: usize = 32;

/// Records in all branches together: each repeats what it shares with the others.
const BRANCH_RECORD_COUNT_MAX: usize = 100_000;

/// The records of one conversation, as indices into the lines of the file.
pub(super) struct Tree<'t> {
    lines: &'t [Line<Record>],
    members: Vec<usize>,
    /// The place of the member that has a name; of several, the first.
    by_uuid: HashMap<Key<'t>, usize>,
    /// The parent of each member, by its place among the members.
    parents: Vec<Option<usize>>,
}

impl<'t> Tree<'t> {
    /// Links those of `all` records that say something new; in the order of the file.
    pub(super) fn new(lines: &'t [Line<Record>], all: Vec<usize>) -> Self {
        let mut by_uuid: HashMap<Key<'t>, usize> = HashMap::with_capacity(all.len());
        let mut members: Vec<usize> = Vec::with_capacity(all.len());
        let mut name_count = 0;
        for member in all {
            let record = &lines[member].record;
            if let Some(uuid) = &record.uuid {
                match by_uuid.entry(uuid.key()) {
                    // A record that was written twice was said once.
                    Entry::Occupied(first) if record.repeats(&lines[members[*first.get()]].record) => {
                        continue;
                    }
                    Entry::Occupied(_) => {}
                    Entry::Vacant(new) => drop(new.insert(members.len())),
                }
                name_count += 1;
            }
            members.push(member);
        }
        // Most records hang off the one before, and where names are not repeated it need not be looked up.
        let is_unique = by_uuid.len() == name_count;
        let is_named = |place: usize, uuid: &Name| lines[members[place]].record.uuid.as_ref() == Some(uuid);
        let first_said = members.iter().position(|&member| lines[member].record.is_said());
        let parent = |(place, &member): (usize, &usize)| {
            let record = &lines[member].record;
            let before = place.checked_sub(1);
            let find = |uuid: &Name| match before {
                Some(before) if is_unique && is_named(before, uuid) => Some(before),
                _ => by_uuid.get(&uuid.key()).copied().filter(|&found| found != place),
            };
            match (&record.parent, &record.logical_parent) {
                (Parent::Uuid(uuid), _) => find(uuid).or(before),
                (Parent::Nothing, Some(uuid)) => find(uuid).or(before),
                (Parent::Nothing, None) if record.kind == Kind::CompactBoundary => before,
                (Parent::Nothing, None) => before.filter(|_| first_said.is_some_and(|first| place <= first)),
                (Parent::Absent, _) => before,
            }
        };
        let parents = members.iter().enumerate().map(parent).collect();
        Self { lines, members, by_uuid, parents }
    }

    fn record(&self, place: usize) -> &'t Record {
        &self.lines[self.members[place]].record
    }

    /// The active branch, and those that were left in the order of their ends. As indices of lines.
    pub(super) fn branches(&self) -> (Vec<usize>, Vec<Vec<usize>>) {
        let leads_on = self.leads_on();
        let mut taken = vec![false; self.members.len()];
        let mut found: Vec<Vec<usize>> = Vec::new();
        let mut end = (0..self.members.len()).rev().find(|&place| self.is_end(place));
        let mut record_count = 0;
        while let Some(leaf) =
            end.filter(|_| found.len() <= BRANCH_COUNT_MAX && record_count <= BRANCH_RECORD_COUNT_MAX)
        {
            let active = self.active(leaf, &leads_on);
            let mut branch = Vec::new();
            for (place, _) in active.iter().enumerate().filter(|(_, is_active)| **is_active) {
                taken[place] = true;
                branch.push(self.members[place]);
            }
            record_count += if found.is_empty() { 0 } else { branch.len() };
            found.push(branch);
            end = (0..leaf).rev().find(|&place| !taken[place] && self.record(place).is_said());
        }
        let mut found = found.into_iter();
        let main = found.next().unwrap_or_else(|| self.members.clone());
        (main, found.rev().collect())
    }

    /// The record that the active branch ends with, as the index of its line, and whether a boundary
    /// that names it would be read as hanging off it: others may have the same uuid, and what a
    /// sub-agent says belongs together by its name.
    pub(super) fn end(&self) -> Option<(usize, bool)> {
        let end = (0..self.members.len()).rev().find(|&place| self.is_end(place))?;
        let record = self.record(end);
        let is_found = record.uuid.as_ref().is_some_and(|uuid| self.by_uuid.get(&uuid.key()) == Some(&end));
        let stays_in_group = match (record.is_sidechain, record.agent_id.is_some()) {
            (false, false) | (true, true) => true,
            (false, true) => record.is_said(),
            (true, false) => false,
        };
        Some((self.members[end], is_found && stays_in_group))
    }

    fn is_end(&self, place: usize) -> bool {
        self.record(place).is_said() || self.record(place).kind == Kind::CompactBoundary
    }

    /// Whether a prompt or an answer hangs off a record, directly or over others.
    fn leads_on(&self) -> Vec<bool> {
        let mut leads_on = vec![false; self.members.len()];
        for place in (0..self.members.len()).rev() {
            let record = self.record(place);
            let is_turning = record.is_said() && record.answered().next().is_none();
            if let Some(parent) = self.parents[place].filter(|_| is_turning || leads_on[place]) {
                leads_on[parent] = true;
            }
        }
        leads_on
    }

    /// The chain that ends at `leaf`, with what is attached to it.
    fn active(&self, leaf: usize, leads_on: &[bool]) -> Vec<bool> {
        let mut active = vec![false; self.members.len()];
        let mut next = Some(leaf);
        // A record that was met before ends the walk, so that a circle of parents does.
        while let Some(place) = next.filter(|&place| !std::mem::replace(&mut active[place], true)) {
            next = self.parents[place];
        }
        let chain: Vec<usize> = (0..active.len()).filter(|&place| active[place]).collect();
        // Both are made when they are asked for: nothing hangs off most chains.
        let messages: LazyCell<HashSet<&str>, _> = LazyCell::new(|| {
            chain.iter().filter_map(|&place| self.record(place).message_id.as_deref()).collect()
        });
        // A call is answered once below its record; elsewhere a copy of it may be answered again.
        let below = |place: usize| self.record(place).answered().map(move |call| (self.parents[place], call));
        let mut answered: Option<HashSet<(Option<usize>, &str)>> = None;
        let mut attached = Vec::new();
        for place in 0..self.members.len() {
            let Some(parent) = self.parents[place].filter(|&parent| active[parent] && !active[place]) else {
                continue;
            };
            let record = self.record(place);
            active[place] = match record.kind {
                Kind::Attachment | Kind::MicrocompactBoundary | Kind::Foldback | Kind::Other => {
                    !leads_on[place]
                }
                Kind::Assistant => record.message_id.as_deref().is_some_and(|id| messages.contains(id)),
                Kind::CompactBoundary => {
                    !record.compact().preserved.is_empty() || record.compact().segment.is_some()
                }
                Kind::User if record.is_summary => self.record(parent).kind == Kind::CompactBoundary,
                Kind::User if record.is_meta => record.is_of_call,
                Kind::User if record.answered().next().is_none() => false,
                Kind::User => {
                    let answered =
                        answered.get_or_insert_with(|| chain.iter().copied().flat_map(below).collect());
                    answered.extend(attached.drain(..).flat_map(below));
                    record.answered().all(|call| !answered.contains(&(Some(parent), call)))
                }
            };
            if active[place] {
                attached.push(place);
            }
        }
        active
    }
}

/// The records of the main conversation, and those of each sub-agent, by indices of lines. A file
/// that only has sub-agents has the first of them as its main conversation.
pub(super) fn groups(lines: &[Line<Record>]) -> Vec<(Option<String>, Vec<usize>)> {
    let has_main = lines.iter().any(|line| !line.record.is_sidechain && line.record.is_said());
    let mut groups: Vec<(Option<String>, Vec<usize>)> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut by_uuid: HashMap<Key<'_>, usize> = HashMap::new();
    let mut main = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let record = &line.record;
        // Files of sub-agents hold links of the chain that are not marked.
        if !record.is_sidechain && (has_main || record.agent_id.is_none()) {
            main.push(index);
            continue;
        }
        // Older files do not name sub-agents: there, what hangs together is one.
        let above = match &record.parent {
            Parent::Uuid(uuid) => by_uuid.get(&uuid.key()).copied(),
            Parent::Nothing | Parent::Absent => None,
        };
        let group = match (&record.agent_id, above) {
            (Some(name), _) => *by_name.entry(name.to_string()).or_insert_with(|| {
                groups.push((Some(name.to_string()), Vec::new()));
                groups.len() - 1
            }),
            (None, Some(group)) => group,
            (None, None) => {
                groups.push((None, Vec::new()));
                groups.len() - 1
            }
        };
        groups[group].1.push(index);
        if let Some(uuid) = &record.uuid {
            by_uuid.insert(uuid.key(), group);
        }
    }
    if has_main || groups.is_empty() {
        groups.insert(0, (None, main));
    }
    groups.retain(|(_, members)| !members.is_empty());
    groups
}
