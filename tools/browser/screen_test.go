package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/browser/cdp"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/workspaces"
)

// noSandbox is a workspace whose sandbox does not run.
type noSandbox struct{ looks *int }

func (noSandbox) Ensure(context.Context, string) (*executors.Place, error) {
	return nil, errors.New("no sandbox is made here")
}
func (n noSandbox) Live(string) (*executors.Place, bool) {
	if n.looks != nil {
		*n.looks++
	}
	return nil, false
}
func (noSandbox) Place(context.Context, executors.Kind) (executors.Capabilities, bool) {
	return executors.Capabilities{}, false
}
func (noSandbox) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	return workspaces.Workspace{ID: id, TeamID: "team_1"}, nil
}

// wire is a browser that says nothing, and passes on what it is sent.
type wire struct {
	sent chan string
	done chan struct{}
}

func (w wire) Receive() ([]byte, error) { <-w.done; return nil, errors.New("closed") }
func (w wire) Send(m []byte) error      { w.sent <- string(m); return nil }
func (w wire) Close()                   { close(w.done) }

// Pictures that come at once, after a moment in which the server was busy, are all acknowledged, or Chromium sends no more; the newest is
// shown. A browser that waits for no acknowledgement is not followed.
func TestPicturesThatComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Sandboxes: noSandbox{}, Workspaces: noSandbox{}})
		b := &browser{s: s, screen: s.screenOf("ws_1", func(c *screen) { c.entries++ })}
		w := wire{make(chan string, 10_000), make(chan struct{})}
		b.conn = cdp.New(w, b.event)
		ended := make(chan error, 1)
		go func() { ended <- b.conn.Run() }()
		shown := &tab{num: 1, session: "S", bump: b.screen.bump, changed: make(chan struct{})}
		b.tabs, b.active, b.cast = []*tab{shown}, shown, shown
		v, err := s.Watch(t.Context(), Watching{TeamID: "team_1", WorkspaceID: "ws_1", Person: control.Person{ID: "usr_1"}})
		if err != nil {
			t.Fatal(err)
		}
		come := func(n int) (acks int) {
			for i := range n {
				b.event(cdp.Event{Session: "S", Method: "Page.screencastFrame", Params: json.RawMessage(fmt.Sprintf(`{"data":"AAA%c","sessionId":7,"metadata":{}}`, 'A'+i%26))})
			}
			time.Sleep(time.Minute)
			for len(w.sent) > 0 {
				if strings.Contains(<-w.sent, "Page.screencastFrameAck") {
					acks++
				}
			}
			return acks
		}
		if acks := come(3); acks != 3 {
			t.Errorf("%d of 3 pictures were acknowledged", acks)
		}
		if f, _, err := v.Next(t.Context()); err != nil || f == nil || f.JPEG()[2] != 2 {
			t.Errorf("the newest picture is not shown: %+v %v", f, err)
		}
		if acks := come(5000); acks > 2*framesAhead {
			t.Errorf("%d pictures of a flood were taken", acks)
		}
		v.Close()
		b.conn.Close()
		<-ended
		s.end()
	})
}

// A recording that may not be saved, as the team's artifacts are full, is gone: such files do not fill the server's disk.
func TestARecordingThatMayNotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		s := New(Config{Sandboxes: noSandbox{}, Workspaces: noSandbox{}, Recordings: folder, Save: func(context.Context, File) (string, error) {
			return "", fault.New(fault.Quota, "artifact_quota", "The team's artifacts would take too much.")
		}})
		v, err := s.Watch(t.Context(), Watching{TeamID: "team_1", WorkspaceID: "ws_1", Person: control.Person{ID: "usr_1"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range []string{"start", "stop"} {
			if err := v.Input(t.Context(), []byte(`{"type":"record","do":"`+do+`"}`)); err != nil {
				t.Fatal(do, err)
			}
			time.Sleep(time.Second)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%d files are left, %v", len(left), err)
		}
		v.Close()
		s.end()
	})
}

// A page that reports changes without end keeps viewers no busier than a few hundred looks a second.
func TestChangesWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		s := New(Config{Sandboxes: noSandbox{&looks}, Workspaces: noSandbox{}})
		v, err := s.Watch(t.Context(), Watching{TeamID: "team_1", WorkspaceID: "ws_1", Person: control.Person{ID: "usr_1"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var page sync.WaitGroup
		page.Go(func() {
			for ctx.Err() == nil {
				v.c.bump()
				time.Sleep(10 * time.Microsecond)
			}
		})
		for err == nil {
			_, _, err = v.Next(ctx)
		}
		page.Wait()
		if looks < 15 || looks > 300 {
			t.Errorf("%d looks in a second", looks)
		}
		v.Close()
		s.end()
	})
}

// Each change of control is audited, so that nobody changes it without end.
func TestAViewerTakesAndGivesWithoutEnd(t *testing.T) {
	s := New(Config{Sandboxes: noSandbox{}, Workspaces: noSandbox{}})
	v, err := s.Watch(t.Context(), Watching{TeamID: "team_1", WorkspaceID: "ws_1", Person: control.Person{ID: "usr_1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for range 200 {
		if err = errors.Join(v.Input(t.Context(), []byte(`{"type":"take"}`)), v.Input(t.Context(), []byte(`{"type":"give"}`))); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "too often") {
		t.Errorf("200 changes at once: %v", err)
	}
}

// A recording that began while the server looks for those of the one before is not taken for one of them.
func TestRecoveryLeavesWhatIsBeingRecorded(t *testing.T) {
	folder := t.TempDir()
	s := New(Config{Sandboxes: noSandbox{}, Workspaces: noSandbox{}, Recordings: folder, Save: func(context.Context, File) (string, error) { return "art_1", nil }})
	for name, at := range map[string]time.Time{"rec_old": s.born.Add(-time.Second), "rec_new": s.born.Add(time.Second)} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(file, []byte(recordingMagic+"h\x00\x00\x00\x00\x00\x00\x00\x02{}"), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	s.recoverRecordings(t.Context())
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 || left[0].Name() != "rec_new" {
		t.Errorf("left: %v %v", left, err)
	}
}
