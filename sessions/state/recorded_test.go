package state

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	vt "github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/signals"
)

// recorded is a session of a real agent as TestRecordStates wrote it.
type recorded struct {
	Agent      string
	Cols, Rows int
	Ops        []struct {
		At   int64
		Out  []byte
		Key  string
		Is   string
		Says string
	}
}

// replay is a machine that hears a recording by its own clock.
type replay struct {
	*play
	reg   *agents.Registry
	agent string
	scan  signals.Scanner
	shown *vt.Screen
	drawn bool      // and not read since
	right time.Time // when the state was last right
	worst time.Duration
}

func (r *replay) signal(s agents.Signal) { r.m.Observe(r.now, r.reg.Read(r.agent, s)) }

// until lets time pass and checks all along that the state is never wrong for more than 5 s.
func (r *replay) until(at time.Time, is string, since time.Time) {
	r.t.Helper()
	for r.now.Before(at) {
		step := min(at.Sub(r.now), 100*time.Millisecond)
		r.pass(step)
		if r.drawn && r.now.Sub(r.m.LastOut) >= ScreenQuiet {
			h := r.reg.Screen(r.agent).Match(r.shown.LastLines(agents.MaxRuleLines))
			h.Source = agents.FromScreen
			r.m.Observe(r.now, h)
			r.drawn = false
		}
		r.m.Evaluate(r.now)
		if is == "" {
			continue
		}
		got := string(r.m.State)
		if r.m.Trouble {
			got = "failed"
		}
		if got == is {
			r.right = r.now
		} else {
			wrong := r.now.Sub(later(r.right, since))
			if r.worst = max(r.worst, wrong); wrong > 5*time.Second {
				r.t.Fatalf("%s (%s, by %s) for %s while it is %s; evidence:\n%+v\nscreen:\n%s", got, r.m.Reason, r.m.source,
					wrong, is, r.m.Basis().Evidence, strings.Join(r.shown.Text().Lines, "\n"))
			}
		}
	}
}

func TestRecordedStates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	reg, err := agents.New(agents.Config{HomesDir: t.TempDir(), WorktreesDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json.gz"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			z, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			var rec recorded
			if err := json.NewDecoder(z).Decode(&rec); err != nil {
				t.Fatal(err)
			}
			play := newPlay(t, reg.Explicit(rec.Agent))
			r := &replay{play: play, reg: reg, agent: rec.Agent, shown: vt.New(vt.Config{Cols: rec.Cols, Rows: rec.Rows, Scrollback: -1})}
			r.scan.Clean, r.scan.Signal = safetext.Line, r.signal
			begin := play.now
			is, since := "", begin
			for _, op := range rec.Ops {
				r.until(begin.Add(time.Duration(op.At)*time.Millisecond), is, since)
				switch {
				case op.Is != "":
					if flag.Lookup("test.v").Value.String() == "true" { // -v, not -json
						t.Logf("%6d ms: %s by %s (%s) -> %s; worst %v\n%s\n%+v", op.At, r.m.State, r.m.source, r.m.Reason, op.Is, r.worst, strings.Join(r.shown.Text().Lines, "\n"), r.m.Basis().Evidence)
					}
					is, since = op.Is, r.now
				case op.Key != "":
					r.key()
				default:
					r.scan.Scan(op.Out)
					r.shown.Write(op.Out)
					r.out(len(op.Out))
					r.drawn = true
				}
				r.m.Evaluate(r.now)
			}
			r.until(r.now.Add(10*time.Second), is, since)
			t.Logf("wrong for %v at most", r.worst)
		})
	}
}
