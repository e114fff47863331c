package overlap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

func over(pairs ...string) []Overlap {
	var out []Overlap
	for _, p := range pairs {
		a, b, _ := strings.Cut(p, "-")
		out = append(out, Overlap{FirstID: a, SecondID: b})
	}
	return out
}

func TestOrder(t *testing.T) {
	t.Parallel()
	star := make([]string, 0, 30)
	for i := range 30 {
		star = append(star, fmt.Sprintf("a-n%02d", i))
	}
	for _, c := range []struct {
		what  string
		pairs []string
		want  string
	}{
		{"none", nil, ""},
		{"a pair keeps its order", []string{"a-b"}, "a0 b1"},
		{"who meets all gives way", []string{"a-b", "a-c", "a-d"}, "b0 c0 d0 a3"},
		{"a chain", []string{"a-b", "b-c", "c-d", "d-e"}, "a0 c0 e0 b2 d2"},
		{"apart", []string{"a-b", "c-d"}, "a0 c0 b1 d1"},
		{"all meet all", []string{"a-b", "b-c", "a-c"}, "a0 b1 c2"},
		{"more than are tried out", star, ""},
	} {
		got := Order(over(c.pairs...), func(string) int { return 0 })
		var s []string
		for _, p := range got {
			s = append(s, fmt.Sprint(p.WorkspaceID, p.Overlaps))
		}
		if c.want != "" && strings.Join(s, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.what, s, c.want)
		}
		if c.what == "more than are tried out" && (len(got) != 31 || got[30].WorkspaceID != "a" || got[30].Overlaps != 30) {
			t.Errorf("%s: %v", c.what, s)
		}
	}
}

// fakes stand in for storage and git: a workspace's files are the letters of its tree; two with a common capital letter conflict.
type fakes struct {
	all      []workspaces.Workspace
	trees    map[string]string
	kept     []Overlap
	collided int
	asked    int // for one workspace
	broken   error
	reported []string
}

func (r *fakes) Publish(_ context.Context, e events.Event) { r.reported = append(r.reported, e.ID) }

func (r *fakes) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	r.asked++
	for _, w := range r.all {
		if w.ID == id {
			return w, nil
		}
	}
	return workspaces.Workspace{}, fault.New(fault.NotFound, "not_found", "none")
}
func (r *fakes) WorkspacesOf(context.Context, string) ([]workspaces.Workspace, error) {
	return r.all, nil
}
func (r *fakes) Active(context.Context) ([]workspaces.Workspace, error)         { return r.all, nil }
func (r *fakes) NewestTrees(context.Context, string) (map[string]string, error) { return r.trees, nil }
func (r *fakes) TeamOverlaps(context.Context, string, ...string) ([]Overlap, error) {
	return r.kept, nil
}
func (r *fakes) ProjectOverlaps(context.Context, string) ([]Overlap, error) { return r.kept, nil }

func (r *fakes) ReplaceOverlaps(_ context.Context, id string, list []Overlap) ([]string, error) {
	r.kept = slices.DeleteFunc(r.kept, func(o Overlap) bool { return o.FirstID == id || o.SecondID == id })
	r.kept = append(r.kept, list...)
	return []string{id}, nil
}

func (r *fakes) Footprint(_ context.Context, w workspaces.Workspace, tree string, known Footprint) (Footprint, error) {
	id := w.ID
	if known.Tree == tree && known.WorkspaceID == id {
		return known, nil
	}
	f := Footprint{WorkspaceID: id, Tree: tree, Files: map[string]Touched{}}
	for _, c := range tree {
		f.Files[string(c)] = Touched{Old: "o", New: id, Whole: true}
	}
	return f, nil
}

func (r *fakes) Collide(_ context.Context, _ string, one Footprint, others []Footprint) ([][]workspaces.Conflict, error) {
	out := make([][]workspaces.Conflict, len(others))
	for i, o := range others {
		r.collided++
		for name := range one.Files {
			if _, ok := o.Files[name]; ok && name == strings.ToUpper(name) {
				out[i] = append(out[i], workspaces.Conflict{Path: name, Kind: "content"})
			}
		}
	}
	return out, r.broken
}

func TestLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		r := &fakes{trees: map[string]string{"a": "AB", "b": "AC", "c": "x", "d": "x"}}
		for _, id := range []string{"a", "b", "c", "d"} {
			r.all = append(r.all, workspaces.Workspace{ID: id, ProjectID: "p", State: workspaces.Ready})
		}
		bus := events.New()
		s := New(Config{Store: r, Workspaces: r, Events: r, Bus: bus})
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		shown := func() string {
			time.Sleep(10 * time.Second) // of the bubble's clock
			synctest.Wait()
			var out []string
			for _, o := range r.kept {
				out = append(out, fmt.Sprintf("%s-%s:%d", o.FirstID, o.SecondID, len(o.Files)))
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		if got := shown(); got != "a-b:1" || r.collided != 2 { // c and d meet, and go together
			t.Errorf("at start %q after %d merges", got, r.collided)
		}
		if r.asked != 0 { // a server has thousands
			t.Errorf("%d workspaces were asked for one by one at the start", r.asked)
		}
		change := func(id, tree string) {
			r.trees[id] = tree
			for range 100 { // a burst
				bus.Publish(ctx, events.Event{Type: "changes.updated", WorkspaceID: id})
			}
		}
		r.collided = 0
		change("c", "BC")
		if got := shown(); got != "a-b:1 a-c:1 b-c:1" || r.collided != 2 {
			t.Errorf("after a change %q with %d merges", got, r.collided)
		}
		r.collided = 0
		change("c", "BC")
		if got := shown(); got != "a-b:1 a-c:1 b-c:1" || r.collided != 0 {
			t.Errorf("after nothing %q with %d merges", got, r.collided)
		}
		r.all[0].State = workspaces.Archived
		change("a", "AB")
		if got := shown(); got != "b-c:1" {
			t.Errorf("after an archive %q", got)
		}
		r.broken = errors.New("broken")
		change("d", "C")
		if got := shown(); got != "b-c:1" {
			t.Errorf("while git fails %q", got)
		}
		r.broken = nil
		change("d", "C") // looked at again, though nothing changed
		if got := shown(); got != "b-c:1 b-d:1 c-d:1" {
			t.Errorf("once it works %q", got)
		}
		cancel()
		<-done
	})
}
