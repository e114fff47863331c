package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// move is what tests need of a move's JSON.
type move struct {
	ID, State, Reason string
	From, To          struct{ Executor string }
	Steps             []struct{ Name, State, Detail string }
	Sessions          []struct {
		ID, How, State, Reason string
		NextID                 string `json:"next_id"`
	}
}

func lastMove(h *testkit.Instance, workspaceID string) (move, bool) {
	var all struct{ Items []move }
	h.API("GET", "/workspaces/"+workspaceID+"/moves", nil, &all)
	if len(all.Items) == 0 {
		return move{}, false
	}
	return all.Items[0], true
}

func moved(t *testing.T, h *testkit.Instance, workspaceID string) (m move) {
	t.Helper()
	h.Wait("the move has ended", func() bool {
		m, _ = lastMove(h, workspaceID)
		return m.State != "running"
	})
	return m
}

func executorOf(h *testkit.Instance, workspaceID string) string {
	var ws struct{ Executor string }
	h.API("GET", "/workspaces/"+workspaceID, nil, &ws)
	return ws.Executor
}

// bothPlaces lets workspaces live on this server with and without walls.
const bothPlaces = `"sandboxing":{"defaultProvider":"local","local":{"enabled":true}}`

func needsBubblewrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil && os.Getenv("CI") == "" {
		t.Skip("bubblewrap is not installed: run testing/scripts/test-setup.sh")
	}
}

// A real agent that worked without walls goes on behind them, and back, and knows what was said.
func TestAConversationMoves(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"claude-code", "codex"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			needsBubblewrap(t)
			h := agentInstanceAt(t, outside, agent, strings.Replace(bothPlaces, "{\"def", `{"network":{"allowPrivate":["`+outside+`"]},"def`, 1))
			w := askIn(t, h, "local", agent, map[string]any{"text": "the word is heliotrope"})
			w.waits("it answered", func() bool { return strings.Contains(w.screen(), "heliotrope") })
			w.reaches("idle")
			must(t, os.WriteFile(filepath.Join(w.ws.Path, "draft.txt"), []byte(draft), 0o644))
			for _, to := range []string{"bubblewrap", "local"} {
				var plan struct {
					Possible bool
					Reason   string
					Sessions []struct{ How string }
				}
				h.API("GET", "/workspaces/"+w.ws.ID+"/move?to="+to, nil, &plan)
				if !plan.Possible || len(plan.Sessions) != 1 || plan.Sessions[0].How != "resumes" {
					t.Fatalf("the plan to %s: %+v", to, plan)
				}
				h.API("POST", "/workspaces/"+w.ws.ID+"/move", map[string]any{"to": to}, nil)
				m := moved(t, h, w.ws.ID)
				if m.State != "done" || len(m.Sessions) != 1 || m.Sessions[0].State != "resumed" || executorOf(h, w.ws.ID) != to {
					t.Fatalf("to %s: %+v", to, m)
				}
				old := w.id
				w.id = m.Sessions[0].NextID
				w.waits("what was said before is shown", func() bool { return strings.Contains(w.screen(), "heliotrope") })
				h.API("POST", "/sessions/"+w.id+"/prompts", map[string]string{"text": script(t, tool("Bash", map[string]string{"command": "true"}))}, nil)
				var was struct{ Lines []string }
				h.API("GET", "/sessions/"+old+"/screen", nil, &was)
				if !strings.Contains(strings.Join(was.Lines, "\n"), "heliotrope") {
					t.Errorf("the old terminal shows %q", was.Lines)
				}
				if b, err := os.ReadFile(filepath.Join(w.ws.Path, "draft.txt")); err != nil || string(b) != draft {
					t.Errorf("what was not committed: %q, %v", b, err)
				}
			}
		})
	}
}

// A server that is killed while a workspace moves: it is whole in one of the two places, with its agent.
func TestKilledWhileMoving(t *testing.T) {
	t.Parallel()
	for _, p := range failpoint.OfMoves {
		if !*everyplace && (p == failpoint.MoveTried || p == failpoint.MoveHome || p == failpoint.MoveEnded) {
			continue // remote places have more to lose, see TestKilledOnTheWay
		}
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			needsBubblewrap(t)
			h := testkit.Start(t, bothPlaces, `"agents":{"talker":{"command":"/bin/sh","defaultArgs":["-c","echo up; exec cat"],"resume":{"args":["-c","echo again; exec cat"]}}}`)
			from, to := "local", "bubblewrap"
			if p == failpoint.MoveLeft || p == failpoint.MoveStarted {
				from, to = to, from
			}
			ws := h.WorkspaceIn(from, h.Sample(), "Precious")
			var s testkit.Session
			h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "talker"}, &s)
			d := &death{Instance: h, t: t, ws: ws}
			d.execIn(ws, "sh", "-ec", "echo one > one; git add one; git -c user.name=a -c user.email=a@example.com commit -qm one; printf '"+strings.TrimSpace(draft)+"\n' > draft.txt; echo staged > staged; git add staged")
			h.DieAt(p, func() { _ = h.Try("POST", "/workspaces/"+ws.ID+"/move", map[string]any{"to": to}, nil) })
			m := moved(t, h, ws.ID)
			want := from
			if p == failpoint.MoveSwitched || p == failpoint.MoveStarted {
				want = to
			}
			if got := executorOf(h, ws.ID); got != want || (m.State == "done") != (want == to) {
				t.Errorf("it lives in %s, want %s; the move: %+v", got, want, m)
			}
			var running []string
			h.Wait("its agent runs, once", func() bool {
				running = nil
				var all struct{ Items []testkit.Session }
				h.API("GET", "/workspaces/"+ws.ID+"/sessions", nil, &all)
				for _, s := range all.Items {
					if !slices.Contains([]string{"exited", "failed", "lost"}, s.State) {
						running = append(running, s.ID)
					}
				}
				return len(running) == 1
			})
			if out := strings.Fields(d.execIn(ws, "sh", "-ec", "git log --format=%s -1; cat draft.txt | tr ' ' _; git diff --cached --name-only")); !slices.Equal(out, []string{"one", strings.ReplaceAll(strings.TrimSpace(draft), " ", "_"), "staged"}) {
				t.Errorf("it has %q", out)
			}
			h.API("POST", "/workspaces/"+ws.ID+"/move", map[string]any{"to": map[string]string{from: to, to: from}[want]}, nil)
			if m := moved(t, h, ws.ID); m.State != "done" {
				t.Errorf("moving it again: %+v", m)
			}
		})
	}
}
