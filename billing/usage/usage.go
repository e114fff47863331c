// Package usage reports what the ledger holds: how long sandboxes ran, what they cost and what models cost, by day, hour, user,
// project, executor, agent, workspace or team, and a forecast of the month. It reads the segments themselves, so that its sums are the
// ledger's to the nano-dollar; a part of a segment costs what it had cost at the part's end, less what it had at its beginning.
//
// Money is int64 nano-USD, time int64 ms UTC; no floats are used. Goroutines: none.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/fault"
)

const (
	hourMs = 3_600_000
	dayMs  = 24 * hourMs

	// mostDays bounds a report, mostHourDays one by the hour.
	mostDays, mostHourDays = 366, 31
)

// Group is what a report is grouped by.
type Group string

// The groups.
const (
	ByDay       Group = "day"
	ByHour      Group = "hour"
	ByUser      Group = "user"
	ByProject   Group = "project"
	ByExecutor  Group = "executor"
	ByAgent     Group = "agent"
	ByWorkspace Group = "workspace"
	ByTeam      Group = "team" // of the instance only
)

// Groups are all there are.
var Groups = []Group{ByDay, ByHour, ByUser, ByProject, ByExecutor, ByAgent, ByWorkspace, ByTeam}

// Private is the key for the sum of the workspaces that the caller may not see.
const Private = "private"

// Amounts are what something came to.
type Amounts struct {
	RunMs          int64 // how long sandboxes ran
	MeteredMs      int64 // of that, in executors whose time counts in users' hours
	VCPUMs         int64 // run time x vCPUs
	MiBMs          int64 // run time x MiB
	CostNano       int64
	TokensCostNano int64 // of the requests whose cost is known
	TokensUnknown  int64 // requests whose cost nobody knows
	InputTokens    int64 // as far as known
	OutputTokens   int64
}

// Add adds b.
func (a *Amounts) Add(b Amounts) {
	a.RunMs += b.RunMs
	a.MeteredMs += b.MeteredMs
	a.VCPUMs += b.VCPUMs
	a.MiBMs += b.MiBMs
	a.CostNano += b.CostNano
	a.TokensCostNano += b.TokensCostNano
	a.TokensUnknown += b.TokensUnknown
	a.InputTokens += b.InputTokens
	a.OutputTokens += b.OutputTokens
}

// Item is one line of a report.
type Item struct {
	Key  string // id, kind or time; "" = nobody's: the server's own, or time in which no session ran
	Name string // for people; "" = it is gone, or has none
	Amounts
}

// Basis says what a forecast rests on.
type Basis string

// What a forecast may rest on.
const (
	BasisWeek  Basis = "last_7_days"  // the mean of the last seven whole days
	BasisFewer Basis = "since_first"  // the mean of the whole days since the first use
	BasisToday Basis = "today"        // there is no whole day yet
	BasisNone  Basis = "nothing_used" // in the last seven days
)

// Forecast is what the present month will come to if the rest of it goes on like the days it rests on.
type Forecast struct {
	Period         string // the month
	EndsAt         int64
	CostNano       int64
	TokensCostNano int64 // of the requests whose cost is known
	Basis          Basis
	Days           int // how many days it rests on; 0 = today's hours
}

// Report is the usage of a period.
type Report struct {
	From, To int64
	Group    Group
	Totals   Amounts
	Items    []Item
	Forecast Forecast
}

// Query says what is asked.
type Query struct {
	TeamID   string // "" = the whole instance
	From, To int64  // widened to whole hours; To is not in it
	Group    Group
	Hidden   map[string]bool // workspaces whoever asks may not see
}

// Part is a piece of a segment, or all of it.
type Part struct {
	SegmentID, TeamID, WorkspaceID, UserID, ProjectID, Executor string

	Metered   bool
	CPUs      int64
	MemoryMB  int64
	PriceNano int64
	StartedAt int64
	EndedAt   int64 // when it was last known to run, where it is open
	CostNano  int64 // all of it
}

// Session is when an agent ran in a workspace.
type Session struct {
	ID, WorkspaceID, Agent string

	StartedAt, EndedAt int64 // EndedAt 0 = it runs
}

