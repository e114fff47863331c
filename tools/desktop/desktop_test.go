//go:build linux

package desktop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testguest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/control"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/desktop/rfb"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	os.Exit(testguest.Run(m, &guestPath))
}

// bench is a Service over a real guest and the X server of this machine.
type bench struct {
	*testing.T
	cfg    desktop.Config
	s      *desktop.Service
	set    *tools.Set
	caller tools.Caller
	place  *executors.Place
	root   string
}

func newBench(t *testing.T, kind executors.Kind) *bench {
	t.Helper()
	for _, program := range []string{"Xvnc", "openbox", "xterm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: %v", err)
		}
	}
	one := testguest.Sandbox(t, kind, guestPath, nil)
	b := &bench{T: t, place: one.At, root: one.Root}
	b.cfg = desktop.Config{Sandboxes: one, Workspaces: one, AllowBare: os.Geteuid() == 0}
	b.caller = tools.Caller{TeamID: one.At.TeamID, WorkspaceID: one.At.WorkspaceID, UserID: "usr_1"}
	b.restart()
	return b
}

// restart makes a Service that knows nothing, as a restarted server's.
func (b *bench) restart() {
	b.s = desktop.New(b.cfg)
	var err error
	if b.set, err = tools.New(tools.Config{Tools: b.s.Tools()}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) try(name string, args map[string]any) (tools.Result, error) {
	b.Helper()
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	return b.set.Call(b.Context(), b.caller, "desktop_"+name, raw)
}

func (b *bench) call(name string, args map[string]any) tools.Result {
	b.Helper()
	r, err := b.try(name, args)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return r
}

func (b *bench) refused(code, name string, args map[string]any) {
	b.Helper()
	if _, err := b.try(name, args); fault.CodeOf(err) != code {
		b.Fatalf("%s: %v, not %s", name, err, code)
	}
}

// colours counts the colours of the screen.
func (b *bench) colours() int {
	b.Helper()
	r := b.call("screenshot", nil)
	img, err := png.Decode(bytes.NewReader(r.Content[1].Data))
	if err != nil {
		b.Fatal(err)
	}
	if img.Bounds().Dx() != guest.DesktopWidth || img.Bounds().Dy() != guest.DesktopHeight {
		b.Fatalf("the picture: %v", img.Bounds())
	}
	seen := map[any]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 3 {
		for x := 0; x < img.Bounds().Dx(); x += 3 {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// await waits until something on the desktop, which tells nobody, has happened.
func (b *bench) await(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("waited for %s", what)
		}
	}
}

func (b *bench) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(b.root, name))
	return string(data)
}

// terminal opens a window whose lines go to a file.
func (b *bench) terminal(name string) {
	b.Helper()
	empty := b.colours()
	at := filepath.Join(b.root, name)
	b.call("open", map[string]any{"argv": []string{"xterm", "-geometry", "80x24+100+100", "-e", "sh", "-c", "cat > " + at}})
	b.await("a window", func() bool { return b.colours() > empty })
	b.await("the program in it", func() bool { _, err := os.Stat(at); return err == nil })
	b.call("mouse", map[string]any{"action": "click", "x": 300, "y": 300})
}

// run tries what agents do.
func (b *bench) run() {
	b.refused("desktop_not_running", "screenshot", nil)
	b.status(desktop.Stopped)
	b.call("open", nil)
	b.status(desktop.Running)
	b.terminal("one")
	b.call("type", map[string]any{"text": "Hello, World!\n"})
	b.await("the text", func() bool { return b.file("one") == "Hello, World!\n" })
	b.refused("invalid_position", "mouse", map[string]any{"action": "click", "x": 1280, "y": 3})
	b.refused("invalid_url", "open", map[string]any{"url": "file:///etc/passwd"})
	b.refused("invalid_key", "key", map[string]any{"key": "Control+Nope"})
	b.refused("desktop_program_failed", "open", map[string]any{"argv": []string{"no-such-program"}})
}

func (b *bench) status(want desktop.Status) {
	b.Helper()
	if st, err := b.s.State(b.Context(), b.caller.TeamID, b.caller.WorkspaceID); err != nil || st.Status != want {
		b.Fatalf("the desktop is %+v %v, not %s", st, err, want)
	}
}

// person is somebody with a viewer.
type person struct {
	*bench
	v    *desktop.View
	rfb  *rfb.Conn
	may  error
	note sync.Mutex // guards may
}

func (b *bench) look(who control.Person) *person {
	b.Helper()
	p := &person{bench: b}
	var err error
	p.v, err = b.s.Look(b.Context(), desktop.Looking{TeamID: b.caller.TeamID, WorkspaceID: b.caller.WorkspaceID, Person: who, May: func(context.Context) error {
		p.note.Lock()
		defer p.note.Unlock()
		return p.may
	}})
	if err != nil {
		b.Fatal(err)
	}
	shown, to := io.Pipe()
	go func() { _ = to.CloseWithError(p.v.Show(to)) }()
	b.Cleanup(func() { p.v.Close(); _ = shown.Close() })
	if p.rfb, err = rfb.Open(struct {
		io.Reader
		io.Writer
	}{shown, p.v}); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *person) types(text string) {
	p.Helper()
	for _, r := range text {
		k := uint32(r)
		if r == '\n' {
			k = 0xff0d
		}
		if err := errors.Join(p.rfb.Key(true, k), p.rfb.Key(false, k)); err != nil {
			p.Fatal(err)
		}
	}
	if err := p.rfb.Sync(); err != nil {
		p.Fatal(err)
	}
}

