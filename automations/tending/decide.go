package tending

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/workspaces/forge"
)

// Facts are what was seen of a pull request and of its workspace.
type Facts struct {
	Now    int64
	Pull   forge.Attended
	Rounds []Round // that there were, the newest first; none goes on
	Failed []forge.Failure
	Busy   bool // an agent works there, or asks
	Ready  bool // the workspace can be worked in
}

// do is what is to be done next.
type do int

const (
	wait do = iota
	begin
	update // bring the base in
	merge
	ask // a person
	finish
)

// move is what is to be done, and why.
type move struct {
	do
	code, because string
	in            time.Duration // until the next look, with wait
	round         Detail        // with begin
}

// The codes of what is waited for.
const (
	waitsChecks   = "waiting_checks"
	waitsComments = "waiting_comments"
	waitsAgent    = "waiting_agent"
	waitsReview   = "waiting_review"
	waitsMerge    = "waiting_merge"
	waitsConflict = "waiting_conflict"
	waitsHost     = "waiting_host"
	waitsPlace    = "waiting_workspace"
	working       = "round"
)

// The codes of what needs a person. All but AgentAsks stay until somebody continues.
const (
	AgentAsks   = "agent_asks"
	SameFailure = "same_failure"
	NoChange    = "nothing_changed"
	RoundsSpent = "rounds_spent"
	MoneySpent  = "money_spent"
	AgentFailed = "agent_failed"
	PushRefused = "push_refused"
	Conflicts   = "conflicts_left"
	NotAllowed  = "not_allowed"
	Closed      = "closed"
	Merged      = "merged"
)

const (
	fresh    = 90 * time.Second // after a push the Git host has not begun all checks
	settle   = time.Minute      // reviewers write several comments
	patient  = 20 * time.Minute // a round waits no longer for checks that run while others have failed or somebody commented, nor for more comments
	every    = time.Minute      // between looks at what changes
	quietly  = 5 * time.Minute  // between others
	sameRuns = 2                // rounds that left a failure as it was
)

// decide says what is to be done next about a pull request without a round that goes on.
func decide(t Tending, f Facts) move {
	pr := f.Pull
	switch {
	case pr.State == forge.Merged:
		return move{do: finish, code: Merged, because: "It was merged."}
	case pr.State == forge.Closed:
		return move{do: finish, code: Closed, because: "Somebody closed it without merging it."}
	case t.State == NeedsYou && t.Code != AgentAsks:
		return move{code: t.Code, because: t.Because, in: quietly}
	}
	if f.Now-max(t.PushedAt, pr.OpenedAt) < fresh.Milliseconds() {
		return move{code: waitsChecks, because: "It was pushed just now, and its checks are about to begin.", in: fresh}
	}
	d := causes(f)
	newest := int64(0)
	for _, s := range d.Comments {
		newest = max(newest, at(pr, s))
	}
	pending := slices.ContainsFunc(pr.Checks, func(c forge.Check) bool { return c.State == forge.Pending })
	waited := t.Code == waitsChecks && f.Now-t.Since > patient.Milliseconds()
	urgent := len(d.Checks) > 0 || len(d.Comments) > 0 || d.Conflict
	switch {
	case f.Now-newest < settle.Milliseconds() && !(t.Code == waitsComments && f.Now-t.Since > patient.Milliseconds()): // the host's clock may be ahead
		return move{code: waitsComments, because: "Somebody is commenting. It waits a minute, so that all comments become one round.", in: settle}
	case pending && !d.Conflict && !(waited && urgent):
		return move{code: waitsChecks, because: "Its checks run.", in: every}
	case d.Conflict && t.Code != waitsConflict && t.State != Working:
		return move{code: waitsConflict, because: "It conflicts with its base, or the Git host still looks: it is looked at once more.", in: settle}
	case !f.Ready && (urgent || pr.Behind):
		return move{code: waitsPlace, because: "Its workspace cannot be worked in now. Wake or restore it.", in: every}
	case f.Busy && (urgent || pr.Behind):
		return move{code: waitsAgent, because: "An agent works in the workspace. It waits for the end of its turn.", in: every}
	case urgent:
		return start(t, f.Rounds, d)
	case pr.Behind:
		return move{do: update}
	case pr.State == forge.Draft:
		return move{code: waitsReview, because: "It is a draft. Mark it as ready for review.", in: quietly}
	case pr.Queued:
		return move{code: waitsMerge, because: "The Git host merges it by itself, or has it in its merge queue.", in: every}
	case pr.Mergeable == "yes" && t.Merge != "" && !pending:
		return move{do: merge}
	case pr.Mergeable == "yes":
		return move{code: waitsMerge, because: "It can be merged.", in: quietly}
	case pr.Mergeable == "":
		return move{code: waitsHost, because: "The Git host still works out whether it can be merged.", in: every}
	}
	return move{code: waitsReview, because: cmp.Or(pr.Blocked, "It cannot be merged yet."), in: quietly}
}

