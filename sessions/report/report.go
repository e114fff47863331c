// Package report summarizes the work done in a workspace: what was requested, which commands ran, which files were touched inside
// and outside its folder, which hosts were reached, what was tested, how long it took and what it cost. It combines data of other
// packages, and is meant to be attached to a merge. It names what is unknown instead of leaving it out.
//
// Agents' own records are the source of what agents did: an agent that lies in its record lies here. What the server saw itself
// (files that differ, hosts the gate let through, checks, the ledger) does not depend on them.
package report

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/workspaces"
)

// Most entries of each list; the rest is only counted.
const (
	maxCommands = 500
	maxFiles    = 2000
	maxPrompts  = 200
	maxHosts    = 200
	// maxItems bounds what is read of one session's conversation.
	maxItems = 20_000
)

// Report describes the work in a workspace. Times are ms UTC, money nano-USD.
type Report struct {
	At        int64
	Workspace workspaces.Workspace
	Project   string
	Place     string // display name of where it runs now

	Sessions []Session
	Prompts  []Prompt
	Commits  []workspaces.Commit
	Changes  []Change
	Outside  []Touched // files agents wrote outside the workspace's folder
	Commands []Command
	Tests    []Test // checks of the project, then commands of agents that look like tests
	Reached  []Host
	Refused  []Host
	// HostsKnown is set where the workspace's current connections go through the gate, which knows the hosts.
	HostsKnown bool
	Costs      Costs

	Totals  Totals
	Unknown []string // what this report does not cover, in sentences

	noCosts bool // the reader may not see Costs
}

// HideCosts removes the cost, for readers who may not see it. The durations stay.
func (r *Report) HideCosts() {
	r.Costs, r.noCosts = Costs{RunMs: r.Costs.RunMs}, true
	r.Unknown = append(r.Unknown, "The cost and the tokens used are shown only to people who may see costs.")
}

// CostsShown reports whether the numbers of Costs are set.
func (r *Report) CostsShown() bool { return !r.noCosts }

// Totals counts the entries of the lists, including omitted ones.
type Totals struct {
	Prompts, Commands, Failed, Changes, Outside, Reached, Refused int
	Additions, Deletions                                          int
}

// Session is one run of an agent or shell.
type Session struct {
	ID, Agent, Title   string
	Permissions        string // ask, all, "" = unknown
	StartedBy          string
	StartedAt, EndedAt int64  // EndedAt 0 = it is running
	Ended              string // how
	Recorded           bool   // its agent writes a record, so that its commands are known
}

// Prompt is a person's request to an agent.
type Prompt struct {
	At        int64
	SessionID string
	Text      string
}

// Change is a file that differs from the base.
type Change struct {
	Path, OldPath, Status string
	Additions, Deletions  int
	Binary                bool
}

// Touched is a file an agent wrote outside the workspace's folder.
type Touched struct {
	Path      string
	SessionID string
	Times     int
	LastAt    int64
}

// Command is a command run by an agent.
type Command struct {
	At         int64
	SessionID  string
	Text       string
	Status     string // ok, failed, denied, stopped, running
	DurationMs int64
}

// Test is a run of a check, or of a command that looks like one.
type Test struct {
	Name    string
	Command string
	State   string // of a check: passed, failed, ...; of a command: ok, failed, ...
	Check   bool   // one of the project's checks, run by Parawork
	Commit  string // the commit it ran on, of a check
	At      int64
}

// Host is a host that was reached or refused.
type Host struct {
	Host            string
	Port            int
	Times           int64
	FirstAt, LastAt int64
	Reason          string // of a refusal
}

// Costs is the time and money spent.
type Costs struct {
	RunMs          int64 // of its sandboxes
	CostNano       int64
	TokensCostNano int64
	TokensUnknown  int64 // requests whose cost is unknown
	Input, Output  int64 // tokens
}

