package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// What a sandbox costs belongs to the sessions that run in it: while several do, each has the same share, and what does not divide goes to
// the first of them, so that shares add up to the nano-dollar. While none does it is nobody's ("").

// byAgent adds up what agents used.
func (s *Service) byAgent(ctx context.Context, q Query, out tally) error {
	sessions, err := s.store.Sessions(ctx, q.TeamID, "", q.From, q.To)
	if err != nil {
		return fmt.Errorf("reading which sessions ran: %w", err)
	}
	in := byWorkspace(sessions)
	err = s.store.Segments(ctx, q.TeamID, "", q.From, q.To, func(p Part) {
		share(p, q.From, q.To, in[p.WorkspaceID], func(of *Session, a Amounts) {
			agent := ""
			if of != nil {
				agent = of.Agent
			}
			out.add(agent, a)
		})
	})
	if err != nil {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	return nil
}

// byWorkspace puts sessions to their workspaces, in order.
func byWorkspace(sessions []Session) map[string][]Session {
	out := make(map[string][]Session)
	slices.SortFunc(sessions, func(a, b Session) int { return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.ID, b.ID)) })
	for _, s := range sessions {
		out[s.WorkspaceID] = append(out[s.WorkspaceID], s)
	}
	return out
}

// share tells what of a segment in [from, to) is whose; nil = nobody's. The sessions are in order.
func share(p Part, from, to int64, sessions []Session, give func(of *Session, a Amounts)) {
	from, to = max(from, p.StartedAt), min(to, p.EndedAt)
	if to <= from {
		return
	}
	cuts := []int64{from, to}
	var in []*Session
	for i := range sessions {
		s := &sessions[i]
		if s.StartedAt >= to || s.EndedAt != 0 && s.EndedAt <= from {
			continue
		}
		in = append(in, s)
		if s.StartedAt > from {
			cuts = append(cuts, s.StartedAt)
		}
		if s.EndedAt != 0 && s.EndedAt < to {
			cuts = append(cuts, s.EndedAt)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		a, b := cuts[i], cuts[i+1]
		var run []*Session
		for _, s := range in {
			if s.StartedAt <= a && (s.EndedAt == 0 || s.EndedAt >= b) {
				run = append(run, s)
			}
		}
		all := p.between(a, b)
		if len(run) == 0 {
			give(nil, all)
			continue
		}
		for j, s := range run {
			give(s, all.part(int64(j), int64(len(run))))
		}
	}
}

// part is the i-th of n equal parts; what does not divide is in the first ones.
func (a Amounts) part(i, n int64) Amounts {
	of := func(v int64) int64 {
		q := v / n
		if i < v%n {
			q++
		}
		return q
	}
	return Amounts{RunMs: of(a.RunMs), MeteredMs: of(a.MeteredMs), VCPUMs: of(a.VCPUMs), MiBMs: of(a.MiBMs), CostNano: of(a.CostNano)}
}

// Costs is what a workspace has come to.
type Costs struct {
	Amounts
	HourNano int64 // what its sandbox costs an hour now; 0 = nothing runs, or it is free
	Sessions []SessionCosts
}

// SessionCosts is a session's share. ID "" = time in which none ran.
type SessionCosts struct {
	ID, Agent string
	Amounts
}

// Workspace tells what a workspace has come to so far, session by session.
func (s *Service) Workspace(ctx context.Context, workspaceID string) (Costs, error) {
	var out Costs
	const ever = 1 << 52
	sessions, err := s.store.Sessions(ctx, "", workspaceID, 0, ever)
	if err != nil {
		return out, fmt.Errorf("reading which sessions ran: %w", err)
	}
	tokens, err := s.store.SessionTokens(ctx, workspaceID)
	if err != nil {
		return out, fmt.Errorf("reading what models cost: %w", err)
	}
	if out.HourNano, err = s.store.Running(ctx, workspaceID); err != nil {
		return out, fmt.Errorf("reading what its sandbox costs: %w", err)
	}
	mine := byWorkspace(sessions)[workspaceID]
	sums := make(tally)
	err = s.store.Segments(ctx, "", workspaceID, 0, ever, func(p Part) {
		share(p, 0, ever, mine, func(of *Session, a Amounts) {
			id := ""
			if of != nil {
				id = of.ID
			}
			sums.add(id, a)
		})
	})
	if err != nil {
		return out, fmt.Errorf("reading the ledger: %w", err)
	}
	for id, a := range tokens {
		sums.add(id, a)
	}
	agents := make(map[string]string, len(mine))
	for _, one := range mine {
		agents[one.ID] = one.Agent
		if _, ok := sums[one.ID]; !ok {
			sums[one.ID] = Amounts{}
		}
	}
	for id, a := range sums {
		out.Add(a)
		out.Sessions = append(out.Sessions, SessionCosts{ID: id, Agent: agents[id], Amounts: a})
	}
	slices.SortFunc(out.Sessions, func(a, b SessionCosts) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