// An agent starts the desktop and a program, types into its window, and finds all of it again after a restart of the server. Then a person looks,
// who can do nothing until they take over, and then the agent cannot.
func TestAgentsAndPeopleUseTheDesktop(t *testing.T) {
	t.Parallel()
	b := newBench(t, executors.Local)
	b.run()
	b.restart()
	b.status(desktop.Running)
	b.call("type", map[string]any{"text": "again\n"})
	b.await("the text", func() bool { return strings.HasSuffix(b.file("one"), "!\nagain\n") })

	team, ws := b.caller.TeamID, b.caller.WorkspaceID
	ada, bob := control.Person{ID: "usr_ada", Name: "Ada"}, control.Person{ID: "usr_bob", Name: "Bob"}
	if _, err := b.s.Look(t.Context(), desktop.Looking{TeamID: "team_2", WorkspaceID: ws, Person: ada}); fault.CodeOf(err) != "not_found" {
		t.Fatalf("another team looks: %v", err)
	}
	if err := b.s.Take(t.Context(), "team_2", ws, ada, true); fault.CodeOf(err) != "not_found" {
		t.Fatalf("another team takes over: %v", err)
	}
	p := b.look(ada)
	p.types("nothing\n")
	if _, err := p.rfb.Screenshot(); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Take(t.Context(), team, ws, ada, false); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]map[string]any{"key": {"key": "a"}, "type": {"text": "x"}, "mouse": {"action": "move", "x": 1, "y": 1}, "open": {"argv": []string{"xterm"}}, "close": nil, "screenshot": nil} {
		b.refused("control_taken", name, args)
	}
	if _, err := b.s.Close(t.Context(), team, ws, bob.ID); fault.CodeOf(err) != "control_taken" {
		t.Errorf("another person ends the desktop: %v", err)
	}
	p.types("person\n")
	b.await("the person's text", func() bool { return strings.HasSuffix(b.file("one"), "!\nagain\nperson\n") })
	if err := b.s.Give(t.Context(), team, ws, ada.ID); err != nil {
		t.Fatal(err)
	}
	p.types("dropped\n")
	b.call("type", map[string]any{"text": "agent\n"})
	b.await("the agent's text", func() bool { return strings.HasSuffix(b.file("one"), "person\nagent\n") })

	if err := b.s.Take(t.Context(), team, ws, ada, false); err != nil {
		t.Fatal(err)
	}
	if err := p.rfb.Key(true, 'x'); err != nil { // and not released
		t.Fatal(err)
	}
	p.note.Lock()
	p.may = errors.New("a right is gone")
	p.note.Unlock()
	b.await("an end of control", func() bool { p.types("lost\n"); return !b.s.Control(ws).Taken() })
	b.call("close", nil)
	if _, err := os.Stat(guest.DesktopDir(ws)); err == nil {
		t.Error("the desktop left its folder")
	}
	b.refused("desktop_not_running", "screenshot", nil)
	if _, err := b.s.Look(t.Context(), desktop.Looking{TeamID: team, WorkspaceID: ws, Person: ada}); fault.CodeOf(err) != "desktop_not_running" || !strings.Contains(err.Error(), "desktop_open") {
		t.Errorf("looking at none: %v", err)
	}
}

func TestADesktopInBubblewrap(t *testing.T) {
	t.Parallel()
	newBench(t, "bubblewrap").run()
}

// Who only looks cannot flood the VNC server, which answers them, and a view ends when the sandbox sleeps.
func TestAViewerIsSlowedAndEndsWithASleepingSandbox(t *testing.T) {
	t.Parallel()
	one := testguest.Sandbox(t, executors.Local, guestPath, nil)
	dir := guest.DesktopDir(one.At.WorkspaceID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, string(guest.DesktopVNC)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	s := desktop.New(desktop.Config{Sandboxes: one, Workspaces: one})
	v, err := s.Look(t.Context(), desktop.Looking{TeamID: one.At.TeamID, WorkspaceID: one.At.WorkspaceID, Person: control.Person{ID: "usr_ada"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	begin, fences := time.Now(), strings.Repeat("\xf8\x00\x00\x00\x80\x00\x00\x00\x00", desktop.MaxWrite/9)
	for _, says := range []string{"RFB 003.008\n\x01\x01", fences, fences, fences} {
		if _, err := v.Write([]byte(says)); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < 900*time.Millisecond {
		t.Errorf("%d bytes took %s", 3*len(fences), took)
	}
	one.At.MarkSuspended("idle")
	if _, err := v.Write([]byte("\x04\x01\x00\x00\x00\x00\x00a")); fault.CodeOf(err) != "desktop_not_running" {
		t.Errorf("input for a sandbox that sleeps: %v", err)
	}
	one.At.MarkResumed()
}