// Store is the storage that the service needs. teamID "" = the whole instance.
type Store interface {
	// SegmentSums adds up, by group, segments that began in [from, to): whole days, groups but ByHour and ByAgent. The key of a day is its ms.
	SegmentSums(ctx context.Context, teamID string, g Group, from, to int64) (map[string]Amounts, error)
	// Segments calls fn with the segments that ran in [from, to), or one workspace's of them.
	Segments(ctx context.Context, teamID, workspaceID string, from, to int64, fn func(Part)) error
	// Sessions returns those that were open in [from, to), or one workspace's of them.
	Sessions(ctx context.Context, teamID, workspaceID string, from, to int64) ([]Session, error)
	// TokenSums adds up, by group, what models were asked in [from, to). The key of a day or an hour is its ms.
	TokenSums(ctx context.Context, teamID string, g Group, from, to int64) (map[string]Amounts, error)
	// SessionTokens is likewise of a workspace's sessions.
	SessionTokens(ctx context.Context, workspaceID string) (map[string]Amounts, error)
	// FirstUse is when the earliest segment or request began; 0 = there is none.
	FirstUse(ctx context.Context, teamID string) (int64, error)
	// Names are what the keys of a group are called.
	Names(ctx context.Context, g Group, keys []string) (map[string]string, error)
	// Running is what a workspace's sandbox costs an hour now; 0 = nothing runs.
	Running(ctx context.Context, workspaceID string) (hourNano int64, err error)
}

// Service answers. Safe for concurrent use.
type Service struct {
	store Store
	now   func() int64
}

// New makes a Service that reads store by the ledger's time.
func New(store Store, now func() int64) *Service {
	if store == nil || now == nil {
		panic(errors.New("usage: a Service needs a Store and the time"))
	}
	return &Service{store, now}
}

// normal fills in defaults, and refuses an invalid query.
func (s *Service) normal(q Query) (Query, error) {
	bad := func(field, format string, args ...any) (Query, error) {
		return q, fault.New(fault.Invalid, "invalid_parameter", format, args...).With("field", field)
	}
	_, first, next := billing.Month(s.now())
	if q.From == 0 && q.To == 0 {
		q.From, q.To = first, next
	}
	if q.To == 0 {
		q.To = s.now()
	}
	if q.From == 0 {
		_, q.From, _ = billing.Month(q.To - 1)
	}
	q.Group = cmp.Or(q.Group, ByDay)
	if q.From < 0 || q.To > 1<<52 {
		return bad("from", "from and to are times in ms since 1970.")
	}
	q.From -= q.From % hourMs
	if rest := q.To % hourMs; rest != 0 {
		q.To += hourMs - rest
	}
	days := int64(mostDays)
	if q.Group == ByHour {
		days = mostHourDays
	}
	switch {
	case !slices.Contains(Groups, q.Group) || q.Group == ByTeam && q.TeamID != "":
		return bad("group", "Usage can be grouped by day, hour, user, project, executor, agent or workspace, and that of the instance by team too.")
	case q.To <= q.From:
		return bad("to", "to must be later than from.")
	case q.To-q.From > days*dayMs:
		return bad("from", "Ask for %d days at most.", days)
	}
	return q, nil
}

// Report tells what was used.
func (s *Service) Report(ctx context.Context, q Query) (Report, error) {
	q, err := s.normal(q)
	if err != nil {
		return Report{}, err
	}
	sums, err := s.sums(ctx, q)
	if err != nil {
		return Report{}, err
	}
	tokens, err := s.store.TokenSums(ctx, q.TeamID, q.Group, q.From, q.To)
	if err != nil {
		return Report{}, fmt.Errorf("reading what models cost: %w", err)
	}
	for k, v := range tokens {
		sums.add(k, v)
	}
	out := Report{From: q.From, To: q.To, Group: q.Group}
	if out.Items, err = s.items(ctx, q, sums); err != nil {
		return out, err
	}
	for _, i := range out.Items {
		out.Totals.Add(i.Amounts)
	}
	out.Forecast, err = s.forecast(ctx, q.TeamID)
	return out, err
}

// tally adds up by key.
type tally map[string]Amounts

func (t tally) add(key string, a Amounts) {
	have := t[key]
	have.Add(a)
	t[key] = have
}

