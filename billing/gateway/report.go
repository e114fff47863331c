package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/billing/tokens"
)

// Passed is what the operators' page makes of a request.
type Passed struct {
	Upstream    string
	Model       string
	API         string
	Error       string
	Status      int
	Attempts    int
	FirstByteMs int64
	At          int64 // ms UTC
}

// Span is the gateway's statistics over a period.
type Span struct {
	From, To  int64 // ms UTC
	Whole     bool  // false: only the newest mostPassed requests of it were looked at
	All       Line
	Errors    []ErrorCount // the most frequent first
	Upstreams []Line       // the busiest first
	Models    []Line       // likewise
}

// Line is how requests to one upstream or of one model went.
type Line struct {
	Name           string
	Requests       int64
	Failed         int64 // those with an error, refused ones not counted
	Refused        int64 // by the team's own rules or budget
	Retries        int64
	FirstByteP50Ms *int64 // of those that were answered; nil = none was
	FirstByteP95Ms *int64
}

// ErrorCount is how often something went wrong.
type ErrorCount struct {
	Error  string // an Err of tokens
	Status int    // HTTP, as the agent saw it; 0 = it saw none
	Count  int64
}

// mostPassed bounds what a report goes through.
const mostPassed = 50_000

// Spans of a report, ms.
const (
	hourMs = 3_600_000
	dayMs  = 24 * hourMs
)

// Report tells how the last hour and the last day went.
func (s *Service) Report(ctx context.Context) (hour, day Span, err error) {
	now := s.cfg.Now().UnixMilli() + 1
	h, d := newSpan(now-hourMs, now), newSpan(now-dayMs, now)
	n := 0
	err = s.cfg.Store.Passed(ctx, d.From, now, mostPassed, func(p Passed) {
		n++
		d.add(p)
		if p.At >= h.From {
			h.add(p)
		}
	})
	if err != nil {
		return Span{}, Span{}, fmt.Errorf("reading what passed the gateway: %w", err)
	}
	d.whole = n < mostPassed
	h.whole = n < mostPassed || h.all.Requests < mostPassed
	return h.span(), d.span(), nil
}

// adding collects a span.
type adding struct {
	Span
	whole     bool
	all       *lineOf
	errors    map[ErrorCount]int64
	upstreams map[string]*lineOf
	models    map[string]*lineOf
}

type lineOf struct {
	Line
	took []int64
}

func newSpan(from, to int64) *adding {
	return &adding{Span: Span{From: from, To: to}, all: &lineOf{}, errors: map[ErrorCount]int64{}, upstreams: map[string]*lineOf{}, models: map[string]*lineOf{}}
}

func (a *adding) add(p Passed) {
	a.all.add(p)
	if p.Error != "" && p.Error != tokens.ErrUnderWay {
		a.errors[ErrorCount{Error: p.Error, Status: p.Status}]++
	}
	if p.Upstream != "" { // one that was refused went nowhere
		lineIn(a.upstreams, p.Upstream).add(p)
	}
	lineIn(a.models, p.Model).add(p)
}

func lineIn(lines map[string]*lineOf, name string) *lineOf {
	l := lines[name]
	if l == nil {
		l = &lineOf{Line: Line{Name: name}}
		lines[name] = l
	}
	return l
}

func (l *lineOf) add(p Passed) {
	l.Requests++
	l.Retries += int64(max(p.Attempts-1, 0))
	switch p.Error {
	case "":
		l.took = append(l.took, p.FirstByteMs)
	case tokens.ErrBudget, tokens.ErrRate, tokens.ErrModel:
		l.Refused++
	case tokens.ErrUnderWay, tokens.ErrClientGone: // not the provider's doing
	default:
		l.Failed++
	}
}

func (l *lineOf) line() Line {
	if n := len(l.took); n > 0 {
		slices.Sort(l.took)
		l.FirstByteP50Ms, l.FirstByteP95Ms = new(l.took[(n-1)*50/100]), new(l.took[(n-1)*95/100])
	}
	return l.Line
}

func (a *adding) span() Span {
	a.Whole, a.All = a.whole, a.all.line()
	for e, n := range a.errors {
		e.Count = n
		a.Errors = append(a.Errors, e)
	}
	slices.SortFunc(a.Errors, func(x, y ErrorCount) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Error, y.Error), cmp.Compare(x.Status, y.Status))
	})
	a.Upstreams, a.Models = linesOf(a.upstreams), linesOf(a.models)
	return a.Span
}

// mostLines bounds a list: names of models are an agent's to choose.
const mostLines = 50

func linesOf(all map[string]*lineOf) []Line {
	out := make([]Line, 0, len(all))
	for _, l := range all {
		out = append(out, l.line())
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), mostLines)]
}
