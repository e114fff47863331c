package masks_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/workspaces"
)

// terminal is a session that notes what it is to mask in its output.
type terminal struct {
	over   bool
	masked []string
	notice string
}

func (t *terminal) Ended() bool                { return t.over }
func (t *terminal) Inside() bool               { return true }
func (t *terminal) MaskOutput(values []string) { t.masked = append(t.masked, values...) }
func (t *terminal) Notify(notice string)       { t.notice = notice }

// nowhere has no homes.
type nowhere struct{}

func (nowhere) HomeHere(string) (string, bool) { return "", false }
func (nowhere) HostHome(string) string         { return "" }

func newMasks(t *testing.T, key []byte) (*masks.Masks, masks.Launches) {
	launches := masks.Launches{DataDir: t.TempDir(), Key: key}
	group := new(tasks.Group)
	t.Cleanup(group.Close)
	return masks.New(masks.Config{Launches: launches, Homes: nowhere{}, Live: func(string) (*executors.Place, bool) { return nil, false },
		Workspace: func(_ context.Context, id string) (workspaces.Workspace, error) {
			return workspaces.Workspace{ID: id}, nil
		},
		Tasks: group, Context: t.Context(), Log: slog.New(slog.DiscardHandler)}), launches
}

// What comes to a workspace is masked by what runs there, once, and still after a restart; what has ended is left alone.
func TestWhatIsSharedIsMasked(t *testing.T) {
	m, launches := newMasks(t, bytes.Repeat([]byte{7}, 32))
	first, second, ended := &terminal{}, &terminal{}, &terminal{over: true}
	join := func(id, workspace string, host masks.Host, values ...string) *masks.Session {
		s := m.Session(masks.Row{ID: id, TeamID: "team", WorkspaceID: workspace, CreatedBy: "ana"}, host, values)
		s.Join()
		return s
	}
	a := join("a", "here", first, "swordfish")
	join("b", "there", second, "marlinspike")
	join("c", "here", ended, "halibut-bones")
	if got := m.ShareMasks("here", []string{"swordfish", "barracuda"}); !slices.Equal(got, []string{"swordfish"}) {
		t.Errorf("shared %q", got)
	}
	if !slices.Equal(first.masked, []string{"barracuda"}) || second.masked != nil || ended.masked != nil {
		t.Errorf("masked %q, %q and %q", first.masked, second.masked, ended.masked)
	}
	if got := a.Text("a barracuda"); got != "a *********" {
		t.Errorf("shown as %q", got)
	}
	if kept, err := launches.Recall("a"); err != nil || !slices.Equal(kept.Secrets, []string{"barracuda"}) {
		t.Errorf("kept %q (%v)", kept.Secrets, err)
	}
	m.Mask(secrets.Secret{TeamID: "team"}, []string{"haddock-eyes"})
	if !slices.Contains(first.masked, "haddock-eyes") || !slices.Contains(second.masked, "haddock-eyes") || ended.masked != nil {
		t.Errorf("masked %q, %q and %q", first.masked, second.masked, ended.masked)
	}
	a.Leave()
	if got := m.ShareMasks("here", nil); got != nil {
		t.Errorf("shared %q once it was gone", got)
	}
}

// A launch is read with the key it was sealed with, and no other; sealing it anew leaves what cannot be opened.
func TestLaunchesAreSealed(t *testing.T) {
	old, fresh := bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{8}, 32)
	_, launches := newMasks(t, old)
	if err := launches.Keep("a", masks.Launch{Args: []string{"--fast"}, Secrets: []string{"swordfish"}, Token: "token"}); err != nil {
		t.Fatal(err)
	}
	if l, err := (masks.Launches{DataDir: launches.DataDir, Key: fresh}).Recall("a"); err == nil {
		t.Errorf("opened with another key: %+v", l)
	}
	if done, unreadable, err := masks.ResealLaunches(launches.DataDir, old, fresh); done != 1 || unreadable != 0 || err != nil {
		t.Fatalf("sealed %d anew, %d unreadable (%v)", done, unreadable, err)
	}
	launches.Key = fresh
	if err := launches.Forget("a"); err != nil {
		t.Fatal(err)
	}
	if l, err := launches.Recall("a"); err != nil || !slices.Equal(l.Args, []string{"--fast"}) || l.Secrets != nil || l.Token != "" {
		t.Errorf("kept %+v (%v)", l, err)
	}
}

// Only sessions with their starter's own secrets show that somebody waits.
func TestWantedBeside(t *testing.T) {
	m, _ := newMasks(t, nil)
	own, plain := &terminal{}, &terminal{}
	for host, given := range map[*terminal]masks.Given{own: {Own: true}, plain: {}} {
		s := m.Session(masks.Row{ID: "s", WorkspaceID: "here", CreatedBy: "ana"}, host, nil)
		s.Give(given)
		s.Join()
	}
	if got := m.OwnSecretsHere("here"); !slices.Equal(got, []string{"ana"}) {
		t.Errorf("own secrets of %q", got)
	}
	m.WantedBeside("here", "ana", "Bob")
	if own.notice == "" || plain.notice != "" {
		t.Errorf("notices %q and %q", own.notice, plain.notice)
	}
}
