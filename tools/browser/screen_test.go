package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
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
type noSandbox struct{}

func (noSandbox) Ensure(context.Context, string) (*executors.Place, error) {
	return nil, errors.New("no sandbox is made here")
}
func (noSandbox) Live(string) (*executors.Place, bool) { return nil, false }
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
		if f, _, err := v.Next(t.Context()); err != nil || f == nil || f.JPEG[2] != 2 {
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
