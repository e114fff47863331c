package sessions

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

const commandAgent, setupAgent = agents.Command, agents.Setup

// hydrate fills in what is not stored.
func (s *Service) hydrate(row Session) Session {
	row.AgentName = s.cfg.Agents.Name(row.Agent)
	row.CanResume = row.State.Ended() && row.Agent != agents.Setup
	if !row.State.Ended() {
		row.ExitSignal = ""
		if st := s.stranded.of(row.ID); st != nil {
			row.State, row.StateReason, row.StateAt = state.Waiting, st.words, st.since
		}
		if why, paused := s.cfg.Places.Paused(row.WorkspaceID); paused {
			row.StateReason = cmp.Or(why, "It is paused.")
		}
	}
	return row
}

// fresh returns row as it is now: memory is more recent than the database.
func (s *Service) fresh(row Session) Session {
	if l := s.running(row.ID); l != nil && !row.State.Ended() {
		row = l.snapshot()
	}
	return s.hydrate(row)
}

// Get returns a session. Errors: not_found.
func (s *Service) Get(ctx context.Context, id string) (Session, error) {
	row, err := s.cfg.Store.Session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	return s.fresh(row), nil
}

// List returns the sessions of a workspace, newest first.
func (s *Service) List(ctx context.Context, workspaceID string) ([]Session, error) {
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i] = s.fresh(rows[i])
	}
	return rows, nil
}

// rank orders states, and urgency reasons to look, by how much they matter in a workspace's summary.
var (
	rank    = [...]state.State{state.Waiting, state.Working, state.Starting, state.Idle}
	urgency = [...]string{"waiting", "failed", "stuck", "limited", "finished", ""}
)

// group holds the sessions of one workspace that matter for its summary.
type group struct {
	open     []Session
	ended    *Session // the last one, not counting shells and setup scripts
	total    int
	watchers []Watcher
}

// resumed reports whether an agent was started after the last one ended.
func (g *group) resumed() bool {
	return slices.ContainsFunc(g.open, func(o Session) bool { return o.Agent != agents.Shell && o.StartedAt >= g.ended.EndedAt })
}

// groups returns the relevant sessions of each workspace of the team that has any, or of the named ones.
func (s *Service) groups(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]*group, error) {
	counted, err := s.cfg.Store.TeamSessions(ctx, teamID, workspaceIDs...)
	if err != nil {
		return nil, err
	}
	rows := make([]Session, 0, len(counted))
	for _, c := range counted {
		rows = append(rows, c.Session)
	}
	groups := s.grouped(rows)
	for _, c := range counted {
		groups[c.WorkspaceID].total = c.Total
	}
	return groups, nil
}

// grouped groups sessions by workspace.
func (s *Service) grouped(rows []Session) map[string]*group {
	groups := map[string]*group{}
	for _, row := range rows {
		g := groups[row.WorkspaceID]
		if g == nil {
			g = &group{}
			groups[row.WorkspaceID] = g
		}
		row = s.fresh(row)
		g.watchers = together(g.watchers, row.Watchers)
		if row.State.Ended() {
			if g.ended == nil || row.EndedAt > g.ended.EndedAt {
				g.ended = &row
			}
			continue
		}
		g.open = append(g.open, row)
	}
	return groups
}

// Summaries returns a summary of the sessions of each workspace of the team that has any, or of the named ones.
func (s *Service) Summaries(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]Summary, error) {
	groups, err := s.groups(ctx, teamID, workspaceIDs...)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Summary, len(groups))
	for ws, g := range groups {
		sum := Summary{Sessions: g.total, Running: len(g.open), Watchers: g.watchers}
		switch {
		case len(g.open) > 0:
			sum.of(slices.MinFunc(g.open, func(a, b Session) int {
				return cmp.Or(cmp.Compare(urgent(a), urgent(b)), cmp.Compare(slices.Index(rank[:], a.State), slices.Index(rank[:], b.State)),
					cmp.Compare(b.StateAt, a.StateAt))
			}))
		case g.ended != nil:
			sum.of(*g.ended)
		}
		if g.ended != nil && !g.resumed() && urgent(*g.ended) < slices.Index(urgency[:], sum.Attention) {
			sum.Attention, sum.Reason, sum.At = Attention(*g.ended)
			sum.SessionID, sum.Agent, sum.AgentName, sum.Until = g.ended.ID, g.ended.Agent, g.ended.AgentName, 0
		}
		out[ws] = sum
	}
	return out, nil
}

func (sum *Summary) of(row Session) {
	sum.State, sum.Reason, sum.SessionID, sum.At, sum.Agent, sum.AgentName = row.State, row.StateReason, row.ID, row.StateAt, row.Agent, row.AgentName
	if why, reason, at := Attention(row); why != "" {
		sum.Attention, sum.Reason, sum.At, sum.Until = why, reason, at, row.Basis.LimitEnd()
	}
}

func urgent(row Session) int {
	why, _, _ := Attention(row)
	return slices.Index(urgency[:], why)
}

// Attention says why a person should look at the session: waiting, failed, stuck, limited or finished, with the reason as text and since
// when (ms UTC); "" when nobody needs to.
func Attention(row Session) (why, reason string, at int64) {
	switch {
	case row.State == state.Waiting && row.Question != nil: // its own words say more than that something is asked
		return "waiting", row.Question.Title, row.StateAt
	case row.State == state.Waiting:
		return "waiting", row.StateReason, row.StateAt
	case row.Agent == agents.Shell || row.Agent == agents.Setup: // a person who closes a shell knows
	case row.State == state.Failed, row.State == state.Lost, row.State == state.Exited && (row.ExitCode == nil || *row.ExitCode != 0) && !wasStopped(row):
		return "failed", row.StateReason, row.EndedAt
	case row.State == state.Exited && !wasStopped(row):
		return "finished", row.StateReason, row.EndedAt
	case row.State.Ended():
	case row.Basis.Limit != nil && row.State == state.Idle:
		return "limited", row.Basis.Limit.Words(), row.Basis.Limit.At
	case row.Basis.Failed:
		return "failed", row.StateReason, row.StateAt
	case row.Basis.StuckAt != 0:
		return "stuck", row.StateReason, row.Basis.StuckAt
	case row.Basis.DoneAt != 0 && row.State == state.Idle:
		return "finished", "has finished its turn", row.Basis.DoneAt
	}
	return "", "", 0
}

func wasStopped(row Session) bool {
	return row.StateReason == "stopped" || strings.HasPrefix(row.StateReason, "stopped ")
}
