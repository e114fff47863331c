//go:build linux

package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image/jpeg"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/control"
)

const formPage = `<!doctype html><title>Form</title><body style="margin:0">
<input id=name aria-label=Name style="position:absolute;left:0;top:0;width:640px;height:400px;font-size:40px">
<button style="position:absolute;left:640px;top:400px;width:640px;height:400px" onclick="document.title='sent '+document.getElementById('name').value">Send</button>`

// person is a viewer that reads all it is sent.
type person struct {
	t      *testing.T
	v      *browser.Viewer
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	view   browser.View
	frame  *browser.Frame
	frames int
	news   chan struct{}
}

func (b *bench) watch(who control.Person, acks bool) *person {
	b.Helper()
	v, err := b.s.Watch(b.Context(), browser.Watching{TeamID: b.place.TeamID, WorkspaceID: b.place.WorkspaceID, Person: who})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &person{t: b.T, v: v, cancel: cancel, done: make(chan struct{}), news: make(chan struct{}, 1)}
	go func() {
		defer close(p.done)
		for {
			f, view, err := v.Next(ctx)
			if err != nil {
				return
			}
			p.mu.Lock()
			if f != nil {
				p.frame, p.frames = f, p.frames+1
			} else {
				p.view = *view
			}
			p.mu.Unlock()
			if f != nil && acks {
				p.send(map[string]any{"type": "ack", "frame": f.Seq})
			}
			select {
			case p.news <- struct{}{}:
			default:
			}
		}
	}()
	b.Cleanup(p.leave)
	return p
}

func (p *person) leave() { p.cancel(); <-p.done; p.v.Close() }

func (p *person) send(in map[string]any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		p.t.Error(err)
	}
	return p.v.Input(p.t.Context(), raw)
}

func (p *person) must(in map[string]any) {
	p.t.Helper()
	if err := p.send(in); err != nil {
		p.t.Fatalf("%v: %v", in, err)
	}
}

// until waits until what the viewer knows fits.
func (p *person) until(what string, fits func() bool) {
	p.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		ok := fits()
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.news:
		case <-timeout:
			p.t.Fatalf("%s did not happen; %+v, %d frames", what, p.view, p.frames)
		}
	}
}

func (p *person) titled(title string) {
	p.t.Helper()
	p.until("a page called "+title, func() bool {
		for _, t := range p.view.Tabs {
			if strings.HasPrefix(t.Title, title) {
				return true
			}
		}
		return false
	})
}

