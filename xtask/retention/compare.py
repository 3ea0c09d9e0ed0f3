"""foldback beside the compactors of compaction-conformance-kit, on chats that the kit generates.

    compare.py --foldback PROGRAM [--gate] [--show] SEED|FIRST-LAST...

A chat has ten statements to keep, three of which replace an earlier value, four more that nobody asks
for, and small talk. Each compactor gets a tenth, a fifth and three tenths of it. The table
says how many of the ten were kept, in all and of each kind, for how many of the updates only the newer
value was kept (resolved), how many replaced values are still there (stale), and how often the output
was over its budget.

The kit's budget is characters of the whole view, with each message's role before it; foldback's is
tokens. So foldback is given the largest target whose view fits the characters: the system prompt, the
newest message and the first line of its summary count like everything else. One round of the kit: to
compact again with nothing new changes nothing.

With --gate, the exit code is 1 where foldback keeps less than its share of what the best of the others
keeps (LEAST_OF_BEST), exceeds a budget, or resolves fewer updates than any of them. With --show, foldback's views are printed.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

from compaction_kit import CanaryType, CompactedContext, Turn, build_generated_session, run_conformance
from compaction_kit.cli import COMPACTORS
from compaction_kit.compactors import _turns_to_text

BUDGETS = (0.1, 0.2, 0.3)
# The least share of what the best of the kit keeps. At a tenth (about 110 tokens) the system prompt, the
# newest message and the frame of a summary, which the kit's own drop, take more than half.
LEAST_OF_BEST = {0.1: 0.35, 0.2: 0.8, 0.3: 0.8}

COUNTS = ("kept", *(kind.value for kind in CanaryType), "updates", "resolved", "stale", "over")

# What `foldback compact` answers where what must stay is larger than the target.
EXIT_INFEASIBLE = 4


class Foldback:
    """`foldback compact`, as the kit calls a compactor."""

    name = "foldback"

    def __init__(self, program):
        self.program = program
        self.targets = []

    def compact(self, turns, round_num=1, budget_chars=None):
        messages = [{"role": turn.role, "content": turn.text} for turn in turns]
        target, text = self.largest_that_fits(json.dumps(messages), budget_chars)
        self.targets.append(target)
        return CompactedContext(text=text, compactor_name=self.name, round_num=round_num)

    def largest_that_fits(self, chat, budget_chars):
        """The largest target whose view fits, and the view; the smallest view where none does."""
        fitting, over = None, None
        low, high = 1, budget_chars
        while low <= high:
            target = (low + high) // 2
            text = self.view(chat, target)
            if text is None:
                low = target + 1
            elif len(text) <= budget_chars:
                fitting, low = (target, text), target + 1
            else:
                over, high = (target, text), target - 1
        return fitting or over

    def view(self, chat, target):
        """What the model would see, or nothing where foldback refuses the target."""
        command = [self.program, "compact", "-", "--format", "openai-chat", "--target", str(target), "-o", "-"]
        done = subprocess.run(command, input=chat, capture_output=True, text=True)
        if done.returncode == EXIT_INFEASIBLE:
            return None
        if done.returncode != 0:
            sys.exit(f"foldback compact --target {target} said:\n{done.stderr}")
        messages = json.loads(done.stdout)
        return _turns_to_text([Turn(message["role"], message["content"]) for message in messages])


def stands_in(value, text):
    """Whole words: `go` does not stand in `goal`."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def measure(compactor, session, statements, budget):
    """One chat, compacted and scored by the kit."""
    run = run_conformance(session, compactor, rounds=1, canaries=statements, budget_fraction=budget)
    [result] = run.rounds
    counts = dict.fromkeys(COUNTS, 0)
    counts["over"] = int(not result.within_budget)
    for statement in statements:
        kept = int(result.survived[statement.id])
        stale = int(any(stands_in(value, result.context.text) for value in statement.superseded_tokens))
        counts["kept"] += kept
        counts[statement.type.value] += kept
        counts["updates"] += len(statement.superseded_tokens)
        counts["resolved"] += int(bool(statement.superseded_tokens) and kept and not stale)
        counts["stale"] += stale
    return counts, result.context.text


def row(first, name, cells):
    return f"{first:<8}{name:<24}" + "".join(f"{cell:>{max(8, len(head) + 2)}}" for head, cell in cells)


def report(budget, name, measured):
    """The mean of what was kept, the sums of the rest."""
    means = {head: statistics.mean(counts[head] for counts in measured) for head in COUNTS}
    sums = {head: sum(counts[head] for counts in measured) for head in COUNTS}
    kinds = [(kind.value, f"{means[kind.value]:.2f}") for kind in CanaryType]
    resolved = ("resolved", f"{sums['resolved']}/{sums['updates']}")
    cells = [("kept", f"{means['kept']:.2f}"), *kinds, resolved, ("stale", sums["stale"]), ("over", sums["over"])]
    print(row(f"{budget:.0%}", name, cells))
    return means["kept"], sums


def compare(seeds, program, show):
    """Prints the table; answers what is wrong with foldback's part of it."""
    chats = [build_generated_session(seed) for seed in seeds]
    heads = [head for head in COUNTS if head != "updates"]
    print(row("budget", "compactor", [(head, head) for head in heads]))
    wrong, views = [], []
    for budget in BUDGETS:
        best, most_resolved = 0, 0
        for name, compactor in COMPACTORS.items():
            measured = [measure(compactor(), *chat, budget)[0] for chat in chats]
            kept, sums = report(budget, name, measured)
            best, most_resolved = max(best, kept), max(most_resolved, sums["resolved"])
        ours = Foldback(program)
        done = [measure(ours, *chat, budget) for chat in chats]
        kept, sums = report(budget, ours.name, [counts for counts, _ in done])
        print(f"        foldback's targets: {min(ours.targets)} to {max(ours.targets)} tokens\n")
        views += [(seed, budget, text) for seed, (_, text) in zip(seeds, done)]
        if kept < best * LEAST_OF_BEST[budget]:
            wrong.append(f"at {budget:.0%} foldback keeps {kept:.2f} of 10, the best of the kit {best:.2f}")
        if sums["resolved"] < most_resolved:
            wrong.append(f"at {budget:.0%} foldback resolves {sums['resolved']} updates, the kit {most_resolved}")
        if sums["over"]:
            wrong.append(f"at {budget:.0%} foldback is over the budget in {sums['over']} chats")
    for seed, budget, text in views if show else []:
        print(f"--- seed {seed} at {budget:.0%}: {len(text)} characters\n{text}\n")
    return wrong


def seeds_of(words):
    """`7` is one, `0-9` is ten."""
    ranges = [[int(seed) for seed in word.split("-")] for word in words]
    return [seed for ends in ranges for seed in range(ends[0], ends[-1] + 1)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--foldback", required=True, type=pathlib.Path)
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("seeds", nargs="+")
    arguments = parser.parse_args()
    wrong = compare(seeds_of(arguments.seeds), arguments.foldback, arguments.show)
    for told in wrong:
        print(told, file=sys.stderr)
    sys.exit(1 if wrong and arguments.gate else 0)


if __name__ == "__main__":
    main()