// Sources are where the report's data comes from. Each answers for one workspace.
type Sources struct {
	Workspace    func(ctx context.Context, id string) (workspaces.Workspace, error)
	Project      func(ctx context.Context, id string) (workspaces.Project, error)
	Place        func(ctx context.Context, executor string) string
	Commits      func(ctx context.Context, workspaceID string) ([]workspaces.Commit, error)
	Changes      func(ctx context.Context, workspaceID string) ([]Change, error)
	Sessions     func(ctx context.Context, workspaceID string) ([]sessions.Session, error)
	Conversation func(ctx context.Context, sessionID string, q conversation.Query) (sessions.Conversation, error)
	Checks       func(ctx context.Context, workspaceID string) ([]Test, error)
	// Hosts returns what the gate let through and what it refused; gated reports whether the workspace's current sandbox has a
	// gate.
	Hosts func(ctx context.Context, workspaceID string) (reached, refused []Host, gated bool, err error)
	Costs func(ctx context.Context, workspaceID string) (Costs, error)
	Names func(ctx context.Context, teamID string) (map[string]string, error) // of a team's members, by id
	Now   func() time.Time
}

// Service makes reports. Safe for concurrent use; it stores nothing.
type Service struct{ from Sources }

// New returns a Service that reads from these sources.
func New(from Sources) *Service { return &Service{from} }

// Of returns the report on a workspace. Errors: not_found.
func (s *Service) Of(ctx context.Context, workspaceID string) (Report, error) {
	w, err := s.from.Workspace(ctx, workspaceID)
	if err != nil {
		return Report{}, err
	}
	r := Report{At: s.from.Now().UnixMilli(), Workspace: w, Place: s.from.Place(ctx, w.Executor)}
	p, err := s.from.Project(ctx, w.ProjectID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Report{}, fmt.Errorf("reading the project: %w", err)
	}
	r.Project = p.Name
	if r.Commits, err = s.from.Commits(ctx, w.ID); err != nil {
		r.Unknown = append(r.Unknown, "The branch's commits could not be read.")
	}
	if err := s.files(ctx, &r); err != nil {
		return Report{}, err
	}
	if err := s.work(ctx, &r); err != nil {
		return Report{}, err
	}
	if err := s.tests(ctx, &r); err != nil {
		return Report{}, err
	}
	if err := s.hosts(ctx, &r); err != nil {
		return Report{}, err
	}
	if r.Costs, err = s.from.Costs(ctx, w.ID); err != nil {
		return Report{}, fmt.Errorf("reading what it cost: %w", err)
	}
	if n := r.Costs.TokensUnknown; n > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("The cost of %s is unknown.", plural(int(n), "request to a model", "requests to models")))
	}
	return r, nil
}

// files lists what differs from the base.
func (s *Service) files(ctx context.Context, r *Report) error {
	all, err := s.from.Changes(ctx, r.Workspace.ID)
	if err != nil {
		return fmt.Errorf("reading the changed files: %w", err)
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	r.Totals.Changes = len(all)
	for _, c := range all {
		r.Totals.Additions += c.Additions
		r.Totals.Deletions += c.Deletions
	}
	r.Changes = all[:min(len(all), maxFiles)]
	return nil
}

// work reads what agents were asked and did.
func (s *Service) work(ctx context.Context, r *Report) error {
	all, err := s.from.Sessions(ctx, r.Workspace.ID)
	if err != nil {
		return fmt.Errorf("reading the sessions: %w", err)
	}
	slices.SortFunc(all, func(a, b sessions.Session) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	names, err := s.from.Names(ctx, r.Workspace.TeamID)
	if err != nil {
		return fmt.Errorf("reading who started the sessions: %w", err)
	}
	outside := map[string]*Touched{}
	silent, shells := 0, 0
	for _, row := range all {
		one := Session{ID: row.ID, Agent: cmp.Or(row.AgentName, row.Agent), Title: row.Title, Permissions: row.Permissions, StartedBy: names[row.CreatedBy],
			StartedAt: row.StartedAt, EndedAt: row.EndedAt}
		if row.EndedAt != 0 {
			one.Ended = cmp.Or(row.StateReason, string(row.State))
		}
		if one.Recorded, err = s.talk(ctx, r, row.ID, outside); err != nil {
			return fmt.Errorf("reading a conversation: %w", err)
		}
		switch {
		case row.Agent == "shell":
			shells++
		case !one.Recorded:
			silent++
		}
		r.Sessions = append(r.Sessions, one)
	}
	r.Totals.Outside = len(outside)
	for _, t := range outside {
		r.Outside = append(r.Outside, *t)
	}
	slices.SortFunc(r.Outside, func(a, b Touched) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.SessionID, b.SessionID))
	})
	r.Outside = r.Outside[:min(len(r.Outside), maxFiles)]
	if silent > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("%s no record of what they ran; their terminals are in the history.", plural(silent, "session keeps", "sessions keep")))
	}
	if shells > 0 {
		r.Unknown = append(r.Unknown, fmt.Sprintf("What was typed in %s is not listed; the terminals are in the history.", plural(shells, "shell", "shells")))
	}
	if r.Totals.Commands > 0 {
		r.Unknown = append(r.Unknown, "Files outside the workspace's folder are those agents say they edited; what their commands wrote there is unknown.")
	}
	return nil
}