func TestAPersonWatchesTakesOverAndGivesBack(t *testing.T) {
	var mu sync.Mutex
	var saved []byte
	folder := t.TempDir()
	b := newBench(t, executors.Local, map[string]string{"form.html": formPage, "ask.html": `<title>Ask</title><script>setTimeout(()=>{document.title='answer '+prompt('Who?','you')},200)</script>`},
		func(c *browser.Config) {
			c.Recordings = folder
			c.Save = func(_ context.Context, f browser.File) (string, error) {
				raw, err := io.ReadAll(f.Body)
				mu.Lock()
				defer mu.Unlock()
				saved = raw
				return "art_1", err
			}
		})
	stop := b.restart()
	b.caller.SessionID = "ses_1"
	ada, bob := control.Person{ID: "usr_ada", Name: "Ada"}, control.Person{ID: "usr_bob", Name: "Bob"}
	first, stalled := b.watch(ada, true), b.watch(bob, false)
	first.until("a view without a browser", func() bool {
		return first.view.Control.Person.ID == "" && !first.view.Running && first.view.Viewers == 2
	})
	if err := first.send(map[string]any{"type": "mouse", "do": "move"}); fault.CodeOf(err) != "control_not_taken" {
		t.Fatalf("a person without control: %v", err)
	}

	b.call("open", map[string]any{"url": b.site + "/form.html"})
	first.titled("Form")
	first.until("a picture of the page in its size", func() bool { // the first ones may be of the window before it has it
		if first.frame == nil || first.view.AgentTab != 1 {
			return false
		}
		size, err := jpeg.DecodeConfig(bytes.NewReader(first.frame.JPEG()))
		return err == nil && size.Width == 1280 && size.Height == 800
	})
	field := b.ref("Name")
	b.call("record", map[string]any{"do": "start"})
	b.call("type", map[string]any{"ref": field, "text": "agent "})

	for _, key := range []string{"Q", "Shift+Q", "Backspace", "Backspace"} {
		b.call("press", map[string]any{"key": key})
	}

	first.must(map[string]any{"type": "take"})
	b.refused("control_taken", "type", map[string]any{"ref": field, "text": "no"})
	b.refused("control_taken", "snapshot", map[string]any{})
	if err := stalled.send(map[string]any{"type": "key", "do": "down", "key": "x"}); fault.CodeOf(err) != "control_taken" {
		t.Errorf("another person's key: %v", err)
	}
	first.must(map[string]any{"type": "mouse", "do": "down", "x": 0.4, "y": 0.2, "button": "left", "clicks": 1})
	first.must(map[string]any{"type": "mouse", "do": "up", "x": 0.4, "y": 0.2, "button": "left", "clicks": 1})
	first.must(map[string]any{"type": "key", "do": "down", "key": "End"})
	first.must(map[string]any{"type": "key", "do": "up", "key": "End"})
	first.must(map[string]any{"type": "text", "text": "geheim"})
	waited := make(chan error, 1)
	go func() {
		_, err := b.try("wait", map[string]any{"text": "on no page", "gone": true, "seconds": 20}) // ends at once, also when it begins after the browser was given back
		waited <- err
	}()
	first.must(map[string]any{"type": "give"})
	if err := <-waited; err != nil {
		t.Fatalf("the agent waited: %v", err)
	}
	b.call("click", map[string]any{"ref": b.ref("Send")})
	first.titled("sent agent geheim")
	if all := strings.Join(b.told, "\n"); !strings.Contains(all, "Ada used the browser and gave it back") {
		t.Errorf("the agent read %q", all)
	}

	// A viewer that acknowledges nothing is sent two pictures, and holds up nobody.
	stalled.mu.Lock()
	if stalled.frames > 2 {
		t.Errorf("%d pictures were sent without an acknowledgement", stalled.frames)
	}
	stalled.mu.Unlock()

	// A dialog waits for the person who has control.
	first.must(map[string]any{"type": "take"})
	first.must(map[string]any{"type": "open", "url": b.site + "/ask.html"})
	first.until("a dialog", func() bool { return len(first.view.Tabs) == 1 && first.view.Tabs[0].Dialog != nil })
	first.must(map[string]any{"type": "dialog", "accept": true, "text": "Ada"})
	first.titled("answer Ada")
	first.must(map[string]any{"type": "give"})

	b.call("record", map[string]any{"do": "stop"})
	first.until("the end of the recording", func() bool { return !first.view.Recording })
	for {
		mu.Lock()
		raw := saved
		mu.Unlock()
		if raw != nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the recording was not saved")
		}
		time.Sleep(5 * time.Millisecond) // saving tells nobody
	}
	if !bytes.HasPrefix(saved, []byte("PWBR1\n")) || !bytes.Contains(saved, []byte("\xff\xd8\xff")) || !bytes.Contains(saved, []byte(`"tool":"take_over"`)) ||
		!bytes.Contains(saved, []byte(`"error":"control_taken"`)) || bytes.Contains(saved, []byte("geheim")) ||
		!bytes.Contains(saved, []byte("Backspace")) || bytes.Contains(saved, []byte(`"Q"`)) || bytes.Contains(saved, []byte("Shift+Q")) {
		t.Errorf("the recording of %d bytes lacks something, or holds what was typed", len(saved))
	}

	// A server that comes after one that was killed shows the same browser, without being asked to use it.
	b.call("record", map[string]any{"do": "start"})
	first.leave()
	stalled.leave()
	mu.Lock()
	saved = nil
	mu.Unlock()
	stop() // the file stays, as it does when a server is killed
	b.restart()
	again := b.watch(ada, true)
	again.titled("answer Ada")
	again.until("a picture of it", func() bool { return again.frame != nil })
	mu.Lock()
	defer mu.Unlock()
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) > 0 || !bytes.HasPrefix(saved, []byte("PWBR1\n")) {
		t.Errorf("the recording of the server before was not saved: %v %v", left, err)
	}
}

// busySandbox has something happen while a browser starts.
type busySandbox struct {
	testguest.Only
	starting func()
}

func (s *busySandbox) Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	s.starting()
	return s.Only.Place(ctx, kind)
}

func (s *busySandbox) Ensure(context.Context, string) (*executors.Place, error) {
	s.At.MarkResumed()
	return s.At, nil
}

// Who presses Start and closes the tab finds the browser when they come back, and can take it from agents, also when its sandbox was suspended.
func TestAViewerLeavesWhileTheBrowserStarts(t *testing.T) {
	busy := &busySandbox{}
	b := newBench(t, executors.Local, map[string]string{"form.html": formPage}, func(c *browser.Config) {
		busy.Only = c.Sandboxes.(testguest.Only)
		c.Sandboxes = busy
	})
	b.caller.SessionID = "ses_1"
	ada := control.Person{ID: "usr_ada", Name: "Ada"}
	first := b.watch(ada, true)
	busy.starting = sync.OnceFunc(first.leave)
	first.must(map[string]any{"type": "start"})

	again := b.watch(ada, true)
	again.until("the browser", func() bool { return again.view.Running && again.frame != nil })
	again.must(map[string]any{"type": "take"})
	b.refused("control_taken", "open", map[string]any{"url": b.site + "/form.html"})

	b.place.MarkSuspended("it was idle")
	again.must(map[string]any{"type": "open", "url": b.site + "/form.html"})
	if b.place.Asleep() {
		t.Error("the sandbox sleeps while a person uses its browser")
	}
	again.titled("Form")
}