// sums adds up sandboxes. Whole days are added up by the database, what is finer is here.
func (s *Service) sums(ctx context.Context, q Query) (tally, error) {
	out := make(tally)
	if q.Group == ByAgent {
		return out, s.byAgent(ctx, q, out)
	}
	from, to := q.From, q.To
	if q.Group != ByHour {
		from, to = q.From+(dayMs-q.From%dayMs)%dayMs, q.To-q.To%dayMs
		if from < to {
			whole, err := s.store.SegmentSums(ctx, q.TeamID, q.Group, from, to)
			if err != nil {
				return nil, fmt.Errorf("adding up the ledger: %w", err)
			}
			for k, v := range whole {
				out.add(k, v)
			}
		}
	}
	edges := [][2]int64{{q.From, min(from, q.To)}, {max(to, q.From), q.To}}
	if q.Group == ByHour || from >= to {
		edges = [][2]int64{{q.From, q.To}}
	}
	for _, e := range edges {
		if e[0] >= e[1] {
			continue
		}
		err := s.store.Segments(ctx, q.TeamID, "", e[0], e[1], func(p Part) { out.piece(q.Group, p, e[0], e[1]) })
		if err != nil {
			return nil, fmt.Errorf("reading the ledger: %w", err)
		}
	}
	return out, nil
}

// between is what a segment came to in [from, to).
func (p Part) between(from, to int64) Amounts {
	from, to = max(from, p.StartedAt), min(to, p.EndedAt)
	if to <= from {
		return Amounts{}
	}
	a := Amounts{RunMs: to - from, CostNano: p.costAt(to) - p.costAt(from)}
	a.VCPUMs, a.MiBMs = a.RunMs*p.CPUs, a.RunMs*p.MemoryMB
	if p.Metered {
		a.MeteredMs = a.RunMs
	}
	return a
}

// costAt is what the segment had cost at a time within it.
func (p Part) costAt(at int64) int64 {
	if at >= p.EndedAt {
		return p.CostNano
	}
	return billing.Cost(p.PriceNano, at-p.StartedAt)
}

// piece adds what a segment came to in [from, to).
func (t tally) piece(g Group, p Part, from, to int64) {
	switch g {
	case ByHour:
		from, to = max(from, p.StartedAt), min(to, p.EndedAt)
		for at := from; at < to; {
			next := at - at%hourMs + hourMs
			t.add(strconv.FormatInt(next-hourMs, 10), p.between(at, min(next, to)))
			at = next
		}
	case ByDay: // a segment lies within one day
		t.add(strconv.FormatInt(p.StartedAt-p.StartedAt%dayMs, 10), p.between(from, to))
	default:
		t.add(map[Group]string{ByUser: p.UserID, ByProject: p.ProjectID, ByExecutor: p.Executor, ByWorkspace: p.WorkspaceID, ByTeam: p.TeamID}[g], p.between(from, to))
	}
}

// items are the lines: times in order, the others the dearest first. Times without use are there too, for a chart.
func (s *Service) items(ctx context.Context, q Query, sums tally) ([]Item, error) {
	step := map[Group]int64{ByDay: dayMs, ByHour: hourMs}[q.Group]
	if step != 0 {
		out := []Item{}
		for at := q.From - q.From%step; at < q.To; at += step {
			key := strconv.FormatInt(at, 10)
			layout := "2006-01-02"
			if q.Group == ByHour {
				layout = "2006-01-02T15:04Z"
			}
			out = append(out, Item{Key: key, Name: time.UnixMilli(at).UTC().Format(layout), Amounts: sums[key]})
		}
		return out, nil
	}
	if q.Group == ByWorkspace {
		for k, v := range sums {
			if q.Hidden[k] {
				delete(sums, k)
				sums.add(Private, v)
			}
		}
	}
	keys := make([]string, 0, len(sums))
	for k, v := range sums {
		if v != (Amounts{}) {
			keys = append(keys, k)
		}
	}
	names, err := s.store.Names(ctx, q.Group, keys)
	if err != nil {
		return nil, fmt.Errorf("reading names: %w", err)
	}
	out := make([]Item, 0, len(keys))
	for _, k := range keys {
		out = append(out, Item{Key: k, Name: names[k], Amounts: sums[k]})
	}
	slices.SortFunc(out, func(a, b Item) int {
		return cmp.Or(cmp.Compare(b.CostNano+b.TokensCostNano, a.CostNano+a.TokensCostNano), cmp.Compare(b.RunMs, a.RunMs),
			cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return out, nil
}