// causes are what a round would be about.
func causes(f Facts) Detail {
	d := Detail{Head: f.Pull.HeadCommit, Conflict: f.Pull.Conflict, Failure: fingerprint(f.Failed)}
	for _, c := range f.Failed[:min(len(f.Failed), maxBroken)] {
		d.Checks = append(d.Checks, Broken{Name: c.Name, URL: c.URL})
	}
	seen := map[string]bool{}
	for _, r := range f.Rounds {
		for _, s := range r.Comments {
			seen[s.CommentID] = seen[s.CommentID] || r.Code == "" && r.Step == Over
		}
	}
	size := 0
	for _, s := range comments(f.Pull, true) {
		if seen[s.CommentID] {
			continue
		}
		if size += len(s.Text) + len(s.Path); len(d.Comments) == maxSaid || size > maxSaidBytes {
			break // the next round is about the rest
		}
		s.Mark = fmt.Sprintf("C%d", len(d.Comments)+1)
		d.Comments = append(d.Comments, s)
	}
	for _, r := range f.Pull.Reviews {
		if r.State == "changes" {
			d.Changes = append(d.Changes, r.Who)
		}
	}
	return d
}

// Bounds of a round, and so of its prompt. What is within them is never cut in the middle, where text of others could end up outside its marks.
const (
	maxSaid      = 40       // comments
	maxSaidBytes = 40 << 10 // of them
	maxBroken    = 20       // failed checks that are named
)

// comments are those of a pull request's open threads, of people who may write or of others.
func comments(pr forge.Attended, writes bool) []Said {
	var out []Said
	for _, t := range pr.Threads {
		for _, c := range t.Comments {
			if !c.Own && c.Writes == writes && c.Text != "" {
				out = append(out, Said{ThreadID: t.ID, CommentID: c.ID, Author: c.Author, Path: t.Path, Line: t.Line, Text: c.Text, URL: c.URL})
			}
		}
	}
	return out
}

// at is when a comment was written.
func at(pr forge.Attended, s Said) int64 {
	for _, t := range pr.Threads {
		for _, c := range t.Comments {
			if c.ID == s.CommentID && t.ID == s.ThreadID {
				return c.At
			}
		}
	}
	return 0
}

// start begins a round, unless a limit is reached or another one would not help.
func start(t Tending, rounds []Round, d Detail) move {
	// Who continues it knows what earlier rounds came to.
	rounds = slices.DeleteFunc(slices.Clone(rounds), func(r Round) bool { return r.StartedAt < t.CreatedAt })
	same := 0
	for _, r := range rounds {
		if d.Failure == "" || r.Failure != d.Failure {
			break
		}
		same++
	}
	names := make([]string, len(d.Checks))
	for i, c := range d.Checks {
		names[i] = c.Name
	}
	switch {
	case len(d.Comments) == 0 && len(rounds) > 0 && rounds[0].Code == "" && rounds[0].Head == d.Head && rounds[0].Pushed == d.Head:
		return move{do: ask, code: NoChange, because: "The agent committed nothing about what is wrong. Read what it said, then continue or help it."}
	case same >= sameRuns && len(d.Comments) == 0:
		return move{do: ask, code: SameFailure, because: fmt.Sprintf("%s failed again in the same way after %d rounds.", strings.Join(names, ", "), same)}
	case t.Rounds >= t.Limits.Rounds:
		return move{do: ask, code: RoundsSpent, because: fmt.Sprintf("The limit of %d rounds is reached, and something is left to do.", t.Limits.Rounds)}
	case t.Limits.Nano > 0 && t.SpentNano >= t.Limits.Nano:
		return move{do: ask, code: MoneySpent, because: "The limit of money is reached, and something is left to do."}
	}
	return move{do: begin, round: d}
}

var changing = regexp.MustCompile(`[0-9a-f]{7,}|[0-9]+`)

// fingerprint tells failures apart: the names of the checks and what their logs say, without numbers and times.
func fingerprint(failed []forge.Failure) string {
	if len(failed) == 0 {
		return ""
	}
	var all []string
	for _, f := range failed {
		all = append(all, f.Name+"\n"+changing.ReplaceAllString(f.Log, "0"))
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	return hex.EncodeToString(sum[:8])
}
