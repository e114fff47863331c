package places

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/server/rest"
)

func standingOf(kind executors.Kind, change ...func(*choice.Option)) choice.Option {
	s := choice.Option{Capabilities: executors.Capabilities{Kind: kind, Name: string(kind), Available: true}, Allowed: true}
	for _, fn := range change {
		fn(&s)
	}
	return s
}

func TestWhichPlaceIsSuggested(t *testing.T) {
	t.Parallel()
	def := func(s *choice.Option) { s.Default = true }
	off := func(s *choice.Option) { s.Available, s.Reason = false, "offline since 14:02 UTC" }
	docker, e2b := standingOf("docker", def), standingOf("e2b")
	one, two := standingOf("runner:one"), standingOf("runner:two")
	for name, test := range map[string]struct {
		all    []choice.Option
		last   executors.Kind
		fixed  bool
		want   string
		ask    bool
		reason string
	}{
		"none connected":            {all: []choice.Option{docker, e2b, standingOf("runner:one", off)}, want: "docker "},
		"one":                       {all: []choice.Option{docker, one}, want: "runner one"},
		"several":                   {all: []choice.Option{docker, one, two}, want: "runner one", ask: true, reason: "Several"},
		"several, one chosen last":  {all: []choice.Option{docker, one, two}, last: "runner:two", want: "runner two", ask: true, reason: "Several"},
		"one, another chosen last":  {all: []choice.Option{docker, e2b, one}, last: "e2b", want: "e2b "},
		"the last one went offline": {all: []choice.Option{docker, standingOf("runner:one", off), two}, last: "runner:one", want: "docker ", ask: true, reason: "offline since 14:02 UTC"},
		"the last one was revoked":  {all: []choice.Option{docker, two}, last: "runner:gone", want: "runner two"},
		"nobody may choose":         {all: []choice.Option{docker, one, two}, fixed: true, want: "docker "},
		"nothing at all":            {want: " "},
	} {
		got := suggest(test.all, test.last, test.fixed)
		if g := got.Executor + " " + got.RunnerId; g != test.want || got.Ask != test.ask || !strings.Contains(rest.Val(got.Reason), test.reason) || test.reason == "" && got.Reason != nil {
			t.Errorf("%s: %q, ask %v, %q", name, g, got.Ask, rest.Val(got.Reason))
		}
	}
}