// talk adds the data from one session's record.
func (s *Service) talk(ctx context.Context, r *Report, sessionID string, outside map[string]*Touched) (recorded bool, err error) {
	var before int64
	var items []conversation.Placed
	for len(items) < maxItems {
		page, err := s.from.Conversation(ctx, sessionID, conversation.Query{Before: before, Limit: 1000, Kinds: []conversation.Kind{conversation.Prompt, conversation.Tool, conversation.Edit}})
		if err != nil {
			return recorded, err
		}
		recorded = recorded || page.Record == transcript.Kept
		items = append(slices.Clone(page.Items), items...)
		if before = page.Before; before == 0 {
			break
		}
	}
	if before != 0 {
		r.Unknown = append(r.Unknown, "A session did more than is listed: its oldest steps are left out.")
	}
	for _, it := range items {
		switch {
		case it.Kind == conversation.Prompt:
			r.Totals.Prompts++
			if len(r.Prompts) < maxPrompts {
				r.Prompts = append(r.Prompts, Prompt{At: it.At, SessionID: sessionID, Text: it.Text})
			}
		case it.Kind == conversation.Edit:
			if it.Status == conversation.OK && elsewhere(it.Path) {
				k := sessionID + "\x00" + it.Path
				if outside[k] == nil {
					outside[k] = &Touched{Path: it.Path, SessionID: sessionID}
				}
				outside[k].Times++
				outside[k].LastAt = max(outside[k].LastAt, it.At)
			}
		case runs(it.Tool):
			r.Totals.Commands++
			if it.Status == conversation.Failed {
				r.Totals.Failed++
			}
			c := Command{At: it.At, SessionID: sessionID, Text: cmp.Or(it.Title, it.Input), Status: it.Status, DurationMs: it.Duration}
			if len(r.Commands) < maxCommands {
				r.Commands = append(r.Commands, c)
			}
			if looksLikeTest(c.Text) {
				r.Tests = append(r.Tests, Test{Command: c.Text, State: c.Status, At: c.At})
			}
		}
	}
	return recorded, nil
}

// elsewhere reports whether a path of a record leads out of the workspace's folder.
func elsewhere(p string) bool {
	clean := path.Clean(p)
	return p != "" && (path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "~"))
}

// runs reports whether a tool of an agent runs commands: Claude Code's Bash, Codex' exec_command and its predecessors.
func runs(tool string) bool {
	switch tool {
	case "Bash", "exec_command", "shell", "local_shell", "unified_exec":
		return true
	}
	return false
}

// tests puts the project's checks before the agents' own tests, of which the newest runs count.
func (s *Service) tests(ctx context.Context, r *Report) error {
	checks, err := s.from.Checks(ctx, r.Workspace.ID)
	if err != nil {
		return fmt.Errorf("reading the checks: %w", err)
	}
	own := map[string]Test{}
	for _, t := range r.Tests {
		if was, ok := own[t.Command]; !ok || t.At >= was.At {
			own[t.Command] = t
		}
	}
	r.Tests = checks
	var last []Test
	for _, t := range own {
		last = append(last, t)
	}
	slices.SortFunc(last, func(a, b Test) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Command, b.Command)) })
	r.Tests = append(r.Tests, last[:min(len(last), maxCommands)]...)
	return nil
}

// hosts adds the network access as far as it is known.
func (s *Service) hosts(ctx context.Context, r *Report) error {
	reached, refused, gated, err := s.from.Hosts(ctx, r.Workspace.ID)
	if err != nil {
		return fmt.Errorf("reading which hosts were reached: %w", err)
	}
	r.Totals.Reached, r.Totals.Refused = len(reached), len(refused)
	r.Reached, r.Refused = reached[:min(len(reached), maxHosts)], refused[:min(len(refused), maxHosts)]
	r.HostsKnown = gated
	if !gated {
		r.Unknown = append(r.Unknown, "Where it runs now, connections do not go through the gate: which hosts were reached is unknown.")
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
